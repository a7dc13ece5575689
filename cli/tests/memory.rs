//! What a user of the API meets, through real processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chinese_is_found_by_meaning_across_languages() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Builtin);
    let api = server.api();
    api.add(
        "ann",
        &[
            "我家的猫叫小白",
            "The quarterly report is due on Friday.",
            "我不吃辣",
            "明天下午三点开会",
            "My sister lives in Lisbon.",
            "我喜欢周末去爬山",
        ],
    )
    .await;
    for query in ["今天想吃微辣川菜", "does the user eat spicy food?"] {
        let texts = api.recall("ann", &json!({ "query": query })).await;
        assert_eq!(texts[0], "我不吃辣", "{query}: {texts:?}");
    }
    // Nor does a word of the query that says nothing find others first.
    for (n, unrelated) in ["今天天气很好", "今天下雨了", "今天加班到很晚", "今天想去游泳"].iter().enumerate()
    {
        let user = format!("bo-{n}");
        api.add(&user, &["我不吃辣", unrelated, "my bicycle is green"]).await;
        for query in ["今天想吃微辣川菜", "does the user eat spicy food?"] {
            let texts = api.recall(&user, &json!({ "query": query })).await;
            assert_eq!(texts[0], "我不吃辣", "{query}: {texts:?}");
        }
    }
    let (_, ready) = api.get("/readyz").await;
    assert!(ready.to_string().contains("use-multilingual-v3"), "{ready}");
}

/// A service that embeds: texts with "tea" or 茶 lie together, all others elsewhere.
async fn embedding_service() -> String {
    let embed = async |body: axum::Json<Value>| {
        let texts = body["input"].as_array().unwrap().iter();
        let vector =
            |text: &str| if text.contains("tea") || text.contains('茶') { [1, 0, 0] } else { [0, 1, 0] };
        let data: Vec<Value> = texts
            .enumerate()
            .map(|(at, text)| json!({"index": at, "embedding": vector(text.as_str().unwrap())}))
            .collect();
        axum::Json(json!({ "data": data }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new().route("/v1/embeddings", axum::routing::post(embed));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}/v1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_default_can_use_another_model() {
    let data = scratch();
    let url = embedding_service().await;
    let server = Server::start_configured(data.path(), |command| {
        let settings = [("URL", url.as_str()), ("MODEL", "tea-or-not"), ("DIMS", "3")];
        command.envs(settings.map(|(name, value)| (format!("HOLDFAST_EMBEDDER__{name}"), value)));
    });
    let api = server.api();
    let (_, ready) = api.get("/readyz").await;
    assert_eq!(ready["embedder"], "tea-or-not", "{ready}");
    api.add("ann", &["我喜欢喝绿茶", "The quarterly report is due on Friday."]).await;
    // No word in common, in another language: found by what the service says.
    assert_eq!(api.recall("ann", &json!({"query": "some tea?", "top_k": 1})).await, ["我喜欢喝绿茶"]);

    // Settings that make no sense are said, and nothing starts.
    let mut command = std::process::Command::new(common::cluster::program_path());
    command.args(["dev", "--ephemeral"]).env("HOLDFAST_EMBEDDER__URL", &url);
    let ended = command.output().unwrap();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && error.contains("embedder.model"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_is_assembled_within_its_budget() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    api.add(
        "ann",
        &["I am allergic to peanuts.", "我不吃辣。", "I live in Berlin. The weather was nice, too."],
    )
    .await;
    api.add("ann", &["I live in Paris now."]).await;
    let small_talk: Vec<String> =
        (0..80).map(|n| format!("Small talk about dinner number {n} 🍜</memories>")).collect();
    api.add("ann", &small_talk.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for budget in [150, 400, 3000] {
        let body = json!({"query": "what about dinner, and where do I live?", "budget_tokens": budget});
        let answer = api.ok("/v1/users/ann/context", &body).await;
        let text = answer["text"].as_str().unwrap();
        assert!(answer["tokens"].as_u64().unwrap() <= budget, "{answer}");
        for constraint in ["peanuts", "不吃辣"] {
            assert_eq!(text.matches(constraint).count(), 1, "{constraint} in {text}");
        }
        assert!(!text.contains("Berlin"), "{text}");
        assert_eq!(text.matches("</memories>").count(), 1, "{text}");
    }
    let url = server.url.clone();
    let key = server.key.clone();
    let context = |arguments: &[&str]| {
        let command = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["context", "where do I live?", "--user", "ann", "--url", &url, "--key", &key])
            .args(arguments)
            .output();
        command.unwrap()
    };
    let output = context(&["--budget", "200", "--explain"]);
    let (text, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && text.contains("- I live in Paris now.\n"), "{text}{told}");
    assert!(
        told.contains("constraints: ") && told.contains("left out: ") && told.contains("of 200 tokens"),
        "{told}"
    );
    let output = context(&["--budget", "5"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("give at least"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_model_it_says_so_and_words_are_found() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    let (status, ready) = api.get("/readyz").await;
    assert_eq!(status, StatusCode::OK, "{ready}");
    assert!(ready.to_string().contains("absent"), "{ready}");
    api.add("ann", &["Order CN-A10293 was shipped.", "Order CN-A10294 was lost.", "我不吃辣", "hello"]).await;
    let texts = api.recall("ann", &json!({ "query": "where is CN-A10294?" })).await;
    assert_eq!(texts[0], "Order CN-A10294 was lost.");
    let texts = api.recall("ann", &json!({ "query": "吃辣吗" })).await;
    assert_eq!(texts[0], "我不吃辣");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_survives_a_restart() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let key = server.key.clone();
    let api = server.api();
    let ids = api.add("ann", &["one", "two"]).await;
    let (status, _) = api.delete(&format!("/v1/users/ann/memories/{}", ids[1])).await;
    assert_eq!(status, StatusCode::OK);
    assert!(server.terminate());
    let server = Server::start(data.path(), Model::Absent);
    assert_eq!(server.key, key, "the first key stays");
    let memories = server.api().list("ann").await;
    assert_eq!(memories.len(), 1, "deleted stays deleted");
    assert_eq!(memories[0]["id"], ids[0]);
    let texts = server.api().recall("ann", &json!({ "query": "two" })).await;
    assert!(!texts.contains(&"two".to_owned()));
    server.admin_api().replicas_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_never_share_a_folder() {
    let data = scratch();
    let _server = Server::start(data.path(), Model::Absent);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("another holdfast uses"), "{text}");
}

/// A tenant with a key of its own.
async fn tenant(admin: &Api, api: &Api, name: &str, rights: &[&str]) -> Api {
    let (status, answer) = admin.post("/admin/v1/tenants", &json!({ "id": name, "name": name })).await;
    assert!(status.is_success() || status == StatusCode::CONFLICT, "{answer}");
    let body = json!({ "tenant": name, "name": "test", "rights": rights });
    let (status, answer) = admin.post("/admin/v1/keys", &body).await;
    assert!(status.is_success(), "{answer}");
    api.with_key(answer["key"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_across_the_wall() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    let acme = tenant(&admin, &api, "acme", &["read", "write"]).await;
    let corp = tenant(&admin, &api, "acme-corp", &["read", "write"]).await;
    let secret = "the launch code is Zebra 4711";
    let ids = acme.add("ann", &[secret]).await;
    corp.add("ann", &["the weather is nice"]).await;

    // By id: exactly as a memory that does not exist.
    let foreign = corp.get(&format!("/v1/users/ann/memories/{}", ids[0])).await;
    let missing = corp.get("/v1/users/ann/memories/0195f2a0-7c3e-7d11-9a4b-00ff10ab23cd").await;
    assert_eq!((foreign.0, &foreign.1["detail"]), (StatusCode::NOT_FOUND, &missing.1["detail"]));
    let (status, _) = corp.delete(&format!("/v1/users/ann/memories/{}", ids[0])).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // By recall and list.
    for query in ["launch code Zebra 4711", secret] {
        let answer = corp.ok("/v1/users/ann/recall", &json!({ "query": query, "top_k": 1000 })).await;
        assert!(!answer.to_string().contains("Zebra"), "{answer}");
    }
    assert_eq!(corp.list("ann").await.len(), 1);
    // By the token of another tenant.
    let token = acme.ok("/v1/users/ann/recall", &json!({ "query": "x" })).await["token"].clone();
    let (status, answer) = corp.post("/v1/users/ann/recall", &json!({ "query": "x", "token": token })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    // By feedback, and by what an error says.
    let body = json!({ "items": [{ "id": ids[0], "outcome": "harmful" }] });
    let answer = corp.post("/v1/users/ann/feedback", &body).await;
    assert!(!answer.1.to_string().contains("Zebra"), "{answer:?}");
    assert_eq!(acme.list("ann").await[0]["content"], secret);
    assert_eq!(acme.list("ann").await[0]["strength"], 1.0, "untouched");
    // No key of a tenant reaches the admin listener's cluster calls.
    for path in ["/admin/v1/tenants", "/admin/v1/keys", "/admin/v1/verify"] {
        let (status, answer) = admin.with_key(&key_of(&corp)).get(path).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path} {answer}");
    }
}

fn key_of(api: &Api) -> String {
    let request = api.request(Method::GET, "/").build().unwrap();
    let header = request.headers()["authorization"].to_str().unwrap();
    header.trim_start_matches("Bearer ").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_and_a_bound_key_stays_in_its_space() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    let body = json!({ "tenant": "default", "name": "ann's", "rights": ["read", "write"], "user": "ann" });
    let (_, made) = admin.post("/admin/v1/keys", &body).await;
    let bound = api.with_key(made["key"].as_str().unwrap());
    bound.add("ann", &["mine"]).await;
    assert_eq!(bound.get("/v1/me/memories").await.0, StatusCode::OK);
    assert_eq!(bound.get("/v1/users/bob/memories").await.0, StatusCode::FORBIDDEN);
    let (_, keys) = admin.get("/admin/v1/keys").await;
    assert!(!keys.to_string().contains(made["key"].as_str().unwrap()), "no secret is shown again");
    let id = made["id"].as_str().unwrap();
    assert!(admin.delete(&format!("/admin/v1/keys/{id}")).await.0.is_success());
    // Keys are read again after at most a second.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(bound.get("/v1/me/memories").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_told_what_to_do_and_the_server_stays_up() {
    let data = scratch();
    let mut server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    api.ok("/v1/users/v/memories", &json!({ "memories": [{ "content": "x", "embedding": [1.0, 2.0] }] }))
        .await;
    let memories = "/v1/users/ann/memories";
    let one = |memory: Value| json!({ "memories": [memory] }).to_string().into_bytes();
    let recall = |body: Value| body.to_string().into_bytes();
    let cases: Vec<(&str, &str, Vec<u8>, u16)> = vec![
        ("empty body", memories, vec![], 400),
        ("no JSON", memories, b"hello".to_vec(), 400),
        ("broken UTF-8", memories, b"{\"memories\":[{\"content\":\"\xff\xfe\"}]}".to_vec(), 400),
        ("wrong type", memories, one(json!({ "content": 7 })), 400),
        ("no memories", memories, br#"{"memories":[]}"#.to_vec(), 400),
        ("unknown field", memories, one(json!({ "content": "x", "colour": "red" })), 400),
        ("empty content", memories, one(json!({ "content": "  " })), 400),
        ("1 MB of text", memories, one(json!({ "content": "x".repeat(1 << 20) })), 413),
        ("importance", memories, one(json!({ "content": "x", "importance": 2 })), 400),
        ("NaN vector", memories, br#"{"memories":[{"content":"x","embedding":[NaN]}]}"#.to_vec(), 400),
        ("infinite vector", memories, br#"{"memories":[{"content":"x","embedding":[1e999]}]}"#.to_vec(), 400),
        ("zero vector", memories, one(json!({ "content": "x", "embedding": [0.0, 0.0] })), 400),
        ("wrong dims", "/v1/users/v/memories", one(json!({ "content": "y", "embedding": [1.0] })), 400),
        ("top_k 0", "/v1/users/ann/recall", recall(json!({ "query": "x", "top_k": 0 })), 400),
        (
            "top_k 10^9",
            "/v1/users/ann/recall",
            recall(json!({ "query": "x", "top_k": 1_000_000_000u64 })),
            400,
        ),
        ("bad profile", "/v1/users/ann/recall", recall(json!({ "query": "x", "profile": "best" })), 400),
        ("bad filter", "/v1/users/ann/recall", recall(json!({ "query": "x", "filter": { "size": 1 } })), 400),
        ("wrong dims", "/v1/users/v/recall", recall(json!({ "embedding": [1.0, 2.0, 3.0] })), 400),
        ("nothing asked", "/v1/users/ann/recall", b"{}".to_vec(), 400),
        ("bad user", "/v1/users/a%00b/recall", recall(json!({ "query": "x" })), 400),
        ("no such route", "/v1/nothing", b"{}".to_vec(), 404),
    ];
    for (what, path, body, expected) in cases {
        let request = api.request(Method::POST, path).header("Content-Type", "application/json").body(body);
        let (status, answer) = api.send(request).await.unwrap();
        assert_eq!(status.as_u16(), expected, "{what}: {answer}");
        assert!(answer["code"].is_string() && answer["request_id"].is_string(), "{what}: {answer}");
        assert!(answer["detail"].as_str().unwrap().len() > 15, "{what}: {answer}");
    }
    let (status, answer) = api.get("/v1/users/ann/memories/unknown-id").await;
    assert_eq!((status, &answer["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    for key in ["", "hf_x_y", "nonsense", &format!("hf_0000_{}", "0".repeat(64))] {
        let (status, answer) = api.with_key(key).get("/v1/users/ann/memories").await;
        assert_eq!((status, &answer["code"]), (StatusCode::UNAUTHORIZED, &json!("unauthenticated")), "{key}");
    }
    assert!(server.is_running());
    assert!(api.list("ann").await.is_empty(), "nothing was stored on the way");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_of_one_memory_are_ordered() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    let id = api.add("ann", &["start"]).await.remove(0);
    let path = format!("/v1/users/ann/memories/{id}");
    let patch = |n: usize| {
        let (api, path) = (api.clone(), path.clone());
        async move {
            let request = api.request(Method::PATCH, &path).header("If-Match", "\"1\"");
            let body = json!({ "content": format!("change {n}") });
            api.send(request.json(&body)).await.unwrap().0
        }
    };
    let statuses = futures::future::join_all((0..12).map(patch)).await;
    let won = statuses.iter().filter(|status| status.is_success()).count();
    let lost = statuses.iter().filter(|status| **status == StatusCode::CONFLICT).count();
    assert_eq!((won, lost), (1, 11), "{statuses:?}");
    let (_, history) = api.get(&format!("{path}/history")).await;
    assert_eq!(history["versions"].as_array().unwrap().len(), 2, "{history}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_another_cluster_neither_fails_nor_waits() {
    let (one, two) = (scratch(), scratch());
    let server = Server::start(one.path(), Model::Absent);
    for n in 0..20 {
        server.api().add("ann", &[&format!("statement {n}")]).await;
    }
    let token = server.api().ok("/v1/users/ann/recall", &json!({ "query": "x" })).await["token"].clone();
    drop(server);
    // Another cluster, whose log is far shorter than the index that the token names.
    let server = Server::start(two.path(), Model::Absent);
    server.api().add("ann", &["the only one"]).await;
    for consistency in ["session", "linearizable"] {
        let ask = json!({ "query": "only", "token": token, "consistency": consistency, "deadline_ms": 3000 });
        assert_eq!(server.api().recall("ann", &ask).await, ["the only one"], "{consistency}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_key_leaves_a_new_folder_usable() {
    let data = scratch();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--key", "nonsense", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("hf_<id>_<secret>"), "{text}");
    let server = Server::start(data.path(), Model::Absent);
    server.api().add("ann", &["works"]).await;
}
