//! A leader that stops hands over first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use holdfast_node::raft::{HandOverError, NodeId, ProposeError};

use crate::harness::{Cluster, outcome_of, within};

/// How long a hand-over may take on a busy machine.
const LONG_MS: u64 = 30_000;

/// What a writer was told.
#[derive(Default)]
struct Told {
    written: Vec<Bytes>,
    /// Writes whose outcome is not known.
    open: Vec<Bytes>,
}

/// Follows the leader as a router does; every other fault is a failure of the hand-over.
async fn write_until(cluster: Arc<Cluster>, group: u32, writer: u64, stop: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    let mut at: NodeId = cluster.leader(group).await;
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let command = Bytes::from(format!("组{group} writer {writer} {number}"));
        loop {
            match cluster.nodes[&at].group(group).propose(command.clone(), within(LONG_MS)).await {
                Ok(proposed) => {
                    assert_eq!(proposed.outcome, outcome_of(&command));
                    told.written.push(command);
                    break;
                }
                Err(ProposeError::UnknownOutcome) => {
                    told.open.push(command);
                    break;
                }
                Err(ProposeError::NotLeader { leader }) => match leader {
                    Some(leader) => at = leader,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                },
                // A new leader has no confirmation yet.
                Err(ProposeError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(other) => panic!("group {group} at node {at}: {other}"),
            }
        }
    }
    told
}

/// All nodes but one hand over, one after the other, while writers write: nothing is lost or doubled,
/// and nobody takes back what it handed over. Returns how many writes were left open.
async fn hand_over_in_turn(members: &[NodeId], groups: u32) -> usize {
    let cluster = Arc::new(Cluster::of(members, groups).await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for group in 0..groups {
        for writer in 0..3 {
            let write = write_until(cluster.clone(), group, writer, stop.clone());
            writers.push((group, tokio::spawn(write)));
        }
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (done, node) in members[..members.len() - 1].iter().enumerate() {
        let kept = cluster.nodes[node].raft.hand_over(within(LONG_MS)).await;
        assert!(kept.is_empty(), "{kept:?}");
        for group in 0..groups {
            let leader = cluster.leader(group).await;
            assert!(
                !members[..=done].contains(&leader),
                "group {group} is led by {leader} after its hand-over"
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written: Vec<BTreeSet<Bytes>> = vec![BTreeSet::new(); groups as usize];
    let mut open = BTreeSet::new();
    for (group, writer) in writers {
        let told = writer.await.unwrap();
        written[group as usize].extend(told.written);
        open.extend(told.open);
    }
    for group in 0..groups {
        let applied = cluster.converged(group).await;
        let distinct: BTreeSet<Bytes> = applied.iter().cloned().collect();
        assert_eq!(distinct.len(), applied.len(), "a command was applied twice");
        assert!(written[group as usize].is_subset(&distinct), "an acknowledged write is lost");
        let mut more = distinct.difference(&written[group as usize]);
        assert!(more.all(|command| open.contains(command)), "a write that nobody sent");
    }
    let Ok(cluster) = Arc::try_unwrap(cluster) else { panic!("a writer is left") };
    cluster.stop().await;
    open.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_voters_hand_over_under_load() {
    assert_eq!(hand_over_in_turn(&[1, 2, 3], 6).await, 0, "writes were left open");
}

/// Here heartbeats are stopped for a while, and on a machine that stands still another replica may
/// become a candidate meanwhile: a write that it interrupts is open, and its router repeats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_voters_hand_over_under_load() {
    hand_over_in_turn(&[1, 2, 3, 4, 5], 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_finds_the_follower_that_lives() {
    let mut cluster = Cluster::start(3).await;
    cluster.propose(0, &"before".into()).await;
    let leader = cluster.leader(0).await;
    let dead = if leader == 1 { 2 } else { 1 };
    cluster.stop_node(dead).await;
    let alive = (1..=3).find(|node| *node != leader && *node != dead).unwrap();
    let kept = cluster.nodes[&leader].raft.hand_over(within(LONG_MS)).await;
    assert!(kept.is_empty(), "{kept:?}");
    assert_eq!(cluster.leader(0).await, alive);
    cluster.propose(0, &"after".into()).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_that_fails_leaves_the_leader_as_it_was() {
    let mut cluster = Cluster::start(1).await;
    let leader = cluster.leader(0).await;
    cluster.propose(0, &"one".into()).await;
    let mut states = Vec::new();
    for node in (1..=3).filter(|node| *node != leader) {
        states.push((node, cluster.stop_node(node).await));
    }
    let kept = cluster.nodes[&leader].raft.hand_over(within(1_500)).await;
    assert!(matches!(kept[..], [(0, HandOverError::Late(_))]), "{kept:?}");
    for (node, appliers) in states {
        cluster.start_node(node, appliers).await;
    }
    // It proposes again: nothing was left held.
    cluster.propose(0, &"two".into()).await;
    let kept = cluster.nodes[&leader].raft.hand_over(within(LONG_MS)).await;
    assert!(kept.is_empty(), "{kept:?}");
    assert_ne!(cluster.leader(0).await, leader);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_voter_has_nobody_to_hand_over_to() {
    let cluster = Cluster::of(&[1], 2).await;
    let kept = cluster.nodes[&1].raft.hand_over(within(LONG_MS)).await;
    assert!(
        kept.iter().all(|(_, error)| matches!(error, HandOverError::Alone)) && kept.len() == 2,
        "{kept:?}"
    );
    cluster.propose(1, &"and goes on".into()).await;
    cluster.stop().await;
}
