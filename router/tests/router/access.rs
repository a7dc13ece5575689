//! Who may see what.

use crate::common::{Api, TENANT, World};
use holdfast_core::access::{ApiKeyRow, Rights, TenantRow};
use holdfast_core::command::{Command, MetaCommand};
use holdfast_router::new_api_key;
use serde_json::json;

/// Puts a key into the meta group, as an operator did some time ago.
pub fn grant(world: &World, tenant: &str, user: Option<&str>, rights: Rights) -> String {
    let (key, row) = new_api_key(tenant, user, rights, "test", None);
    put(world, row);
    key
}

fn put(world: &World, row: ApiKeyRow) {
    let tenant = TenantRow { id: row.tenant.clone(), name: "t".into(), created_us: 0 };
    world.cluster.apply(0, &Command::Meta(Box::new(MetaCommand::CreateTenant(tenant))));
    world.cluster.apply(0, &Command::Meta(Box::new(MetaCommand::CreateKey(row))));
}

#[tokio::test]
async fn every_bad_credential_gets_the_same_answer() {
    let world = World::start().await;
    let (unknown, _) = new_api_key(TENANT, None, Rights::ALL, "", None);
    let (expired, row) = new_api_key(TENANT, None, Rights::ALL, "", Some(1));
    put(&world, row);
    let mut wrong = world.key.clone();
    let last = if wrong.ends_with('0') { "1" } else { "0" };
    wrong.replace_range(wrong.len() - 1.., last);
    let mut answers = Vec::new();
    for key in [unknown.as_str(), &expired, &wrong, "hf_", "x", "hf_a_b"] {
        let reply = Api::new(world.http, key).recall(json!({"query": "q"})).await;
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        answers.push(reply.problem("unauthenticated"));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    let none = Api::new(world.http, "").get("/v1/users/ann/memories").await;
    none.problem("unauthenticated");
    let basic = [("authorization", "Basic YTpi")];
    Api::new(world.http, "").send("GET", "/v1/me/memories", &basic, vec![]).await.problem("unauthenticated");
    world.api().recall(json!({"query": "q"})).await.ok(200);
}

#[tokio::test]
async fn tenants_never_see_each_other() {
    let world = World::start().await;
    let ours = world.api();
    ours.add(json!([{"id": "secret", "content": "the launch is on Friday"}])).await.ok(201);
    // Names that begin alike, and the very same user.
    for tenant in ["acme-corp", "acm", "other"] {
        let theirs = ours.with_key(&grant(&world, tenant, None, Rights::ALL));
        let foreign = theirs.get("/v1/users/ann/memories/secret").await;
        let absent = theirs.get("/v1/users/ann/memories/never-was").await;
        assert_eq!(foreign.problem("not_found"), absent.problem("not_found"));
        let found = theirs.recall(json!({"query": "launch Friday"})).await.ok(200);
        assert_eq!(found["results"], json!([]));
        let list = theirs.get("/v1/users/ann/memories").await.ok(200);
        assert_eq!(list["memories"], json!([]));
        theirs
            .patch("/v1/users/ann/memories/secret", &[], json!({"pinned": true}))
            .await
            .problem("not_found");
        theirs.delete("/v1/users/ann/memories/secret").await.problem("not_found");
        theirs.get("/v1/users/ann/memories/secret/history").await.problem("not_found");
        let feedback = json!({"items": [{"id": "secret", "outcome": "harmful"}]});
        let feedback = theirs.post("/v1/users/ann/feedback", feedback).await.ok(200);
        assert_eq!(feedback["results"][0]["code"], "not_found");
        let created = theirs.add(json!([{"id": "secret", "content": "something else"}])).await.ok(201);
        assert_eq!(created["results"][0]["status"], "created");
        let token = ours.recall(json!({"query": "x"})).await.ok(200)["token"].clone();
        theirs.recall(json!({"query": "x", "token": token})).await.problem("invalid_argument");
    }
    let got = ours.get("/v1/users/ann/memories/secret").await.ok(200);
    assert_eq!((&got["content"], &got["version"]), (&json!("the launch is on Friday"), &json!(1)));
}

#[tokio::test]
async fn a_bound_key_stays_with_its_user() {
    let world = World::start().await;
    let all = world.api();
    all.add(json!([{"id": "a", "content": "of ann"}])).await.ok(201);
    all.post("/v1/users/bob/memories", json!({"memories": [{"id": "b", "content": "of bob"}]})).await.ok(201);
    let ann = all.with_key(&grant(&world, TENANT, Some("ann"), Rights::READ.with(Rights::WRITE)));
    assert_eq!(ann.get("/v1/me/memories/a").await.ok(200)["space"], "user:ann");
    ann.get("/v1/users/ann/memories/a").await.ok(200);
    ann.post("/v1/me/memories", json!({"memories": [{"content": "more"}]})).await.ok(201);
    ann.get("/v1/me/memories/b").await.problem("not_found");
    for path in ["/v1/users/bob/memories/b", "/v1/users/bob/memories/none", "/v1/users/ann2/memories/b"] {
        ann.get(path).await.problem("permission_denied");
    }
    all.get("/v1/me/memories").await.problem("invalid_argument");
}

#[tokio::test]
async fn rights_are_needed_one_by_one() {
    let world = World::start().await;
    let reader = world.api().with_key(&grant(&world, TENANT, None, Rights::READ));
    let writer = world.api().with_key(&grant(&world, TENANT, None, Rights::WRITE));
    let (_, detail) = reader.add(json!([{"content": "x"}])).await.problem("permission_denied");
    assert!(detail.contains("write"), "{detail}");
    writer.add(json!([{"id": "x", "content": "x"}])).await.ok(201);
    writer.get("/v1/users/ann/memories/x").await.problem("permission_denied");
    writer.recall(json!({"query": "x"})).await.problem("permission_denied");
    reader.get("/v1/users/ann/memories/x").await.ok(200);
    reader.delete("/v1/users/ann/memories/x").await.problem("permission_denied");
}

/// A write that reads what it changes needs the right that it is documented with, and shows nothing.
#[tokio::test]
async fn a_key_that_may_only_write_changes_what_is_there() {
    let world = World::start().await;
    let reader = world.api().with_key(&grant(&world, TENANT, None, Rights::READ));
    let writer = world.api().with_key(&grant(&world, TENANT, None, Rights::WRITE));
    writer.add(json!([{"id": "x", "content": "x"}])).await.ok(201);
    writer.patch("/v1/users/ann/memories/x", &[], json!({"content": "改了"})).await.ok(200);
    let block = "/v1/users/ann/blocks/human";
    writer.put(block, json!({"value": "a\nb"})).await.ok(201);
    let patch = json!({"patch": "@@ -2 +2 @@\n-b\n+🙂\n"});
    let patched = writer.post(&format!("{block}:patch"), patch.clone()).await.ok(200);
    assert!(!patched.to_string().contains('🙂'), "{patched}");
    let task = "/v1/users/ann/tasks/t";
    writer.put(task, json!({"goal": "book a flight"})).await.ok(201);
    let end = json!({"outcome": "booked", "success": true}).to_string().into_bytes();
    let (_, detail) = reader.send("DELETE", task, &[], end.clone()).await.problem("permission_denied");
    assert!(detail.contains("write"), "{detail}");
    reader.post(&format!("{block}:patch"), patch).await.problem("permission_denied");
    let ended = writer.send("DELETE", task, &[], end).await.ok(200);
    assert_eq!(ended["episode"]["status"], "created");
    assert_eq!(reader.get(block).await.ok(200)["value"], "a\n🙂");
}

#[tokio::test]
async fn a_meta_group_without_leader_locks_nobody_out() {
    use crate::common::node::Fault;
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"content": "x"}])).await.ok(201);
    for node in 1..=3 {
        world.fault(node, Fault::MetaLost);
    }
    let (stranger, row) = new_api_key(TENANT, None, Rights::ALL, "", None);
    put(&world, row);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    api.recall(json!({"query": "x"})).await.ok(200);
    api.with_key(&stranger).recall(json!({"query": "x"})).await.problem("unavailable");
}
