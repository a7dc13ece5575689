//! What a recall understands and explains, through a real process and the real index.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use reqwest::StatusCode;
use serde_json::{Value, json};

async fn add(api: &Api, user: &str, memories: Value) {
    api.ok(&format!("/v1/users/{user}/memories"), &json!({ "memories": memories })).await;
}

async fn why_not(api: &Api, user: &str, body: Value) -> Value {
    api.ok(&format!("/v1/users/{user}/recall:why-not"), &body).await
}

/// Memories of `ann` of which each has another fate, and one of `bob`.
async fn fates(api: &Api) {
    let long = "一段很长的话。".repeat(400);
    add(
        api,
        "ann",
        json!([
            {"id": "tea", "content": "Ann drinks green tea every morning"},
            {"id": "茶", "content": "小明每天早上喝绿茶", "kind": "episodic"},
            {"id": "run", "content": "a run in the park", "importance": 0.1},
            {"id": "gone", "content": "what is to be deleted"},
            {"id": "brief", "content": "tea for a moment", "expires_at": "2020-01-01T00:00:00Z"},
            {"id": "long", "content": long},
        ]),
    )
    .await;
    for (id, content, time) in [
        ("berlin", "I live in Berlin", "2024-01-01T00:00:00Z"),
        ("paris", "I moved to Paris", "2025-01-01T00:00:00Z"),
        ("left", "Rover favours left turns", "2024-01-01T00:00:00Z"),
        ("right", "Rover favours right turns", "2025-01-01T00:00:00Z"),
    ] {
        add(api, "ann", json!([{"id": id, "content": content, "event_time": time}])).await;
    }
    assert!(api.delete("/v1/users/ann/memories/gone").await.0.is_success());
    // The same id elsewhere is of no matter here.
    add(api, "bob", json!([{"id": "secret", "content": "green tea"}])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_told_why_a_memory_is_not_returned() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    fates(&api).await;
    for (body, verdict) in [
        (json!({"query": "green tea", "id": "tea"}), "returned"),
        (json!({"query": "绿茶", "id": "茶"}), "returned"),
        (json!({"query": "green tea", "id": "run", "top_k": 1}), "below_top_k"),
        (json!({"query": "green tea", "id": "run", "min_score": 0.9}), "below_min_score"),
        (json!({"query": "green tea", "id": "茶", "kinds": ["semantic"]}), "filtered"),
        (json!({"query": "green tea", "id": "gone"}), "deleted"),
        (json!({"query": "green tea", "id": "never"}), "unknown"),
        (json!({"query": "green tea", "id": "secret"}), "unknown"),
        (json!({"query": "一段话", "id": "long"}), "chunked"),
        (json!({"query": "where do I live?", "id": "berlin"}), "superseded"),
        (json!({"query": "where do I live?", "id": "berlin", "include_deprecated": true}), "returned"),
        (json!({"query": "Rover turns", "id": "left"}), "hidden_by_newer"),
        (
            json!({"query": "where do I live?", "id": "paris", "as_of": {"valid": "2024-06-01T00:00:00Z"}}),
            "not_then",
        ),
    ] {
        let told = why_not(&api, "ann", body.clone()).await;
        assert_eq!(told["verdict"], verdict, "{body}: {told}");
        assert!(told["detail"].as_str().unwrap().len() > 10, "{told}");
        // It agrees with the recall.
        let mut recall = body.clone();
        recall.as_object_mut().unwrap().remove("id");
        let found = api.ok("/v1/users/ann/recall", &recall).await;
        let found = found["results"].as_array().unwrap();
        let place = found.iter().position(|hit| hit["memory"]["id"] == body["id"]);
        assert_eq!(place.map(|at| at as u64 + 1), told["place"].as_u64(), "{body}: {told}");
        assert_eq!(found.len() as u64, told["results"].as_u64().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_the_way_is_named() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    fates(&api).await;
    let brief = why_not(&api, "ann", json!({"query": "tea", "id": "brief"})).await;
    assert!(brief["verdict"] == "expired" || brief["verdict"] == "deleted", "swept or not yet: {brief}");

    let told = why_not(&api, "ann", json!({"query": "Rover turns", "id": "left"})).await;
    assert_eq!(told["by"], json!(["right"]));
    let told = why_not(&api, "ann", json!({"query": "where do I live?", "id": "berlin"})).await;
    assert_eq!(told["by"], json!(["paris"]));
    let told = why_not(&api, "ann", json!({"query": "茶", "id": "茶", "filter": {"kind": "semantic"}})).await;
    assert_eq!(
        told["unmet"],
        json!([{"condition": "{\"kind\":{\"$eq\":\"semantic\"}}", "found": "\"episodic\""}])
    );
    let told = why_not(&api, "ann", json!({"query": "green tea", "id": "run", "top_k": 1})).await;
    assert!(
        told["rank"].as_u64().unwrap() > 1 && told["of"].as_u64().unwrap() >= told["rank"].as_u64().unwrap()
    );
    assert!(told["score"].as_f64() < told["last"]["score"].as_f64(), "{told}");
    assert_eq!(told["ranks"], json!({"cosine": null, "keyword": null}));
    assert_eq!(told["last"]["id"], "tea");

    for (body, field) in [
        (json!({"query": "x"}), "id"),
        (json!({"query": "x", "id": ""}), "id"),
        (json!({"id": "tea"}), "query"),
        (json!({"query": "x", "id": "tea", "user": "bob"}), "user"),
    ] {
        let (status, problem) = api.post("/v1/users/ann/recall:why-not", &body).await;
        assert_eq!((status, &problem["field"]), (StatusCode::BAD_REQUEST, &json!(field)), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explained_recall_has_ranks_of_each_source() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    add(
        &api,
        "ann",
        json!([
            {"id": "a", "content": "我喜欢喝绿茶", "embedding": [1, 0]},
            {"id": "b", "content": "天气很好", "embedding": [0.6, 0.8]},
            {"id": "c", "content": "喝咖啡", "embedding": [0, 1]},
        ]),
    )
    .await;
    let body = json!({"query": "喝绿茶", "embedding": [0, 1], "explain": true});
    let found = api.ok("/v1/users/ann/recall", &body).await;
    let ranks = |id: &str| {
        let hits = found["results"].as_array().unwrap();
        hits.iter().find(|hit| hit["memory"]["id"] == id).unwrap()["ranks"].clone()
    };
    assert_eq!(ranks("a"), json!({"cosine": 3, "keyword": 1}));
    assert_eq!(ranks("b"), json!({"cosine": 2, "keyword": null}));
    assert_eq!(ranks("c"), json!({"cosine": 1, "keyword": null}));
    let plain = api.ok("/v1/users/ann/recall", &json!({"query": "喝绿茶"})).await;
    assert!(plain["results"][0].get("ranks").is_none());
}
