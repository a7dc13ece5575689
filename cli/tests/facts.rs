//! Facts and the past, through a real process and the real index.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
#[path = "golden/dialogues.rs"]
mod dialogues;

use common::{Api, Model, Server, scratch};
use serde_json::{Value, json};

async fn say(api: &Api, user: &str, content: &str, event_time: &str) -> Value {
    let body = json!({"memories": [{"content": content, "event_time": event_time}]});
    api.ok(&format!("/v1/users/{user}/memories"), &body).await["results"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recall_answers_what_is_current_what_was_and_what_contradicts() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Builtin);
    let api = server.api();
    for (user, berlin, paris, query) in [
        ("ann", "I live in Berlin", "I moved to Paris", "where do I live?"),
        ("bo", "我住在柏林", "我搬到巴黎了", "我住在哪里？"),
    ] {
        say(&api, user, berlin, "2024-01-01T00:00:00Z").await;
        say(&api, user, paris, "2025-01-01T00:00:00Z").await;
        say(&api, user, berlin, "2026-01-01T00:00:00Z").await;
        // Late, and about a time before all others.
        say(&api, user, paris, "2023-01-01T00:00:00Z").await;
        let texts = async |body: Value| api.recall(user, &body).await;
        assert_eq!(texts(json!({"query": query})).await, [berlin]);
        assert_eq!(texts(json!({"query": query, "conflicts": "all"})).await.len(), 4);
        for (valid, text) in [
            ("2023-06-01T00:00:00Z", paris),
            ("2024-06-01T00:00:00Z", berlin),
            ("2025-06-01T00:00:00Z", paris),
        ] {
            assert_eq!(texts(json!({"query": query, "as_of": {"valid": valid}})).await, [text], "{valid}");
        }
        let nothing = json!({"query": query, "as_of": {"recorded": "2020-01-01T00:00:00Z"}});
        assert_eq!(texts(nothing).await, Vec::<String>::new(), "nothing was known then");
    }

    say(&api, "cy", "Rover favours left turns", "2024-01-01T00:00:00Z").await;
    say(&api, "cy", "Rover favours right turns", "2025-01-01T00:00:00Z").await;
    let latest = api.recall("cy", &json!({"query": "Rover turns"})).await;
    assert_eq!(latest, ["Rover favours right turns"]);
    assert_eq!(api.recall("cy", &json!({"query": "Rover turns", "conflicts": "mark"})).await.len(), 2);

    let (_, page) = api.get("/v1/users/ann/facts?limit=1&include_deprecated=true").await;
    assert_eq!(page["facts"].as_array().unwrap().len(), 1);
    let mut cursor = page["next_cursor"].as_str().map(str::to_owned);
    let mut listed = 1;
    while let Some(at) = cursor {
        let (_, page) =
            api.get(&format!("/v1/users/ann/facts?limit=1&include_deprecated=true&cursor={at}")).await;
        listed += page["facts"].as_array().unwrap().len();
        cursor = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(listed, 4, "each once, whatever the page");

    // What was decided and what was found survives a crash.
    server.kill();
    let server = Server::start(data.path(), Model::Builtin);
    assert_eq!(server.api().recall("ann", &json!({"query": "where do I live?"})).await, ["I live in Berlin"]);
}
