//! Starting one group: what must be true of its log and state before it may vote.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acks::AckClock;
use super::apply_pool::ApplyPool;
use super::clock::Clock;
use super::error::OpenError;
use super::freshness::{Following, Leading};
use super::group::{Group, Replica};
use super::log::{GroupLog, LogDevice};
use super::multi::{GroupSpec, RaftNodeConfig, Timing};
use super::network::{Network, Peers};
use super::rest::Rest;
use super::reversion::Reversion;
use super::state_machine::StateMachine;
use super::transfer::Transfers;
use super::types::{Applier, GroupId, LogPosition, NodeId, RaftHandle};

/// The pause before the other replicas are asked for a snapshot file again.
const FETCH_PAUSE: Duration = Duration::from_millis(500);

/// What every group of the node is started with.
pub(super) struct Starter<'a> {
    pub(super) config: &'a RaftNodeConfig,
    pub(super) log: &'a Arc<dyn LogDevice>,
    pub(super) pool: ApplyPool,
    pub(super) peers: Arc<Peers>,
    pub(super) reversion: Arc<Reversion>,
    pub(super) transfers: &'a Transfers,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cache_bytes: usize,
}

impl Starter<'_> {
    pub(super) async fn start(&self, spec: GroupSpec) -> Result<Group, OpenError> {
        let GroupSpec { id, replicas, applier } = spec;
        let node = self.config.node_id;
        let timing = Timing::new(self.config.heartbeat, id, &replicas, node)
            .ok_or_else(|| OpenError::Config(format!("group {id} has no place for node {node}")))?;
        let lease_of = |replica: &NodeId| {
            let timing = Timing::new(self.config.heartbeat, id, &replicas, *replica)?;
            Some((*replica, timing.election))
        };
        let leases = replicas.iter().filter_map(lease_of).collect();
        let config = Arc::new(timing.config(&self.config.cluster_id)?);
        let log = self.open_log(id, &replicas, applier.clone()).await?;
        let acks = Arc::new(AckClock::default());
        let rest = Arc::new(Rest::new(2 * self.config.heartbeat));
        let leading = Arc::new(Leading::new(node, acks.clone(), log.clone()));
        let network = Network {
            group: id,
            peers: self.peers.clone(),
            acks: acks.clone(),
            rest: rest.clone(),
            leading: leading.clone(),
            reversion: self.reversion.clone(),
        };
        let (state_machine, idle) = StateMachine::new(id, applier, self.pool.clone());
        let raft = RaftHandle::new(node, config, network, log.clone(), state_machine)
            .await
            .map_err(|error| OpenError::Start { group: id, cause: error.to_string() })?;
        leading.attach(raft.metrics());
        self.reversion.add(id, log.clone());
        let following = Arc::new(Following::default());
        let replica = Replica { id, node, raft, log, acks, following, lease: timing.lease_min, leases, rest };
        Ok(Group::start(replica, idle, self.clock.clone()))
    }

    /// Opens a group's log and refuses one that has lost what it once had: voting with it could undo
    /// acknowledged writes.
    async fn open_log(
        &self,
        id: GroupId,
        replicas: &[NodeId],
        applier: Arc<dyn Applier>,
    ) -> Result<GroupLog, OpenError> {
        let files = applier.snapshot_files();
        let log = GroupLog::open(self.log.clone(), id, self.cache_bytes, files.clone()).await?;
        self.bring_up(id, replicas, &applier, &log).await?;
        let applied = self.applied(id, &applier).await?;
        let log_end = log.last();
        if let Some(committed) = log.committed()
            && log_end.is_none_or(|end| end.index < committed.index)
        {
            return Err(OpenError::LostCommitted { group: id, committed, log_end });
        }
        if let Some(applied) = applied
            && log_end.is_none_or(|end| end.index < applied.index)
        {
            // A file was installed, and the log not purged before the process died: openraft does it
            // now. But a log without a vote is not the one that this replica had.
            let newest = files.and_then(|files| files.newest());
            let installed = newest.is_some_and(|newest| newest.header().position == applied);
            if !installed || !log.has_vote()? {
                return Err(OpenError::LogBehindState { group: id, applied, log_end });
            }
        }
        Ok(log)
    }

    async fn applied(
        &self,
        id: GroupId,
        applier: &Arc<dyn Applier>,
    ) -> Result<Option<LogPosition>, OpenError> {
        let applier = applier.clone();
        let applied = self.pool.run(move || applier.applied()).await;
        Ok(applied.map_err(|source| OpenError::Applier { group: id, source })?.last)
    }

    /// Fetches a snapshot file from any other replica if the state lacks entries that the log has
    /// purged. openraft would take such a replica for one that has everything its log ever held.
    async fn bring_up(
        &self,
        id: GroupId,
        replicas: &[NodeId],
        applier: &Arc<dyn Applier>,
        log: &GroupLog,
    ) -> Result<(), OpenError> {
        let Some(purged) = log.purged() else { return Ok(()) };
        let applied = self.applied(id, applier).await?;
        let is_behind = |applied: Option<LogPosition>| applied.is_none_or(|at| at.index < purged.index);
        if !is_behind(applied) {
            return Ok(());
        }
        tracing::warn!(group = id, %purged, ?applied, "the state is behind its purged log; asking the other replicas");
        let failed = |cause: String| OpenError::StateBehindLog { group: id, purged, applied, cause };
        let files = applier.snapshot_files().ok_or_else(|| failed("this state takes no files".into()))?;
        let others: Vec<NodeId> =
            replicas.iter().copied().filter(|node| *node != self.config.node_id).collect();
        let deadline = Instant::now() + self.config.fetch_wait;
        let mut cause = "there are none".to_owned();
        loop {
            for node in &others {
                match self.transfers.fetch_at_least(id, *node, &files, purged.index).await {
                    Ok(file) if file.id().index >= purged.index => {
                        let applier = applier.clone();
                        let install = tokio::task::spawn_blocking(move || applier.install_snapshot(&file));
                        let installed = install.await.map_err(|error| failed(error.to_string()))?;
                        return installed.map_err(|source| OpenError::Applier { group: id, source });
                    }
                    Ok(file) => cause = format!("node {node}: its file ends at {}", file.id().index),
                    Err(error) => cause = format!("node {node}: {error}"),
                }
            }
            if others.is_empty() || Instant::now() >= deadline {
                return Err(failed(cause));
            }
            tokio::time::sleep(FETCH_PAUSE).await;
        }
    }
}
