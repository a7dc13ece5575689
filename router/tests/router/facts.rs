//! Facts through the public interface, stated by callers and found by rules.

use crate::common::World;
use crate::common::api::Api;
use serde_json::{Value, json};

const FACTS: &str = "/v1/users/ann/facts";
const RULES: &str = "/admin/v1/tenants/acme/fact-rules";

/// Adds one memory and answers its result.
async fn say(api: &Api, content: &str) -> Value {
    api.add(json!([{ "content": content }])).await.ok(201)["results"][0].clone()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().map(|all| all.iter().map(|text| text.as_str().unwrap()).collect()).unwrap_or_default()
}

async fn memory(api: &Api, id: &Value) -> Value {
    api.get(&format!("/v1/users/ann/memories/{}", id.as_str().unwrap())).await.ok(200)
}

async fn objects(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("{FACTS}{query}")).await.ok(200);
    page["facts"].as_array().unwrap().iter().map(|fact| fact["object"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_was_said_is_superseded_by_what_is_said_now() {
    for (old, new) in [
        ("I love Chinese food", "I hate Chinese food"),
        ("我喜欢中餐", "我讨厌中餐"),
        ("我不喜欢邓紫棋的歌", "我喜欢邓紫棋的歌"),
        ("I live in Berlin", "I moved to Paris"),
        ("我住在北京", "我搬到上海了"),
        ("I work at Acme", "I started a new job at Initech"),
    ] {
        let world = World::start().await;
        let api = world.api();
        let first = say(&api, old).await;
        let second = say(&api, new).await;
        assert_eq!(strings(&second["supersedes"]), [first["id"].as_str().unwrap()], "{new}");
        let (before, after) = (memory(&api, &first["id"]).await, memory(&api, &second["id"]).await);
        assert_eq!((&before["status"], &after["status"]), (&json!("deprecated"), &json!("active")));
        assert_eq!((&before["superseded_by"], &after["supersedes"]), (&second["id"], &json!([first["id"]])));
        assert_eq!(before["valid_to"], after["valid_from"]);
        let found = api.recall(json!({ "query": new })).await.ok(200);
        assert_eq!(found["results"].as_array().unwrap().len(), 1, "one current, never zero");
        let all = api.recall(json!({ "query": new, "conflicts": "all" })).await.ok(200);
        assert_eq!(all["results"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn steak_is_held_against_the_vegetarian() {
    for (rule, event) in [("I am a vegetarian", "I had a steak yesterday"), ("我是素食者", "昨天我吃了牛排")]
    {
        let world = World::start().await;
        let api = world.api();
        let vegetarian = say(&api, rule).await;
        let steak = say(&api, event).await;
        assert_eq!(strings(&steak["possible_conflicts"]), [vegetarian["id"].as_str().unwrap()]);
        let rule_row = memory(&api, &vegetarian["id"]).await;
        assert_eq!(
            (&rule_row["status"], &rule_row["possible_conflicts"]),
            (&json!("active"), &json!([steak["id"]]))
        );
        let count = |body: Value| body["results"].as_array().unwrap().len();
        // What happened once says that there is a conflict, and hides no rule.
        assert_eq!(count(api.recall(json!({"query": rule})).await.ok(200)), 2);
        assert_eq!(count(api.recall(json!({"query": rule, "conflicts": "mark"})).await.ok(200)), 2);
    }
}

#[tokio::test]
async fn a_wish_of_today_leaves_the_rule_standing() {
    for (rule, wish) in [
        ("我不吃辣", "今天想尝尝川菜微辣"),
        ("I don't eat spicy food", "Today I want to try something spicy"),
    ] {
        let world = World::start().await;
        let api = world.api();
        let rule = say(&api, rule).await;
        let wish = say(&api, wish).await;
        assert_eq!(strings(&wish["overrides"]), [rule["id"].as_str().unwrap()]);
        let (rule, wish) = (memory(&api, &rule["id"]).await, memory(&api, &wish["id"]).await);
        assert_eq!((&rule["status"], &rule["valid_to"]), (&json!("active"), &Value::Null));
        assert_eq!(rule["importance"], 1.0);
        assert!(wish["valid_to"].is_string());
        let today = api.recall(json!({"query": "辣 spicy"})).await.ok(200);
        assert_eq!(today["results"].as_array().unwrap().len(), 2, "{today}");
        let later = json!({"query": "辣 spicy", "situation": {"now": "2999-01-01T00:00:00Z"}});
        let later = api.recall(later).await.ok(200);
        assert_eq!(later["results"].as_array().unwrap().len(), 1);
        assert_eq!(later["results"][0]["memory"]["id"], rule["id"]);
    }
}

#[tokio::test]
async fn what_does_not_contradict_stays() {
    let world = World::start().await;
    let api = world.api();
    for text in [
        "I like tea",
        "I like coffee",
        "我喜欢茶",
        "我喜欢咖啡",
        "My sister Anna lives in Berlin",
        "My colleague Anna lives in Paris",
        "Anna Schmidt's birthday is May 3",
        "Anna called about the tickets to Paris",
        "小明昨天提到了北京",
    ] {
        let item = say(&api, text).await;
        assert_eq!(item["status"], "created", "{text}");
        for links in ["supersedes", "overrides", "possible_conflicts"] {
            assert_eq!(item.get(links), None, "{text}");
        }
    }
    let again = say(&api, "I like tea").await;
    assert_eq!(again["status"], "merged");
    assert_eq!(memory(&api, &again["id"]).await["count"], 2);
}

#[tokio::test]
async fn facts_are_stated_listed_retracted_and_resolved() {
    let world = World::start().await;
    let api = world.api();
    let stated = json!({"facts": [
        {"id": "a", "subject": "Rover", "predicate": "favours", "object": "left", "valid_from": "2024-01-01T00:00:00Z"},
        {"id": "b", "subject": "Rover", "predicate": "favours", "object": "right", "valid_from": "2025-01-01T00:00:00Z"},
        {"id": "c", "subject": "Rover", "predicate": "badge", "object": 7, "cardinality": "single",
         "valid_from": "2024-01-01T00:00:00Z"},
        {"id": "d", "subject": "Rover", "predicate": "badge", "object": 8, "cardinality": "single",
         "valid_from": "2025-01-01T00:00:00Z"},
        {"id": "e", "subject": "小明", "predicate": "住在", "object": "北京"},
    ]});
    let added = api.post(FACTS, stated).await.ok(201);
    assert_eq!(added["results"][1]["possible_conflicts"], json!(["a"]));
    assert_eq!(added["results"][3]["supersedes"], json!(["c"]));
    assert_eq!(memory(&api, &json!("e")).await["content"], "小明住在北京");

    assert_eq!(objects(&api, "?subject=rover&predicate=badge").await, ["8"]);
    assert_eq!(objects(&api, "?subject=Rover&predicate=badge&include_deprecated=true").await, ["7", "8"]);
    assert_eq!(objects(&api, "?subject=rover&predicate=badge&valid=2024-06-01T00:00:00Z").await, ["7"]);
    assert_eq!(objects(&api, "?subject=%E5%B0%8F%E6%98%8E").await, ["北京"]);
    assert_eq!(objects(&api, "").await.len(), 4);

    api.post(&format!("{FACTS}/d:retract"), json!({})).await.ok(200);
    assert_eq!(objects(&api, "?subject=rover&predicate=badge").await, ["7"]);
    let decided =
        api.post("/v1/users/ann/facts:resolve", json!({"keep": "a", "retire": ["b"]})).await.ok(200);
    assert_eq!(decided["results"][1]["status"], "retracted");
    assert_eq!(objects(&api, "?subject=rover&predicate=favours").await, ["left"]);
    let kept = memory(&api, &json!("a")).await;
    assert_eq!((&kept["supersedes"], &kept["possible_conflicts"]), (&json!(["b"]), &json!([])));
}

#[tokio::test]
async fn what_is_wrong_with_a_fact_is_told() {
    let world = World::start().await;
    let api = world.api();
    let fact = |more: Value| {
        let mut fact = json!({"subject": "I", "predicate": "lives in", "object": "Ulm"});
        fact.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{ "content": "x", "fact": fact }])
    };
    for (more, field) in [
        (json!({"subject": "..."}), "memories[0].fact.subject"),
        (json!({"object": "？！"}), "memories[0].fact.object"),
        (json!({"cardinality": "few"}), "memories[0].fact.cardinality"),
        (json!({"mode": "maybe"}), "memories[0].fact.mode"),
        (json!({"mode": "override"}), "memories[0].fact.valid_to"),
        (json!({"reason": "today"}), "memories[0].fact.reason"),
    ] {
        let (named, _) = api.add(fact(more)).await.problem("invalid_argument");
        assert_eq!(named, field);
    }
    for (path, body, code, field) in [
        (format!("{FACTS}/nobody:retract"), json!({}), "not_found", "id"),
        (format!("{FACTS}:resolve"), json!({"keep": "a", "retire": []}), "invalid_argument", "retire"),
        (format!("{FACTS}:resolve"), json!({"keep": "a", "retire": ["a"]}), "invalid_argument", "retire"),
        (format!("{FACTS}:resolve"), json!({"keep": "a", "retire": ["b"]}), "not_found", "keep"),
        (FACTS.to_owned(), json!({"facts": []}), "invalid_argument", "facts"),
    ] {
        let (named, _) = api.post(&path, body).await.problem(code);
        assert_eq!(named, field, "{path}");
    }
    for (fact, field) in [
        (json!({"subject": "...", "predicate": "p", "object": "o"}), "facts[1].subject"),
        (json!({"subject": "I", "object": "o"}), "facts[1].predicate"),
        (json!({"subject": "I", "predicate": "p", "object": "o", "importance": 7}), "facts[1].importance"),
        (json!({"subject": "I", "predicate": "p", "object": "o", "colour": 7}), "facts[1].colour"),
    ] {
        let good = json!({"subject": "I", "predicate": "p", "object": "o"});
        let body = json!({"facts": [good, fact]});
        let (named, detail) = api.post(FACTS, body.clone()).await.problem("invalid_argument");
        assert_eq!(named, field, "{detail}");
        let mut body = body;
        body["partial"] = json!(true);
        let partial = api.post(FACTS, body).await.ok(201);
        assert_eq!(partial["results"][1]["field"], field);
    }
    let (field, _) = api.get(&format!("{FACTS}?predicate=badge")).await.problem("invalid_argument");
    assert_eq!(field, "predicate");
    let (field, _) = api.get(&format!("{FACTS}?cursor=x")).await.problem("invalid_argument");
    assert_eq!(field, "cursor");
}

/// Rows 6 to 10 of what went wrong for users of other systems, beside what is tested above.
#[tokio::test]
async fn a_recalled_text_is_no_new_memory_and_a_name_retires_nothing() {
    for (text, again, mention, about) in [
        ("Anna's birthday is May 3", "Anna's birthday is May 3.", "Anna called from Rome today", "Anna"),
        ("小明的生日是5月3日", "小明的生日是5月3日。", "小明今天从罗马打来电话", "小明"),
    ] {
        let world = World::start().await;
        let api = world.api();
        let first = say(&api, text).await;
        for _ in 0..3 {
            let stored = say(&api, again).await;
            assert_eq!((&stored["status"], &stored["id"]), (&json!("merged"), &first["id"]), "{again}");
        }
        let seen = memory(&api, &first["id"]).await;
        assert_eq!((&seen["count"], &seen["status"]), (&json!(4), &json!("active")));
        say(&api, mention).await;
        let after = memory(&api, &first["id"]).await;
        assert_eq!((&after["status"], &after["superseded_by"]), (&json!("active"), &Value::Null));
        assert_eq!(after["possible_conflicts"], json!([]));
        let found = api.recall(json!({ "query": about })).await.ok(200);
        assert_eq!(found["results"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn there_and_back_again_and_what_arrives_late() {
    for (berlin, paris, place, other) in [
        ("I live in Berlin", "I moved to Paris", "Berlin", "Paris"),
        ("我住在柏林", "我搬到巴黎了", "柏林", "巴黎"),
    ] {
        let world = World::start().await;
        let api = world.api();
        for text in [berlin, paris, berlin] {
            assert_eq!(say(&api, text).await["status"], "created", "{text}");
        }
        assert_eq!(objects(&api, "").await, [place]);
        assert_eq!(objects(&api, "?include_deprecated=true").await.len(), 3, "the way is kept");
        let late = api.add(json!([{"content": paris, "event_time": "2001-01-01T00:00:00Z"}])).await.ok(201);
        let late = memory(&api, &late["results"][0]["id"]).await;
        assert_eq!(late["status"], "deprecated", "it was long ago");
        assert_eq!(objects(&api, "").await, [place]);
        assert_eq!(objects(&api, "?valid=2002-01-01T00:00:00Z").await, [other]);
    }
}

#[tokio::test]
async fn importance_is_told_by_rules() {
    let world = World::start().await;
    let api = world.api();
    for (text, importance) in [
        ("I am allergic to peanuts", 1.0),
        ("我对花生过敏", 1.0),
        ("I don't eat meat", 1.0),
        ("我不吃辣", 1.0),
        ("My name is Chen Wei", 0.9),
        ("我叫陈伟", 0.9),
        ("I like tea", 0.7),
        ("我喜欢茶", 0.7),
        ("Thank you so much!", 0.2),
        ("谢谢你！", 0.2),
        ("The train leaves at ten", 0.5),
        ("火车十点开", 0.5),
    ] {
        let item = say(&api, text).await;
        assert_eq!(memory(&api, &item["id"]).await["importance"], importance, "{text}");
    }
    let given = api.add(json!([{"content": "I like coffee", "importance": 0.1}])).await.ok(201);
    assert_eq!(memory(&api, &given["results"][0]["id"]).await["importance"], 0.1);
}

#[tokio::test]
async fn a_tenant_has_predicates_and_patterns_of_its_own() {
    let world = World::start().await;
    let (api, operator) = (world.api(), world.operator());
    let none = operator.get(RULES).await;
    assert_eq!(none.header("etag"), "\"0\"");
    assert_eq!(none.ok(200)["patterns"], json!([]));
    say(&api, "Anna wears badge 7").await;
    assert_eq!(objects(&api, "").await, Vec::<String>::new());

    let rules = json!({
        "predicates": [{"name": "badge", "cardinality": "single", "aliases": ["badge number", "工牌号"]}],
        "patterns": [{"pattern": "{s} wears badge {o}", "predicate": "badge", "importance": 0.8},
                     {"pattern": "{s}的工牌是{o}", "predicate": "工牌号"}],
    });
    let put = async |headers: &[(&str, &str)], body: &Value| {
        operator.send("PUT", RULES, headers, body.to_string().into_bytes()).await
    };
    let set = put(&[], &rules).await.ok(200);
    assert_eq!((&set["version"], &set["predicates"]), (&json!(1), &rules["predicates"]));
    let first = say(&api, "Anna wears badge 8").await;
    assert_eq!(memory(&api, &first["id"]).await["importance"], 0.8);
    let second = say(&api, "Anna的工牌是9").await;
    assert_eq!(strings(&second["supersedes"]), [first["id"].as_str().unwrap()], "{second}");
    assert_eq!(objects(&api, "?subject=anna&predicate=%E5%B7%A5%E7%89%8C%E5%8F%B7").await, ["9"]);

    put(&[("if-match", "\"7\"")], &rules).await.problem("conflict");
    assert_eq!(put(&[("if-match", "\"1\"")], &json!({})).await.ok(200)["version"], 2);
    say(&api, "Anna wears badge 10").await;
    assert_eq!(objects(&api, "?subject=anna").await, ["9"], "what was stated stays");

    for (body, field) in [
        (json!({"patterns": [{"pattern": "{s} (wears", "predicate": "x"}]}), "patterns[0]"),
        (json!({"patterns": [{"pattern": "wears badge", "predicate": "x"}]}), "patterns[0]"),
        (
            json!({"patterns": [{"pattern": "{o}", "predicate": "x", "importance": 2}]}),
            "patterns[0].importance",
        ),
        (json!({"predicates": [{"name": "x", "cardinality": "few"}]}), "predicates[0].cardinality"),
        (json!({"predicates": [{"name": "？", "cardinality": "many"}]}), "predicates[0]"),
        (json!({"rules": []}), "rules"),
    ] {
        let (named, _) = put(&[], &body).await.problem("invalid_argument");
        assert_eq!(named, field, "{body}");
    }
    let key = async |body: Value| operator.post("/admin/v1/keys", body).await.ok(201)["key"].clone();
    let writer = operator.with_key(key(json!({"rights": ["read", "write"]})).await.as_str().unwrap());
    writer.get(RULES).await.problem("permission_denied");
    operator.post("/admin/v1/tenants", json!({"id": "other"})).await.ok(201);
    let other = json!({"tenant": "other", "rights": ["read", "write", "admin"]});
    let other = operator.with_key(key(other).await.as_str().unwrap());
    other.get(RULES).await.problem("permission_denied");
    other.get("/admin/v1/tenants/other/fact-rules").await.ok(200);
    let body = json!({}).to_string().into_bytes();
    operator.send("PUT", "/admin/v1/tenants/nobody/fact-rules", &[], body).await.problem("not_found");
}

#[tokio::test]
async fn a_patch_changes_what_is_stated() {
    let world = World::start().await;
    let api = world.api();
    let first = say(&api, "I live in Berlin").await;
    let path = format!("/v1/users/ann/memories/{}", first["id"].as_str().unwrap());
    api.patch(&path, &[], json!({"importance": 0.4})).await.ok(200);
    assert_eq!(objects(&api, "").await, ["Berlin"]);
    api.patch(&path, &[], json!({"content": "I live in Bonn"})).await.ok(200);
    assert_eq!(objects(&api, "").await, ["Bonn"]);
    api.patch(&path, &[], json!({"fact": null})).await.ok(200);
    assert_eq!(objects(&api, "").await, Vec::<String>::new());
    api.patch(&path, &[], json!({"fact": {"subject": "I", "predicate": "lives in", "object": "Jena"}}))
        .await
        .ok(200);
    api.patch(&path, &[], json!({"content": "other words"})).await.ok(200);
    assert_eq!(objects(&api, "").await, ["Jena"], "what the caller stated stays");
    api.delete(&path).await.ok(200);
    assert_eq!(objects(&api, "").await, Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_to_be_looked_for() {
    let world = World::start().await;
    let api = world.api();
    let body = json!({"memories": [{"content": "I live in Berlin"}], "infer": "none"});
    api.post("/v1/users/ann/memories", body).await.ok(201);
    api.add(json!([{"content": "I live in the cloud", "role": "assistant"}])).await.ok(201);
    assert_eq!(objects(&api, "").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_change_without_a_fact_is_linked_and_retires_nothing() {
    for (older, newer, unrelated) in [
        (
            "My piano lessons are on Mondays at the school",
            "The piano lessons are now on Fridays",
            "Anna has a red bicycle",
        ),
        ("团队会议一般在周一", "团队会议改到周三了", "安娜有一辆红色自行车"),
    ] {
        let world = World::start().await;
        let api = world.api();
        let body = |content: &str| json!([{ "content": content, "role": "user" }]);
        let add = async |content: &str| api.add(body(content)).await.ok(201)["results"][0].clone();
        let (older, unrelated) = (add(older).await, add(unrelated).await);
        let newer = add(newer).await;
        if newer.get("supersedes").is_none() {
            assert_eq!(strings(&newer["possible_conflicts"]), [older["id"].as_str().unwrap()], "{newer}");
        }
        assert_eq!(memory(&api, &unrelated["id"]).await["possible_conflicts"], json!([]));
    }
}
