//! The client of an embedding service, against a real HTTP server that does what services do on bad days.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use holdfast_models::{EmbedError, Embedder, RemoteEmbedder, RemoteSettings};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DIMS: usize = 3;

/// What the server does with a request.
#[derive(Debug, Clone)]
enum Act {
    /// Answers the vectors, the last text's first.
    Backwards,
    Fail(u16, &'static [(&'static str, &'static str)], &'static str),
    /// Answers vectors of so many dimensions.
    Dims(usize),
    /// Answers this text.
    Say(&'static str),
    /// Waits longer than anybody does.
    Sleep,
    Moved(String),
    Huge,
}

/// What the server does next, the last for ever; and what it was asked.
#[derive(Default)]
struct Service {
    acts: Mutex<VecDeque<Act>>,
    asked: Mutex<Vec<(HeaderMap, Value)>>,
}

impl Service {
    fn next(&self) -> Act {
        let mut acts = self.acts.lock().unwrap();
        if acts.len() > 1 { acts.pop_front().unwrap() } else { acts[0].clone() }
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn texts(&self, call: usize) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked[call].1["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    }
}

/// The vector of a text: its length, and what makes it differ from others of that length.
fn vector(text: &str, dims: usize) -> Vec<f64> {
    let mut vector = vec![0.0; dims];
    vector[0] = text.chars().count() as f64;
    *vector.last_mut().unwrap() += text.bytes().map(f64::from).sum::<f64>();
    vector
}

async fn embeddings(State(service): State<Arc<Service>>, headers: HeaderMap, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    service.asked.lock().unwrap().push((headers, request.clone()));
    let texts: Vec<&str> =
        request["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let answer = |dims: usize| {
        let items = texts.iter().enumerate().rev();
        let data: Vec<Value> =
            items.map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text, dims)})).collect();
        axum::Json(json!({"object": "list", "data": data, "model": request["model"]})).into_response()
    };
    match service.next() {
        Act::Backwards => answer(DIMS),
        Act::Dims(dims) => answer(dims),
        Act::Fail(code, headers, text) => {
            let mut response = (StatusCode::from_u16(code).unwrap(), text).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        }
        Act::Say(text) => text.into_response(),
        Act::Sleep => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            answer(DIMS)
        }
        Act::Moved(to) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
        Act::Huge => "x".repeat(4 << 20).into_response(),
    }
}

/// A service that does these things, and how it is reached.
async fn serve(acts: &[Act]) -> (Arc<Service>, RemoteSettings) {
    let service =
        Arc::new(Service { acts: Mutex::new(acts.iter().cloned().collect()), ..Service::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/v1/embeddings", post(embeddings)).with_state(service.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (service, RemoteSettings::new(&format!("http://{address}/v1/"), "some-model", DIMS))
}

/// Embeds on a thread that may block.
async fn embed(settings: &RemoteSettings, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
    let embedder = RemoteEmbedder::new(settings.clone()).unwrap();
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let work = move || embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn unit(text: &str) -> Vec<f32> {
    let vector = vector(text, DIMS);
    let norm = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    vector.iter().map(|value| (value / norm) as f32).collect()
}

fn reason(error: EmbedError) -> (bool, String) {
    match error {
        EmbedError::Unavailable { reason } => (true, reason),
        EmbedError::Refused { reason } | EmbedError::RefusedText { reason } => (false, reason),
        other => panic!("{other:?}"),
    }
}

const BUSY: Act = Act::Fail(429, &[("retry-after", "0")], r#"{"error": {"message": "slow down"}}"#);

#[tokio::test]
async fn vectors_come_in_the_order_of_the_texts() {
    let (service, mut settings) = serve(&[Act::Backwards]).await;
    settings.batch = 2;
    settings.key = Some("the-key".into());
    settings.send_dims = true;
    let texts = ["tea", "绿茶", "🙂", "a longer text", "tea"];
    let vectors = embed(&settings, &texts).await.unwrap();
    assert_eq!(vectors, texts.map(unit));
    assert_eq!(service.calls(), 3, "batches of two");
    assert_eq!(service.texts(1), ["🙂", "a longer text"]);
    let (headers, body) = service.asked.lock().unwrap()[0].clone();
    assert_eq!(headers["authorization"], "Bearer the-key");
    assert_eq!(
        (&body["model"], &body["dimensions"], &body["encoding_format"]),
        (&json!("some-model"), &json!(3), &json!("float"))
    );
    settings.send_dims = false;
    settings.key = None;
    embed(&settings, &["x"]).await.unwrap();
    let (headers, body) = service.asked.lock().unwrap()[3].clone();
    assert!(!headers.contains_key("authorization") && body.get("dimensions").is_none());
    assert_eq!(embed(&settings, &[]).await.unwrap(), Vec::<Vec<f32>>::new());
    assert_eq!(embed(&settings, &["a", " \n"]).await, Err(EmbedError::EmptyText { index: 1 }));
    assert_eq!(service.calls(), 4, "nothing is asked for nothing");
}

#[tokio::test]
async fn a_busy_service_is_asked_again_and_not_for_ever() {
    let (service, mut settings) = serve(&[BUSY, Act::Fail(503, &[], "starting"), Act::Backwards]).await;
    assert_eq!(embed(&settings, &["tea"]).await.unwrap(), [unit("tea")]);
    assert_eq!(service.calls(), 3);
    let (service, _) = {
        let (service, other) = serve(&[BUSY]).await;
        settings.url = other.url.clone();
        (service, other)
    };
    settings.retries = 2;
    let (for_now, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
    assert!(for_now && why.contains("429") && why.contains("slow down"), "{why}");
    assert_eq!(service.calls(), 3, "the first attempt and two more");
}

#[tokio::test]
async fn a_wait_that_is_longer_than_the_time_is_not_waited_for() {
    let (service, settings) = serve(&[Act::Fail(429, &[("retry-after", "3600")], "later")]).await;
    let (for_now, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
    assert!(for_now && why.contains("no time to try again"), "{why}");
    assert_eq!(service.calls(), 1);
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_given_up() {
    let (service, mut settings) = serve(&[Act::Sleep]).await;
    settings.timeout = Duration::from_millis(300);
    let (for_now, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
    assert!(for_now && !why.contains("127.0.0.1"), "callers are not told where it is: {why}");
    assert_eq!(service.calls(), 1);
    // Nobody listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    settings.url = format!("http://{address}/v1");
    settings.retries = 0;
    let (for_now, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
    assert!(for_now && why.contains("cannot be reached") && !why.contains("127.0.0.1"), "{why}");
}

#[tokio::test]
async fn what_will_not_get_better_is_refused_at_once() {
    for (act, words) in [
        (Act::Fail(401, &[], r#"{"error": {"message": "bad key"}}"#), "bad key; check its key"),
        (Act::Fail(404, &[], r#"{"error": "no such model"}"#), "check its url and the model's name"),
        (Act::Fail(400, &[], "{}"), "refuses with 400"),
        (Act::Dims(4), "have 4 dimensions, 3 are configured"),
        (Act::Say("<html>"), "is the url that of the API?"),
        (Act::Say(r#"{"data": []}"#), "0 vectors for 1 texts"),
        (Act::Say(r#"{"data": [{"index": 0, "embedding": [NaN, 0, 1]}]}"#), "no list of embeddings"),
        (Act::Say(r#"{"data": [{"index": 0, "embedding": [0, 0, 0]}]}"#), "vector 0"),
        (Act::Say(r#"{"data": [{"index": 7, "embedding": [0, 0, 1]}]}"#), "index 7"),
        (Act::Huge, "answered more than"),
    ] {
        let (service, settings) = serve(std::slice::from_ref(&act)).await;
        let (for_now, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
        assert!(!for_now && why.contains(words), "{act:?}: {why}");
        assert_eq!(service.calls(), 1, "{act:?}");
    }
}

#[tokio::test]
async fn a_key_does_not_follow_a_redirect() {
    let (other, settings_of_other) = serve(&[Act::Backwards]).await;
    let to = format!("{}embeddings", settings_of_other.url);
    let (service, mut settings) = serve(&[Act::Moved(to)]).await;
    settings.key = Some("the-key".into());
    let (_, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
    assert!(!why.contains("the-key"), "{why}");
    assert_eq!((service.calls(), other.calls()), (1, 0));
}

#[tokio::test]
async fn what_is_configured_wrongly_is_said_before_anything_is_asked() {
    let bad = RemoteSettings {
        ca: Some(b"no certificate".to_vec()),
        ..RemoteSettings::new("https://localhost/v1", "m", 3)
    };
    assert!(RemoteEmbedder::new(bad).unwrap_err().to_string().starts_with("ca:"));
    let bad = RemoteSettings::new("localhost:1", "m", 3);
    assert!(RemoteEmbedder::new(bad).unwrap_err().to_string().starts_with("url:"));
    let model = RemoteEmbedder::new(RemoteSettings::new("http://localhost:1/v1", "模型", 3)).unwrap();
    assert_eq!((model.model_id(), model.dims()), ("模型", 3));
    assert!(model.accepts("茶") && !model.accepts(" "));
}

/// A service behind TLS that answers one vector to each of `calls` connections, and the certificate that it
/// has, in PEM.
fn serve_in_tls(calls: usize) -> (u16, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(made.cert.der().to_vec())], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming().take(calls) {
            let stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), socket.unwrap());
            // Who does not trust us says nothing more.
            let _ = answer_one(stream);
        }
    });
    (port, made.cert.pem().into_bytes())
}

fn answer_one(stream: impl Read + Write) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length])?;
    let body = r#"{"data": [{"index": 0, "embedding": [0, 3, 4]}]}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    reader.get_mut().write_all(format!("{head}{body}").as_bytes())?;
    reader.get_mut().flush()
}

#[tokio::test]
async fn a_service_is_trusted_by_its_certificate() {
    let (port, pem) = serve_in_tls(2);
    let mut settings = RemoteSettings::new(&format!("https://localhost:{port}/v1"), "m", DIMS);
    settings.retries = 0;
    let (for_now, why) = reason(embed(&settings, &["tea"]).await.unwrap_err());
    assert!(!for_now && why.contains("certificate"), "{why}");
    settings.ca = Some(pem);
    assert_eq!(embed(&settings, &["tea"]).await.unwrap(), [vec![0.0, 0.6, 0.8]]);
}
