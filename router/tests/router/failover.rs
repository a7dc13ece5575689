//! Nodes that lead no more, are busy, are dead or lose answers.

use crate::common::node::Fault;
use crate::common::{Options, World};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_new_leader_is_found_by_the_hint() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "one"}])).await.ok(201);
    for leader in [3, 2, 1] {
        world.cluster.leader.store(leader, Ordering::SeqCst);
        let started = Instant::now();
        api.add(json!([{"content": format!("by {leader}")}])).await.ok(201);
        api.recall(json!({"query": "one"})).await.ok(200);
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_dead_leader_is_waited_out() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
    world.fault(1, Fault::Dead);
    let cluster = world.cluster.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(400)).await;
        cluster.leader.store(2, Ordering::SeqCst);
    });
    api.add(json!([{"id": "b", "content": "two"}])).await.ok(201);
    api.get("/v1/users/ann/memories/a").await.ok(200);
    let metrics = world.operator().get("/metrics").await;
    let text = metrics.body.as_str().unwrap().to_owned();
    assert!(text.contains("holdfast_router_retries_total{reason=\"transport\"}"), "{text}");
}

#[tokio::test]
async fn a_lost_answer_does_not_double_the_write() {
    let world = World::start().await;
    let api = world.api();
    world.is_ready().await;
    world.fault(1, Fault::LoseAnswer);
    let added = api.add(json!([{"content": "once"}])).await.ok(201);
    assert_eq!(added["results"][0]["status"], "created");
    let list = api.get("/v1/users/ann/memories").await.ok(200);
    assert_eq!(list["memories"].as_array().unwrap().len(), 1);
    assert_eq!(list["memories"][0]["count"], 1, "the repetition was recognised");
    assert_eq!(list["memories"][0]["id"], added["results"][0]["id"]);
}

#[tokio::test]
async fn nodes_that_are_busy_or_behind_are_asked_again() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "one"}])).await.ok(201);
    for fault in [Fault::Busy, Fault::Behind] {
        world.fault(1, fault);
        api.recall(json!({"query": "one"})).await.ok(200);
    }
}

#[tokio::test]
async fn the_end_of_time_is_told_as_it_is() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "one"}])).await.ok(201);
    // Nobody leads: nothing was done.
    for node in 1..=3 {
        world.fault(node, Fault::Lost);
    }
    let reply = api.recall(json!({"query": "one", "deadline_ms": 300})).await;
    reply.problem("unavailable");
    assert!(reply.headers.contains_key("retry-after"));
    // Nodes take the write and fall silent: it may have happened.
    for node in 1..=3 {
        world.fault(node, Fault::Silent);
    }
    let headers = [("idempotency-key", "keep-me")];
    let body = json!({"memories": [{"content": "two"}]}).to_string().into_bytes();
    let started = Instant::now();
    let reply = api.send("POST", "/v1/users/ann/memories", &headers, body.clone()).await;
    let (_, detail) = reply.problem("unknown_outcome");
    assert!(detail.contains("Idempotency-Key"), "{detail}");
    assert_eq!(reply.header("idempotency-key"), "keep-me");
    assert!(started.elapsed() < Duration::from_secs(4), "the deadline holds");
    for node in 1..=3 {
        world.fault(node, Fault::None);
    }
    api.send("POST", "/v1/users/ann/memories", &headers, body).await.ok(201);
}

#[tokio::test]
async fn an_open_part_leaves_the_whole_write_open() {
    let change = |config: &mut holdfast_router::RouterConfig| {
        config.attempt_timeout = Duration::from_millis(200);
        config.write_timeout = Duration::from_millis(1200);
    };
    for fault in [Fault::OneWrite, Fault::OneWriteThenCutOff] {
        let world = World::with(Options { change, ..Options::default() }).await;
        let api = world.api();
        world.is_ready().await;
        let memories: Vec<Value> = (0..250).map(|n| json!({"content": format!("memory {n}")})).collect();
        let body = json!({"memories": memories, "partial": true}).to_string().into_bytes();
        let key = [("idempotency-key", "three-parts")];
        let send = async || api.send("POST", "/v1/users/ann/memories", &key, body.clone()).await;

        world.fault(1, fault);
        let reply = send().await;
        let (_, detail) = reply.problem("unknown_outcome");
        assert!(detail.contains("memories[100] to memories[199]"), "{detail}");
        assert!(detail.contains("the same Idempotency-Key"), "{detail}");
        assert_eq!(reply.header("idempotency-key"), "three-parts");

        // Nothing at all can be reached: this attempt did nothing, and says so.
        world.fault(1, Fault::CutOff);
        send().await.problem("unavailable");

        world.fault(1, Fault::None);
        let added = send().await.ok(201);
        let results = added["results"].as_array().unwrap();
        assert_eq!(results.len(), 250);
        assert!(results.iter().all(|result| result["status"] == "created"), "{added}");
        let list = api.get("/v1/users/ann/memories?limit=1000").await.ok(200);
        let listed = list["memories"].as_array().unwrap();
        assert_eq!(listed.len(), 250);
        for (memory, result) in listed.iter().zip(results) {
            assert_eq!((&memory["id"], &memory["count"]), (&result["id"], &json!(1)));
        }
    }
}

#[tokio::test]
async fn readiness_follows_the_leaders() {
    let world = World::start().await;
    world.is_ready().await;
    let body = world.api().get("/readyz").await.ok(200);
    assert_eq!((&body["nodes"], &body["groups"]), (&json!(3), &json!(5)));
    // One group alone does not take the routers out of service.
    (1..=3).for_each(|node| world.fault(node, Fault::MetaLost));
    for attempt in 0.. {
        let body = world.api().get("/readyz").await.ok(200);
        if body["groups_without_leader"] == json!([0]) {
            assert_eq!(body["status"], "degraded");
            break;
        }
        assert!(attempt < 1_500, "the loss of one leader goes unnoticed: {body}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (1..=3).for_each(|node| world.fault(node, Fault::None));
    world.fault(1, Fault::Dead);
    for attempt in 0.. {
        let reply = world.api().get("/readyz").await;
        if reply.status == 503 {
            assert_eq!(reply.body["groups_without_leader"], json!([0, 1, 2, 3, 4]));
            break;
        }
        assert!(attempt < 1_500, "the loss of the leader goes unnoticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.api().get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_leader_that_was_cut_off_is_left() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "one"}])).await.ok(201);
    world.fault(1, Fault::CutOff);
    world.cluster.leader.store(3, Ordering::SeqCst);
    let started = Instant::now();
    api.add(json!([{"content": "two"}])).await.ok(201);
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_slow_node_gets_its_time() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "one"}])).await.ok(201);
    // One attempt may take 500 ms at first, one answer takes 700.
    world.fault(1, Fault::Slow);
    api.recall(json!({"query": "one", "deadline_ms": 3000})).await.ok(200);
    api.recall(json!({"query": "one", "deadline_ms": 300})).await.problem("deadline_exceeded");
}

#[tokio::test]
async fn a_stop_answers_what_is_open_before_it_cuts_connections() {
    let change = |config: &mut holdfast_router::RouterConfig| {
        // Longer than the grace time, as an operator may set it.
        config.write_timeout = Duration::from_secs(60);
        config.shutdown_grace = Duration::from_secs(2);
    };
    let world = World::with(Options { change, ..Options::default() }).await;
    world.is_ready().await;
    let api = world.api();
    // The key is known from now on: what is open below is the write itself.
    api.add(json!([{"content": "before"}])).await.ok(201);
    for node in 1..=3 {
        world.fault(node, Fault::Silent);
    }
    let open = tokio::spawn(async move { api.add(json!([{"content": "open at the stop"}])).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let started = Instant::now();
    world.stop_router.cancel();
    let reply = tokio::time::timeout(Duration::from_secs(30), open).await.unwrap().unwrap();
    let (_, detail) = reply.problem("unknown_outcome");
    assert!(detail.contains("Idempotency-Key"), "{detail}");
    assert!(started.elapsed() < Duration::from_secs(30), "the write's own deadline is 60 s");
}
