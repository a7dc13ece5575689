//! Writers that never give up on a statement, and what must be there of what they wrote.

use crate::common::Api;
use crate::disk::now_ns;
use crate::settings::choices;
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How long an operation that was cut off is repeated once the cluster is well again.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(40);

/// A memory and what happened to it, at times of the monotonic clock. `u64::MAX`: not yet.
#[derive(Debug, Clone)]
struct Statement {
    added: Span,
    deleted: Option<Span>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    sent: u64,
    acknowledged: u64,
}

impl Span {
    fn begin() -> Self {
        Self { sent: now_ns(), acknowledged: u64::MAX }
    }
}

/// What one writer did in its own space.
#[derive(Default)]
struct Book {
    statements: Vec<Statement>,
    violations: Vec<String>,
    /// Longest time that one operation took to be acknowledged.
    slowest: Duration,
}

/// Several writers, each in a space of its own.
pub struct Load {
    name: String,
    seed: u64,
    writers: Vec<Arc<Mutex<Book>>>,
    running: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    pub fn new(name: &str, writers: usize, seed: u64) -> Self {
        let writers = (0..writers).map(|_| Arc::default()).collect();
        Self { name: name.into(), seed, writers, running: Vec::new(), stop: Arc::default() }
    }

    /// Starts the writers, or lets them go on.
    pub fn start(&mut self, api: &Api) {
        assert!(self.running.is_empty(), "it runs");
        self.stop = Arc::default();
        for (index, book) in self.writers.iter().enumerate() {
            self.seed = self.seed.wrapping_add(1);
            let writer = Writer {
                api: api.clone(),
                user: format!("{}-{index}", self.name),
                book: Arc::clone(book),
                stop: Arc::clone(&self.stop),
                rng: choices(self.seed),
            };
            self.running.push(tokio::spawn(writer.run()));
        }
    }

    /// Ends the writers; what they have open stays open.
    pub async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.running.drain(..) {
            task.await.unwrap();
        }
    }

    /// How many operations were acknowledged.
    pub fn acknowledged(&self) -> usize {
        let count = |book: &Arc<Mutex<Book>>| {
            let book = book.lock();
            let spans = book.statements.iter().flat_map(|one| [Some(one.added), one.deleted]);
            spans.flatten().filter(|span| span.acknowledged != u64::MAX).count()
        };
        self.writers.iter().map(count).sum()
    }

    /// The longest time that an operation took until it was acknowledged, all its repetitions together.
    pub fn slowest(&self) -> Duration {
        self.writers.iter().map(|book| book.lock().slowest).max().unwrap_or_default()
    }

    /// Repeats what is open: with its key it happens once, whether or not it has happened already.
    pub async fn settle(&self, api: &Api) {
        for (index, book) in self.writers.iter().enumerate() {
            let user = format!("{}-{index}", self.name);
            let count = book.lock().statements.len();
            for number in 0..count {
                let one = book.lock().statements[number].clone();
                for deletion in [false, true] {
                    let span = if deletion { one.deleted } else { Some(one.added) };
                    if span.is_some_and(|span| span.acknowledged == u64::MAX) {
                        settle_one(api, &user, book, number, deletion).await;
                    }
                }
            }
        }
    }

    /// What was acknowledged by a moment is there exactly once, what was deleted is not, and nothing is
    /// there that nobody had sent.
    pub async fn check(&self, api: &Api, at_ns: u64) {
        for (index, book) in self.writers.iter().enumerate() {
            let user = format!("{}-{index}", self.name);
            let mut found: BTreeMap<String, Value> = BTreeMap::new();
            for memory in api.list(&user).await {
                let id = memory["id"].as_str().unwrap().to_owned();
                assert!(found.insert(id, memory.clone()).is_none(), "{user}: twice in the list: {memory}");
            }
            let book = book.lock();
            assert_eq!(book.violations, Vec::<String>::new(), "{user}");
            for (number, one) in book.statements.iter().enumerate() {
                let memory = found.remove(&id(number));
                let is_open = one.added.acknowledged > at_ns
                    || one.deleted.is_some_and(|span| span.sent <= at_ns && span.acknowledged > at_ns);
                let is_deleted = one.deleted.is_some_and(|span| span.acknowledged <= at_ns);
                match &memory {
                    Some(memory) => {
                        assert!(one.added.sent <= at_ns, "{user}: from the future: {memory}");
                        assert!(!is_deleted, "{user}: deleted and there again: {memory}");
                        assert_eq!(memory["content"], content(&user, number), "{user}: another text");
                        assert_eq!(memory["count"], 1, "{user}: counted twice: {memory}");
                    }
                    None => assert!(is_deleted || is_open, "{user}: {} is lost: {one:?}", id(number)),
                }
            }
            assert!(found.is_empty(), "{user}: never written: {found:?}");
        }
    }

    /// All of it, once everything is quiet.
    pub async fn check_all(&self, api: &Api) {
        self.settle(api).await;
        self.check(api, u64::MAX - 1).await;
    }
}

fn id(number: usize) -> String {
    format!("statement-{number}")
}

/// Odd enough to be cut or doubled visibly.
fn content(user: &str, number: usize) -> String {
    format!("{user} says №{number}: 第{number}条 🚲 {}", "ü".repeat(number % 50))
}

async fn settle_one(api: &Api, user: &str, book: &Mutex<Book>, number: usize, deletion: bool) {
    let deadline = Instant::now() + SETTLE_MAX;
    loop {
        match send(api, user, number, deletion).await {
            Sent::Done(_) => break,
            Sent::Refused(answer) => panic!("{user}: a repeated operation is refused: {answer}"),
            Sent::Open(answer) => assert!(Instant::now() < deadline, "{user}: still not done: {answer}"),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    acknowledge(&mut book.lock().statements[number], deletion);
}

fn acknowledge(one: &mut Statement, deletion: bool) {
    let span = if deletion { one.deleted.as_mut().unwrap() } else { &mut one.added };
    span.acknowledged = now_ns();
}

enum Sent {
    /// Acknowledged, with its token.
    Done(Value),
    /// For good, by an answer that says that it will never be.
    Refused(String),
    /// It may or may not have happened.
    Open(String),
}

async fn send(api: &Api, user: &str, number: usize, deletion: bool) -> Sent {
    let path = format!("/v1/users/{user}/memories");
    let request = if deletion {
        let request = api.request(Method::DELETE, &format!("{path}/{}", id(number)));
        request.header("Idempotency-Key", format!("delete-{number}"))
    } else {
        let body = json!({ "memories": [{ "id": id(number), "content": content(user, number) }] });
        let request = api.request(Method::POST, &path).json(&body);
        request.header("Idempotency-Key", format!("add-{number}"))
    };
    match api.send(request).await {
        Ok((status, mut answer)) if status.is_success() => Sent::Done(answer["token"].take()),
        Ok((status, answer)) if status.is_client_error() => Sent::Refused(format!("{status} {answer}")),
        Ok((status, answer)) => Sent::Open(format!("{status} {answer}")),
        Err(error) => Sent::Open(error.to_string()),
    }
}

struct Writer {
    api: Api,
    user: String,
    book: Arc<Mutex<Book>>,
    stop: Arc<AtomicBool>,
    rng: StdRng,
}

impl Writer {
    async fn run(mut self) {
        // What an earlier run left open must not be overtaken.
        while !self.stop.load(Ordering::Relaxed) {
            let (number, deletion) = self.next();
            let begin = Instant::now();
            let Some(token) = self.send(number, deletion).await else { return };
            {
                let mut book = self.book.lock();
                acknowledge(&mut book.statements[number], deletion);
                book.slowest = book.slowest.max(begin.elapsed());
            }
            if self.rng.random_ratio(1, 4) {
                self.read(number, deletion, &token).await;
            }
        }
    }

    /// Notes the next operation before it is sent.
    fn next(&mut self) -> (usize, bool) {
        let mut book = self.book.lock();
        let open = |span: &Span| span.acknowledged == u64::MAX;
        if let Some(number) = book.statements.iter().position(|one| open(&one.added)) {
            return (number, false);
        }
        if let Some(number) = book.statements.iter().position(|one| one.deleted.is_some_and(|d| open(&d))) {
            return (number, true);
        }
        if !book.statements.is_empty() && self.rng.random_ratio(1, 6) {
            let number = self.rng.random_range(0..book.statements.len());
            if book.statements[number].deleted.is_none() {
                book.statements[number].deleted = Some(Span::begin());
                return (number, true);
            }
        }
        book.statements.push(Statement { added: Span::begin(), deleted: None });
        (book.statements.len() - 1, false)
    }

    /// Sends until it is acknowledged; `None` if told to stop first.
    async fn send(&self, number: usize, deletion: bool) -> Option<Value> {
        loop {
            match send(&self.api, &self.user, number, deletion).await {
                Sent::Done(token) => return Some(token),
                Sent::Refused(answer) => {
                    self.book.lock().violations.push(format!("{} is refused: {answer}", id(number)));
                    return None;
                }
                Sent::Open(_) if self.stop.load(Ordering::Relaxed) => return None,
                Sent::Open(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Reads with the token of a write: what it wrote, or nothing if that cannot be answered now.
    async fn read(&mut self, number: usize, deletion: bool, token: &Value) {
        // Any replica may answer a bounded read, also one that is behind: there the token counts.
        let bound = if self.rng.random() { "?consistency=bounded&max_staleness_ms=60000" } else { "" };
        let path = format!("/v1/users/{}/memories/{}{bound}", self.user, id(number));
        let request = self.api.request(Method::GET, &path);
        let request = request.header("Holdfast-Token", token.as_str().unwrap_or_default());
        let Ok((status, answer)) = self.api.send(request).await else { return };
        let is_as_written = match status {
            StatusCode::OK => !deletion,
            StatusCode::NOT_FOUND => deletion,
            other => other.is_server_error(),
        };
        if !is_as_written {
            let what = format!("{} with the token of its write: {status} {answer}", id(number));
            self.book.lock().violations.push(what);
        }
    }
}
