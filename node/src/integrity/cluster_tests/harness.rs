//! Three nodes with one shard, in one process, that compare their replicas ten times a second.

use crate::config::NodeConfig;
use crate::index::Spaces;
use crate::node::Node;
use crate::raft::{GroupId, NodeId};
use crate::service::Replica;
use crate::shard::tests::{add, space};
use holdfast_core::keys::{self, Family};
use holdfast_core::state::Reader;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

pub(super) const SHARD: GroupId = 1;
const CLUSTER: &str = "00ff";

pub(super) struct Cluster {
    dir: tempfile::TempDir,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) change: fn(&mut NodeConfig),
    members: Vec<(NodeId, String)>,
}

/// Waits until something is so; fails after a minute.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Cluster {
    pub(super) async fn start(change: fn(&mut NodeConfig)) -> Self {
        let mut listeners = Vec::new();
        let mut members = Vec::new();
        for id in 1..=3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            members.push((id, listener.local_addr().unwrap().to_string()));
            listeners.push((id, listener));
        }
        let mut cluster = Self { dir: tempfile::tempdir().unwrap(), nodes: BTreeMap::new(), change, members };
        for (id, listener) in listeners {
            let node = Node::start(cluster.config(id, true), listener).await.unwrap();
            cluster.nodes.insert(id, node);
        }
        cluster.nodes[&1].founder().form_groups().await.unwrap();
        cluster
    }

    fn config(&self, id: NodeId, founding: bool) -> NodeConfig {
        let mut config =
            NodeConfig::new(id, CLUSTER, &self.dir.path().join(id.to_string()), self.members.clone(), 1);
        config.founding = founding;
        config.heartbeat = Duration::from_millis(100);
        config.integrity.compare_every = Duration::from_millis(100);
        config.integrity.scrub_bytes_per_second = 1 << 30;
        // A reading of the rows twice a second.
        config.integrity.scrub_every = Duration::from_secs(1);
        (self.change)(&mut config);
        config
    }

    /// Stops a node and starts it again.
    pub(super) async fn restart(&mut self, id: NodeId) {
        self.nodes.remove(&id).unwrap().stop().await;
        let address = &self.members.iter().find(|(member, _)| *member == id).unwrap().1;
        let deadline = Instant::now() + Duration::from_secs(20);
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(Instant::now() < deadline, "{address}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let node = Node::start(self.config(id, false), listener).await.unwrap();
        self.nodes.insert(id, node);
    }

    pub(super) async fn stop(self) {
        for node in self.nodes.into_values() {
            node.stop().await;
        }
    }

    pub(super) fn replica(&self, id: NodeId) -> &Replica {
        &self.nodes[&id].replicas[&SHARD]
    }

    pub(super) fn address(&self, id: NodeId) -> &str {
        &self.members.iter().find(|(member, _)| *member == id).unwrap().1
    }

    pub(super) fn shard_dir(&self, id: NodeId) -> PathBuf {
        self.dir.path().join(id.to_string()).join("shards").join(SHARD.to_string())
    }

    /// Who leads and may.
    pub(super) fn leader_now(&self) -> Option<NodeId> {
        let leads = |id: &&NodeId| {
            let group = &self.replica(**id).group;
            group.status().leader_applied_own_term && !group.is_withdrawn()
        };
        self.nodes.keys().find(leads).copied()
    }

    pub(super) async fn leader(&self) -> NodeId {
        let mut leader = None;
        until("there is a leader", || {
            leader = self.leader_now();
            leader.is_some()
        })
        .await;
        leader.unwrap()
    }

    /// Adds memories, one an entry.
    pub(super) async fn write(&self, ids: impl IntoIterator<Item = String>) {
        for id in ids {
            let deadline = Instant::now() + Duration::from_secs(60);
            loop {
                let leader = self.leader().await;
                let proposed =
                    self.replica(leader).propose(add(&id), Instant::now() + Duration::from_secs(5)).await;
                match proposed {
                    Ok(_) => break,
                    // The same memory twice changes nothing.
                    Err(error) => assert!(Instant::now() < deadline, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Waits until all replicas are at one place and hold the same; it must be `memories`.
    pub(super) async fn converge(&self, memories: usize) {
        until("all replicas are equal", || {
            let hashes: Vec<_> = self.nodes.keys().map(|id| self.replica(*id).state.hash()).collect();
            hashes.windows(2).all(|pair| pair[0] == pair[1])
        })
        .await;
        for id in self.nodes.keys() {
            let state = &self.replica(*id).state;
            assert_eq!(state.recompute_hash().unwrap().hash, state.hash().hash, "node {id}");
            let rows = state
                .reader()
                .scan(&keys::family_prefix(&space(), Family::Memory), None, usize::MAX)
                .unwrap();
            assert_eq!(rows.len(), memories, "node {id}");
        }
    }

    /// Waits until the newest entry of the leader is a point that all replicas know: the group is at
    /// rest. A point may be older than the last write, and then another one follows.
    pub(super) async fn compared(&self) {
        until("there is a point that all replicas know", || {
            let Some(leader) = self.leader_now() else { return false };
            let state = &self.replica(leader).state;
            let Some(last) = state.points().last().copied() else { return false };
            let is_newest = state.visible() == Some(last.index);
            is_newest && self.nodes.keys().all(|id| self.replica(*id).state.hash_at(last.index).is_some())
        })
        .await;
    }

    /// Lets a node compare its replicas now.
    pub(super) fn look(&self, id: NodeId) {
        self.nodes[&id].integrity.look();
    }

    pub(super) fn in_quarantine(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().filter(|id| self.replica(*id).state.quarantine().holds()).collect()
    }

    /// The value of a metric of a node whose labels contain `label`.
    pub(super) fn metric(&self, id: NodeId, name: &str, label: &str) -> f64 {
        let families = self.nodes[&id].registry().gather();
        let metrics =
            families.iter().filter(|family| family.name() == name).flat_map(|family| family.get_metric());
        metrics
            .filter(|metric| label.is_empty() || metric.get_label().iter().any(|pair| pair.value() == label))
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}

pub(super) fn memory_rows() -> Vec<u8> {
    keys::family_prefix(&space(), Family::Memory)
}

pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n} 记忆")).collect()
}

pub(super) fn spaces(cluster: &Cluster, id: NodeId) -> &Spaces {
    cluster.replica(id).state.spaces()
}

pub(super) fn exists(path: &Path, start: &str) -> usize {
    let entries = std::fs::read_dir(path).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(start)).count()
}
