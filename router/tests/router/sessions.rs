//! Short-term memory through the public interface.

use crate::common::node::Fault;
use crate::common::{TENANT, World};
use holdfast_core::access::Rights;
use holdfast_router::new_api_key;
use serde_json::{Value, json};

const SESSIONS: &str = "/v1/users/ann/sessions";

fn turn(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

async fn say(world: &World, session: &str, turns: Value) -> Value {
    world.api().post(&format!("{SESSIONS}/{session}/turns"), json!({ "turns": turns })).await.ok(201)
}

async fn read(world: &World, session: &str) -> Value {
    world.api().get(&format!("{SESSIONS}/{session}")).await.ok(200)
}

fn contents(turns: &Value) -> Vec<&str> {
    turns.as_array().unwrap().iter().map(|turn| turn["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_conversation_has_a_window_a_summary_and_a_state() {
    let world = World::start().await;
    let long = "We talked about the weather and the garden and the neighbours for a while. ".repeat(40);
    let answer = say(&world, "monday", json!([
        {"role": "user", "content": "Room 512 is booked for Anna on May 3.", "pinned": true, "tags": ["hotel"]},
        turn("user", &format!("{long}我每天吃20毫克的药。")),
        turn("assistant", &format!("{long}That costs 30 euros.")),
    ])).await;
    assert_eq!(
        answer["results"],
        json!([
            {"turn": 1, "status": "recorded"}, {"turn": 2, "status": "recorded"}, {"turn": 3, "status": "recorded"}
        ])
    );
    for n in 0..4 {
        say(&world, "monday", json!([turn("user", &format!("{long}And so on, {n}."))])).await;
    }
    say(&world, "monday", json!([turn("assistant", "Do you want to go on?")])).await;
    let session = read(&world, "monday").await;
    let window = session["window"].as_array().unwrap();
    assert!((3..=5).contains(&window.len()), "{}", window.len());
    assert_eq!(window.last().unwrap()["content"], "Do you want to go on?");
    assert_eq!(
        (&session["turns"], &session["state"], &session["version"]),
        (&json!(8), &json!("waiting"), &json!(6))
    );
    assert_eq!(session["last_system_act"], "ask");
    assert_eq!(contents(&session["pinned"]), ["Room 512 is booked for Anna on May 3."]);
    assert_eq!(
        (&session["pinned"][0]["tags"], &session["pinned"][0]["entities"]),
        (&json!(["hotel"]), &json!(["Anna"]))
    );
    let summary = &session["summary"];
    let first = window[0]["turn"].as_u64().unwrap();
    assert_eq!(summary["through"].as_u64(), Some(first - 1), "window and summary meet");
    for words in ["20毫克", "30 euros"] {
        assert!(summary["text"].as_str().unwrap().contains(words), "{summary}");
    }
    assert!(!summary["text"].as_str().unwrap().contains("512"), "pinned turns stand for themselves");
    assert!(summary["tokens"].as_u64().unwrap() < session["tokens"].as_u64().unwrap() / 2);

    // Short turns: more of them.
    for n in 0..30 {
        say(&world, "short", json!([turn("user", &format!("ok {n}"))])).await;
    }
    assert_eq!(read(&world, "short").await["window"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn the_dialogue_state_takes_legal_steps_only() {
    let world = World::start().await;
    let api = world.api();
    let path = format!("{SESSIONS}/s");
    api.patch(&path, &[], json!({"state": "waiting"})).await.problem("not_found");
    say(&world, "s", json!([turn("user", "Please book a table for two.")])).await;
    let session = read(&world, "s").await;
    assert_eq!((&session["state"], &session["intent"]), (&json!("processing"), &json!("request")));
    let body = json!({"state": "responding", "intent": "book_table", "slots": {"people": 2, "城市": "北京"},
        "confirmed_facts": ["table for two"], "last_system_act": "offer"});
    let changed = api.patch(&path, &[("if-match", "\"1\"")], body).await;
    assert_eq!(changed.header("etag"), "\"2\"");
    changed.ok(200);
    let (_, detail) =
        api.patch(&path, &[("if-match", "\"1\"")], json!({"intent": "x"})).await.problem("conflict");
    assert!(detail.contains("version 2"), "{detail}");
    api.patch(&path, &[], json!({"state": "idle"})).await.ok(200);
    let (field, detail) = api.patch(&path, &[], json!({"state": "waiting"})).await.problem("conflict");
    assert!(field == "state" && detail.contains("processing"), "{detail}");
    let (field, _) = api.patch(&path, &[], json!({"state": "sleeping"})).await.problem("invalid_argument");
    assert_eq!(field, "state");
    api.patch(&path, &[], json!({"slots": {"people": null}, "intent": null})).await.ok(200);
    let session = read(&world, "s").await;
    assert_eq!((&session["slots"], &session["intent"]), (&json!({"城市": "北京"}), &Value::Null));
    assert_eq!(session["confirmed_facts"], json!(["table for two"]));
    for bad in [json!({"slots": {"": 1}}), json!({"slots": {"a": "长".repeat(500)}}), json!({"stage": "x"})]
    {
        assert!(api.patch(&path, &[], bad).await.status >= 400);
    }
}

#[tokio::test]
async fn an_ended_session_takes_no_more_turns() {
    let world = World::start().await;
    let api = world.api();
    say(&world, "s:1", json!([turn("user", "hi")])).await;
    let ended = api.post(&format!("{SESSIONS}/s:1:end"), json!({})).await.ok(200);
    assert_eq!((&ended["id"], &ended["status"]), (&json!("s:1"), &json!("ended")));
    let more = api.post(&format!("{SESSIONS}/s:1/turns"), json!({"turns": [turn("user", "x")]})).await;
    more.problem("conflict");
    assert!(read(&world, "s:1").await["ended_at"].is_string());
    for path in ["s:1", "s:1:begin", "other:end"] {
        api.post(&format!("{SESSIONS}/{path}"), json!({})).await.problem("not_found");
    }
    // An id counts without what stands behind it.
    let longest = "s".repeat(256);
    say(&world, &longest, json!([turn("user", "hi")])).await;
    api.post(&format!("{SESSIONS}/{longest}:end"), json!({})).await.ok(200);
    for path in [":end".to_owned(), format!("{longest}s:end")] {
        let (field, _) = api.post(&format!("{SESSIONS}/{path}"), json!({})).await.problem("invalid_argument");
        assert_eq!(field, "id");
    }
}

#[tokio::test]
async fn sessions_and_turns_are_listed_page_by_page() {
    let world = World::start().await;
    let api = world.api();
    assert_eq!(api.get(SESSIONS).await.ok(200)["sessions"], json!([]));
    for session in ["a", "b", "会话"] {
        say(&world, session, json!([turn("user", "one"), turn("assistant", "two"), turn("user", "three")]))
            .await;
    }
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{SESSIONS}?limit=2{cursor}")).await.ok(200);
        ids.extend(page["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()));
        assert!(page["sessions"][0].get("window").is_none());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(ids, ["a", "b", "会话"]);
    let page = api.get(&format!("{SESSIONS}/a/turns?limit=2")).await.ok(200);
    assert_eq!(contents(&page["turns"]), ["one", "two"]);
    let next = page["next_cursor"].as_str().unwrap();
    let page = api.get(&format!("{SESSIONS}/a/turns?limit=2&cursor={next}")).await.ok(200);
    assert_eq!((contents(&page["turns"]), page.get("next_cursor")), (vec!["three"], None));
    for bad in ["?limit=0", "?limit=1001", "?cursor=%F0", "?depth=1"] {
        api.get(&format!("{SESSIONS}{bad}")).await.problem("invalid_argument");
        api.get(&format!("{SESSIONS}/a/turns{bad}")).await.problem("invalid_argument");
    }
    api.get(&format!("{SESSIONS}/none/turns")).await.problem("not_found");
    api.get(&format!("{SESSIONS}/none")).await.problem("not_found");
}

#[tokio::test]
async fn a_deleted_session_is_gone_however_long_it_was() {
    let world = World::start().await;
    let api = world.api();
    let many = vec![turn("user", "说"); 100];
    for _ in 0..6 {
        say(&world, "s", json!(many)).await;
    }
    say(&world, "other", json!([turn("user", "stays")])).await;
    api.send("DELETE", &format!("{SESSIONS}/s"), &[("if-match", "\"1\"")], vec![]).await.problem("conflict");
    let deleted = api.delete(&format!("{SESSIONS}/s")).await.ok(200);
    assert_eq!(deleted["status"], "deleted");
    api.get(&format!("{SESSIONS}/s")).await.problem("not_found");
    api.delete(&format!("{SESSIONS}/s")).await.problem("not_found");
    assert_eq!(read(&world, "other").await["turns"], 1);
    say(&world, "s", json!([turn("user", "a new one")])).await;
    assert_eq!(read(&world, "s").await["turns"], 1);
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_happens_once() {
    let world = World::start().await;
    world.is_ready().await;
    world.fault(1, Fault::LoseAnswer);
    let answer = say(&world, "s", json!([turn("user", "once"), turn("user", "twice")])).await;
    assert_eq!(answer["results"][1]["turn"], 2);
    assert_eq!(read(&world, "s").await["turns"], 2);
    let key = [("idempotency-key", "k")];
    let body = json!({"turns": [turn("user", "again")]}).to_string().into_bytes();
    let path = format!("{SESSIONS}/s/turns");
    let first = world.api().send("POST", &path, &key, body.clone()).await.ok(201);
    let second = world.api().send("POST", &path, &key, body).await.ok(201);
    assert_eq!((&first["results"][0]["turn"], &second["results"][0]["turn"]), (&json!(3), &json!(3)));
    assert_eq!(read(&world, "s").await["turns"], 3);
}

#[tokio::test]
async fn the_filter_and_the_answers_of_tools() {
    let world = World::start().await;
    let api = world.api();
    let output = json!({"city": "Ulm", "temp": 21, "raw": vec![1; 500]});
    let body = json!({"sensory": {"min_importance": 0.25}, "turns": [
        {"role": "user", "content": "ok"},
        {"role": "tool", "tool": {"name": "weather", "output": output, "keep": ["$.city", "$.temp"]}},
        {"role": "tool", "tool": {"name": "天气", "output": {"城市": "北京", "温度": 21}}},
    ]});
    let answer = api.post(&format!("{SESSIONS}/s/turns"), body).await.ok(201);
    assert_eq!(answer["results"][0]["status"], "rejected");
    assert!(answer["results"][0]["reason"].as_str().unwrap().contains("min_importance"));
    let window = read(&world, "s").await["window"].clone();
    assert_eq!(window[0]["tool"], json!({"name": "weather", "output": r#"{"city":"Ulm","temp":21}"#}));
    assert_eq!(window[1]["tool"]["output"], "天气：城市 北京, 温度 21。");
    let nothing = json!({"sensory": {"min_importance": 1}, "turns": [turn("user", "ok")]});
    let answer = api.post(&format!("{SESSIONS}/new/turns"), nothing).await.ok(201);
    assert_eq!(answer["results"][0]["status"], "rejected");
    api.get(&format!("{SESSIONS}/new")).await.problem("not_found");
    for (body, field) in [
        (json!({"turns": []}), "turns"),
        (json!({"turns": [turn("user", "")]}), "turns[0].content"),
        (
            json!({"turns": [{"role": "tool", "tool": {"name": "t", "output": {}, "keep": ["$.["]}}]}),
            "turns[0].tool.keep[0]",
        ),
        (json!({"turns": [turn("user", "x")], "sensory": {"min_importance": 2}}), "sensory.min_importance"),
        (json!({"turns": [turn("user", "x")], "session": "s"}), "session"),
    ] {
        let (found, _) = api.post(&format!("{SESSIONS}/s/turns"), body).await.problem("invalid_argument");
        assert_eq!(found, field);
    }
}

#[tokio::test]
async fn nobody_reads_or_writes_across_the_wall() {
    let world = World::start().await;
    say(&world, "s", json!([turn("user", "secret of ann")])).await;
    let (bo, row) = new_api_key(TENANT, Some("bo"), Rights::ALL, "bo", None);
    let create = holdfast_core::command::MetaCommand::CreateKey(row);
    world.cluster.apply(0, &holdfast_core::command::Command::Meta(Box::new(create)));
    let bo = world.api().with_key(&bo);
    for path in ["", "/s", "/s/turns"] {
        bo.get(&format!("{SESSIONS}{path}")).await.problem("permission_denied");
    }
    bo.post(&format!("{SESSIONS}/s/turns"), json!({"turns": [turn("user", "x")]}))
        .await
        .problem("permission_denied");
    bo.delete(&format!("{SESSIONS}/s")).await.problem("permission_denied");
    bo.get("/v1/me/sessions/s").await.problem("not_found");
    assert_eq!(bo.get("/v1/users/bo/sessions").await.ok(200)["sessions"], json!([]));
}
