//! The node's one raft-engine, its log thread and its clean-up thread.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use raft_engine::{Config, Engine, LogBatch, ReadableSize};
use tokio::sync::{mpsc, oneshot};

use super::cleaner::{Cleaner, Renewal};
use super::files::{ObservedFiles, SyncProbe};
use super::reader::{self, Read};
use super::times::{TimeCounts, Times};
use super::writer::{Change, Done, Marks, Request, Writer, WriterCounters, panic_text};
use crate::crash::{Step, crash_point};
use crate::durable::replace_file;
use crate::raft::error::LogError;
use crate::raft::types::{GroupId, NodeId, RaftEntry};

/// raft-engine, made safe to drop.
pub(crate) struct RawEngine {
    engine: Engine<ObservedFiles>,
    probe: Arc<SyncProbe>,
}

impl RawEngine {
    /// Writes a batch, synced if asked for.
    ///
    /// raft-engine panics when a sync fails: after that the page cache can no longer be trusted (the
    /// "fsyncgate" of 2018). Caught here, so that the callers get the error and the process can still
    /// say what happened.
    ///
    /// # Errors
    /// What the system said. What is on disk is unknown then.
    pub(crate) fn write_batch(&self, batch: &mut LogBatch, sync: bool) -> Result<(), String> {
        match catch_unwind(AssertUnwindSafe(|| self.engine.write(batch, sync))) {
            Ok(Ok(_bytes)) => Ok(()),
            Ok(Err(raft_engine::Error::Io(error))) => Err(format!("a write failed: {error}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(self.describe(panic.as_ref())),
        }
    }

    /// What became known by a panic: the failure of a sync, if there was one.
    pub(super) fn describe(&self, panic: &(dyn std::any::Any + Send)) -> String {
        self.probe.failure().unwrap_or_else(|| panic_text(panic))
    }
}

impl Deref for RawEngine {
    type Target = Engine<ObservedFiles>;

    fn deref(&self) -> &Self::Target {
        &self.engine
    }
}

impl Drop for RawEngine {
    fn drop(&mut self) {
        // Nobody can write any more; the engine closes its files next.
        self.probe.close();
    }
}

/// Requests that may wait for the log thread.
const QUEUE_REQUESTS_MAX: usize = 4_096;
/// Reads that may wait for the reader thread.
const QUEUE_READS_MAX: usize = 256;

const WRITER: &str = "raft-log";
const READER: &str = "raft-log-read";
pub(super) const CLEANER: &str = "raft-log-clean";

/// How long `close` waits for reads that are under way.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Where in raft-engine each group lives: its region is the group id.
pub(crate) fn region(group: GroupId) -> u64 {
    u64::from(group)
}

/// The file that names the log's owner a second time.
const OWNER_FILE: &str = "OWNER";

/// Above every group's region: what concerns the whole node.
const NODE_REGION: u64 = 1 << 32;

/// Keys beside a group's entries. Persisted: never change their meaning.
pub(crate) mod key {
    /// The vote.
    pub(crate) const VOTE: &[u8] = b"vote";
    /// The last position known to be committed.
    pub(crate) const COMMITTED: &[u8] = b"committed";
    /// Truncate marker: entries from this index (u64, big-endian) on do not exist.
    pub(crate) const END: &[u8] = b"end";
    /// The last purged position.
    pub(crate) const PURGED: &[u8] = b"purged";
    /// In the node's region: whose directory this is.
    pub(crate) const OWNER: &[u8] = b"owner";
}

/// How to open the log.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    /// Its directory; created if missing.
    pub(crate) dir: PathBuf,
    /// This node.
    pub(crate) node: NodeId,
    /// This node's cluster.
    pub(crate) cluster: String,
    /// Size of its files.
    pub(crate) files: LogFiles,
}

/// When log files go. A file goes when no group needs an entry in it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFiles {
    /// A file of this size is closed and another begun.
    pub file_bytes: u64,
    /// Files are removed once all of them together are larger.
    pub keep_bytes: u64,
    /// How often they are looked at.
    pub look_every: Duration,
}

impl LogFiles {
    /// Sixteen files in `keep_bytes`, each of 256 KiB to 128 MiB. The less may be kept, the sooner it is
    /// exceeded, and so the more often it is looked at: every half second to 10 s.
    pub fn keeping(keep_bytes: u64) -> Self {
        let look_ms = (keep_bytes >> 10).clamp(500, 10_000);
        LogFiles {
            file_bytes: (keep_bytes / 16).clamp(256 << 10, 128 << 20),
            keep_bytes,
            look_every: Duration::from_millis(look_ms),
        }
    }
}

impl Default for LogFiles {
    /// Files of 128 MiB, removed above 2 GiB, looked at every 10 s.
    fn default() -> Self {
        LogFiles::keeping(2 << 30)
    }
}

/// Whether the log has failed. Once set it stays set until the process opens the log again.
#[derive(Debug, Default)]
pub(crate) struct Poison(RwLock<Option<String>>);

impl Poison {
    pub(crate) fn set(&self, cause: &str) {
        let mut poison = self.0.write();
        if poison.is_none() {
            tracing::error!(cause, "the log has failed; this node's groups stop");
            *poison = Some(cause.to_owned());
        }
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        match self.0.read().as_ref() {
            None => Ok(()),
            Some(cause) => Err(LogError::Poisoned(cause.clone())),
        }
    }
}

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Batches written.
    pub batches: u64,
    /// Requests in them: requests per batch is what sharing an fsync saves.
    pub requests: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes of entries given to the log, before compression.
    pub bytes: u64,
    /// Syncs completed.
    pub syncs: u64,
    /// They, by their time.
    pub sync_times: TimeCounts,
    /// Appends of this node as a leader, by the time until a majority had them on disk.
    pub commit_times: TimeCounts,
    /// Bytes that the log files may take on disk: each counts in full (128 MiB), however little it holds.
    pub disk_bytes: u64,
}

/// The log of all groups of one node.
pub(crate) struct LogEngine {
    raw: RwLock<Option<Arc<RawEngine>>>,
    requests: mpsc::Sender<Request>,
    reads: mpsc::Sender<Option<Read>>,
    poison: Arc<Poison>,
    probe: Arc<SyncProbe>,
    counters: Arc<WriterCounters>,
    marks: Arc<Marks>,
    threads: Mutex<Vec<(&'static str, JoinHandle<()>)>>,
    cleaner: Mutex<Option<(std_mpsc::Sender<Renewal>, JoinHandle<()>)>>,
    held_back: Arc<Mutex<BTreeSet<GroupId>>>,
    node: NodeId,
    commit_times: Arc<Times>,
}

impl LogEngine {
    /// Opens or creates the log and starts its threads. Blocks: it reads the whole index.
    pub(crate) fn open(options: &LogOptions) -> Result<Arc<Self>, LogError> {
        create_dir_durably(&options.dir)?;
        let probe = Arc::new(SyncProbe::default());
        let raw = Arc::new(open_raw(&options.dir, options.files, probe.clone())?);
        claim(&raw, options)?;
        let poison = Arc::new(Poison::default());
        let counters = Arc::new(WriterCounters::default());
        let (requests, queue) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let marks = Arc::<Marks>::default();
        let writer = Writer {
            raw: raw.clone(),
            poison: poison.clone(),
            counters: counters.clone(),
            marks: marks.clone(),
        };
        let writer = spawn(WRITER, move || writer.run(queue))?;
        let (reads, read_queue) = mpsc::channel(QUEUE_READS_MAX);
        let read_from = raw.clone();
        let reader = spawn(READER, move || reader::run(&read_from, read_queue))?;
        let held_back = Arc::default();
        let cleaner = Cleaner {
            raw: raw.clone(),
            poison: poison.clone(),
            files: options.files,
            held_back: Arc::clone(&held_back),
            requests: requests.clone(),
        };
        let cleaner = cleaner.spawn()?;
        Ok(Arc::new(LogEngine {
            raw: RwLock::new(Some(raw)),
            requests,
            reads,
            poison,
            probe,
            counters,
            marks,
            threads: Mutex::new(vec![(WRITER, writer), (READER, reader)]),
            cleaner: Mutex::new(Some(cleaner)),
            held_back,
            node: options.node,
            commit_times: Arc::default(),
        }))
    }

    /// The groups whose old entries hold back the removal of log files, since this was last asked.
    pub(crate) fn take_held_back(&self) -> BTreeSet<GroupId> {
        std::mem::take(&mut *self.held_back.lock())
    }

    /// Whose log this is.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The commits of all groups together.
    pub(crate) fn commit_times(&self) -> Arc<Times> {
        Arc::clone(&self.commit_times)
    }

    /// Queues a change, waiting while the queue is full. `done` is called once, after the sync.
    pub(crate) async fn submit(
        &self,
        group: GroupId,
        change: Change,
        done: Option<Done>,
    ) -> Result<(), LogError> {
        self.poison.check()?;
        let change = match change {
            // Neither a write nor a wake-up of the log thread for each commit.
            Change::Committed(position) if done.is_none() => {
                self.marks.lock().insert(group, position);
                return Ok(());
            }
            change => change,
        };
        let request = Request::Write { group, change, done };
        self.requests.send(request).await.map_err(|_closed| LogError::Closed)
    }

    /// The engine, for reading.
    pub(crate) fn raw(&self) -> Result<Arc<RawEngine>, LogError> {
        self.raw.read().clone().ok_or(LogError::Closed)
    }

    /// Reads the entries `start..end`: at least one and then up to `bytes_max`.
    pub(crate) async fn read(
        &self,
        group: GroupId,
        start: u64,
        end: u64,
        bytes_max: usize,
    ) -> Result<Vec<RaftEntry>, LogError> {
        let (answer, answered) = oneshot::channel();
        let read = Read { group, start, end, bytes_max, answer };
        self.reads.send(Some(read)).await.map_err(|_closed| LogError::Closed)?;
        answered.await.map_err(|_dropped| LogError::Closed)?
    }

    /// Makes all log files anew with what is live in them: what was purged is gone from the disk when this
    /// returns. Takes as long as it takes to write all live entries once; appends go on meanwhile.
    pub(crate) async fn renew_files(&self) -> Result<(), LogError> {
        self.poison.check()?;
        let (answer, answered) = oneshot::channel();
        let sent = match self.cleaner.lock().as_ref() {
            Some((renewals, _)) => renewals.send(answer).is_ok(),
            None => false,
        };
        if !sent {
            return Err(LogError::Closed);
        }
        answered.await.map_err(|_dropped| LogError::Closed)?
    }

    pub(crate) fn stats(&self) -> LogStats {
        LogStats {
            batches: self.counters.batches.load(Ordering::Relaxed),
            requests: self.counters.requests.load(Ordering::Relaxed),
            entries: self.counters.entries.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            syncs: self.probe.syncs(),
            sync_times: self.probe.times(),
            commit_times: self.commit_times.read(),
            disk_bytes: self.raw().map_or(0, |raw| raw.get_used_size() as u64),
        }
    }

    /// Why the log takes nothing any more, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        match self.poison.check() {
            Err(LogError::Poisoned(cause)) => Some(cause),
            Err(_) | Ok(()) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn probe(&self) -> &Arc<SyncProbe> {
        &self.probe
    }

    /// Writes what is queued, stops the threads and releases the directory.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), LogError> {
        // An error means that the thread is gone already.
        let _ = self.requests.send(Request::Stop).await;
        let _ = self.reads.send(None).await;
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.close_blocking())
            .await
            .map_err(|error| LogError::Io(format!("closing the log: {error}")))?
    }

    fn close_blocking(&self) -> Result<(), LogError> {
        if let Some((stop, cleaner)) = self.cleaner.lock().take() {
            drop(stop);
            join(cleaner, CLEANER);
        }
        for (name, thread) in self.threads.lock().drain(..) {
            join(thread, name);
        }
        let Some(mut raw) = self.raw.write().take() else { return Ok(()) };
        let start = Instant::now();
        loop {
            match Arc::try_unwrap(raw) {
                Ok(engine) => return drop_engine(engine),
                Err(_shared) if start.elapsed() > CLOSE_WAIT => {
                    return Err(LogError::Io("reads kept the log open; its directory stays locked".into()));
                }
                Err(shared) => {
                    raw = shared;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

fn drop_engine(engine: RawEngine) -> Result<(), LogError> {
    catch_unwind(AssertUnwindSafe(|| drop(engine))).map_err(|panic| LogError::Io(panic_text(panic.as_ref())))
}

fn open_raw(dir: &Path, files: LogFiles, probe: Arc<SyncProbe>) -> Result<RawEngine, LogError> {
    let Some(path) = dir.to_str() else {
        return Err(LogError::Io(format!("the path {} is not UTF-8", dir.display())));
    };
    let config = Config {
        dir: path.to_owned(),
        // Recycled files keep the bytes of deleted memories.
        enable_log_recycle: false,
        target_file_size: ReadableSize(files.file_bytes),
        purge_threshold: ReadableSize(files.keep_bytes.max(files.file_bytes)),
        ..Config::default()
    };
    let files = Arc::new(ObservedFiles::new(probe.clone()));
    // Recovery panics on a log that it cannot make sense of, and on a disk that does not sync.
    let opened = catch_unwind(AssertUnwindSafe(|| Engine::open_with_file_system(config, files)));
    match opened {
        Ok(Ok(engine)) => Ok(RawEngine { engine, probe }),
        Ok(Err(raft_engine::Error::Io(error))) => Err(LogError::Io(format!("{}: {error}", dir.display()))),
        Ok(Err(error)) => Err(LogError::Io(format!("{}: {error}", dir.display()))),
        Err(panic) => {
            let at = dir.display();
            Err(match probe.failure() {
                Some(cause) => LogError::Io(format!("{at}: {cause}")),
                None => LogError::Corrupt(format!("{at}: {}", panic_text(panic.as_ref()))),
            })
        }
    }
}

/// Writes this node's name into a new log, and refuses the log of another.
///
/// The name stands in the log and in a file beside it. raft-engine takes a damaged last file for the
/// torn end of a write: if the log lacks a name that the file has, its beginning was lost, and it must
/// not be taken for the empty log of a new node.
fn claim(raw: &RawEngine, options: &LogOptions) -> Result<(), LogError> {
    let wanted = format!("node {} of cluster {}", options.node, options.cluster);
    let file = options.dir.join(OWNER_FILE);
    let describe = |error: std::io::Error| LogError::Io(format!("{}: {error}", file.display()));
    let beside = match fs::read(&file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(describe(error)),
    };
    let inside = raw.get(NODE_REGION, key::OWNER);
    for found in [&inside, &beside].into_iter().flatten() {
        if found != wanted.as_bytes() {
            return Err(LogError::WrongOwner { found: String::from_utf8_lossy(found).into(), wanted });
        }
    }
    if inside.is_none() && beside.is_some() {
        return Err(LogError::Corrupt(format!("{} has lost its beginning", options.dir.display())));
    }
    // Also where it is known already: a killed process may have left entries and votes that were
    // written and never synced. The groups take all that they find here for durable, and a power cut
    // would still take it. The sync of this write keeps it. (The engine's own `sync` does nothing.)
    let mut batch = LogBatch::default();
    batch
        .put(NODE_REGION, key::OWNER.to_vec(), wanted.clone().into_bytes())
        .map_err(|error| error.to_string())
        .and_then(|()| raw.write_batch(&mut batch, true))
        .map_err(|error| LogError::Io(format!("{}: {error}", options.dir.display())))?;
    crash_point(Step::LogOwned);
    if beside.is_none() {
        replace_file(&file, wanted.as_bytes(), 0o644).map_err(describe)?;
    }
    Ok(())
}

/// Creates a directory so that a power cut cannot take it, and the log in it, away again.
fn create_dir_durably(dir: &Path) -> Result<(), LogError> {
    let describe = |error: std::io::Error| LogError::Io(format!("{}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(describe)?;
    for ancestor in dir.ancestors().take(3).filter(|path| !path.as_os_str().is_empty()) {
        File::open(ancestor).and_then(|file| file.sync_all()).map_err(describe)?;
    }
    Ok(())
}

pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LogError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| LogError::Io(format!("starting thread {name}: {error}")))
}

fn join(thread: JoinHandle<()>, name: &str) {
    if let Err(panic) = thread.join() {
        tracing::error!(thread = name, cause = panic_text(panic.as_ref()), "a log thread panicked");
    }
}
