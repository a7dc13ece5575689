//! Adding, reading, changing and deleting memories.

use crate::common::{Letters, Moody, Options, World};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MEMORIES: &str = "/v1/users/ann/memories";

fn statuses(body: &Value) -> Vec<&str> {
    body["results"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_memory_comes_back_as_it_was_given() {
    let world = World::start().await;
    let api = world.api();
    let memory = json!({
        "id": "海报/1 %2F?#", "content": "我不吃辣 🌶️\u{0}\n", "kind": "episodic", "role": "user", "speaker": "小明",
        "importance": 0.8, "event_time": "2023-05-08T21:56:00.5+08:00", "session": "s 1", "agent": "bot",
        "metadata": {"caption": "a photo", "n": 1, "深": {"a": [1.5, null, true]}}, "sentiment": "negative",
        "entities": ["川菜"], "expires_at": "2999-01-01T00:00:00Z", "pinned": true,
        "fact": {"subject": "小明", "predicate": "eats spicy", "object": false, "confidence": 0.9,
                 "valid_from": "2020-01-01T00:00:00Z", "qualifiers": {"b": 1, "a": 2}},
        "source": {"uri": "https://example.com/x", "message_ids": ["m1", "m2"]}
    });
    let added = api.add(json!([memory])).await.ok(201);
    assert_eq!(added["results"], json!([{"id": "海报/1 %2F?#", "version": 1, "status": "created"}]));
    let path = format!("{MEMORIES}/%E6%B5%B7%E6%8A%A5%2F1%20%252F%3F%23");
    let reply = api.get(&path).await;
    assert_eq!(reply.header("etag"), "\"1\"");
    let got = reply.ok(200);
    for field in [
        "id",
        "content",
        "kind",
        "role",
        "speaker",
        "importance",
        "session",
        "agent",
        "metadata",
        "sentiment",
        "entities",
        "pinned",
        "source",
    ] {
        assert_eq!(got[field], memory[field], "{field}");
    }
    assert_eq!(got["space"], "user:ann");
    assert_eq!(got["event_time"], "2023-05-08T13:56:00.500000Z");
    assert_eq!(got["last_accessed_at"], got["event_time"]);
    assert_eq!(got["expires_at"], "2999-01-01T00:00:00.000000Z");
    assert_eq!(got["fact"]["object"], "false");
    assert_eq!(got["fact"]["qualifiers"], json!({"a": 2, "b": 1}));
    assert_eq!(got["fact"]["valid_from"], "2020-01-01T00:00:00.000000Z");
    assert_eq!((&got["strength"], &got["version"], &got["count"]), (&json!(1.0), &json!(1), &json!(1)));
    assert_eq!(got["confidence"], json!(0.9));
    assert_eq!(got["status"], "active");
    assert_eq!(got["embedding_model"], Value::Null);
    assert!(got["created_at"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn repeated_texts_and_ids_are_told_apart() {
    let world = World::start().await;
    let api = world.api();
    let first = api.add(json!([{"content": "likes tea"}])).await.ok(201);
    let id = first["results"][0]["id"].clone();
    let again = api.add(json!([{"content": "  likes \n ｔea "}])).await.ok(201);
    assert_eq!(again["results"][0], json!({"id": id, "version": 1, "status": "merged"}));
    let other_speaker = api.add(json!([{"content": "likes tea", "speaker": "Bob"}])).await.ok(201);
    assert_eq!(statuses(&other_speaker), ["created"]);
    api.add(json!([{"id": "x", "content": "one"}])).await.ok(201);
    assert_eq!(statuses(&api.add(json!([{"id": "x", "content": "one"}])).await.ok(201)), ["duplicate"]);
    let (field, _) =
        api.add(json!([{"content": "fine"}, {"id": "x", "content": "two"}])).await.problem("already_exists");
    assert_eq!(field, "memories[1].id");
    let list = api.get(MEMORIES).await.ok(200);
    let contents: Vec<&str> =
        list["memories"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["likes tea", "likes tea", "one"], "all of a batch or nothing");
    assert_eq!(list["memories"][0]["count"], 2);
}

#[tokio::test]
async fn a_repeated_write_is_answered_and_not_repeated() {
    let world = World::start().await;
    let api = world.api();
    let body = json!({"memories": [{"content": "a"}, {"id": "b", "content": "b"}]});
    let key = [("idempotency-key", "k-1")];
    let send = |body: &Value| body.to_string().into_bytes();
    let first = api.send("POST", MEMORIES, &key, send(&body)).await.ok(201);
    let again = api.send("POST", MEMORIES, &key, send(&body)).await.ok(201);
    assert_eq!(first["results"], again["results"]);
    let other = json!({"memories": [{"content": "c"}]});
    let (field, _) = api.send("POST", MEMORIES, &key, send(&other)).await.problem("conflict");
    assert_eq!(field, "Idempotency-Key");
    let list = api.get(MEMORIES).await.ok(200);
    assert_eq!(list["memories"].as_array().unwrap().len(), 2);
    assert_eq!(list["memories"][0]["count"], 1);

    let path = format!("{MEMORIES}/b");
    let patch = json!({"importance": 0.9});
    let headers = [("idempotency-key", "k-2"), ("if-match", "\"1\"")];
    let first = api.patch(&path, &headers, patch.clone()).await.ok(200);
    let again = api.patch(&path, &headers, patch).await.ok(200);
    assert_eq!(first["version"], 2);
    assert_eq!(again["version"], 2, "the repetition of a compare-and-set is no conflict with itself");
    let deleted = api.send("DELETE", &path, &[("idempotency-key", "k-3")], vec![]).await.ok(200);
    assert_eq!(deleted["status"], "deleted");
    api.send("DELETE", &path, &[("idempotency-key", "k-3")], vec![]).await.ok(200);
    api.delete(&path).await.problem("not_found");
}

#[tokio::test]
async fn a_patch_makes_a_version_and_keeps_the_old_one() {
    let world = World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await;
    let api = world.api();
    api.add(json!([{"id": "m", "content": "lives in Ulm", "metadata": {"a": 1}, "session": "s"}]))
        .await
        .ok(201);
    let path = format!("{MEMORIES}/m");
    let reply = api
        .patch(&path, &[], json!({"content": "lives in Bonn", "metadata": {"b": [2]}, "session": null}))
        .await;
    assert_eq!(reply.header("etag"), "\"2\"");
    let patched = reply.ok(200);
    assert_eq!((&patched["status"], &patched["version"]), (&json!("updated"), &json!(2)));
    let got = api.get(&path).await.ok(200);
    assert_eq!(got["content"], "lives in Bonn");
    assert_eq!((&got["metadata"], &got["session"]), (&json!({"b": [2]}), &Value::Null));
    assert_eq!(got["embedding_model"], "letters-for-tests");
    let history = api.get(&format!("{path}/history")).await.ok(200);
    let texts: Vec<&Value> =
        history["versions"].as_array().unwrap().iter().map(|version| &version["content"]).collect();
    assert_eq!(texts, ["lives in Ulm", "lives in Bonn"]);
    let found = api.recall(json!({"query": "bonn", "relevance": "keyword"})).await.ok(200);
    assert_eq!(found["results"][0]["parts"]["keyword"], 1.0, "the new words are found");

    let stale = [("if-match", "\"1\"")];
    let (field, _) = api.patch(&path, &stale, json!({"content": "x"})).await.problem("conflict");
    assert_eq!(field, "version");
    let (_, _) = api.send("DELETE", &path, &stale, vec![]).await.problem("conflict");
    api.patch(&format!("{MEMORIES}/none"), &[], json!({"content": "x"})).await.problem("not_found");
    api.get(&format!("{MEMORIES}/none/history")).await.problem("not_found");
}

#[tokio::test]
async fn a_vector_follows_its_text() {
    let world = World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await;
    let api = world.api();
    api.add(json!([{"id": "m", "content": "my own", "embedding": [1, 0, 0], "embedding_model": "mine"}]))
        .await
        .ok(201);
    let path = format!("{MEMORIES}/m");
    let model = async || api.get(&path).await.ok(200)["embedding_model"].clone();
    assert_eq!(model().await, "mine");
    api.patch(&path, &[], json!({"importance": 0.1})).await.ok(200);
    assert_eq!(model().await, "mine", "the text stays, so does its vector");
    api.patch(&path, &[], json!({"content": "other"})).await.ok(200);
    assert_eq!(model().await, Value::Null, "nobody brought a vector for the new text");
    api.patch(&path, &[], json!({"embedding": [0, 1, 0], "embedding_model": "mine"})).await.ok(200);
    assert_eq!(model().await, "mine");
    let (field, _) = api
        .patch(&path, &[], json!({"embedding": [0, 1], "embedding_model": "mine"}))
        .await
        .problem("invalid_argument");
    assert!(field.contains("embedding"), "{field}");
    // Text beside given vectors is kept, and found by its words.
    api.add(json!([{"id": "t", "content": "text alone"}])).await.ok(201);
    assert_eq!(api.get(&format!("{MEMORIES}/t")).await.ok(200)["embedding_model"], Value::Null);
}

#[tokio::test]
async fn concurrent_patches_all_count() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "m", "content": "x"}])).await.ok(201);
    let patches = (0..32).map(|n| {
        let api = api.clone();
        tokio::spawn(async move {
            let metadata = json!({"metadata": {"n": n}});
            api.patch("/v1/users/ann/memories/m", &[], metadata).await.ok(200)
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        patch.await.unwrap();
    }
    assert_eq!(api.get(&format!("{MEMORIES}/m")).await.ok(200)["version"], 33);
}

#[tokio::test]
async fn a_partial_write_tells_each_outcome() {
    let world = World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await;
    let api = world.api();
    let mut items: Vec<Value> = (0..250).map(|n| json!({"content": format!("memory {n}")})).collect();
    items[3] = json!({"id": "bad", "content": ""});
    items[249] = json!({"content": 7});
    let body = json!({"memories": items, "partial": true});
    let key = [("idempotency-key", "part")];
    let first = api.send("POST", MEMORIES, &key, body.to_string().into_bytes()).await.ok(201);
    let results = first["results"].as_array().unwrap();
    assert_eq!(results.len(), 250);
    assert_eq!(statuses(&first).iter().filter(|status| **status == "created").count(), 248);
    for (at, field, code) in
        [(3, "memories[3].content", "invalid_argument"), (249, "memories[249].content", "invalid_argument")]
    {
        assert_eq!(results[at]["status"], "rejected");
        assert_eq!((&results[at]["field"], &results[at]["code"]), (&json!(field), &json!(code)));
        assert!(results[at]["reason"].is_string());
    }
    assert_eq!(results[3]["id"], "bad");
    let again = api.send("POST", MEMORIES, &key, body.to_string().into_bytes()).await.ok(201);
    assert_eq!(first["results"], again["results"]);
}

#[tokio::test]
async fn a_model_that_fails_fails_the_request_and_not_an_item() {
    let model = Arc::new(Moody::default());
    let world = World::with(Options { embedder: Some(model.clone()), ..Options::default() }).await;
    let api = world.api();
    let mut items: Vec<Value> = (0..250).map(|n| json!({"content": format!("memory {n}")})).collect();
    items[3] = json!({"id": "bad", "content": ""});
    items[120] = json!({"id": "mood", "content": "moody"});
    items[122] = json!({"id": "mood", "content": "the same id, another text"});
    let body = json!({"memories": items, "partial": true}).to_string().into_bytes();
    let key = [("idempotency-key", "once")];
    let send = async || api.send("POST", MEMORIES, &key, body.clone()).await;
    let count = async || {
        let list = api.get(&format!("{MEMORIES}?limit=1000")).await.ok(200);
        let memories = list["memories"].as_array().unwrap();
        assert!(memories.iter().all(|memory| memory["count"] == 1), "nothing was stored twice");
        memories.len()
    };

    model.fails.store(true, Ordering::SeqCst);
    let reply = send().await;
    let (field, detail) = reply.problem("unavailable");
    assert_eq!(field, "memories[120]", "{detail}");
    assert_eq!(reply.header("idempotency-key"), "once");
    assert!(reply.headers.contains_key("retry-after"));
    assert_eq!(count().await, 0);

    model.fails.store(false, Ordering::SeqCst);
    let first = send().await.ok(201);
    assert_eq!(statuses(&first).iter().filter(|status| **status == "created").count(), 248);
    for at in [3, 122] {
        assert_eq!(first["results"][at]["status"], "rejected", "{at}");
    }
    assert_eq!(first["results"][120]["id"], "mood");
    // A fault during the repetition changes nothing, and the one after it has every id in its place.
    model.fails.store(true, Ordering::SeqCst);
    send().await.problem("unavailable");
    model.fails.store(false, Ordering::SeqCst);
    let again = send().await.ok(201);
    for at in 0..250 {
        let (first, again) = (&first["results"][at], &again["results"][at]);
        assert_eq!((&first["id"], &first["status"]), (&again["id"], &again["status"]), "{at}");
    }
    assert_eq!(count().await, 248);

    model.fails.store(true, Ordering::SeqCst);
    let (field, _) = api.add(json!([{"content": "x"}, {"content": "moody"}])).await.problem("unavailable");
    assert_eq!(field, "memories[1]");
    let patch = api.patch(&format!("{MEMORIES}/mood"), &[], json!({"content": "moody again"})).await;
    assert_eq!(patch.problem("unavailable").0, "content");
    let recall = api.recall(json!({"query": "moody"})).await;
    assert_eq!(recall.problem("unavailable").0, "query");
    assert_eq!(count().await, 248);
}

#[tokio::test]
async fn a_rejected_memory_has_no_id_that_it_did_not_choose() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "x", "embedding": [1, 0, 0]}])).await.ok(201);
    let items = json!([
        {"content": "a", "embedding": [1, 0]}, {"id": "b", "content": "b", "embedding": [0, 1]}, {"content": "c"}
    ]);
    let body = json!({"memories": items, "partial": true}).to_string().into_bytes();
    let key = [("idempotency-key", "odd")];
    let first = api.send("POST", MEMORIES, &key, body.clone()).await.ok(201);
    assert_eq!(statuses(&first), ["rejected", "rejected", "created"]);
    assert_eq!((first["results"][0].get("id"), &first["results"][1]["id"]), (None, &json!("b")));
    let again = api.send("POST", MEMORIES, &key, body).await.ok(201);
    assert_eq!(again["results"][0].get("id"), None);
    assert_eq!(again["results"][2], first["results"][2]);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let world = World::start().await;
    let api = world.api();
    let items: Vec<Value> = (0..7)
        .map(|n| json!({"id": format!("m{n}"), "content": format!("text {n}"), "session": if n % 2 == 0 { "偶" } else { "odd" },
            "kind": if n < 3 { "episodic" } else { "semantic" }, "metadata": {"n": n}}))
        .collect();
    api.add(json!(items)).await.ok(201);
    let ids = |page: &Value| -> Vec<String> {
        page["memories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|memory| memory["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("{MEMORIES}?limit=3{cursor}")).await.ok(200);
        seen.extend(ids(&page));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    let page = api.get(&format!("{MEMORIES}?session=%E5%81%B6&kind=semantic")).await.ok(200);
    assert_eq!(ids(&page), ["m4", "m6"]);
    let page =
        api.get(&format!("{MEMORIES}?filter=%7B%22metadata.n%22%3A%7B%22%24gte%22%3A5%7D%7D")).await.ok(200);
    assert_eq!(ids(&page), ["m5", "m6"]);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("kind=Semantic", "kind"),
        ("cursor=abc", "cursor"),
        ("filter=%7B", "filter"),
        ("filter=%7B%22colour%22%3A1%7D", "filter.colour"),
        ("colour=red", "colour"),
        ("token=zzz", "token"),
    ] {
        let (at, detail) = api.get(&format!("{MEMORIES}?{query}")).await.problem("invalid_argument");
        assert_eq!(at, field, "{query}: {detail}");
    }
    let next =
        api.get(&format!("{MEMORIES}?limit=1")).await.ok(200)["next_cursor"].as_str().unwrap().to_owned();
    let (at, _) = api.get(&format!("/v1/users/bob/memories?cursor={next}")).await.problem("invalid_argument");
    assert_eq!(at, "cursor", "a cursor is of one space");
}

#[tokio::test]
async fn feedback_strengthens_what_was_used() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "m", "content": "x", "event_time": "2020-01-01T00:00:00Z"}])).await.ok(201);
    let items = json!({"recall_id": "r", "items": [{"id": "m", "outcome": "adopted"}, {"id": "gone", "outcome": "useless"}]});
    let body = api.post("/v1/users/ann/feedback", items).await.ok(200);
    assert_eq!(statuses(&body), ["recorded", "rejected"]);
    assert_eq!(body["results"][1]["code"], "not_found");
    let got = api.get(&format!("{MEMORIES}/m")).await.ok(200);
    assert_eq!((&got["strength"], &got["access_count"]), (&json!(1.5), &json!(1)));
    assert_ne!(got["last_accessed_at"], got["event_time"]);
}
