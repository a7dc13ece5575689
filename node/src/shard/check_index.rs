//! Comparing the image of an active space with the stored rows, while applies go on.

use super::applier::ShardState;
use crate::index::{LoadError, Report, SharedImage, Verifier};
use holdfast_core::space::SpaceKey;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows compared in one step, for which applies of the shard wait: well below a millisecond.
const STEP_ROWS: usize = 128;
/// Images of at most so many rows are compared in one step, with the order of their turns.
const WHOLE_ROWS_MAX: usize = 1024;
/// So long a step waits for who looks at the image, while applies of the shard wait for the step.
const FREE_WITHIN: Duration = Duration::from_millis(20);
/// Attempts at one step that are in vain before the check is given up.
const VAIN_MAX: usize = 200;

impl ShardState {
    /// Compares the live image of a space with its stored rows. `pace` is told the rows of each step
    /// and blocks for as long as the next is to wait. `None` if the image left meanwhile.
    ///
    /// # Errors
    /// [`LoadError`] if the rows cannot be read.
    pub fn check_index(
        &self,
        space: &SpaceKey,
        mut pace: impl FnMut(usize),
    ) -> Result<Option<Report>, LoadError> {
        let Some(shared) = self.spaces.peek(space) else { return Ok(None) };
        let begin = self.visible();
        let mut verifier = Verifier::new(space);
        let whole = shared.read().rows().count() <= WHOLE_ROWS_MAX;
        let step_rows = if whole { WHOLE_ROWS_MAX * 2 } else { STEP_ROWS };
        let (mut steps, mut vain) = (0, 0);
        loop {
            // Between two batches image and rows are of one moment, once nothing waits beside the image.
            let applying = self.applying.lock();
            let soon = Instant::now() + FREE_WITHIN;
            let image = match self.spaces.catch_up(space, &shared, soon) {
                Ok(()) => shared.read_until(soon),
                Err(LoadError::Deadline) => None,
                Err(error) => return Err(error),
            };
            let Some(image) = image else {
                drop(applying);
                vain += 1;
                if vain > VAIN_MAX {
                    return Err(LoadError::Held);
                }
                std::thread::sleep(FREE_WITHIN);
                continue;
            };
            (steps, vain) = (steps + 1, 0);
            let ended = verifier.step(&image, &self.reader(), step_rows)?;
            if ended {
                let is_at_rest = steps == 1 || self.visible() == begin;
                let report = verifier.finish(&image, &self.reader(), is_at_rest)?;
                return Ok(self.is_live(space, &shared).then_some(report));
            }
            drop(image);
            drop(applying);
            pace(step_rows);
        }
    }

    /// An image that was evicted takes no more changes: what it lacks says nothing.
    fn is_live(&self, space: &SpaceKey, image: &SharedImage) -> bool {
        self.spaces.peek(space).is_some_and(|live| Arc::ptr_eq(&live, image))
    }

    /// Whether this shard holds a space.
    pub fn holds(&self, space: &SpaceKey) -> bool {
        self.owns(space)
    }

    /// The active spaces of this shard.
    pub fn live_spaces(&self) -> Vec<SpaceKey> {
        let mut live = self.spaces.live();
        live.retain(|space| self.owns(space));
        live
    }
}
