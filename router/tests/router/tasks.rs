//! Working memory through the public interface.

use crate::common::World;
use crate::common::api::Api;
use crate::common::node::Fault;
use serde_json::{Value, json};

const TASKS: &str = "/v1/users/ann/tasks";

fn path(id: &str) -> String {
    format!("{TASKS}/{id}")
}

async fn task(api: &Api, id: &str) -> Value {
    api.get(&path(id)).await.ok(200)
}

async fn step(api: &Api, id: &str, kinds: &[&str]) -> Value {
    let steps: Vec<Value> = kinds.iter().map(|kind| json!({"kind": kind, "content": "…"})).collect();
    api.post(&path(&format!("{id}/steps")), json!({ "steps": steps })).await.ok(200)
}

async fn end(api: &Api, id: &str, headers: &[(&str, &str)], body: Value) -> Value {
    api.send("DELETE", &path(id), headers, body.to_string().into_bytes()).await.ok(200)
}

#[tokio::test]
async fn a_task_is_planned_worked_on_and_becomes_an_episode() {
    let world = World::start().await;
    let api = world.api();
    let body = json!({"goal": "订去柏林的机票", "plan": ["find a flight", {"text": "pay", "status": "open"}],
                      "session": "s1", "ttl_s": 3600});
    let made = api.put(&path("trip"), body).await;
    assert_eq!(made.header("etag"), "\"1\"");
    assert_eq!(made.ok(201)["status"], "created");
    let body = json!({
        "steps": [
            {"kind": "thought", "content": "first look for flights"},
            {"kind": "tool", "tool": "search", "content": "Berlin, May 3", "success": true},
            {"kind": "observation", "tool": "search", "content": "3 个航班 🛫"},
        ],
        "plan": [{"mark": "done", "at": 0}, {"push": "tell the user"}, {"pop": true}],
    });
    let went_on = api.post(&path("trip/steps"), body).await.ok(200);
    assert_eq!((&went_on["version"], &went_on["heartbeat"]), (&json!(2), &json!([])));
    api.put(&path("trip/variables"), json!({"variables": {"city": "柏林", "seats": 2, "gone": null}}))
        .await
        .ok(200);
    let read = task(&api, "trip").await;
    assert_eq!(
        read["plan"],
        json!([{"text": "find a flight", "status": "done"}, {"text": "pay", "status": "open"}])
    );
    assert_eq!(read["variables"], json!({"city": "柏林", "seats": 2}));
    assert_eq!(read["steps"].as_array().unwrap().len(), 3);
    assert_eq!((&read["steps"][1]["n"], &read["steps"][1]["tool"]), (&json!(2), &json!("search")));
    assert_eq!(
        (&read["steps_total"], &read["steps_dropped"], &read["silent_steps"]),
        (&json!(3), &json!(0), &json!(1))
    );

    let listed = api.get(TASKS).await.ok(200);
    assert_eq!(listed["tasks"][0]["goal"], "订去柏林的机票");
    assert!(listed["tasks"][0].get("steps").is_none());

    let body = json!({"outcome": "两张票已订好", "success": true, "sentiment": "positive"});
    let ended = end(&api, "trip", &[], body).await;
    assert_eq!((&ended["status"], &ended["episode"]["status"]), (&json!("deleted"), &json!("created")));
    api.get(&path("trip")).await.problem("not_found");
    let memory = format!("/v1/users/ann/memories/{}", ended["episode"]["id"].as_str().unwrap());
    let memory = api.get(&memory).await.ok(200);
    assert_eq!(
        (&memory["kind"], &memory["session"], &memory["sentiment"]),
        (&json!("episodic"), &json!("s1"), &json!("positive"))
    );
    let text = memory["content"].as_str().unwrap();
    assert!(
        text.starts_with("订去柏林的机票\n两张票已订好\n") && text.contains("✓ [search] Berlin, May 3"),
        "{text}"
    );
    let numbers = &memory["metadata"];
    assert_eq!(
        (&numbers["success"], &numbers["steps"], &numbers["tools"]),
        (&json!(true), &json!(3), &json!(["search"]))
    );
    assert!(numbers["duration_s"].is_u64());
    let found = api.recall(json!({"query": "柏林 机票", "kinds": ["episodic"]})).await.ok(200);
    assert_eq!(found["results"][0]["memory"]["id"], ended["episode"]["id"]);
}

#[tokio::test]
async fn three_silent_calls_of_tools_are_told() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("t"), json!({})).await.ok(201);
    assert_eq!(step(&api, "t", &["tool", "observation", "tool"]).await["heartbeat"], json!([]));
    assert_eq!(step(&api, "t", &["tool"]).await["heartbeat"], json!(["silent_steps_3"]));
    assert_eq!(task(&api, "t").await["heartbeat"], json!(["silent_steps_3"]));
    let set = api.put(&path("t/variables"), json!({"variables": {"x": 1}})).await.ok(200);
    assert_eq!(set["heartbeat"], json!(["silent_steps_3"]), "until something is said");
    assert_eq!(step(&api, "t", &["message"]).await["heartbeat"], json!([]));
}

#[tokio::test]
async fn a_step_and_an_end_happen_once_however_often_they_are_sent() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("t"), json!({"goal": "tidy up"})).await.ok(201);
    world.fault(1, Fault::LoseAnswer);
    for _ in 0..2 {
        let body = json!({"steps": [{"kind": "tool", "content": "once"}]}).to_string().into_bytes();
        let sent = api.send("POST", &path("t/steps"), &[("idempotency-key", "step")], body).await.ok(200);
        assert_eq!(sent["version"], 2);
    }
    assert_eq!(task(&api, "t").await["steps_total"], 1);
    world.fault(1, Fault::LoseAnswer);
    let body = json!({"outcome": "tidy", "success": true});
    let first = end(&api, "t", &[("idempotency-key", "end")], body.clone()).await;
    let again = end(&api, "t", &[("idempotency-key", "end")], body).await;
    assert_eq!(first["episode"], again["episode"]);
    let all = api.get("/v1/users/ann/memories").await.ok(200);
    assert_eq!(all["memories"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_end_takes_in_the_steps_that_come_at_the_same_moment() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("t"), json!({"goal": "race"})).await.ok(201);
    let steps = (0..10).map(|_| {
        let api = api.clone();
        tokio::spawn(async move {
            let body = json!({"steps": [{"kind": "tool", "content": "x"}]});
            api.post(&path("t/steps"), body).await.status
        })
    });
    let steps: Vec<_> = steps.collect();
    let ended = end(&api, "t", &[], json!({"outcome": "over"})).await;
    let mut counted = 0;
    for step in steps {
        counted += u64::from(step.await.unwrap() == 200);
    }
    let memory = format!("/v1/users/ann/memories/{}", ended["episode"]["id"].as_str().unwrap());
    let memory = api.get(&memory).await.ok(200);
    assert_eq!(memory["metadata"]["steps"], counted, "each is in the episode, or was refused");
}

#[tokio::test]
async fn what_is_wrong_with_a_task_is_told() {
    let world = World::start().await;
    let api = world.api();
    api.put(&path("t"), json!({"plan": ["one"]})).await.ok(201);
    for (call, body, code, field) in [
        ("t/steps", json!({}), "invalid_argument", "steps"),
        (
            "t/steps",
            json!({"steps": [{"kind": "dream", "content": ""}]}),
            "invalid_argument",
            "steps[0].kind",
        ),
        (
            "t/steps",
            json!({"steps": [{"kind": "tool", "content": "x".repeat(16_385)}]}),
            "too_large",
            "steps[0].content",
        ),
        ("t/steps", json!({"plan": [{"pop": true}, {"pop": true}]}), "conflict", "plan[1]"),
        ("t/steps", json!({"plan": [{"mark": "done", "at": 7}]}), "conflict", "plan[0]"),
        ("none/steps", json!({"plan": [{"pop": true}]}), "not_found", "id"),
    ] {
        let (named, _) = api.post(&path(call), body).await.problem(code);
        assert_eq!(named, field, "{call}");
    }
    for (call, body, code, field) in [
        ("t", json!({"ttl_s": 0}), "invalid_argument", "ttl_s"),
        ("t", json!({"ttl_s": 3_000_000}), "invalid_argument", "ttl_s"),
        ("t", json!({"plan": [" "]}), "invalid_argument", "plan"),
        ("t/variables", json!({"variables": {}}), "invalid_argument", "variables"),
        ("t/variables", json!({"variables": {"v": "x".repeat(70_000)}}), "too_large", "variables"),
        ("none/variables", json!({"variables": {"v": 1}}), "not_found", "id"),
    ] {
        let (named, _) = api.put(&path(call), body).await.problem(code);
        assert_eq!(named, field, "{call}");
    }
    let delete = async |id: &str, headers: &[(&str, &str)], body: Value| {
        api.send("DELETE", &path(id), headers, body.to_string().into_bytes()).await
    };
    for (body, field) in [
        (json!({"success": true}), "outcome"),
        (json!({"outcome": ""}), "outcome"),
        (json!({"outcome": "x", "importance": 2}), "importance"),
        (json!({"result": "x"}), "result"),
    ] {
        let (named, _) = delete("t", &[], body).await.problem("invalid_argument");
        assert_eq!(named, field);
    }
    delete("none", &[], json!({"outcome": "x"})).await.problem("not_found");
    let (field, _) = delete("t", &[("if-match", "\"9\"")], json!({"outcome": "x"})).await.problem("conflict");
    assert_eq!(field, "version");
    assert_eq!(task(&api, "t").await["plan"].as_array().unwrap().len(), 1, "nothing was changed");
    let gone = api.delete(&path("t")).await.ok(200);
    assert!(gone.get("episode").is_none());
    assert_eq!(api.get("/v1/users/ann/memories").await.ok(200)["memories"], json!([]));
}
