//! What jobs make of sessions that are at the edge of what is allowed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use serde_json::json;
use std::time::Duration;

/// How many memories there are once there are enough of them.
async fn memories(api: &Api, user: &str, wanted: usize) -> usize {
    let mut count = 0;
    for _ in 0..300 {
        count = api.list(user).await.len();
        if count >= wanted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_ids_and_the_largest_turns_become_memories() {
    let data = scratch();
    let server = Server::start_with(data.path(), Model::Absent, &[]);
    let api = server.api();
    let longest = "s".repeat(256);
    let body =
        json!({"turns": [{"role": "user", "content": "I live in 北京 🏙 since May.", "importance": 0.9}]});
    api.ok(&format!("/v1/users/ann/sessions/{longest}/turns"), &body).await;
    // Twenty turns of nearly 64 KiB, each of other words: more than one command may hold.
    for turn in 0..20 {
        let words: Vec<String> = (0..6_000).map(|n| format!("w{turn}x{n}")).collect();
        let mut content = words.join(" ");
        content.truncate(60_000);
        let body = json!({"turns": [{"role": "user", "content": content, "importance": 0.9}]});
        api.ok("/v1/users/bob/sessions/large/turns", &body).await;
    }
    assert_eq!(memories(&api, "ann", 1).await, 1);
    assert!(memories(&api, "bob", 20).await >= 20);
    let metrics = reqwest::get(format!("{}/metrics", server.admin)).await.unwrap().text().await.unwrap();
    let parked: Vec<_> = metrics.lines().filter(|line| line.starts_with("holdfast_jobs_parked{")).collect();
    assert!(!parked.is_empty() && parked.iter().all(|line| line.ends_with(" 0")), "{parked:?}");
    assert!(server.terminate(), "a clean stop exits 0");
}
