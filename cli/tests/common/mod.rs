//! A real `holdfast dev` process, and HTTP to it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

pub mod cluster;
pub mod files;
pub mod load;
mod ports;
pub mod tls;

pub use ports::free_address;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a start may take on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);

/// Whether the embedding model is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Model {
    Builtin,
    Absent,
}

/// A running server with its data in a folder that outlives it.
pub struct Server {
    child: Child,
    pub url: String,
    pub admin: String,
    pub key: String,
}

impl Server {
    pub fn start(data: &Path, model: Model) -> Self {
        Self::start_with(data, model, &[])
    }

    pub fn start_with(data: &Path, model: Model, arguments: &[&str]) -> Self {
        Self::start_configured(data, |command| {
            command.args(arguments);
            if model == Model::Absent {
                command.env("HOLDFAST_MODEL_DIR", data.join("no-model"));
            }
        })
    }

    /// With what `configure` gives the command.
    pub fn start_configured(data: &Path, configure: impl FnOnce(&mut Command)) -> Self {
        let (http, admin) = (free_address(), free_address());
        let mut command = Command::new(cluster::program_path());
        command.args(["dev", "--http", &http, "--admin", &admin, "--data"]).arg(data);
        command.env_remove("HOLDFAST_DEV_KEY").stdout(Stdio::piped()).stderr(Stdio::inherit());
        configure(&mut command);
        let mut child = command.spawn().unwrap();
        let (url, key) = wait_ready(&mut child);
        Self { child, url, admin: format!("http://{admin}"), key }
    }

    /// As a crash or the kernel would end it.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As an operator would end it. Returns whether it exited with success.
    pub fn terminate(mut self) -> bool {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server did not stop within 30 s");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn api(&self) -> Api {
        Api::new(&self.url, &self.key)
    }

    pub fn admin_api(&self) -> Api {
        Api::new(&self.admin, &self.key)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is what most tests leave.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_ready(child: &mut Child) -> (String, String) {
    let (sender, lines) = mpsc::channel();
    let out = child.stdout.take().unwrap();
    // Reads to the end, so that the server never blocks on a full pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let deadline = Instant::now() + START_MAX;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = lines.recv_timeout(left).expect("the server ended or was not ready in time");
        if let Some(rest) = line.strip_prefix("ready ") {
            let (url, key) = rest.split_once(" key=").unwrap();
            return (url.to_owned(), key.to_owned());
        }
    }
}

/// HTTP with a key.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    key: String,
}

impl Api {
    pub fn new(base: &str, key: &str) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
        Self { http, base: base.to_owned(), key: key.to_owned() }
    }

    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    /// Sends a request and reads the answer as JSON (`null` if it has no body).
    pub async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<(StatusCode, Value)> {
        let answer = request.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(self.request(Method::POST, path).json(body)).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(self.request(Method::GET, path)).await.unwrap()
    }

    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.send(self.request(Method::DELETE, path)).await.unwrap()
    }

    /// A call that must succeed.
    pub async fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// Adds texts to a user and returns their ids.
    pub async fn add(&self, user: &str, texts: &[&str]) -> Vec<String> {
        let memories: Vec<Value> = texts.iter().map(|text| serde_json::json!({ "content": text })).collect();
        let path = format!("/v1/users/{user}/memories");
        let answer = self.ok(&path, &serde_json::json!({ "memories": memories })).await;
        let results = answer["results"].as_array().unwrap();
        results.iter().map(|result| result["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The texts that a recall answers, the best first.
    pub async fn recall(&self, user: &str, body: &Value) -> Vec<String> {
        let answer = self.ok(&format!("/v1/users/{user}/recall"), body).await;
        let results = answer["results"].as_array().unwrap();
        results.iter().map(|result| result["memory"]["content"].as_str().unwrap().to_owned()).collect()
    }

    /// All memories of a user, page by page.
    pub async fn list(&self, user: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let (status, mut page) = self.get(&format!("/v1/users/{user}/memories?limit=500{cursor}")).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            all.append(page["memories"].as_array_mut().unwrap());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// Checks that every replica of every group holds the same rows.
    pub async fn replicas_agree(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (status, answer) = self.get("/admin/v1/verify").await;
            if status == StatusCode::OK && answer["equal"] == true {
                return;
            }
            assert!(Instant::now() < deadline, "replicas differ: {status} {answer}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("holdfast-test-").tempdir().unwrap()
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
