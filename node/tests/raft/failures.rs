//! Lost majorities, failing states, slow states, strangers.

use std::time::Duration;

use bytes::Bytes;
use holdfast_node::raft::{ENTRY_BYTES_MAX, ProposeError, ReadError, ReadRefused};
use holdfast_proto::v1::raft_client::RaftClient;
use holdfast_proto::v1::{RaftKind, RaftRequest};

use crate::harness::{CLUSTER, Cluster, HEARTBEAT, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_acknowledged() {
    let mut cluster = Cluster::start(1).await;
    cluster.propose(0, &"before".into()).await;
    let leader = cluster.leader(0).await;
    let others: Vec<u64> = cluster.nodes.keys().copied().filter(|id| *id != leader).collect();
    let mut states = Vec::new();
    for id in &others {
        states.push((*id, cluster.stop_node(*id).await));
    }
    let replica = cluster.nodes[&leader].group(0).clone();
    let unknown = replica.propose("lost?".into(), within(300)).await;
    assert_eq!(unknown, Err(ProposeError::UnknownOutcome));
    let read = replica.linearizable(within(400)).await;
    assert!(matches!(read, Err(ReadError::Unavailable(_) | ReadError::DeadlineExceeded)), "{read:?}");
    tokio::time::sleep(HEARTBEAT * 5).await;
    assert!(matches!(replica.can_serve_session_read(), Err(ReadRefused::StaleLeadership { .. })));
    let refused = replica.propose("never proposed".into(), within(1_000)).await;
    assert!(matches!(refused, Err(ProposeError::Unavailable(_))), "{refused:?}");

    for (id, appliers) in states {
        cluster.start_node(id, appliers).await;
    }
    cluster.propose(0, &"after".into()).await;
    let commands = cluster.converged(0).await;
    assert!(!commands.contains(&Bytes::from("never proposed")), "a refused command was applied");
    assert_eq!(commands.first(), Some(&Bytes::from("before")));
    assert_eq!(commands.last(), Some(&Bytes::from("after")));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_state_stops_its_group_and_no_other() {
    let cluster = Cluster::start(2).await;
    let leader = cluster.leader(0).await;
    let node = &cluster.nodes[&leader];
    *node.appliers[&0].fail.lock() = Some("磁盘坏了".into());
    let failed = node.group(0).propose("x".into(), within(3_000)).await;
    assert_eq!(failed, Err(ProposeError::UnknownOutcome));
    let failed = node.group(0).propose("y".into(), within(3_000)).await;
    assert!(matches!(&failed, Err(ProposeError::Fatal(cause)) if cause.contains("磁盘坏了")), "{failed:?}");
    assert!(node.group(0).status().failure.is_some());
    // The other replicas of the group, and the other group, go on.
    cluster.propose(1, &"still here".into()).await;
    let survivors = cluster.nodes.iter().filter(|(id, _)| **id != leader);
    let mut elected = false;
    let survivors: Vec<_> = survivors.map(|(_, node)| node.group(0)).collect();
    for _ in 0..3_000 {
        elected = survivors.iter().any(|replica| replica.status().leader_applied_own_term);
        if elected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(elected, "the survivors elected nobody");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_states_push_back_and_deadlines_tell_queued_from_proposed() {
    let cluster = Cluster::start(1).await;
    let leader = cluster.leader(0).await;
    let node = &cluster.nodes[&leader];
    *node.appliers[&0].delay.lock() = Duration::from_millis(700);
    let replica = node.group(0).clone();
    let proposals = (0..6_000).map(|number| {
        let replica = replica.clone();
        async move { replica.propose(format!("{number}").into(), within(350)).await }
    });
    let results = futures::future::join_all(proposals).await;
    let count =
        |wanted: &ProposeError| results.iter().filter(|result| result.as_ref().err() == Some(wanted)).count();
    let overloaded = count(&ProposeError::Overloaded);
    let queued = count(&ProposeError::DeadlineExceeded);
    let proposed = count(&ProposeError::UnknownOutcome);
    println!("{overloaded} overloaded, {queued} never proposed, {proposed} unknown");
    assert!(overloaded >= 1_000 && queued > 0 && proposed > 0, "{overloaded} {queued} {proposed}");
    assert_eq!(overloaded + queued + proposed, results.len());

    *node.appliers[&0].delay.lock() = Duration::ZERO;
    cluster.propose(0, &"end".into()).await;
    let applied: std::collections::BTreeSet<Bytes> = cluster.converged(0).await.into_iter().collect();
    for (number, result) in results.iter().enumerate() {
        if result != &Err(ProposeError::UnknownOutcome) {
            let command = Bytes::from(format!("{number}"));
            assert!(!applied.contains(&command), "{command:?} was applied despite {result:?}");
        }
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_any_allowed_size_pass() {
    let cluster = Cluster::start(1).await;
    let leader = cluster.leader(0).await;
    let replica = cluster.nodes[&leader].group(0);
    for size in [0, 1, ENTRY_BYTES_MAX] {
        replica.propose(vec![b'x'; size].into(), within(5_000)).await.unwrap();
    }
    let big = (0..8).map(|_| replica.propose(vec![b'y'; 700 << 10].into(), within(10_000)));
    for result in futures::future::join_all(big).await {
        result.unwrap();
    }
    let refused = replica.propose(vec![0; ENTRY_BYTES_MAX + 1].into(), within(1_000)).await;
    assert!(matches!(refused, Err(ProposeError::TooLarge { .. })));
    assert_eq!(cluster.converged(0).await.len(), 11);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused() {
    let cluster = Cluster::start(1).await;
    let address = holdfast_node::raft::AddressBook::address(&*cluster.addresses, 1).unwrap();
    let mut client = RaftClient::connect(address).await.unwrap();
    let request = RaftRequest {
        group: 0,
        from: 2,
        to: 1,
        cluster_id: CLUSTER.into(),
        kind: RaftKind::Vote.into(),
        payload: vec![1, 2, 3],
        run: 0,
    };
    let cases = [
        (RaftRequest { cluster_id: "其他".into(), ..request.clone() }, tonic::Code::FailedPrecondition),
        (RaftRequest { to: 3, ..request.clone() }, tonic::Code::FailedPrecondition),
        (RaftRequest { from: 1, ..request.clone() }, tonic::Code::FailedPrecondition),
        // Another process than the one that answers at the address of node 2.
        (RaftRequest { run: 7, ..request.clone() }, tonic::Code::FailedPrecondition),
        (RaftRequest { group: 99, ..request.clone() }, tonic::Code::NotFound),
        (RaftRequest { kind: 0, ..request.clone() }, tonic::Code::InvalidArgument),
        (RaftRequest { kind: 42, ..request.clone() }, tonic::Code::InvalidArgument),
        (RaftRequest { payload: vec![0xFF; 100], ..request.clone() }, tonic::Code::InvalidArgument),
        (request, tonic::Code::InvalidArgument),
    ];
    for (request, code) in cases {
        let status = client.call(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), code, "{request:?}: {status}");
    }
    cluster.propose(0, &"unharmed".into()).await;
    cluster.stop().await;
}
