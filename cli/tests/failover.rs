//! One node of three may stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::time::{Duration, Instant};

/// Longest time without a successful write after a leader is gone.
const OUTAGE_MAX: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_one_node_may_stop() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    // Many users, so that every shard and hence every leader is written to.
    let users: Vec<String> = (0..24).map(|n| format!("user-{n}")).collect();
    for user in &users {
        api.add(user, &["The bicycle is green.", "我住在柏林"]).await;
    }
    for node in 1..=3 {
        let (status, answer) = admin.post(&format!("/admin/v1/nodes/{node}:stop"), &json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let stopped = Instant::now();
        for user in &users {
            // The router retries inside one request; what is measured is what a client waits.
            let begin = Instant::now();
            let fresh = format!("written while node {node} is down");
            let body = json!({ "memories": [{ "content": fresh }] });
            let written = api.ok(&format!("/v1/users/{user}/memories"), &body).await;
            assert!(begin.elapsed() < OUTAGE_MAX, "a write took {:?}", begin.elapsed());
            for consistency in ["session", "linearizable"] {
                let ask = json!({ "query": fresh, "token": written["token"], "consistency": consistency });
                let texts = api.recall(user, &ask).await;
                assert!(texts.contains(&fresh), "{consistency}: a write is not read: {texts:?}");
            }
            let texts = api.recall(user, &json!({ "query": "bicycle colour", "top_k": 3 })).await;
            assert!(texts.contains(&"The bicycle is green.".to_owned()), "{texts:?}");
        }
        println!("node {node} down: {} writes and recalls in {:?}", users.len(), stopped.elapsed());
        let (status, answer) = admin.post(&format!("/admin/v1/nodes/{node}:start"), &json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        // The node catches up before the next one goes: only then is a majority sure to hold all.
        admin.replicas_agree().await;
    }
    for user in &users {
        assert_eq!(api.list(user).await.len(), 5);
    }
    let (status, _) = admin.post("/admin/v1/nodes/9:stop", &json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// Makes what the test below is about.
async fn keep_beside_memories(api: &Api, user: &str) {
    for (path, body) in [
        ("blocks/human", json!({"value": "名字：安"})),
        ("tasks/trip", json!({"goal": "订机票"})),
        ("tasks/short", json!({"goal": "soon over", "ttl_s": 2})),
        ("procedures/greet", json!({"template": "你好 {{name}}"})),
    ] {
        let put = api.request(Method::PUT, &format!("/v1/users/{user}/{path}")).json(&body);
        let (status, answer) = api.send(put).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{path}: {answer}");
    }
    let greet = format!("/v1/users/{user}/procedures/greet");
    api.ok(&format!("{greet}:verify"), &json!({"variables": {"name": "x"}})).await;
    api.ok(&format!("{greet}:activate"), &json!({})).await;
}

/// Changes it, each change twice, as a client does that lost the answer.
async fn change_twice(api: &Api, user: &str, node: u64) {
    let beat = if node == 3 { json!(["silent_steps_3"]) } else { json!([]) };
    for _ in 0..2 {
        for (path, key, body, field, expected) in [
            (
                "blocks/human:insert",
                "edit",
                json!({"text": format!("node {node} 🍵")}),
                "version",
                json!(node + 1),
            ),
            (
                "tasks/trip/steps",
                "step",
                json!({"steps": [{"kind": "tool", "content": format!("node {node}")}]}),
                "heartbeat",
                beat.clone(),
            ),
        ] {
            let change = api.request(Method::POST, &format!("/v1/users/{user}/{path}"));
            let change = change.header("Idempotency-Key", format!("{key}-{node}"));
            let (status, answer) = api.send(change.json(&body)).await.unwrap();
            assert_eq!((status, &answer[field]), (StatusCode::OK, &expected), "{answer}");
        }
    }
}

/// What is kept beside memories is as durable as they are, and a change counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_beside_memories_outlives_any_leader() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    // Many users, so that every node leads some of them.
    let users: Vec<String> = (0..9).map(|n| format!("user-{n}")).collect();
    for user in &users {
        keep_beside_memories(&api, user).await;
    }
    for node in 1..=3 {
        let (status, answer) = admin.post(&format!("/admin/v1/nodes/{node}:stop"), &json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        for user in &users {
            change_twice(&api, user, node).await;
            // Its time is over, whoever leads by now.
            let (mut tries, short) = (0, format!("/v1/users/{user}/tasks/short"));
            while api.get(&short).await.0 != StatusCode::NOT_FOUND {
                tries += 1;
                assert!(tries < 100, "a task outlives its time");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let greet = format!("/v1/users/{user}/procedures/greet:render");
            let rendered = api.ok(&greet, &json!({"variables": {"name": "安"}})).await;
            assert_eq!(rendered["text"], "你好 安");
        }
        let (status, answer) = admin.post(&format!("/admin/v1/nodes/{node}:start"), &json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        admin.replicas_agree().await;
    }
    server.kill();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    for user in &users {
        let (_, block) = api.get(&format!("/v1/users/{user}/blocks/human")).await;
        assert_eq!(block["value"], "名字：安\nnode 1 🍵\nnode 2 🍵\nnode 3 🍵");
        for (path, list, number) in
            [("blocks", "blocks", 1), ("blocks/human/history", "versions", 4), ("tasks", "tasks", 1)]
        {
            let (_, page) = api.get(&format!("/v1/users/{user}/{path}")).await;
            assert_eq!(page[list].as_array().unwrap().len(), number, "{page}");
        }
        let (_, page) = api.get(&format!("/v1/users/{user}/procedures")).await;
        assert_eq!(page["procedures"][0]["active"]["template"], "你好 {{name}}");
        let path = format!("/v1/users/{user}/tasks/trip");
        let end = api.request(Method::DELETE, &path).json(&json!({"outcome": "订好了", "success": true}));
        let (status, ended) = api.send(end).await.unwrap();
        assert_eq!((status, &ended["episode"]["status"]), (StatusCode::OK, &json!("created")), "{ended}");
        assert_eq!(api.get(&path).await.0, StatusCode::NOT_FOUND);
        let found = api.recall(user, &json!({"query": "机票", "kinds": ["episodic"]})).await;
        assert_eq!(found, ["订机票\n订好了\n1. node 1\n2. node 2\n3. node 3"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_acknowledged_and_nothing_is_lost() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    api.add("ann", &["before"]).await;
    for node in [1, 2] {
        admin.post(&format!("/admin/v1/nodes/{node}:stop"), &json!({})).await;
    }
    let body = json!({ "memories": [{ "content": "during" }] });
    let request =
        api.request(reqwest::Method::POST, "/v1/users/ann/memories").header("Idempotency-Key", "during");
    let (status, answer) = api.send(request.json(&body)).await.unwrap();
    assert!(status.is_server_error(), "{status} {answer}");
    let code = answer["code"].as_str().unwrap();
    assert!(["unavailable", "unknown_outcome", "deadline_exceeded"].contains(&code), "{answer}");
    for node in [1, 2] {
        admin.post(&format!("/admin/v1/nodes/{node}:start"), &json!({})).await;
    }
    let request =
        api.request(reqwest::Method::POST, "/v1/users/ann/memories").header("Idempotency-Key", "during");
    let (status, answer) = api.send(request.json(&body)).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let texts: Vec<String> =
        api.list("ann").await.iter().map(|memory| memory["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts, ["before", "during"]);
    admin.replicas_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_disk_of_one_node_loses_nothing_and_does_not_come_back_empty() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let users: Vec<String> = (0..16).map(|n| format!("user-{n}")).collect();
    for user in &users {
        server.api().add(user, &["acknowledged by a majority"]).await;
    }
    // While it runs: the node is stopped, its disk dies, and it must not start.
    let admin = server.admin_api();
    admin.post("/admin/v1/nodes/2:stop", &json!({})).await;
    std::fs::remove_dir_all(data.path().join("node-2")).unwrap();
    let (status, answer) = admin.post("/admin/v1/nodes/2:start", &json!({})).await;
    assert!(status.is_server_error() && answer["detail"].as_str().unwrap().contains("lost"), "{answer}");
    server.kill();
    // And across a start of the whole cluster.
    let server = Server::start(data.path(), Model::Absent);
    for user in &users {
        assert_eq!(server.api().list(user).await.len(), 1);
        server.api().add(user, &["written by two of three"]).await;
    }
    assert!(!data.path().join("node-2").join("identity.json").exists());
    drop(server);
    // Two lost disks of three are a majority: what it acknowledged may be gone, and it says so.
    std::fs::remove_dir_all(data.path().join("node-3")).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("node 3 does not start") && text.contains("lost its disk"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_survives_the_loss_of_any_node() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    let users: Vec<String> = (0..8).map(|n| format!("user-{n}")).collect();
    let talk = "We talked about the garden and the neighbours and the weather for a while. ".repeat(30);
    let say = async |api: &common::Api, user: &str, content: String| {
        let body =
            json!({"turns": [{"role": "user", "content": content}, {"role": "assistant", "content": talk}]});
        api.ok(&format!("/v1/users/{user}/sessions/会话/turns"), &body).await
    };
    for user in &users {
        say(&api, user, format!("{talk} Anna pays 30 euros. 每天吃20毫克。")).await;
    }
    for node in 1..=3 {
        admin.post(&format!("/admin/v1/nodes/{node}:stop"), &json!({})).await;
        for user in &users {
            let said = say(&api, user, format!("node {node} is down")).await;
            let path = format!("/v1/users/{user}/sessions/会话?token={}", said["token"].as_str().unwrap());
            let (status, session) = api.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{session}");
            assert_eq!(session["turns"], 2 + 2 * node);
            let window = session["window"].as_array().unwrap();
            assert_eq!(window[window.len() - 2]["content"], format!("node {node} is down"));
        }
        admin.post(&format!("/admin/v1/nodes/{node}:start"), &json!({})).await;
        admin.replicas_agree().await;
    }
    server.kill();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    for user in &users {
        let (_, session) = api.get(&format!("/v1/users/{user}/sessions/会话")).await;
        assert_eq!((&session["turns"], &session["state"]), (&json!(8), &json!("idle")));
        for words in ["30 euros", "20毫克"] {
            assert!(session["summary"]["text"].as_str().unwrap().contains(words), "{session}");
        }
        let (status, _) = api.delete(&format!("/v1/users/{user}/sessions/会话")).await;
        assert_eq!(status, StatusCode::OK);
        let (status, _) = api.get(&format!("/v1/users/{user}/sessions/会话")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    server.admin_api().replicas_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_jobs_make_of_a_conversation_is_found_and_goes_with_it() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    let users: Vec<String> = (0..6).map(|n| format!("user-{n}")).collect();
    for user in &users {
        let mut turns = vec![json!({"role": "user", "content": "I am allergic to peanuts"})];
        for n in 0..12 {
            turns.push(
                json!({"role": "user", "content": format!("Order CN-A{n} costs {n}0 euros, said Anna.")}),
            );
            turns.push(json!({"role": "assistant", "content": "好的，没问题。"}));
        }
        api.ok(&format!("/v1/users/{user}/sessions/s/turns"), &json!({ "turns": turns })).await;
        api.ok(&format!("/v1/users/{user}/sessions/s:end"), &json!({})).await;
    }
    // A leader may go in the middle: another one goes on, and nothing is made twice.
    admin.post("/admin/v1/nodes/1:stop", &json!({})).await;
    admin.post("/admin/v1/nodes/1:start", &json!({})).await;
    let deadline = Instant::now() + Duration::from_secs(40);
    for user in &users {
        loop {
            let (_, session) = api.get(&format!("/v1/users/{user}/sessions/s")).await;
            if session["condensed"] == 25 && session["promoted"] == 25 {
                break;
            }
            assert!(Instant::now() < deadline, "{session}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let memories = api.list(user).await;
        let of_one_turn = |memory: &&serde_json::Value| memory["role"] == "user";
        assert_eq!(memories.iter().filter(of_one_turn).count(), 13, "each important turn once");
        let episodes: Vec<_> = memories.iter().filter(|memory| memory["role"].is_null()).collect();
        assert_eq!(episodes.len(), 3);
        assert!(episodes[0]["content"].as_str().unwrap().contains("CN-A3"), "{}", episodes[0]);
        assert_eq!(episodes[0]["derived_from"], json!(["turn:s#1-10"]));
        let texts = api.recall(user, &json!({"query": "peanuts allergic", "top_k": 1})).await;
        assert!(texts[0].contains("allergic to peanuts"), "{texts:?}");
        let (_, facts) = api.get(&format!("/v1/users/{user}/facts")).await;
        let allergies = facts["facts"].as_array().unwrap().iter().filter(|fact| fact["object"] == "peanuts");
        assert_eq!(allergies.count(), 1, "{facts}");
        // What was made of turns that a context shows is not told twice.
        let ask = json!({"query": "What does order CN-A11 cost?", "session": "s", "budget_tokens": 2000});
        let (status, context) = api.post(&format!("/v1/users/{user}/context"), &ask).await;
        assert_eq!(status, StatusCode::OK, "{context}");
        assert_eq!(context["text"].as_str().unwrap().matches("Order CN-A11 costs").count(), 1, "{context}");
        let left = context["left_out"].as_array().unwrap();
        let by_session = |left: &&serde_json::Value| left["reason"] == "superseded_by_session";
        assert!(left.iter().filter(by_session).any(|left| left["by"] == "turn:s#24"), "{context}");
    }
    let path = format!("/v1/users/{}/sessions/s", users[0]);
    let (status, answer) = api.delete(&path).await;
    assert_eq!((status, &answer["status"]), (StatusCode::OK, &json!("deleted")));
    assert_eq!(api.list(&users[0]).await.len(), 0, "what was made of it went too");
    assert_eq!(api.list(&users[1]).await.len(), 16);
    admin.replicas_agree().await;
}
