//! Long contents, and what the filter does to new memories.

use crate::common::api::Api;
use crate::common::{Letters, Moody, Options, World};
use holdfast_models::{EmbedError, Embedder, ModelProfile};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn english(middle: &str) -> String {
    let talk = "We walked along the river and talked about the weather for a long time. ".repeat(40);
    format!("{talk}\n\n{middle}\n\n{talk}")
}

fn chinese(middle: &str) -> String {
    let talk = "我们沿着河边散步，聊了很久的天气和花园。".repeat(40);
    format!("{talk}\n\n{middle}\n\n{talk}")
}

async fn texts(api: &Api, body: Value) -> Vec<String> {
    let found = api.recall(body).await.ok(200);
    let results = found["results"].as_array().unwrap();
    results.iter().map(|hit| hit["memory"]["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn recall_answers_the_chunk_and_names_the_whole() {
    for (content, part, query) in [
        (english("The password of the vault is zebra-7."), "zebra-7", "password vault"),
        (chinese("保险柜的密码是斑马七号。"), "斑马七号", "保险柜密码"),
    ] {
        let world = World::start().await;
        let api = world.api();
        let added =
            api.add(json!([{"content": content, "session": "s", "metadata": {"a": 1}}])).await.ok(201);
        let id = added["results"][0]["id"].as_str().unwrap().to_owned();
        let found = api.recall(json!({"query": query, "top_k": 1})).await.ok(200);
        let hit = &found["results"][0];
        assert_eq!(hit["chunk_of"], json!(id));
        let text = hit["memory"]["content"].as_str().unwrap();
        assert!(text.contains(part) && text.len() < content.len() / 2, "{text}");
        assert_eq!(hit["memory"]["derived_from"], json!([id]));
        assert_eq!((&hit["memory"]["session"], &hit["memory"]["metadata"]), (&json!("s"), &json!({"a": 1})));
        assert!(
            !texts(&api, json!({"query": query, "top_k": 100})).await.contains(&content),
            "not the whole"
        );
        assert_eq!(api.get(&format!("/v1/users/ann/memories/{id}")).await.ok(200)["content"], content);

        // The same text again is the same memory, with the chunks that it has.
        let again = api.add(json!([{"content": content, "session": "s"}])).await.ok(201);
        assert_eq!(
            (&again["results"][0]["status"], &again["results"][0]["id"]),
            (&json!("merged"), &json!(id))
        );
        let before = found["scored"].clone();
        assert_eq!(api.recall(json!({"query": query})).await.ok(200)["scored"], before);

        let chunk = format!("/v1/users/ann/memories/{}", hit["memory"]["id"].as_str().unwrap());
        for refused in [api.delete(&chunk).await, api.patch(&chunk, &[], json!({"pinned": true})).await] {
            let (_, detail) = refused.problem("conflict");
            assert!(detail.contains(&id), "{detail}");
        }
        // A new text has new chunks; a short one has none.
        let whole = format!("/v1/users/ann/memories/{id}");
        api.patch(&whole, &[], json!({"pinned": true})).await.ok(200);
        let found = api.recall(json!({"query": query, "top_k": 1})).await.ok(200);
        assert_eq!(found["results"][0]["memory"]["pinned"], true);
        api.patch(&whole, &[], json!({"content": "short now"})).await.ok(200);
        assert_eq!(texts(&api, json!({"query": query, "top_k": 100})).await, ["short now"]);
        api.patch(&whole, &[], json!({"content": content})).await.ok(200);
        assert!(texts(&api, json!({"query": query, "top_k": 1})).await[0].contains(part));
        api.delete(&whole).await.ok(200);
        assert_eq!(texts(&api, json!({"query": query, "top_k": 100})).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn facts_in_a_long_content_are_found_once() {
    for content in [english("I live in Berlin."), chinese("我住在北京。")] {
        let world = World::start().await;
        let api = world.api();
        api.add(json!([{ "content": content }])).await.ok(201);
        let facts = api.get("/v1/users/ann/facts").await.ok(200);
        assert_eq!(facts["facts"].as_array().unwrap().len(), 1, "{facts}");
    }
}

#[tokio::test]
async fn a_failing_model_names_the_chunk_and_nothing_is_stored() {
    let moody = Arc::new(Moody::default());
    let world = World::with(Options { embedder: Some(moody.clone()), ..Options::default() }).await;
    let api = world.api();
    moody.fails.store(true, Ordering::SeqCst);
    let body = json!([{"content": "short"}, {"content": english("This is the moody part.")}]);
    let (field, detail) = api.add(body.clone()).await.problem("unavailable");
    assert!(field.starts_with("memories[1].chunks["), "{field}");
    assert!(detail.contains("chunk"), "{detail}");
    assert_eq!(api.get("/v1/users/ann/memories").await.ok(200)["memories"], json!([]));
    moody.fails.store(false, Ordering::SeqCst);
    api.add(body).await.ok(201);
    let found = api.recall(json!({"query": "moody part", "top_k": 1})).await.ok(200);
    assert!(found["results"][0]["parts"]["cosine"].is_number(), "chunks have vectors");
}

#[tokio::test]
async fn long_contents_that_stay_whole_and_those_at_the_limit() {
    let world = World::start().await;
    let api = world.api();
    let fact = json!({"subject": "Ann", "predicate": "wrote", "object": "a book"});
    let own = english("own vector");
    api.add(json!([{"content": own, "embedding": [1, 0]}])).await.ok(201);
    api.add(json!([{"content": english("stated"), "fact": fact}])).await.ok(201);
    let found = api.recall(json!({"query": "river"})).await.ok(200);
    assert_eq!(found["results"].as_array().unwrap().len(), 2);
    assert!(found["results"].as_array().unwrap().iter().all(|hit| hit.get("chunk_of").is_none()));
    for content in ["词".repeat(21_845), "x ".repeat(32_768), "🙂".repeat(16_384)] {
        api.add(json!([{ "content": content }])).await.ok(201);
    }
    let (field, _) = api.add(json!([{"content": "长".repeat(21_846)}])).await.problem("too_large");
    assert_eq!(field, "memories[0].content");
    let many: Vec<Value> =
        (0..8).map(|n| json!({"content": format!("{n}{}", "词".repeat(21_000))})).collect();
    api.add(json!(many)).await.problem("too_large");
    let body = json!({"partial": true, "memories": many});
    let added = api.post("/v1/users/ann/memories", body).await.ok(201);
    assert!(added["results"].as_array().unwrap().iter().all(|item| item["status"] == "created"));
}

#[tokio::test]
async fn raw_json_is_no_memory_unless_it_is_meant() {
    let world = World::start().await;
    let api = world.api();
    let raw = json!({"temp": 21, "city": "Ulm"}).to_string();
    let (field, detail) = api.add(json!([{"content": raw}])).await.problem("invalid_argument");
    assert!(field == "memories[0].content" && detail.contains("raw_json"), "{detail}");
    api.add(json!([{"content": raw, "raw_json": true}])).await.ok(201);
    let body =
        json!({"partial": true, "memories": [{"content": "[1, 2]"}, {"content": "It is 21 degrees [sic]."}]});
    let results = api.post("/v1/users/ann/memories", body).await.ok(201)["results"].clone();
    assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!("rejected"), &json!("created")));
}

#[tokio::test]
async fn the_filter_leaves_out_and_shortens() {
    let world = World::start().await;
    let api = world.api();
    let long = format!("{}The bill was 300 euros.", "It was a nice evening. ".repeat(60));
    let body = json!({"sensory": {"min_importance": 0.3, "max_tokens": 20}, "memories": [
        {"content": "Hello! Thanks!"}, {"content": long}, {"content": "I like tea"}]});
    let results = api.post("/v1/users/ann/memories", body).await.ok(201)["results"].clone();
    assert_eq!(
        (&results[0]["status"], &results[0]["field"]),
        (&json!("rejected"), &json!("memories[0].importance"))
    );
    assert_eq!((&results[1]["status"], &results[2]["status"]), (&json!("created"), &json!("created")));
    let found = texts(&api, json!({"query": "bill euros", "top_k": 1})).await;
    assert!(found[0].contains("300 euros") && found[0].len() < 150, "{found:?}");
    let bad = json!({"sensory": {"max_tokens": 0}, "memories": [{"content": "x"}]});
    let (field, _) = api.post("/v1/users/ann/memories", bad).await.problem("invalid_argument");
    assert_eq!(field, "sensory.max_tokens");
}

/// [`Letters`] that counts how often it is called, and for how many texts.
#[derive(Default)]
struct Counting {
    calls: AtomicUsize,
    texts: AtomicUsize,
}

impl Embedder for Counting {
    fn model_id(&self) -> &str {
        Letters.model_id()
    }
    fn dims(&self) -> usize {
        Letters.dims()
    }
    fn profile(&self) -> ModelProfile {
        Letters.profile()
    }
    fn accepts(&self, text: &str) -> bool {
        Letters.accepts(text)
    }
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        Letters.embed(texts)
    }
}

/// However long a text is, the model is asked once for each of its chunks, and they are told.
#[tokio::test]
async fn a_long_text_costs_a_bounded_number_of_calls() {
    let counting = Arc::new(Counting::default());
    let world = World::with(Options { embedder: Some(counting.clone()), ..Options::default() }).await;
    let api = world.api();
    let talk = "We walked along the river and talked about the weather for a long time. ";
    for characters in [10_000, 60_000] {
        let content = format!("{characters}: {}", talk.repeat(characters / talk.len()));
        let before = (counting.calls.load(Ordering::SeqCst), counting.texts.load(Ordering::SeqCst));
        let added = api.add(json!([{ "content": content }])).await.ok(201);
        assert_eq!(added["results"][0]["status"], "created");
        let calls = counting.calls.load(Ordering::SeqCst) - before.0;
        let texts = counting.texts.load(Ordering::SeqCst) - before.1;
        // A chunk has at least a few hundred characters, and the model takes several at a time.
        assert!((1..=characters / 500).contains(&texts), "{characters}: {texts} texts");
        assert!((1..=texts).contains(&calls), "{characters}: {calls} calls");
        // Once more it is known by its text.
        let again = api.add(json!([{ "content": content }])).await.ok(201);
        assert_eq!(again["results"][0]["status"], "merged");
    }
}
