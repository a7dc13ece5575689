//! Shared collections over real nodes: how a set is cut changes no score.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MEMORIES: usize = 400;
const SPEAKERS: [&str; 4] = ["Ann", "Bob Jones", "小明", "user"];
const TEXTS: [&str; 8] = [
    "I adopted a red bicycle",
    "What color is the bicycle?",
    "The bicycle is red, and so is the lake at sunrise",
    "我喜欢红色的自行车",
    "你喜欢什么颜色？",
    "Order CN-A10293 shipped to 北京",
    "did you paint the sunrise?",
    "🙂 nothing much",
];

async fn put(api: &Api, name: &str, partitions: u64) {
    let path = format!("/v1/collections/{name}");
    let body = json!({"partitions": partitions, "embedding_model": "client", "dims": 4});
    let (status, answer) = api.send(api.request(Method::PUT, &path).json(&body)).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{answer}");
}

/// Half of them turns of sessions, the others alone; some without a vector.
fn memory(n: usize) -> Value {
    let who = SPEAKERS[n % SPEAKERS.len()];
    let mut memory = json!({
        "id": format!("m{n}"),
        "content": format!("{} ({n})", TEXTS[(n * 7 + n / 5) % TEXTS.len()]),
        "role": if n.is_multiple_of(2) { "user" } else { "assistant" },
        "speaker": who,
        "importance": (n % 11) as f64 / 10.0,
        "event_time": format!("2026-{:02}-{:02}T12:{:02}:00Z", 1 + n % 9, 1 + n % 28, n % 60),
    });
    if n.is_multiple_of(2) {
        memory["session"] = json!(format!("session {}", n / 2 % 23));
    }
    if !n.is_multiple_of(7) {
        let angle = n as f64;
        memory["embedding"] = json!([angle.sin(), angle.cos(), (angle * 0.3).sin(), 0.2]);
    }
    memory
}

/// Each memory with its score.
async fn scores(api: &Api, name: &str, query: &Value) -> BTreeMap<String, f64> {
    let answer = api.ok(&format!("/v1/collections/{name}/recall"), query).await;
    assert_eq!((&answer["partial"], &answer["exact"]), (&json!(false), &json!(true)), "{answer}");
    assert_eq!(answer["scored"], MEMORIES, "{answer}");
    let results = answer["results"].as_array().unwrap();
    let order: Vec<f64> = results.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(order.windows(2).all(|pair| pair[0] >= pair[1]), "best first: {order:?}");
    let ids = results.iter().map(|hit| hit["memory"]["id"].as_str().unwrap().to_owned());
    ids.zip(order).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_answers_the_same_however_it_is_cut() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    let cuts = [("whole", 1), ("halves", 2), ("八份", 8)];
    for (name, partitions) in cuts {
        put(&api, name, partitions).await;
        for from in (0..MEMORIES).step_by(100) {
            let memories: Vec<Value> = (from..from + 100).map(memory).collect();
            let body = json!({"memories": memories, "infer": "none"});
            let answer = api.ok(&format!("/v1/collections/{name}/memories"), &body).await;
            let created = answer["results"].as_array().unwrap().iter();
            assert!(created.clone().all(|item| item["status"] == "created"), "{answer}");
        }
    }
    let vector = json!([0.4, 0.5, -0.2, 0.1]);
    let mut queries = Vec::new();
    for text in [
        "What color is the red bicycle?",
        "Does Bob Jones tell me about the sunrise",
        "what do I like",
        "小明喜欢什么颜色",
        "CN-A10293",
        "Ann and 小明",
    ] {
        for relevance in ["fused", "keyword"] {
            queries.push(json!({"query": text, "relevance": relevance}));
        }
        queries.push(json!({"query": text, "embedding": vector}));
        queries.push(
            json!({"query": text, "embedding": vector, "profile": "relevance", "filter": {"role": "user"}}),
        );
    }
    queries.push(json!({"embedding": vector, "relevance": "vector"}));
    for mut query in queries {
        query["top_k"] = json!(1_000);
        query["situation"] = json!({"now": "2026-12-01T00:00:00Z"});
        let want = scores(&api, cuts[0].0, &query).await;
        assert!(!want.is_empty());
        for (name, _) in &cuts[1..] {
            let got = scores(&api, name, &query).await;
            assert_eq!(got.len(), want.len(), "{name}: {query}");
            for (id, score) in &want {
                let close = got.get(id).is_some_and(|other| (other - score).abs() < 1e-6);
                assert!(close, "{name}: {query}: {id} has {:?} and not {score}", got.get(id));
            }
        }
    }
    // What was stored in many partitions survives a crash in all of them.
    server.kill();
    let server = Server::start(data.path(), Model::Absent);
    let again = scores(&server.api(), "八份", &json!({"query": "red bicycle", "top_k": 1_000})).await;
    assert_eq!(again.len(), MEMORIES);
}
