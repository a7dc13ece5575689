//! Shared collections through the public interface.

use crate::access::grant;
use crate::common::{Api, Letters, Options, TENANT, World};
use holdfast_core::access::Rights;
use holdfast_core::command::{Command, MetaCommand, SpaceCommand, Write};
use holdfast_core::erasure::EraseStep;
use holdfast_core::space::SpaceKey;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        ("c", json!({"index": "ivf"}), "index"),
        ("c", json!({"retention": 1}), "retention"),
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
async fn a_repeated_write_stores_nothing_twice() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let memories: Vec<Value> = (0..40).map(|n| json!({"content": format!("nameless {n}")})).collect();
    for partial in [false, true] {
        let body =
            json!({"memories": memories, "partial": partial, "infer": "none"}).to_string().into_bytes();
        let key = [("idempotency-key", if partial { "k-2" } else { "k-1" })];
        let send = || api.send("POST", "/v1/collections/kb/memories", &key, body.clone());
        let first = send().await.ok(201);
        assert_eq!(send().await.ok(201)["results"], first["results"]);
        assert_eq!(list(&api, "kb", 100).await.len(), 40, "the same texts are merged");
    }
    // One bad item: all of it, or it alone.
    let bad = json!([{"content": "good one"}, {"content": ""}]);
    let reply = api.post("/v1/collections/kb/memories", json!({"memories": bad})).await;
    assert_eq!(reply.problem("invalid_argument").0, "memories[1].content");
    let partial = json!({"memories": bad, "partial": true});
    let told = api.post("/v1/collections/kb/memories", partial).await.ok(201);
    assert_eq!(told["results"][0]["status"], "created");
    assert_eq!(told["results"][1]["status"], "rejected");
}

#[tokio::test]
async fn facts_and_entities_lie_in_the_first_partition() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    let fact = |n: u32| json!({"subject": format!("Product {n}"), "predicate": "made in", "object": "Ulm"});
    let memories: Vec<Value> = (0..12)
        .map(|n| match n % 2 {
            0 => json!({"id": format!("f{n}"), "content": "x", "session": format!("s{n}"), "fact": fact(n)}),
            _ => json!({"id": format!("e{n}"), "content": "y", "session": format!("s{n}"), "entities": ["Ulm"]}),
        })
        .collect();
    add(&api, "kb", json!(memories)).await;
    add(&api, "kb", json!([{"id": "plain", "content": "plain", "session": "s-away"}])).await;
    let places = places(&world, "kb", 16);
    assert!(places.iter().all(|(id, place)| (*place == 0) == (id != "plain")), "{places:?}");
    let facts = api.get("/v1/collections/kb/facts").await.ok(200);
    assert_eq!(facts["facts"].as_array().unwrap().len(), 6, "{facts}");
    api.post("/v1/collections/kb/facts", json!({"facts": [fact(99)]})).await.ok(201);
    assert_eq!(api.get("/v1/collections/kb/facts").await.ok(200)["facts"].as_array().unwrap().len(), 7);
    // What would put a memory elsewhere is refused; where it lies already, it is not.
    let plain = "/v1/collections/kb/memories/plain";
    for (patch, field) in [
        (json!({"entities": ["Ulm"]}), "entities"),
        (json!({"fact": fact(7)}), "fact"),
        (json!({"session": "other"}), "session"),
    ] {
        assert_eq!(api.patch(plain, &[], patch).await.problem("invalid_argument").0, field);
    }
    api.patch(plain, &[], json!({"content": "I live in Berlin"})).await.ok(200);
    assert!(api.get(plain).await.ok(200)["fact"].is_null(), "no fact is found outside of the first");
    api.patch("/v1/collections/kb/memories/e1", &[], json!({"entities": ["Bonn"]})).await.ok(200);
}

/// A search that is limited to one collection never returns another one's.
#[tokio::test]
async fn a_recall_sees_the_spaces_it_names_alone() {
    let world = world().await;
    let api = world.api();
    // The same ids and the same sessions everywhere.
    for (name, partitions) in [("a", 1), ("b", 8), ("ab", 3)] {
        put(&api, name, partitions).await;
        let content = format!("the tea of {name}");
        add(&api, name, json!([{"id": "same", "content": content, "session": "s"}, {"id": format!("only-{name}"), "content": content}]))
            .await;
    }
    api.add(json!([{"id": "same", "content": "my own tea", "session": "s"}])).await.ok(201);
    let spaces = async |collections: Value| -> BTreeMap<String, u32> {
        let body = api.recall(json!({"query": "tea", "collections": collections})).await.ok(200);
        assert_eq!((&body["partial"], &body["missing"]), (&json!(false), &json!([])));
        let mut spaces = BTreeMap::new();
        for hit in body["results"].as_array().unwrap() {
            assert_eq!(hit["space"], hit["memory"]["space"]);
            let space = hit["space"].as_str().unwrap();
            let own =
                space == "user:ann" || hit["memory"]["content"] == format!("the tea of {}", &space[7..]);
            assert!(own, "{hit}");
            *spaces.entry(space.to_owned()).or_default() += 1;
        }
        spaces
    };
    let of = |counts: &[(&str, u32)]| -> BTreeMap<String, u32> {
        counts.iter().map(|(space, count)| ((*space).to_owned(), *count)).collect()
    };
    // An exact duplicate is merged where it is stored, so a collection of one partition has one of them.
    assert_eq!(spaces(json!([])).await, of(&[("user:ann", 1)]));
    let one = spaces(json!(["a"])).await;
    assert_eq!(one.keys().collect::<Vec<_>>(), ["shared:a", "user:ann"]);
    let two = spaces(json!(["a", "b", "a"])).await;
    assert_eq!(two.keys().collect::<Vec<_>>(), ["shared:a", "shared:b", "user:ann"]);
    let alone = api.post("/v1/collections/b/recall", json!({"query": "tea"})).await.ok(200);
    assert!(alone["results"].as_array().unwrap().iter().all(|hit| hit["space"] == "shared:b"), "{alone}");
    assert_eq!(ids(&alone), BTreeSet::from(["same".to_owned(), "only-b".to_owned()]));
    let with =
        api.post("/v1/collections/b/recall", json!({"query": "tea", "collections": ["b"]})).await.ok(200);
    assert_eq!(with["scored"], alone["scored"], "each partition is asked once");

    let scores: Vec<f64> = api.recall(json!({"query": "tea", "collections": ["a", "b", "ab"]})).await.ok(200)
        ["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["score"].as_f64().unwrap())
        .collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    let (field, _) =
        api.recall(json!({"query": "tea", "collections": ["a", "none"]})).await.problem("not_found");
    assert_eq!(field, "collections[1]");
    let (field, _) =
        api.recall(json!({"query": "tea", "collections": ["a", "x\ny"]})).await.problem("invalid_argument");
    assert_eq!(field, "collections[1]");
    for name in ["w1", "w2", "w3"] {
        put(&api, name, 64).await;
    }
    let wide = json!({"query": "tea", "collections": ["w1", "w2", "w3"]});
    assert_eq!(api.recall(wide).await.problem("too_large").0, "collections");
}

#[tokio::test]
async fn a_token_of_many_shards_is_one() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 32).await;
    let memories: Vec<Value> = (0..60).map(|n| json!({"content": format!("tea {n}")})).collect();
    let token = add(&api, "kb", json!(memories)).await["token"].clone();
    let found =
        api.recall(json!({"query": "tea", "collections": ["kb"], "token": token, "top_k": 100})).await;
    let found = found.ok(200);
    assert_eq!(ids(&found).len(), 60);
    let linearizable = json!({"query": "tea", "collections": ["kb"], "token": found["token"], "consistency": "linearizable"});
    api.recall(linearizable).await.ok(200);
}

#[tokio::test]
async fn a_shard_that_is_down_is_named() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    let memories: Vec<Value> = (0..60).map(|n| json!({"content": format!("tea {n}")})).collect();
    add(&api, "kb", json!(memories)).await;
    let own = world.cluster.owner(&SpaceKey::user(TENANT, "ann").unwrap()).0;
    let down = if own == 1 { 2 } else { 1 };
    let ask = |more: Value| {
        let mut body = json!({"query": "tea", "collections": ["kb"], "top_k": 100, "deadline_ms": 1500});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.recall(body)
    };
    let whole = ask(json!({})).await.ok(200);
    assert_eq!((ids(&whole).len(), &whole["partial"]), (60, &json!(false)));
    for shard in [&world.cluster.silent_shard, &world.cluster.refusing_shard] {
        shard.store(down, Ordering::SeqCst);
        let part = ask(json!({})).await.ok(200);
        assert_eq!((&part["partial"], &part["missing"]), (&json!(true), &json!([down])));
        assert!(!ids(&part).is_empty() && ids(&part).is_subset(&ids(&whole)), "{part}");
        let reply = ask(json!({"require_all": true})).await;
        let code = reply.body["code"].as_str().unwrap().to_owned();
        assert!(matches!(code.as_str(), "unavailable" | "deadline_exceeded"), "{code}");
        let (_, detail) = reply.problem(&code);
        assert!(detail.contains(&format!("the shards {down} ")), "{detail}");
        shard.store(0, Ordering::SeqCst);
    }
    assert_eq!(ids(&ask(json!({"require_all": true})).await.ok(200)), ids(&whole));
}

#[tokio::test]
async fn recalls_of_one_request_fail_alone() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 2).await;
    add(&api, "kb", json!([{"id": "shared", "content": "tea for all"}])).await;
    api.add(json!([{"id": "own", "content": "my tea"}, {"id": "run", "content": "a run"}])).await.ok(201);
    let body = json!({"recalls": [
        {"query": "tea"},
        {"query": " "},
        {"query": "tea", "collections": ["kb"]},
        {"query": "tea", "collections": ["nowhere"]},
        {"query": "tea", "colour": "red"},
        7,
        {"query": "run", "top_k": 1, "deadline_ms": 2000}
    ]});
    let answer = api.post("/v1/users/ann/recall:batch", body).await.ok(200);
    let recalls = answer["recalls"].as_array().unwrap();
    assert_eq!(recalls.len(), 7);
    assert_eq!(ids(&recalls[0]["recall"]), BTreeSet::from(["own".to_owned(), "run".to_owned()]));
    assert_eq!(ids(&recalls[2]["recall"]).len(), 3);
    assert_eq!(recalls[6]["recall"]["results"][0]["memory"]["id"], "run");
    assert!(recalls[0]["recall"]["token"].is_string());
    for (at, code, field) in [
        (1, "invalid_argument", json!("recalls[1].query")),
        (3, "not_found", json!("recalls[3].collections[0]")),
        (4, "invalid_argument", json!("recalls[4].colour")),
        (5, "invalid_argument", json!("recalls[5]")),
    ] {
        let problem = &recalls[at]["problem"];
        assert_eq!((&problem["code"], &problem["field"]), (&json!(code), &field), "{at}: {}", recalls[at]);
        assert!(problem["detail"].as_str().unwrap().len() > 10 && problem["status"].is_u64());
        assert!(recalls[at].get("recall").is_none());
    }
    let of_collection = json!({"recalls": [{"query": "tea"}]});
    let answer = api.post("/v1/collections/kb/recall:batch", of_collection).await.ok(200);
    assert_eq!(ids(&answer["recalls"][0]["recall"]), BTreeSet::from(["shared".to_owned()]));
    for (body, code, field) in [
        (json!({"recalls": []}), "invalid_argument", "recalls"),
        (json!({"recalls": vec![json!({"query": "q"}); 65]}), "too_large", "recalls"),
        (json!({"recalls": [{"query": "q"}], "deadline_ms": 0}), "invalid_argument", "deadline_ms"),
        (json!({}), "invalid_argument", "recalls"),
    ] {
        assert_eq!(api.post("/v1/users/ann/recall:batch", body).await.problem(code).0, field);
    }
    let bound = api.with_key(&grant(&world, TENANT, Some("bob"), Rights::ALL));
    let body = json!({"recalls": [{"query": "tea"}]});
    bound.post("/v1/users/ann/recall:batch", body).await.problem("permission_denied");
}

/// What leaders do, done here: the nodes of these tests have no jobs.
fn drop_rows(world: &World, name: &str, partitions: u8, erasure: &str) {
    for partition in 0..partitions {
        let space = world.cluster.shared(name, partition);
        let group = world.cluster.owner(&space).0;
        for _ in 0..9 {
            let step = EraseStep::Drop { id: erasure.to_owned(), limit: 96 };
            let command = SpaceCommand { space: space.clone(), idempotency: None, write: Write::Erase(step) };
            world.cluster.apply(group, &Command::Space(Box::new(command)));
        }
    }
}

#[tokio::test]
async fn a_deleted_collection_does_not_come_back() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 4).await;
    let memories: Vec<Value> =
        (0..20).map(|n| json!({"id": format!("m{n}"), "content": format!("old {n}")})).collect();
    add(&api, "kb", json!(memories)).await;
    let key = [("idempotency-key", "end-1")];
    let delete = || api.send("DELETE", "/v1/collections/kb", &key, vec![]);
    let deleted = delete().await.ok(202);
    assert_eq!(deleted["status"], "removing");
    assert_eq!(delete().await.ok(202)["erasure"], deleted["erasure"], "the same once more");
    let receipt = format!("/v1/collections/kb/erasures/{}", deleted["erasure"].as_str().unwrap());
    for path in ["", "/memories", "/memories/m1"] {
        api.get(&format!("/v1/collections/kb{path}")).await.problem("not_found");
    }
    api.recall(json!({"query": "old", "collections": ["kb"]})).await.problem("not_found");
    assert_eq!(api.get("/v1/collections").await.ok(200)["collections"], json!([]));
    let told = api.get(&receipt).await.ok(200);
    assert_eq!((&told["status"], &told["not_begun"]), (&json!("removing"), &json!([])));
    assert_eq!((&told["space"], told["partitions"].as_array().unwrap().len()), (&json!("shared:kb"), 4));

    // The name is free at once, for a collection with keys of its own.
    let late = world.cluster.shared("kb", 1);
    drop_rows(&world, "kb", 4, deleted["erasure"].as_str().unwrap().split('-').next().unwrap());
    let created = api.put("/v1/collections/kb", json!({"partitions": 2})).await.ok(201);
    assert_eq!(created["partitions"], 2);
    assert_ne!(world.cluster.shared("kb", 1), late);
    assert!(list(&api, "kb", 10).await.is_empty());
    let found = api.recall(json!({"query": "old", "collections": ["kb"]})).await.ok(200);
    assert!(ids(&found).is_empty(), "{found}");
    add(&api, "kb", json!([{"id": "new", "content": "new"}])).await;

    // The request that ended the first ends nothing of the second, and its receipt stays.
    assert_eq!(delete().await.ok(202)["erasure"], deleted["erasure"]);
    assert_eq!(list(&api, "kb", 10).await, ["new"]);
    let told = api.get(&receipt).await.ok(200);
    assert_eq!(told["status"], "purging");
    let parts = told["partitions"].as_array().unwrap().iter();
    assert_eq!(parts.map(|part| part["erased"]["memories"].as_u64().unwrap()).sum::<u64>(), 20);
    api.delete("/v1/collections/kb").await.ok(202);
    api.get("/v1/collections/kb/memories/new").await.problem("not_found");
}

/// A router that has not noticed that another one deleted a collection and made it again acknowledges nothing
/// that nobody finds.
#[tokio::test]
async fn what_goes_to_a_deleted_collection_is_refused_and_its_repetition_finds_the_next() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 2).await;
    add(&api, "kb", json!([{"id": "old", "content": "old"}])).await;
    let old = [0, 1].map(|partition| world.cluster.shared("kb", partition));
    let meta = |command| world.cluster.apply(0, &Command::Meta(Box::new(command)));
    for space in &old {
        let write = Write::Erase(EraseStep::Close { id: "e".into() });
        let command = SpaceCommand { space: space.clone(), idempotency: None, write };
        world.cluster.apply(world.cluster.owner(space).0, &Command::Space(Box::new(command)));
    }
    let row = world.cluster.collection("kb");
    let (tenant, name, incarnation) = (row.tenant.clone(), row.name.clone(), row.incarnation);
    meta(MetaCommand::DeleteCollection { tenant, name, incarnation, key_hash: 1 });
    meta(MetaCommand::PutCollection(row));
    assert_ne!(world.cluster.shared("kb", 0), old[0]);

    let body = json!({"memories": [{"id": "new", "content": "new"}], "infer": "none"});
    let (field, detail) = api.post("/v1/collections/kb/memories", body.clone()).await.problem("unavailable");
    assert_eq!(field, "collection");
    assert!(detail.contains("repeat the request"), "{detail}");
    api.post("/v1/collections/kb/memories", body).await.ok(201);
    assert_eq!(list(&api, "kb", 10).await, ["new"]);
}

/// What rules find in a text decides nothing about its place, or a repetition under other rules would come to
/// another partition and be stored twice.
#[tokio::test]
async fn found_facts_decide_no_place() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let memories: Vec<Value> = (0..100)
        .map(|n| json!({"content": "I live in Berlin", "session": format!("s{n}"), "id": format!("m{n}")}))
        .collect();
    api.post("/v1/collections/kb/memories", json!({"memories": memories})).await.ok(201);
    let places = places(&world, "kb", 8);
    let first = places.values().filter(|place| **place == 0).count();
    assert!((1..40).contains(&first), "{places:?}");
    for (id, place) in &places {
        let memory = api.get(&format!("/v1/collections/kb/memories/{id}")).await.ok(200);
        assert_eq!(memory["fact"].is_null(), *place > 0, "{id}: facts are found where they are compared");
    }
}

/// Parts of one partition are stored in the order of the request.
#[tokio::test]
async fn the_order_within_a_partition_is_kept() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 4).await;
    let memories: Vec<Value> = (0..450)
        .map(|n| json!({"id": format!("m{n:03}"), "content": format!("x {n}"), "session": "s"}))
        .collect();
    let body = json!({"memories": memories, "partial": true, "infer": "none"});
    let answer = api.post("/v1/collections/kb/memories", body).await.ok(201);
    assert!(answer["results"].as_array().unwrap().iter().all(|item| item["status"] == "created"));
    let listed = list(&api, "kb", 1000).await;
    assert!(listed.windows(2).all(|pair| pair[0] < pair[1]) && listed.len() == 450, "{listed:?}");
}

#[tokio::test]
async fn an_erasure_takes_place_in_every_partition() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    add(&api, "kb", json!([{"content": "x", "session": "s"}])).await;
    let begun = api.post("/v1/collections/kb/erasures", json!({"session": "s"})).await.ok(202);
    let path = format!("/v1/collections/kb/erasures/{}", begun["id"].as_str().unwrap());
    let told = api.get(&path).await.ok(200);
    assert_eq!((&told["space"], &told["selection"]), (&json!("shared:kb"), &json!("session")));
    assert_eq!(told["partitions"].as_array().unwrap().len(), 8);
    api.get("/v1/collections/kb/erasures/none").await.problem("not_found");
    api.post("/v1/collections/kb/erasures", json!({})).await.problem("invalid_argument");
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

#[tokio::test]
async fn a_context_is_made_of_collections_too() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 4).await;
    // The same id in both spaces, and a rule that holds for all users.
    let shared = json!([
        {"id": "tea", "content": "Green tea is served at noon."},
        {"id": "rule", "content": "Never order with nuts.", "importance": 1}
    ]);
    add(&api, "kb", shared).await;
    api.add(json!([{"id": "tea", "content": "I like tea in the morning"}])).await.ok(201);
    let ask = async |collections: Value| {
        let body = json!({"query": "tea", "budget_tokens": 500, "collections": collections});
        api.post("/v1/users/ann/context", body).await
    };
    let own = ask(json!([])).await.ok(200);
    assert!(!own["text"].as_str().unwrap().contains("noon"), "{own}");
    let both = ask(json!(["kb"])).await.ok(200);
    let text = both["text"].as_str().unwrap();
    assert!(["noon", "morning", "nuts"].into_iter().all(|word| text.contains(word)), "{text}");
    let items: Vec<&Value> = both["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|part| part["items"].as_array().unwrap())
        .collect();
    let of = |id: &str| items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}: {both}"));
    assert_eq!(of("shared:kb/tea")["source"]["space"], "shared:kb");
    assert_eq!(of("shared:kb/tea")["source"]["memory"], "tea");
    assert!(of("tea")["source"].get("space").is_none());
    assert_eq!((&both["partial"], &both["missing"]), (&json!(false), &json!([])));
    assert_eq!(ask(json!(["none"])).await.problem("not_found").0, "collections[0]");

    let own = world.cluster.owner(&SpaceKey::user(TENANT, "ann").unwrap()).0;
    let of_kb = |partition| world.cluster.owner(&world.cluster.shared("kb", partition)).0;
    let down = (0..4).map(of_kb).find(|shard| *shard != own).unwrap();
    world.cluster.refusing_shard.store(down, Ordering::SeqCst);
    let part = ask(json!(["kb"])).await.ok(200);
    assert_eq!((&part["partial"], &part["missing"]), (&json!(true), &json!([down])));
    let body = json!({"query": "tea", "budget_tokens": 500, "collections": ["kb"], "require_all": true});
    api.post("/v1/users/ann/context", body).await.problem("unavailable");
}

#[tokio::test]
async fn an_id_is_one_memory_wherever_it_lies() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 32).await;
    let memory =
        |session: &str, content: &str| json!([{"id": "one", "content": content, "session": session}]);
    let status = async |session: &str, content: &str| {
        let body = json!({"memories": memory(session, content), "infer": "none"});
        api.post("/v1/collections/kb/memories", body).await
    };
    assert_eq!(status("s1", "first").await.ok(201)["results"][0]["status"], "created");
    for session in ["s1", "s2", "s3", "s4"] {
        assert_eq!(status(session, "first").await.ok(201)["results"][0]["status"], "duplicate", "{session}");
        status(session, "another text").await.problem("already_exists");
    }
    let fact =
        json!([{"id": "one", "content": "x", "fact": {"subject": "a", "predicate": "b", "object": "c"}}]);
    api.post("/v1/collections/kb/memories", json!({"memories": fact})).await.problem("already_exists");
    assert_eq!(list(&api, "kb", 10).await, ["one"]);
    // A key that only writes deletes too, and the id is free again.
    let writer = api.with_key(&grant(&world, TENANT, None, Rights::WRITE));
    writer.delete("/v1/collections/kb/memories/one").await.ok(200);
    assert_eq!(status("s2", "another text").await.ok(201)["results"][0]["status"], "created");
}

async fn export(api: &Api, name: &str) -> Vec<Value> {
    let reply = api.get(&format!("/v1/collections/{name}/export")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn import(api: &Api, name: &str, lines: &[Value]) -> Value {
    let body = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
    api.send("POST", &format!("/v1/collections/{name}/import"), &[], body).await.ok(200)
}

#[tokio::test]
async fn an_export_goes_into_a_collection_of_another_shape() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let mut memories: Vec<Value> = (0..40)
        .map(|n| match n % 3 {
            0 => json!({"id": format!("m{n}"), "content": format!("note {n}"), "session": format!("s{}", n % 6)}),
            1 => json!({"content": format!("没有名字 {n}")}),
            _ => json!({"id": format!("m{n}"), "content": format!("page {n}"), "source": {"uri": format!("file:{n}")}}),
        })
        .collect();
    let fact = json!({"subject": "Office", "predicate": "located in", "object": "Ulm"});
    memories.push(json!({"id": "fact", "content": "The office is in Ulm", "session": "s0", "fact": fact}));
    add(&api, "kb", json!(memories)).await;
    api.patch("/v1/collections/kb/memories/m2", &[], json!({"content": "changed"})).await.ok(200);
    let lines = export(&api, "kb").await;
    assert_eq!(lines[0]["export"]["space"], "shared:kb");
    assert_eq!(lines[0]["export"]["partitions"].as_array().unwrap().len(), 8);
    assert_eq!(lines.last().unwrap()["end"]["memories"], 41);
    let all: BTreeSet<String> = list(&api, "kb", 100).await.into_iter().collect();

    for (name, partitions) in [("one", 1u8), ("many", 32)] {
        put(&api, name, partitions.into()).await;
        for created in [41, 0] {
            let imported = import(&api, name, &lines).await;
            assert_eq!(
                imported["memories"],
                json!({"created": created, "duplicate": 41 - created, "rejected": 0})
            );
            assert_eq!(
                (&imported["complete"], &imported["rejected"]),
                (&json!(true), &json!([])),
                "{imported}"
            );
        }
        assert_eq!(list(&api, name, 100).await.into_iter().collect::<BTreeSet<_>>(), all);
        let places = places(&world, name, partitions);
        assert_eq!(places["fact"], 0);
        let turns: BTreeSet<u8> = ["m0", "m6", "m12"].into_iter().map(|id| places[id]).collect();
        assert_eq!(turns.len(), 1, "a session stays whole");
        let history = api.get(&format!("/v1/collections/{name}/memories/m2/history")).await.ok(200);
        assert_eq!(history["versions"].as_array().unwrap().len(), 2);
        let facts = api.get(&format!("/v1/collections/{name}/facts")).await.ok(200);
        assert_eq!(facts["facts"].as_array().unwrap().len(), 1);
    }

    // Back into itself it changes nothing, and what was deleted stays deleted, wherever it lay.
    for id in all.iter().take(9) {
        api.delete(&format!("/v1/collections/kb/memories/{id}")).await.ok(200);
    }
    let imported = import(&api, "kb", &lines).await;
    assert_eq!(imported["memories"], json!({"created": 0, "duplicate": 32, "rejected": 9}), "{imported}");
    assert_eq!(list(&api, "kb", 100).await.len(), 32);

    // Vectors of another model are refused, not mixed in.
    api.put("/v1/collections/other", json!({"embedding_model": "client", "dims": 3})).await.ok(201);
    let imported = import(&api, "other", &lines).await;
    assert!(imported["memories"]["rejected"].as_u64().unwrap() > 20, "{imported}");
    assert_eq!(imported["rejected"][0]["field"], "embedding_model");
}
