//! A state written to a snapshot file, and made from one.

use super::KindCounts;
use super::applier::{Applying, ShardState};
use super::files::{OpenError, ShardFiles};
use super::position::Applied;
use super::sled_reader::Rows;
use super::store::Store;
use super::view::{Purpose, RANGE_KEYS, View, Views};
use crate::crash::{Step, crash_point};
use crate::raft::LogPosition;
use crate::snapshot::{Header, SnapshotError, SnapshotFile, SnapshotFiles};
use holdfast_core::limits::BATCH_ROWS_MAX;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::state::{Row, StateError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause before each apply while a build is given a second chance.
const PAUSE: Duration = Duration::from_millis(1);
/// And when it has used half of what it may keep.
const PAUSE_LONG: Duration = Duration::from_millis(10);

/// How much a build may take.
#[derive(Debug, Clone, Copy)]
pub struct BuildLimits {
    /// Memory for values that were changed ahead of the reader.
    pub kept_bytes: usize,
    /// Time.
    pub time: Duration,
}

impl Default for BuildLimits {
    /// 64 MiB and 10 minutes.
    fn default() -> Self {
        Self { kept_bytes: 64 << 20, time: Duration::from_mins(10) }
    }
}

/// Why a snapshot file was not built. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is nothing to write, or not now.
    #[error("no snapshot file can be built now: {0}")]
    NotNow(&'static str),
    /// It took more than it may.
    #[error("the build of a snapshot file was given up: {0}")]
    GivenUp(String),
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] SnapshotError),
    /// The rows could not be read.
    #[error(transparent)]
    State(#[from] StateError),
}

impl ShardState {
    /// The snapshot files.
    pub fn snapshots(&self) -> &Arc<SnapshotFiles> {
        &self.snapshots
    }

    /// Bytes of log applied since the newest snapshot file.
    pub fn log_bytes_since_snapshot(&self) -> u64 {
        let before = self.snapshots.newest().map_or(0, |file| file.header().log_bytes);
        self.log_bytes.load(Ordering::Relaxed).saturating_sub(before)
    }

    /// How often the state was replaced by a snapshot file since the process started.
    pub fn installs(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }

    /// Writes the present state to a file while applies go on; slowly, if they leave no room
    /// (`throttle`). Blocks for as long as that takes, or until `stop`.
    ///
    /// # Errors
    /// [`BuildError`]; the newest file is then the one before.
    pub fn build_snapshot(
        &self,
        limits: &BuildLimits,
        throttle: bool,
        stop: &AtomicBool,
    ) -> Result<Arc<SnapshotFile>, BuildError> {
        let began = Instant::now();
        let header = self.begin_view(Purpose::Build, throttle)?;
        // From here on the view goes, whatever happens.
        let view = ViewGuard(self, Purpose::Build);
        if let Some(newest) = self.snapshots.newest()
            && newest.id().index >= header.position.index
        {
            return Ok(newest);
        }
        let mut draft = self.snapshots.draft(header)?;
        loop {
            let (rows, ended) = self.next_range(Purpose::Build, limits)?;
            for (key, value) in &rows {
                draft.push(key, value)?;
            }
            if ended {
                break;
            }
            if began.elapsed() > limits.time {
                return Err(BuildError::GivenUp(format!("it took more than {:?}", limits.time)));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(BuildError::NotNow("the node stops"));
            }
        }
        drop(view);
        let file = draft.publish().inspect_err(|error| {
            if matches!(error, SnapshotError::Rows(_)) {
                self.doubted.store(true, Ordering::Relaxed);
            }
        })?;
        // Not for durability, which sled cannot give: so that after a kill the state is not behind
        // the purged log, which would cost a restore.
        self.store().flush().map_err(|error| {
            self.sled_failed(&error);
            StateError(format!("sled: {error}"))
        })?;
        crash_point(Step::StateFlushed);
        Ok(file)
    }

    /// Registers a view of the state between two applies.
    pub(super) fn begin_view(&self, purpose: Purpose, throttle: bool) -> Result<Header, BuildError> {
        let mut applying = self.applying.lock();
        let Applying { applied, views, failed } = &mut *applying;
        let view = views.of(purpose);
        let Some(position) = applied.last else { return Err(BuildError::NotNow("the state is empty")) };
        if *failed || applied.partial.is_some() {
            return Err(BuildError::NotNow("an entry is applied in part"));
        }
        if view.is_some() {
            return Err(BuildError::NotNow("another one is under way"));
        }
        *view = Some(View::default());
        if throttle {
            self.set_pause(PAUSE);
        }
        Ok(Header::new(
            &self.cluster,
            self.group,
            position,
            applied.membership.clone(),
            (applied.hash, applied.rows, applied.log_bytes),
        ))
    }

    pub(super) fn next_range(
        &self,
        purpose: Purpose,
        limits: &BuildLimits,
    ) -> Result<(Vec<Row>, bool), BuildError> {
        let mut applying = self.applying.lock();
        let Some(view) = applying.views.of(purpose) else {
            return Err(BuildError::GivenUp("the state failed or was replaced".into()));
        };
        let kept = view.kept_bytes();
        if kept > limits.kept_bytes {
            return Err(BuildError::GivenUp(format!(
                "applies changed more than {} bytes ahead of it",
                limits.kept_bytes
            )));
        }
        if purpose == Purpose::Build && self.pause_us.load(Ordering::Relaxed) > 0 {
            self.set_pause(if kept > limits.kept_bytes / 2 { PAUSE_LONG } else { PAUSE });
        }
        let store = self.store();
        let (rows, ended) = view.next_range(&Rows { store: &store, live: Some(self) }, RANGE_KEYS)?;
        if ended {
            *applying.views.of(purpose) = None;
        }
        Ok((rows, ended))
    }

    fn set_pause(&self, pause: Duration) {
        let us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.pause_us.store(us, Ordering::Relaxed);
    }

    /// Replaces the whole state by a snapshot file. No entry is applied meanwhile; readers see the
    /// old state until the new one is complete.
    ///
    /// # Errors
    /// [`OpenError`]; the state is then the one before, unless the last step failed.
    pub fn install(&self, file: &SnapshotFile) -> Result<(), OpenError> {
        // A rebuild that is under way gives way: its group waits for this file.
        self.install_waits.store(true, Ordering::Relaxed);
        let _one_at_a_time = self.replacing.lock();
        self.install_waits.store(false, Ordering::Relaxed);
        let mut applying = self.applying.lock();
        if applying.applied.last.is_some_and(|last| last.index >= file.id().index) {
            return Ok(());
        }
        applying.views = Views::default();
        let mut files = self.files.lock();
        let files = files.as_mut().ok_or_else(|| closed(file))?;
        let (db, applied) = load(files, file, self.cache_bytes)?;
        *self.store.write() = Store::new(db);
        files.remove_others()?;
        crash_point(Step::OldStateRemoved);
        // Every load that began before now is cancelled, every later one reads the new database.
        self.spaces.forget(|space| self.owns(space));
        self.points.lock().replace(Vec::new());
        self.publish(&applied);
        applying.applied = applied;
        self.made_from(file.id().index, files);
        self.installed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn owns(&self, space: &SpaceKey) -> bool {
        let Shard(shard) = space.slot().initial_shard(self.shards);
        u32::from(shard) == self.group
    }
}

/// Ends a view, and the pauses for the sake of a build.
pub(super) struct ViewGuard<'a>(pub(super) &'a ShardState, pub(super) Purpose);

impl Drop for ViewGuard<'_> {
    fn drop(&mut self) {
        *self.0.applying.lock().views.of(self.1) = None;
        if self.1 == Purpose::Build {
            self.0.pause_us.store(0, Ordering::Relaxed);
        }
    }
}

/// Makes a state that is older than the newest file from that file; `None` if it is not older, or no
/// file can be used. A damaged file is set aside.
pub(super) fn restore(
    snapshots: &SnapshotFiles,
    files: &mut ShardFiles,
    applied: Option<LogPosition>,
    cache_bytes: u64,
) -> Result<Option<(sled::Db, Applied)>, OpenError> {
    let Some(file) = snapshots.newest() else { return Ok(None) };
    let index = file.id().index;
    if applied.is_some_and(|applied| applied.index >= index) {
        return Ok(None);
    }
    match load(files, &file, cache_bytes) {
        Ok(restored) => {
            files.remove_others()?;
            crash_point(Step::OldStateRemoved);
            tracing::info!(group = file.header().group, index, "state restored from its snapshot file");
            Ok(Some(restored))
        }
        Err(OpenError::Snapshot(cause)) => {
            snapshots.give_up(&file, &cause)?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Loads the rows of a file into the next generation's database and makes that the current one.
fn load(
    files: &mut ShardFiles,
    file: &SnapshotFile,
    cache_bytes: u64,
) -> Result<(sled::Db, Applied), OpenError> {
    let db = files.open_next(cache_bytes)?;
    let applied = match fill(&db, file) {
        Ok(applied) => applied,
        Err(error) => {
            drop(db);
            files.discard_next()?;
            return Err(error);
        }
    };
    crash_point(Step::Loaded);
    files.switch_to_next()?;
    crash_point(Step::Switched);
    Ok((db, applied))
}

/// Writes the rows of a file to an empty database, and last of all how far it is applied.
pub(super) fn fill(db: &sled::Db, file: &SnapshotFile) -> Result<Applied, OpenError> {
    let sled_error = |error: sled::Error| OpenError::Sled { path: file.path().to_owned(), error };
    let mut reader = file.reader()?;
    let mut kinds = KindCounts::default();
    while let Some(rows) = reader.next_block()? {
        for rows in rows.chunks(BATCH_ROWS_MAX) {
            let mut batch = sled::Batch::default();
            for (key, value) in rows {
                kinds.add(key, value).map_err(|error| SnapshotError::Row(error.to_string()))?;
                batch.insert(key.as_slice(), value.as_slice());
            }
            db.apply_batch(batch).map_err(sled_error)?;
        }
    }
    let applied = Applied::of_snapshot(reader.header(), kinds);
    let bytes = applied.encode().map_err(|error| SnapshotError::Row(error.to_string()))?;
    db.flush().map_err(sled_error)?;
    db.insert(Applied::key(), bytes).map_err(sled_error)?;
    db.flush().map_err(sled_error)?;
    Ok(applied)
}

fn closed(file: &SnapshotFile) -> OpenError {
    let error = std::io::Error::other("the state is closed");
    OpenError::Io { path: file.path().to_owned(), error }
}
