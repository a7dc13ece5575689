//! Acknowledged means durable: kill -9 of the whole process at random moments under load.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, scratch};
use rand::Rng;
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WRITERS: usize = 8;
const ROUNDS: usize = 20;

/// One write of one writer, numbered.
#[derive(Clone)]
struct Attempt {
    writer: usize,
    number: u64,
}

impl Attempt {
    fn content(&self) -> String {
        format!("writer {} statement {} 第{}条", self.writer, self.number, self.number)
    }

    fn user(&self) -> String {
        format!("user-{}", self.writer)
    }

    /// Whether it was acknowledged. The same idempotency key every time.
    async fn send(&self, api: &Api) -> bool {
        let path = format!("/v1/users/{}/memories", self.user());
        let request = api
            .request(Method::POST, &path)
            .header("Idempotency-Key", format!("{}-{}", self.writer, self.number))
            .json(&json!({ "memories": [{ "content": self.content() }] }));
        matches!(api.send(request).await, Ok((status, _)) if status == StatusCode::CREATED)
    }
}

/// Writes one statement after the other until told to stop or cut off; the last one may be open.
async fn write(api: Api, writer: usize, first: u64, stop: Arc<AtomicBool>) -> (u64, Option<Attempt>) {
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let attempt = Attempt { writer, number };
        if !attempt.send(&api).await {
            return (number, Some(attempt));
        }
        number += 1;
    }
    (number, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_write_survives_kill_9_once() {
    let data = scratch();
    let mut next = [0u64; WRITERS];
    let mut open: Vec<Attempt> = Vec::new();
    for round in 0..ROUNDS {
        if round % 7 == 6 {
            reboot(data.path());
        }
        let server = Server::start(data.path(), Model::Absent);
        let api = server.api();
        // What was cut off may or may not have happened: repeated with its key, it happens once.
        for attempt in open.drain(..) {
            assert!(attempt.send(&api).await, "round {round}: {} cannot be repeated", attempt.content());
            next[attempt.writer] = attempt.number + 1;
        }
        check(&api, &next).await;
        if round == ROUNDS / 2 {
            server.admin_api().replicas_agree().await;
        }

        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> =
            (0..WRITERS).map(|w| tokio::spawn(write(api.clone(), w, next[w], Arc::clone(&stop)))).collect();
        let pause = rand::rng().random_range(50..900);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.kill();
        stop.store(true, Ordering::Relaxed);
        for (writer, task) in writers.into_iter().enumerate() {
            let (number, cut_off) = task.await.unwrap();
            next[writer] = number;
            open.extend(cut_off);
        }
    }
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    for attempt in open {
        assert!(attempt.send(&api).await);
        next[attempt.writer] = attempt.number + 1;
    }
    check(&api, &next).await;
    assert!(next.iter().sum::<u64>() > 200, "the load wrote too little to mean anything: {next:?}");
    server.admin_api().replicas_agree().await;
    assert!(server.terminate(), "a clean stop exits 0");
}

/// Makes the states look as if the machine had gone down while they were open: they must not be
/// used, and the log alone must bring everything back.
fn reboot(data: &Path) {
    let mut states = 0;
    for node in std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path().join("shards")) {
        let Ok(shards) = std::fs::read_dir(node) else { continue };
        for shard in shards {
            let path = shard.unwrap().path().join("current.json");
            let mut current: serde_json::Value =
                serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(current["clean"], false, "a killed process leaves no clean state");
            current["boot"] = json!("another boot");
            std::fs::write(path, current.to_string()).unwrap();
            states += 1;
        }
    }
    assert_eq!(states, 3 * 9, "three nodes with eight shards and the meta group");
}

/// Every statement below `next` is there exactly once, and nothing else is.
async fn check(api: &Api, next: &[u64; WRITERS]) {
    for (writer, next) in next.iter().enumerate() {
        let mut found: HashMap<String, u64> = HashMap::new();
        for memory in api.list(&format!("user-{writer}")).await {
            assert_eq!(memory["count"], 1, "written twice: {memory}");
            *found.entry(memory["content"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        for number in 0..*next {
            let content = Attempt { writer, number }.content();
            assert_eq!(found.remove(&content), Some(1), "{content} is lost or doubled");
        }
        assert!(found.is_empty(), "never written: {found:?}");
    }
}
