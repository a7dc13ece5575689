//! All Raft groups of one node.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::StreamExt;
use holdfast_transport::Security;
use openraft::error::{InitializeError as RaftInitializeError, RaftError};
use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::address::AddressBook;
use super::clock::Clock;
use super::error::{InitializeError, LogError, OpenError};
use super::group::Group;
use super::handover::{HandOverError, hand_over_all};
pub use super::log::LogFiles;
use super::log::{LogDevice, LogStats};
use super::network::Peers;
use super::platform::Platform;
use super::report::{self, NodeReport};
use super::reversion::{Reversion, Reverted};
use super::service::{RaftService, Registry};
use super::starter::Starter;
use super::transfer::Transfers;
use super::types::{Applier, GroupId, NodeId};
use super::witness::Witness;
use crate::snapshot::{SnapshotFile, SnapshotFiles};

/// How long a node that starts waits for what others remember of it before it takes part in
/// elections, in heartbeats: 2 s in production. It waits that long only where a node is down.
const RECOLLECT_HEARTBEATS: u32 = 8;
/// Groups that recover at the same time when the node starts.
const STARTING_MAX: usize = 8;

/// The settings of a node's Raft groups.
#[derive(Clone, Debug)]
pub struct RaftNodeConfig {
    /// This node.
    pub node_id: NodeId,
    /// Its cluster: messages from others are refused.
    pub cluster_id: String,
    /// Where the log lives.
    pub dir: PathBuf,
    /// How often an idle leader is heard. The election timeouts follow from it; see [`Timing`].
    pub heartbeat: Duration,
    /// Apply threads; `None` takes half of the cores.
    pub apply_threads: Option<usize>,
    /// How the nodes talk to each other.
    pub security: Security,
    /// Tells this process from another one with the same node id: random, not 0, other at every start.
    pub run: u64,
    /// When log files are removed.
    pub log_files: LogFiles,
    /// How fast snapshot files of other nodes are fetched, bytes a second.
    pub fetch_bytes_per_second: u64,
    /// How long a replica without a usable state asks the others for a snapshot file before it gives up.
    pub fetch_wait: Duration,
}

impl RaftNodeConfig {
    /// The settings of a production node: a heartbeat of 250 ms. Without TLS, which is to be set.
    pub fn new(node_id: NodeId, cluster_id: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        RaftNodeConfig {
            node_id,
            cluster_id: cluster_id.into(),
            dir: dir.into(),
            heartbeat: Duration::from_millis(250),
            apply_threads: None,
            security: Security::plain(),
            run: rand::random::<u64>().max(1),
            log_files: LogFiles::default(),
            fetch_bytes_per_second: 64 << 20,
            fetch_wait: Duration::from_secs(60),
        }
    }
}

/// One group of a node.
pub struct GroupSpec {
    /// The group.
    pub id: GroupId,
    /// Its replicas, of which this node is one. Their order, the same on all nodes, spreads the
    /// election timeouts.
    pub replicas: Vec<NodeId>,
    /// Its state on this node.
    pub applier: Arc<dyn Applier>,
}

/// The timing of one replica.
///
/// openraft looks at its timers only every 3/2 of its heartbeat interval, so that interval is set to
/// 2/3 of ours: leaders are heard, and timeouts noticed, every `heartbeat`. It draws one election
/// timeout per replica, for good; two survivors that notice theirs at the same tick could split votes
/// forever. So the replica of rank r (its place in the group's list, rotated by the group's number)
/// gets (2 + r) heartbeats: they never campaign within the same tick. A follower waits for that
/// timeout twice, first as the lease of the leader: with 250 ms the survivor of lowest rank takes over
/// 1.0-1.25 s after the leader's last message if it has rank 0, else 1.5-1.75 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The interval given to openraft.
    pub tick_base: Duration,
    /// This replica's election timeout, and for how long it turns away candidates after its leader
    /// was heard.
    pub election: Duration,
    /// The shortest election timeout of any replica: for that long no voter grants another candidate.
    pub lease_min: Duration,
}

impl Timing {
    /// The timing of `node` among the `replicas` of `group`.
    pub fn new(heartbeat: Duration, group: GroupId, replicas: &[NodeId], node: NodeId) -> Option<Self> {
        let place = replicas.iter().position(|replica| *replica == node)?;
        let count = replicas.len();
        let rank = (place + group as usize % count) % count;
        Some(Timing {
            tick_base: heartbeat * 2 / 3,
            election: heartbeat * (2 + u32::try_from(rank).ok()?),
            lease_min: heartbeat * 2,
        })
    }

    pub(super) fn config(&self, cluster: &str) -> Result<Config, OpenError> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: cluster.to_owned(),
            heartbeat_interval: millis(self.tick_base),
            // Drawn from min..max: exactly `election`.
            election_timeout_min: millis(self.election),
            election_timeout_max: millis(self.election) + 1,
            max_payload_entries: super::log::APPEND_ENTRIES_MAX,
            // Files are built, and the log is purged, when we say so.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            ..Config::default()
        };
        config.validate().map_err(|error| OpenError::Config(error.to_string()))
    }
}

/// The Raft groups of one node, with their log and their connections.
pub struct RaftNode {
    node_id: NodeId,
    cluster_id: String,
    log: Arc<dyn LogDevice>,
    registry: Arc<Registry>,
    peers: Arc<Peers>,
    transfers: Arc<Transfers>,
    groups: BTreeMap<GroupId, Group>,
    witness: Arc<Witness>,
    reversion: Arc<Reversion>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl RaftNode {
    /// Opens the log and starts every group. Committed entries that a state lacks are applied before
    /// this returns.
    ///
    /// # Errors
    /// When the settings are wrong, or a log or state is missing, damaged or another node's. Nothing
    /// runs then.
    pub async fn open(
        config: RaftNodeConfig,
        specs: Vec<GroupSpec>,
        addresses: Arc<dyn AddressBook>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        check(&config, &specs)?;
        let platform = Platform::of_machine(&config, specs.len()).await?;
        Self::open_on(platform, config, specs, addresses, clock).await
    }

    /// As [`RaftNode::open`], on a given ground.
    pub(crate) async fn open_on(
        platform: Platform,
        config: RaftNodeConfig,
        specs: Vec<GroupSpec>,
        addresses: Arc<dyn AddressBook>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        check(&config, &specs)?;
        let Platform { log, group_cache_bytes: cache_bytes, pool, connect } = platform;
        let (witness, reversion) = memories(&config.dir)?;
        let peers = Arc::new(Peers::new(&config, addresses, connect, witness.clone()));
        let transfers = Arc::new(Transfers::new(peers.clone(), config.fetch_bytes_per_second));
        let starter = Starter {
            config: &config,
            log: &log,
            pool,
            peers: peers.clone(),
            reversion: reversion.clone(),
            transfers: &transfers,
            clock,
            cache_bytes,
        };
        let others = others(&specs, config.node_id);
        let appliers: BTreeMap<GroupId, Arc<dyn Applier>> =
            specs.iter().map(|spec| (spec.id, Arc::clone(&spec.applier))).collect();
        let started: Vec<Result<Group, OpenError>> = futures::stream::iter(specs)
            .map(|spec| starter.start(spec))
            .buffer_unordered(STARTING_MAX)
            .collect()
            .await;
        drop(starter);
        let registry = Arc::new(Registry::default());
        let mut node = RaftNode {
            node_id: config.node_id,
            cluster_id: config.cluster_id,
            log,
            registry,
            peers,
            transfers,
            groups: BTreeMap::new(),
            witness,
            reversion,
            tasks: Mutex::default(),
        };
        let mut failure = None;
        for result in started {
            match result {
                Ok(group) => {
                    node.groups.insert(group.id(), group);
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            node.shutdown().await;
            return Err(error);
        }
        for (id, group) in &node.groups {
            if let Some(applier) = appliers.get(id) {
                node.registry.insert(group, Arc::clone(applier));
            }
        }
        node.watch_over(others, config.heartbeat * RECOLLECT_HEARTBEATS);
        Ok(node)
    }

    /// Starts what keeps the memory of peers, and what stops this node if its disk went back.
    fn watch_over(&self, others: BTreeSet<NodeId>, patience: Duration) {
        let peers = Arc::clone(&self.peers);
        let groups: Vec<Group> = self.groups.values().cloned().collect();
        let reversion = Arc::clone(&self.reversion);
        let stop = async move {
            reversion.wait_found().await;
            let noted = Arc::clone(&reversion);
            match tokio::task::spawn_blocking(move || noted.write_down()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "that this disk went back could not be written down")
                }
                Err(error) => tracing::error!(%error, "writing down that this disk went back ended badly"),
            }
            futures::future::join_all(groups.iter().map(Group::shutdown)).await;
        };
        let tasks = [
            tokio::spawn(Arc::clone(&self.witness).keep()),
            tokio::spawn(Arc::clone(&self.reversion).recollect(peers, others, patience)),
            tokio::spawn(stop),
        ];
        self.tasks.lock().extend(tasks);
    }

    /// The proof that this node's disk went back, if there is one: its groups are stopped then.
    pub fn reverted(&self) -> Option<Reverted> {
        self.reversion.found()
    }

    /// The nodes that lost what they had acknowledged to this one, each with the number of groups in
    /// which that was noticed.
    pub fn refused_peers(&self) -> BTreeMap<NodeId, usize> {
        self.witness.refused()
    }

    /// This node.
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// One of this node's groups.
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// All of this node's groups, by id.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// The service that takes other nodes' messages; serve it at this node's address.
    pub fn service(&self) -> RaftService {
        let (groups, transfers) = (self.registry.clone(), self.transfers.clone());
        RaftService::new(
            self.node_id,
            &self.cluster_id,
            groups,
            transfers,
            self.peers.clone(),
            self.reversion.clone(),
        )
    }

    /// What the log has done since the node started.
    pub fn log_stats(&self) -> LogStats {
        self.log.stats()
    }

    /// Bytes of snapshot files sent to and received from other nodes since this one started.
    pub fn snapshot_bytes_moved(&self) -> (u64, u64) {
        let stats = &self.transfers.stats;
        (stats.sent_bytes.load(Ordering::Relaxed), stats.received_bytes.load(Ordering::Relaxed))
    }

    /// What another node's replicas hold.
    ///
    /// # Errors
    /// Why it does not tell, in words.
    pub(crate) async fn ask_report(&self, node: NodeId) -> Result<NodeReport, String> {
        report::ask(&self.peers, node).await
    }

    /// Fetches a snapshot file that ends at `index` or later from another node.
    ///
    /// # Errors
    /// Why it did not come, in words.
    pub(crate) async fn fetch_snapshot(
        &self,
        group: GroupId,
        from: NodeId,
        files: &Arc<SnapshotFiles>,
        index: u64,
    ) -> Result<Arc<SnapshotFile>, String> {
        let fetched = self.transfers.fetch_at_least(group, from, files, index).await;
        fetched.map_err(|error| error.to_string())
    }

    /// Makes the files of the log anew: what was purged from it is gone from the disk when this returns.
    ///
    /// # Errors
    /// When the log has failed or is closed.
    pub(crate) async fn renew_log_files(&self) -> Result<(), LogError> {
        self.log.renew_files().await
    }

    /// Why the log takes nothing any more, if so: no group of this node works then, until it starts again.
    pub fn log_failure(&self) -> Option<String> {
        self.log.failure()
    }

    /// The groups whose old entries hold back the removal of log files, since this was last asked.
    pub fn take_held_back(&self) -> BTreeSet<GroupId> {
        self.log.take_held_back()
    }

    /// Gives a new group its first members. To be called on one of them, once in the group's life;
    /// calling again does nothing. Returns whether this call did it.
    ///
    /// # Errors
    /// When this node has no such group or is no member, or the group does not run.
    pub async fn initialize(&self, group: GroupId, members: &[NodeId]) -> Result<bool, InitializeError> {
        let raft = self.groups.get(&group).ok_or(InitializeError::UnknownGroup(group))?.raft();
        // It stands for election at once.
        self.reversion.wait_part().await;
        let voters: BTreeSet<NodeId> = members.iter().copied().collect();
        match raft.initialize(voters).await {
            Ok(()) => Ok(true),
            // It has a log or a vote already.
            Err(RaftError::APIError(RaftInitializeError::NotAllowed(_))) => Ok(false),
            Err(RaftError::APIError(RaftInitializeError::NotInMembers(_))) => {
                Err(InitializeError::NotMember { node: self.node_id, members: members.to_vec() })
            }
            Err(RaftError::Fatal(fatal)) => Err(InitializeError::NotRunning(fatal.to_string())),
        }
    }

    /// Hands the leadership of every group to another replica, to go out of service without making
    /// anybody wait, and takes no leadership from now on. Returns the groups that are still led here
    /// at the deadline, with the reason. May be called again.
    pub async fn hand_over(&self, deadline: Instant) -> Vec<(GroupId, HandOverError)> {
        self.registry.go_out_of_service();
        self.groups.values().for_each(Group::stand_back);
        hand_over_all(self.groups.values().cloned().collect(), Arc::clone(&self.peers), deadline).await
    }

    /// Stops all groups, writes what the log has queued, and releases its directory.
    pub async fn shutdown(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        futures::future::join_all(self.groups.values().map(Group::shutdown)).await;
        self.registry.clear();
        let witness = self.witness.clone();
        match tokio::task::spawn_blocking(move || witness.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "what peers acknowledged could not be written down"),
            Err(error) => tracing::error!(%error, "writing down what peers acknowledged ended badly"),
        }
        if let Err(error) = Arc::clone(&self.log).close().await {
            tracing::error!(node = self.node_id, %error, "the log did not close cleanly");
        }
    }
}

/// The nodes that this one shares groups with.
fn others(specs: &[GroupSpec], this_node: NodeId) -> BTreeSet<NodeId> {
    let replicas = specs.iter().flat_map(|spec| spec.replicas.iter().copied());
    replicas.filter(|node| *node != this_node).collect()
}

/// What this node remembers of its peers, and what it knows of its own disk.
fn memories(dir: &Path) -> Result<(Arc<Witness>, Arc<Reversion>), OpenError> {
    let io = |error: io::Error| OpenError::Log(LogError::Io(error.to_string()));
    let reversion = Reversion::open(dir).map_err(io)?;
    if let Some(proof) = reversion.found() {
        return Err(OpenError::Reverted(Box::new(proof)));
    }
    Ok((Arc::new(Witness::open(dir).map_err(io)?), Arc::new(reversion)))
}

fn check(config: &RaftNodeConfig, specs: &[GroupSpec]) -> Result<(), OpenError> {
    if config.cluster_id.is_empty() {
        return Err(OpenError::Config("the cluster id is empty".into()));
    }
    if config.heartbeat < Duration::from_millis(30) {
        return Err(OpenError::Config(format!("a heartbeat of {:?} is too short", config.heartbeat)));
    }
    let mut seen = BTreeSet::new();
    for spec in specs {
        if !seen.insert(spec.id) {
            return Err(OpenError::Config(format!("group {} is given twice", spec.id)));
        }
        if !spec.replicas.contains(&config.node_id) {
            return Err(OpenError::Config(format!(
                "node {} is no replica of group {}: {:?}",
                config.node_id, spec.id, spec.replicas
            )));
        }
    }
    Ok(())
}
