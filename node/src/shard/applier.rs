use super::KindCounts;
use super::batch::{Done, Target, apply_entries};
use super::disk::DiskFailure;
use super::files::{BootId, OpenError, Opened, ShardFiles};
use super::points::{Point, Points};
use super::position::Applied;
use super::quarantine::{Quarantine, Reason, Suspicion};
use super::sled_reader::{ShardReader, SledReader};
#[cfg(test)]
use super::snapshots::BuildError;
use super::snapshots::{BuildLimits, restore};
use super::store::Store;
use super::view::Views;
use crate::erasing::Forgotten;
use crate::index::Spaces;
use crate::metrics::ApplyMetrics;
use crate::raft::{
    AppliedState, Applier, ApplierError, Clock, CommittedEntry, GroupId, Outcomes, ReplicaReport, SystemClock,
};
use crate::snapshot::{SnapshotFile, SnapshotFiles};
use holdfast_core::codec::CodecError;
use holdfast_core::state::{Reader, StateError, StateHash};
#[cfg(test)]
use holdfast_core::{Error, ErrorCode};
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

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
    pub(super) dir: PathBuf,
    pub(super) cluster: String,
    pub(super) shards: u16,
    pub(super) cache_bytes: u64,
    /// Replaced as a whole when a snapshot file is installed.
    pub(super) store: RwLock<Store>,
    pub(super) spaces: Arc<Spaces>,
    /// Held while entries are applied; what it guards is what the store holds.
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
    pub(super) metrics: Option<ApplyMetrics>,
    pub(super) files: Mutex<Option<ShardFiles>>,
    pub(super) snapshots: Arc<SnapshotFiles>,
    /// Microseconds to wait before each apply, so that the build of a snapshot file keeps up.
    pub(super) pause_us: AtomicU64,
    /// How often the state was replaced as a whole, at the start or since.
    pub(super) installed: AtomicU64,
    /// Held by whoever replaces it.
    pub(super) replacing: Mutex<()>,
    /// The rows did not have their hash when they were last written to a file.
    pub(super) doubted: AtomicBool,
    /// A snapshot file waits for a rebuild to end.
    pub(super) install_waits: AtomicBool,
    /// Set once its disk has failed.
    pub(super) disk: DiskFailure,
    /// Up to where what was erased has left the copies of this replica, since the process started.
    pub(super) forgotten: Mutex<Forgotten>,
    /// From what stood at which index the current database was made; 0 if from nothing.
    pub(super) made_from: AtomicU64,
    /// A snapshot file is wanted that is not older than this.
    pub(super) snapshot_wanted: AtomicU64,
}

/// What is guarded by the mutex of applies.
#[derive(Debug, Default)]
pub(super) struct Applying {
    /// What the store holds.
    pub(super) applied: Applied,
    /// Points of the state whose rows are being read.
    pub(super) views: Views,
    /// An apply failed half-way: the store holds more than `applied` says. Nothing follows.
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
        let (mut installed, mut made_from) = (0, None);
        if let Some(restored) = restore(&snapshots, &mut files, applied.last, cache_bytes)? {
            (db, applied) = restored;
            made_from = applied.last.map(|last| last.index);
            installed = 1;
        }
        if applied.kinds.is_none() {
            applied.kinds = Some(KindCounts::of_rows(&db).map_err(|reason| OpenError::Io {
                path: dir.to_owned(),
                error: std::io::Error::new(std::io::ErrorKind::InvalidData, reason),
            })?);
        }
        let made_from = made_from.unwrap_or(0);
        // One that was set aside holds what was erased since.
        let database = if files.has_others()? { 0 } else { made_from };
        let (visible, _) = watch::channel(applied.last.map(|last| last.index));
        Ok(Self {
            group,
            dir: dir.to_owned(),
            cluster: cluster.to_owned(),
            shards,
            cache_bytes,
            store: RwLock::new(Store::new(db)),
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
            doubted: AtomicBool::new(false),
            install_waits: AtomicBool::new(false),
            disk: DiskFailure::default(),
            forgotten: Mutex::new(Forgotten { database, ..Forgotten::default() }),
            made_from: AtomicU64::new(made_from),
            snapshot_wanted: AtomicU64::new(0),
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
        self.store().size_on_disk().map_err(|error| StateError(format!("sled: {error}")))
    }

    /// Reads of the rows: each one of the database that is current then.
    pub fn reader(&self) -> ShardReader<'_> {
        ShardReader(self)
    }

    /// The current rows.
    pub(super) fn store(&self) -> Store {
        self.store.read().clone()
    }

    /// The current database, which holds everything that is applied then.
    #[cfg(test)]
    pub(super) fn db(&self) -> sled::Db {
        let store = self.store();
        store.write_out().expect("a sound database");
        store.db().clone()
    }

    /// Whether rows wait for longer than they should to be given to the database.
    pub(crate) fn has_overdue_rows(&self) -> bool {
        self.store.read().is_overdue()
    }

    /// Gives the database what it does not have yet, so that a killed process has less to replay.
    /// Blocks for as long as one batch takes. An error is noted as that of any batch is.
    pub(crate) fn write_out(&self) {
        if let Err(error) = self.store().write_out() {
            tracing::error!(group = self.group, %error, "rows could not be written");
            self.sled_failed(&error);
        }
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

    /// Asks for a snapshot file that is not older than this, and for the log to go as far.
    pub(crate) fn want_snapshot(&self, index: u64) {
        self.snapshot_wanted.fetch_max(index, Ordering::Relaxed);
    }

    /// Since which index a snapshot file is wanted; 0 if none is.
    pub(crate) fn snapshot_wanted(&self) -> u64 {
        self.snapshot_wanted.load(Ordering::Relaxed)
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
            Some(files) => {
                let store = self.store();
                store.write_out().map_err(|error| OpenError::Sled { path: self.dir.clone(), error })?;
                files.close_clean(store.db())
            }
            None => Ok(()),
        }
    }
}

impl ShardState {
    /// Notes that rows cannot be read, so that the next start makes the state anew.
    pub(super) fn suspect_rows(&self, index: u64, detail: &str) {
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
        let store = self.store();
        let target = Target { store: &store, views: Some(&mut *views), live: Some(self) };
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
        let (quarantined, forgotten) = (self.quarantine.holds(), self.forgotten());
        Some(ReplicaReport { quarantined, visible: index, points, forgotten })
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
        self.install(file).map_err(|error| {
            self.install_failed(&error);
            fatal(&error)
        })
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

pub(super) fn fatal(error: &dyn std::error::Error) -> ApplierError {
    ApplierError::new(error.to_string())
}
