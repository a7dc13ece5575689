//! When files are written, and the log is purged behind them.

use super::SnapshotFile;
use crate::metrics::SnapshotMetrics;
use crate::raft::{Group, GroupId, RaftNode};
use crate::shard::{BuildError, BuildLimits, ShardState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a group may take to hear of a file.
const ANNOUNCE_TIME: Duration = Duration::from_secs(10);
/// The longest pause between two attempts for one group.
const RETRY_MAX: Duration = Duration::from_mins(5);
/// Of the log at which a file is due: the least that is worth one because log files are held back.
const HELD_BACK_PART: u64 = 4;
/// The niceness of the thread that builds: a quarter of the share of others. Not the most there is,
/// since it holds the mutex of applies for short times and must get to giving it back.
const NICENESS: i32 = 6;

/// When snapshot files are written.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotSettings {
    /// A file is due once the log since the last is longer than this, and than that file.
    pub log_bytes_min: u64,
    /// How often it is looked at.
    pub look_every: Duration,
    /// How much a build may take.
    pub limits: BuildLimits,
}

impl Default for SnapshotSettings {
    /// 64 MiB of log, looked at every second.
    fn default() -> Self {
        Self { log_bytes_min: 64 << 20, look_every: Duration::from_secs(1), limits: BuildLimits::default() }
    }
}

/// A group and its state on this node.
pub(crate) type Member = (Group, Arc<ShardState>);

/// Writes the files of a node, one at a time, until `stop`.
pub(crate) async fn run(
    raft: Arc<RaftNode>,
    members: Vec<Member>,
    settings: SnapshotSettings,
    metrics: SnapshotMetrics,
    stop: CancellationToken,
) {
    let builder = match Builder::start(settings.limits) {
        Ok(builder) => builder,
        Err(error) => {
            tracing::error!(%error, "no thread for snapshot files: the log grows until the next start");
            return;
        }
    };
    let mut scheduler = Scheduler { raft, settings, metrics, builder, failures: HashMap::new() };
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(settings.look_every) => {}
        }
        let held_back = scheduler.raft.take_held_back();
        for (group, state) in &members {
            tokio::select! {
                () = stop.cancelled() => break,
                () = scheduler.look_at(group, state, held_back.contains(&group.id())) => {}
            }
        }
    }
    scheduler.builder.stop().await;
}

struct Scheduler {
    raft: Arc<RaftNode>,
    settings: SnapshotSettings,
    metrics: SnapshotMetrics,
    builder: Builder,
    /// How often in a row a group's build failed, and when it may be tried again.
    failures: HashMap<GroupId, (u32, Instant)>,
}

impl Scheduler {
    async fn look_at(&mut self, group: &Group, state: &Arc<ShardState>, held_back: bool) {
        if state.has_overdue_rows() {
            let state = Arc::clone(state);
            if let Err(error) = tokio::task::spawn_blocking(move || state.write_out()).await {
                tracing::error!(group = group.id(), %error, "writing rows out ended in a panic");
            }
        }
        // What a wrong replica needs to be made anew is its last file and the log behind it.
        if group.status().failure.is_some() || state.quarantine().holds() {
            return;
        }
        if self.is_due(group.id(), state, held_back) {
            self.build(group, state).await;
        }
        self.purge(group, state).await;
    }

    fn is_due(&self, group: GroupId, state: &ShardState, held_back: bool) -> bool {
        if self.failures.get(&group).is_some_and(|(_, again)| Instant::now() < *again) {
            return false;
        }
        // What was erased must leave files and log in time.
        let newest = state.snapshots().newest_index().unwrap_or(0);
        if state.snapshot_wanted() > newest {
            return true;
        }
        let due = self.due_bytes(state);
        let since = state.log_bytes_since_snapshot();
        since > due || (held_back && since > due / HELD_BACK_PART)
    }

    fn due_bytes(&self, state: &ShardState) -> u64 {
        let last = state.snapshots().newest().map_or(0, |file| file.bytes());
        self.settings.log_bytes_min.max(last)
    }

    async fn build(&mut self, group: &Group, state: &Arc<ShardState>) {
        let id = group.id();
        let failed_before = self.failures.get(&id).map_or(0, |(times, _)| *times);
        let began = Instant::now();
        // After a failure applies are slowed down, so that the second attempt ends.
        match self.builder.build(Arc::clone(state), failed_before > 0).await {
            Ok(file) => {
                self.failures.remove(&id);
                self.metrics.built(began.elapsed(), file.bytes());
                tracing::debug!(
                    group = id,
                    index = file.id().index,
                    bytes = file.bytes(),
                    "snapshot file written"
                );
            }
            Err(BuildError::NotNow(reason)) => tracing::debug!(group = id, reason, "no snapshot file now"),
            Err(error) => {
                self.metrics.failed(&error);
                let pause =
                    self.settings.look_every.saturating_mul(1 << failed_before.min(16)).min(RETRY_MAX);
                self.failures.insert(id, (failed_before + 1, Instant::now() + pause));
                tracing::warn!(group = id, %error, "a snapshot file was not written");
            }
        }
    }

    /// Removes what the newest file holds from the log.
    async fn purge(&self, group: &Group, state: &ShardState) {
        let Some(file) = state.snapshots().newest() else { return };
        let index = file.id().index;
        let applied = group.status().applied.map(|applied| applied.index);
        if group.purged().is_some_and(|purged| purged >= index)
            || applied.is_none_or(|applied| applied < index)
        {
            return;
        }
        match group.announce_snapshot(index, Instant::now() + ANNOUNCE_TIME).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::debug!(group = group.id(), %error, "the group is not told of its snapshot file");
                return;
            }
        }
        let upto = self.purge_upto(group, state, &file);
        if let Some(upto) = upto
            && let Err(error) = group.purge_log(upto).await
        {
            tracing::debug!(group = group.id(), %error, "the log is not purged");
        }
    }

    /// How far the log may go now: a follower that is behind gets the entries that it lacks, instead of
    /// a whole file, for as long as the log does not grow by another such span.
    fn purge_upto(&self, group: &Group, state: &ShardState, file: &SnapshotFile) -> Option<u64> {
        let index = file.id().index;
        let is_wanted = state.snapshot_wanted() > group.purged().unwrap_or(0);
        let too_long = is_wanted || state.log_bytes_since_snapshot() > self.due_bytes(state) / 2;
        let upto = match group.first_missing() {
            Some(missing) if !too_long => missing.checked_sub(1)?.min(index),
            _ => index,
        };
        group.purged().is_none_or(|purged| purged < upto).then_some(upto)
    }
}

/// One request to the thread that builds.
struct Job {
    state: Arc<ShardState>,
    throttle: bool,
    answer: oneshot::Sender<Result<Arc<SnapshotFile>, BuildError>>,
}

/// The thread that builds, one file after the other.
struct Builder {
    jobs: mpsc::Sender<Job>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Builder {
    fn start(limits: BuildLimits) -> std::io::Result<Self> {
        let (jobs, mut queue) = mpsc::channel::<Job>(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            // Of this thread alone, on Linux. Without it builds disturb a little more.
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                tracing::debug!(%error, "the thread for snapshot files keeps its priority");
            }
            while let Some(Job { state, throttle, answer }) = queue.blocking_recv() {
                let result = state.build_snapshot(&limits, throttle, &stopped);
                // Released before the answer: whoever waits may want to close it next.
                drop(state);
                let _ = answer.send(result);
            }
        };
        let thread = std::thread::Builder::new().name("snapshot".into()).spawn(body)?;
        Ok(Self { jobs, stop, thread })
    }

    async fn build(&self, state: Arc<ShardState>, throttle: bool) -> Result<Arc<SnapshotFile>, BuildError> {
        let gone = || BuildError::GivenUp("the thread that builds has panicked".into());
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Job { state, throttle, answer }).await.map_err(|_closed| gone())?;
        answered.await.map_err(|_dropped| gone())?
    }

    /// Ends the build that is under way, and the thread.
    async fn stop(self) {
        let Self { jobs, stop, thread } = self;
        stop.store(true, Ordering::Relaxed);
        drop(jobs);
        if tokio::task::spawn_blocking(move || thread.join().is_err()).await.unwrap_or(true) {
            tracing::error!("the thread for snapshot files panicked");
        }
    }
}
