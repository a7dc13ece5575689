//! Clients that create, replace, delete and read the same few memories at once, and the check that
//! what they were told could have happened in one order.

use crate::common::Api;
use crate::settings::choices;
use holdfast_testkit::history::{Answer, Cell, Change, Operation, Recorder};
use rand::Rng;
use rand::rngs::StdRng;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

const CLIENTS: u64 = 3;
const CELLS: u32 = 3;
/// Several spaces, so that every shard is asked.
const SPACES: u32 = 3;
const ATTEMPTS: usize = 6;
const RETRY_PAUSE: Duration = Duration::from_millis(60);
/// Between two operations of a client: histories stay short enough to be checked.
const PAUSE: Duration = Duration::from_millis(40);
const CHECK_MAX: Duration = Duration::from_secs(60);

/// The clients, and what they were told since the last check.
pub struct Cells {
    seed: u64,
    epoch: u32,
    recorder: Recorder,
    running: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Cells {
    pub fn new(seed: u64) -> Self {
        Self { seed, epoch: 0, recorder: Recorder::default(), running: Vec::new(), stop: Arc::default() }
    }

    pub fn start(&mut self, api: &Api) {
        self.stop = Arc::default();
        for id in 0..CLIENTS {
            self.seed = self.seed.wrapping_add(1);
            let client = Client {
                id,
                epoch: self.epoch,
                api: api.clone(),
                rng: choices(self.seed),
                recorder: self.recorder.clone(),
                stop: Arc::clone(&self.stop),
                seen: 0,
            };
            self.running.push(tokio::spawn(client.run()));
        }
    }

    pub async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.running.drain(..) {
            task.await.unwrap();
        }
    }

    /// Checks what was told, and goes on with other memories.
    pub fn check(&mut self) {
        let history = std::mem::take(&mut self.recorder).history();
        self.epoch += 1;
        if let Err(violation) = history.check(CHECK_MAX) {
            panic!("{violation}");
        }
        println!("{} of {} operations on cells were answered", history.answered(), history.calls.len());
    }
}

struct Client {
    id: u64,
    epoch: u32,
    api: Api,
    rng: StdRng,
    recorder: Recorder,
    stop: Arc<AtomicBool>,
    /// The version that it read last.
    seen: u64,
}

impl Client {
    async fn run(mut self) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            let (space, cell) = (self.rng.random_range(0..SPACES), self.rng.random_range(0..CELLS));
            let path = format!("/v1/users/cells-{space}/memories");
            let id = format!("cell-{}-{cell}", self.epoch);
            let key = format!("{space}/{id}");
            match self.rng.random_range(0..8) {
                0..=3 => self.read(&key, &format!("{path}/{id}?consistency=linearizable")).await,
                choice => {
                    let value = format!("client {} wrote №{number} of epoch {} 值", self.id, self.epoch);
                    let change = match choice {
                        4 | 5 => Change::Create { value },
                        6 => Change::Replace { if_version: self.seen.max(1), value },
                        _ => Change::Delete,
                    };
                    self.change(&key, &path, &id, number, change).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read(&mut self, key: &str, path: &str) {
        let pending = self.recorder.begin(self.id, key, Operation::read());
        let found = match self.api.send(self.api.request(Method::GET, path)).await {
            Ok((StatusCode::OK, memory)) => Some(Some(Cell {
                version: memory["version"].as_u64().unwrap(),
                value: memory["content"].as_str().unwrap().to_owned(),
            })),
            Ok((StatusCode::NOT_FOUND, _)) => Some(None),
            Ok((status, answer)) => {
                assert!(status.is_server_error(), "a read: {status} {answer}");
                None
            }
            Err(_) => None,
        };
        if let Some(Some(cell)) = &found {
            self.seen = cell.version;
        }
        pending.end(Operation::Read { found });
    }

    async fn change(&self, key: &str, path: &str, id: &str, number: u64, change: Change) {
        let pending = self.recorder.begin(self.id, key, Operation::write(change.clone()));
        let mut answer = Answer::Unknown;
        for _ in 0..ATTEMPTS {
            let (method, path, body, version) = match &change {
                Change::Create { value } => {
                    let body = json!({ "memories": [{ "id": id, "content": value }] });
                    (Method::POST, path.to_owned(), body, None)
                }
                Change::Replace { if_version, value } => {
                    (Method::PATCH, format!("{path}/{id}"), json!({ "content": value }), Some(*if_version))
                }
                Change::Delete => (Method::DELETE, format!("{path}/{id}"), Value::Null, None),
            };
            let mut request = self.api.request(method, &path);
            request = request.header("Idempotency-Key", format!("{}-{}-{number}", self.epoch, self.id));
            if !body.is_null() {
                request = request.json(&body);
            }
            if let Some(version) = version {
                request = request.header("If-Match", format!("\"{version}\""));
            }
            match self.api.send(request).await {
                Ok((status, _)) if status.is_success() => answer = Answer::Done,
                Ok((StatusCode::NOT_FOUND | StatusCode::CONFLICT, _)) => answer = Answer::Refused,
                Ok((status, answer)) => assert!(status.is_server_error(), "{change:?}: {status} {answer}"),
                Err(_) => {}
            }
            if answer != Answer::Unknown || self.stop.load(Ordering::Relaxed) {
                break;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        pending.end(Operation::Write { change, answer });
    }
}
