//! One replica of one Raft group, as the rest of the node uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use openraft::ServerState;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::acks::AckClock;
use super::batcher::{BatchCounters, Batcher, Held, Proposed, Queue, Reins};
use super::clock::Clock;
use super::error::{LogError, ProposeError, ReadError, ReadRefused};
use super::freshness::Following;
use super::log::GroupLog;
use super::reads::{ReadConfirmer, ReadQueue};
use super::rest::Rest;
use super::state_machine::{Idle, committed_entry};
use super::status::{GroupStatus, LeadershipWatch, Metrics};
use super::types::{CommittedEntry, GroupId, NodeId, RaftHandle};

/// How long `shutdown` lets entries in flight finish.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// How long `shutdown` waits for the state to finish what it is applying.
const APPLY_TIME: Duration = Duration::from_secs(30);

/// A replica of a Raft group. Clones share it.
#[derive(Clone)]
pub struct Group(Arc<Inner>);

/// What a group is made of.
pub(crate) struct Replica {
    pub(crate) id: GroupId,
    pub(crate) node: NodeId,
    pub(crate) raft: RaftHandle,
    pub(crate) log: GroupLog,
    pub(crate) acks: Arc<AckClock>,
    /// What leaders told this replica about the freshness of its state.
    pub(crate) following: Arc<Following>,
    /// The age at which a confirmation of leadership is too old.
    pub(crate) lease: Duration,
    /// For how long each replica turns away candidates after it has heard its leader.
    pub(crate) leases: BTreeMap<NodeId, Duration>,
    pub(crate) rest: Arc<Rest>,
}

struct Inner {
    replica: Replica,
    queue: Queue,
    reins: Reins,
    reads: ReadQueue,
    counters: Arc<BatchCounters>,
    tasks: Mutex<Vec<(oneshot::Sender<()>, JoinHandle<()>)>>,
    idle: Mutex<Option<Idle>>,
    /// See [`Group::withdraw`].
    withdrawn: AtomicBool,
}

/// How many commands a replica has proposed, in how many entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStats {
    /// Entries proposed.
    pub entries: usize,
    /// Commands in them.
    pub commands: usize,
}

impl Group {
    pub(crate) fn start(replica: Replica, idle: Idle, clock: Arc<dyn Clock>) -> Self {
        let raft = &replica.raft;
        let counters = Arc::new(BatchCounters::default());
        let leadership = LeadershipWatch::new(replica.node, raft.server_metrics());
        let (queue, reins, batcher) =
            Batcher::new(raft.clone(), clock, leadership, counters.clone(), replica.rest.clone());
        let (reads, confirmer) = ReadConfirmer::new(raft.clone(), replica.rest.clone());
        let (stop_batcher, batcher_stopped) = oneshot::channel();
        let (stop_reads, reads_stopped) = oneshot::channel();
        let tasks = Mutex::new(vec![
            (stop_batcher, tokio::spawn(batcher.run(batcher_stopped))),
            (stop_reads, tokio::spawn(confirmer.run(reads_stopped))),
        ]);
        let idle = Mutex::new(Some(idle));
        Group(Arc::new(Inner {
            replica,
            queue,
            reins,
            reads,
            counters,
            tasks,
            idle,
            withdrawn: AtomicBool::new(false),
        }))
    }

    /// The group.
    pub fn id(&self) -> GroupId {
        self.0.replica.id
    }

    /// Proposes one command and waits until it is applied here.
    ///
    /// Dropping the future takes the command back only if it was not proposed yet.
    ///
    /// # Errors
    /// [`ProposeError`] says for each case whether the command may have taken effect.
    pub async fn propose(&self, command: Bytes, deadline: Instant) -> Result<Proposed, ProposeError> {
        self.check_writable()?;
        self.0.queue.propose(command, deadline).await
    }

    /// Refuses early what openraft would refuse late, or leave hanging.
    fn check_writable(&self) -> Result<(), ProposeError> {
        let metrics = self.0.replica.raft.metrics();
        let metrics = metrics.borrow();
        if let Err(fatal) = &metrics.running_state {
            return Err(match fatal {
                openraft::error::Fatal::Stopped => ProposeError::Unavailable("the group has stopped".into()),
                failed => ProposeError::Fatal(failed.to_string()),
            });
        }
        if metrics.state != ServerState::Leader {
            return Err(ProposeError::NotLeader { leader: metrics.current_leader });
        }
        if self.is_withdrawn() {
            return Err(ProposeError::NotLeader { leader: None });
        }
        // openraft has no check-quorum: a cut-off leader would take writes that can never commit.
        // A leader of a new term has no acknowledgement yet and may try.
        let now = Instant::now();
        if self.has_lost_quorum(self.quorum_ack(&metrics, now), now) {
            return Err(ProposeError::Unavailable("no majority of the replicas answers".into()));
        }
        Ok(())
    }

    /// Whether the last confirmation of this leadership is too old to go on.
    fn has_lost_quorum(&self, last_ack: Option<Instant>, now: Instant) -> bool {
        last_ack.is_some_and(|ack| now.saturating_duration_since(ack) > 2 * self.0.replica.lease)
    }

    /// Confirms with a majority that this replica still leads, and waits until all that was
    /// acknowledged before this call is visible here. Returns the index of the read point.
    ///
    /// # Errors
    /// When this replica does not lead, or could not confirm it before the deadline.
    pub async fn linearizable(&self, deadline: Instant) -> Result<u64, ReadError> {
        self.0.reads.read_point(deadline).await
    }

    /// What this replica knows about the group.
    pub fn status(&self) -> GroupStatus {
        let now = Instant::now();
        let receiver = self.0.replica.raft.metrics();
        // A core that panicked tells nobody; it only lets go of the sending side.
        let is_gone = receiver.has_changed().is_err();
        let metrics = receiver.borrow();
        let ack = self.quorum_ack(&metrics, now);
        let mut status =
            GroupStatus::of(self.0.replica.id, &metrics, self.0.replica.log.committed(), ack, now);
        // One that led before a restart goes on leading, as far as it knows; nobody may have followed since.
        let never_confirmed = status.is_leader && ack.is_none();
        status.lost_quorum = never_confirmed || self.has_lost_quorum(ack, now);
        if is_gone && status.failure.is_none() {
            status.failure = Some("it ended without a word; the log of this process says why".into());
        }
        status
    }

    fn quorum_ack(&self, metrics: &Metrics, now: Instant) -> Option<Instant> {
        if metrics.state != ServerState::Leader {
            return None;
        }
        let voters = metrics.membership_config.membership().get_joint_config();
        self.0.replica.acks.quorum(self.0.replica.node, metrics.current_term, voters, now)
    }

    /// Whether this leader may answer session reads from its visible state, without a quorum round.
    ///
    /// It must have applied an entry of its own term, and a majority must have accepted a request
    /// that it sent within the shortest leader lease. Since voters turn away candidates for that long,
    /// no other leader can have been elected meanwhile, up to clock drift and pauses of this process:
    /// a bound on staleness, not a proof.
    ///
    /// # Errors
    /// [`ReadRefused`] says which condition failed.
    pub fn can_serve_session_read(&self) -> Result<(), ReadRefused> {
        let status = self.status();
        if !status.is_leader {
            return Err(ReadRefused::NotLeader { leader: status.leader });
        }
        if !status.leader_applied_own_term {
            return Err(ReadRefused::NotCaughtUp);
        }
        let lease_ms = u64::try_from(self.0.replica.lease.as_millis()).unwrap_or(u64::MAX);
        match status.millis_since_quorum_ack {
            Some(age_ms) if age_ms < lease_ms => Ok(()),
            age_ms => Err(ReadRefused::StaleLeadership { age_ms }),
        }
    }

    /// Takes this replica out of the lead for as long as its state is not to be believed. It goes on
    /// storing entries and voting. As a leader it takes no more proposals and is silent, so that the
    /// others elect another one as if it had died; as a follower it does not campaign.
    pub fn withdraw(&self) {
        self.0.withdrawn.store(true, Ordering::Release);
        let runtime = self.0.replica.raft.runtime_config();
        runtime.elect(false);
        runtime.heartbeat(false);
    }

    /// Undoes [`Group::withdraw`].
    pub fn rejoin(&self) {
        let runtime = self.0.replica.raft.runtime_config();
        runtime.heartbeat(true);
        runtime.elect(true);
        self.0.withdrawn.store(false, Ordering::Release);
    }

    /// Whether this replica is out of the lead.
    pub fn is_withdrawn(&self) -> bool {
        self.0.withdrawn.load(Ordering::Acquire)
    }

    /// The voters of the group, as this replica knows them.
    pub fn voters(&self) -> BTreeSet<NodeId> {
        self.0.replica.raft.metrics().borrow().membership_config.membership().voter_ids().collect()
    }

    /// Entries from `first` on, up to `end` (not included) or about `bytes_max`; the first one at least.
    /// The state must have applied them: what follows may still be overwritten.
    ///
    /// # Errors
    /// When the log cannot be read, or no longer holds `first`.
    pub(crate) async fn applied_entries(
        &self,
        first: u64,
        end: u64,
        bytes_max: usize,
    ) -> Result<Vec<CommittedEntry>, LogError> {
        let entries = self.0.replica.log.entries(first..end, bytes_max).await?;
        let readable = |entry| committed_entry(entry).map_err(|error| LogError::Corrupt(error.to_string()));
        entries.into_iter().map(readable).collect()
    }

    /// The moment until which a state that shows everything up to `visible` is proved to hold all
    /// that was acknowledged; `None` if nothing proves anything. What was acknowledged later may be
    /// missing: the state is stale by at most the time since then, up to the rate at which the clocks
    /// of two machines drift apart.
    ///
    /// A leader proves it by the last request that a majority accepted, a follower by what leaders
    /// told it with their heartbeats.
    pub fn fresh_until(&self, visible: Option<u64>) -> Option<Instant> {
        let status = self.status();
        if status.is_leader {
            return status.last_quorum_ack.filter(|_| status.leader_applied_own_term);
        }
        self.0.replica.following.fresh_until(visible?)
    }

    pub(crate) fn following(&self) -> Arc<Following> {
        self.0.replica.following.clone()
    }

    /// Follows who leads the group.
    pub fn watch(&self) -> LeadershipWatch {
        LeadershipWatch::new(self.0.replica.node, self.0.replica.raft.server_metrics())
    }

    /// Waits until this replica has applied the entry at `index`; false at the deadline or when it stops.
    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> bool {
        let mut metrics = self.0.replica.raft.metrics();
        let wait = metrics.wait_for(|metrics| {
            metrics.running_state.is_err()
                || metrics.last_applied.is_some_and(|applied| applied.index >= index)
        });
        match tokio::time::timeout_at(deadline.into(), wait).await {
            Ok(Ok(metrics)) => metrics.last_applied.is_some_and(|applied| applied.index >= index),
            _ => false,
        }
    }

    /// Starts an election on this replica, to take over from a leader that stops.
    ///
    /// # Errors
    /// When the group does not run on this node.
    pub async fn elect(&self) -> Result<(), ReadError> {
        self.0.replica.raft.trigger().elect().await.map_err(|fatal| ReadError::Unavailable(fatal.to_string()))
    }

    /// Tells the group of a snapshot file that was built, and waits until it counts on it.
    /// False at the deadline.
    ///
    /// # Errors
    /// When the group does not run on this node.
    pub async fn announce_snapshot(&self, index: u64, deadline: Instant) -> Result<bool, ReadError> {
        let raft = &self.0.replica.raft;
        let mut metrics = raft.metrics();
        let known = |metrics: &Metrics| metrics.snapshot.is_some_and(|known| known.index >= index);
        if known(&metrics.borrow()) {
            return Ok(true);
        }
        raft.trigger().snapshot().await.map_err(|fatal| ReadError::Unavailable(fatal.to_string()))?;
        let wait = metrics.wait_for(|metrics| metrics.running_state.is_err() || known(metrics));
        match tokio::time::timeout_at(deadline.into(), wait).await {
            Ok(Ok(metrics)) => Ok(known(&metrics)),
            _ => Ok(false),
        }
    }

    /// Removes the entries up to `index` from the log, if a snapshot that was announced holds them;
    /// soon, as replication may still need some of them.
    ///
    /// # Errors
    /// When the group does not run on this node.
    pub async fn purge_log(&self, index: u64) -> Result<(), ReadError> {
        let purge = self.0.replica.raft.trigger().purge_log(index).await;
        purge.map_err(|fatal| ReadError::Unavailable(fatal.to_string()))
    }

    /// The index of the last entry that was removed from the log.
    pub fn purged(&self) -> Option<u64> {
        self.0.replica.log.purged().map(|purged| purged.index)
    }

    /// The first index that some other replica lacks, if this one leads and there are others.
    pub fn first_missing(&self) -> Option<u64> {
        let metrics = self.0.replica.raft.metrics();
        let metrics = metrics.borrow();
        let others = metrics.replication.as_ref()?.iter().filter(|(node, _)| **node != self.0.replica.node);
        others.map(|(_, matched)| matched.map_or(0, |matched| matched.index + 1)).min()
    }

    /// How many commands this replica has proposed, in how many entries.
    pub fn batch_stats(&self) -> BatchStats {
        BatchStats {
            entries: self.0.counters.entries.load(Ordering::Relaxed),
            commands: self.0.counters.commands.load(Ordering::Relaxed),
        }
    }

    /// Proposes nothing more until the answer is dropped; what comes meanwhile waits.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.0.reins.hold()
    }

    /// Waits until no entry is in flight; to be called while the group is held.
    pub(crate) async fn quiet(&self) {
        self.0.reins.quiet().await;
    }

    /// When this leader may vote for another: it heard itself last when it was elected, and keeps
    /// the lease of that leader as any other replica does.
    pub(crate) fn vote_free_at(&self) -> Instant {
        let lease = self.0.replica.leases.get(&self.0.replica.node).copied().unwrap_or_default();
        self.0.reins.leading_since().unwrap_or_else(Instant::now) + lease + lease / 8
    }

    /// The voters beside this one.
    pub(crate) fn others(&self) -> Vec<NodeId> {
        let metrics = self.0.replica.raft.metrics();
        let voters: Vec<NodeId> = metrics.borrow().membership_config.voter_ids().collect();
        voters.into_iter().filter(|voter| *voter != self.0.replica.node).collect()
    }

    /// The leases of the voters.
    pub(crate) fn leases(&self) -> Vec<(NodeId, Duration)> {
        let lease = |node: NodeId| (node, self.0.replica.leases.get(&node).copied().unwrap_or_default());
        self.others().into_iter().chain([self.0.replica.node]).map(lease).collect()
    }

    /// This replica's node.
    pub(crate) fn node(&self) -> NodeId {
        self.0.replica.node
    }

    /// From now on this replica is no candidate unless it is asked to be.
    pub(crate) fn stand_back(&self) {
        self.0.replica.raft.runtime_config().elect(false);
    }

    pub(crate) fn raft(&self) -> &RaftHandle {
        &self.0.replica.raft
    }

    /// Stops taking commands, lets those in flight finish for a moment, and stops the replica. The state
    /// is not touched after this.
    pub async fn shutdown(&self) {
        let tasks = std::mem::take(&mut *self.0.tasks.lock());
        let mut stopping = Vec::new();
        for (stop, task) in tasks {
            // An error means that the task has ended.
            let _ = stop.send(());
            stopping.push(task);
        }
        let mut all = futures::future::join_all(stopping);
        let drained = tokio::time::timeout(DRAIN_TIME, &mut all).await.is_ok();
        if let Err(error) = self.0.replica.raft.shutdown().await {
            tracing::error!(group = self.0.replica.id, %error, "the group did not stop cleanly");
        }
        if !drained {
            // openraft has answered or dropped everything by now.
            let _ = all.await;
        }
        let idle = self.0.idle.lock().take();
        if let Some(idle) = idle
            && tokio::time::timeout(APPLY_TIME, idle).await.is_err()
        {
            tracing::error!(group = self.id(), "the state is still applying entries of the stopped group");
        }
    }
}
