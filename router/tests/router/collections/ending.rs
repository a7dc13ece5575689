//! Erasures, and the end of a collection.

use super::*;
use holdfast_core::command::{Command, MetaCommand, SpaceCommand, Write};
use holdfast_core::erasure::EraseStep;

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
