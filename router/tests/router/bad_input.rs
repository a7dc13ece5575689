//! Whatever a caller sends: a clear error, and a server that stays up.

use crate::common::{Options, World};
use serde_json::{Value, json};
use std::time::Duration;

const MEMORIES: &str = "/v1/users/ann/memories";
const RECALL: &str = "/v1/users/ann/recall";

// A table of cases.
#[allow(clippy::too_many_lines)]
#[tokio::test]
async fn odd_bodies_are_refused_with_a_sentence() {
    let world = World::start().await;
    let api = world.api();
    let one = |memory: Value| json!({ "memories": [memory] }).to_string().into_bytes();
    let raw = |text: &str| text.as_bytes().to_vec();
    let nan = "AADAfw=="; // base64 of the f32 NaN
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        (MEMORIES, raw(""), "invalid_argument", ""),
        (MEMORIES, raw("null"), "invalid_argument", ""),
        (MEMORIES, raw("[]"), "invalid_argument", ""),
        (MEMORIES, raw("{\"memories\": [{\"content\": \"a\"}"), "invalid_argument", ""),
        (
            MEMORIES,
            raw("{\"memories\": [{\"content\": \"\\ud800\"}]}"),
            "invalid_argument",
            "memories[0].content",
        ),
        (MEMORIES, b"{\"memories\": [{\"content\": \"\xff\xfe\"}]}".to_vec(), "invalid_argument", ""),
        (MEMORIES, raw("{}"), "invalid_argument", "memories"),
        (MEMORIES, raw("{\"memories\": []}"), "invalid_argument", "memories"),
        (MEMORIES, raw("{\"memories\": {}}"), "invalid_argument", "memories"),
        (MEMORIES, one(json!({"content": "a", "unknown": 1})), "invalid_argument", "memories[0].unknown"),
        (MEMORIES, one(json!({"content": ["a"]})), "invalid_argument", "memories[0].content"),
        (MEMORIES, one(json!({"content": "x".repeat(1024 * 1024)})), "too_large", "memories[0].content"),
        (
            MEMORIES,
            one(json!({"content": "a", "embedding": []})),
            "invalid_argument",
            "memories[0].embedding",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "embedding": [0, 0, 0]})),
            "invalid_argument",
            "memories[0].embedding",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "embedding": vec![1; 4097]})),
            "invalid_argument",
            "memories[0].embedding",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "embedding": nan})),
            "invalid_argument",
            "memories[0].embedding",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "embedding": "not base64!"})),
            "invalid_argument",
            "memories[0].embedding",
        ),
        (
            MEMORIES,
            raw("{\"memories\": [{\"content\": \"a\", \"embedding\": [NaN]}]}"),
            "invalid_argument",
            "",
        ),
        (
            MEMORIES,
            raw("{\"memories\": [{\"content\": \"a\", \"importance\": 1e999}]}"),
            "invalid_argument",
            "memories[0].importance",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "importance": 2})),
            "invalid_argument",
            "memories[0].importance",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "event_time": "gestern"})),
            "invalid_argument",
            "memories[0].event_time",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "expires_at": "9999-12-31T23:59:59Z"})),
            "invalid_argument",
            "memories[0].expires_at",
        ),
        (MEMORIES, one(json!(["a"])), "invalid_argument", "memories[0]"),
        (
            MEMORIES,
            one(json!({"content": "a", "fact": ["a", "b", "c"]})),
            "invalid_argument",
            "memories[0].fact",
        ),
        (
            MEMORIES,
            one(json!({"content": "a", "source": ["file:a", []]})),
            "invalid_argument",
            "memories[0].source",
        ),
        (RECALL, raw("{\"query\": \"q\", \"weights\": [1, 0, 0, 0]}"), "invalid_argument", "weights"),
        (RECALL, raw("{\"query\": \"q\", \"as_of\": []}"), "invalid_argument", "as_of"),
        (RECALL, raw("{\"query\": \"q\", \"situation\": [\"mobile\"]}"), "invalid_argument", "situation"),
        (RECALL, raw(""), "invalid_argument", ""),
        (RECALL, raw("{\"query\": \"q\", \"top_k\": 0}"), "invalid_argument", "top_k"),
        (RECALL, raw("{\"query\": \"q\", \"top_k\": 1000000000}"), "invalid_argument", "top_k"),
        (RECALL, raw("{\"query\": \"q\", \"top_k\": 1e9}"), "invalid_argument", "top_k"),
        (RECALL, raw("{\"query\": 7}"), "invalid_argument", "query"),
        (RECALL, raw("{\"query\": \"q\", \"query\": \"r\"}"), "invalid_argument", "query"),
        (RECALL, raw("{\"query\": \"q\", \"token\": \"zzzz\"}"), "invalid_argument", "token"),
        (
            RECALL,
            raw("{\"query\": \"q\", \"consistency\": \"bounded\"}"),
            "invalid_argument",
            "max_staleness_ms",
        ),
        (
            "/v1/users/ann/feedback",
            raw("{\"items\": [{\"id\": \"x\", \"outcome\": \"loved\"}]}"),
            "invalid_argument",
            "items[0].outcome",
        ),
    ];
    for (path, body, code, field) in cases {
        let shown = String::from_utf8_lossy(&body).chars().take(70).collect::<String>();
        let reply = api.send("POST", path, &[("content-type", "application/json")], body).await;
        let (at, detail) = reply.problem(code);
        assert!(field.is_empty() || at == field, "{shown}: {at}: {detail}");
        assert!(!detail.contains(" at line ") || detail.contains("JSON"), "{detail}");
    }
    api.add(json!([{"content": "still up"}])).await.ok(201);
}

#[tokio::test]
async fn the_envelope_of_a_request_is_checked() {
    let world = World::start().await;
    let api = world.api();
    let body = || json!({"memories": [{"content": "a"}]}).to_string().into_bytes();
    let (field, _) = api
        .send("POST", MEMORIES, &[("content-type", "text/plain")], body())
        .await
        .problem("invalid_argument");
    assert_eq!(field, "Content-Type");
    let (field, _) =
        api.send("POST", MEMORIES, &[("idempotency-key", "")], body()).await.problem("invalid_argument");
    assert_eq!(field, "Idempotency-Key");
    let (field, _) = api
        .patch(&format!("{MEMORIES}/x"), &[("if-match", "1")], json!({"pinned": true}))
        .await
        .problem("invalid_argument");
    assert_eq!(field, "If-Match");
    let huge = format!("{{\"memories\": [{{\"content\": \"{}\"}}]}}", "x".repeat(17 * 1024 * 1024));
    api.send("POST", MEMORIES, &[], huge.into_bytes()).await.problem("too_large");
    let reply = api.send("PUT", MEMORIES, &[], body()).await;
    assert_eq!(reply.status, 405);
    reply.problem("invalid_argument");
    api.get("/v1/nothing").await.problem("not_found");
    let page = api.get("/docs/errors/too_large").await;
    assert!(page.body.as_str().unwrap().starts_with("# `too_large`"), "the type of a problem is a page");
    api.get("/docs/errors/none").await.problem("not_found");
    api.get("/v2/users/ann/memories").await.problem("not_found");
    let (_, detail) = api.get("/v1/collections/products/memories").await.problem("not_found");
    assert!(detail.contains("collections"), "{detail}");
}

#[tokio::test]
async fn a_time_that_is_too_late_is_told_so() {
    let world = World::start().await;
    let late = json!([{"content": "a", "expires_at": "9999-12-31T23:59:59Z"}]);
    let (field, detail) = world.api().add(late).await.problem("invalid_argument");
    assert_eq!(field, "memories[0].expires_at");
    assert!(detail.contains("9999-12-30T22:00:00.000000Z") && !detail.contains("RFC"), "{detail}");
    let last = json!([{"content": "b", "expires_at": "9999-12-30T22:00:00Z"}]);
    world.api().add(last).await.ok(201);
}

#[tokio::test]
async fn reads_without_parameters_take_none() {
    let world = World::start().await;
    let (api, operator) = (world.api(), world.operator());
    api.put("/v1/collections/kb", json!({})).await.ok(201);
    for (api, path) in [
        (&api, "/v1/collections"),
        (&api, "/v1/collections/kb"),
        (&operator, "/admin/v1/tenants"),
        (&operator, "/admin/v1/tenants/acme"),
        (&operator, "/admin/v1/tenants/acme/fact-rules"),
        (&operator, "/admin/v1/nodes"),
        (&operator, "/admin/v1/cluster"),
    ] {
        api.get(path).await.ok(200);
        let (field, detail) = api.get(&format!("{path}?limit=5")).await.problem("invalid_argument");
        assert_eq!(field, "limit", "{path}: {detail}");
        api.get(&format!("{path}?")).await.ok(200);
    }
}

#[tokio::test]
async fn odd_ids_in_paths_are_refused_or_plainly_absent() {
    let world = World::start().await;
    let api = world.api();
    for (path, code) in [
        (format!("{MEMORIES}/a%00b"), "invalid_argument"),
        (format!("{MEMORIES}/a%0Ab"), "invalid_argument"),
        (format!("{MEMORIES}/%FF"), "invalid_argument"),
        (format!("{MEMORIES}/{}", "x".repeat(257)), "invalid_argument"),
        ("/v1/users/a%00b/memories/x".to_owned(), "invalid_argument"),
        (format!("/v1/users/{}/memories/x", "é".repeat(129)), "invalid_argument"),
        (format!("{MEMORIES}/%2E%2E%2Fetc%2Fpasswd"), "not_found"),
        (format!("{MEMORIES}/%25"), "not_found"),
        (format!("{MEMORIES}/_"), "not_found"),
        (format!("{MEMORIES}/*"), "not_found"),
    ] {
        api.get(&path).await.problem(code);
    }
}

#[tokio::test]
async fn a_full_router_says_so_and_when_to_come_back() {
    let world =
        World::with(Options { change: |config| config.in_flight_max = 0, ..Options::default() }).await;
    let reply = world.api().recall(json!({"query": "q"})).await;
    reply.problem("overloaded");
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(world.api().get("/healthz").await.status, 200, "health has no such bound");
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let change =
        |config: &mut holdfast_router::RouterConfig| config.body_timeout = Duration::from_millis(100);
    let world = World::with(Options { change, ..Options::default() }).await;
    let mut stream = tokio::net::TcpStream::connect(world.http).await.unwrap();
    let head = format!(
        "POST {RECALL} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        world.key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("deadline_exceeded"), "{answer}");
}

/// A request whose body never arrives.
async fn stalled(world: &World) -> tokio::net::TcpStream {
    use tokio::io::AsyncWriteExt;
    let mut stream = tokio::net::TcpStream::connect(world.http).await.unwrap();
    let head = format!(
        "POST {RECALL} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 2000\r\n\r\n{{",
        world.key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn slow_senders_keep_nobody_out_and_their_bodies_are_bounded() {
    let world =
        World::with(Options { change: |config| config.in_flight_max = 2, ..Options::default() }).await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(stalled(&world).await);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.api().recall(json!({"query": "q"})).await.status, 200, "they hold no place");

    let few = |config: &mut holdfast_router::RouterConfig| config.body_bytes_max = 4 * 1024;
    let world = World::with(Options { change: few, ..Options::default() }).await;
    let streams = [stalled(&world).await, stalled(&world).await];
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.api().recall(json!({"query": "q"})).await.problem("overloaded");
    drop(streams);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.api().recall(json!({"query": "q"})).await.status, 200, "what they held is free again");
}

/// What nobody reads is refused before anything is done: it may be what was to keep a memory.
#[tokio::test]
async fn what_changes_takes_no_parameters_in_its_address() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "我不吃辣"}])).await.ok(201);
    for path in ["/v1/users/ann?dry_run=true", "/v1/users/ann/memories/a?dry_run"] {
        let (field, detail) = api.delete(path).await.problem("invalid_argument");
        assert_eq!(field, "dry_run");
        assert!(detail.contains("leave \"dry_run\" out"), "{detail}");
    }
    // Nor on the listener for operators, where more is at stake.
    for path in ["/admin/v1/tenants/acme?dry_run=true", "/admin/v1/keys/k?dry_run"] {
        assert_eq!(world.operator().delete(path).await.problem("invalid_argument").0, "dry_run");
    }
    let (field, _) =
        api.post("/v1/users/ann/recall?top_k=1", json!({"query": "辣"})).await.problem("invalid_argument");
    assert_eq!(field, "top_k");
    let whole = api.post("/v1/users/ann/erasures", json!([true, null, null, null, null])).await;
    assert!(whole.problem("invalid_argument").1.contains("send a JSON object"));
    api.get("/v1/users/ann/memories/a").await.ok(200);
}
