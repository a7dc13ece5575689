//! Recall through the whole path.

use crate::common::{Letters, Options, World};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

fn ids(body: &Value) -> Vec<&str> {
    body["results"].as_array().unwrap().iter().map(|hit| hit["memory"]["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_answer_has_its_documented_shape() {
    let world = World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await;
    let api = world.api();
    api.add(json!([
        {"id": "tea", "content": "Ann drinks tea", "kind": "semantic"},
        {"id": "run", "content": "a run in the park", "kind": "episodic"}
    ]))
    .await
    .ok(201);
    let body = api.recall(json!({"query": "tea", "top_k": 1, "explain": true})).await.ok(200);
    assert_eq!(ids(&body), ["tea"]);
    let hit = &body["results"][0];
    assert_eq!(hit["space"], "user:ann");
    assert_eq!(hit["memory"]["content"], "Ann drinks tea");
    assert_eq!(hit["memory"]["embedding_model"], "letters-for-tests");
    for part in ["relevance", "cosine", "keyword", "recency", "importance", "frequency", "boost"] {
        assert!(hit["parts"][part].is_number(), "{part}");
    }
    assert_eq!(hit["why"], json!(["1 words in common"]));
    for (field, value) in [
        ("exact", json!(true)),
        ("bound_met", json!(true)),
        ("index", json!("exact")),
        ("scored", json!(2)),
        ("partial", json!(false)),
        ("missing", json!([])),
    ] {
        assert_eq!(body[field], value, "{field}");
    }
    for time in ["embed", "search", "merge", "total"] {
        assert!(body["took_us"][time].is_u64(), "{time}");
    }
    assert!(body["took_us"]["total"].as_u64() >= body["took_us"]["search"].as_u64());
    assert!(body["recall_id"].is_string() && body["token"].is_string());
    let plain = api.recall(json!({"query": "tea"})).await.ok(200);
    assert!(plain["results"][0].get("why").is_none());
    assert_eq!(ids(&api.recall(json!({"query": "tea", "kinds": ["episodic"]})).await.ok(200)), ["run"]);
    let filter = json!({"query": "tea", "filter": {"not": {"kind": "episodic"}}, "min_score": 0.1});
    assert_eq!(ids(&api.recall(filter).await.ok(200)), ["tea"]);
}

#[tokio::test]
async fn without_a_model_words_are_enough() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "我不吃辣"}, {"id": "b", "content": "weather is fine"}]))
        .await
        .ok(201);
    let body = api.recall(json!({"query": "今天不吃辣"})).await.ok(200);
    assert_eq!(ids(&body)[0], "a");
    assert_eq!(body["results"][0]["parts"]["cosine"], Value::Null);
    let (field, _) =
        api.recall(json!({"query": "q", "relevance": "vector"})).await.problem("invalid_argument");
    assert_eq!(field, "relevance");
    let ready = api.get("/readyz").await;
    assert!(ready.body["embedder"].as_str().unwrap().starts_with("absent"), "{}", ready.body);
}

#[tokio::test]
async fn vectors_of_the_caller_work_in_both_forms() {
    let world = World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await;
    let api = world.api();
    let bytes: Vec<u8> = [0f32, 2.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    api.add(json!([
        {"id": "x", "content": "one", "embedding": [3, 0, 0]},
        {"id": "y", "content": "two", "embedding": STANDARD.encode(&bytes)}
    ]))
    .await
    .ok(201);
    let body = api.recall(json!({"embedding": STANDARD.encode(&bytes)})).await.ok(200);
    assert_eq!(ids(&body)[0], "y");
    assert!((body["results"][0]["parts"]["cosine"].as_f64().unwrap() - 1.0).abs() < 1e-3);
    assert_eq!(body["results"][0]["memory"]["embedding_model"], "client");
    let (field, _) = api.recall(json!({"embedding": [1, 0]})).await.problem("invalid_argument");
    assert_eq!(field, "embedding");
    let (field, _) =
        api.add(json!([{"content": "z", "embedding": [1, 0]}])).await.problem("invalid_argument");
    assert!(field.contains("embedding"), "{field}");
}

#[tokio::test]
async fn a_token_is_honoured_wherever_it_stands() {
    let world = World::start().await;
    let api = world.api();
    let token =
        api.add(json!([{"id": "a", "content": "x"}])).await.ok(201)["token"].as_str().unwrap().to_owned();
    let header = [("holdfast-token", token.as_str())];
    api.recall(json!({"query": "x", "token": token})).await.ok(200);
    let body = json!({"query": "x", "consistency": "linearizable"}).to_string().into_bytes();
    api.send("POST", "/v1/users/ann/recall", &header, body).await.ok(200);
    let reply = api.send("GET", "/v1/users/ann/memories/a?consistency=linearizable", &header, vec![]).await;
    assert!(!reply.header("holdfast-token").is_empty());
    reply.ok(200);
    api.send("GET", "/v1/users/ann/memories/a", &[("holdfast-token", "x")], vec![])
        .await
        .problem("invalid_argument");
}
