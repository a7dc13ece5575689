//! Core blocks through the public interface.

use crate::common::api::Api;
use crate::common::node::Fault;
use crate::common::{TENANT, World};
use holdfast_core::access::Rights;
use serde_json::{Value, json};

const BLOCKS: &str = "/v1/users/ann/blocks";

fn path(label: &str) -> String {
    format!("{BLOCKS}/{label}")
}

async fn value(api: &Api, label: &str) -> String {
    api.get(&path(label)).await.ok(200)["value"].as_str().unwrap().to_owned()
}

/// A key of this tenant without the right to administrate.
async fn agent(world: &World) -> Api {
    let body = json!({"tenant": TENANT, "rights": ["read", "write"], "name": "agent"});
    let made = world.operator().post("/admin/v1/keys", body).await.ok(201);
    world.api().with_key(made["key"].as_str().unwrap())
}

#[tokio::test]
async fn an_agent_keeps_a_block_up_to_date() {
    let world = World::start().await;
    let api = world.api();
    let made = api.put(&path("human"), json!({"value": "名字：安", "description": "about the user"})).await;
    assert_eq!((made.header("etag"), made.headers.contains_key("holdfast-token")), ("\"1\"", true));
    let made = made.ok(201);
    assert_eq!(
        (&made["label"], &made["version"], &made["status"]),
        (&json!("human"), &json!(1), &json!("created"))
    );
    for (action, body, expected) in [
        ("insert", json!({"text": "likes tea 🍵"}), "名字：安\nlikes tea 🍵"),
        ("insert", json!({"text": "# 用户", "line": 0}), "# 用户\n名字：安\nlikes tea 🍵"),
        ("replace", json!({"old": "tea 🍵", "new": "coffee"}), "# 用户\n名字：安\nlikes coffee"),
        (
            "patch",
            json!({"patch": "@@ -2 +2 @@\n-名字：安\n+名字：小安\n"}),
            "# 用户\n名字：小安\nlikes coffee",
        ),
        ("rethink", json!({"value": "Ann, likes coffee"}), "Ann, likes coffee"),
    ] {
        let edited = api.post(&path(&format!("human:{action}")), body).await.ok(200);
        assert_eq!(edited["status"], "updated", "{action}");
        assert_eq!(value(&api, "human").await, expected, "{action}");
    }
    // Settings change, and what is not named stays.
    api.put(&path("human"), json!({"limit_chars": 50})).await.ok(200);
    let got = api.get(&path("human")).await;
    assert_eq!(got.header("etag"), "\"7\"");
    let got = got.ok(200);
    assert_eq!(
        (&got["value"], &got["description"], &got["limit_chars"], &got["chars"], &got["read_only"]),
        (&json!("Ann, likes coffee"), &json!("about the user"), &json!(50), &json!(17), &json!(false))
    );
    let versions = api.get(&path("human/history")).await.ok(200)["versions"].clone();
    let versions: Vec<_> = versions.as_array().unwrap().iter().map(|one| one["version"].clone()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7]);

    api.put(&path("人物"), json!({})).await.ok(201);
    let listed = api.get(BLOCKS).await.ok(200);
    let labels: Vec<_> =
        listed["blocks"].as_array().unwrap().iter().map(|one| one["label"].clone()).collect();
    assert_eq!(labels, ["human", "人物"]);
    assert!(api.get("/v1/users/bob/blocks").await.ok(200)["blocks"].as_array().unwrap().is_empty());

    let gone = api.delete(&path("human")).await.ok(200);
    assert_eq!(gone["status"], "deleted");
    api.get(&path("human")).await.problem("not_found");
    api.get(&path("human/history")).await.problem("not_found");
    api.delete(&path("human")).await.problem("not_found");
}

#[tokio::test]
async fn only_one_of_two_that_read_the_same_version_writes() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("b"), json!({"value": "0\n"})).await.ok(201);
    let send = async |method: &str, path: String, tag: &str, body: Value| {
        // A deletion has none.
        let body = if method == "DELETE" { Vec::new() } else { body.to_string().into_bytes() };
        api.send(method, &path, &[("if-match", tag)], body).await
    };
    let calls = [
        ("PUT", path("b"), json!({"value": "1"})),
        ("POST", path("b:rethink"), json!({"value": "1"})),
        ("POST", path("b:insert"), json!({"text": "1"})),
        ("POST", path("b:replace"), json!({"old": "0", "new": "1"})),
        ("POST", path("b:patch"), json!({"patch": "@@ -1 +1 @@\n-0\n+1\n"})),
        ("DELETE", path("b"), json!({})),
    ];
    for (method, path, body) in calls {
        let (field, _) = send(method, path.clone(), "\"7\"", body).await.problem("conflict");
        assert_eq!(field, "version", "{method} {path}");
    }
    assert_eq!(
        send("POST", path("b:patch"), "\"1\"", json!({"patch": "@@ -1 +1 @@\n-0\n+1\n"})).await.status,
        200
    );
    assert_eq!(value(&api, "b").await, "1\n");

    // Many at once, each on what is there: nothing is lost.
    let writers = (0..12).map(|n| {
        let api = api.clone();
        tokio::spawn(async move {
            let (action, body) = match n % 2 {
                0 => ("insert", json!({"text": format!("line {n}")})),
                _ => ("patch", json!({"patch": format!("@@ -1 +1,2 @@\n 1\n+line {n}\n")})),
            };
            api.post(&path(&format!("b:{action}")), body).await.ok(200);
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let text = value(&api, "b").await;
    for n in 0..12 {
        assert_eq!(text.lines().filter(|line| *line == format!("line {n}")).count(), 1, "{text}");
    }
}

#[tokio::test]
async fn an_edit_happens_once_however_often_it_is_sent() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("b"), json!({"value": "tea\n"})).await.ok(201);
    for (action, body) in [
        ("insert", json!({"text": "milk"})),
        ("replace", json!({"old": "tea", "new": "coffee"})),
        ("patch", json!({"patch": "@@ -1 +1 @@\n-coffee\n+water\n"})),
    ] {
        world.fault(1, Fault::LoseAnswer);
        let mut versions = Vec::new();
        for _ in 0..2 {
            let headers = [("idempotency-key", action)];
            let body = body.to_string().into_bytes();
            let reply = api.send("POST", &path(&format!("b:{action}")), &headers, body).await.ok(200);
            versions.push(reply["version"].clone());
        }
        assert_eq!(versions[0], versions[1], "{action}");
    }
    assert_eq!(value(&api, "b").await, "water\nmilk");
}

#[tokio::test]
async fn a_read_only_block_needs_an_administrator() {
    let world = World::start().await;
    let (admin, agent) = (world.api(), agent(&world).await);
    agent.put(&path("rules"), json!({"value": "x", "read_only": true})).await.problem("permission_denied");
    admin.put(&path("rules"), json!({"value": "be kind", "read_only": true})).await.ok(201);
    for (action, body) in [
        ("insert", json!({"text": "x"})),
        ("replace", json!({"old": "kind", "new": "rude"})),
        ("rethink", json!({"value": "x"})),
        ("patch", json!({"patch": "@@ -1 +1 @@\n-be kind\n+x\n"})),
    ] {
        let (field, _) =
            agent.post(&path(&format!("rules:{action}")), body).await.problem("permission_denied");
        assert_eq!(field, "read_only");
    }
    agent.put(&path("rules"), json!({"read_only": false})).await.problem("permission_denied");
    agent.delete(&path("rules")).await.problem("permission_denied");
    assert_eq!(value(&agent, "rules").await, "be kind");
    admin.post(&path("rules:rethink"), json!({"value": "be kind and brief"})).await.ok(200);
    assert_eq!(value(&agent, "rules").await, "be kind and brief");
}

#[tokio::test]
async fn what_is_wrong_with_an_edit_is_told() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("b"), json!({"value": "tea, tea", "limit_chars": 10})).await.ok(201);
    let long = "字".repeat(22_000);
    for (call, body, code, field, said) in [
        ("b:replace", json!({"old": "tea", "new": "x"}), "conflict", "old", "2 matches"),
        ("b:replace", json!({"old": "milk", "new": "x"}), "conflict", "old", "0 matches"),
        ("b:replace", json!({"old": "", "new": "x"}), "invalid_argument", "old", "empty"),
        ("b:replace", json!({"old": "x"}), "invalid_argument", "new", "missing"),
        ("b:insert", json!({"text": "", "line": 0}), "invalid_argument", "text", "empty"),
        ("b:insert", json!({"text": "a", "line": 2}), "invalid_argument", "line", "has 1 lines"),
        ("b:insert", json!({"text": "a", "line": -1}), "invalid_argument", "line", ""),
        ("b:insert", json!({"text": "coffee"}), "too_large", "value", "limit is 10"),
        ("b:rethink", json!({"value": "一二三四五六七八九十🙂"}), "too_large", "value", "11 characters"),
        ("b:rethink", json!({"value": long}), "too_large", "value", "65536"),
        ("b:patch", json!({"patch": "@@ -1 +1 @@\n-milk\n+x\n"}), "conflict", "patch", "hunk #1"),
        ("b:patch", json!({"patch": "put milk first"}), "invalid_argument", "patch", "unified diff"),
        ("b:patch", json!({"patch": "x".repeat(300_000)}), "too_large", "patch", "300000"),
        ("none:insert", json!({"text": "a"}), "not_found", "label", "PUT"),
        ("none:patch", json!({"patch": "@@ -1 +1 @@\n-a\n+b\n"}), "not_found", "label", ""),
        ("b:forget", json!({}), "not_found", "", ":rethink"),
        ("b", json!({}), "not_found", "", ":rethink"),
        ("%00:insert", json!({"text": "a"}), "invalid_argument", "id", ""),
    ] {
        let (named, detail) = api.post(&path(call), body).await.problem(code);
        assert_eq!(named, field, "{call}: {detail}");
        assert!(detail.contains(said), "{call}: {detail}");
    }
    for (body, field) in [
        (json!({"limit_chars": 0}), "limit_chars"),
        (json!({"limit_chars": 70_000}), "limit_chars"),
        (json!({"limit": 7}), "limit"),
        (json!({"value": 7}), "value"),
    ] {
        let (named, _) = api.put(&path("b"), body).await.problem("invalid_argument");
        assert_eq!(named, field);
    }
    assert_eq!(value(&api, "b").await, "tea, tea");
}

#[tokio::test]
async fn blocks_stand_behind_the_wall() {
    let world = World::start().await;
    world.api().put(&path("secret"), json!({"value": "x"})).await.ok(201);
    let (key, row) = holdfast_router::new_api_key(TENANT, Some("bob"), Rights::ALL, "bob", None);
    let create = holdfast_core::command::MetaCommand::CreateKey(row);
    world.cluster.apply(0, &holdfast_core::command::Command::Meta(Box::new(create)));
    let bob = world.api().with_key(&key);
    bob.get(BLOCKS).await.problem("permission_denied");
    bob.get(&path("secret")).await.problem("permission_denied");
    bob.post(&path("secret:rethink"), json!({"value": "y"})).await.problem("permission_denied");
    bob.get("/v1/me/blocks/secret").await.problem("not_found");
    bob.put("/v1/me/blocks/own", json!({"value": "y"})).await.ok(201);
}
