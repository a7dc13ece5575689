//! Exports, imports, erasures and their receipts through the public interface.

use crate::common::api::Api;
use crate::common::{Letters, Options, TENANT, World};
use holdfast_core::access::Rights;
use holdfast_core::command::{Command, MetaCommand, SpaceCommand, Write};
use holdfast_core::erasure::{Confirmation, EraseStep, Place};
use holdfast_core::space::SpaceKey;
use serde_json::{Value, json};
use std::sync::Arc;

const ANN: &str = "/v1/users/ann";
const BOB: &str = "/v1/users/bob";

async fn world() -> World {
    World::with(Options { embedder: Some(Arc::new(Letters)), ..Options::default() }).await
}

/// The lines of an export.
async fn export(api: &Api, space: &str) -> Vec<Value> {
    let reply = api.get(&format!("{space}/export")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    let text = reply.body.as_str().unwrap().to_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn body(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

async fn import(api: &Api, space: &str, lines: &[Value]) -> Value {
    api.send("POST", &format!("{space}/import"), &[], body(lines)).await.ok(200)
}

/// What must be equal of two exports: everything but the first line and the order of links.
fn comparable(lines: &[Value]) -> Vec<Value> {
    let mut lines = lines[1..].to_vec();
    for links in lines.iter_mut().filter_map(|line| line["links"].as_object_mut()) {
        for list in links.values_mut().filter_map(Value::as_array_mut) {
            list.sort_by_key(Value::to_string);
        }
    }
    lines
}

/// Every kind of thing that a space may hold.
async fn fill(api: &Api) {
    let memories = json!([
        {"id": "plain", "content": "普通的记忆 🙂", "role": "user", "session": "s-1", "metadata": {"a": [1, 2.5, {"深": null}]},
         "source": {"uri": "file:x", "message_ids": ["m1"]}, "importance": 0.25, "pinned": true,
         "expires_at": "2099-01-01T00:00:00Z", "event_time": "2023-05-08T13:56:00Z", "entities": ["Ulm"]},
        {"id": "berlin", "content": "I live in Berlin", "session": "s-1"},
        {"id": "paris", "content": "I moved to Paris", "session": "s-2"},
        {"id": "badge", "content": "badge", "fact": {"subject": "Ann", "predicate": "badge", "object": 7,
         "qualifiers": {"site": "Ulm"}, "valid_from": "2020-01-01T00:00:00Z", "confidence": 0.5}},
        {"id": "vegetarian", "content": "I am a vegetarian"},
        {"id": "steak", "content": "I had a steak yesterday"}
    ]);
    api.post(&format!("{ANN}/memories"), json!({ "memories": memories })).await.ok(201);
    api.patch(&format!("{ANN}/memories/plain"), &[], json!({"content": "changed once"})).await.ok(200);
    api.patch(&format!("{ANN}/memories/plain"), &[], json!({"content": "changed twice"})).await.ok(200);
    api.post(&format!("{ANN}/memories"), json!({"memories": [{"content": "I moved to Paris"}]}))
        .await
        .ok(201);
    let adopted = json!({"items": [{"id": "plain", "outcome": "adopted"}]});
    api.post(&format!("{ANN}/feedback"), adopted).await.ok(200);
    let turns = json!({"turns": [
        {"role": "user", "content": "Room 512 is booked 🙂", "pinned": true, "tags": ["旅行"]},
        {"role": "tool", "tool": {"name": "weather", "output": {"city": "Ulm", "temp": 21.5}}},
        {"role": "assistant", "content": "Shall I go on?", "importance": 0.35},
    ]});
    api.post(&format!("{ANN}/sessions/talk/turns"), turns).await.ok(201);
    let state = json!({"slots": {"城市": "柏林", "n": [1, null]}, "confirmed_facts": ["a room"]});
    api.patch(&format!("{ANN}/sessions/talk"), &[], state).await.ok(200);
    api.put(&format!("{ANN}/tasks/trip"), json!({"goal": "a trip", "plan": ["look", "pay"]})).await.ok(201);
    let steps = json!({"steps": [{"kind": "tool", "tool": "search", "content": "Berlin", "success": true}]});
    api.post(&format!("{ANN}/tasks/trip/steps"), steps).await.ok(200);
    api.put(&format!("{ANN}/tasks/trip/variables"), json!({"variables": {"seats": 2}})).await.ok(200);
    for value in ["Name: Ann", "Name: Ann Li"] {
        let reply = api.put(&format!("{ANN}/blocks/human"), json!({"value": value, "read_only": true})).await;
        assert!(reply.status < 300, "{}", reply.body);
    }
    let path = format!("{ANN}/procedures/greet");
    for template in ["Hi {{name}}", "你好 {{name}}"] {
        api.put(&path, json!({"template": template, "description": "how to greet"})).await.ok(201);
        api.post(&format!("{path}:verify"), json!({"variables": {"name": "x"}})).await.ok(200);
        api.post(&format!("{path}:activate"), json!({})).await.ok(200);
    }
}

#[tokio::test]
async fn an_export_comes_back_equal() {
    let world = world().await;
    let api = world.api();
    fill(&api).await;
    let lines = export(&api, ANN).await;
    assert_eq!(lines[0]["export"]["format"], 2);
    assert_eq!(lines[0]["export"]["space"], "user:ann");
    assert_eq!(lines[0]["export"]["left_out"], json!(["entity"]));
    assert!(lines[0]["export"]["log_index"].as_u64().unwrap() > 0);
    let end = &lines.last().unwrap()["end"];
    assert_eq!((&end["memories"], &end["versions"]), (&json!(6), &json!(2)));
    assert!(end["links"].as_u64().unwrap() >= 4, "{end}");
    let beside = json!({"session": 1, "turn": 3, "task": 1, "step": 1, "block": 1, "block_version": 1,
        "procedure": 1, "procedure_version": 2});
    assert_eq!(end["beside"], beside);
    let imported = import(&api, BOB, &lines).await;
    assert_eq!(imported["memories"], json!({"created": 6, "duplicate": 0, "rejected": 0}), "{imported}");
    assert_eq!((&imported["complete"], &imported["rejected"]), (&json!(true), &json!([])));
    for (kind, count) in beside.as_object().unwrap() {
        assert_eq!(imported["beside"][kind], json!({"created": count, "duplicate": 0, "rejected": 0}));
    }
    let again = export(&api, BOB).await;
    assert_eq!(comparable(&again), comparable(&lines));
    for path in [
        "/memories/plain",
        "/memories/plain/history",
        "/memories/paris",
        "/facts?include_deprecated=true",
        "/sessions",
        "/sessions/talk",
        "/sessions/talk/turns",
        "/tasks/trip",
        "/blocks",
        "/blocks/human/history",
        "/procedures/greet",
    ] {
        let of = async |space: &str| {
            let mut body = api.get(&format!("{space}{path}")).await.ok(200).to_string();
            body = body.replace("user:bob", "user:ann");
            let mut body: Value = serde_json::from_str(&body).unwrap();
            body.as_object_mut().unwrap().remove("token");
            body
        };
        assert_eq!(of(BOB).await, of(ANN).await, "{path}");
    }
    let found = async |space: &str| -> Vec<Value> {
        let asked = json!({"query": "where does Ann live", "conflicts": "all"});
        let body = api.post(&format!("{space}/recall"), asked).await.ok(200);
        body["results"].as_array().unwrap().iter().map(|result| result["memory"]["id"].clone()).collect()
    };
    assert_eq!(found(BOB).await, found(ANN).await);

    let repeated = import(&api, BOB, &lines).await;
    assert_eq!(repeated["memories"], json!({"created": 0, "duplicate": 6, "rejected": 0}));
    assert_eq!(repeated["beside"]["turn"], json!({"created": 0, "duplicate": 3, "rejected": 0}));
    assert_eq!(comparable(&export(&api, BOB).await), comparable(&lines));
    let stats = api.get(&format!("{BOB}/stats")).await.ok(200);
    assert_eq!((&stats["memories"], &stats["embedding_models"][0]["dims"]), (&json!(6), &json!(26)));
}

#[tokio::test]
async fn what_was_deleted_is_not_brought_back() {
    let world = world().await;
    let api = world.api();
    fill(&api).await;
    let lines = export(&api, ANN).await;
    api.delete(&format!("{ANN}/memories/plain")).await.ok(200);
    let imported = import(&api, ANN, &lines).await;
    assert_eq!(imported["memories"]["rejected"], 1);
    assert_eq!(imported["versions"]["rejected"], 2);
    let first = &imported["rejected"][0];
    assert_eq!(
        (&first["id"], &first["code"], &first["line"]),
        (&json!("plain"), &json!("conflict"), &json!(2))
    );
    api.get(&format!("{ANN}/memories/plain")).await.problem("not_found");
    let said = api.add(json!([{"content": "changed twice"}])).await.ok(201);
    assert_eq!(said["results"][0]["status"], "created", "a user may say it again");
}

#[tokio::test]
async fn lines_that_are_none_are_told_and_the_others_stored() {
    let world = world().await;
    let api = world.api();
    fill(&api).await;
    let mut lines = export(&api, ANN).await;
    lines[1]["memory"]["memory"]["strength"] = json!(9);
    lines.insert(2, json!({"memoir": {}}));
    lines.insert(3, json!("三"));
    let imported = import(&api, BOB, &lines).await;
    assert_eq!((&imported["unreadable"], &imported["complete"]), (&json!(3), &json!(false)), "{imported}");
    assert_eq!(imported["memories"]["created"], 5);
    let told: Vec<&Value> =
        imported["rejected"].as_array().unwrap().iter().map(|told| &told["line"]).collect();
    assert_eq!(told[..3], [&json!(2), &json!(3), &json!(4)], "{imported}");
    for (body, why) in [
        (Vec::new(), "empty"),
        (b"{}".to_vec(), "first line"),
        (body(&lines[1..]), "first line"),
        (br#"{"export":{"format":3,"space":"x","exported_at":"2023-05-08T13:56:00Z","log_index":1,"shard":1}}"#.to_vec(), "format 3"),
        (vec![b'x'; (1 << 20) + 1], "longer"),
    ] {
        let reply = api.send("POST", &format!("{BOB}/import"), &[("content-type", "application/x-ndjson")], body).await;
        let code = if why == "longer" { "too_large" } else { "invalid_argument" };
        let (_, detail) = reply.problem(code);
        assert!(detail.contains(why), "{detail}");
    }
}

#[tokio::test]
async fn an_empty_space_has_an_export_of_two_lines() {
    let world = world().await;
    let lines = export(&world.api(), "/v1/users/nobody").await;
    assert_eq!(lines.len(), 2);
    assert_eq!(import(&world.api(), BOB, &lines).await["complete"], true);
    let stats = world.api().get("/v1/users/nobody/stats").await.ok(200);
    assert_eq!((&stats["memories"], &stats["created_at"]), (&json!(0), &Value::Null));
}

/// What leaders do, done here: the nodes of these tests have no jobs.
fn step(world: &World, step: EraseStep) {
    let space = SpaceKey::user(TENANT, "ann").unwrap();
    let group = world.cluster.owner(&space).0;
    let command = SpaceCommand { space, idempotency: None, write: Write::Erase(step) };
    world.cluster.apply(group, &Command::Space(Box::new(command)));
}

#[tokio::test]
async fn an_erasure_is_followed_to_its_receipt() {
    let world = world().await;
    let api = world.api();
    fill(&api).await;
    let begun = api.post(&format!("{ANN}/erasures"), json!({"session": "s-1"})).await.ok(202);
    let id = begun["id"].as_str().unwrap().to_owned();
    let path = format!("{ANN}/erasures/{id}");
    let receipt = api.get(&path).await.ok(200);
    assert_eq!((&receipt["status"], &receipt["selection"]), (&json!("removing"), &json!("session")));
    let memories = vec!["plain".to_owned(), "berlin".to_owned()];
    step(&world, EraseStep::Remove { id: id.clone(), memories, after: 9, ended: true });
    let receipt = api.get(&path).await.ok(200);
    assert_eq!(receipt["status"], "purging");
    assert_eq!((&receipt["erased"]["memories"], &receipt["erased"]["versions"]), (&json!(2), &json!(2)));
    assert!(receipt["removed_log_index"].as_u64() > receipt["log_index"].as_u64());
    assert_eq!(receipt["copies"].as_array().unwrap().len(), 3);
    assert_eq!(receipt["copies"][1]["place"], "log");
    assert_eq!(receipt["copies"][1]["nodes"], json!([1, 2, 3]));
    assert!(receipt["copies"][2]["until"].as_str() > receipt["copies"][1]["until"].as_str());
    let said = |nodes: &[u64]| -> Vec<Confirmation> {
        let of = |node: &u64| Place::ALL.map(|place| Confirmation { node: *node, place, at_us: 0 });
        nodes.iter().flat_map(of).collect()
    };
    step(&world, EraseStep::Confirm { id: id.clone(), confirmations: said(&[1, 2]), done: false });
    let receipt = api.get(&path).await.ok(200);
    assert_eq!(receipt["copies"][0]["nodes"], json!([3]));
    assert!(receipt["replicas"][0]["log"].is_string() && receipt["replicas"][2]["log"].is_null());
    step(&world, EraseStep::Confirm { id, confirmations: said(&[3]), done: true });
    let receipt = api.get(&path).await.ok(200);
    assert_eq!((&receipt["status"], &receipt["copies"]), (&json!("done"), &json!([])));
    assert!(receipt["done_at"].is_string());
    assert!(!receipt.to_string().contains("s-1"), "what it named is forgotten");
    api.get(&format!("{BOB}/erasures/{}", receipt["id"].as_str().unwrap())).await.problem("not_found");
}

#[tokio::test]
async fn an_erasure_names_one_thing_and_stays_in_its_space() {
    let world = world().await;
    let api = world.api();
    fill(&api).await;
    for (body, field) in [
        (json!({}), "body"),
        (json!({"all": true, "session": "s"}), "body"),
        (json!({"all": false}), "all"),
        (json!({"session": ""}), "session"),
        (json!({"source": "x".repeat(3000)}), "source"),
        (json!({"ids": []}), "ids"),
        (json!({"filter": {}}), "filter"),
        (json!({"filter": {"nope": 1}}), ""),
        (json!({"everything": true}), "everything"),
    ] {
        let (named, _) = api.post(&format!("{ANN}/erasures"), body.clone()).await.problem("invalid_argument");
        assert!(field.is_empty() || named == field, "{body}: {named}");
    }
    let key = [("idempotency-key", "k-1")];
    let erase = async |body: Value| {
        api.send("POST", &format!("{ANN}/erasures"), &key, body.to_string().into_bytes()).await
    };
    let first = erase(json!({"ids": ["plain"]})).await.ok(202);
    assert_eq!(erase(json!({"ids": ["plain"]})).await.ok(202)["id"], first["id"], "the same once more");
    erase(json!({"ids": ["paris"]})).await.problem("conflict");

    let begun = api.delete(ANN).await.ok(202);
    api.add(json!([{"content": "x"}])).await.problem("unavailable");
    assert_eq!(api.get(&format!("{ANN}/stats")).await.ok(200)["erasing"], true);
    for _ in 0..9 {
        step(&world, EraseStep::Drop { id: begun["id"].as_str().unwrap().into(), limit: 96 });
    }
    let stats = api.get(&format!("{ANN}/stats")).await.ok(200);
    assert_eq!(
        (&stats["memories"], &stats["tombstones"], &stats["erasing"]),
        (&json!(0), &json!(1), &json!(false))
    );
    assert_eq!(
        api.add(json!([{"content": "I live in Berlin"}])).await.ok(201)["results"][0]["status"],
        "created"
    );
}

#[tokio::test]
async fn what_stands_beside_memories_is_checked_and_older_exports_are_read() {
    let world = world().await;
    let api = world.api();
    fill(&api).await;
    let lines = export(&api, ANN).await;
    // As the first format was.
    let mut older: Vec<Value> = lines
        .iter()
        .filter(|line| {
            ["export", "memory", "version", "links", "end"].iter().any(|kind| line.get(kind).is_some())
        })
        .cloned()
        .collect();
    older[0]["export"]["format"] = json!(1);
    older.last_mut().unwrap()["end"].as_object_mut().unwrap().remove("beside");
    let imported = import(&api, "/v1/users/older", &older).await;
    assert_eq!((&imported["complete"], &imported["beside"]), (&json!(true), &json!({})));

    // A block is made read-only by administrators alone, and a session has no hole.
    let (writer, row) =
        holdfast_router::new_api_key(TENANT, None, Rights::READ.with(Rights::WRITE), "w", None);
    world.cluster.apply(0, &Command::Meta(Box::new(MetaCommand::CreateKey(row))));
    let mut holed = lines.clone();
    let first = holed.iter().position(|line| line.get("turn").is_some()).unwrap();
    holed.remove(first);
    holed.iter_mut().filter_map(|line| line.get_mut("step")).for_each(|step| step["surprise"] = json!(1));
    let imported = import(&api.with_key(&writer), BOB, &holed).await;
    assert_eq!((&imported["complete"], &imported["unreadable"]), (&json!(false), &json!(1)), "{imported}");
    assert_eq!(imported["beside"]["turn"], json!({"created": 0, "duplicate": 0, "rejected": 2}));
    assert_eq!(imported["beside"]["block"], json!({"created": 0, "duplicate": 0, "rejected": 1}));
    let told = imported["rejected"].as_array().unwrap();
    for (kind, code) in [("block", "permission_denied"), ("turn", "not_found")] {
        assert!(told.iter().any(|told| told["kind"] == kind && told["code"] == code), "{kind}: {told:?}");
    }
    assert_eq!(api.get(&format!("{BOB}/sessions/talk")).await.ok(200)["turns"], 0, "and it can be read");
    let whole = import(&api, BOB, &lines).await;
    assert_eq!(whole["rejected"], json!([]), "what is missing comes with the whole");
    assert_eq!(comparable(&export(&api, BOB).await), comparable(&lines));

    // What is deleted stays so.
    api.delete(&format!("{ANN}/sessions/talk")).await.ok(200);
    api.delete(&format!("{ANN}/procedures/greet")).await.ok(200);
    let imported = import(&api, ANN, &lines).await;
    assert_eq!(imported["beside"]["session"]["rejected"], 1);
    assert_eq!(imported["beside"]["procedure_version"]["rejected"], 2);
    api.get(&format!("{ANN}/sessions/talk")).await.problem("not_found");

    let collection = json!({"partitions": 2});
    api.put("/v1/collections/team", collection).await;
    let imported = import(&api, "/v1/collections/team", &lines).await;
    assert_eq!(imported["beside"]["session"]["rejected"], 1, "{imported}");
    assert_eq!(imported["memories"]["created"], 6);
}
