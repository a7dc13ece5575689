//! Files and purges at the time when they are due.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::harness::{Cluster, long_names, names, until};
use crate::metrics::NodeMetrics;
use crate::raft::{LogFiles, NodeId};
use crate::shard::BootId;
use crate::snapshot::{SnapshotSettings, run};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Schedulers {
    running: BTreeMap<NodeId, (CancellationToken, JoinHandle<()>)>,
    log_bytes_min: u64,
}

impl Schedulers {
    fn new(log_bytes_min: u64) -> Self {
        Self { running: BTreeMap::new(), log_bytes_min }
    }

    fn start(&mut self, cluster: &Cluster, id: NodeId) {
        let node = &cluster.nodes[&id];
        let members = vec![(node.group().clone(), Arc::clone(&node.state))];
        let settings = SnapshotSettings {
            log_bytes_min: self.log_bytes_min,
            look_every: Duration::from_millis(20),
            ..SnapshotSettings::default()
        };
        let metrics = NodeMetrics::new(id).unwrap().snapshots;
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(Arc::clone(&node.raft), members, settings, metrics, stop.clone()));
        self.running.insert(id, (stop, task));
    }

    async fn stop(&mut self, id: NodeId) {
        let (stop, task) = self.running.remove(&id).unwrap();
        stop.cancel();
        task.await.unwrap();
    }

    async fn stop_all(&mut self) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.stop(id).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_written_and_logs_purged_when_they_are_due() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1, 2, 3]);
    let log_files =
        LogFiles { file_bytes: 64 << 10, keep_bytes: 256 << 10, look_every: Duration::from_millis(50) };
    cluster.log_files = log_files;
    cluster.start(&[1, 2, 3]).await;
    let mut schedulers = Schedulers::new(20_000);
    for id in [1, 2, 3] {
        schedulers.start(&cluster, id);
    }
    cluster.write(&names("few", 20), |_| ()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(cluster.nodes.values().all(|node| node.state.snapshots().newest_index().is_none()));
    let mut ids: BTreeSet<String> = names("few", 20).into_iter().collect();
    for round in 0..4 {
        let more = long_names(&format!("round-{round}"), 400);
        cluster.write(&more, |_| ()).await;
        ids.extend(more);
    }
    for (id, node) in &cluster.nodes {
        until("a file is written and the log purged behind it", || {
            let newest = node.state.snapshots().newest_index();
            newest.is_some() && node.group().purged() == newest
        })
        .await;
        let due = node.state.snapshots().newest().unwrap().bytes().max(20_000);
        until("nothing is due", || node.state.log_bytes_since_snapshot() <= due).await;
        assert_eq!(node.state.snapshots().damaged(), 0, "node {id}");
    }
    // And the files of the log go, after much more than they may keep was written.
    for node in cluster.nodes.values() {
        assert!(node.raft.log_stats().bytes > 512 << 10);
        until("log files are removed", || {
            node.raft.log_stats().disk_bytes <= log_files.keep_bytes + 2 * log_files.file_bytes
        })
        .await;
    }
    schedulers.stop_all().await;
    cluster.converge(&ids).await;
    cluster.stop_all().await;
    cluster.boot = BootId("another".into());
    cluster.start(&[1, 2, 3]).await;
    cluster.converge(&ids).await;
    cluster.stop_all().await;
}

/// A node that was restarted must not need a whole file for the few entries that it missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_away_for_a_moment_gets_entries_and_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1, 2, 3]);
    cluster.start(&[1, 2, 3]).await;
    let mut ids: BTreeSet<String> = names("before", 40).into_iter().collect();
    cluster.write(&names("before", 40), |_| ()).await;
    cluster.converge(&ids).await;
    let leader = cluster.leader().await;
    let away = if leader == 3 { 2 } else { 3 };
    cluster.stop(away).await;
    let mut schedulers = Schedulers::new(60_000);
    schedulers.start(&cluster, leader);
    let node = &cluster.nodes[&leader];
    for round in 0..200 {
        let more = names(&format!("round-{round}"), 20);
        cluster.write(&more, |_| ()).await;
        ids.extend(more);
        if node.state.snapshots().newest_index().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let newest = node.state.snapshots().newest_index().unwrap();
    let led_on = node.group().status().is_leader;
    assert!(!led_on || node.group().purged() < Some(newest), "the follower's entries are gone");
    let term = node.group().status().term;
    cluster.start(&[away]).await;
    cluster.converge(&ids).await;
    let node = &cluster.nodes[&leader];
    if led_on && node.group().status().term == term {
        assert_eq!(cluster.nodes[&away].state.installs(), 0);
    }
    // Nobody needs them any more.
    until("the log is purged", || node.group().purged() >= Some(newest)).await;
    schedulers.stop_all().await;
    cluster.stop_all().await;
}
