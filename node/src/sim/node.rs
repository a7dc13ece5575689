//! A node: the real groups on a simulated ground.

use super::disk::DiskLog;
use super::net;
use super::service::SimService;
use super::state::SimState;
use super::world::World;
use crate::raft::sim::{ApplyPool, Platform};
use crate::raft::{
    Applier, Clock, Group, GroupId, GroupSpec, GuardedClock, NodeId, RaftNode, RaftNodeConfig,
    StaticAddresses, SteadyTime,
};
use futures::future::BoxFuture;
use holdfast_proto::v1::node_server::NodeServer;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The cluster of a simulation.
pub(super) const CLUSTER: &str = "simulated";
/// As short as the simulated network allows, so that a short run sees many elections.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Small, so that entries are read back from the disk.
const GROUP_CACHE_BYTES: usize = 4 << 10;

/// Adds a host for each node.
pub(super) fn add_nodes(sim: &mut turmoil::Sim<'_>, world: &Arc<World>) {
    for node in world.nodes() {
        let world = Arc::clone(world);
        sim.host(net::host(node), move || run(Arc::clone(&world), node));
    }
}

/// A node's wall clock, which may be wrong.
struct WallClock(Arc<World>, NodeId);

impl Clock for WallClock {
    fn now_us(&self) -> u64 {
        self.0.wall_us(self.1)
    }
}

/// A node's clock of elapsed time, which may be a little fast.
struct Steady(Arc<World>, NodeId);

impl SteadyTime for Steady {
    fn elapsed_us(&self) -> u64 {
        self.0.steady_us(self.1)
    }
}

async fn run(world: Arc<World>, node: NodeId) -> turmoil::Result {
    world.trace(format_args!("node {node} starts"));
    match start(&world, node).await {
        Ok(server) => {
            let ended = server.await;
            world.fail(format!("the server of node {node} ended: {ended:?}"));
        }
        Err(error) => world.fail(format!("node {node} does not start: {error}")),
    }
    Ok(())
}

type Server = BoxFuture<'static, Result<(), tonic::transport::Error>>;

async fn start(world: &Arc<World>, node: NodeId) -> Result<Server, Box<dyn std::error::Error + Send + Sync>> {
    let log = DiskLog::open(world.disk(node), node, Arc::clone(world)).await;
    let platform = Platform {
        log,
        group_cache_bytes: GROUP_CACHE_BYTES,
        pool: ApplyPool::here(),
        connect: net::connect(world),
    };
    let states: BTreeMap<GroupId, Arc<SimState>> =
        world.groups().map(|group| (group, SimState::open(world, node, group))).collect();
    let replicas: Vec<NodeId> = world.nodes().collect();
    let specs = states.iter().map(|(id, state)| GroupSpec {
        id: *id,
        replicas: replicas.clone(),
        applier: Arc::clone(state) as Arc<dyn Applier>,
    });
    // No directory: what nodes remember of each other ends with their processes, since it is written by
    // threads of its own.
    let mut config = RaftNodeConfig::new(node, CLUSTER, PathBuf::new());
    config.heartbeat = HEARTBEAT;
    let addresses = Arc::new(StaticAddresses::new(world.nodes().map(|node| (node, net::uri(node)))));
    let clock =
        Arc::new(GuardedClock::new(WallClock(Arc::clone(world), node), Steady(Arc::clone(world), node)));
    let raft = RaftNode::open_on(platform, config, specs.collect(), addresses, clock).await?;
    let incoming = net::listen(world).await?;
    let mut groups = BTreeMap::new();
    for (id, state) in states {
        let group = raft.group(id).ok_or_else(|| format!("group {id} did not start"))?.clone();
        tokio::spawn(watch(Arc::clone(world), node, group.clone()));
        groups.insert(id, (group, state));
    }
    let raft_service = raft.service().into_server();
    let node_service = NodeServer::new(SimService::new(Arc::clone(world), node, groups));
    tokio::spawn(found(Arc::clone(world), node, raft));
    let server = tonic::transport::Server::builder().add_service(raft_service).add_service(node_service);
    Ok(Box::pin(server.serve_with_incoming(incoming)))
}

/// Gives each group its members, on one node for each, and keeps the node's groups.
async fn found(world: Arc<World>, node: NodeId, raft: RaftNode) {
    let members: Vec<NodeId> = world.nodes().collect();
    for group in world.groups() {
        if members[group as usize % members.len()] == node
            && let Err(error) = raft.initialize(group, &members).await
        {
            world.fail(format!("group {group} could not be founded: {error}"));
        }
    }
    std::future::pending::<()>().await;
    drop(raft);
}

/// Tells when the replica leads, and when it ends: nothing that is simulated may stop a group, and a
/// killed process takes this task along.
async fn watch(world: Arc<World>, node: NodeId, group: Group) {
    let mut watch = group.watch();
    loop {
        if watch.is_leader() {
            world.leads(node, group.id(), watch.term());
        }
        if !watch.changed().await {
            let failure = group.status().failure.unwrap_or_default();
            world.fail(format!("a replica ended: group {} of node {node}: {failure}", group.id()));
            return;
        }
    }
}
