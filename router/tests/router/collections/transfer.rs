//! Exports and imports.

use super::*;

async fn export(api: &Api, name: &str) -> Vec<Value> {
    let reply = api.get(&format!("/v1/collections/{name}/export")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn import(api: &Api, name: &str, lines: &[Value]) -> Value {
    let body = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
    api.send("POST", &format!("/v1/collections/{name}/import"), &[], body).await.ok(200)
}

#[tokio::test]
async fn an_export_goes_into_a_collection_of_another_shape() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 8).await;
    let mut memories: Vec<Value> = (0..40)
        .map(|n| match n % 3 {
            0 => json!({"id": format!("m{n}"), "content": format!("note {n}"), "session": format!("s{}", n % 6)}),
            1 => json!({"content": format!("没有名字 {n}")}),
            _ => json!({"id": format!("m{n}"), "content": format!("page {n}"), "source": {"uri": format!("file:{n}")}}),
        })
        .collect();
    let fact = json!({"subject": "Office", "predicate": "located in", "object": "Ulm"});
    memories.push(json!({"id": "fact", "content": "The office is in Ulm", "session": "s0", "fact": fact}));
    add(&api, "kb", json!(memories)).await;
    api.patch("/v1/collections/kb/memories/m2", &[], json!({"content": "changed"})).await.ok(200);
    let lines = export(&api, "kb").await;
    assert_eq!(lines[0]["export"]["space"], "shared:kb");
    assert_eq!(lines[0]["export"]["partitions"].as_array().unwrap().len(), 8);
    assert_eq!(lines.last().unwrap()["end"]["memories"], 41);
    let all: BTreeSet<String> = list(&api, "kb", 100).await.into_iter().collect();

    for (name, partitions) in [("one", 1u8), ("many", 32)] {
        put(&api, name, partitions.into()).await;
        for created in [41, 0] {
            let imported = import(&api, name, &lines).await;
            assert_eq!(
                imported["memories"],
                json!({"created": created, "duplicate": 41 - created, "rejected": 0})
            );
            assert_eq!(
                (&imported["complete"], &imported["rejected"]),
                (&json!(true), &json!([])),
                "{imported}"
            );
        }
        assert_eq!(list(&api, name, 100).await.into_iter().collect::<BTreeSet<_>>(), all);
        let places = places(&world, name, partitions);
        assert_eq!(places["fact"], 0);
        let turns: BTreeSet<u8> = ["m0", "m6", "m12"].into_iter().map(|id| places[id]).collect();
        assert_eq!(turns.len(), 1, "a session stays whole");
        let history = api.get(&format!("/v1/collections/{name}/memories/m2/history")).await.ok(200);
        assert_eq!(history["versions"].as_array().unwrap().len(), 2);
        let facts = api.get(&format!("/v1/collections/{name}/facts")).await.ok(200);
        assert_eq!(facts["facts"].as_array().unwrap().len(), 1);
    }

    // Back into itself it changes nothing, and what was deleted stays deleted, wherever it lay.
    for id in all.iter().take(9) {
        api.delete(&format!("/v1/collections/kb/memories/{id}")).await.ok(200);
    }
    let imported = import(&api, "kb", &lines).await;
    assert_eq!(imported["memories"], json!({"created": 0, "duplicate": 32, "rejected": 9}), "{imported}");
    assert_eq!(list(&api, "kb", 100).await.len(), 32);

    // Vectors of another model are refused, not mixed in.
    api.put("/v1/collections/other", json!({"embedding_model": "client", "dims": 3})).await.ok(201);
    let imported = import(&api, "other", &lines).await;
    assert!(imported["memories"]["rejected"].as_u64().unwrap() > 20, "{imported}");
    assert_eq!(imported["rejected"][0]["field"], "embedding_model");
}
