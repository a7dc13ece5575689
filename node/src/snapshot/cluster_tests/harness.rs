//! Nodes with one group, in one process, over loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::index::Spaces;
use crate::raft::{
    Group, GroupSpec, LogFiles, NodeId, OpenError, ProposeError, RaftNode, RaftNodeConfig, StaticAddresses,
    SystemClock,
};
use crate::shard::tests::{add, space};
use crate::shard::{BootId, BuildLimits, ShardPlace, ShardState};
use holdfast_core::codec::Stored;
use holdfast_core::keys::{self, Family};
use holdfast_core::memory::IndexRow;
use holdfast_core::state::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;

pub(super) const GROUP: u32 = 1;
const CLUSTER: &str = "00ff";

pub(super) struct TestNode {
    pub(super) raft: Arc<RaftNode>,
    pub(super) state: Arc<ShardState>,
    server: JoinHandle<()>,
}

impl TestNode {
    pub(super) fn group(&self) -> &Group {
        self.raft.group(GROUP).unwrap()
    }

    /// The ids of the memories in the state.
    pub(super) fn memories(&self) -> BTreeSet<String> {
        let prefix = keys::family_prefix(&space(), Family::IndexRow);
        let rows = self.state.reader().scan(&prefix, None, usize::MAX).unwrap();
        rows.iter().map(|(_, value)| IndexRow::decode(value).unwrap().id).collect()
    }
}

/// A cluster in a directory that outlives it.
pub(super) struct Cluster {
    pub(super) dir: PathBuf,
    pub(super) boot: BootId,
    pub(super) replicas: Vec<NodeId>,
    pub(super) nodes: BTreeMap<NodeId, TestNode>,
    pub(super) fetch_wait: Duration,
    pub(super) fetch_bytes_per_second: u64,
    pub(super) log_files: LogFiles,
    addresses: Arc<StaticAddresses>,
    sockets: BTreeMap<NodeId, SocketAddr>,
}

pub(super) fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Waits until something is so; fails after 30 s.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = within(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Cluster {
    pub(super) fn new(dir: &Path, boot: u32, replicas: &[NodeId]) -> Self {
        Self {
            dir: dir.to_owned(),
            boot: BootId(format!("boot-{boot}")),
            replicas: replicas.to_vec(),
            nodes: BTreeMap::new(),
            fetch_wait: Duration::from_secs(20),
            fetch_bytes_per_second: 1 << 30,
            log_files: LogFiles::default(),
            addresses: Arc::default(),
            sockets: BTreeMap::new(),
        }
    }

    pub(super) fn node_dir(&self, id: NodeId) -> PathBuf {
        self.dir.join(id.to_string())
    }

    pub(super) fn shard_dir(&self, id: NodeId) -> PathBuf {
        self.node_dir(id).join("shard")
    }

    pub(super) fn open_state(&self, id: NodeId) -> Arc<ShardState> {
        let dir = self.shard_dir(id);
        let place = ShardPlace {
            cluster: CLUSTER,
            shards: 1,
            group: GROUP,
            dir: &dir,
            boot: &self.boot,
            cache_bytes: 8 << 20,
        };
        Arc::new(ShardState::open(place, Arc::new(Spaces::new(64 << 20))).unwrap())
    }

    pub(super) async fn try_start(&mut self, id: NodeId) -> Result<(), OpenError> {
        let socket = self.sockets.get(&id).copied().unwrap_or_else(|| "127.0.0.1:0".parse().unwrap());
        let listener = TcpListener::bind(socket).await.unwrap();
        let socket = listener.local_addr().unwrap();
        self.sockets.insert(id, socket);
        self.addresses.set(id, format!("http://{socket}"));
        let state = self.open_state(id);
        let mut config = RaftNodeConfig::new(id, CLUSTER, self.node_dir(id).join("raft"));
        config.heartbeat = Duration::from_millis(100);
        config.fetch_wait = self.fetch_wait;
        config.fetch_bytes_per_second = self.fetch_bytes_per_second;
        config.log_files = self.log_files;
        let applier = Arc::clone(&state) as _;
        let specs = vec![GroupSpec { id: GROUP, replicas: self.replicas.clone(), applier }];
        let raft =
            Arc::new(RaftNode::open(config, specs, self.addresses.clone(), Arc::new(SystemClock)).await?);
        let service = raft.service().into_server();
        let server = tonic::transport::Server::builder()
            .add_service(service)
            // With a way to shut it down, or its connections would outlive it.
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), std::future::pending());
        let server = tokio::spawn(async move { server.await.unwrap() });
        self.nodes.insert(id, TestNode { raft, state, server });
        Ok(())
    }

    /// Starts nodes, and gives the group its members if they are the first.
    pub(super) async fn start(&mut self, ids: &[NodeId]) {
        for id in ids {
            self.try_start(*id).await.unwrap();
        }
        if ids.len() > 1 || self.replicas.len() == 1 {
            self.nodes[&ids[0]].raft.initialize(GROUP, &self.replicas).await.unwrap();
        }
    }

    /// Stops a node as a kill would: its state is not left in order.
    pub(super) async fn stop(&mut self, id: NodeId) {
        let node = self.nodes.remove(&id).unwrap();
        node.server.abort();
        let _ = node.server.await;
        node.raft.shutdown().await;
    }

    pub(super) async fn stop_all(&mut self) {
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.stop(id).await;
        }
    }

    pub(super) async fn leader(&self) -> NodeId {
        let deadline = within(30);
        loop {
            let leads = |node: &TestNode| node.group().status().leader_applied_own_term;
            if let Some((id, _)) = self.nodes.iter().find(|(_, node)| leads(node)) {
                return *id;
            }
            assert!(Instant::now() < deadline, "there is no leader");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Writes memories, several in one entry; `acknowledged` hears of each that is durable.
    pub(super) async fn write(&self, ids: &[String], mut acknowledged: impl FnMut(&str)) {
        for some in ids.chunks(20) {
            let deadline = within(30);
            loop {
                let leader = self.nodes[&self.leader().await].group().clone();
                let proposals = some.iter().map(|id| leader.propose(add(id), within(5)));
                let results = futures::future::join_all(proposals).await;
                if results.iter().all(Result::is_ok) {
                    some.iter().for_each(|id| acknowledged(id));
                    break;
                }
                // Adding the same memory again changes nothing.
                let fatal = |result: &Result<_, _>| matches!(result, Err(ProposeError::Fatal(_)));
                assert!(!results.iter().any(fatal), "{results:?}");
                assert!(Instant::now() < deadline, "{results:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Writes a snapshot file on a node and purges its log, as the scheduler does.
    pub(super) async fn snapshot(&self, id: NodeId) -> u64 {
        let node = &self.nodes[&id];
        let state = Arc::clone(&node.state);
        let build = move || state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false));
        let file = tokio::task::spawn_blocking(build).await.unwrap().unwrap();
        let index = file.id().index;
        assert!(node.group().announce_snapshot(index, within(20)).await.unwrap());
        node.group().purge_log(index).await.unwrap();
        until("the log is purged", || node.group().purged() >= Some(index)).await;
        index
    }

    /// Waits until all running replicas hold the same, and checks that it is at least `ids`.
    pub(super) async fn converge(&self, ids: &BTreeSet<String>) {
        let deadline = within(30);
        let (leader, read_point) = loop {
            let leader = self.leader().await;
            match self.nodes[&leader].group().linearizable(within(20)).await {
                Ok(read_point) => break (leader, read_point),
                // One that comes back believes to lead until it hears of the other.
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        for (id, node) in &self.nodes {
            let reached = node.group().wait_applied(read_point, within(30)).await;
            assert!(reached, "node {id} did not catch up: {:?}", node.group().status());
        }
        let leader = &self.nodes[&leader].state;
        for (id, node) in &self.nodes {
            // Entries that nobody was told of may still be applied meanwhile.
            let deadline = within(30);
            loop {
                until("the hashes are equal", || node.state.hash() == leader.hash()).await;
                let (found, wanted) = (node.state.recompute_hash().unwrap(), leader.hash());
                if found.index == wanted.index {
                    assert_eq!(found, wanted, "node {id}");
                    break;
                }
                assert!(Instant::now() < deadline, "node {id} does not come to rest: {found:?} {wanted:?}");
            }
            let missing: Vec<_> = ids.difference(&node.memories()).cloned().collect();
            assert!(missing.is_empty(), "node {id} has lost {missing:?}");
        }
    }
}

pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

/// Long names that do not compress.
pub(super) fn long_names(prefix: &str, count: usize) -> Vec<String> {
    let long = |n: usize| {
        let mut state = n as u64 + prefix.len() as u64 * 7_919;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:016x}", state.rotate_left(17))
        };
        format!("{prefix}-{n}-{}", (0..14).map(|_| next()).collect::<String>())
    };
    (0..count).map(long).collect()
}
