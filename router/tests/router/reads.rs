//! Which replica answers a read: bounds, hedges, and parts of the data that have moved.

use crate::common::node::Fault;
use crate::common::{Options, World};
use holdfast_core::space::{Shard, SpaceKey};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn ann() -> SpaceKey {
    SpaceKey::user(crate::common::TENANT, "ann").unwrap()
}

/// A group that owns nothing that was written yet.
fn another(shard: Shard) -> Shard {
    Shard(if shard.0 == 1 { 2 } else { 1 })
}

async fn metric(world: &World, name: &str) -> u64 {
    let text = world.operator().get("/metrics").await;
    let text = text.body.as_str().unwrap().to_owned();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn calls(world: &World) -> Vec<usize> {
    (1..=3).map(|node| world.cluster.node(node).calls.load(Ordering::SeqCst)).collect()
}

#[tokio::test]
async fn bounded_reads_go_to_all_replicas_in_turn() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
    world.is_ready().await;
    let before = calls(&world);
    for _ in 0..30 {
        let body = json!({"query": "one", "consistency": "bounded", "max_staleness_ms": 1000});
        assert_eq!(api.recall(body).await.ok(200)["results"].as_array().unwrap().len(), 1);
        api.get("/v1/users/ann/memories/a?consistency=bounded&max_staleness_ms=1000").await.ok(200);
        api.get("/v1/users/ann/memories/a/history?consistency=bounded&max_staleness_ms=1000").await.ok(200);
        api.get("/v1/users/ann/memories?consistency=bounded&max_staleness_ms=1000").await.ok(200);
    }
    let after = calls(&world);
    for (before, after) in before.iter().zip(&after) {
        assert!(after - before >= 30, "a replica is left out: {before:?} {after:?}");
    }
    let name = "holdfast_router_reads_total{consistency=\"bounded\",outcome=\"replica\"}";
    assert_eq!(metric(&world, name).await, 120);
}

#[tokio::test]
async fn where_followers_are_behind_or_gone_the_leader_answers() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
    world.is_ready().await;
    let path = "/v1/users/ann/memories/a?consistency=bounded&max_staleness_ms=200";
    for fault in [Fault::Lagging, Fault::Dead, Fault::CutOff, Fault::Lost] {
        world.fault(2, fault);
        world.fault(3, fault);
        for _ in 0..6 {
            // Far from the 15 s that a request has, and far from what a busy machine takes.
            let started = Instant::now();
            api.get(path).await.ok(200);
            assert!(started.elapsed() < Duration::from_secs(8), "{fault:?}: {:?}", started.elapsed());
        }
    }
    assert!(metric(&world, "holdfast_router_retries_total{reason=\"behind\"}").await > 0);
    // Nobody can answer: it says so within the deadline.
    world.fault(1, Fault::CutOff);
    let body = json!({"query": "one", "consistency": "bounded", "max_staleness_ms": 200, "deadline_ms": 400});
    api.recall(body).await.problem("unavailable");
}

#[tokio::test]
async fn a_bound_is_checked() {
    let world = World::start().await;
    let api = world.api();
    for query in [
        json!({"query": "q", "consistency": "bounded"}),
        json!({"query": "q", "consistency": "bounded", "max_staleness_ms": 0}),
        json!({"query": "q", "consistency": "bounded", "max_staleness_ms": 3_600_001}),
        json!({"query": "q", "max_staleness_ms": 5}),
        json!({"query": "q", "consistency": "linearizable", "max_staleness_ms": 5}),
    ] {
        let (field, _) = api.recall(query.clone()).await.problem("invalid_argument");
        assert_eq!(field, "max_staleness_ms", "{query}");
    }
    let (field, _) = api
        .recall(json!({"query": "q", "consistency": "bounded", "max_staleness_ms": -1}))
        .await
        .problem("invalid_argument");
    assert_eq!(field, "max_staleness_ms");
    for query in ["consistency=bounded", "consistency=bounded&max_staleness_ms=x", "max_staleness_ms=7"] {
        let (field, _) =
            api.get(&format!("/v1/users/ann/memories?{query}")).await.problem("invalid_argument");
        assert_eq!(field, "max_staleness_ms", "{query}");
    }
}

#[tokio::test]
async fn slow_reads_are_hedged_to_followers_that_have_seen_as_much() {
    let world = World::start().await;
    let api = world.api();
    let added = api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
    let token = added["token"].as_str().unwrap();
    world.is_ready().await;
    for _ in 0..200 {
        api.recall(json!({"query": "one", "token": token})).await.ok(200);
    }
    world.fault(1, Fault::Slow);
    api.recall(json!({"query": "one", "token": token})).await.ok(200);
    // By the count and not by the clock: this machine may be slower than the leader.
    assert!(metric(&world, "holdfast_router_hedges_total{outcome=\"won\"}").await >= 1);

    // A follower that is behind says so; the leader's answer is waited for.
    for node in [2, 3] {
        world.fault(node, Fault::Lagging);
    }
    let behind = metric(&world, "holdfast_router_hedges_total{outcome=\"behind\"}").await;
    let started = Instant::now();
    api.recall(json!({"query": "one", "token": token})).await.ok(200);
    assert!(started.elapsed() >= Duration::from_millis(600), "who answered?");
    assert_eq!(metric(&world, "holdfast_router_hedges_total{outcome=\"behind\"}").await, behind + 1);

    // A linearizable read is nobody's but the leader's.
    for node in [2, 3] {
        world.fault(node, Fault::None);
    }
    let started = Instant::now();
    api.recall(json!({"query": "one", "consistency": "linearizable"})).await.ok(200);
    assert!(started.elapsed() >= Duration::from_millis(600), "who answered?");
}

#[tokio::test]
async fn hedges_keep_to_their_budget() {
    let world = World::start().await;
    let api = world.api();
    let token = api.add(json!([{"content": "one"}])).await.ok(201)["token"].as_str().unwrap().to_owned();
    world.is_ready().await;
    for _ in 0..200 {
        api.recall(json!({"query": "one", "token": token})).await.ok(200);
    }
    world.fault(1, Fault::Slow);
    let body = json!({"query": "one", "token": token});
    let replies = futures::future::join_all((0..60).map(|_| api.recall(body.clone()))).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    let mut hedges = 0;
    for outcome in ["won", "lost", "behind", "failed"] {
        hedges += metric(&world, &format!("holdfast_router_hedges_total{{outcome=\"{outcome}\"}}")).await;
    }
    assert!((1..=14).contains(&hedges), "{hedges} hedges of some 260 reads");
}

#[tokio::test]
async fn what_has_moved_is_followed_to_its_new_shard() {
    let world = World::start().await;
    let api = world.api();
    let token = api.add(json!([{"id": "a", "content": "one"}])).await.ok(201)["token"].clone();
    world.is_ready().await;
    let (from, to) = (world.cluster.owner(&ann()), another(world.cluster.owner(&ann())));
    world.cluster.move_to(&ann(), to);
    assert_ne!(from, world.cluster.owner(&ann()));
    // The router does not know it yet, and does everything in one call nevertheless.
    api.add(json!([{"id": "b", "content": "two"}])).await.ok(201);
    assert!(metric(&world, "holdfast_router_retries_total{reason=\"wrong_shard\"}").await >= 1);
    for query in ["", "?consistency=linearizable", "?consistency=bounded&max_staleness_ms=500"] {
        let list = api.get(&format!("/v1/users/ann/memories{query}")).await.ok(200);
        assert_eq!(list["memories"].as_array().unwrap().len(), 2, "{query}");
    }
    // A token of the old shard neither fails nor hides anything.
    let body = json!({"query": "one", "token": token});
    assert_eq!(api.recall(body).await.ok(200)["results"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn every_read_follows_what_has_moved() {
    for path in [
        "/v1/users/ann/memories/a",
        "/v1/users/ann/memories/a/history",
        "/v1/users/ann/memories?consistency=bounded&max_staleness_ms=500",
        "/v1/users/ann/memories/a?consistency=linearizable",
    ] {
        let world = World::start().await;
        let api = world.api();
        api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
        world.is_ready().await;
        world.cluster.move_to(&ann(), another(world.cluster.owner(&ann())));
        api.get(path).await.ok(200);
    }
}

#[tokio::test]
async fn a_move_that_is_under_way_is_waited_out() {
    let world = World::with(Options {
        change: |config| config.write_timeout = Duration::from_millis(1_500),
        ..Options::default()
    })
    .await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
    world.is_ready().await;
    // The shard refuses already, and nobody tells the new map yet.
    world.cluster.told_epoch.store(1, Ordering::SeqCst);
    world.cluster.move_to(&ann(), another(world.cluster.owner(&ann())));
    let started = Instant::now();
    let applied = world.cluster.applied.load(Ordering::SeqCst);
    let (_, detail) = api.add(json!([{"id": "b", "content": "two"}])).await.problem("unavailable");
    assert!(detail.contains("moving"), "{detail}");
    assert!(started.elapsed() < Duration::from_secs(4), "the deadline holds");
    assert_eq!(world.cluster.applied.load(Ordering::SeqCst), applied, "nothing was done");
    let cluster = world.cluster.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.told_epoch.store(u64::MAX, Ordering::SeqCst);
    });
    api.add(json!([{"id": "b", "content": "two"}])).await.ok(201);
    api.get("/v1/users/ann/memories/b").await.ok(200);
}
