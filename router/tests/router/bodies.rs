//! Bodies that are no objects, and bodies where none is looked at.

use crate::common::World;
use serde_json::json;

#[tokio::test]
async fn a_deletion_with_a_body_is_refused_and_deletes_nothing() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "one"}, {"id": "b", "content": "two"}])).await.ok(201);
    api.put("/v1/collections/kb", json!({})).await.ok(201);
    api.put("/v1/users/ann/blocks/human", json!({"value": "x"})).await;
    for path in [
        "/v1/users/ann",
        "/v1/users/ann/memories/a",
        "/v1/users/ann/blocks/human",
        "/v1/users/ann/procedures/p",
        "/v1/users/ann/sessions/s",
        "/v1/collections/kb",
        "/v1/collections/kb/memories/a",
    ] {
        for body in [&b"{}"[..], b"{\"ids\": [\"b\"]}", b" ", "是".as_bytes(), &[b'x'; 100_000]] {
            let reply = api.send("DELETE", path, &[], body.to_vec()).await;
            let (field, detail) = reply.problem("invalid_argument");
            assert_eq!(field, "body", "{path}");
            assert!(detail.contains("no body"), "{detail}");
        }
    }
    let operator = world.operator();
    for path in ["/admin/v1/keys/k", "/admin/v1/tenants/t"] {
        let reply = operator.send("DELETE", path, &[], b"{}".to_vec()).await;
        assert_eq!(reply.problem("invalid_argument").0, "body", "{path}");
    }
    api.get("/v1/users/ann/memories/a").await.ok(200);
    api.get("/v1/collections/kb").await.ok(200);
    // Without one, or with an empty one, they go.
    api.send("DELETE", "/v1/users/ann/memories/a", &[("content-length", "0")], vec![]).await.ok(200);
    api.delete("/v1/collections/kb").await.ok(202);
}

/// Serde would take a list for the fields of an object in their order.
#[tokio::test]
async fn a_list_is_no_object() {
    let world = World::start().await;
    let api = world.api();
    api.add(json!([{"id": "a", "content": "one"}])).await.ok(201);
    let recall = "/v1/users/ann/recall";
    let why_not = "/v1/users/ann/recall:why-not";
    for (path, body, field) in [
        (recall, json!({"query": "q", "weights": [1, 0, 0, 0]}), "weights"),
        (recall, json!({"query": "q", "as_of": ["2024-01-01T00:00:00Z"]}), "as_of"),
        (recall, json!({"query": "q", "situation": ["mobile"]}), "situation"),
        (recall, json!(["q"]), ""),
        (why_not, json!({"query": "q", "id": "a", "weights": [1]}), "weights"),
        ("/v1/users/ann/context", json!({"query": "q", "budget_tokens": 10, "weights": []}), "weights"),
        ("/v1/users/ann/feedback", json!({"items": [["a", "adopted"]]}), "items[0]"),
        ("/v1/users/ann/feedback", json!([null, [{"id": "a", "outcome": "adopted"}]]), ""),
        ("/v1/users/ann/facts", json!({"facts": [["a", "b", "c"]]}), "facts[0]"),
        ("/v1/users/ann/erasures", json!([true]), ""),
        ("/v1/users/ann/memories", json!({"memories": [["x"]]}), "memories[0]"),
    ] {
        let (named, detail) = api.post(path, body.clone()).await.problem("invalid_argument");
        assert_eq!(named, field, "{path} {body}");
        assert!(detail.contains("object"), "{path} {body}: {detail}");
    }
    assert_eq!(api.put("/v1/collections/kb", json!([4])).await.problem("invalid_argument").0, "");
    let operator = world.operator();
    for (body, field) in [
        (json!([[], []]), ""),
        (json!({"predicates": [["badge", "single", []]]}), "predicates[0]"),
        (json!({"patterns": [["{s} wears {o}", "badge", 0.5]]}), "patterns[0]"),
    ] {
        let reply = operator.put("/admin/v1/tenants/acme/fact-rules", body.clone()).await;
        assert_eq!(reply.problem("invalid_argument").0, field, "{body}");
    }
    let memory = api.get("/v1/users/ann/memories/a").await.ok(200);
    assert_eq!(memory["access_count"], 0, "nothing of it was done");
}
