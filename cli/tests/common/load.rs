//! Numbered writes, whose acknowledgement is noted, and the check that they are there.

use super::Api;
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const WRITERS: usize = 8;

/// One write of one writer, numbered.
#[derive(Clone)]
pub struct Attempt {
    pub writer: usize,
    pub number: u64,
}

impl Attempt {
    pub fn content(&self) -> String {
        format!("writer {} statement {} 第{}条", self.writer, self.number, self.number)
    }

    pub fn user(&self) -> String {
        format!("user-{}", self.writer)
    }

    /// Whether it was acknowledged. The same idempotency key every time.
    pub async fn send(&self, api: &Api) -> bool {
        let path = format!("/v1/users/{}/memories", self.user());
        let request = api
            .request(Method::POST, &path)
            .header("Idempotency-Key", format!("{}-{}", self.writer, self.number))
            .json(&json!({ "memories": [{ "content": self.content() }] }));
        matches!(api.send(request).await, Ok((status, _)) if status == StatusCode::CREATED)
    }
}

/// What was acknowledged so far, and what is open.
#[derive(Default)]
pub struct Load {
    pub next: [u64; WRITERS],
    open: Vec<Attempt>,
}

impl Load {
    /// What was cut off may or may not have happened: repeated with its key, it happens once.
    pub async fn repeat_open(&mut self, api: &Api) {
        for attempt in self.open.drain(..) {
            assert!(attempt.send(api).await, "{} cannot be repeated", attempt.content());
            self.next[attempt.writer] = attempt.number + 1;
        }
    }

    /// Whether every write was acknowledged.
    pub fn is_whole(&self) -> bool {
        self.open.is_empty()
    }

    /// Writes with all writers for so long, and then until `end` has ended what they write to.
    pub async fn run(&mut self, api: &Api, time: Duration, end: impl FnOnce()) {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write(api.clone(), writer, self.next[writer], Arc::clone(&stop))))
            .collect();
        tokio::time::sleep(time).await;
        end();
        stop.store(true, Ordering::Relaxed);
        for (writer, task) in writers.into_iter().enumerate() {
            let (number, cut_off) = task.await.unwrap();
            self.next[writer] = number;
            self.open.extend(cut_off);
        }
    }

    /// Every statement below `next` is there exactly once, and nothing else is.
    pub async fn check(&self, api: &Api) {
        for (writer, next) in self.next.iter().enumerate() {
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

/// Makes the states look as if the machine had gone down while they were open: they must not be
/// used, and snapshot files and log alone must bring everything back.
pub fn reboot(data: &Path) {
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
