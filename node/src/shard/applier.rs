use super::KindCounts;
use super::files::{BootId, OpenError, Opened, ShardFiles};
use super::points::{Point, Points};
use super::position::Applied;
use super::quarantine::{Quarantine, Reason, Suspicion};
use super::sled_reader::{ShardReader, SledReader};
#[cfg(test)]
use super::snapshots::BuildError;
use super::snapshots::{BuildLimits, restore};
use super::view::Views;
use crate::index::Spaces;
use crate::metrics::ApplyMetrics;
use crate::raft::{
    AppliedState, Applier, ApplierError, Clock, CommittedBody, CommittedEntry, GroupId, LogPosition,
    Outcomes, ReplicaReport, SystemClock,
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
    /// The hashes at the last points of the log at which replicas are compared.
    pub(super) points: Mutex<Points>,
    /// Whether this replica may be believed.
    pub(super) quarantine: Quarantine,
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
    /// How often the state was replaced as a whole, at the start or since.
    pub(super) installed: AtomicU64,
    /// Held by whoever replaces it.
    pub(super) replacing: Mutex<()>,
    /// A snapshot file waits for a rebuild to end.
    pub(super) install_waits: AtomicBool,
}

/// What is guarded by the mutex of applies.
#[derive(Debug, Default)]
pub(super) struct Applying {
    /// What sled holds.
    pub(super) applied: Applied,
    /// Points of the state whose rows are being read.
    pub(super) views: Views,
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
        let quarantine = Quarantine::open(dir)?;
        let now_us = now_us();
        let unreadable = quarantine.is_unreadable(now_us);
        let Opened { mut db, mut files, set_aside } =
            ShardFiles::open(dir, boot, cache_bytes, |db| match &unreadable {
                Some(why) => Err(format!("its rows could not be read: {why}")),
                None => read_applied(db).map(drop),
            })?;
        if let Some(reason) = &set_aside {
            tracing::warn!(group, %reason, "state set aside; it is rebuilt from the snapshot file and the log");
        }
        let mut applied = read_applied(&db).map_err(|reason| OpenError::Io {
            path: dir.to_owned(),
            error: std::io::Error::new(std::io::ErrorKind::InvalidData, reason),
        })?;
        if unreadable.is_some() {
            quarantine.end(now_us).map_err(|error| OpenError::Io { path: dir.to_owned(), error })?;
        }
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
            points: Mutex::default(),
            quarantine,
            rows: AtomicU64::new(applied.rows),
            log_bytes: AtomicU64::new(applied.log_bytes),
            kinds: Mutex::new(applied.kinds.unwrap_or_default()),
            applying: Mutex::new(Applying { applied, ..Applying::default() }),
            metrics: None,
            files: Mutex::new(Some(files)),
            snapshots,
            pause_us: AtomicU64::new(0),
            installed: AtomicU64::new(installed),
            replacing: Mutex::default(),
            install_waits: AtomicBool::new(false),
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

    /// The hash after the entry at `index`: kept at a point of the log, or of the present state.
    pub fn hash_at(&self, index: u64) -> Option<StateHash> {
        let now = self.hash();
        if now.index == Some(index) {
            return Some(now.hash);
        }
        self.points.lock().at(index)
    }

    /// The last points at which the hash was kept, oldest first.
    pub fn points(&self) -> Vec<Point> {
        self.points.lock().all()
    }

    /// Whether this replica may be believed: what reads, writers and other replicas ask first.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// The hash recomputed from the rows.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupted`] if the rows cannot be read or their hash is not the running one.
    #[cfg(test)]
    pub(crate) fn recompute_hash(&self) -> holdfast_core::Result<ShardHash> {
        let corrupted = |detail: String| Error::new(ErrorCode::Corrupted, detail);
        let scrubbed = self.scrub(&BuildLimits::default(), &super::Progress::default(), |_bytes| {});
        match scrubbed {
            Ok(scrubbed) if scrubbed.is_sound() => {
                Ok(ShardHash { index: Some(scrubbed.index), hash: scrubbed.found.1 })
            }
            Ok(scrubbed) => Err(corrupted(format!("group {}: {scrubbed:?}", self.group))),
            Err(BuildError::NotNow(_)) if self.visible().is_none() => Ok(self.hash()),
            Err(error) => Err(corrupted(error.to_string())),
        }
    }

    /// Leaves the state in order, so that the next start may open it even after a reboot. No entry
    /// may be applied afterwards.
    ///
    /// # Errors
    /// If it cannot be synced; the next start under another boot then rebuilds it.
    pub fn close(&self) -> Result<(), OpenError> {
        let mut applying = self.applying.lock();
        applying.views = Views::default();
        match self.files.lock().take() {
            Some(files) => files.close_clean(&self.db()),
            None => Ok(()),
        }
    }
}

/// Commands that were applied and are not in sled yet.
struct Batch<'a> {
    db: &'a sled::Db,
    overlay: Overlay<SledReader<'a>>,
    applied: Applied,
    events: Vec<Event>,
    points: Vec<Point>,
    views: Option<&'a mut Views>,
    /// Whose readers are to see it; none for a database that is being rebuilt.
    live: Option<&'a ShardState>,
}

/// Where entries are applied to.
pub(super) struct Target<'a> {
    pub(super) db: &'a sled::Db,
    pub(super) views: Option<&'a mut Views>,
    pub(super) live: Option<&'a ShardState>,
}

/// What applying entries came to.
pub(super) struct Done {
    pub(super) applied: Applied,
    pub(super) answers: Vec<Outcomes>,
    pub(super) points: Vec<Point>,
}

/// Applies entries to a database that holds everything up to `before`.
pub(super) fn apply_entries(
    target: Target<'_>,
    before: Applied,
    entries: Vec<CommittedEntry>,
) -> Result<Done, ApplierError> {
    let Target { db, views, live } = target;
    let overlay = Overlay::remembering(SledReader(db));
    let (events, points) = (Vec::new(), Vec::new());
    let mut batch = Batch { db, overlay, applied: before, events, points, views, live };
    let mut answers = Vec::with_capacity(entries.len());
    for entry in entries {
        batch.applied.log_bytes += entry.log_bytes();
        let mut has_point = false;
        let outcomes = match entry.body {
            CommittedBody::Blank => Vec::new(),
            CommittedBody::Membership(bytes) => {
                batch.applied.membership = bytes;
                Vec::new()
            }
            CommittedBody::Normal(payload) => {
                batch.apply(entry.position, payload.stamp_us, &payload.commands, &mut has_point)?
            }
        };
        batch.applied.last = Some(entry.position);
        batch.applied.partial = None;
        answers.push(outcomes);
        if has_point {
            // The hash is that of whole batches: one ends here, on every replica.
            batch.commit()?;
            batch.points.push(Point { index: entry.position.index, hash: batch.applied.hash });
        }
    }
    batch.commit()?;
    Ok(Done { applied: batch.applied, answers, points: batch.points })
}

impl Batch<'_> {
    /// Applies the commands of one entry but for those that are applied already.
    fn apply(
        &mut self,
        position: LogPosition,
        stamp_us: u64,
        commands: &[Bytes],
        has_point: &mut bool,
    ) -> Result<Outcomes, ApplierError> {
        let stamp_us = i64::try_from(stamp_us).unwrap_or(i64::MAX);
        let done = self.applied.done_of(position.index);
        let mut outcomes = Vec::with_capacity(commands.len());
        for (ordinal, bytes) in commands.iter().enumerate() {
            if ordinal < done {
                // Applied before this process started: nobody waits for the answer any more.
                outcomes.push(encoded(&Outcome::Failed(answered_before()))?);
                continue;
            }
            if self.overlay.len() >= BATCH_ROWS_FULL {
                let ordinal = u32::try_from(ordinal).map_err(|error| fatal(&error))?;
                self.applied.partial = Some((position.index, ordinal));
                self.commit()?;
            }
            let command = Command::decode(bytes).map_err(|error| fatal(&error))?;
            *has_point |= matches!(command, Command::HashPoint);
            let at = Position { log_index: position.index, stamp_us };
            let done = apply::apply(&mut self.overlay, at, &command);
            let done = done.map_err(|error| self.rows_failed(&error))?;
            self.events.extend(done.events);
            outcomes.push(encoded(&done.outcome)?);
        }
        Ok(outcomes)
    }

    /// A row that was read is not one that was written.
    fn rows_failed(&self, error: &dyn std::error::Error) -> ApplierError {
        if let Some(live) = self.live {
            live.suspect_rows(self.applied.last.map_or(0, |last| last.index), &error.to_string());
        }
        fatal(error)
    }

    /// Writes the batch in one atomic step and shows it to the live images.
    fn commit(&mut self) -> Result<(), ApplierError> {
        let overlay = std::mem::replace(&mut self.overlay, Overlay::remembering(SledReader(self.db)));
        let changes = overlay.into_changes().map_err(|error| fatal(&error))?;
        if let Some(views) = &mut self.views {
            views.keep(&changes.rows);
        }
        self.applied.hash.follow(&changes);
        self.applied.count(&changes).map_err(|error| self.rows_failed(&error))?;
        if let Some(metrics) = self.live.and_then(|live| live.metrics.as_ref()) {
            metrics.written(changes.rows.len());
        }
        let mut writes = sled::Batch::default();
        for change in changes.rows {
            match change.new {
                Some(value) => writes.insert(change.key, value),
                None => writes.remove(change.key),
            }
        }
        writes.insert(Applied::key(), self.applied.encode().map_err(|error| fatal(&error))?);
        let announced = self.live.map(|live| live.spaces.open_batch());
        self.db.apply_batch(writes).map_err(|error| fatal(&error))?;
        if let Some(announced) = announced {
            announced.deliver(&self.events);
        }
        self.events.clear();
        Ok(())
    }
}

impl ShardState {
    /// Notes that rows cannot be read, so that the next start makes the state anew.
    fn suspect_rows(&self, index: u64, detail: &str) {
        tracing::error!(group = self.group, index, detail, "rows cannot be read");
        let suspicion =
            Suspicion { reason: Reason::Unreadable, detail: detail.to_owned(), index, since_us: now_us() };
        if let Err(error) = self.quarantine.begin(suspicion) {
            tracing::error!(group = self.group, %error, "the mark of a quarantine could not be written");
        }
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
        let Applying { applied, views, failed } = &mut *applying;
        let db = self.db();
        let target = Target { db: &db, views: Some(&mut *views), live: Some(self) };
        let done = apply_entries(target, applied.clone(), entries);
        let Done { applied: after, answers, points } = done.inspect_err(|_| {
            *failed = true;
            *views = Views::default();
        })?;
        *applied = after;
        self.points.lock().record(points);
        self.publish(applied);
        if let Some(metrics) = &self.metrics {
            metrics.applied(answers.iter().map(Vec::len).sum(), begin.elapsed());
        }
        Ok(answers)
    }

    fn pause(&self) -> Duration {
        Duration::from_micros(self.pause_us.load(Ordering::Relaxed))
    }

    fn report(&self) -> Option<ReplicaReport> {
        let mut points: Vec<(u64, u128)> =
            self.points().iter().map(|point| (point.index, point.hash.0)).collect();
        // A group at rest can be compared where it is, also after a restart.
        let ShardHash { index, hash } = self.hash();
        if let Some(index) = index
            && points.last().is_none_or(|(last, _)| *last < index)
        {
            points.push((index, hash.0));
        }
        Some(ReplicaReport { quarantined: self.quarantine.holds(), visible: index, points })
    }

    fn may_be_copied(&self) -> bool {
        !self.quarantine.holds()
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

fn now_us() -> i64 {
    i64::try_from(SystemClock.now_us()).unwrap_or(i64::MAX)
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
