//! What the partitions of a collection agree on: ids, and keys of requests.

use super::*;
use crate::common::api::Reply;
use futures::future::join_all;

async fn add_one(api: &Api, key: Option<&str>, memory: Value) -> Reply {
    let body = json!({"memories": [memory], "infer": "none"}).to_string().into_bytes();
    let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
    api.send("POST", "/v1/collections/kb/memories", &headers, body).await
}

/// Writers of one moment, who differ in all that decides about a partition.
#[tokio::test]
async fn an_id_is_one_memory_whoever_is_faster() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    for round in 0..12 {
        let id = format!("商品-{round}");
        let memory = |n: usize| {
            let mut memory = json!({"id": id, "content": format!("said by {n}")});
            match n % 4 {
                0 => memory["session"] = json!(format!("s{n}")),
                1 => memory["source"] = json!({"uri": format!("file:{n}")}),
                2 => memory["entities"] = json!(["Ulm"]),
                _ => {}
            }
            memory
        };
        // Some with keys of their own, some in a partial write.
        let writers = (0..12).map(|n| {
            let (api, memory) = (&api, memory(n));
            async move {
                let key = format!("k-{round}-{n}");
                match n % 3 {
                    0 => add_one(api, Some(&key), memory).await,
                    1 => add_one(api, None, memory).await,
                    _ => {
                        let body = json!({"memories": [memory], "partial": true, "infer": "none"});
                        api.post("/v1/collections/kb/memories", body).await
                    }
                }
            }
        });
        let replies = join_all(writers).await;
        let status = |reply: &Reply| match reply.status {
            201 => reply.body["results"][0]["status"].as_str().unwrap().to_owned(),
            _ => reply.body["code"].as_str().unwrap().to_owned(),
        };
        let of = |wanted: &str| replies.iter().filter(|reply| status(reply) == wanted).count();
        assert_eq!(of("created"), 1, "{replies:?}");
        // A fact that comes second finds its id elsewhere than where facts are.
        let refused = of("already_exists") + of("rejected") + of("conflict");
        assert_eq!(refused, 11, "{replies:?}");
        assert_eq!(places(&world, "kb", 16).len(), round + 1);
        let winner = replies.iter().position(|reply| status(reply) == "created").unwrap();
        let got = api.get(&format!("/v1/collections/kb/memories/{id}")).await.ok(200);
        assert_eq!(got["content"], format!("said by {winner}"));
    }
}

#[tokio::test]
async fn what_all_say_alike_is_stored_once_and_all_are_told() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let many = |n: usize| {
        let memory = |id: usize| json!({"id": format!("m{id}"), "content": "the same", "session": format!("s{n}-{id}")});
        json!({"memories": (0..20).map(memory).collect::<Vec<_>>(), "infer": "none"})
    };
    let replies = join_all((0..6).map(|n| api.post("/v1/collections/kb/memories", many(n)))).await;
    let mut created = 0;
    for reply in replies {
        for result in reply.ok(201)["results"].as_array().unwrap() {
            assert!(matches!(result["status"].as_str().unwrap(), "created" | "duplicate"), "{result}");
            created += u32::from(result["status"] == "created");
        }
    }
    assert_eq!((created, places(&world, "kb", 8).len()), (20, 20));
}

#[tokio::test]
async fn a_key_is_one_request_in_all_partitions() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    let memories: Vec<Value> =
        (0..40).map(|n| json!({"id": format!("m{n}"), "content": format!("{n}")})).collect();
    add(&api, "kb", json!(memories)).await;
    let delete = async |id: &str, key: &str| {
        let path = format!("/v1/collections/kb/memories/{id}");
        api.send("DELETE", &path, &[("idempotency-key", key)], vec![]).await
    };
    let there = async |id: &str| api.get(&format!("/v1/collections/kb/memories/{id}")).await.status == 200;
    // Whether two memories lie together or not.
    delete("m0", "k").await.ok(200);
    for n in 1..40 {
        assert_eq!(delete(&format!("m{n}"), "k").await.problem("conflict").0, "Idempotency-Key", "m{n}");
        assert!(there(&format!("m{n}")).await);
    }
    assert_eq!(delete("m0", "k").await.ok(200)["status"], "deleted");

    // That there is no such memory is an answer too, whatever comes afterwards.
    delete("later", "k-none").await.problem("not_found");
    add(&api, "kb", json!([{"id": "later", "content": "it came later"}])).await;
    delete("later", "k-none").await.problem("not_found");
    assert!(there("later").await);
    assert_eq!(delete("m1", "k-none").await.problem("conflict").0, "Idempotency-Key");
    delete("later", "k-there").await.ok(200);
    delete("later", "k-none").await.problem("not_found");

    // Keys of writes and of deletions are the same.
    let memory = json!({"id": "new", "content": "x", "session": "s"});
    assert_eq!(add_one(&api, Some("k"), memory.clone()).await.problem("conflict").0, "Idempotency-Key");
    let first = add_one(&api, Some("k-add"), memory.clone()).await.ok(201);
    for session in ["s1", "s2", "s3", "s4"] {
        let other = json!({"id": session, "content": "y", "session": session});
        assert_eq!(add_one(&api, Some("k-add"), other).await.problem("conflict").0, "Idempotency-Key");
    }
    assert_eq!(delete("m2", "k-add").await.problem("conflict").0, "Idempotency-Key");
    // What it stored is told as it was, although it is gone.
    delete("new", "k-gone").await.ok(200);
    assert_eq!(add_one(&api, Some("k-add"), memory).await.ok(201)["results"], first["results"]);
    assert!(!there("new").await);

    let patch = async |id: &str, key: &str, content: &str| {
        let path = format!("/v1/collections/kb/memories/{id}");
        api.patch(&path, &[("idempotency-key", key)], json!({"content": content})).await
    };
    assert_eq!(patch("m5", "k-patch", "changed").await.ok(200)["version"], 2);
    assert_eq!(patch("m5", "k-patch", "changed").await.ok(200)["version"], 2);
    for n in 6..20 {
        let reply = patch(&format!("m{n}"), "k-patch", "changed").await;
        assert_eq!(reply.problem("conflict").0, "Idempotency-Key");
    }
}

/// A collection of one partition keeps its keys as one of many does.
#[tokio::test]
async fn the_number_of_partitions_changes_no_answer() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 1).await;
    let delete = async |id: &str, key: &str| {
        let path = format!("/v1/collections/kb/memories/{id}");
        api.send("DELETE", &path, &[("idempotency-key", key)], vec![]).await
    };
    delete("a", "k").await.problem("not_found");
    add(&api, "kb", json!([{"id": "a", "content": "one"}, {"id": "b", "content": "two"}])).await;
    delete("a", "k").await.problem("not_found");
    assert_eq!(delete("b", "k").await.problem("conflict").0, "Idempotency-Key");
    for _ in 0..2 {
        delete("a", "k-2").await.ok(200);
    }
    assert_eq!(delete("b", "k-2").await.problem("conflict").0, "Idempotency-Key");
    assert_eq!(list(&api, "kb", 10).await, ["b"]);
}

/// An answer that was lost: the key of a failed write is the router's, and its repetition finds what it did.
#[tokio::test]
async fn a_deletion_whose_answer_was_lost_is_told_once_it_is_repeated() {
    use crate::common::node::Fault;
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    add(&api, "kb", json!([{"id": "a", "content": "one", "session": "s"}])).await;
    world.fault(1, Fault::OneWriteThenCutOff);
    let path = "/v1/collections/kb/memories/a";
    let deleted = api.delete(path).await;
    world.fault(1, Fault::None);
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    let key = "made-by-a-router";
    let body = [("idempotency-key", key)];
    // Another one, cut off behind what is kept and before it is done.
    add(&api, "kb", json!([{"id": "a", "content": "two", "session": "s"}])).await;
    world.fault(1, Fault::OneWriteThenCutOff);
    let cut = api.send("DELETE", path, &body, vec![]).await;
    assert!(cut.status >= 500, "{}", cut.body);
    world.fault(1, Fault::None);
    for _ in 0..2 {
        assert_eq!(api.send("DELETE", path, &body, vec![]).await.ok(200)["status"], "deleted");
    }
    assert!(list(&api, "kb", 10).await.is_empty());
}

/// A key that was refused once keeps its partition, whatever its own claim would say.
#[tokio::test]
async fn a_key_that_was_refused_once_stores_the_memory_when_it_may() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    for n in 0..8 {
        let id = format!("a{n}");
        // Some lie where their ids lead to, others where their sessions do.
        let mut first = json!({"id": id, "content": "x"});
        if n % 2 == 1 {
            first["session"] = json!(format!("first-{n}"));
        }
        add_one(&api, None, first).await.ok(201);
        let key = format!("k{n}");
        let second = json!({"id": id, "content": "y", "session": format!("s{n}")});
        add_one(&api, Some(&key), second.clone()).await.problem("already_exists");
        api.delete(&format!("/v1/collections/kb/memories/{id}")).await.ok(200);
        let told = add_one(&api, Some(&key), second.clone()).await.ok(201);
        assert_eq!(told["results"][0]["status"], "created");
        assert_eq!(add_one(&api, Some(&key), second).await.ok(201)["results"], told["results"]);
        let other = json!({"id": id, "content": "y", "session": "elsewhere"});
        assert_eq!(add_one(&api, None, other).await.ok(201)["results"][0]["status"], "duplicate");
        assert_eq!(places(&world, "kb", 16).len(), n + 1);
    }
}

/// A fact is never stored without itself.
#[tokio::test]
async fn a_fact_under_an_id_of_another_partition_is_refused_and_not_stripped() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    let fact = json!({"id": "f", "content": "x", "fact": {"subject": "a", "predicate": "b", "object": "c"}});
    add_one(&api, None, json!({"id": "f", "content": "y", "session": "s"})).await.ok(201);
    assert!(places(&world, "kb", 16)["f"] > 0, "choose another session");
    add_one(&api, Some("k"), fact.clone()).await.problem("already_exists");
    api.delete("/v1/collections/kb/memories/f").await.ok(200);
    for key in [Some("k"), None] {
        let (field, _) = add_one(&api, key, fact.clone()).await.problem("conflict");
        assert_ne!(field, "claim");
    }
    assert!(list(&api, "kb", 10).await.is_empty());
}
