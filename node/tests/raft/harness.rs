//! Three nodes in one process, and a state that records what it is given.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_node::raft::{
    AppliedState, Applier, ApplierError, Clock, CommittedBody, CommittedEntry, Group, GroupId, GroupSpec,
    NodeId, OpenError, Outcomes, ProposeError, Proposed, RaftNode, RaftNodeConfig, StaticAddresses,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;

pub const CLUSTER: &str = "test-cluster";
pub const HEARTBEAT: Duration = Duration::from_millis(120);
pub const NODES: [NodeId; 3] = [1, 2, 3];

/// A clock that counts up by one microsecond a call.
#[derive(Default)]
pub struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now_us(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[derive(Default)]
pub struct Recorded {
    pub state: AppliedState,
    pub commands: Vec<Bytes>,
    pub entries: Vec<CommittedEntry>,
}

/// Keeps every command in order; answers each with its own text.
#[derive(Default)]
pub struct Recorder {
    pub recorded: Mutex<Recorded>,
    pub delay: Mutex<Duration>,
    pub fail: Mutex<Option<String>>,
}

impl Applier for Recorder {
    fn applied(&self) -> Result<AppliedState, ApplierError> {
        Ok(self.recorded.lock().state.clone())
    }

    fn apply(&self, entries: Vec<CommittedEntry>) -> Result<Vec<Outcomes>, ApplierError> {
        let delay = *self.delay.lock();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        if let Some(cause) = self.fail.lock().clone() {
            return Err(ApplierError(cause));
        }
        let mut recorded = self.recorded.lock();
        let mut answers = Vec::new();
        for entry in entries {
            let next = recorded.state.last.map_or(0, |last| last.index + 1);
            assert_eq!(entry.position.index, next, "an entry was skipped or applied twice");
            recorded.state.last = Some(entry.position);
            let outcomes = match &entry.body {
                CommittedBody::Normal(payload) => {
                    recorded.commands.extend(payload.commands.iter().cloned());
                    payload.commands.iter().map(outcome_of).collect()
                }
                CommittedBody::Membership(bytes) => {
                    recorded.state.membership.clone_from(bytes);
                    Outcomes::new()
                }
                CommittedBody::Blank => Outcomes::new(),
            };
            answers.push(outcomes);
            recorded.entries.push(entry);
        }
        Ok(answers)
    }
}

pub fn outcome_of(command: &Bytes) -> Bytes {
    [b"done: ".as_slice(), command].concat().into()
}

pub struct Node {
    pub raft: Arc<RaftNode>,
    pub appliers: BTreeMap<GroupId, Arc<Recorder>>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Node {
    pub fn group(&self, id: GroupId) -> &Group {
        self.raft.group(id).unwrap()
    }
}

pub struct Cluster {
    members: Vec<NodeId>,
    pub nodes: BTreeMap<NodeId, Node>,
    pub groups: Vec<GroupId>,
    pub addresses: Arc<StaticAddresses>,
    sockets: BTreeMap<NodeId, SocketAddr>,
    dir: TempDir,
}

impl Cluster {
    /// Three nodes with `groups` groups, initialised, each group with a leader.
    pub async fn start(groups: u32) -> Self {
        Self::of(&NODES, groups).await
    }

    /// The same with these nodes.
    pub async fn of(members: &[NodeId], groups: u32) -> Self {
        let mut cluster = Cluster {
            members: members.to_vec(),
            nodes: BTreeMap::new(),
            groups: (0..groups).collect(),
            addresses: Arc::new(StaticAddresses::default()),
            sockets: BTreeMap::new(),
            dir: TempDir::new().unwrap(),
        };
        for id in members {
            cluster.start_node(*id, BTreeMap::new()).await;
        }
        for group in cluster.groups.clone() {
            let first = members[group as usize % members.len()];
            assert_eq!(cluster.nodes[&first].raft.initialize(group, members).await, Ok(true));
        }
        for group in cluster.groups.clone() {
            cluster.leader(group).await;
        }
        cluster
    }

    /// Where a node keeps its log.
    pub fn dir(&self, id: NodeId) -> PathBuf {
        self.dir.path().join(id.to_string())
    }

    /// Starts a node on its directory; groups without an applier get an empty one.
    pub async fn start_node(&mut self, id: NodeId, appliers: BTreeMap<GroupId, Arc<Recorder>>) {
        self.try_start_node(id, appliers).await.unwrap();
    }

    pub async fn try_start_node(
        &mut self,
        id: NodeId,
        mut appliers: BTreeMap<GroupId, Arc<Recorder>>,
    ) -> Result<(), OpenError> {
        let socket = self.sockets.get(&id).copied().unwrap_or_else(|| "127.0.0.1:0".parse().unwrap());
        let listener = TcpListener::bind(socket).await.unwrap();
        let socket = listener.local_addr().unwrap();
        self.sockets.insert(id, socket);
        self.addresses.set(id, format!("http://{socket}"));
        let mut config = RaftNodeConfig::new(id, CLUSTER, self.dir(id));
        config.heartbeat = HEARTBEAT;
        let mut specs = Vec::new();
        for group in &self.groups {
            let applier = appliers.entry(*group).or_default().clone();
            specs.push(GroupSpec { id: *group, replicas: self.members.clone(), applier });
        }
        let clock = Arc::new(CountingClock::default());
        let raft = RaftNode::open(config, specs, self.addresses.clone(), clock).await?;
        let raft = Arc::new(raft);
        let (stop, stopped) = oneshot::channel::<()>();
        let service = raft.service().into_server();
        let server = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped)
                .await
                .unwrap();
        });
        self.nodes.insert(id, Node { raft, appliers, stop, server });
        Ok(())
    }

    /// Stops a node and returns its states.
    pub async fn stop_node(&mut self, id: NodeId) -> BTreeMap<GroupId, Arc<Recorder>> {
        let node = self.nodes.remove(&id).unwrap();
        // Connections of peers would keep a graceful server alive.
        node.server.abort();
        drop(node.stop);
        node.raft.shutdown().await;
        node.appliers
    }

    /// Waits until the running nodes agree on a running leader that has applied an entry of its term.
    pub async fn leader(&self, group: GroupId) -> NodeId {
        let start = Instant::now();
        loop {
            for (id, node) in &self.nodes {
                if node.group(group).status().leader_applied_own_term {
                    return *id;
                }
            }
            assert!(start.elapsed() < Duration::from_secs(20), "group {group} has no leader");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Proposes at the leader, again until it is acknowledged. Retries may apply a command twice.
    pub async fn propose(&self, group: GroupId, command: &Bytes) -> Proposed {
        let mut last = None;
        for _ in 0..200 {
            let leader = self.leader(group).await;
            let result = self.nodes[&leader].group(group).propose(command.clone(), within(2_000)).await;
            match result {
                Ok(proposed) => return proposed,
                Err(ProposeError::TooLarge { .. } | ProposeError::Fatal(_)) => panic!("{result:?}"),
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never acknowledged: {last:?}");
    }

    /// Waits until all running replicas have applied the same entries, and returns the commands.
    pub async fn converged(&self, group: GroupId) -> Vec<Bytes> {
        let start = Instant::now();
        let read_point = loop {
            let leader = self.leader(group).await;
            match self.nodes[&leader].group(group).linearizable(within(10_000)).await {
                Ok(read_point) => break read_point,
                // One that comes back believes to lead until it hears of the other.
                Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        for (id, node) in &self.nodes {
            let reached = node.group(group).wait_applied(read_point, within(20_000)).await;
            assert!(reached, "node {id} did not catch up: {:?}", node.group(group).status());
        }
        let upto = usize::try_from(read_point).unwrap() + 1;
        let prefix = |node: &Node| node.appliers[&group].recorded.lock().entries[..upto].to_vec();
        let mut replicas = self.nodes.values().map(prefix);
        let first = replicas.next().unwrap();
        for other in replicas {
            let differs = first.iter().zip(&other).find(|(a, b)| a != b);
            assert!(differs.is_none(), "replicas of group {group} applied different entries: {differs:?}");
        }
        let commands = |entry: CommittedEntry| match entry.body {
            CommittedBody::Normal(payload) => payload.commands,
            _ => Vec::new(),
        };
        first.into_iter().flat_map(commands).collect()
    }

    pub async fn stop(mut self) {
        for id in self.members.clone() {
            if self.nodes.contains_key(&id) {
                self.stop_node(id).await;
            }
        }
    }
}

pub fn within(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}
