//! Recalls and contexts of several partitions.

use super::*;
use holdfast_core::space::SpaceKey;
use std::sync::atomic::Ordering;

/// A search that is limited to one collection never returns another one's.
#[tokio::test]
async fn a_recall_sees_the_spaces_it_names_alone() {
    let world = world().await;
    let api = world.api();
    // The same ids and the same sessions everywhere.
    for (name, partitions) in [("a", 1), ("b", 8), ("ab", 3)] {
        put(&api, name, partitions).await;
        let content = format!("the tea of {name}");
        add(&api, name, json!([{"id": "same", "content": content, "session": "s"}, {"id": format!("only-{name}"), "content": content}]))
            .await;
    }
    api.add(json!([{"id": "same", "content": "my own tea", "session": "s"}])).await.ok(201);
    let spaces = async |collections: Value| -> BTreeMap<String, u32> {
        let body = api.recall(json!({"query": "tea", "collections": collections})).await.ok(200);
        assert_eq!((&body["partial"], &body["missing"]), (&json!(false), &json!([])));
        let mut spaces = BTreeMap::new();
        for hit in body["results"].as_array().unwrap() {
            assert_eq!(hit["space"], hit["memory"]["space"]);
            let space = hit["space"].as_str().unwrap();
            let own =
                space == "user:ann" || hit["memory"]["content"] == format!("the tea of {}", &space[7..]);
            assert!(own, "{hit}");
            *spaces.entry(space.to_owned()).or_default() += 1;
        }
        spaces
    };
    let of = |counts: &[(&str, u32)]| -> BTreeMap<String, u32> {
        counts.iter().map(|(space, count)| ((*space).to_owned(), *count)).collect()
    };
    // An exact duplicate is merged where it is stored, so a collection of one partition has one of them.
    assert_eq!(spaces(json!([])).await, of(&[("user:ann", 1)]));
    let one = spaces(json!(["a"])).await;
    assert_eq!(one.keys().collect::<Vec<_>>(), ["shared:a", "user:ann"]);
    let two = spaces(json!(["a", "b", "a"])).await;
    assert_eq!(two.keys().collect::<Vec<_>>(), ["shared:a", "shared:b", "user:ann"]);
    let alone = api.post("/v1/collections/b/recall", json!({"query": "tea"})).await.ok(200);
    assert!(alone["results"].as_array().unwrap().iter().all(|hit| hit["space"] == "shared:b"), "{alone}");
    assert_eq!(ids(&alone), BTreeSet::from(["same".to_owned(), "only-b".to_owned()]));
    let with =
        api.post("/v1/collections/b/recall", json!({"query": "tea", "collections": ["b"]})).await.ok(200);
    assert_eq!(with["scored"], alone["scored"], "each partition is asked once");

    let scores: Vec<f64> = api.recall(json!({"query": "tea", "collections": ["a", "b", "ab"]})).await.ok(200)
        ["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["score"].as_f64().unwrap())
        .collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    let (field, _) =
        api.recall(json!({"query": "tea", "collections": ["a", "none"]})).await.problem("not_found");
    assert_eq!(field, "collections[1]");
    let (field, _) =
        api.recall(json!({"query": "tea", "collections": ["a", "x\ny"]})).await.problem("invalid_argument");
    assert_eq!(field, "collections[1]");
    for name in ["w1", "w2", "w3"] {
        put(&api, name, 64).await;
    }
    let wide = json!({"query": "tea", "collections": ["w1", "w2", "w3"]});
    assert_eq!(api.recall(wide).await.problem("too_large").0, "collections");
}

#[tokio::test]
async fn a_token_of_many_shards_is_one() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 32).await;
    let memories: Vec<Value> = (0..60).map(|n| json!({"content": format!("tea {n}")})).collect();
    let token = add(&api, "kb", json!(memories)).await["token"].clone();
    let found =
        api.recall(json!({"query": "tea", "collections": ["kb"], "token": token, "top_k": 100})).await;
    let found = found.ok(200);
    assert_eq!(ids(&found).len(), 60);
    let linearizable = json!({"query": "tea", "collections": ["kb"], "token": found["token"], "consistency": "linearizable"});
    api.recall(linearizable).await.ok(200);
}

#[tokio::test]
async fn a_shard_that_is_down_is_named() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 16).await;
    let memories: Vec<Value> = (0..60).map(|n| json!({"content": format!("tea {n}")})).collect();
    add(&api, "kb", json!(memories)).await;
    let own = world.cluster.owner(&SpaceKey::user(TENANT, "ann").unwrap()).0;
    let down = if own == 1 { 2 } else { 1 };
    let ask = |more: Value| {
        let mut body = json!({"query": "tea", "collections": ["kb"], "top_k": 100, "deadline_ms": 1500});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.recall(body)
    };
    let whole = ask(json!({})).await.ok(200);
    assert_eq!((ids(&whole).len(), &whole["partial"]), (60, &json!(false)));
    for shard in [&world.cluster.silent_shard, &world.cluster.refusing_shard] {
        shard.store(down, Ordering::SeqCst);
        let part = ask(json!({})).await.ok(200);
        assert_eq!((&part["partial"], &part["missing"]), (&json!(true), &json!([down])));
        assert!(!ids(&part).is_empty() && ids(&part).is_subset(&ids(&whole)), "{part}");
        let reply = ask(json!({"require_all": true})).await;
        let code = reply.body["code"].as_str().unwrap().to_owned();
        assert!(matches!(code.as_str(), "unavailable" | "deadline_exceeded"), "{code}");
        let (_, detail) = reply.problem(&code);
        assert!(detail.contains(&format!("the shards {down} ")), "{detail}");
        shard.store(0, Ordering::SeqCst);
    }
    assert_eq!(ids(&ask(json!({"require_all": true})).await.ok(200)), ids(&whole));
}

#[tokio::test]
async fn recalls_of_one_request_fail_alone() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 2).await;
    add(&api, "kb", json!([{"id": "shared", "content": "tea for all"}])).await;
    api.add(json!([{"id": "own", "content": "my tea"}, {"id": "run", "content": "a run"}])).await.ok(201);
    let body = json!({"recalls": [
        {"query": "tea"},
        {"query": " "},
        {"query": "tea", "collections": ["kb"]},
        {"query": "tea", "collections": ["nowhere"]},
        {"query": "tea", "colour": "red"},
        7,
        {"query": "run", "top_k": 1, "deadline_ms": 2000}
    ]});
    let answer = api.post("/v1/users/ann/recall:batch", body).await.ok(200);
    let recalls = answer["recalls"].as_array().unwrap();
    assert_eq!(recalls.len(), 7);
    assert_eq!(ids(&recalls[0]["recall"]), BTreeSet::from(["own".to_owned(), "run".to_owned()]));
    assert_eq!(ids(&recalls[2]["recall"]).len(), 3);
    assert_eq!(recalls[6]["recall"]["results"][0]["memory"]["id"], "run");
    assert!(recalls[0]["recall"]["token"].is_string());
    for (at, code, field) in [
        (1, "invalid_argument", json!("recalls[1].query")),
        (3, "not_found", json!("recalls[3].collections[0]")),
        (4, "invalid_argument", json!("recalls[4].colour")),
        (5, "invalid_argument", json!("recalls[5]")),
    ] {
        let problem = &recalls[at]["problem"];
        assert_eq!((&problem["code"], &problem["field"]), (&json!(code), &field), "{at}: {}", recalls[at]);
        assert!(problem["detail"].as_str().unwrap().len() > 10 && problem["status"].is_u64());
        assert!(recalls[at].get("recall").is_none());
    }
    let of_collection = json!({"recalls": [{"query": "tea"}]});
    let answer = api.post("/v1/collections/kb/recall:batch", of_collection).await.ok(200);
    assert_eq!(ids(&answer["recalls"][0]["recall"]), BTreeSet::from(["shared".to_owned()]));
    for (body, code, field) in [
        (json!({"recalls": []}), "invalid_argument", "recalls"),
        (json!({"recalls": vec![json!({"query": "q"}); 65]}), "too_large", "recalls"),
        (json!({"recalls": [{"query": "q"}], "deadline_ms": 0}), "invalid_argument", "deadline_ms"),
        (json!({}), "invalid_argument", "recalls"),
    ] {
        assert_eq!(api.post("/v1/users/ann/recall:batch", body).await.problem(code).0, field);
    }
    let bound = api.with_key(&grant(&world, TENANT, Some("bob"), Rights::ALL));
    let body = json!({"recalls": [{"query": "tea"}]});
    bound.post("/v1/users/ann/recall:batch", body).await.problem("permission_denied");
}

#[tokio::test]
async fn a_context_is_made_of_collections_too() {
    let world = world().await;
    let api = world.api();
    put(&api, "kb", 4).await;
    // The same id in both spaces, and a rule that holds for all users.
    let shared = json!([
        {"id": "tea", "content": "Green tea is served at noon."},
        {"id": "rule", "content": "Never order with nuts.", "importance": 1}
    ]);
    add(&api, "kb", shared).await;
    api.add(json!([{"id": "tea", "content": "I like tea in the morning"}])).await.ok(201);
    let ask = async |collections: Value| {
        let body = json!({"query": "tea", "budget_tokens": 500, "collections": collections});
        api.post("/v1/users/ann/context", body).await
    };
    let own = ask(json!([])).await.ok(200);
    assert!(!own["text"].as_str().unwrap().contains("noon"), "{own}");
    let both = ask(json!(["kb"])).await.ok(200);
    let text = both["text"].as_str().unwrap();
    assert!(["noon", "morning", "nuts"].into_iter().all(|word| text.contains(word)), "{text}");
    let items: Vec<&Value> = both["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|part| part["items"].as_array().unwrap())
        .collect();
    let of = |id: &str| items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}: {both}"));
    assert_eq!(of("shared:kb/tea")["source"]["space"], "shared:kb");
    assert_eq!(of("shared:kb/tea")["source"]["memory"], "tea");
    assert!(of("tea")["source"].get("space").is_none());
    assert_eq!((&both["partial"], &both["missing"]), (&json!(false), &json!([])));
    assert_eq!(ask(json!(["none"])).await.problem("not_found").0, "collections[0]");

    let own = world.cluster.owner(&SpaceKey::user(TENANT, "ann").unwrap()).0;
    let of_kb = |partition| world.cluster.owner(&world.cluster.shared("kb", partition)).0;
    let down = (0..4).map(of_kb).find(|shard| *shard != own).unwrap();
    world.cluster.refusing_shard.store(down, Ordering::SeqCst);
    let part = ask(json!(["kb"])).await.ok(200);
    assert_eq!((&part["partial"], &part["missing"]), (&json!(true), &json!([down])));
    let body = json!({"query": "tea", "budget_tokens": 500, "collections": ["kb"], "require_all": true});
    api.post("/v1/users/ann/context", body).await.problem("unavailable");
}
