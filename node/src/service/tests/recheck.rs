//! A link that was lost to a concurrent change is found by the leader.

use super::IN_TIME;
use super::harness::{Cluster, GROUP, access, session, until};
use crate::shard::tests::space;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Add, Command, Hint, NewMemory, Origin, SpaceCommand, Write};
use holdfast_core::keys::text_hash;
use holdfast_core::memory::IndexRow;
use holdfast_core::text::{analyze, normalize};
use holdfast_proto::v1;
use std::time::Instant;

fn memory(id: &str, content: &str, conflicts: Vec<Hint>) -> Write {
    let terms = analyze(content);
    let index = IndexRow { id: id.into(), terms: terms.terms, terms_len: terms.len, ..IndexRow::default() };
    let item = NewMemory {
        id_chosen: true,
        content: content.into(),
        tokens: 0,
        text_hash: text_hash::hash(&normalize(content), None),
        confidence: 1.0,
        statements: vec![],
        whole: false,
        conflicts,
        source: None,
        derived_from: vec![],
        chunks: vec![],
        index,
        event_given: false,
    };
    Write::Add(Add {
        origin: Origin::Caller,
        model: None,
        vectors_given: false,
        partial: false,
        items: vec![item],
    })
}

async fn write(cluster: &Cluster, write: Write) -> Result<(), holdfast_proto::Refused> {
    let command = Command::Space(Box::new(SpaceCommand { space: space(), idempotency: None, write }));
    let request = v1::WriteRequest {
        access: Some(access()),
        group: GROUP,
        command: command.encode().unwrap(),
        deadline_ms: 5_000,
        map_epoch: 1,
    };
    let leader = cluster.leader().await;
    cluster.service(leader).propose(request).await.map(drop)
}

async fn conflicts(cluster: &Cluster, id: &str) -> Vec<String> {
    let request = v1::GetRequest {
        access: Some(access()),
        space: Some((&space()).into()),
        read: Some(session(None, false)),
        id: id.into(),
    };
    let leader = cluster.leader().await;
    let answer = cluster.service(leader).read_one(request).await;
    answer.ok().and_then(|answer| answer.memory).map(|memory| memory.possible_conflicts).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_link_is_found_by_the_leader() {
    let cluster = Cluster::start().await;
    write(&cluster, memory("monday", "My piano lessons are on Mondays", vec![])).await.unwrap();
    write(&cluster, memory("bicycle", "Anna has a red bicycle", vec![])).await.unwrap();
    // The proposer looked at a version that is not there (any more).
    let stale = Hint { id: "monday".into(), version: 7 };
    let begin = Instant::now();
    write(&cluster, memory("friday", "My piano lessons are now on Fridays", vec![stale])).await.unwrap();
    until("the link", || async { conflicts(&cluster, "friday").await == ["monday"] }).await;
    assert!(begin.elapsed() < IN_TIME);
    assert_eq!(conflicts(&cluster, "monday").await, ["friday"]);
    assert!(conflicts(&cluster, "bicycle").await.is_empty());
    let by_hand = Write::Relink { id: "friday".into(), due_us: 0, conflicts: vec![] };
    let refused = write(&cluster, by_hand).await.unwrap_err();
    assert_eq!(refused.error.code, holdfast_core::ErrorCode::PermissionDenied);
    cluster.stop().await;
}
