//! A replica whose disk went back. Its node must be refused before openraft sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_node::raft::{GroupId, OpenError};

use crate::harness::{Cluster, HEARTBEAT, NODES, Recorded, Recorder, within};

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn state_of(applier: &Recorder) -> Arc<Recorder> {
    let recorded = applier.recorded.lock();
    let recorded = Recorded {
        state: recorded.state.clone(),
        commands: recorded.commands.clone(),
        entries: recorded.entries.clone(),
    };
    Arc::new(Recorder { recorded: recorded.into(), ..Recorder::default() })
}

/// A cluster in which one follower was set back behind what it acknowledged, and that follower.
async fn with_a_reverted_follower() -> (Cluster, u64, BTreeMap<GroupId, Arc<Recorder>>) {
    let mut cluster = Cluster::start(1).await;
    for number in 0..20 {
        cluster.propose(0, &format!("early {number}").into()).await;
    }
    cluster.converged(0).await;
    let leader = cluster.leader(0).await;
    let back = NODES.into_iter().find(|node| *node != leader).unwrap();
    // An older copy, taken while it stood still.
    let states = cluster.stop_node(back).await;
    let old = cluster.dir(back).with_extension("old");
    copy(&cluster.dir(back), &old);
    let old_states: BTreeMap<GroupId, Arc<Recorder>> =
        states.iter().map(|(group, applier)| (*group, state_of(applier))).collect();
    cluster.start_node(back, states).await;
    for number in 0..20 {
        cluster.propose(0, &format!("late {number}").into()).await;
    }
    cluster.converged(0).await;
    cluster.stop_node(back).await;
    std::fs::remove_dir_all(cluster.dir(back)).unwrap();
    copy(&old, &cluster.dir(back));
    (cluster, back, old_states)
}

async fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_forgot_is_refused_and_the_others_go_on() {
    let (mut cluster, back, states) = with_a_reverted_follower().await;
    cluster.start_node(back, states).await;
    let node = cluster.nodes.remove(&back).unwrap();
    wait_for("it notices", || node.raft.reverted().is_some()).await;
    wait_for("its group stops", || node.raft.group(0).unwrap().status().failure.is_some()).await;
    let proof = node.raft.reverted().unwrap();
    assert!(proof.remembered.committed > proof.kept_last, "{proof:?}");
    let leader = cluster.leader(0).await;
    wait_for("the leader tells", || cluster.nodes[&leader].raft.refused_peers().contains_key(&back)).await;
    for number in 0..20 {
        cluster.propose(0, &format!("after {number}").into()).await;
    }
    let commands = cluster.converged(0).await;
    for name in ["early", "late", "after"] {
        for number in 0..20 {
            assert!(commands.contains(&Bytes::from(format!("{name} {number}"))), "{name} {number} is lost");
        }
    }
    for node in cluster.nodes.values() {
        assert_eq!(node.raft.group(0).unwrap().status().failure, None);
    }
    // From this copy it never starts again.
    cluster.nodes.insert(back, node);
    let states = cluster.stop_node(back).await;
    let again = cluster.try_start_node(back, states).await;
    assert!(matches!(again, Err(OpenError::Reverted(found)) if *found == proof));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_have_forgotten_does_not_vote_before_the_others_answer() {
    let mut cluster = Cluster::start(1).await;
    cluster.propose(0, &"before".into()).await;
    let mut states = BTreeMap::new();
    for id in NODES {
        states.insert(id, cluster.stop_node(id).await);
    }
    // Two of three would be a majority, but nobody says what the third remembers of them.
    let begin = Instant::now();
    for id in [1, 2] {
        cluster.start_node(id, states.remove(&id).unwrap()).await;
    }
    let leader = loop {
        // Who led before believes to lead, and can prove it only once it takes part.
        let leads = |id: &u64| cluster.nodes[id].group(0).can_serve_session_read().is_ok();
        if let Some(leader) = [1, 2].into_iter().find(leads) {
            break leader;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "they wait for ever");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(begin.elapsed() >= HEARTBEAT * 8, "they did not wait: {:?}", begin.elapsed());
    let proposed = cluster.nodes[&leader].group(0).propose("after".into(), within(10_000)).await;
    proposed.unwrap();
    cluster.start_node(3, states.remove(&3).unwrap()).await;
    assert_eq!(cluster.converged(0).await, [Bytes::from("before"), Bytes::from("after")]);
    assert!(cluster.nodes.values().all(|node| node.raft.reverted().is_none()));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_and_changes_of_leader_are_no_reversion() {
    let mut cluster = Cluster::start(2).await;
    for round in 0..6u64 {
        for group in 0..2 {
            cluster.propose(group, &format!("{round}").into()).await;
        }
        let node = NODES[usize::try_from(round).unwrap() % NODES.len()];
        let states = cluster.stop_node(node).await;
        for group in 0..2 {
            cluster.propose(group, &format!("{round} without {node}").into()).await;
        }
        cluster.start_node(node, states).await;
        for group in 0..2 {
            cluster.converged(group).await;
        }
    }
    for node in cluster.nodes.values() {
        assert!(node.raft.reverted().is_none() && node.raft.refused_peers().is_empty());
    }
    cluster.stop().await;
}
