//! Making a state anew beside the one that is wrong, while the group goes on.
//!
//! The replica's log is sound, whatever became of its rows: it is under checksums, and a majority has
//! agreed to it. So a second database is filled from a snapshot file and the log, is checked at a point
//! at which the other replicas agree, catches up with what is applied meanwhile, and takes the place of
//! the first between two applies. openraft notices nothing: the applied position stays what it was.

use super::applier::{Applying, ShardState};
use super::batch::{Done, Target, apply_entries};
use super::files::OpenError;
use super::points::Point;
use super::position::Applied;
use super::snapshots::fill;
use super::store::Store;
use super::view::Views;
use crate::raft::{ApplierError, CommittedEntry};
use crate::snapshot::SnapshotFile;
use holdfast_core::state::StateHash;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So many entries are left for the end, which applies wait for.
const LAST_ENTRIES: u64 = 64;
/// The pause before each apply once the log has outrun the rebuild a few times.
const PAUSE_US: u64 = 5_000;
const ROUNDS_UNPAUSED: u32 = 3;
/// A rebuild is given up after this long.
const TIME_MAX: Duration = Duration::from_mins(60);

/// Why a state was not made anew. The one that was there is still there.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// What the source comes to is not what the other replicas hold.
    #[error(
        "from {source_name} the state at log index {index} comes to hash {found:032x}, not {wanted:032x}"
    )]
    WrongSource {
        /// The file, or the log alone.
        source_name: String,
        /// Where it was compared.
        index: u64,
        /// What it came to.
        found: u128,
        /// What the other replicas hold.
        wanted: u128,
    },
    /// The source begins behind the point at which the others agree.
    #[error("the snapshot file is newer than the last point at which replicas were compared ({0})")]
    PointTooOld(u64),
    /// The log could not be read.
    #[error("the log: {0}")]
    Log(String),
    /// An entry could not be applied.
    #[error(transparent)]
    Apply(#[from] ApplierError),
    /// A file could not be read or written.
    #[error(transparent)]
    Files(#[from] OpenError),
    /// Something else comes first.
    #[error("the rebuild was given up: {0}")]
    GivenUp(&'static str),
}

/// What a state is made from.
pub struct Source<'a> {
    /// The rows to begin with; none for an empty state.
    pub file: Option<&'a SnapshotFile>,
    /// The hash that the state must come to at an index, which this replica has applied.
    pub must: Option<Point>,
    /// Reads entries of the log that this replica has applied: from the first index on, up to the
    /// second (not included), one at least.
    pub entries: &'a dyn Fn(u64, u64) -> Result<Vec<CommittedEntry>, String>,
    /// Set to give up.
    pub stop: &'a AtomicBool,
    /// Whether the state that was there is kept for whoever wants to look: one that was wrong is. One that
    /// holds what was erased is not, nor is any that was kept before.
    pub keep: bool,
}

/// The database that is being made.
struct Draft {
    store: Store,
    applied: Applied,
    points: Vec<Point>,
}

impl Draft {
    fn next_index(&self) -> u64 {
        self.applied.last.map_or(0, |last| last.index + 1)
    }

    /// Applies the log up to `last`, included.
    fn apply_to(
        &mut self,
        last: u64,
        source: &Source<'_>,
        check: impl Fn() -> Result<(), RebuildError>,
    ) -> Result<(), RebuildError> {
        while self.next_index() <= last {
            check()?;
            let entries = (source.entries)(self.next_index(), last + 1).map_err(RebuildError::Log)?;
            let first = entries.first().map(|entry| entry.position.index);
            if first != Some(self.next_index()) {
                return Err(RebuildError::Log(format!("entry {} is missing", self.next_index())));
            }
            let target = Target { store: &self.store, views: None, live: None };
            let Done { applied, points, .. } = apply_entries(target, self.applied.clone(), entries)?;
            self.applied = applied;
            self.points.extend(points);
        }
        Ok(())
    }

    fn check_point(&self, must: Option<Point>, source: &Source<'_>) -> Result<(), RebuildError> {
        match must {
            Some(Point { index, hash }) if self.applied.hash != hash => Err(RebuildError::WrongSource {
                source_name: source
                    .file
                    .map_or_else(|| "the log alone".into(), |file| format!("snapshot file {}", file.id())),
                index,
                found: self.applied.hash.0,
                wanted: hash.0,
            }),
            _ => Ok(()),
        }
    }
}

impl ShardState {
    /// Makes the state anew and puts it in the place of the present one, whose directory is kept and
    /// named. Blocks for as long as that takes; readers see the old state until the new one is complete.
    ///
    /// # Errors
    /// [`RebuildError`]; nothing has changed then.
    pub fn rebuild(&self, source: &Source<'_>) -> Result<PathBuf, RebuildError> {
        let _one_at_a_time = self.replacing.lock();
        let began = Instant::now();
        let check = || match () {
            () if source.stop.load(Ordering::Relaxed) => Err(RebuildError::GivenUp("the node stops")),
            () if self.install_waits.load(Ordering::Relaxed) => {
                Err(RebuildError::GivenUp("a snapshot file is to be installed"))
            }
            () if began.elapsed() > TIME_MAX => Err(RebuildError::GivenUp("it took too long")),
            () => Ok(()),
        };
        let made = self.make(source, check).and_then(|draft| self.put_in_place(draft, source, check));
        self.pause_us.store(0, Ordering::Relaxed);
        if made.is_err()
            && let Some(files) = self.files.lock().as_ref()
            && let Err(error) = files.discard_next()
        {
            tracing::warn!(group = self.group, %error, "what a rebuild left could not be removed");
        }
        made
    }

    /// Fills the next database until it is nearly as far as the present one.
    fn make(
        &self,
        source: &Source<'_>,
        check: impl Fn() -> Result<(), RebuildError> + Copy,
    ) -> Result<Draft, RebuildError> {
        let db = match self.files.lock().as_ref() {
            Some(files) => files.open_next(self.cache_bytes)?,
            None => return Err(RebuildError::GivenUp("the state is closed")),
        };
        let applied = match source.file {
            Some(file) => fill(&db, file)?,
            None => Applied::empty(),
        };
        let mut draft = Draft { store: Store::new(db), applied, points: Vec::new() };
        if let Some(must) = source.must {
            if draft.next_index() > must.index + 1 {
                return Err(RebuildError::PointTooOld(must.index));
            }
            draft.apply_to(must.index, source, check)?;
            draft.check_point(source.must, source)?;
        }
        for round in 0.. {
            let Some(last) = self.visible() else { break };
            if last < draft.next_index() + LAST_ENTRIES {
                break;
            }
            if round == ROUNDS_UNPAUSED {
                self.pause_us.store(PAUSE_US, Ordering::Relaxed);
            }
            draft.apply_to(last, source, check)?;
        }
        draft.store.flush().map_err(|error| sled_error(&error))?;
        Ok(draft)
    }

    /// Applies the rest, while applies wait, and changes the databases.
    fn put_in_place(
        &self,
        mut draft: Draft,
        source: &Source<'_>,
        check: impl Fn() -> Result<(), RebuildError>,
    ) -> Result<PathBuf, RebuildError> {
        let mut applying = self.applying.lock();
        if applying.failed {
            return Err(RebuildError::GivenUp("the group has failed; restart the node"));
        }
        let last = applying.applied.last;
        if let Some(last) = last {
            draft.apply_to(last.index, source, check)?;
        }
        if draft.applied.last != last {
            return Err(RebuildError::GivenUp("the snapshot file is newer than what is applied"));
        }
        // A state that was sound is only replaced by an equal one.
        if !source.keep {
            draft.check_point(
                Some(Point { index: last.map_or(0, |last| last.index), hash: applying.applied.hash }),
                source,
            )?;
        }
        draft.store.flush().map_err(|error| sled_error(&error))?;
        let Draft { store, applied, points } = draft;
        // For whoever wants to look; what the old one has not written by now is lost with it.
        if let Err(error) = self.store().flush() {
            tracing::warn!(group = self.group, %error, "the old state was not flushed");
        }
        let mut files = self.files.lock();
        let files = files.as_mut().ok_or(RebuildError::GivenUp("the state is closed"))?;
        files.switch_to_next()?;
        // From here on the new one is the state, whatever happens to the old directory.
        let kept = if source.keep { files.keep_previous() } else { files.remove_all_others() };
        *self.store.write() = store;
        // Every load that began before now is cancelled, every later one reads the new database.
        self.spaces.forget(|space| self.owns(space));
        self.points.lock().replace(points);
        self.publish(&applied);
        *applying = Applying { applied, views: Views::default(), failed: false };
        if let Some(file) = source.file {
            self.made_from(file.id().index, files);
        }
        self.installed.fetch_add(1, Ordering::Relaxed);
        Ok(kept.unwrap_or_else(|error| {
            tracing::warn!(group = self.group, %error, "the old state could not be kept");
            PathBuf::new()
        }))
    }

    /// How often the rows were replaced as a whole, at the start or since: by a snapshot file, or
    /// because they were wrong.
    pub fn replacements(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }
}

fn sled_error(error: &sled::Error) -> RebuildError {
    RebuildError::Apply(ApplierError(format!("sled: {error}")))
}

/// A point as [`Source::must`].
pub fn point(index: u64, hash: u128) -> Point {
    Point { index, hash: StateHash(hash) }
}
