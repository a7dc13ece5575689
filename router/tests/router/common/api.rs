//! A client that shows everything of an answer.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method};
use serde_json::Value;
use std::net::SocketAddr;

#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    key: String,
}

/// Status, headers and body of an answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Api {
    pub fn new(address: SocketAddr, key: &str) -> Self {
        Self { client: Client::new(), base: format!("http://{address}"), key: key.to_owned() }
    }

    /// The same with another key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
        let mut all = HeaderMap::new();
        if !self.key.is_empty() {
            all.insert("authorization", HeaderValue::from_str(&format!("Bearer {}", self.key)).unwrap());
        }
        if !body.is_empty() {
            all.insert("content-type", HeaderValue::from_static("application/json"));
        }
        for (name, value) in headers {
            all.insert(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, format!("{}{path}", self.base)).headers(all).body(body);
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap();
        assert!(headers.contains_key("x-request-id"), "every answer has an id");
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Reply { status, headers, body }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], Vec::new()).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, &[], body.to_string().into_bytes()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, &[], body.to_string().into_bytes()).await
    }

    pub async fn patch(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        self.send("PATCH", path, headers, body.to_string().into_bytes()).await
    }

    /// Adds memories for user `ann`.
    pub async fn add(&self, memories: Value) -> Reply {
        self.post("/v1/users/ann/memories", serde_json::json!({ "memories": memories })).await
    }

    /// Recalls for user `ann`.
    pub async fn recall(&self, body: Value) -> Reply {
        self.post("/v1/users/ann/recall", body).await
    }
}

impl Reply {
    #[track_caller]
    pub fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Checks that this is a whole problem answer with the code, and says its field and sentence.
    #[track_caller]
    pub fn problem(&self, code: &str) -> (String, String) {
        let body = &self.body;
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], self.status);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(body["type"], format!("/docs/errors/{code}"));
        assert_eq!(body["request_id"], self.headers["x-request-id"].to_str().unwrap());
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.len() > 10, "a sentence: {detail}");
        let expected = holdfast_core::ErrorCode::from_wire(code).unwrap().http_status();
        assert!(self.status == expected || self.status == 405, "{}", self.status);
        (body["field"].as_str().unwrap_or_default().to_owned(), detail.to_owned())
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}
