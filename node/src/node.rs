use crate::index::Spaces;
use crate::metrics::{ApplyMetrics, NodeMetrics, ProposalMetrics, Sources};
use crate::raft::{
    Clock, GroupId, GroupSpec, GuardedClock, NodeId, OpenError as RaftOpenError, RaftNode, RaftNodeConfig,
};
use crate::raft::{ProposeError, StaticAddresses};
use crate::service::{NodeService, Replica};
use crate::shard::{BootId, OpenError, ShardPlace, ShardState};
use crate::sweeper;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::outcome::Outcome;
use holdfast_core::space::{SHARDS_MAX, Shard};
use holdfast_proto::{MESSAGE_BYTES_MAX, v1};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;

/// The file that says whose directory it is.
const IDENTITY: &str = "identity.json";
/// The file in the log's directory that says whose log it is; written before the first entry.
const LOG_OWNER: &str = "OWNER";
/// The directory of the log.
const RAFT: &str = "raft";

/// How long open connections may take to end at a stop.
const SERVER_STOP_MAX: Duration = Duration::from_secs(3);

/// How a node runs.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The node's id, unique in the cluster and never reused.
    pub node_id: NodeId,
    /// The id that the cluster was given at its start.
    pub cluster_id: String,
    /// Where the node keeps its data; made if it is missing.
    pub dir: PathBuf,
    /// Id and address (`host:port`) of every node, this one included.
    pub members: Vec<(NodeId, String)>,
    /// Number of shards, 1 to 256; fixed at the cluster's start.
    pub shards: u16,
    /// Whether the cluster is only now being founded. Later a node without its data must not come
    /// back under its old id: it has forgotten its votes and what it acknowledged.
    pub founding: bool,
    /// Memory for the page caches of all states together, in bytes.
    pub state_cache_bytes: u64,
    /// Memory for the images of active spaces, in bytes.
    pub spaces_bytes: usize,
    /// Time between two heartbeats of a leader.
    pub heartbeat: Duration,
    /// Threads that search; 0 for one a core.
    pub search_threads: usize,
}

impl NodeConfig {
    /// The defaults: 128 MiB of page cache, 512 MiB of images, a heartbeat of 250 ms.
    pub fn new(
        node_id: NodeId,
        cluster_id: &str,
        dir: &Path,
        members: Vec<(NodeId, String)>,
        shards: u16,
    ) -> Self {
        Self {
            node_id,
            cluster_id: cluster_id.to_owned(),
            dir: dir.to_owned(),
            members,
            shards,
            founding: false,
            state_cache_bytes: 128 << 20,
            spaces_bytes: 512 << 20,
            heartbeat: Duration::from_millis(250),
            search_threads: 0,
        }
    }
}

/// Whose directory it is; written once, checked at every start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The node's id.
    pub node_id: NodeId,
    /// The cluster that it belongs to.
    pub cluster_id: String,
    /// Number of shards of the cluster.
    pub shards: u16,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error("{0}")]
    Config(String),
    /// The directory belongs to another node or cluster.
    #[error("{path} belongs to {found:?}, not to {expected:?}; give each node its own directory")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: Box<Identity>,
        /// Who wanted it.
        expected: Box<Identity>,
    },
    /// The node's data is gone.
    #[error(
        "{path} holds no data of node {node}, which the cluster knows already; a node that has lost its disk \
         must not come back under its old id, so bring the data back or go on without this node"
    )]
    Lost {
        /// The directory.
        path: PathBuf,
        /// Which node.
        node: NodeId,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A metric is defined wrongly: a defect.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A state cannot be opened.
    #[error(transparent)]
    State(#[from] OpenError),
    /// The log or a group cannot be opened.
    #[error(transparent)]
    Raft(#[from] RaftOpenError),
}

/// Why a cluster is not initialised.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A group did not take its first members.
    #[error("group {group}: {error}")]
    Group {
        /// Which.
        group: GroupId,
        /// What it said.
        error: crate::raft::InitializeError,
    },
    /// The meta group did not take the first rows.
    #[error("the cluster could not be named: {0}")]
    Propose(ProposeError),
    /// The meta group refused the first rows.
    #[error(transparent)]
    Refused(holdfast_core::Error),
    /// The answer of the meta group makes no sense.
    #[error("the meta group answered {0}")]
    Answer(String),
}

/// A running node.
pub struct Node {
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    metrics: Arc<NodeMetrics>,
    members: Vec<NodeId>,
    stop: CancellationToken,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
    sweeper: JoinHandle<()>,
}

impl Node {
    /// Opens the data in `config.dir`, applies what the log holds beyond it, and serves on `listener`.
    ///
    /// # Errors
    /// [`StartError`] says what is wrong; nothing runs then.
    pub async fn start(config: NodeConfig, listener: TcpListener) -> Result<Self, StartError> {
        check(&config)?;
        let identity = Identity {
            node_id: config.node_id,
            cluster_id: config.cluster_id.clone(),
            shards: config.shards,
        };
        if !config.founding && !has_data(&config.dir) {
            return Err(StartError::Lost { path: config.dir, node: config.node_id });
        }
        claim(&config.dir, &identity)?;
        let metrics = Arc::new(NodeMetrics::new(config.node_id)?);
        let states = open_states(&config, metrics.applies.clone()).await?;
        let specs = states.iter().map(|(id, state)| GroupSpec {
            id: *id,
            replicas: config.members.iter().map(|(node, _)| *node).collect(),
            applier: Arc::clone(state) as _,
        });
        let mut raft_config =
            RaftNodeConfig::new(config.node_id, config.cluster_id.clone(), config.dir.join(RAFT));
        raft_config.heartbeat = config.heartbeat;
        let uris = config.members.iter().map(|(id, address)| (*id, format!("http://{address}")));
        let clock: Arc<dyn Clock> = Arc::new(GuardedClock::system());
        let addresses = Arc::new(StaticAddresses::new(uris));
        let raft = RaftNode::open(raft_config, specs.collect(), addresses, Arc::clone(&clock)).await?;
        let raft = Arc::new(raft);
        let replicas = replicas(&raft, states, &metrics.proposals)?;
        let groups =
            replicas.values().map(|replica| (replica.group.clone(), Arc::clone(&replica.state))).collect();
        metrics.scraper.attach(Sources::new(Arc::clone(&raft), groups, config.spaces_bytes));

        let members =
            config.members.iter().map(|(id, address)| v1::Member { id: *id, address: address.clone() });
        let search_threads = match config.search_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let service = NodeService::new(
            config.cluster_id.clone(),
            config.shards,
            members.collect(),
            replicas.clone(),
            search_threads,
            Arc::clone(&metrics),
        );
        let stop = CancellationToken::new();
        let server = serve(&raft, service, listener, stop.clone());
        let sweeper =
            tokio::spawn(sweeper::run(replicas.clone(), clock, metrics.sweeps.clone(), stop.clone()));
        let members = config.members.iter().map(|(id, _)| *id).collect();
        Ok(Self { raft, replicas, metrics, members, stop, server, sweeper })
    }

    /// This node's id.
    pub fn id(&self) -> NodeId {
        self.raft.node_id()
    }

    /// What this node measures, each metric with the label `node`. Once the node stops, its groups,
    /// log and states are no longer in it.
    pub fn registry(&self) -> &prometheus::Registry {
        &self.metrics.registry
    }

    /// Gives every group its first members. To be called on one node at the cluster's start;
    /// calling again does nothing.
    ///
    /// # Errors
    /// [`InitError::Group`] names the group that refused.
    pub async fn form_groups(&self) -> Result<(), InitError> {
        for group in self.replicas.keys().copied() {
            let formed = self.raft.initialize(group, &self.members).await;
            formed.map_err(|error| InitError::Group { group, error })?;
        }
        Ok(())
    }

    /// Proposes the first rows of the cluster if this node leads the meta group. `Ok(false)`: it
    /// does not lead; ask another node. Happens once: a second time is
    /// [`holdfast_core::ErrorCode::AlreadyExists`].
    ///
    /// # Errors
    /// [`InitError`] if the proposal failed or was refused.
    pub async fn name_cluster(&self, command: MetaCommand, timeout: Duration) -> Result<bool, InitError> {
        let Some(meta) = self.replicas.get(&GroupId::from(Shard::META.0)) else { return Ok(false) };
        let command = Command::Meta(Box::new(command));
        let bytes = command.encode().map_err(|error| InitError::Answer(error.to_string()))?;
        let proposed = match meta.propose(bytes.into(), Instant::now() + timeout).await {
            Ok(proposed) => proposed,
            Err(ProposeError::NotLeader { .. }) => return Ok(false),
            Err(error) => return Err(InitError::Propose(error)),
        };
        match Outcome::decode(&proposed.outcome) {
            Ok(Outcome::Done) => Ok(true),
            Ok(Outcome::Failed(error)) => Err(InitError::Refused(error)),
            Ok(other) => Err(InitError::Answer(format!("{other:?}"))),
            Err(error) => Err(InitError::Answer(error.to_string())),
        }
    }

    /// Waits until every group has a leader that this node knows; false at the deadline.
    pub async fn wait_for_leaders(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        for replica in self.replicas.values() {
            let mut watch = replica.group.watch();
            while watch.leader().is_none() {
                match tokio::time::timeout_at(deadline.into(), watch.changed()).await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return false,
                }
            }
        }
        true
    }

    /// Stops serving, finishes what is in flight, and leaves the states in order.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.sweeper.await {
            tracing::error!(%error, "the sweeper ended badly");
        }
        self.raft.shutdown().await;
        let mut server = self.server;
        match tokio::time::timeout(SERVER_STOP_MAX, &mut server).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::error!(%error, "the server ended badly"),
            Ok(Err(error)) => tracing::error!(%error, "the server ended badly"),
            Err(_) => {
                tracing::warn!("connections were cut off: they did not end in time");
                server.abort();
            }
        }
        let states: Vec<_> = self.replicas.values().map(|replica| Arc::clone(&replica.state)).collect();
        let metrics = Arc::clone(&self.metrics);
        let close = tokio::task::spawn_blocking(move || {
            // No scrape may hold a state open when this directory is opened again.
            metrics.scraper.detach();
            for state in states {
                if let Err(error) = state.close() {
                    tracing::error!(%error, "a state was not left in order; it may be rebuilt at the next start");
                }
            }
        });
        if let Err(error) = close.await {
            tracing::error!(%error, "the states were not left in order; they may be rebuilt at the next start");
        }
    }
}

fn check(config: &NodeConfig) -> Result<(), StartError> {
    let refuse = |detail: &str| Err(StartError::Config(detail.into()));
    if config.shards == 0 || config.shards > SHARDS_MAX {
        return refuse("a cluster has 1 to 256 shards");
    }
    if !config.members.iter().any(|(id, _)| *id == config.node_id) {
        return refuse("the members do not name this node");
    }
    Ok(())
}

/// Whether a node has run here: its identity and its log are there.
fn has_data(dir: &Path) -> bool {
    dir.join(IDENTITY).is_file() && dir.join(RAFT).join(LOG_OWNER).is_file()
}

/// Checks whose directory it is, or makes it this node's.
fn claim(dir: &Path, identity: &Identity) -> Result<(), StartError> {
    let path = dir.join(IDENTITY);
    let io_error = |error: io::Error| StartError::Io { path: path.clone(), error };
    fs::create_dir_all(dir).map_err(io_error)?;
    match fs::read(&path) {
        Ok(bytes) => {
            let found: Identity = serde_json::from_slice(&bytes).map_err(|error| io_error(error.into()))?;
            if found == *identity {
                return Ok(());
            }
            let (found, expected) = (Box::new(found), Box::new(identity.clone()));
            Err(StartError::Foreign { path: dir.to_owned(), found, expected })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let temp = dir.join("identity.json.tmp");
            let write = || -> io::Result<()> {
                let mut file = File::create(&temp)?;
                file.write_all(&serde_json::to_vec_pretty(identity)?)?;
                file.sync_all()?;
                fs::rename(&temp, &path)?;
                File::open(dir)?.sync_all()
            };
            write().map_err(io_error)
        }
        Err(error) => Err(io_error(error)),
    }
}

/// Opens the states of all groups; the blocking work runs beside the runtime.
async fn open_states(
    config: &NodeConfig,
    metrics: ApplyMetrics,
) -> Result<BTreeMap<GroupId, Arc<ShardState>>, StartError> {
    let (dir, shards, cluster) = (config.dir.join("shards"), config.shards, config.cluster_id.clone());
    let share = config.state_cache_bytes / (u64::from(shards) + 1);
    let spaces = Arc::new(Spaces::new(config.spaces_bytes));
    let open = tokio::task::spawn_blocking(move || {
        let boot = BootId::current()
            .map_err(|error| StartError::Io { path: "/proc/sys/kernel/random/boot_id".into(), error })?;
        let mut states = BTreeMap::new();
        for group in 0..=GroupId::from(shards) {
            let dir = dir.join(group.to_string());
            let place =
                ShardPlace { cluster: &cluster, shards, group, dir: &dir, boot: &boot, cache_bytes: share };
            let state = ShardState::open(place, Arc::clone(&spaces))?;
            states.insert(group, Arc::new(state.measured_by(metrics.clone())));
        }
        Ok(states)
    });
    open.await.map_err(|error| StartError::Config(format!("opening the states: {error}")))?
}

fn replicas(
    raft: &RaftNode,
    states: BTreeMap<GroupId, Arc<ShardState>>,
    proposals: &ProposalMetrics,
) -> Result<BTreeMap<GroupId, Replica>, StartError> {
    let with_group = |(id, state)| match raft.group(id) {
        Some(group) => Ok((id, Replica { group: group.clone(), state, proposals: proposals.clone() })),
        None => Err(StartError::Config(format!("group {id} did not start"))),
    };
    states.into_iter().map(with_group).collect()
}

fn serve(
    raft: &RaftNode,
    service: NodeService,
    listener: TcpListener,
    stop: CancellationToken,
) -> JoinHandle<Result<(), tonic::transport::Error>> {
    let node = v1::node_server::NodeServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let raft = raft.service().into_server();
    let server = tonic::transport::Server::builder().add_service(node).add_service(raft);
    // The builder's own option does not reach connections that are accepted elsewhere. Without it
    // an answer waits up to 40 ms for the acknowledgement of the one before.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    // Peers and routers keep their connections open. A stop tells them to go away, so that they
    // turn to other nodes instead of being refused by this one again and again.
    let until = async move { stop.cancelled().await };
    tokio::spawn(server.serve_with_incoming_shutdown(incoming, until))
}
