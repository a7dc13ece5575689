//! The graph through the public interface.

use crate::common::World;
use crate::common::api::Api;
use serde_json::{Value, json};

const GRAPH: &str = "/v1/users/ann/graph";

async fn tell(api: &Api) {
    for content in
        ["Anna works at Acme", "Acme was founded by Bo Lin", "Bo Lin is married to Cy", "小明住在北京"]
    {
        api.add(json!([{ "content": content }])).await.ok(201);
    }
}

async fn ask(api: &Api, call: &str, body: Value) -> Value {
    api.post(&format!("{GRAPH}:{call}"), body).await.ok(200)
}

fn edges(answer: &Value) -> Vec<String> {
    let text = |edge: &Value, field: &str| edge[field].as_str().unwrap().to_owned();
    let all = answer["edges"].as_array().unwrap().iter();
    all.map(|edge| ["subject", "relation", "object"].map(|field| text(edge, field)).join(" | ")).collect()
}

#[tokio::test]
async fn what_was_said_is_a_graph() {
    let world = World::start().await;
    let api = world.api();
    tell(&api).await;
    let acme = api.get(&format!("{GRAPH}/entities/ACME")).await.ok(200);
    assert_eq!((&acme["name"], &acme["aliases"]), (&json!("acme"), &json!([])));
    assert_eq!(edges(&acme), ["acme | founded by | bo lin", "anna | works at | acme"]);
    let edge = &acme["edges"][1];
    let memory =
        api.get(&format!("/v1/users/ann/memories/{}", edge["memory_id"].as_str().unwrap())).await.ok(200);
    assert_eq!((&memory["content"], &edge["valid_to"]), (&json!("Anna works at Acme"), &Value::Null));
    let beijing = api.get(&format!("{GRAPH}/entities/%E5%8C%97%E4%BA%AC?direction=in")).await.ok(200);
    assert_eq!(edges(&beijing), ["小明 | lives in | 北京"]);

    let around = ask(&api, "traverse", json!({"from": "Anna", "depth": 2})).await;
    assert_eq!(edges(&around), ["anna | works at | acme", "acme | founded by | bo lin"]);
    assert_eq!(around["entities"][2], json!({"name": "bo lin", "depth": 2}));
    let narrow = ask(&api, "traverse", json!({"from": "Acme", "relations": ["employer"], "depth": 3})).await;
    assert_eq!(edges(&narrow), ["anna | works at | acme"]);
    let bounded = ask(&api, "traverse", json!({"from": "Acme", "fan_out": 1, "depth": 1})).await;
    assert_eq!((edges(&bounded).len(), &bounded["truncated"]), (1, &json!(true)));

    let path = ask(&api, "path", json!({"from": "Anna", "to": "Cy"})).await;
    assert_eq!((edges(&path).len(), &path["found"]), (3, &json!(true)));
    let none = ask(&api, "path", json!({"from": "Anna", "to": "北京"})).await;
    assert_eq!((edges(&none).len(), &none["found"], &none["truncated"]), (0, &json!(false), &json!(false)));
    let short = ask(&api, "path", json!({"from": "Anna", "to": "Cy", "depth": 2})).await;
    assert_eq!(short["found"], false);
    assert!(path["token"].is_string());
}

#[tokio::test]
async fn the_graph_of_the_past_is_the_past() {
    let world = World::start().await;
    let api = world.api();
    for (content, time) in
        [("Anna works at Acme", "2024-01-01T00:00:00Z"), ("Anna works at Initech", "2025-01-01T00:00:00Z")]
    {
        api.add(json!([{ "content": content, "event_time": time }])).await.ok(201);
    }
    let entity = async |more: &str| api.get(&format!("{GRAPH}/entities/anna{more}")).await.ok(200);
    assert_eq!(edges(&entity("").await), ["anna | works at | initech"]);
    assert_eq!(edges(&entity("?valid=2024-06-01T00:00:00Z").await), ["anna | works at | acme"]);
    assert_eq!(edges(&entity("?include_deprecated=true").await).len(), 2);
    let then = json!({"from": "anna", "to": "acme", "as_of": {"valid": "2024-06-01T00:00:00Z"}});
    assert_eq!(ask(&api, "path", then).await["found"], true);
    assert_eq!(ask(&api, "path", json!({"from": "anna", "to": "acme"})).await["found"], false);
}

#[tokio::test]
async fn names_are_merged_and_split() {
    let world = World::start().await;
    let api = world.api();
    for content in ["Anna works at Acme", "Annie is married to Bo Lin"] {
        api.add(json!([{ "content": content }])).await.ok(201);
    }
    let merged = ask(&api, "merge", json!({"into": "Anna", "names": ["Annie", "安娜"]})).await;
    assert_eq!(merged["name"], "anna");
    let anna = api.get(&format!("{GRAPH}/entities/annie")).await.ok(200);
    assert_eq!((&anna["name"], &anna["aliases"]), (&json!("anna"), &json!(["annie", "安娜"])));
    assert_eq!(edges(&anna), ["anna | works at | acme", "anna | married to | bo lin"]);
    assert_eq!(
        ask(&api, "path", json!({"from": "Bo Lin", "to": "Acme"})).await["edges"][1]["relation"],
        "works at"
    );
    ask(&api, "split", json!({"from": "Anna", "names": ["Annie"]})).await;
    let annie = api.get(&format!("{GRAPH}/entities/annie")).await.ok(200);
    assert_eq!(edges(&annie), ["annie | married to | bo lin"]);

    let key = [("idempotency-key", "once")];
    let body = json!({"into": "x", "names": ["y"]}).to_string().into_bytes();
    let path = format!("{GRAPH}:merge");
    for _ in 0..2 {
        api.send("POST", &path, &key, body.clone()).await.ok(200);
    }
    let other = json!({"into": "x", "names": ["z"]}).to_string().into_bytes();
    api.send("POST", &path, &key, other).await.problem("conflict");
}

#[tokio::test]
async fn what_is_wrong_with_a_question_to_the_graph_is_told() {
    let world = World::start().await;
    let api = world.api();
    let long = "x".repeat(300);
    for (call, body, code, field) in [
        ("traverse", json!({"from": ""}), "invalid_argument", "from"),
        ("traverse", json!({"from": "？！"}), "invalid_argument", "from"),
        ("traverse", json!({"from": long}), "invalid_argument", "from"),
        ("traverse", json!({"from": "a", "to": "b"}), "invalid_argument", "to"),
        ("traverse", json!({"from": "a", "depth": 0}), "invalid_argument", "depth"),
        ("traverse", json!({"from": "a", "depth": 7}), "invalid_argument", "depth"),
        ("traverse", json!({"from": "a", "fan_out": 257}), "invalid_argument", "fan_out"),
        ("traverse", json!({"from": "a", "entities": 1001}), "invalid_argument", "entities"),
        ("traverse", json!({"from": "a", "hops": 1}), "invalid_argument", "hops"),
        ("traverse", json!({"from": "a", "as_of": {}}), "invalid_argument", "as_of"),
        ("path", json!({"from": "a"}), "invalid_argument", "to"),
        ("path", json!({"from": "a", "to": "…"}), "invalid_argument", "to"),
        ("merge", json!({"into": "a", "names": []}), "invalid_argument", "names"),
        ("merge", json!({"into": "a", "names": ["A"]}), "invalid_argument", "names"),
        ("merge", json!({"into": "a", "names": ["b", ""]}), "invalid_argument", "names[1]"),
        ("split", json!({"from": "a", "names": ["b"]}), "not_found", "names"),
    ] {
        let (named, _) = api.post(&format!("{GRAPH}:{call}"), body.clone()).await.problem(code);
        assert_eq!(named, field, "{call} {body}");
    }
    let (field, _) = api.get(&format!("{GRAPH}/entities/nobody")).await.problem("not_found");
    assert_eq!(field, "name");
    api.get(&format!("{GRAPH}/entities/nobody?limit=0")).await.problem("invalid_argument");
    let read = world.operator().post("/admin/v1/keys", json!({"rights": ["read"]})).await.ok(201);
    let reader = api.with_key(read["key"].as_str().unwrap());
    reader
        .post(&format!("{GRAPH}:merge"), json!({"into": "a", "names": ["b"]}))
        .await
        .problem("permission_denied");
    reader.post(&format!("{GRAPH}:traverse"), json!({"from": "a"})).await.ok(200);
}
