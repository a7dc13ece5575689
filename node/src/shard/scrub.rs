//! Comparing the rows of a state with the hash that was kept over them, while applies go on.

use super::applier::ShardState;
use super::snapshots::{BuildError, BuildLimits, ViewGuard};
use super::view::Purpose;
use holdfast_core::state::StateHash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What the rows of a state came to at one point of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrubbed {
    /// The point.
    pub index: u64,
    /// Rows that were read, and their hash.
    pub found: (u64, StateHash),
    /// Rows that there should be, and the hash that was kept.
    pub kept: (u64, StateHash),
    /// Bytes of keys and values that were read.
    pub bytes: u64,
}

impl Scrubbed {
    /// Whether the rows are those that were written.
    pub fn is_sound(&self) -> bool {
        self.found == self.kept
    }
}

/// How far a scrub has come, for whoever watches it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows that were read.
    pub rows: AtomicU64,
    /// Set to end it.
    pub stop: AtomicBool,
}

impl ShardState {
    /// Whether the rows should be read soon: they did not have their hash when a snapshot file was to be
    /// made of them.
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// They are being read.
    pub fn clear_doubt(&self) {
        self.doubted.store(false, Ordering::Relaxed);
    }

    /// Reads all rows as they are now and compares them with the hash that was kept. `pace` is told the
    /// bytes of each step and blocks for as long as the next is to wait. Blocks until it is done.
    ///
    /// # Errors
    /// [`BuildError::NotNow`] if there is nothing to read or another scrub is under way;
    /// [`BuildError::GivenUp`] if it takes more than `limits`; [`BuildError::State`] if a row cannot be
    /// read, which is damage as well.
    pub fn scrub(
        &self,
        limits: &BuildLimits,
        progress: &Progress,
        mut pace: impl FnMut(usize),
    ) -> Result<Scrubbed, BuildError> {
        let began = Instant::now();
        let point = self.begin_view(Purpose::Scrub, false)?;
        let view = ViewGuard(self, Purpose::Scrub);
        let (mut rows_read, mut hash, mut bytes) = (0, StateHash::default(), 0);
        loop {
            let (rows, ended) = self.next_range(Purpose::Scrub, limits)?;
            let mut step = 0;
            for (key, value) in &rows {
                hash.add(key, value);
                step += key.len() + value.len();
            }
            rows_read += rows.len() as u64;
            bytes += step as u64;
            progress.rows.store(rows_read, Ordering::Relaxed);
            if ended {
                break;
            }
            if began.elapsed() > limits.time {
                return Err(BuildError::GivenUp(format!("it took more than {:?}", limits.time)));
            }
            if progress.stop.load(Ordering::Relaxed) {
                return Err(BuildError::NotNow("the node stops"));
            }
            pace(step);
        }
        drop(view);
        let (found, kept) = ((rows_read, hash), (point.rows, point.hash));
        Ok(Scrubbed { index: point.position.index, found, kept, bytes })
    }
}
