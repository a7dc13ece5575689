//! In which partition things lie.

use super::*;
use crate::common::node::Fault;
use holdfast_core::command::{Add, Command, NewMemory, Origin, SpaceCommand, Write};
use holdfast_core::memory::IndexRow;
use holdfast_core::space::SpaceKey;

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

/// Adds a memory to a partition behind the router's back, as two writes of one moment do.
fn add_there(world: &World, space: &SpaceKey, id: &str) {
    let index = IndexRow { id: id.into(), ..IndexRow::default() };
    let item = NewMemory { id_chosen: true, content: format!("{id} 文"), index, ..NewMemory::default() };
    let (model, origin) = (None, Origin::Caller);
    let add = Add { origin, model, vectors_given: false, partial: false, items: vec![item] };
    let command = SpaceCommand { space: space.clone(), idempotency: None, write: Write::Add(add) };
    world.cluster.apply(world.cluster.owner(space).0, &Command::Space(Box::new(command)));
}

/// A deletion that was cut off between two partitions that have the id is whole once it is repeated; what was added
/// since the first time is not meant by it.
#[tokio::test]
async fn a_repeated_deletion_takes_the_id_wherever_it_lay() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let in_partition = |partition| world.cluster.shared("kb", partition);
    let lies = |id: &str| -> Vec<u8> {
        let holds =
            |partition: &u8| world.cluster.memories(&in_partition(*partition)).iter().any(|one| one == id);
        (0..8).filter(holds).collect()
    };
    let path = |id: &str| format!("/v1/collections/kb/memories/{id}");
    let delete =
        async |id: &str, key: &str| api.send("DELETE", &path(id), &[("idempotency-key", key)], vec![]).await;
    add_there(&world, &in_partition(2), "cut");
    add_there(&world, &in_partition(5), "cut");
    // The first one keeps what the request concerns.
    world.fault(1, Fault::TwoWritesThenCutOff);
    delete("cut", "k-cut").await.problem("unavailable");
    world.fault(1, Fault::None);
    assert_eq!(lies("cut").len(), 1, "it came to one of them");
    for _ in 0..2 {
        assert_eq!(delete("cut", "k-cut").await.ok(200)["status"], "deleted");
        assert!(lies("cut").is_empty(), "the repetition takes the other one");
    }
    // Two at once, in one request.
    add_there(&world, &in_partition(1), "both");
    add_there(&world, &in_partition(6), "both");
    delete("both", "k-both").await.ok(200);
    assert!(lies("both").is_empty());
    // What came since stays, be it elsewhere or where it was.
    for (n, partition) in [1, 4].into_iter().enumerate() {
        add_there(&world, &in_partition(partition), "both");
        delete("both", "k-both").await.ok(200);
        assert_eq!(lies("both").len(), n + 1, "what was added since is not meant");
    }
    delete("both", "k-new").await.ok(200);
    assert!(lies("both").is_empty());
    delete("both", "k-newer").await.problem("not_found");
}
