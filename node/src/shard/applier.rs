use super::KindCounts;
use super::files::{BootId, OpenError, Opened, ShardFiles};
use super::position::Applied;
use super::sled_reader::{ShardReader, SledReader};
use super::snapshots::{BuildLimits, restore};
use super::view::View;
use crate::index::Spaces;
use crate::metrics::ApplyMetrics;
use crate::raft::{
    AppliedState, Applier, ApplierError, CommittedBody, CommittedEntry, GroupId, LogPosition, Outcomes,
};
use crate::snapshot::{SnapshotFile, SnapshotFiles};
use bytes::Bytes;
use holdfast_core::apply::{self, Position};
use holdfast_core::codec::{CodecError, Stored};
use holdfast_core::command::Command;
use holdfast_core::event::Event;
use holdfast_core::limits::BATCH_ROWS_MAX;
use holdfast_core::outcome::Outcome;
use holdfast_core::state::{Overlay, Reader, StateError, StateHash};
use holdfast_core::{Error, ErrorCode};
use parking_lot::{Mutex, RwLock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A batch is written when it holds this many rows, so that a usual next command still fits into
/// [`BATCH_ROWS_MAX`]; sled holds a process-wide lock while it takes a batch.
const BATCH_ROWS_FULL: usize = BATCH_ROWS_MAX * 3 / 4;

/// Which replica of which shard, and where it is.
#[derive(Debug, Clone, Copy)]
pub struct ShardPlace<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// How many shards it has.
    pub shards: u16,
    /// The shard.
    pub group: GroupId,
    /// Its directory; made if it is missing.
    pub dir: &'a Path,
    /// The kernel's boot.
    pub boot: &'a BootId,
    /// Memory for the pages of its database.
    pub cache_bytes: u64,
}

/// The state of one replica of one shard.
pub struct ShardState {
    pub(super) group: GroupId,
    pub(super) cluster: String,
    pub(super) shards: u16,
    pub(super) cache_bytes: u64,
    /// Replaced as a whole when a snapshot file is installed.
    pub(super) db: RwLock<sled::Db>,
    pub(super) spaces: Arc<Spaces>,
    /// Held while entries are applied; what it guards is what sled holds.
    pub(super) applying: Mutex<Applying>,
    pub(super) visible: watch::Sender<Option<u64>>,
    /// The hash at the visible index, apart from `applying` so that asking for it never waits for an
    /// apply or a recomputation.
    pub(super) published: Mutex<ShardHash>,
    /// Rows at the visible index.
    pub(super) rows: AtomicU64,
    /// Bytes of all entries up to the visible index.
    pub(super) log_bytes: AtomicU64,
    /// Memories by kind at the visible index.
    pub(super) kinds: Mutex<KindCounts>,
    metrics: Option<ApplyMetrics>,
    pub(super) files: Mutex<Option<ShardFiles>>,
    pub(super) snapshots: Arc<SnapshotFiles>,
    /// Microseconds to wait before each apply, so that the build of a snapshot file keeps up.
    pub(super) pause_us: AtomicU64,
    /// How often the state was replaced by a snapshot file, at the start or since.
    pub(super) installed: AtomicU64,
}

/// What is guarded by the mutex of applies.
#[derive(Debug, Default)]
pub(super) struct Applying {
    /// What sled holds.
    pub(super) applied: Applied,
    /// The point whose rows are being written to a file.
    pub(super) view: Option<View>,
    /// An apply failed half-way: sled holds more than `applied` says. Nothing follows.
    pub(super) failed: bool,
}

/// The hash of a replica's rows at a log index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardHash {
    /// The last applied log index, `None` for an empty state.
    pub index: Option<u64>,
    /// The hash.
    pub hash: StateHash,
}

impl ShardState {
    /// Opens the state. Where it cannot be trusted, or is older than the snapshot file, it begins with
    /// what the file holds, or empty without one; the log brings the rest.
    ///
    /// # Errors
    /// [`OpenError`] if not even an empty state can be opened.
    pub fn open(place: ShardPlace<'_>, spaces: Arc<Spaces>) -> Result<Self, OpenError> {
        let ShardPlace { cluster, shards, group, dir, boot, cache_bytes } = place;
        let Opened { mut db, mut files, set_aside } =
            ShardFiles::open(dir, boot, cache_bytes, |db| read_applied(db).map(drop))?;
        if let Some(reason) = &set_aside {
            tracing::warn!(group, %reason, "state set aside; it is rebuilt from the snapshot file and the log");
        }
        let mut applied = read_applied(&db).map_err(|reason| OpenError::Io {
            path: dir.to_owned(),
            error: std::io::Error::new(std::io::ErrorKind::InvalidData, reason),
        })?;
        let snapshots = SnapshotFiles::open(&dir.join("snapshots"), cluster, group)?;
        let mut installed = 0;
        if let Some(restored) = restore(&snapshots, &mut files, applied.last, cache_bytes)? {
            (db, applied) = restored;
            installed = 1;
        }
        if applied.kinds.is_none() {
            applied.kinds = Some(KindCounts::of_rows(&db).map_err(|reason| OpenError::Io {
                path: dir.to_owned(),
                error: std::io::Error::new(std::io::ErrorKind::InvalidData, reason),
            })?);
        }
        let (visible, _) = watch::channel(applied.last.map(|last| last.index));
        Ok(Self {
            group,
            cluster: cluster.to_owned(),
            shards,
            cache_bytes,
            db: RwLock::new(db),
            spaces,
            visible,
            published: Mutex::new(applied.published()),
            rows: AtomicU64::new(applied.rows),
            log_bytes: AtomicU64::new(applied.log_bytes),
            kinds: Mutex::new(applied.kinds.unwrap_or_default()),
            applying: Mutex::new(Applying { applied, ..Applying::default() }),
            metrics: None,
            files: Mutex::new(Some(files)),
            snapshots,
            pause_us: AtomicU64::new(0),
            installed: AtomicU64::new(installed),
        })
    }

    /// Records from now on what applying takes.
    pub(crate) fn measured_by(self, metrics: ApplyMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Number of replicated rows.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Number of memories, by kind.
    pub fn memories(&self) -> KindCounts {
        *self.kinds.lock()
    }

    /// Bytes of the database's files. Asks the file system.
    ///
    /// # Errors
    /// If the files cannot be looked at.
    pub fn disk_bytes(&self) -> Result<u64, StateError> {
        self.db().size_on_disk().map_err(|error| StateError(format!("sled: {error}")))
    }

    /// Reads of the rows: each one of the database that is current then.
    pub fn reader(&self) -> ShardReader<'_> {
        ShardReader(self)
    }

    /// The current database.
    pub(super) fn db(&self) -> sled::Db {
        self.db.read().clone()
    }

    /// The active spaces that follow this state.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The log index up to which readers see everything, `None` before the first entry.
    pub fn visible(&self) -> Option<u64> {
        *self.visible.borrow()
    }

    /// Follows [`ShardState::visible`].
    pub fn watch_visible(&self) -> watch::Receiver<Option<u64>> {
        self.visible.subscribe()
    }

    /// The running hash.
    pub fn hash(&self) -> ShardHash {
        *self.published.lock()
    }

    /// The hash recomputed from the rows; applies wait meanwhile.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupted`] if the rows cannot be read or their hash is not the running one.
    pub fn recompute_hash(&self) -> holdfast_core::Result<ShardHash> {
        const PAGE: usize = 512;
        let corrupted = |detail: String| Error::new(ErrorCode::Corrupted, detail);
        let applying = self.applying.lock();
        let applied = &applying.applied;
        let mut hash = StateHash::default();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let rows = self
                .reader()
                .scan(&[], after.as_deref(), PAGE)
                .map_err(|error| corrupted(error.to_string()))?;
            rows.iter().for_each(|(key, value)| hash.add(key, value));
            if rows.len() < PAGE {
                break;
            }
            after = rows.into_iter().next_back().map(|(key, _)| key);
        }
        if hash != applied.hash {
            return Err(corrupted(format!(
                "the rows of group {} do not have the hash that was kept",
                self.group
            )));
        }
        Ok(applied.published())
    }

    /// Leaves the state in order, so that the next start may open it even after a reboot. No entry
    /// may be applied afterwards.
    ///
    /// # Errors
    /// If it cannot be synced; the next start under another boot then rebuilds it.
    pub fn close(&self) -> Result<(), OpenError> {
        let mut applying = self.applying.lock();
        applying.view = None;
        match self.files.lock().take() {
            Some(files) => files.close_clean(&self.db()),
            None => Ok(()),
        }
    }

    /// Applies the commands of one entry, from `done` on.
    fn apply_entry(
        &self,
        batch: &mut Batch<'_>,
        position: LogPosition,
        stamp_us: u64,
        commands: &[Bytes],
    ) -> Result<Outcomes, ApplierError> {
        let stamp_us = i64::try_from(stamp_us).unwrap_or(i64::MAX);
        let done = batch.applied.done_of(position.index);
        let mut outcomes = Vec::with_capacity(commands.len());
        for (ordinal, bytes) in commands.iter().enumerate() {
            if ordinal < done {
                // Applied before this process started: nobody waits for the answer any more.
                outcomes.push(encoded(&Outcome::Failed(answered_before()))?);
                continue;
            }
            if batch.overlay.len() >= BATCH_ROWS_FULL {
                let ordinal = u32::try_from(ordinal).map_err(|error| fatal(&error))?;
                batch.applied.partial = Some((position.index, ordinal));
                self.commit(batch)?;
            }
            let command = Command::decode(bytes).map_err(|error| fatal(&error))?;
            let at = Position { log_index: position.index, stamp_us };
            let done = apply::apply(&mut batch.overlay, at, &command).map_err(|error| fatal(&error))?;
            batch.events.extend(done.events);
            outcomes.push(encoded(&done.outcome)?);
        }
        Ok(outcomes)
    }

    /// Writes a batch in one atomic step and shows it to the live images.
    fn commit(&self, batch: &mut Batch<'_>) -> Result<(), ApplierError> {
        let overlay = std::mem::replace(&mut batch.overlay, Overlay::remembering(SledReader(batch.db)));
        let changes = overlay.into_changes().map_err(|error| fatal(&error))?;
        if let Some(view) = batch.view {
            view.keep(&changes.rows);
        }
        batch.applied.hash.follow(&changes);
        batch.applied.count(&changes).map_err(|error| fatal(&error))?;
        if let Some(metrics) = &self.metrics {
            metrics.written(changes.rows.len());
        }
        let mut writes = sled::Batch::default();
        for change in changes.rows {
            match change.new {
                Some(value) => writes.insert(change.key, value),
                None => writes.remove(change.key),
            }
        }
        writes.insert(Applied::key(), batch.applied.encode().map_err(|error| fatal(&error))?);
        let announced = self.spaces.open_batch();
        batch.db.apply_batch(writes).map_err(|error| fatal(&error))?;
        announced.deliver(&batch.events);
        batch.events.clear();
        Ok(())
    }
}

/// Commands that were applied and are not in sled yet.
struct Batch<'a> {
    db: &'a sled::Db,
    overlay: Overlay<SledReader<'a>>,
    applied: Applied,
    events: Vec<Event>,
    view: &'a mut Option<View>,
}

impl ShardState {
    /// Applies entries, and answers what is applied then.
    fn apply_entries(
        &self,
        before: Applied,
        view: &mut Option<View>,
        entries: Vec<CommittedEntry>,
    ) -> Result<(Applied, Vec<Outcomes>), ApplierError> {
        let db = self.db();
        let overlay = Overlay::remembering(SledReader(&db));
        let mut batch = Batch { db: &db, overlay, applied: before, events: Vec::new(), view };
        let mut answers = Vec::with_capacity(entries.len());
        for entry in entries {
            batch.applied.log_bytes += entry.log_bytes();
            let outcomes = match entry.body {
                CommittedBody::Blank => Vec::new(),
                CommittedBody::Membership(bytes) => {
                    batch.applied.membership = bytes;
                    Vec::new()
                }
                CommittedBody::Normal(payload) => {
                    self.apply_entry(&mut batch, entry.position, payload.stamp_us, &payload.commands)?
                }
            };
            batch.applied.last = Some(entry.position);
            batch.applied.partial = None;
            answers.push(outcomes);
        }
        self.commit(&mut batch)?;
        Ok((batch.applied, answers))
    }

    /// Lets readers see what is applied.
    pub(super) fn publish(&self, applied: &Applied) {
        *self.published.lock() = applied.published();
        self.rows.store(applied.rows, Ordering::Relaxed);
        self.log_bytes.store(applied.log_bytes, Ordering::Relaxed);
        *self.kinds.lock() = applied.kinds.unwrap_or_default();
        self.visible.send_replace(applied.last.map(|last| last.index));
    }
}

impl Applier for ShardState {
    fn applied(&self) -> Result<AppliedState, ApplierError> {
        let applying = self.applying.lock();
        let Applied { last, membership, .. } = &applying.applied;
        Ok(AppliedState { last: *last, membership: membership.clone() })
    }

    fn apply(&self, entries: Vec<CommittedEntry>) -> Result<Vec<Outcomes>, ApplierError> {
        let begin = Instant::now();
        let mut applying = self.applying.lock();
        let Applying { applied, view, failed } = &mut *applying;
        let (after, answers) = self.apply_entries(applied.clone(), view, entries).inspect_err(|_| {
            *failed = true;
            *view = None;
        })?;
        *applied = after;
        self.publish(applied);
        if let Some(metrics) = &self.metrics {
            metrics.applied(answers.iter().map(Vec::len).sum(), begin.elapsed());
        }
        Ok(answers)
    }

    fn pause(&self) -> Duration {
        Duration::from_micros(self.pause_us.load(Ordering::Relaxed))
    }

    fn snapshot_files(&self) -> Option<Arc<SnapshotFiles>> {
        Some(Arc::clone(&self.snapshots))
    }

    fn build_snapshot(&self) -> Result<Arc<SnapshotFile>, ApplierError> {
        let limits = BuildLimits::default();
        ShardState::build_snapshot(self, &limits, false, &AtomicBool::new(false))
            .map_err(|error| fatal(&error))
    }

    fn install_snapshot(&self, file: &SnapshotFile) -> Result<(), ApplierError> {
        self.install(file).map_err(|error| fatal(&error))
    }
}

pub(super) fn read_applied(db: &sled::Db) -> Result<Applied, String> {
    let row = SledReader(db).get(&Applied::key()).map_err(|error| error.to_string())?;
    match row {
        Some(bytes) => Applied::decode(&bytes).map_err(|error: CodecError| error.to_string()),
        None if db.is_empty() => Ok(Applied::empty()),
        None => Err("there are rows but no applied position".into()),
    }
}

fn answered_before() -> Error {
    Error::new(
        ErrorCode::UnknownOutcome,
        "this command was applied before a restart; repeat it to learn its outcome",
    )
}

fn encoded(outcome: &Outcome) -> Result<Bytes, ApplierError> {
    outcome.encode().map(Bytes::from).map_err(|error| fatal(&error))
}

fn fatal(error: &dyn std::error::Error) -> ApplierError {
    ApplierError::new(error.to_string())
}
