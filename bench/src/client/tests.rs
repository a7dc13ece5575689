//! The client against a server that counts, refuses, stalls and lies.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;

use super::*;

fn quick(url: &str) -> ClientOptions {
    ClientOptions {
        timeout: Duration::from_secs(2),
        retry: RetryPolicy {
            attempts_max: 4,
            total_max: Duration::from_secs(5),
            pause_first: Duration::from_millis(1),
            pause_max: Duration::from_millis(20),
        },
        ..ClientOptions::new(url, "hf_k_secret")
    }
}

async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}")
}

fn one(content: &str) -> AddRequest {
    AddRequest {
        memories: vec![NewMemory { content: content.to_owned(), ..NewMemory::default() }],
        partial: true,
        infer: None,
    }
}

#[tokio::test]
async fn a_write_is_retried_with_the_same_key_until_it_is_taken() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let app = Router::new().route(
        "/v1/users/{user}/memories",
        post(move |headers: HeaderMap, body: String| {
            let log = log.clone();
            async move {
                let key = headers["idempotency-key"].to_str().unwrap().to_owned();
                let bearer = headers["authorization"].to_str().unwrap().to_owned();
                let mut log = log.lock().unwrap();
                log.push((key, bearer, body));
                if log.len() < 3 {
                    let problem = r#"{"code":"overloaded","detail":"busy","retry_after_ms":1}"#;
                    return (StatusCode::SERVICE_UNAVAILABLE, problem).into_response();
                }
                let answer = r#"{"results":[{"id":"a","version":1,"status":"created"}],
                                 "token":"t","a field of a newer server":1}"#;
                (StatusCode::CREATED, answer).into_response()
            }
        }),
    );
    let client = Client::new(&quick(&serve(app).await)).unwrap();
    let answer = client.add_memories("u", &one("你好"), "k-1").await.unwrap();
    assert_eq!(answer.results[0].status, AddStatus::Created);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|call| *call == seen[0]), "{seen:?}");
    assert_eq!(seen[0].0, "k-1");
    assert_eq!(seen[0].1, "Bearer hf_k_secret");
    assert_eq!(seen[0].2, r#"{"memories":[{"content":"你好"}],"partial":true}"#);
}

#[tokio::test]
async fn retries_end_and_the_last_error_is_told() {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let app = Router::new().route(
        "/v1/users/{user}/recall",
        post(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            async { (StatusCode::TOO_MANY_REQUESTS, "slow down") }
        }),
    );
    let client = Client::new(&quick(&serve(app).await)).unwrap();
    let error = client.recall("u", &RecallRequest::default()).await.unwrap_err();
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert_eq!(error.code(), "http_429");
    assert_eq!(error.exit_code(), 1);
    assert_eq!(error.to_string(), "http_429: slow down");
}

#[tokio::test]
async fn a_refusal_is_final_and_names_code_sentence_and_field() {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let app = Router::new().route(
        "/v1/users/{user}/recall",
        post(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            async {
                let problem = r#"{"type":"/errors/invalid_argument","title":"Invalid argument",
                    "status":400,"code":"invalid_argument","detail":"top_k must be 1..1000",
                    "field":"top_k","request_id":"r1"}"#;
                (StatusCode::BAD_REQUEST, problem)
            }
        }),
    );
    let client = Client::new(&quick(&serve(app).await)).unwrap();
    let error = client.recall("u", &RecallRequest::default()).await.unwrap_err();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(error.to_string(), "invalid_argument: top_k must be 1..1000 (field top_k) [request r1]");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    // Bound and dropped: nobody listens on this port now.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(&quick(&format!("http://{address}"))).unwrap();
    let error = client.recall("u", &RecallRequest::default()).await.unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert_eq!(error.code(), "unreachable");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_server_that_stalls_times_out() {
    let app = Router::new().route(
        "/v1/users/{user}/recall",
        post(|| async { tokio::time::sleep(Duration::from_secs(60)).await }),
    );
    let mut options = quick(&serve(app).await);
    options.timeout = Duration::from_millis(50);
    options.retry = RetryPolicy::never();
    let client = Client::new(&options).unwrap();
    let error = client.recall("u", &RecallRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), "timeout");
    assert_eq!(error.exit_code(), 3);
}

#[tokio::test]
async fn an_answer_of_another_shape_is_an_error() {
    let app = Router::new().route("/v1/users/{user}/recall", post(|| async { "<html>" }));
    let client = Client::new(&quick(&serve(app).await)).unwrap();
    let error = client.recall("u", &RecallRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), "bad_answer");
}

#[tokio::test]
async fn odd_user_names_reach_the_server_whole() {
    let app = Router::new().route(
        "/v1/users/{user}/memories",
        post(|Path(user): Path<String>| async move {
            format!(r#"{{"results":[],"token":{}}}"#, serde_json::json!(user))
        }),
    );
    let client = Client::new(&quick(&serve(app).await)).unwrap();
    for user in ["a/b", "林悦 🙂", "50%", "a?b#c", "..x", " "] {
        let answer = client.add_memories(user, &one("x"), "k").await.unwrap();
        assert_eq!(answer.token.as_deref(), Some(user));
    }
    for user in ["", ".", ".."] {
        let error = client.add_memories(user, &one("x"), "k").await.unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn bad_addresses_and_keys_are_usage_errors() {
    for url in ["", "localhost:7700", "https://example.org", "ftp://x", "http://"] {
        let error = Client::new(&ClientOptions::new(url, "k")).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{url}: {error}");
    }
    assert!(Client::new(&ClientOptions::new("http://localhost:1/base/", "k")).is_ok());
    let error = Client::new(&ClientOptions::new("http://localhost:1", "a\nb")).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn pauses_grow_and_stay_bounded() {
    let policy = RetryPolicy::default();
    let busy = |retry_after| {
        ClientError::Refused(Box::new(Problem {
            status: 503,
            code: "unavailable".to_owned(),
            detail: String::new(),
            field: None,
            retry_after,
            request_id: None,
        }))
    };
    let pause = |attempt| policy.pause(attempt, Duration::ZERO, &busy(None)).unwrap();
    assert!(pause(1) >= Duration::from_millis(100) && pause(1) <= Duration::from_millis(125));
    assert!(pause(3) >= Duration::from_millis(400));
    assert_eq!(pause(7), policy.pause_max);
    assert_eq!(policy.pause(8, Duration::ZERO, &busy(None)), None);
    assert_eq!(policy.pause(1, Duration::from_secs(20), &busy(None)), None);
    let asked = policy.pause(1, Duration::ZERO, &busy(Some(Duration::from_secs(3600))));
    assert_eq!(asked, Some(policy.pause_max));
}

#[test]
fn an_import_line_with_an_unknown_field_is_refused_by_name() {
    let error = serde_json::from_str::<NewMemory>(r#"{"content":"x","importence":1}"#).unwrap_err();
    assert!(error.to_string().contains("importence"), "{error}");
    let error = serde_json::from_str::<NewMemory>(r#"{"id":"x"}"#).unwrap_err();
    assert!(error.to_string().contains("content"), "{error}");
}
