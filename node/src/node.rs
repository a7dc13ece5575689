//! A node as a whole: what it opens, starts and stops.

use crate::config::NodeConfig;
use crate::erasing;
use crate::founding::{Founder, FoundingService};
use crate::guard::Guard;
use crate::health::Health;
use crate::identity::{Identity, RAFT, claim, has_data};
use crate::integrity::Integrity;
use crate::jobs::{self, Tools};
use crate::metrics::{NodeMetrics, ProposalMetrics, Sources};
use crate::open::{open_raft, open_states};
use crate::raft::{
    Clock, GroupId, GuardedClock, HandOverError, NodeId, OpenError as RaftOpenError, RaftNode,
};
use crate::service::{Layout, NodeService, Replica};
use crate::shard::{OpenError, ShardState, let_go};
use crate::snapshot;
use crate::sweeper;
use holdfast_core::shard_map::ShardMap;
use holdfast_core::space::SHARDS_MAX;
use holdfast_proto::{MESSAGE_BYTES_MAX, v1};
use holdfast_transport::Security;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long open connections may take to end at a stop.
const SERVER_STOP_MAX: Duration = Duration::from_secs(3);

/// How long handing over all leaderships may take before a stop.
const HAND_OVER_MAX: Duration = Duration::from_secs(10);

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

/// Takes a running node out of service. Cheap to clone.
#[derive(Clone)]
pub struct Drainer(Arc<RaftNode>);

impl Drainer {
    /// Hands every leadership of the node to another one, within 10 s, so that its stop makes nobody
    /// wait for an election timeout; from then on it takes no leadership. Returns the groups that it
    /// still leads, with the reason. May be called again.
    pub async fn drain(&self) -> Vec<(GroupId, HandOverError)> {
        let begin = Instant::now();
        let kept = self.0.hand_over(begin + HAND_OVER_MAX).await;
        for (group, error) in &kept {
            tracing::warn!(group, %error, "a leadership was not handed over");
        }
        tracing::info!(kept = kept.len(), took = ?begin.elapsed(), "leaderships handed over");
        kept
    }
}

/// A disk that has failed under a running node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFailure {
    /// What is of no use any more, for a sentence.
    pub what: String,
    /// Where that is.
    pub path: PathBuf,
    /// What the system said.
    pub cause: String,
}

/// A running node.
pub struct Node {
    dir: PathBuf,
    pub(crate) raft: Arc<RaftNode>,
    pub(crate) replicas: BTreeMap<GroupId, Replica>,
    metrics: Arc<NodeMetrics>,
    members: Vec<NodeId>,
    service: NodeService,
    stop: CancellationToken,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
    /// What sweeps, what works off erasures, and what works on sessions.
    jobs: [JoinHandle<()>; 3],
    snapshots: JoinHandle<()>,
    pub(crate) integrity: Integrity,
}

impl Node {
    /// Opens the data in `config.dir`, applies what the log holds beyond it, and serves on `listener`.
    ///
    /// # Errors
    /// [`StartError`] says what is wrong; nothing runs then.
    pub async fn start(config: NodeConfig, listener: TcpListener) -> Result<Self, StartError> {
        Self::start_founded(config, listener, None).await
    }

    /// As [`Node::start`], for a node that was founded by `ctl init` and still answers those who ask
    /// about it.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub async fn start_founded(
        config: NodeConfig,
        listener: TcpListener,
        founding: Option<FoundingService>,
    ) -> Result<Self, StartError> {
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
        let clock: Arc<dyn Clock> = Arc::new(GuardedClock::system());
        let raft = match open_raft(&config, &states, &clock).await {
            Ok(raft) => Arc::new(raft),
            Err(error) => {
                states.into_values().for_each(let_go);
                return Err(error.into());
            }
        };
        let replicas = replicas(&raft, states, &metrics.proposals)?;
        let groups: Vec<_> =
            replicas.values().map(|replica| (replica.group.clone(), Arc::clone(&replica.state))).collect();
        metrics.scraper.attach(Sources::new(Arc::clone(&raft), groups.clone(), config.spaces_bytes));

        let stop = CancellationToken::new();
        let watch = &metrics.integrity;
        let started = Integrity::start(&raft, &replicas, config.integrity, watch, &clock, stop.clone());
        let integrity = match started {
            Ok(integrity) => integrity,
            Err(error) => {
                raft.shutdown().await;
                return Err(StartError::Config(format!("starting the checking threads: {error}")));
            }
        };
        let service = NodeService::new(
            layout(&config),
            Arc::clone(&raft),
            replicas.clone(),
            search_threads(&config),
            Arc::clone(&metrics),
            &integrity,
        );
        let server = serve(&raft, service.clone(), founding, &config.security, listener, stop.clone());
        let tools = Tools {
            clock: Arc::clone(&clock),
            embedder: config.embedder.clone(),
            settings: config.jobs,
            metrics: metrics.jobs.clone(),
        };
        let working = jobs::run(replicas.clone(), tools, integrity.versions().clone(), stop.clone());
        let erasing = erasing::start(&raft, &replicas, config.erasure, &clock, integrity.versions(), &stop);
        let sweeping = sweeper::start(&replicas, clock, &metrics.sweeps, &integrity, &stop);
        let jobs = [sweeping, erasing, tokio::spawn(working)];
        let written = metrics.snapshots.clone();
        let snapshots =
            tokio::spawn(snapshot::run(Arc::clone(&raft), groups, config.snapshots, written, stop.clone()));
        let members = config.members.iter().map(|(id, _)| *id).collect();
        let dir = config.dir;
        Ok(Self { dir, raft, replicas, metrics, members, service, stop, server, jobs, snapshots, integrity })
    }

    /// This node's id.
    pub fn id(&self) -> NodeId {
        self.raft.node_id()
    }

    #[cfg(test)]
    pub(crate) fn service(&self) -> NodeService {
        self.service.clone()
    }

    /// What this node measures, each metric with the label `node`. Once the node stops, its groups,
    /// log and states are no longer in it.
    pub fn registry(&self) -> &prometheus::Registry {
        &self.metrics.registry
    }

    /// What founds a cluster from its nodes.
    pub fn founder(&self) -> Founder {
        Founder::new(Arc::clone(&self.raft), self.replicas.clone(), self.members.clone())
    }

    /// What takes the node out of service.
    pub fn drainer(&self) -> Drainer {
        Drainer(Arc::clone(&self.raft))
    }

    /// The disk under the log or under a state, if it has failed: then nothing here is of use until it is
    /// mended and the node starts again.
    pub fn disk_failure(&self) -> Option<DiskFailure> {
        if let Some(cause) = self.raft.log_failure() {
            return Some(DiskFailure { what: "its log".into(), path: self.dir.join(RAFT), cause });
        }
        self.replicas.iter().find_map(|(group, Replica { state, .. })| {
            let cause = state.disk_failure()?;
            let what = format!("the state of its group {group}");
            Some(DiskFailure { what, path: state.dir().to_owned(), cause })
        })
    }

    /// What the node's probes look at.
    pub fn health(&self) -> Health {
        Health::new(Arc::clone(&self.raft))
    }

    /// Goes by another map of slots from now on, if it is newer. Reads and writes of a slot that its
    /// shard does not own are refused, with the epoch of the map, so that routers read it again.
    pub fn set_shard_map(&self, map: ShardMap) {
        self.service.set_shard_map(map);
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
        for job in self.jobs {
            if let Err(error) = job.await {
                tracing::error!(%error, "the sweeper, the work on erasures or that on sessions ended badly");
            }
        }
        if let Err(error) = self.snapshots.await {
            tracing::error!(%error, "the writing of snapshot files ended badly");
        }
        self.integrity.stop().await;
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
        let states: Vec<_> = self.replicas.into_values().map(|replica| replica.state).collect();
        let metrics = Arc::clone(&self.metrics);
        let close = tokio::task::spawn_blocking(move || {
            // No scrape may hold a state open when this directory is opened again.
            metrics.scraper.detach();
            for state in states {
                if let Err(error) = state.close() {
                    tracing::error!(%error, "a state was not left in order; it may be rebuilt at the next start");
                }
                let_go(state);
            }
        });
        if let Err(error) = close.await {
            tracing::error!(%error, "the states were not left in order; they may be rebuilt at the next start");
        }
    }
}

fn layout(config: &NodeConfig) -> Layout {
    let member = |(id, address): &(NodeId, String)| v1::Member { id: *id, address: address.clone() };
    let members = config.members.iter().map(member).collect();
    let erasure = config.erasure;
    Layout { cluster_id: config.cluster_id.clone(), shards: config.shards, members, erasure }
}

fn search_threads(config: &NodeConfig) -> usize {
    match config.search_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
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
    founding: Option<FoundingService>,
    security: &Security,
    listener: TcpListener,
    stop: CancellationToken,
) -> JoinHandle<Result<(), tonic::transport::Error>> {
    let node = v1::node_server::NodeServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let raft = raft.service().into_server();
    let founding = founding.map(FoundingService::into_server);
    let server = tonic::transport::Server::builder()
        .layer(Guard::new(security))
        .add_service(node)
        .add_service(raft)
        .add_optional_service(founding);
    let incoming = security.incoming(listener);
    // Peers and routers keep their connections open. A stop tells them to go away, so that they
    // turn to other nodes instead of being refused by this one again and again.
    let until = async move { stop.cancelled().await };
    tokio::spawn(server.serve_with_incoming_shutdown(incoming, until))
}
