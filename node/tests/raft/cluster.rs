//! What a healthy cluster does, and what it does when a node stops and returns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use holdfast_node::raft::{CommittedBody, ProposeError, ReadError, ReadRefused};

use crate::harness::{Cluster, NODES, outcome_of, within};

const GROUPS: u32 = 9;

fn command(group: u32, writer: usize, number: usize) -> Bytes {
    format!("组{group} writer {writer} command {number} 🧠").into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nine_groups_take_thousands_of_commands() {
    let cluster = Cluster::start(GROUPS).await;
    let start = Instant::now();
    let mut writers = futures::stream::FuturesUnordered::new();
    for group in 0..GROUPS {
        let leader = cluster.leader(group).await;
        for writer in 0..40 {
            let replica = cluster.nodes[&leader].group(group).clone();
            writers.push(tokio::spawn(async move {
                for number in 0..20 {
                    let command = command(group, writer, number);
                    let proposed = replica.propose(command.clone(), within(20_000)).await.unwrap();
                    assert_eq!(proposed.outcome, outcome_of(&command), "another writer's outcome");
                }
            }));
        }
    }
    while let Some(writer) = writers.next().await {
        writer.unwrap();
    }
    let elapsed = start.elapsed();
    let mut leaders = BTreeSet::new();
    for group in 0..GROUPS {
        let commands = cluster.converged(group).await;
        assert_eq!(commands.len(), 800);
        let unique: BTreeSet<&Bytes> = commands.iter().collect();
        assert_eq!(unique.len(), 800, "a command was applied twice");
        let leader = cluster.leader(group).await;
        leaders.insert(leader);
        let replica = cluster.nodes[&leader].group(group);
        let stats = replica.batch_stats();
        assert_eq!(stats.commands, 800);
        assert!(stats.entries * 4 < stats.commands, "hardly batched: {stats:?}");
        assert_eq!(replica.can_serve_session_read(), Ok(()));
        let status = replica.status();
        assert_eq!(status.voters, NODES);
        assert!(status.committed >= status.applied && status.applied.is_some(), "{status:?}");
    }
    assert_eq!(leaders.len(), 3, "the initialising nodes lead");
    let log = cluster.nodes[&1].raft.log_stats();
    assert!(log.requests > log.batches, "no fsync was shared: {log:?}");
    println!("7,200 commands in {elapsed:?}; node 1: {log:?}");
    stamps_increase(&cluster);
    cluster.stop().await;
}

/// Stamps come from the injected clock, one reading per entry.
fn stamps_increase(cluster: &Cluster) {
    for applier in cluster.nodes[&2].appliers.values() {
        let recorded = applier.recorded.lock();
        let stamps: Vec<u64> = recorded
            .entries
            .iter()
            .filter_map(|entry| match &entry.body {
                CommittedBody::Normal(payload) => Some(payload.stamp_us),
                _ => None,
            })
            .collect();
        assert!(stamps.is_sorted_by(|a, b| a < b), "{stamps:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_name_the_leader() {
    let cluster = Cluster::start(1).await;
    let leader = cluster.leader(0).await;
    cluster.propose(0, &"first".into()).await;
    for (id, node) in &cluster.nodes {
        if *id == leader {
            continue;
        }
        let replica = node.group(0);
        let refused = replica.propose("x".into(), within(1_000)).await;
        assert_eq!(refused, Err(ProposeError::NotLeader { leader: Some(leader) }));
        let refused = replica.linearizable(within(1_000)).await;
        assert_eq!(refused, Err(ReadError::NotLeader { leader: Some(leader) }));
        assert_eq!(replica.can_serve_session_read(), Err(ReadRefused::NotLeader { leader: Some(leader) }));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_initialised_once() {
    let mut cluster = Cluster::start(2).await;
    for node in cluster.nodes.values() {
        for group in 0..2 {
            assert_eq!(node.raft.initialize(group, &NODES).await, Ok(false));
        }
        assert!(node.raft.initialize(77, &NODES).await.is_err());
    }
    let term = cluster.nodes[&1].group(0).status().term;
    cluster.stop_node(1).await;
    cluster.start_node(1, BTreeMap::new()).await;
    assert_eq!(cluster.nodes[&1].raft.initialize(0, &NODES).await, Ok(false));
    assert!(cluster.nodes[&1].group(0).status().term >= term, "the vote was forgotten");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_without_a_node_and_it_catches_up() {
    let mut cluster = Cluster::start(GROUPS).await;
    let mut acknowledged: BTreeMap<u32, BTreeSet<Bytes>> = BTreeMap::new();
    let write = async |cluster: &Cluster, from: usize, acknowledged: &mut BTreeMap<u32, BTreeSet<Bytes>>| {
        for group in 0..GROUPS {
            let commands: Vec<Bytes> = (from..from + 60).map(|number| command(group, 0, number)).collect();
            let proposals = commands.iter().map(|command| cluster.propose(group, command));
            futures::future::join_all(proposals).await;
            acknowledged.entry(group).or_default().extend(commands);
        }
    };
    write(&cluster, 0, &mut acknowledged).await;

    let victim = cluster.leader(0).await;
    cluster.stop_node(victim).await;
    let stopped = Instant::now();
    cluster.propose(0, &"after the leader stopped".into()).await;
    let outage = stopped.elapsed();
    println!("a new leader of group 0 acknowledged a write after {outage:?}");
    assert!(outage < Duration::from_secs(5), "{outage:?}");
    write(&cluster, 100, &mut acknowledged).await;

    // From disk, with empty states: everything must come back from the log and the peers.
    cluster.start_node(victim, BTreeMap::new()).await;
    write(&cluster, 200, &mut acknowledged).await;
    for group in 0..GROUPS {
        let commands: BTreeSet<Bytes> = cluster.converged(group).await.into_iter().collect();
        let missing: Vec<&Bytes> = acknowledged[&group].difference(&commands).collect();
        assert!(missing.is_empty(), "group {group} lost acknowledged commands: {missing:?}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_cluster_returns_with_its_states_and_its_log() {
    let mut cluster = Cluster::start(3).await;
    for number in 0..100 {
        cluster.propose(number % 3, &command(number % 3, 1, number as usize)).await;
    }
    let mut before = Vec::new();
    for group in 0..3 {
        before.push(cluster.converged(group).await);
    }
    let mut states = BTreeMap::new();
    for id in NODES {
        states.insert(id, cluster.stop_node(id).await);
    }
    for (id, appliers) in states {
        // Node 1 keeps its states, which must not see an entry twice; the others start empty.
        let appliers = if id == 1 { appliers } else { BTreeMap::new() };
        cluster.start_node(id, appliers).await;
    }
    for group in 0..3 {
        cluster.propose(group, &"after the restart".into()).await;
        let commands = cluster.converged(group).await;
        assert_eq!(commands[..before[group as usize].len()], before[group as usize]);
        assert_eq!(commands.last().unwrap(), &Bytes::from("after the restart"));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn linearizable_reads_are_coalesced_and_see_acknowledged_writes() {
    let cluster = Cluster::start(1).await;
    let leader = cluster.leader(0).await;
    let replica = cluster.nodes[&leader].group(0);
    for number in 0..20 {
        let written = replica.propose(command(0, 0, number), within(5_000)).await.unwrap().position.index;
        let reads = (0..200).map(|_| replica.linearizable(within(5_000)));
        for read_point in futures::future::join_all(reads).await {
            assert!(read_point.unwrap() >= written);
        }
    }
    cluster.stop().await;
}
