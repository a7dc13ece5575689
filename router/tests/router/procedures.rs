//! Procedural memory through the public interface.

use crate::common::World;
use crate::common::api::Api;
use serde_json::{Value, json};

const PROCEDURES: &str = "/v1/users/ann/procedures";

fn path(name: &str) -> String {
    format!("{PROCEDURES}/{name}")
}

async fn act(api: &Api, call: &str, body: Value) -> Value {
    api.post(&path(call), body).await.ok(200)
}

#[tokio::test]
async fn a_template_is_verified_activated_rendered_and_rolled_back() {
    let world = World::start().await;
    let api = world.api();
    let made = api
        .put(
            &path("greet"),
            json!({"template": "你好 {{name}}，欢迎来{{city}}", "description": "a greeting"}),
        )
        .await;
    assert_eq!(made.header("etag"), "\"1\"");
    assert_eq!(made.ok(201)["version"], 1);
    let (field, _) = api.post(&path("greet:activate"), json!({"version": 1})).await.problem("conflict");
    assert_eq!(field, "version");
    let (field, detail) = api
        .post(&path("greet:verify"), json!({"variables": {"name": "安"}}))
        .await
        .problem("invalid_argument");
    assert_eq!(field, "variables.city");
    assert!(detail.contains("city"), "{detail}");
    act(&api, "greet:verify", json!({"variables": {"name": "安", "city": "柏林"}})).await;
    assert_eq!(act(&api, "greet:activate", json!({})).await["version"], 1);

    let put = api.put(&path("greet"), json!({"template": "Hi {{name}}"})).await.ok(201);
    assert_eq!(put["version"], 2);
    let render = json!({"variables": {"name": "{{city}}", "city": 7}});
    let rendered = act(&api, "greet:render", render.clone()).await;
    assert_eq!(rendered["text"], "你好 {{city}}，欢迎来7", "the active one, and nothing is filled in twice");
    let named = act(&api, "greet:render", json!({"version": 2, "variables": {"name": "Ann"}})).await;
    assert_eq!((&named["version"], &named["text"]), (&json!(2), &json!("Hi Ann")));

    act(&api, "greet:verify", json!({"variables": {"name": "Ann"}})).await;
    api.send("POST", &path("greet:activate"), &[], vec![]).await.ok(200);
    for success in [true, false, true] {
        act(&api, "greet:report", json!({ "success": success })).await;
    }
    let read = api.get(&path("greet")).await.ok(200);
    assert_eq!((&read["active"], &read["last_version"]), (&json!(2), &json!(2)));
    let [first, second] = read["versions"].as_array().unwrap().as_slice() else { panic!("{read}") };
    assert_eq!((&first["state"], &first["placeholders"]), (&json!("superseded"), &json!(["city", "name"])));
    assert_eq!(
        (&second["state"], &second["successes"], &second["failures"]),
        (&json!("active"), &json!(2), &json!(1))
    );
    assert!((second["success_rate"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(first["success_rate"], Value::Null);

    assert_eq!(act(&api, "greet:rollback", json!({"from": 2})).await["version"], 1);
    api.post(&path("greet:rollback"), json!({"from": 2})).await.problem("conflict");
    let listed = api.get(PROCEDURES).await.ok(200);
    assert_eq!(
        (&listed["procedures"][0]["name"], &listed["procedures"][0]["active"]["version"]),
        (&json!("greet"), &json!(1))
    );
    assert_eq!(listed["procedures"][0]["active"]["template"], "你好 {{name}}，欢迎来{{city}}");
    api.delete(&path("greet")).await.ok(200);
    api.get(&path("greet")).await.problem("not_found");
}

#[tokio::test]
async fn a_workflow_is_filled_in_from_a_task() {
    let world = World::start().await;
    let api = world.api();
    let steps = json!([
        {"name": "找航班", "text": "search flights to {{city}} for {{seats}}", "tool": "search"},
        {"name": "pay", "text": "pay with {{card}}"},
    ]);
    api.put(&path("trip"), json!({ "steps": steps })).await.ok(201);
    api.put("/v1/users/ann/tasks/t", json!({})).await.ok(201);
    let variables = json!({"variables": {"city": "柏林", "seats": 2, "card": "visa"}});
    api.put("/v1/users/ann/tasks/t/variables", variables).await.ok(200);
    let rendered = act(&api, "trip:render", json!({"task": "t", "variables": {"card": "amex"}})).await;
    assert_eq!(
        rendered["steps"],
        json!([{"name": "找航班", "text": "search flights to 柏林 for 2", "tool": "search"},
               {"name": "pay", "text": "pay with amex", "tool": null}])
    );
    let (field, detail) = api.post(&path("trip:render"), json!({})).await.problem("invalid_argument");
    assert_eq!(field, "variables.city");
    assert!(detail.contains("city, seats"), "{detail}");
    // What neither says, the session does.
    let turn = json!({"turns": [{"role": "user", "content": "to Ulm, please"}]});
    api.post("/v1/users/ann/sessions/s/turns", turn).await.ok(201);
    let slots = json!({"slots": {"city": "Ulm", "seats": 3, "card": "visa"}});
    api.patch("/v1/users/ann/sessions/s", &[], slots).await.ok(200);
    let rendered = act(&api, "trip:render", json!({"session": "s", "task": "t"})).await;
    assert_eq!(rendered["steps"][0]["text"], "search flights to 柏林 for 2");
    let rendered = act(&api, "trip:render", json!({"session": "s", "variables": {"seats": 1}})).await;
    assert_eq!(rendered["steps"][0]["text"], "search flights to Ulm for 1");
    for field in ["task", "session"] {
        let (named, _) = api.post(&path("trip:render"), json!({ field: "none" })).await.problem("not_found");
        assert_eq!(named, field);
    }
    api.post("/v1/users/bob/procedures/trip:render", json!({})).await.problem("not_found");
}

#[tokio::test]
async fn what_is_wrong_with_a_procedure_is_told() {
    let world = World::start().await;
    let api = world.api();
    let step = |text: &str| json!({"name": "s", "text": text});
    for (body, code, field) in [
        (json!({}), "invalid_argument", "template"),
        (json!({"template": "x", "steps": [step("x")]}), "invalid_argument", "template"),
        (json!({"template": ""}), "invalid_argument", "template"),
        (json!({"template": "a {{b"}), "invalid_argument", "template"),
        (json!({"template": "x".repeat(65_537)}), "too_large", "template"),
        (json!({"steps": []}), "invalid_argument", "steps"),
        (json!({"steps": [step("x"), step("{{a b}}")]}), "invalid_argument", "steps[1].text"),
        (json!({"steps": [{"name": "", "text": "x"}]}), "invalid_argument", "steps[0].name"),
        (json!({"steps": vec![step("x"); 51]}), "too_large", "steps"),
        (json!({"template": "x", "description": "x".repeat(3000)}), "too_large", "description"),
        (json!({"text": "x"}), "invalid_argument", "text"),
    ] {
        let (named, detail) = api.put(&path("p"), body).await.problem(code);
        assert_eq!(named, field, "{detail}");
    }
    api.put(&path("p"), json!({"template": "x"})).await.ok(201);
    for (call, body, code, field) in [
        ("p:verify", json!({"version": 9}), "not_found", "version"),
        ("p:activate", json!({}), "conflict", "version"),
        ("p:activate", json!({"version": "1"}), "invalid_argument", "version"),
        ("p:rollback", json!({}), "conflict", "version"),
        ("p:report", json!({}), "invalid_argument", "success"),
        ("p:report", json!({"success": true}), "conflict", "version"),
        ("p:report", json!({"success": true, "version": 9}), "not_found", "version"),
        ("p:render", json!({"version": 9}), "not_found", "version"),
        ("p:forget", json!({}), "not_found", ""),
        ("none:verify", json!({}), "not_found", "name"),
        ("none:activate", json!({}), "not_found", "name"),
        ("none:render", json!({}), "not_found", "name"),
    ] {
        let (named, detail) = api.post(&path(call), body).await.problem(code);
        assert_eq!(named, field, "{call} {detail}");
    }
    let stale = api.send("PUT", &path("p"), &[("if-match", "\"7\"")], br#"{"template": "y"}"#.to_vec()).await;
    assert_eq!(stale.problem("conflict").0, "version");
}
