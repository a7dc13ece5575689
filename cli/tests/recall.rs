//! What a recall understands and explains, through a real process and the real index.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use reqwest::StatusCode;
use serde_json::{Value, json};

async fn add(api: &Api, user: &str, memories: Value) {
    api.ok(&format!("/v1/users/{user}/memories"), &json!({ "memories": memories })).await;
}

async fn why_not(api: &Api, user: &str, body: Value) -> Value {
    api.ok(&format!("/v1/users/{user}/recall:why-not"), &body).await
}

/// Memories of `ann` of which each has another fate, and one of `bob`.
async fn fates(api: &Api) {
    let long = "一段很长的话。".repeat(400);
    add(
        api,
        "ann",
        json!([
            {"id": "tea", "content": "Ann drinks green tea every morning"},
            {"id": "茶", "content": "小明每天早上喝绿茶", "kind": "episodic"},
            {"id": "run", "content": "a run in the park", "importance": 0.1},
            {"id": "gone", "content": "what is to be deleted"},
            {"id": "brief", "content": "tea for a moment", "expires_at": "2020-01-01T00:00:00Z"},
            {"id": "long", "content": long},
        ]),
    )
    .await;
    for (id, content, time) in [
        ("berlin", "I live in Berlin", "2024-01-01T00:00:00Z"),
        ("paris", "I moved to Paris", "2025-01-01T00:00:00Z"),
        ("left", "Rover favours left turns", "2024-01-01T00:00:00Z"),
        ("right", "Rover favours right turns", "2025-01-01T00:00:00Z"),
    ] {
        add(api, "ann", json!([{"id": id, "content": content, "event_time": time}])).await;
    }
    assert!(api.delete("/v1/users/ann/memories/gone").await.0.is_success());
    // The same id elsewhere is of no matter here.
    add(api, "bob", json!([{"id": "secret", "content": "green tea"}])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_told_why_a_memory_is_not_returned() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    fates(&api).await;
    for (body, verdict) in [
        (json!({"query": "green tea", "id": "tea"}), "returned"),
        (json!({"query": "绿茶", "id": "茶"}), "returned"),
        (json!({"query": "green tea", "id": "run", "top_k": 1}), "below_top_k"),
        (json!({"query": "green tea", "id": "run", "min_score": 0.9}), "below_min_score"),
        (json!({"query": "green tea", "id": "茶", "kinds": ["semantic"]}), "filtered"),
        (json!({"query": "green tea", "id": "gone"}), "deleted"),
        (json!({"query": "green tea", "id": "never"}), "unknown"),
        (json!({"query": "green tea", "id": "secret"}), "unknown"),
        (json!({"query": "一段话", "id": "long"}), "chunked"),
        (json!({"query": "where do I live?", "id": "berlin"}), "superseded"),
        (json!({"query": "where do I live?", "id": "berlin", "include_deprecated": true}), "returned"),
        (json!({"query": "Rover turns", "id": "left"}), "hidden_by_newer"),
        (
            json!({"query": "where do I live?", "id": "paris", "as_of": {"valid": "2024-06-01T00:00:00Z"}}),
            "not_then",
        ),
    ] {
        let told = why_not(&api, "ann", body.clone()).await;
        assert_eq!(told["verdict"], verdict, "{body}: {told}");
        assert!(told["detail"].as_str().unwrap().len() > 10, "{told}");
        // It agrees with the recall.
        let mut recall = body.clone();
        recall.as_object_mut().unwrap().remove("id");
        let found = api.ok("/v1/users/ann/recall", &recall).await;
        let found = found["results"].as_array().unwrap();
        let place = found.iter().position(|hit| hit["memory"]["id"] == body["id"]);
        assert_eq!(place.map(|at| at as u64 + 1), told["place"].as_u64(), "{body}: {told}");
        assert_eq!(found.len() as u64, told["results"].as_u64().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_the_way_is_named() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    fates(&api).await;
    let brief = why_not(&api, "ann", json!({"query": "tea", "id": "brief"})).await;
    assert!(brief["verdict"] == "expired" || brief["verdict"] == "deleted", "swept or not yet: {brief}");

    let told = why_not(&api, "ann", json!({"query": "Rover turns", "id": "left"})).await;
    assert_eq!(told["by"], json!(["right"]));
    let told = why_not(&api, "ann", json!({"query": "where do I live?", "id": "berlin"})).await;
    assert_eq!(told["by"], json!(["paris"]));
    let told = why_not(&api, "ann", json!({"query": "茶", "id": "茶", "filter": {"kind": "semantic"}})).await;
    assert_eq!(
        told["unmet"],
        json!([{"condition": "{\"kind\":{\"$eq\":\"semantic\"}}", "found": "\"episodic\""}])
    );
    let told = why_not(&api, "ann", json!({"query": "green tea", "id": "run", "top_k": 1})).await;
    assert!(
        told["rank"].as_u64().unwrap() > 1 && told["of"].as_u64().unwrap() >= told["rank"].as_u64().unwrap()
    );
    assert!(told["score"].as_f64() < told["last"]["score"].as_f64(), "{told}");
    assert_eq!(told["ranks"], json!({"cosine": null, "keyword": null}));
    assert_eq!(told["last"]["id"], "tea");

    for (body, field) in [
        (json!({"query": "x"}), "id"),
        (json!({"query": "x", "id": ""}), "id"),
        (json!({"id": "tea"}), "query"),
        (json!({"query": "x", "id": "tea", "user": "bob"}), "user"),
    ] {
        let (status, problem) = api.post("/v1/users/ann/recall:why-not", &body).await;
        assert_eq!((status, &problem["field"]), (StatusCode::BAD_REQUEST, &json!(field)), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explained_recall_has_ranks_of_each_source() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    add(
        &api,
        "ann",
        json!([
            {"id": "a", "content": "我喜欢喝绿茶", "embedding": [1, 0]},
            {"id": "b", "content": "天气很好", "embedding": [0.6, 0.8]},
            {"id": "c", "content": "喝咖啡", "embedding": [0, 1]},
        ]),
    )
    .await;
    let body = json!({"query": "喝绿茶", "embedding": [0, 1], "explain": true});
    let found = api.ok("/v1/users/ann/recall", &body).await;
    let ranks = |id: &str| {
        let hits = found["results"].as_array().unwrap();
        hits.iter().find(|hit| hit["memory"]["id"] == id).unwrap()["ranks"].clone()
    };
    assert_eq!(ranks("a"), json!({"cosine": 3, "keyword": 1}));
    assert_eq!(ranks("b"), json!({"cosine": 2, "keyword": null}));
    assert_eq!(ranks("c"), json!({"cosine": 1, "keyword": null}));
    let plain = api.ok("/v1/users/ann/recall", &json!({"query": "喝绿茶"})).await;
    assert!(plain["results"][0].get("ranks").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_intents_and_situations_of_a_question_lift_memories() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    for user in ["ann", "安"] {
        add(
            &api,
            user,
            json!([
                {"id": "may", "content": "We talked about tea 喝茶", "kind": "episodic", "event_time": "2023-05-07T09:00:00Z"},
                {"id": "june", "content": "We talked about tea 喝茶!", "kind": "episodic", "event_time": "2023-06-07T09:00:00Z"},
                {"id": "fact", "content": "Tea is a plant 茶是植物", "kind": "semantic", "event_time": "2023-06-01T09:00:00Z"},
                {"id": "rumour", "content": "Tea is blue 茶是蓝色的", "kind": "semantic", "event_time": "2023-06-01T09:00:00Z",
                 "fact": {"subject": "tea", "predicate": "colour", "object": "blue", "confidence": 0.5}},
                {"id": "skill", "content": "Pour hot water on tea 泡茶用热水", "kind": "procedural", "event_time": "2023-06-01T09:00:00Z"},
                {"id": "beijing", "content": "Tea in the park 茶", "kind": "episodic", "event_time": "2023-06-01T09:00:00Z", "metadata": {"place": "北京"}},
            ]),
        )
        .await;
    }
    let boosts = async |user: &str, body: Value| {
        let mut body = body;
        body["explain"] = json!(true);
        body["situation"]["now"] =
            body["situation"].get("now").cloned().unwrap_or(json!("2023-07-02T12:00:00Z"));
        let found = api.ok(&format!("/v1/users/{user}/recall"), &body).await;
        let hits = found["results"].as_array().unwrap().iter();
        let boosts: std::collections::BTreeMap<String, f64> = hits
            .map(|hit| {
                (hit["memory"]["id"].as_str().unwrap().to_owned(), hit["parts"]["boost"].as_f64().unwrap())
            })
            .collect();
        (boosts, found["understood"].clone())
    };
    for (user, query, words) in [
        ("ann", "What did we say about tea in May 2023?", "in May 2023"),
        ("安", "2023年5月我们喝茶说了什么？", "2023年5月"),
    ] {
        let (found, understood) = boosts(user, json!({"query": query})).await;
        assert!((found["may"] - 0.02).abs() < 1e-6 && found["june"] == 0.0, "{found:?}");
        assert_eq!(
            understood["times"],
            json!([{"words": words, "from": "2023-05-01T00:00:00.000000Z", "until": "2023-06-01T00:00:00.000000Z"}])
        );
        assert_eq!(understood["intent"], Value::Null);
    }
    // Late in the evening of the 7th in New York is the 8th elsewhere.
    let now = json!({"now": "2023-06-08T02:00:00Z", "time_zone": "-04:00"});
    let (found, _) = boosts("ann", json!({"query": "tea yesterday", "situation": now})).await;
    assert_eq!(found["june"], 0.0, "it happened today, there: {found:?}");

    let (found, understood) = boosts("ann", json!({"query": "How do I make tea?", "intent": "auto"})).await;
    assert!((found["skill"] - 0.05).abs() < 1e-6 && found["fact"] == 0.0, "{found:?}");
    assert_eq!((&understood["intent"], &understood["guessed"]), (&json!("procedural"), &json!(true)));
    let (found, _) = boosts("安", json!({"query": "茶", "intent": "factual"})).await;
    assert!(found["fact"] > 0.09 && found["rumour"] < -0.09, "{found:?}");
    let (found, _) = boosts("安", json!({"query": "茶", "situation": {"place": "北京"}})).await;
    assert!((found["beijing"] - 0.03).abs() < 1e-6, "{found:?}");
    let short =
        api.ok("/v1/users/ann/recall", &json!({"query": "tea", "situation": {"device": "mobile"}})).await;
    assert_eq!(short["results"].as_array().unwrap().len(), 5);
    for (body, field) in [
        (json!({"query": "q", "intent": "chat"}), "intent"),
        (json!({"query": "q", "situation": {"time_zone": "Nowhere/At_All"}}), "situation.time_zone"),
        (json!({"query": "q", "situation": {"place": ""}}), "situation.place"),
    ] {
        let (status, problem) = api.post("/v1/users/ann/recall", &body).await;
        assert_eq!((status, &problem["field"]), (StatusCode::BAD_REQUEST, &json!(field)), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diverse_results_are_not_all_alike() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    add(
        &api,
        "ann",
        json!([
            {"id": "a", "content": "绿茶很好喝", "embedding": [1, 0, 0]},
            {"id": "b", "content": "绿茶很好喝！", "embedding": [0.99, 0.1, 0]},
            {"id": "c", "content": "红茶", "embedding": [0.6, 0.8, 0]},
            {"id": "d", "content": "咖啡", "embedding": [0, 0, 1]},
        ]),
    )
    .await;
    let ids = async |diversity: Value, top_k: u32| {
        let mut body =
            json!({"embedding": [1, 0, 0], "relevance": "vector", "profile": "relevance", "top_k": top_k});
        if !diversity.is_null() {
            body["diversity"] = diversity;
        }
        let found = api.ok("/v1/users/ann/recall", &body).await;
        let hits = found["results"].as_array().unwrap().iter();
        hits.map(|hit| hit["memory"]["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Value::Null, 2).await, ["a", "b"]);
    assert_eq!(ids(json!(0), 2).await, ["a", "b"]);
    // .5 .6 - .5 .6 = 0 for c, .5 .99 - .5 .99 = 0 for b, 0 for d: at .7 what is unlike wins.
    assert_eq!(ids(json!(0.7), 2).await, ["a", "d"]);
    assert_eq!(ids(json!(0.7), 4).await.len(), 4, "nothing is lost");
    let body = json!({"embedding": [1, 0, 0], "relevance": "vector", "profile": "relevance", "top_k": 2,
        "diversity": 0.7, "id": "b"});
    let told = why_not(&api, "ann", body).await;
    assert_eq!((&told["verdict"], &told["rank"]), (&json!("less_diverse"), &json!(2)), "{told}");
}

/// What answers is important and old; what is new says as much. The default weights prefer the new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_are_tuned_by_questions_and_the_memories_that_answer_them() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    let topics = 0..40;
    let memories: Vec<Value> = topics
        .clone()
        .flat_map(|n| {
            let old = json!({"id": format!("old-{n}"), "content": format!("topic{n}x alpha"), "importance": 0.9,
                "event_time": "2020-01-01T00:00:00Z"});
            let new = json!({"id": format!("new-{n}"), "content": format!("topic{n}x beta"), "importance": 0.1});
            [old, new]
        })
        .collect();
    add(&api, "ann", json!(memories)).await;
    let (questions, weights) = (data.path().join("questions"), data.path().join("weights"));
    let line = |n: i32| {
        json!({"space": "user:ann", "query": format!("topic{n}x"), "relevant": [format!("old-{n}")]})
            .to_string()
    };
    let run = |arguments: &[&str]| {
        let output = common::cluster::program()
            .args(arguments)
            .args(["--url", &server.url, "--key", &server.key])
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    std::fs::write(&questions, topics.map(line).collect::<Vec<_>>().join("\n")).unwrap();
    let (questions, weights) = (questions.to_str().unwrap(), weights.to_str().unwrap());
    let (done, said) = run(&["ctl", "tune", questions, "--trials", "60"]);
    assert!(done && said.contains("held out") && said.contains("tuned"), "{said}");
    assert!(!std::path::Path::new(weights).exists(), "nothing is written without --apply");
    let (done, said) = run(&["ctl", "tune", questions, "--trials", "60", "--apply", weights]);
    assert!(done && said.contains("written to"), "{said}");
    let found: Value = serde_json::from_str(&std::fs::read_to_string(weights).unwrap()).unwrap();
    assert!(found["importance"].as_f64() > found["recency"].as_f64(), "{found}");
    // The server takes what was found.
    let first = |arguments: &[&str]| {
        let (done, said) = run(&[&["recall", "topic3x", "--user", "ann", "--json"], arguments].concat());
        assert!(done, "{said}");
        serde_json::from_str::<Value>(&said).unwrap()["results"][0]["memory"]["id"].clone()
    };
    assert_eq!((first(&[]), first(&["--weights", weights])), (json!("new-3"), json!("old-3")));
    std::fs::write(questions, line(1)).unwrap();
    let (done, said) = run(&["ctl", "tune", questions]);
    assert!(!done && said.contains("too few"), "{said}");
}

/// A hit by its words alone is found however many vectors are nearer, and no age and no importance hides a memory or
/// makes it win.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_neither_hide_nor_win() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    let near =
        |n: usize| json!({"content": format!("note number {n}"), "embedding": [1.0, n as f64 / 1000.0, 0.0]});
    for part in [0..100, 100..150] {
        add(&api, "ann", part.map(near).collect()).await;
    }
    let mut extremes = vec![
        json!({"id": "far", "content": "the invoice CN-A10293", "embedding": [-1.0, 0.0, 0.0]}),
        json!({"id": "none", "content": "发票 CN-A10294 🙂"}),
    ];
    for (id, time) in [
        ("old", "1970-01-01T00:00:00Z"),
        ("future", "2999-12-31T23:59:59Z"),
        ("older", "1601-01-01T00:00:00Z"),
    ] {
        extremes.push(
            json!({"id": id, "content": format!("apples, {id}"), "event_time": time, "importance": 0.0}),
        );
    }
    add(&api, "ann", json!(extremes)).await;
    let recall = async |body: Value| api.ok("/v1/users/ann/recall", &body).await;
    for (query, id) in [("CN-A10293", "far"), ("CN-A10294", "none")] {
        for profile in ["ebbinghaus", "generative", "adaptive", "spaced", "relevance"] {
            let body = json!({"query": query, "embedding": [1.0, 0.0, 0.0], "top_k": 3, "profile": profile});
            let found = recall(body).await;
            let ids: Vec<&Value> =
                found["results"].as_array().unwrap().iter().map(|hit| &hit["memory"]["id"]).collect();
            assert!(ids.contains(&&json!(id)), "{query} {profile}: {found}");
        }
    }
    for profile in ["ebbinghaus", "generative", "adaptive", "spaced", "relevance"] {
        let found = recall(json!({"query": "the invoice", "top_k": 1000, "profile": profile})).await;
        let results = found["results"].as_array().unwrap();
        assert_eq!(results.len(), 155, "nothing is hidden");
        assert_eq!(results[0]["memory"]["id"], "far", "{profile}: the future does not win");
        assert!(results.iter().all(|hit| (0.0..=1.2).contains(&hit["score"].as_f64().unwrap())), "{profile}");
    }
}

/// Files of the form of PrecisionMemBench.
fn write_beliefs_and_cases(folder: &std::path::Path) {
    let belief = |id: &str, user: &str, scope: &str, text: &str, more: Value| {
        let mut belief = json!({"_id": id, "user_id": user, "type": "preference", "canonical_name": id, "aliases": [],
            "content": text, "scope": [scope], "created_at": "2026-01-01T00:00:00Z", "pinned": false});
        belief.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        belief
    };
    let beliefs = json!([
        belief("tea", "ann", "home", "drinks oolong every morning", json!({"aliases": ["乌龙茶"]})),
        belief("bike", "ann", "home", "rides a folding bicycle to the lake", json!({})),
        belief("editor_old", "ann", "work", "writes code in Emacs", json!({"superseded_by": "editor"})),
        belief(
            "editor",
            "ann",
            "work",
            "writes code in Helix",
            json!({"created_at": "2026-02-01T00:00:00Z"})
        ),
        belief("rule", "ann", "work", "reviews within a day", json!({"pinned": true})),
        belief("manner", "ann", "user:universal", "wants short answers", json!({})),
        belief("bo", "bo", "home", "drinks oolong too", json!({})),
    ]);
    let case = |id: &str, scope: &str, query: &str, expect: Value| json!({"caseId": id, "category": id, "scope": [scope], "query": query, "expect": expect});
    let cases = json!([
        case(
            "alias",
            "home",
            "乌龙茶",
            json!({"relevantBeliefs": {"shouldOnlyInclude": ["tea"]},
            "personaPrelude": {"nonEmpty": true, "contains": ["short"]}})
        ),
        case(
            "chain",
            "work",
            "Emacs or Helix for code",
            json!({"relevantBeliefs": {"shouldOnlyInclude": ["editor"]},
            "pinnedFacts": {"mustInclude": ["rule"], "mustExclude": ["bo"]}})
        ),
        case("blank", "home", "  ", json!({"relevantBeliefs": {"shouldOnlyInclude": []}})),
        case("isolation", "home", "oolong too", json!({"relevantBeliefs": {"mustExclude": ["bo"]}})),
    ]);
    std::fs::write(folder.join("beliefs.seed.json"), beliefs.to_string()).unwrap();
    std::fs::write(folder.join("retrieval.cases.json"), cases.to_string()).unwrap();
}

/// On files of the same form: what is counted is told, and another user's memories never come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_benchmark_of_precision_measures_through_the_api() {
    let folder = scratch();
    write_beliefs_and_cases(folder.path());
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let run = |min_score: &'static str| {
        let json = folder.path().join("out.json");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args([
                "bench",
                "precisionmem",
                "--min-score",
                min_score,
                "--user",
                &format!("p{min_score}"),
                "--data",
            ])
            .arg(folder.path())
            .arg("--json")
            .arg(&json)
            .env("HOLDFAST_URL", &server.url)
            .env("HOLDFAST_API_KEY", &server.key)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        (out, report)
    };
    let (out, report) = run("0.5");
    for line in ["7 beliefs, 4 cases", "leakage: 0", "supersession: 1 of 1 right", "precision ", "p95 "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert_eq!(
        (&report["leaked"], &report["stale"], &report["active"]),
        (&json!(0), &json!(0), &json!(2)),
        "{report}"
    );
    assert_eq!(report["recall"], 1.0, "{report}");
    assert_eq!(report["latency"]["count"], 3, "a blank query is not asked");
    // Without a bound everything of the scope comes, and precision says so.
    let (_, report) = run("0");
    assert_eq!((&report["leaked"], &report["recall"]), (&json!(0), &json!(1.0)), "{report}");
    assert!(report["precision"].as_f64().unwrap() < 1.0, "{report}");
}
