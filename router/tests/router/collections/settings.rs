//! What of a collection may change.

use super::*;
use crate::common::node::Fault;

const PATH: &str = "/v1/collections/kb";

#[tokio::test]
async fn settings_change_and_what_is_left_out_stays() {
    let world = world().await;
    let api = world.api();
    let created = api.put(PATH, json!({"partitions": 4, "index": "hnsw"})).await.ok(201);
    assert_eq!((&created["index"], &created["retention"]), (&json!("hnsw"), &Value::Null));
    let day = json!({"retention": {"ttl_s": 86_400}});
    for _ in 0..2 {
        let changed = api.put(PATH, day.clone()).await.ok(200);
        assert_eq!((&changed["index"], &changed["retention"]), (&json!("hnsw"), &json!({"ttl_s": 86_400})));
        assert_eq!(api.get(PATH).await.ok(200), changed);
        assert_eq!(api.get("/v1/collections").await.ok(200)["collections"], json!([changed]));
    }
    let back = api.put(PATH, json!({"index": "auto", "retention": null})).await.ok(200);
    assert_eq!(
        (&back["index"], &back["retention"], &back["partitions"]),
        (&json!("auto"), &Value::Null, &json!(4))
    );
    // What is refused changes nothing.
    api.put(PATH, json!({"index": "exact", "partitions": 9})).await.problem("conflict");
    api.put(PATH, json!({"index": "exact", "retention": {"ttl_s": 0}})).await.problem("invalid_argument");
    assert_eq!(api.get(PATH).await.ok(200), back);
    // The next collection of the name begins anew.
    api.put(PATH, json!({"index": "exact", "retention": {"ttl_s": 9}})).await.ok(200);
    api.delete(PATH).await.ok(202);
    let next = api.put(PATH, json!({"partitions": 2})).await.ok(201);
    assert_eq!((&next["index"], &next["retention"]), (&json!("auto"), &Value::Null));
    let user = api.with_key(&grant(&world, TENANT, Some("ann"), Rights::ALL));
    user.put(PATH, json!({"index": "exact"})).await.problem("permission_denied");
}

#[tokio::test]
async fn new_memories_live_as_long_as_the_collection_keeps_them() {
    let world = world().await;
    let api = world.api();
    api.put(PATH, json!({"partitions": 4, "retention": {"ttl_s": 3_600}})).await.ok(201);
    let end = "2099-01-01T00:00:00.000000Z";
    let memories = json!([
        {"id": "plain", "content": "a"},
        {"id": "own", "content": "b", "expires_at": end},
        {"id": "pinned", "content": "c", "pinned": true},
        {"id": "会话", "content": "d", "session": "s"},
        {"id": "long", "content": "A sentence of several words. ".repeat(400)}
    ]);
    add(&api, "kb", memories).await;
    let expires =
        async |id: &str| api.get(&format!("{PATH}/memories/{id}")).await.ok(200)["expires_at"].clone();
    let within = |at: &Value| {
        let at: jiff::Timestamp = at.as_str().unwrap().parse().unwrap();
        let seconds = at.as_second() - jiff::Timestamp::now().as_second();
        assert!((3_500..=3_600).contains(&seconds), "{seconds}");
    };
    for id in ["plain", "会话", "long"] {
        within(&expires(id).await);
    }
    assert_eq!((expires("own").await, expires("pinned").await), (json!(end), Value::Null));
    for id in list(&api, "kb", 100).await.iter().filter(|id| !["own", "pinned"].contains(&id.as_str())) {
        within(&expires(id).await);
    }
    api.post(
        &format!("{PATH}/facts"),
        json!({"facts": [{"id": "f", "subject": "a", "predicate": "b", "object": "c"}]}),
    )
    .await
    .ok(201);
    within(&expires("f").await);
    // A change concerns what is new.
    api.put(PATH, json!({"retention": null})).await.ok(200);
    add(&api, "kb", json!([{"id": "later", "content": "e"}])).await;
    assert_eq!(expires("later").await, Value::Null);
    within(&expires("plain").await);
}

/// Nodes are told which index is wanted, with every question that they are asked.
#[tokio::test]
async fn nodes_are_told_which_index_is_wanted() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 4).await;
    let wished = || world.cluster.wished.lock().unwrap().clone();
    api.post(&format!("{PATH}/recall"), json!({"query": "tea"})).await.ok(200);
    assert!(wished().iter().all(Option::is_none), "nobody chose one");
    let mut last = 0;
    for index in ["ivf", "exact", "auto"] {
        api.put(PATH, json!({"index": index})).await.ok(200);
        world.cluster.wished.lock().unwrap().clear();
        api.recall(json!({"query": "tea", "collections": ["kb"]})).await.ok(200);
        let told: Vec<(String, u64)> = wished().into_iter().flatten().collect();
        assert!(
            told.len() >= 4 && told.iter().all(|(kind, version)| kind == index && *version > last),
            "{told:?}"
        );
        last = told[0].1;
    }
    world.fault(1, Fault::None);
}
