//! The operators' listener.

use crate::common::node::Fault;
use crate::common::{Options, World};
use futures::future::BoxFuture;
use holdfast_core::access::Rights;
use holdfast_router::{NodeControl, RouterConfig};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_tenant_and_its_keys_from_birth_to_revocation() {
    let world = World::start().await;
    let operator = world.operator();
    let tenant = operator.post("/admin/v1/tenants", json!({"id": "新客户", "name": "New"})).await.ok(201);
    assert_eq!(tenant["name"], "New");
    assert!(tenant["created_at"].as_str().unwrap().ends_with('Z'));
    operator.post("/admin/v1/tenants", json!({"id": "新客户"})).await.problem("already_exists");
    let tenants = operator.get("/admin/v1/tenants").await.ok(200);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 2);

    let wanted = json!({"tenant": "新客户", "rights": ["read", "write", "admin"], "name": "boss"});
    let made = operator.post("/admin/v1/keys", wanted).await.ok(201);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with(&format!("hf_{id}_")));
    let boss = world.api().with_key(key);
    boss.add(json!([{"content": "hello"}])).await.ok(201);

    let admin = operator.with_key(key);
    admin.get("/admin/v1/tenants").await.problem("permission_denied");
    admin.post("/admin/v1/keys", json!({"tenant": "acme"})).await.problem("permission_denied");
    admin.get("/admin/v1/keys?tenant=acme").await.problem("permission_denied");
    let bound = admin
        .post("/admin/v1/keys", json!({"user": "ann", "expires_at": "2999-01-01T00:00:00Z"}))
        .await
        .ok(201);
    assert_eq!((&bound["rights"], &bound["user"]), (&json!(["read", "write"]), &json!("ann")));
    let listed = admin.get("/admin/v1/keys").await.ok(200);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains(key.rsplit('_').next().unwrap()), "no secret is shown again");

    // Another tenant's key and one that never was are answered alike.
    let first = world.key.split('_').nth(1).unwrap();
    let foreign = admin.delete(&format!("/admin/v1/keys/{first}")).await;
    let absent = admin.delete("/admin/v1/keys/none").await;
    assert_eq!(foreign.problem("not_found"), absent.problem("not_found"));

    operator.delete(&format!("/admin/v1/keys/{id}")).await.ok(200);
    boss.add(json!([{"content": "again"}])).await.problem("unauthenticated");
    operator.post("/admin/v1/keys", json!({"tenant": "nobody"})).await.problem("not_found");
}

#[tokio::test]
async fn a_key_gives_and_takes_no_more_than_it_has() {
    let world = World::start().await;
    let operator = world.operator();
    let first = world.key.split('_').nth(1).unwrap().to_owned();
    let wanted = json!({"rights": ["read", "admin"], "expires_at": "2999-01-01T00:00:00Z"});
    let made = operator.post("/admin/v1/keys", wanted).await.ok(201);
    assert_eq!(made["created_by"], json!(first));
    let admin = operator.with_key(made["key"].as_str().unwrap());

    let read = json!(["read"]);
    for body in
        [json!({"rights": read}), json!({"rights": read, "expires_at": "2999-01-01T00:00:00.000001Z"})]
    {
        let (field, detail) = admin.post("/admin/v1/keys", body).await.problem("invalid_argument");
        assert_eq!(field, "expires_at");
        assert!(detail.contains("2999-01-01"), "{detail}");
    }
    let body = json!({"rights": read, "expires_at": "2999-01-01T00:00:00Z"});
    let child = admin.post("/admin/v1/keys", body).await.ok(201);
    assert_eq!(child["created_by"], made["id"]);
    let listed = admin.get("/admin/v1/keys").await.ok(200);
    let makers: Vec<&Value> =
        listed["keys"].as_array().unwrap().iter().map(|key| &key["created_by"]).collect();
    assert!(makers.contains(&&Value::Null) && makers.contains(&&made["id"]), "{makers:?}");

    let first = format!("/admin/v1/keys/{first}");
    admin.delete(&first).await.problem("permission_denied");
    operator.delete(&first).await.problem("conflict");
    admin.delete(&format!("/admin/v1/keys/{}", child["id"].as_str().unwrap())).await.ok(200);
    operator.get("/admin/v1/tenants").await.ok(200);
}

#[tokio::test]
async fn a_revocation_elsewhere_is_noticed_within_a_second() {
    let world = World::start().await;
    let made = world.operator().post("/admin/v1/keys", json!({"rights": ["read"]})).await.ok(201);
    let reader = world.api().with_key(made["key"].as_str().unwrap());
    reader.recall(json!({"query": "q"})).await.ok(200);
    let id = made["id"].as_str().unwrap().to_owned();
    let revoke = holdfast_core::command::MetaCommand::RevokeKey { id, tenant: None, by: Rights::ALL };
    world.cluster.apply(0, &holdfast_core::command::Command::Meta(Box::new(revoke)));
    tokio::time::sleep(Duration::from_millis(1200)).await;
    reader.recall(json!({"query": "q"})).await.problem("unauthenticated");
}

#[tokio::test]
async fn administration_needs_a_key_and_metrics_do_not() {
    let world = World::start().await;
    let nobody = world.operator().with_key("");
    for path in
        ["/admin/v1/tenants", "/admin/v1/keys", "/admin/v1/nodes", "/admin/v1/verify", "/admin/v1/cluster"]
    {
        nobody.get(path).await.problem("unauthenticated");
    }
    world.api().recall(json!({"query": "q"})).await.ok(200);
    world.api().recall(json!({"query": ""})).await.problem("invalid_argument");
    let metrics = nobody.get("/metrics").await;
    let text = metrics.body.as_str().unwrap();
    for line in [
        "holdfast_router_requests_total{code=\"ok\",method=\"POST\",route=\"/v1/users/{user}/recall\"} 1",
        "holdfast_router_requests_total{code=\"invalid_argument\",method=\"POST\",route=\"/v1/users/{user}/recall\"} 1",
        "holdfast_router_request_seconds_count{method=\"POST\",route=\"/v1/users/{user}/recall\"} 2",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("users/ann"), "no user is named");
    // The two listeners share nothing but health.
    world.api().get("/metrics").await.problem("not_found");
    world.api().get("/admin/v1/keys").await.problem("not_found");
    nobody.get("/healthz").await.ok(200);
}

#[tokio::test]
async fn replicas_are_compared() {
    let world = World::start().await;
    world.api().add(json!([{"content": "x"}])).await.ok(201);
    let verified = world.operator().get("/admin/v1/verify").await.ok(200);
    assert_eq!(verified["equal"], true);
    assert_eq!(verified["groups"].as_array().unwrap().len(), 5);
    let replica = &verified["groups"][0]["replicas"][0];
    assert_eq!((replica["node"].as_u64(), replica["hash"].as_str().map(str::len)), (Some(1), Some(32)));
    let one = world.operator().get("/admin/v1/verify?shard=2&rows=true").await.ok(200);
    assert_eq!((one["equal"].as_bool(), one["done"].as_bool()), (Some(true), Some(true)));
    assert_eq!(one["groups"][0]["replicas"][2]["rows"]["state"], "equal");
    let point = one["groups"][0]["point"].as_u64().unwrap();
    let again = world.operator().get(&format!("/admin/v1/verify?shard=2&point={point}")).await.ok(200);
    assert_eq!(again["groups"][0]["point"].as_u64(), Some(point));
    world.operator().get("/admin/v1/verify?shard=99").await.problem("not_found");
    world.operator().get("/admin/v1/verify?point=7").await.problem("invalid_argument");
    world.fault(2, Fault::Dead);
    let verified = world.operator().get("/admin/v1/verify?rows=true").await.ok(200);
    assert_eq!(verified["equal"], Value::Null, "what cannot be compared is not called equal");
    assert!(verified["groups"][0]["replicas"][1]["error"].is_string());
}

struct Control;

impl NodeControl for Control {
    fn stop(&self, id: u64) -> BoxFuture<'_, holdfast_core::Result<()>> {
        Box::pin(async move {
            match id {
                3 => Err(holdfast_core::Error::new(
                    holdfast_core::ErrorCode::Conflict,
                    "the last one stays up",
                )),
                _ => Ok(()),
            }
        })
    }
    fn start(&self, _: u64) -> BoxFuture<'_, holdfast_core::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn nodes_are_controlled_in_development_alone() {
    let plain = World::start().await;
    let reply = plain.operator().post("/admin/v1/nodes/1:stop", json!({})).await;
    reply.problem("not_found");
    let change = |config: &mut RouterConfig| config.dev = Some(Arc::new(Control));
    let world = World::with(Options { change, ..Options::default() }).await;
    let operator = world.operator();
    let stop = |id: &str, verb: &str| {
        let path = format!("/admin/v1/nodes/{id}:{verb}");
        let operator = operator.clone();
        async move { operator.send("POST", &path, &[], vec![]).await }
    };
    assert_eq!(stop("1", "stop").await.ok(200), json!({"id": 1, "status": "stopped"}));
    assert_eq!(stop("1", "start").await.ok(200)["status"], "started");
    stop("3", "stop").await.problem("conflict");
    stop("9", "stop").await.problem("not_found");
    stop("1", "reboot").await.problem("not_found");
    stop("x", "stop").await.problem("invalid_argument");
    let nodes = operator.get("/admin/v1/nodes").await.ok(200);
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 3);
    let reader = operator.post("/admin/v1/keys", json!({"rights": ["read", "admin"]})).await.ok(201);
    let reader = operator.with_key(reader["key"].as_str().unwrap());
    reader.send("POST", "/admin/v1/nodes/1:stop", &[], vec![]).await.problem("permission_denied");
}
