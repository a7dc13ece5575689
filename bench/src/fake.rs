//! A stand-in for the server in tests: memories by user, recall by shared words.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

#[derive(Default)]
struct Store {
    /// User -> (id, memory), in order of arrival.
    users: BTreeMap<String, Vec<(String, Value)>>,
    /// (User, idempotency key) -> answer.
    answers: HashMap<(String, String), Value>,
}

type Shared = Arc<Mutex<Store>>;

pub(crate) struct FakeServer {
    pub(crate) url: String,
    store: Shared,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let store = Shared::default();
        let app = axum::Router::new()
            .route("/v1/users/{user}/memories", post(add))
            .route("/v1/users/{user}/recall", post(recall))
            .route("/v1/users/{user}/context", post(context))
            .route("/readyz", get(|| async { "{}" }))
            .with_state(store.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, store }
    }

    pub(crate) fn memories(&self, user: &str) -> usize {
        self.store.lock().unwrap().users.get(user).map_or(0, Vec::len)
    }

    pub(crate) fn users(&self) -> usize {
        self.store.lock().unwrap().users.len()
    }
}

async fn add(
    State(store): State<Shared>,
    Path(user): Path<String>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let mut store = store.lock().unwrap();
    if let Some(answer) = store.answers.get(&(user.clone(), key.clone())) {
        return (StatusCode::CREATED, Json(answer.clone())).into_response();
    }
    let rows = store.users.entry(user.clone()).or_default();
    let results: Vec<Value> = body["memories"]
        .as_array()
        .unwrap()
        .iter()
        .map(|memory| {
            let content = memory["content"].as_str().unwrap();
            let id = memory["id"].as_str().unwrap();
            if content.is_empty() {
                return json!({"status": "rejected", "reason": "content is empty"});
            }
            if rows.iter().any(|(other, _)| other == id) {
                return json!({"id": id, "version": 1, "status": "duplicate"});
            }
            if let Some((other, _)) = rows.iter().find(|(_, m)| m["content"] == content) {
                return json!({"id": other, "version": 2, "status": "merged"});
            }
            rows.push((id.to_owned(), memory.clone()));
            json!({"id": id, "version": 1, "status": "created"})
        })
        .collect();
    let answer = json!({"results": results, "token": "t"});
    store.answers.insert((user, key), answer.clone());
    (StatusCode::CREATED, Json(answer)).into_response()
}

/// An empty one.
async fn context(Json(body): Json<Value>) -> Json<Value> {
    let budget = &body["budget_tokens"];
    Json(json!({"text": "", "sections": [], "tokens": 0, "budget_tokens": budget, "left_out": []}))
}

async fn recall(
    State(store): State<Shared>,
    Path(user): Path<String>,
    Json(body): Json<Value>,
) -> Json<Value> {
    let words = |text: &str| -> Vec<String> {
        text.to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let query = words(body["query"].as_str().unwrap());
    let store = store.lock().unwrap();
    let rows = store.users.get(&user).cloned().unwrap_or_default();
    let mut hits: Vec<(usize, Value)> = rows
        .into_iter()
        .map(|(_, memory)| {
            let text = words(memory["content"].as_str().unwrap());
            let shared = text.iter().filter(|word| query.contains(word)).count();
            let parts = json!({"relevance": shared as f64});
            (shared, json!({"memory": memory, "score": shared as f64, "parts": parts}))
        })
        .collect();
    hits.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
    hits.truncate(body["top_k"].as_u64().unwrap() as usize);
    let results: Vec<Value> = hits.into_iter().map(|(_, hit)| hit).collect();
    Json(json!({"results": results, "exact": true, "took_us": {"total": 1}, "token": "t"}))
}
