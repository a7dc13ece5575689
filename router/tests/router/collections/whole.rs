//! What a user's space offers, of a collection as a whole.

use super::*;

fn memories(count: usize) -> Value {
    let one = |n: usize| {
        let content = format!("tea {}", "leaf ".repeat(n + 1));
        json!({"id": format!("m{n}"), "content": content, "session": format!("s{n}")})
    };
    json!((0..count).map(one).collect::<Vec<_>>())
}

#[tokio::test]
async fn numbers_of_all_partitions_are_added_up() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    let stats = async || api.get("/v1/collections/kb/stats").await.ok(200);
    let empty = stats().await;
    assert_eq!((&empty["space"], &empty["memories"]), (&json!("shared:kb"), &json!(0)));
    assert!(empty["created_at"].is_null() && empty["embedding_models"] == json!([]));
    add(&api, "kb", memories(40)).await;
    api.delete("/v1/collections/kb/memories/m0").await.ok(200);
    let told = stats().await;
    assert_eq!((&told["memories"], &told["tombstones"]), (&json!(39), &json!(1)));
    assert_eq!(told["embedding_models"], json!([{"id": "letters-for-tests", "dims": 26}]), "each once");
    assert!(
        told["created_at"].is_string() && told["bytes"].as_u64().unwrap() > 39 && told["erasing"] == false
    );
    let token = told["token"].as_str().unwrap();
    api.get(&format!("/v1/collections/kb/stats?token={token}&consistency=linearizable")).await.ok(200);
    api.get("/v1/collections/none/stats").await.problem("not_found");
    let writer = api.with_key(&grant(&world, TENANT, None, Rights::WRITE));
    writer.get("/v1/collections/kb/stats").await.problem("permission_denied");
}

#[tokio::test]
async fn feedback_finds_its_memories() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    add(&api, "kb", memories(30)).await;
    let mut items: Vec<Value> = (0..30)
        .map(|n| json!({"id": format!("m{n}"), "outcome": if n % 2 == 0 { "adopted" } else { "useless" }}))
        .collect();
    items.insert(7, json!({"id": "没有", "outcome": "harmful"}));
    items.push(json!({"id": "m0", "outcome": "adopted"}));
    let body = json!({"items": items}).to_string().into_bytes();
    let key = [("idempotency-key", "f-1")];
    let path = "/v1/collections/kb/feedback";
    for _ in 0..2 {
        let told = api.send("POST", path, &key, body.clone()).await.ok(200);
        let results = told["results"].as_array().unwrap();
        assert_eq!(results.len(), 32);
        for (item, result) in items.iter().zip(results) {
            assert_eq!(result["id"], item["id"], "in the order of the request");
            let is_there = item["id"] != "没有";
            assert_eq!(result["status"], if is_there { "recorded" } else { "rejected" });
            assert_eq!(result["code"], if is_there { Value::Null } else { json!("not_found") });
        }
        for (id, count) in [("m0", 2), ("m1", 0), ("m2", 1)] {
            let memory = api.get(&format!("/v1/collections/kb/memories/{id}")).await.ok(200);
            assert_eq!(memory["access_count"], count, "{id}: once for each request");
        }
    }
    let other = json!({"items": [{"id": "m3", "outcome": "adopted"}]}).to_string().into_bytes();
    assert_eq!(api.send("POST", path, &key, other).await.problem("conflict").0, "Idempotency-Key");
    for (body, field) in [
        (json!({"items": []}), "items"),
        (json!({"items": [{"id": "", "outcome": "adopted"}]}), "items[0].id"),
        (json!({"items": [["m0", "adopted"]]}), "items[0]"),
        (json!({"items": {"id": "m0", "outcome": "adopted"}}), "items"),
        (json!([[{"id": "m0", "outcome": "adopted"}]]), ""),
    ] {
        assert_eq!(api.post(path, body.clone()).await.problem("invalid_argument").0, field, "{body}");
    }
    // A user of the tenant reads what is shared, and judges nothing of it.
    let user = api.with_key(&grant(&world, TENANT, Some("ann"), Rights::ALL));
    user.post(path, json!({"items": [{"id": "m3", "outcome": "adopted"}]}))
        .await
        .problem("permission_denied");
}

#[tokio::test]
async fn it_is_told_why_a_memory_of_a_collection_is_not_among_the_results() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let memories: Vec<Value> = (0..24)
        .map(|n| {
            let words = ["tea", "tea pot", "tea pot lid"][n % 3];
            json!({"id": format!("m{n}"), "content": format!("{words} {n}"), "session": format!("s{n}")})
        })
        .collect();
    add(&api, "kb", json!(memories)).await;
    api.add(json!([{"id": "own", "content": "my tea"}])).await.ok(201);
    let path = "/v1/collections/kb/recall:why-not";
    let query = "tea pot lid";
    let all = api.post("/v1/collections/kb/recall", json!({"query": query, "top_k": 100})).await.ok(200);
    let results = all["results"].as_array().unwrap();
    assert_eq!(results.len(), 24);
    for hit in results {
        let id = &hit["memory"]["id"];
        let told = api.post(path, json!({"query": query, "id": id, "top_k": 1})).await.ok(200);
        let above = results.iter().filter(|other| other["score"].as_f64() > hit["score"].as_f64()).count();
        assert_eq!((&told["rank"], &told["of"]), (&json!(above + 1), &json!(24)), "{told}");
        assert_eq!(told["score"], hit["score"]);
        let is_first = told["last"]["id"] == *id;
        assert_eq!(told["verdict"], if is_first { "returned" } else { "below_top_k" }, "{told}");
    }
    api.delete("/v1/collections/kb/memories/m3").await.ok(200);
    for (id, verdict) in [("m3", "deleted"), ("never", "unknown"), ("own", "unknown")] {
        let told = api.post(path, json!({"query": query, "id": id})).await.ok(200);
        assert_eq!(told["verdict"], verdict, "{told}");
        assert_eq!(told["at"].is_string(), verdict == "deleted");
    }
    // Of a recall over a user's space and a collection.
    let of_user = "/v1/users/ann/recall:why-not";
    for (id, found) in [("own", "returned"), ("m4", "returned"), ("m3", "deleted")] {
        let body = json!({"query": "tea", "id": id, "collections": ["kb"], "top_k": 100});
        assert_eq!(api.post(of_user, body).await.ok(200)["verdict"], found, "{id}");
    }
    let body = json!({"query": "tea", "id": "m4"});
    assert_eq!(api.post(of_user, body).await.ok(200)["verdict"], "unknown", "it is not asked for");
    api.post("/v1/collections/none/recall:why-not", json!({"query": "x", "id": "a"}))
        .await
        .problem("not_found");
}

/// Whoever does not answer may be the one that holds it.
#[tokio::test]
async fn it_is_not_called_unknown_while_a_shard_is_silent() {
    use std::sync::atomic::Ordering;
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    add(&api, "kb", memories(8)).await;
    let down = world.cluster.owner(&world.cluster.shared("kb", 3)).0;
    world.cluster.refusing_shard.store(down, Ordering::SeqCst);
    let body = json!({"query": "tea", "id": "m1", "deadline_ms": 1500});
    let reply = api.post("/v1/collections/kb/recall:why-not", body).await;
    assert!(matches!(reply.status, 503 | 504), "{}", reply.body);
}
