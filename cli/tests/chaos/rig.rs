//! A cluster under load, and what must hold after every fault.

use crate::cells::Cells;
use crate::common::cluster::{Cluster, Plan};
use crate::common::{free_address, scratch};
use crate::disk::Shim;
use crate::load::Load;
use crate::net::Network;
use serde_json::Value;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Snapshot files and purges happen all the time, and log files come and go.
pub const SMALL: &str = "\n[node]\nsnapshot_log_bytes = 24000\nlog_keep_bytes = 2097152\n";
const SHARDS: u16 = 2;
/// Longest that the comparison of one group may take, on a busy machine.
const VERIFY_MAX: Duration = Duration::from_secs(90);
/// Longest that a well cluster may take to acknowledge something again after a fault.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// A cluster, with a shim around each node.
pub struct Rig {
    pub cluster: Cluster,
    pub shims: Vec<Shim>,
    pub load: Load,
    cells: Cells,
    boots: u32,
    _folder: TempDir,
}

impl Rig {
    /// Founds a cluster with two shards, whose load does not run yet.
    pub fn start(nodes: usize, writers: usize, seed: u64) -> Self {
        Self::of(Self::plan(nodes), writers, seed)
    }

    /// What [`Rig::start`] starts.
    pub fn plan(nodes: usize) -> Plan {
        let addresses = || (0..nodes).map(|_| free_address()).collect();
        Plan::at(SHARDS, addresses(), addresses(), SMALL)
    }

    /// The same with each node on a host of a network.
    pub fn on(network: &Network, nodes: usize, writers: usize, seed: u64) -> Self {
        let at = |port: u16| (1..=nodes).map(|host| format!("{}:{port}", network.address(host))).collect();
        let mut plan = Plan::at(SHARDS, at(7800), at(7801), SMALL);
        for (host, around) in (1..).zip(&mut plan.around) {
            around.wrapper = network.on(host);
        }
        Self::of(plan, writers, seed)
    }

    /// Founds the cluster of a plan.
    pub fn of(mut plan: Plan, writers: usize, seed: u64) -> Self {
        let nodes = plan.seeds.len();
        let folder = scratch();
        let shims: Vec<Shim> = (0..nodes).map(|n| Shim::new(&folder.path().join(n.to_string()))).collect();
        let root = plan.nodes();
        for (shim, around) in shims.iter().zip(&mut plan.around) {
            shim.around(around, &root, false);
            shim.boot(around, "boot-0");
        }
        let load = Load::new("writer", writers, seed);
        let cells = Cells::new(seed);
        Self { cluster: Cluster::start_plan(plan), shims, load, cells, boots: 0, _folder: folder }
    }

    pub fn start_load(&mut self) {
        self.load.start(&self.cluster.api());
        self.cells.start(&self.cluster.api());
    }

    /// Waits until so many operations more are acknowledged.
    pub async fn wait_progress(&self, more: usize) {
        self.wait_acknowledged(&self.load, self.load.acknowledged() + more).await;
    }

    /// Waits until so many operations of a load are acknowledged.
    pub async fn wait_acknowledged(&self, load: &Load, goal: usize) {
        let deadline = Instant::now() + RECOVERY_MAX;
        while load.acknowledged() < goal {
            assert!(Instant::now() < deadline, "nothing is acknowledged any more");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the load and looks whether everything is as promised.
    pub async fn check(&mut self) {
        self.stop_load().await;
        let api = self.cluster.api();
        self.load.check_all(&api).await;
        self.cells.check();
        self.replicas_agree().await;
    }

    pub async fn stop_load(&mut self) {
        self.load.stop().await;
        self.cells.stop().await;
    }

    /// Every replica of every group has the same rows, by a hash that is recomputed from them, and images
    /// of its spaces that fit them.
    pub async fn replicas_agree(&self) {
        for group in 0..=SHARDS {
            self.group_agrees(group).await;
        }
    }

    async fn group_agrees(&self, group: u16) {
        let admin = self.cluster.admin_api();
        let deadline = Instant::now() + VERIFY_MAX;
        let mut at = String::new();
        loop {
            let path = format!("/admin/v1/verify?shard={group}&rows=true&index=all{at}");
            let (status, answer) = admin.get(&path).await;
            match (status.is_success(), &answer["equal"], &answer["done"]) {
                (true, Value::Bool(true), Value::Bool(true)) => return,
                (true, Value::Bool(false), _) => panic!("replicas of group {group} differ: {answer}"),
                // Its checks still run: it is asked about the same point again.
                (true, _, Value::Bool(false)) => {
                    let point = &answer["groups"][0]["point"];
                    at = point.as_u64().map_or_else(String::new, |point| format!("&point={point}"));
                }
                // A leader is being elected, or a replica is behind: another point tells.
                _ => at.clear(),
            }
            assert!(Instant::now() < deadline, "group {group} cannot be compared: {status} {answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Puts the shims around the next start of the nodes; with `journal` changes are written down.
    pub fn watch(&mut self, journal: bool) {
        let root = self.cluster.plan.nodes();
        for (shim, around) in self.shims.iter().zip(&mut self.cluster.plan.around) {
            shim.around(around, &root, journal);
        }
    }

    /// The machines come up again, after a power cut or an orderly end.
    pub fn boot(&mut self) {
        self.boots += 1;
        for (shim, around) in self.shims.iter().zip(&mut self.cluster.plan.around) {
            shim.boot(around, &format!("boot-{}", self.boots));
        }
        self.cluster.start_nodes();
        self.cluster.restart_router();
    }

    /// Waits until some nodes have ended by themselves, or for so long.
    pub async fn wait_ended(&mut self, nodes: &[usize], at_most: Duration) {
        let deadline = Instant::now() + at_most;
        let mut ended = |index: &usize| self.cluster.nodes[*index].as_mut().unwrap().ended().is_some();
        while !nodes.iter().all(&mut ended) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills a node.
    pub fn kill(&mut self, index: usize) {
        self.cluster.nodes[index].take().unwrap().kill();
    }

    /// Sends a node a signal.
    pub fn signal(&self, index: usize, signal: &str) {
        self.cluster.nodes[index].as_ref().unwrap().signal(signal);
    }
}
