//! A node that stands still: nothing says that it is gone before the others elect new leaders.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Api;
use common::cluster::Cluster;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MEMORIES: usize = 120;

/// A recall with so little time that a round of questions to a node that stands still would take its share of it, before
/// another node leads (1.25 to 1.5 seconds).
async fn recall(api: &Api) -> Value {
    let body = json!({"query": "bicycle", "top_k": 1000, "deadline_ms": 2_000});
    api.ok("/v1/collections/kb/recall", &body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stands_still_makes_no_recall_of_a_collection_short() {
    let cluster = Cluster::start(8);
    let (api, admin) = (cluster.api(), cluster.admin_api());
    let put = api.request(Method::PUT, "/v1/collections/kb").json(&json!({"partitions": 8}));
    assert_eq!(api.send(put).await.unwrap().0, StatusCode::CREATED);
    let memory = |n: usize| json!({"id": format!("m{n}"), "content": format!("bicycle {n} 自行车"), "session": format!("s{n}")});
    for from in (0..MEMORIES).step_by(40) {
        let memories: Vec<Value> = (from..from + 40).map(memory).collect();
        api.ok("/v1/collections/kb/memories", &json!({"memories": memories, "infer": "none"})).await;
    }
    // The router learns how long recalls take and how far the shards are; each round asks eight partitions.
    for _ in 0..30 {
        assert_eq!(recall(&api).await["results"].as_array().unwrap().len(), MEMORIES);
    }
    // Followers hear what is committed with the next heartbeat.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(recall(&api).await["partial"], false);
    let (_, nodes) = admin.get("/admin/v1/nodes").await;
    let leads =
        |node: &Value| node["leads"].as_array().unwrap().iter().filter(|group| **group != json!(0)).count();
    let most = nodes["nodes"].as_array().unwrap().iter().max_by_key(|node| leads(node)).unwrap();
    assert!(leads(most) >= 3, "{nodes}");
    let index = usize::try_from(most["id"].as_u64().unwrap()).unwrap() - 1;
    let node = cluster.nodes[index].as_ref().unwrap();
    node.signal("-STOP");
    let paused = Instant::now();
    let mut recalls = 0;
    while paused.elapsed() < Duration::from_millis(1_200) {
        let found = recall(&api).await;
        assert_eq!(
            (&found["partial"], &found["missing"]),
            (&json!(false), &json!([])),
            "after {:?}",
            paused.elapsed()
        );
        assert_eq!(found["results"].as_array().unwrap().len(), MEMORIES);
        recalls += 1;
    }
    let (_, metrics) = admin.get("/metrics").await;
    let by_replicas = "holdfast_router_reads_total{consistency=\"session\",outcome=\"replica\"}";
    let line = metrics.as_str().unwrap_or_default().lines().find(|line| line.starts_with(by_replicas));
    println!("{recalls} recalls while a node stood still; {line:?}");
    assert!(line.is_some_and(|line| !line.ends_with(" 0")), "followers have answered");
    node.signal("-CONT");
    assert_eq!(recall(&api).await["results"].as_array().unwrap().len(), MEMORIES);
}
