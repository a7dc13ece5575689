//! What jobs make of sessions that are at the edge of what is allowed, and of memories that say the same.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

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

/// The pairs of texts that near-duplicates are told by, and whether each says the same twice.
fn pairs() -> Vec<(bool, String, String)> {
    let file = include_str!("../../core/src/duplicates/pairs.tsv");
    let pairs = file.lines().map(|line| {
        let mut parts = line.split('\t').map(str::to_owned);
        let mut next = || parts.next().unwrap();
        (next() == "same", next(), next())
    });
    let mut pairs: Vec<_> = pairs.collect();
    // Those that say the same last: once they are merged, all others were looked at.
    pairs.sort_by_key(|(same, ..)| *same);
    pairs
}

/// It is off by default.
const MERGING: &[&str] = &["--merge-near-duplicates"];

/// The memories of a user by their texts, once so many of them are merged.
async fn merged(api: &Api, user: &str, wanted: usize) -> BTreeMap<String, Value> {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let list = api.list(user).await;
        let count = list.iter().filter(|memory| memory["status"] == "merged").count();
        if count >= wanted {
            return list.into_iter().map(|it| (it["content"].as_str().unwrap().to_owned(), it)).collect();
        }
        assert!(Instant::now() < deadline, "{count} of {wanted} are merged for {user}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_in_the_same_words_is_merged_and_nothing_else() {
    let data = scratch();
    let server = Server::start_with(data.path(), Model::Builtin, MERGING);
    let api = server.api();
    let (mut texts, mut seen) = (Vec::new(), BTreeSet::new());
    for (_, one, other) in pairs() {
        texts.extend([one, other].into_iter().filter(|text| seen.insert(text.clone())));
    }
    for texts in texts.chunks(50) {
        let memories: Vec<Value> = texts.iter().map(|text| json!({ "content": text })).collect();
        api.ok("/v1/users/ann/memories", &json!({"memories": memories, "infer": "none"})).await;
    }
    let same: Vec<_> = pairs().into_iter().filter(|(same, ..)| *same).collect();
    let memories = merged(&api, "ann", same.len()).await;
    let merged = memories.values().filter(|memory| memory["status"] == "merged");
    for memory in merged {
        let stands = memories.values().find(|other| other["id"] == memory["merged_into"]).unwrap();
        let (one, other) = (stands["content"].as_str().unwrap(), memory["content"].as_str().unwrap());
        let is_pair =
            |(_, a, b): &(bool, String, String)| (a == one && b == other) || (a == other && b == one);
        assert!(same.iter().any(is_pair), "{one:?} {other:?}");
        assert_eq!(stands["count"], 2, "{stands}");
        assert_eq!(stands["merged"], json!([memory["id"]]), "{stands}");
    }
    server.admin_api().replicas_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_merged_outlives_its_leader_and_what_stood_for_it() {
    let data = scratch();
    let server = Server::start_with(data.path(), Model::Absent, MERGING);
    let (api, admin) = (server.api(), server.admin_api());
    let old = "The garden shed needs a new roof before winter";
    let new = "By the way, the garden shed needs a new roof before winter!";
    let other = "The garden shed needs a new door before winter";
    let users: Vec<String> = (0..6).map(|n| format!("user-{n}")).collect();
    for user in &users {
        api.add(user, &[old, other, new]).await;
    }
    // A leader goes before anything was looked at; another one finds the work in its rows.
    admin.post("/admin/v1/nodes/1:stop", &json!({})).await;
    for user in &users {
        let memories = merged(&api, user, 1).await;
        assert_eq!(memories[new]["merged_into"], memories[old]["id"]);
        assert_eq!((&memories[old]["count"], &memories[other]["count"]), (&json!(2), &json!(1)));
        assert_eq!(memories[other]["status"], "active", "a door is no roof");
        let found = api.recall(user, &json!({"query": "garden shed roof", "top_k": 10})).await;
        assert_eq!(found, [old, other], "one of two wordings");
        // Both are found by whoever asks for all, and where a filter chooses.
        let all = json!({"query": "garden shed roof", "top_k": 10, "include_deprecated": true});
        assert_eq!(api.recall(user, &all).await.len(), 3);
        let filtered =
            json!({"query": "garden shed roof", "top_k": 10, "filter": {"importance": {"$gte": 0.0}}});
        assert_eq!(api.recall(user, &filtered).await.len(), 3);
        let ask = json!({"query": "garden shed roof", "id": memories[new]["id"]});
        let (status, why) = api.post(&format!("/v1/users/{user}/recall:why-not"), &ask).await;
        assert_eq!((status.as_u16(), &why["verdict"]), (200, &json!("merged")), "{why}");
        assert_eq!(why["by"], json!([memories[old]["id"]]));
    }
    admin.post("/admin/v1/nodes/1:start", &json!({})).await;
    admin.replicas_agree().await;
    server.kill();

    let server = Server::start_with(data.path(), Model::Absent, MERGING);
    let api = server.api();
    let memories = merged(&api, &users[0], 1).await;
    let path = |user: &str, text: &str| {
        format!("/v1/users/{user}/memories/{}", memories[text]["id"].as_str().unwrap())
    };
    let (status, shown) = api.get(&path(&users[0], new)).await;
    assert_eq!((status.as_u16(), &shown["content"]), (200, &json!(new)), "what was acknowledged is there");
    let (status, _) = api.delete(&path(&users[0], old)).await;
    assert_eq!(status.as_u16(), 200);
    let left = api.list(&users[0]).await;
    let stands = left.iter().find(|memory| memory["content"] == new).unwrap();
    assert_eq!((left.len(), &stands["status"]), (2, &json!("active")), "that one was not deleted");
    let memories = merged(&api, &users[1], 1).await;
    let path = format!("/v1/users/{}/memories/{}", users[1], memories[new]["id"].as_str().unwrap());
    assert_eq!(api.delete(&path).await.0.as_u16(), 200);
    let left = api.list(&users[1]).await;
    let stands = left.iter().find(|memory| memory["content"] == old).unwrap();
    assert_eq!((left.len(), &stands["count"], &stands["merged"]), (2, &json!(1), &json!([])));
    server.admin_api().replicas_agree().await;
}
