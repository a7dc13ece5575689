//! Recalls while the leader of all partitions answers nobody and no other one is elected yet.

use super::*;
use crate::common::node::Fault;
use std::time::{Duration, Instant};

/// A collection whose recalls are known to the router: how long they take, and up to where it has seen the shards.
async fn known(world: &World) -> Api {
    let api = world.api();
    put(&api, "kb", 8).await;
    let memories: Vec<Value> = (0..60).map(|n| json!({"content": format!("tea {n}")})).collect();
    add(&api, "kb", json!(memories)).await;
    world.is_ready().await;
    for _ in 0..20 {
        assert_eq!(ids(&recall(&api).await).len(), 60);
    }
    api
}

async fn recall(api: &Api) -> Value {
    let body = json!({"query": "tea", "top_k": 100, "deadline_ms": 20_000});
    let found = api.post("/v1/collections/kb/recall", body).await.ok(200);
    assert_eq!((&found["partial"], &found["missing"]), (&json!(false), &json!([])));
    found
}

/// The time of an attempt is so long here that whoever waits for one is told from who does not, however busy the machine.
async fn patient() -> World {
    World::with(Options {
        embedder: Some(Arc::new(Letters)),
        change: |config| config.attempt_timeout = Duration::from_secs(10),
        ..Options::default()
    })
    .await
}

#[tokio::test]
async fn a_leader_that_is_stuck_makes_no_recall_slow_or_short() {
    let world = patient().await;
    let api = known(&world).await;
    world.fault(1, Fault::Stuck);
    let started = Instant::now();
    for _ in 0..30 {
        assert_eq!(ids(&recall(&api).await).len(), 60);
    }
    // 30 recalls of 8 partitions, each asked three times: more than any budget of hedges.
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}: somebody waited", started.elapsed());
    // It answers again, and is asked again.
    world.fault(1, Fault::None);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let calls = |node| world.cluster.node(node).calls.load(std::sync::atomic::Ordering::SeqCst);
    let before = calls(1);
    for _ in 0..5 {
        recall(&api).await;
    }
    assert!(calls(1) >= before + 5 * 16, "{} of {}", calls(1), before);
}

#[tokio::test]
async fn a_leader_that_is_gone_makes_no_recall_slow_or_short() {
    let world = patient().await;
    let api = known(&world).await;
    world.fault(1, Fault::Dead);
    let started = Instant::now();
    for _ in 0..10 {
        assert_eq!(ids(&recall(&api).await).len(), 60);
    }
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}: somebody waited", started.elapsed());
}

/// Followers that have not seen what the router has are no help, and their answers are not taken.
#[tokio::test]
async fn a_follower_that_is_behind_is_not_believed() {
    let world = World::with(Options {
        embedder: Some(Arc::new(Letters)),
        change: |config| config.attempt_timeout = Duration::from_millis(300),
        ..Options::default()
    })
    .await;
    let api = known(&world).await;
    for node in [2, 3] {
        world.fault(node, Fault::Lagging);
    }
    world.fault(1, Fault::Stuck);
    let body = json!({"query": "tea", "deadline_ms": 1_500});
    let reply = api.post("/v1/collections/kb/recall", body.clone()).await;
    assert!(matches!(reply.status, 503 | 504), "{}", reply.body);
    // One of them has caught up.
    world.fault(2, Fault::None);
    assert_eq!(ids(&recall(&api).await).len(), 60);
}
