//! Shared collections through the public interface.

mod agreed;
mod ending;
mod placing;
mod recall;
mod settings;
mod transfer;
mod whole;

use crate::access::grant;
use crate::common::{Api, Letters, Options, TENANT, World};
use holdfast_core::access::Rights;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

async fn world() -> World {
    World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await
}

async fn put(api: &Api, name: &str, partitions: u64) {
    let reply = api.put(&format!("/v1/collections/{name}"), json!({"partitions": partitions})).await;
    assert!(matches!(reply.status, 200 | 201), "{}", reply.body);
}

async fn add(api: &Api, name: &str, memories: Value) -> Value {
    api.post(&format!("/v1/collections/{name}/memories"), json!({"memories": memories, "infer": "none"}))
        .await
        .ok(201)
}

fn ids(body: &Value) -> BTreeSet<String> {
    let results = body["results"].as_array().unwrap().iter();
    results.map(|hit| hit["memory"]["id"].as_str().unwrap().to_owned()).collect()
}

/// All ids of a collection, page by page.
async fn list(api: &Api, name: &str, limit: u32) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    for _ in 0..1_000 {
        let page = api.get(&format!("/v1/collections/{name}/memories?limit={limit}{cursor}")).await.ok(200);
        let memories = page["memories"].as_array().unwrap();
        assert!(memories.len() <= limit as usize);
        ids.extend(memories.iter().map(|memory| memory["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
    panic!("the list does not end");
}

/// Where a memory lies, and in which session.
fn places(world: &World, name: &str, partitions: u8) -> BTreeMap<String, u8> {
    let mut places = BTreeMap::new();
    for partition in 0..partitions {
        let space = world.cluster.shared(name, partition);
        for id in world.cluster.memories(&space) {
            assert!(places.insert(id.clone(), partition).is_none(), "{id} lies in one partition");
        }
    }
    places
}

#[tokio::test]
async fn a_collection_has_a_shape_for_life() {
    let world = world().await;
    let api = world.api();
    let path = "/v1/collections/%E4%BA%A7%E5%93%81";
    let (field, detail) = api.get(path).await.problem("not_found");
    assert_eq!(field, "collection");
    assert!(detail.contains("PUT /v1/collections"), "{detail}");
    for (method, below) in [("GET", "/memories"), ("GET", "/memories/x"), ("DELETE", ""), ("GET", "/facts")] {
        let reply = api.send(method, &format!("{path}{below}"), &[], vec![]).await;
        assert!(reply.problem("not_found").1.contains("PUT"), "{below}");
    }
    let created = api.put(path, json!({"partitions": 8})).await.ok(201);
    assert_eq!((&created["name"], &created["partitions"]), (&json!("产品"), &json!(8)));
    assert_eq!(created["embedding_model"], "letters-for-tests");
    assert!(created["created_at"].is_string());
    assert_eq!(api.put(path, json!({"partitions": 8})).await.ok(200), created);
    assert_eq!(api.put(path, json!({})).await.ok(200), created, "what is left out stays");
    assert_eq!(api.send("PUT", path, &[], vec![]).await.ok(200), created);
    assert_eq!(api.get(path).await.ok(200), created);
    let (field, detail) = api.put(path, json!({"partitions": 9})).await.problem("conflict");
    assert_eq!(field, "partitions");
    assert!(detail.contains("8 partitions"), "{detail}");
    let other = json!({"embedding_model": "m", "dims": 3});
    assert_eq!(api.put(path, other).await.problem("conflict").0, "embedding_model");
    put(&api, "b", 1).await;
    let all = api.get("/v1/collections").await.ok(200);
    let names: Vec<&Value> = all["collections"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["b", "产品"]);
    for (name, body, field) in [
        ("c", json!({"partitions": 0}), "partitions"),
        ("c", json!({"partitions": 65}), "partitions"),
        ("c", json!({"partitions": 1e3}), "partitions"),
        ("c", json!({"partitions": 300}), "partitions"),
        ("c", json!({"partitions": -1}), "partitions"),
        ("c", json!({"partitions": "many"}), "partitions"),
        ("c", json!({"embedding_model": "", "dims": 3}), "embedding_model"),
        ("c", json!({"embedding_model": "m"}), "dims"),
        ("c", json!({"embedding_model": "m", "dims": 0}), "dims"),
        ("c", json!({"embedding_model": "m", "dims": 70_000}), "dims"),
        ("c", json!({"dims": 3}), "dims"),
        ("c", json!({"embedding_model": "letters-for-tests", "dims": 3}), "dims"),
        ("c", json!({"index": "IVF"}), "index"),
        ("c", json!({"index": 1}), "index"),
        ("c", json!({"index": {"kind": "ivf"}}), "index"),
        ("c", json!({"retention": 1}), "retention"),
        ("c", json!({"retention": "30d"}), "retention"),
        ("c", json!({"retention": [1]}), "retention"),
        ("c", json!({"retention": {}}), "retention.ttl_s"),
        ("c", json!({"retention": {"ttl_s": 0}}), "retention.ttl_s"),
        ("c", json!({"retention": {"ttl_s": -1}}), "retention.ttl_s"),
        ("c", json!({"retention": {"ttl_s": 1e300}}), "retention.ttl_s"),
        ("c", json!({"retention": {"ttl_s": 3_153_600_001_u64}}), "retention.ttl_s"),
        ("c", json!({"retention": {"ttl_s": 9, "days": 1}}), "retention.days"),
        ("c", json!({"shards": 1}), "shards"),
        ("a%00b", json!({}), "collection"),
        ("a%0Ab", json!({}), "collection"),
        (&"x".repeat(257), json!({}), "collection"),
    ] {
        let reply = api.put(&format!("/v1/collections/{name}"), body.clone()).await;
        assert_eq!(reply.problem("invalid_argument").0, field, "{name} {body}");
    }
    assert_eq!(api.get("/v1/collections").await.ok(200), all, "what is refused leaves nothing");
}

#[tokio::test]
async fn nobody_reaches_across_a_wall() {
    let world = world().await;
    let owner = world.api();
    put(&owner, "kb", 4).await;
    add(&owner, "kb", json!([{"id": "secret", "content": "the vault code is blue"}])).await;
    let as_key =
        |tenant: &str, user: Option<&str>, rights| owner.with_key(&grant(&world, tenant, user, rights));

    // Another tenant has no such collection, and its own of the same name is another one.
    for tenant in ["acme-corp", "acm", "other"] {
        let other = as_key(tenant, None, Rights::ALL);
        for path in ["", "/memories", "/memories/secret", "/memories/secret/history"] {
            other.get(&format!("/v1/collections/kb{path}")).await.problem("not_found");
        }
        other.recall(json!({"query": "vault", "collections": ["kb"]})).await.problem("not_found");
        other.delete("/v1/collections/kb").await.problem("not_found");
        put(&other, "kb", 2).await;
        assert!(list(&other, "kb", 10).await.is_empty());
        let found = other.recall(json!({"query": "vault", "collections": ["kb"]})).await.ok(200);
        assert!(ids(&found).is_empty(), "{found}");
        other.get("/v1/collections/kb/memories/secret").await.problem("not_found");
        other.delete("/v1/collections/kb/memories/secret").await.problem("not_found");
        other.delete("/v1/collections/kb").await.ok(202);
    }
    assert_eq!(list(&owner, "kb", 10).await, ["secret"]);

    // A user of the tenant reads what is shared, and changes nothing of it.
    let user = as_key(TENANT, Some("ann"), Rights::ALL);
    let found = user.post("/v1/me/recall", json!({"query": "vault", "collections": ["kb"]})).await.ok(200);
    assert_eq!(found["results"][0]["space"], "shared:kb");
    assert_eq!(
        ids(&user.post("/v1/collections/kb/recall", json!({"query": "vault"})).await.ok(200)).len(),
        1
    );
    user.get("/v1/collections/kb").await.ok(200);
    user.get("/v1/collections/kb/memories/secret").await.ok(200);
    user.post("/v1/users/bob/recall", json!({"query": "vault", "collections": ["kb"]}))
        .await
        .problem("permission_denied");
    let reader = as_key(TENANT, None, Rights::READ);
    reader.get("/v1/collections/kb/memories/secret").await.ok(200);
    for api in [&user, &reader] {
        api.put("/v1/collections/kb", json!({})).await.problem("permission_denied");
        api.put("/v1/collections/new", json!({})).await.problem("permission_denied");
        api.delete("/v1/collections/kb").await.problem("permission_denied");
        let body = json!({"memories": [{"content": "x"}]});
        api.post("/v1/collections/kb/memories", body).await.problem("permission_denied");
        api.delete("/v1/collections/kb/memories/secret").await.problem("permission_denied");
        let patch = api.patch("/v1/collections/kb/memories/secret", &[], json!({"pinned": true}));
        patch.await.problem("permission_denied");
        api.post("/v1/collections/kb/erasures", json!({"all": true})).await.problem("permission_denied");
        let fact = json!({"facts": [{"subject": "a", "predicate": "b", "object": "c"}]});
        api.post("/v1/collections/kb/facts", fact).await.problem("permission_denied");
    }
    let writer = as_key(TENANT, None, Rights::WRITE);
    writer.get("/v1/collections/kb/memories/secret").await.problem("permission_denied");
    assert_eq!(list(&owner, "kb", 10).await, ["secret"]);
}

#[tokio::test]
async fn memories_of_many_partitions_are_one_collection() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 64).await;
    let memory = |n: usize| {
        let mut memory = json!({"id": format!("m{n}"), "content": format!("note number {n} 笔记")});
        match n % 4 {
            0 => memory["session"] = json!(format!("s{}", n % 8)),
            1 => memory["source"] = json!({"uri": format!("file:{}", n % 8)}),
            _ => {}
        }
        memory
    };
    let all: Vec<Value> = (0..100).map(memory).collect();
    let added = add(&api, "kb", json!(all)).await;
    let results = added["results"].as_array().unwrap();
    let answered: Vec<&str> = results.iter().map(|result| result["id"].as_str().unwrap()).collect();
    let wanted: Vec<String> = (0..100).map(|n| format!("m{n}")).collect();
    assert_eq!(answered, wanted, "in the order of the request");
    assert!(results.iter().all(|result| result["status"] == "created"), "{added}");

    let places = places(&world, "kb", 64);
    assert_eq!(places.len(), 100);
    let distinct: BTreeSet<u8> = places.values().copied().collect();
    assert!(distinct.len() > 16, "{distinct:?}");
    let of = |ids: &[&str]| ids.iter().map(|id| places[*id]).collect::<BTreeSet<u8>>().len();
    assert_eq!(of(&["m0", "m8", "m16"]), 1, "a session stays whole");
    assert_eq!(of(&["m1", "m9", "m17"]), 1, "a source stays whole");

    for limit in [7, 100, 1000] {
        let listed = list(&api, "kb", limit).await;
        assert_eq!(listed.len(), 100, "each once");
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), wanted.iter().cloned().collect());
    }
    let of_session = api.get("/v1/collections/kb/memories?session=s4").await.ok(200);
    assert_eq!(of_session["memories"].as_array().unwrap().len(), 12);

    let path = "/v1/collections/kb/memories/m42";
    let got = api.get(path).await.ok(200);
    assert_eq!((&got["space"], &got["version"]), (&json!("shared:kb"), &json!(1)));
    let patched = api.patch(path, &[("if-match", "\"1\"")], json!({"content": "changed"})).await.ok(200);
    assert_eq!(patched["version"], 2);
    api.patch(path, &[("if-match", "\"1\"")], json!({"content": "again"})).await.problem("conflict");
    let versions = api.get(&format!("{path}/history")).await.ok(200);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    let key = [("idempotency-key", "d-1")];
    let deleted = api.send("DELETE", path, &key, vec![]).await.ok(200);
    assert_eq!(deleted["status"], "deleted");
    let again = api.send("DELETE", path, &key, vec![]).await.ok(200);
    assert_eq!(again["status"], "deleted", "the same request has the same answer");
    api.delete(path).await.problem("not_found");
    for path in [path.to_owned(), format!("{path}/history"), "/v1/collections/kb/memories/never".into()] {
        api.get(&path).await.problem("not_found");
    }
    assert_eq!(list(&api, "kb", 100).await.len(), 99);
}

#[tokio::test]
async fn vectors_of_a_collection_are_of_one_model() {
    let world = world().await;
    let api = world.api();
    let own = json!({"partitions": 4, "embedding_model": "client"});
    assert_eq!(api.put("/v1/collections/own", own).await.problem("invalid_argument").0, "dims");
    let own = json!({"partitions": 4, "embedding_model": "client", "dims": 3});
    let created = api.put("/v1/collections/own", own).await.ok(201);
    assert_eq!((&created["embedding_model"], &created["dims"]), (&json!("client"), &json!(3)));
    put(&api, "built-in", 4).await;
    let of = |n: usize, model: Option<&str>| {
        let mut memory = json!({"id": format!("v{n}"), "content": format!("v {n}"), "embedding": [1, n, 0]});
        if let Some(model) = model {
            memory["embedding_model"] = json!(model);
        }
        memory
    };
    add(&api, "own", json!([of(1, None), of(2, None), {"id": "words", "content": "no vector"}])).await;
    assert!(api.get("/v1/collections/own/memories/words").await.ok(200)["embedding_model"].is_null());
    let post = async |name: &str, memory: Value| {
        let path = format!("/v1/collections/{name}/memories");
        api.post(&path, json!({"memories": [memory]})).await.problem("invalid_argument").0
    };
    assert_eq!(post("own", of(3, Some("m"))).await, "embedding_model");
    assert_eq!(post("built-in", of(3, None)).await, "embedding_model");
    // Whichever partition it would be the first of.
    let wide = json!({"content": "wide", "embedding": [1, 2, 3, 4]});
    assert_eq!(post("own", wide.clone()).await, "embedding");
    let patch = json!({"embedding": [1, 2, 3, 4]});
    let path = "/v1/collections/own/memories/words";
    assert_eq!(api.patch(path, &[], patch).await.problem("invalid_argument").0, "embedding");
    let found =
        api.post("/v1/collections/own/recall", json!({"embedding": [1, 2, 0], "relevance": "vector"}));
    assert_eq!(found.await.ok(200)["results"][0]["memory"]["id"], "v2");
}
