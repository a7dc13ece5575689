//! Three nodes that find out what is wrong with their replicas, and mend it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;

use crate::config::NodeConfig;
use crate::raft::NodeId;
use crate::shard::tests::space;
use crate::shard::{BuildLimits, Damage, Reason};
use harness::{Cluster, SHARD, exists, memory_rows, names, spaces, until};
use holdfast_core::access::{Access, Rights};
use holdfast_proto::v1;
use holdfast_proto::v1::node_client::NodeClient;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const MISMATCHES: &str = "holdfast_state_hash_mismatches_total";
const REBUILDS: &str = "holdfast_replica_rebuilds_total";

/// Waits until a replica was made anew and serves again.
async fn rebuilt(cluster: &Cluster, id: NodeId, times: f64) {
    until("the replica is made anew", || cluster.metric(id, REBUILDS, "done") >= times).await;
    assert_eq!(cluster.in_quarantine(), [] as [NodeId; 0]);
    assert!(!cluster.replica(id).group.is_withdrawn());
}

/// Replicas are compared when a test says so.
fn only_when_asked(config: &mut NodeConfig) {
    config.integrity.compare_every = Duration::from_hours(1);
}

fn follower(cluster: &Cluster, leader: NodeId) -> NodeId {
    cluster.nodes.keys().copied().find(|id| *id != leader).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_are_equal_are_compared_and_then_left_alone() {
    let mut cluster = Cluster::start(|_| {}).await;
    cluster.write(names("a", 20)).await;
    cluster.compared().await;
    let leader = cluster.leader().await;
    let stand = |cluster: &Cluster| {
        let replica = cluster.replica(leader);
        (replica.group.status().term, replica.state.visible())
    };
    let rest = stand(&cluster);
    // Many turns of the comparison.
    let scrubs = |cluster: &Cluster| cluster.metric(leader, "holdfast_scrubs_total", "equal");
    let before = scrubs(&cluster);
    until("rows are read again and again", || scrubs(&cluster) >= before + 6.0).await;
    let now = stand(&cluster);
    if now.0 == rest.0 {
        assert_eq!(now, rest, "a group at rest gets no entries");
    }
    // A replica that was restarted has forgotten its points; it is compared where it stands.
    let other = follower(&cluster, leader);
    cluster.restart(other).await;
    cluster.converge(20).await;
    assert_eq!(cluster.in_quarantine(), [] as [NodeId; 0]);
    for id in [1, 2, 3] {
        assert!(cluster.metric(id, MISMATCHES, "") < 0.5, "node {id}");
    }
    cluster.write(names("b", 3)).await;
    cluster.compared().await;
    cluster.converge(23).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_is_found_and_the_replica_is_made_anew() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.write(names("a", 50)).await;
    cluster.compared().await;
    let leader = cluster.leader().await;
    let victim = follower(&cluster, leader);
    cluster.replica(victim).state.damage(&memory_rows(), 1, Damage::Row);
    cluster.write(names("b", 10)).await;
    rebuilt(&cluster, victim, 1.0).await;
    assert!(cluster.metric(victim, MISMATCHES, "rows") >= 1.0);
    cluster.converge(60).await;
    assert_eq!(exists(&cluster.shard_dir(victim), "lost-"), 1, "the old state is kept");
    assert_eq!(exists(&cluster.shard_dir(victim), "sled-"), 1);
    cluster.write(names("c", 10)).await;
    cluster.converge(70).await;
    cluster.stop().await;
}

/// The leader holds something else than the others, and does not know: its rows fit its hash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_deviates_steps_down_and_is_made_anew() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.write(names("a", 30)).await;
    cluster.compared().await;
    let leader = cluster.leader().await;
    cluster.replica(leader).state.damage(&memory_rows(), 1, Damage::Applied);
    // A new entry makes a new point.
    cluster.write(names("b", 5)).await;
    until("the leader finds out", || cluster.metric(leader, MISMATCHES, "outvoted") >= 1.0).await;
    rebuilt(&cluster, leader, 1.0).await;
    cluster.write(names("c", 5)).await;
    cluster.converge(40).await;
    cluster.stop().await;
}

/// Its snapshot file holds the wrong rows as well, and its log before them is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_whose_own_files_are_wrong_is_made_from_another_one() {
    let cluster = Cluster::start(only_when_asked).await;
    cluster.write(names("a", 30)).await;
    let leader = cluster.leader().await;
    let victim = follower(&cluster, leader);
    until("the victim is there", || {
        cluster.replica(victim).state.visible() == cluster.replica(leader).state.visible()
    })
    .await;
    let replica = cluster.replica(victim).clone();
    replica.state.damage(&memory_rows(), 1, Damage::Applied);
    let state = Arc::clone(&replica.state);
    let build = move || state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false));
    let file = tokio::task::spawn_blocking(build).await.unwrap().unwrap();
    let index = file.id().index;
    drop(file);
    assert!(replica.group.announce_snapshot(index, Instant::now() + Duration::from_secs(20)).await.unwrap());
    replica.group.purge_log(index).await.unwrap();
    until("the log is purged", || replica.group.purged() >= Some(index)).await;
    cluster.write(names("b", 5)).await;
    until("the replica is made anew", || {
        cluster.look(victim);
        cluster.metric(victim, REBUILDS, "done") >= 1.0
    })
    .await;
    cluster.converge(35).await;
    assert_eq!(replica.state.snapshots().damaged(), 1, "its own file was set aside");
    assert!(replica.state.snapshots().newest().is_some_and(|file| file.id().index >= index));
    drop(replica);
    cluster.stop().await;
}

/// Two of three are wrong, each in its own way: nobody knows who is right, so nothing is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_majority_agrees_there_is_an_alarm_and_nothing_else() {
    let cluster = Cluster::start(only_when_asked).await;
    cluster.write(names("a", 30)).await;
    cluster.converge(30).await;
    for (by, id) in [(1, 1), (2, 2)] {
        cluster.replica(id).state.damage(&memory_rows(), by, Damage::Applied);
    }
    for id in [1, 2, 3] {
        until("everybody tells", || {
            cluster.look(id);
            cluster.metric(id, MISMATCHES, "undecided") >= 1.0
        })
        .await;
    }
    for id in [1, 2, 3] {
        assert!(cluster.metric(id, REBUILDS, "") < 0.5, "node {id}");
    }
    assert_eq!(cluster.in_quarantine(), [] as [NodeId; 0]);
    cluster.write(names("c", 5)).await;
    cluster.stop().await;
}

/// Two of three have damaged rows: both are out of service, and neither is believed to help the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_damaged_replicas_are_not_made_anew() {
    // The second one must still be wrong when the first one is found.
    let change = |config: &mut NodeConfig| {
        config.integrity.rebuilds_per_day_max = if config.node_id == 2 { 0 } else { 2 }
    };
    let cluster = Cluster::start(change).await;
    cluster.write(names("a", 30)).await;
    cluster.converge(30).await;
    for id in [2, 1] {
        cluster.replica(id).state.damage(&memory_rows(), 1, Damage::Row);
        until("it is found, and no rebuild is begun", || cluster.metric(id, REBUILDS, "refused") >= 1.0)
            .await;
        assert!(cluster.metric(id, REBUILDS, "done") < 0.5);
        assert!(cluster.metric(id, "holdfast_quarantined_replicas", "") > 0.5);
    }
    assert_eq!(cluster.in_quarantine(), [1, 2]);
    // The sound one leads, with the votes of the others.
    until("the sound one leads", || cluster.leader_now() == Some(3)).await;
    cluster.write(names("b", 5)).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_not_made_anew_more_than_twice_a_day() {
    let mut cluster = Cluster::start(|_| {}).await;
    cluster.write(names("a", 30)).await;
    cluster.compared().await;
    let leader = cluster.leader().await;
    let victim = follower(&cluster, leader);
    for times in [1.0, 2.0] {
        cluster.replica(victim).state.damage(&memory_rows(), 1, Damage::Row);
        rebuilt(&cluster, victim, times).await;
    }
    assert_eq!(exists(&cluster.shard_dir(victim), "lost-"), 1, "the newest old state alone is kept");
    cluster.replica(victim).state.damage(&memory_rows(), 1, Damage::Row);
    until("no rebuild is begun", || cluster.metric(victim, REBUILDS, "refused") >= 1.0).await;
    assert_eq!(cluster.in_quarantine(), [victim]);
    // A restart changes nothing about it.
    cluster.restart(victim).await;
    until("no rebuild is begun", || cluster.metric(victim, REBUILDS, "refused") >= 1.0).await;
    assert_eq!(cluster.in_quarantine(), [victim]);
    let suspicion = cluster.replica(victim).state.quarantine().suspicion().unwrap();
    assert_eq!(suspicion.reason, Reason::RowsDiffer);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_in_quarantine_answers_nobody() {
    let cluster = Cluster::start(|config| config.integrity.rebuilds_per_day_max = 0).await;
    cluster.write(names("a", 10)).await;
    cluster.compared().await;
    let leader = cluster.leader().await;
    let request = || v1::GetRequest {
        access: Some(Access { tenant: "acme".into(), user: None, rights: Rights::ALL }.into()),
        space: Some((&space()).into()),
        read: Some(v1::Read { deadline_ms: 5_000, ..v1::Read::default() }),
        id: "a-0 记忆".into(),
    };
    let address = cluster.address(leader);
    let mut client = NodeClient::connect(format!("http://{address}")).await.unwrap();
    let found = client.get(request()).await.unwrap().into_inner();
    assert!(found.memory.is_some());
    cluster.replica(leader).state.damage(&memory_rows(), 1, Damage::Row);
    until("it is found", || cluster.in_quarantine() == [leader]).await;
    let refused = client.get(request()).await.unwrap_err();
    assert!(refused.message().contains("quarantine"), "{refused}");
    let topology = client.topology(v1::TopologyRequest::default()).await.unwrap().into_inner();
    let told = topology.groups.iter().find(|group| group.group == SHARD).unwrap();
    assert_ne!(told.leader, Some(leader), "routers are not sent to it");
    // Nor does it give its rows away.
    let other = follower(&cluster, leader);
    let node = &cluster.nodes[&other];
    let files = cluster.replica(other).state.snapshots();
    let fetched = node.raft.fetch_snapshot(SHARD, leader, files, 0).await;
    assert!(fetched.as_ref().is_err_and(|error| error.contains("quarantine")), "{fetched:?}");
    cluster.write(names("b", 3)).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_with_a_row_missing_is_found_and_dropped() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.write(names("a", 20)).await;
    let leader = cluster.leader().await;
    let state = Arc::clone(&cluster.replica(leader).state);
    let deadline = Instant::now() + Duration::from_secs(20);
    let image = spaces(&cluster, leader).get(&space(), &state.reader(), deadline).unwrap();
    until("images are compared", || cluster.metric(leader, "holdfast_index_checks_total", "equal") >= 1.0)
        .await;
    let seq = image.read().rows().next().unwrap().0;
    image.write().remove(seq);
    until("it is found", || cluster.metric(leader, "holdfast_index_checks_total", "differs") >= 1.0).await;
    assert!(spaces(&cluster, leader).peek(&space()).is_none(), "it is dropped");
    let again = spaces(&cluster, leader).get(&space(), &state.reader(), deadline).unwrap();
    assert_eq!(again.read().rows().count(), 20);
    drop((image, again, state));
    cluster.stop().await;
}
