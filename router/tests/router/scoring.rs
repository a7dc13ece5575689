//! How the memories of a tenant are scored where a call says nothing else.

use crate::access::grant;
use crate::common::{TENANT, World};
use holdfast_core::access::Rights;
use serde_json::{Value, json};

const PATH: &str = "/admin/v1/tenants/acme/scoring";

#[tokio::test]
async fn what_a_tenant_has_set_counts_until_a_call_says_otherwise() {
    let world = World::start().await;
    let (api, operator) = (world.api(), world.operator());
    let by = async |path: &str, body: Value| {
        api.post(path, body).await.ok(200);
        world.cluster.scored_by.lock().unwrap().clone()
    };
    let recall = "/v1/users/ann/recall";
    assert_eq!(by(recall, json!({"query": "q"})).await, ("ebbinghaus".into(), None, None));
    let unset = operator.get(PATH).await.ok(200);
    assert_eq!(
        (&unset["version"], &unset["profile"], &unset["profiles"]),
        (&json!(0), &json!("ebbinghaus"), &json!({}))
    );
    let own = json!({"profile": "spaced", "profiles": {
        "spaced": {"weights": {"relevance": 0.25, "recency": 0.25, "importance": 0.25, "frequency": 0.25}},
        "adaptive": {"tau_hours": 1.5}}});
    let set = operator.put(PATH, own).await.ok(200);
    assert_eq!((&set["version"], &set["profiles"]["adaptive"]["tau_hours"]), (&json!(1), &json!(1.5)));
    assert_eq!(set["profiles"]["spaced"]["weights"]["frequency"], 0.25);
    assert_eq!(operator.get(PATH).await.ok(200), set);
    let quarter = Some([0.25; 4]);
    for path in [recall, "/v1/users/ann/recall:why-not", "/v1/users/ann/context"] {
        let mut body = json!({"query": "q"});
        match path {
            "/v1/users/ann/context" => body["budget_tokens"] = json!(100),
            "/v1/users/ann/recall:why-not" => body["id"] = json!("a"),
            _ => {}
        }
        assert_eq!(by(path, body).await, ("spaced".into(), quarter, None), "{path}");
    }
    let body = json!({"query": "q", "profile": "adaptive"});
    assert_eq!(by(recall, body).await, ("adaptive".into(), None, Some(1.5)));
    let body = json!({"query": "q", "weights": {"relevance": 1}});
    assert_eq!(by(recall, body).await, ("spaced".into(), Some([1.0, 0.0, 0.0, 0.0]), None));
    assert_eq!(
        by(recall, json!({"query": "q", "profile": "relevance"})).await,
        ("relevance".into(), None, None)
    );
    // What is left out of the next change is gone.
    assert_eq!(operator.put(PATH, json!({})).await.ok(200)["version"], 2);
    assert_eq!(by(recall, json!({"query": "q"})).await, ("ebbinghaus".into(), None, None));
}

#[tokio::test]
async fn settings_are_checked_and_belong_to_their_tenant() {
    let world = World::start().await;
    let operator = world.operator();
    for (body, field) in [
        (json!({"profile": "other"}), "profile"),
        (json!({"profiles": {"other": {}}}), "profiles.other"),
        (json!({"profiles": {"spaced": {"weights": {"relevance": 0.5}}}}), "profiles.spaced.weights"),
        (json!({"profiles": {"spaced": {"weights": {"relevance": 2}}}}), "profiles.spaced.weights.relevance"),
        (json!({"profiles": {"spaced": {"weights": [1, 0, 0, 0]}}}), "profiles.spaced.weights"),
        (json!({"profiles": {"spaced": [null, 3]}}), "profiles.spaced"),
        (json!({"profiles": [["spaced", {}]]}), "profiles"),
        (json!({"profiles": {"spaced": {"tau_hours": 0}}}), "profiles.spaced.tau_hours"),
        (json!({"profiles": {"spaced": {"tau_hours": 1e300}}}), "profiles.spaced.tau_hours"),
        (json!({"profiles": {"generative": {"tau_hours": 3}}}), "profiles.generative.tau_hours"),
        (json!({"weights": {}}), "weights"),
    ] {
        assert_eq!(operator.put(PATH, body.clone()).await.problem("invalid_argument").0, field, "{body}");
    }
    assert_eq!(operator.get(PATH).await.ok(200)["version"], 0);
    let send = async |version: &str| {
        operator.send("PUT", PATH, &[("if-match", version)], b"{\"profile\": \"adaptive\"}".to_vec()).await
    };
    send("\"3\"").await.problem("conflict");
    assert_eq!(send("\"0\"").await.ok(200)["profile"], "adaptive");
    send("\"0\"").await.problem("conflict");
    let as_key = |tenant: &str, rights| operator.with_key(&grant(&world, tenant, None, rights));
    as_key(TENANT, Rights::ADMIN).get(PATH).await.ok(200);
    for stranger in [as_key(TENANT, Rights::READ.with(Rights::WRITE)), as_key("other", Rights::ADMIN)] {
        stranger.get(PATH).await.problem("permission_denied");
        stranger.put(PATH, json!({})).await.problem("permission_denied");
    }
}
