//! Erasures of tenants, as operators see them. The nodes here have no leaders that work them off: the tests do.

use crate::access::grant;
use crate::common::{TENANT, World};
use holdfast_core::access::Rights;
use holdfast_core::command::Command;
use holdfast_core::erasure::{Confirmation, Place};
use holdfast_core::keys::tenant as rows;
use holdfast_core::space::{SLOTS, Slot};
use holdfast_core::state::Reader;
use holdfast_core::tenant::TenantStep;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const SHARDS: u16 = 4;
/// Percent-encoded: 租户.
const PATH: &str = "/admin/v1/tenants/%E7%A7%9F%E6%88%B7";
const ID: &str = "租户";

fn step(world: &World, group: u16, step: TenantStep) {
    world.cluster.apply(group, &Command::Tenant(Box::new(step)));
}

/// Takes all rows of the tenant out of a group.
fn drop_rows(world: &World, group: u16) {
    for slot in 0..SLOTS {
        loop {
            let left = {
                let mut groups = world.cluster.groups.lock().unwrap();
                let state = &groups.entry(group).or_default().state;
                !state.scan(&rows::in_slot(Slot(slot), ID), None, 1).unwrap().is_empty()
            };
            if !left {
                break;
            }
            step(world, group, TenantStep::Drop { tenant: ID.into(), slot, limit: 96 });
        }
    }
    let keys: Vec<Vec<u8>> = {
        let mut groups = world.cluster.groups.lock().unwrap();
        let state = &groups.entry(group).or_default().state;
        let all = rows::outside().into_iter().flat_map(|range| state.scan(&range, None, 10_000).unwrap());
        all.filter(|(key, value)| rows::is_named(key, value, ID).unwrap()).map(|(key, _)| key).collect()
    };
    for part in keys.chunks(64) {
        step(world, group, TenantStep::Rows { tenant: ID.into(), keys: part.to_vec(), ended: false });
    }
    step(world, group, TenantStep::Rows { tenant: ID.into(), keys: vec![], ended: true });
}

fn confirm(world: &World, group: u16) {
    let places = Place::ALL.into_iter();
    let said =
        (1..=3).flat_map(|node| places.clone().map(move |place| Confirmation { node, place, at_us: 0 }));
    let confirmations = said.collect();
    step(world, group, TenantStep::Confirm { tenant: ID.into(), confirmations, done: true });
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_tenant_goes_and_its_receipt_says_how_far() {
    let world = World::start().await;
    let operator = world.operator();
    operator.post("/admin/v1/tenants", json!({"id": ID, "name": "New"})).await.ok(201);
    let active = operator.get(PATH).await.ok(200);
    assert_eq!((&active["status"], &active["name"]), (&json!("active"), &json!("New")));
    let api = world.api().with_key(&grant(&world, ID, None, Rights::ALL));
    for user in 0..30 {
        let body = json!({"memories": [{"content": format!("我 {user}")}]});
        api.post(&format!("/v1/users/u{user}/memories"), body).await.ok(201);
    }
    let own = world.api();
    own.add(json!([{"content": "ours", "id": "ours"}])).await.ok(201);

    let begun = operator.delete(PATH).await.ok(202);
    assert_eq!((&begun["id"], &begun["status"]), (&json!(ID), &json!("removing")));
    assert!(begun["erasure"].as_str().unwrap().len() == 32 && begun["log_index"].as_u64().unwrap() > 0);
    assert_eq!(operator.delete(PATH).await.ok(202), begun, "the same once more");
    api.get("/v1/users/u1/memories").await.problem("unauthenticated");
    operator.post("/admin/v1/tenants", json!({"id": ID})).await.problem("conflict");
    operator.post("/admin/v1/keys", json!({"tenant": ID})).await.problem("not_found");
    let listed = operator.get("/admin/v1/tenants").await.ok(200);
    assert_eq!(listed["tenants"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["erasing"], json!([begun]));

    let told = operator.get(PATH).await.ok(200);
    assert_eq!((&told["status"], &told["spaces_left"]), (&json!("removing"), &json!(30)), "{told}");
    assert_eq!((numbers(&told["not_begun"]), &told["groups_left"]), (vec![1, 2, 3, 4], &json!(5)));
    for group in 1..=SHARDS {
        step(
            &world,
            group,
            TenantStep::Begin { tenant: ID.into(), id: begun["erasure"].as_str().unwrap().into() },
        );
    }
    (0..=SHARDS).for_each(|group| drop_rows(&world, group));
    let told = operator.get(PATH).await.ok(200);
    assert_eq!((&told["status"], &told["spaces_left"]), (&json!("purging"), &json!(0)), "{told}");
    let groups = told["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["spaces"].as_u64().unwrap()).sum::<u64>(), 30);
    assert_eq!(groups[0]["erased"]["others"], 2, "its own row and its key: {told}");
    for group in groups {
        assert!(group["removed_log_index"].as_u64().unwrap() > 0 && group["removed_at"].is_string());
        let places: Vec<&str> =
            group["copies"].as_array().unwrap().iter().map(|copy| copy["place"].as_str().unwrap()).collect();
        assert_eq!(places, ["images", "log", "database"]);
        assert_eq!(numbers(&group["copies"][0]["nodes"]), [1, 2, 3]);
    }

    (1..=SHARDS).for_each(|group| confirm(&world, group));
    let told = operator.get(PATH).await.ok(200);
    assert_eq!((&told["status"], &told["groups_left"]), (&json!("purging"), &json!(1)), "{told}");
    confirm(&world, 0);
    let done = operator.get(PATH).await.ok(200);
    assert_eq!((&done["status"], &done["groups_left"]), (&json!("done"), &json!(0)), "{done}");
    assert!(
        done["done_at"].is_string() && done["groups"][4]["replicas"][2]["database"].is_string(),
        "{done}"
    );
    assert_eq!(operator.delete(PATH).await.ok(202)["status"], "done");
    assert_eq!(operator.get("/admin/v1/tenants").await.ok(200)["erasing"], json!([]));
    operator.post("/admin/v1/tenants", json!({"id": ID})).await.problem("conflict");
    own.get("/v1/users/ann/memories/ours").await.ok(200);
}

#[tokio::test]
async fn who_may_erase_a_tenant_and_which() {
    let world = World::start().await;
    let operator = world.operator();
    operator.get("/admin/v1/tenants/nobody").await.problem("not_found");
    operator.delete("/admin/v1/tenants/nobody").await.problem("not_found");
    let own = format!("/admin/v1/tenants/{TENANT}");
    operator.delete(&own).await.problem("conflict");
    let admin = operator.with_key(&grant(&world, TENANT, None, Rights(7)));
    let other = operator.with_key(&grant(&world, "other", None, Rights(7)));
    for api in [admin, other] {
        for path in [own.as_str(), "/admin/v1/tenants/other", "/admin/v1/tenants/nobody"] {
            api.delete(path).await.problem("permission_denied");
            api.get(path).await.problem("permission_denied");
        }
    }
    world.api().get("/v1/users/ann/memories").await.ok(200);
    // With another key for the cluster elsewhere its first tenant can go, and the key that said so with it.
    let elsewhere = operator.with_key(&grant(&world, "other", None, Rights::ALL));
    operator.delete(&own).await.ok(202);
    operator.get(&own).await.problem("unauthenticated");
    assert_eq!(elsewhere.get(&own).await.ok(200)["status"], "removing");
    elsewhere.delete("/admin/v1/tenants/other").await.problem("conflict");
}

#[tokio::test]
async fn a_shard_that_does_not_answer_is_named() {
    let world = World::start().await;
    let operator = world.operator();
    operator.post("/admin/v1/tenants", json!({"id": ID})).await.ok(201);
    operator.delete(PATH).await.ok(202);
    world.cluster.refusing_shard.store(3, Ordering::SeqCst);
    let told = operator.get(PATH).await.ok(200);
    assert_eq!((numbers(&told["not_answered"]), &told["status"]), (vec![3], &json!("removing")), "{told}");
    assert_eq!(numbers(&told["not_begun"]), [1, 2, 4]);
}
