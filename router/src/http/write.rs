//! The identity of a write, by which a repetition is recognised.

use super::{Answer, Problem};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use holdfast_core::command::Idempotency;
use holdfast_core::limits::ID_BYTES_MAX;
use std::convert::Infallible;
use uuid::Uuid;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What the line and the headers of a request say about a write.
pub(crate) struct WriteHead {
    request: Vec<u8>,
    key: Option<HeaderValue>,
    if_match: Option<HeaderValue>,
}

impl<S: Sync> FromRequestParts<S> for WriteHead {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let request = format!("{} {}", parts.method, parts.uri).into_bytes();
        Ok(Self::new(request, &parts.headers))
    }
}

/// The identity of one write.
pub(crate) struct WriteIdentity {
    /// The caller's key, or the one that the router made, for the caller to repeat the write with.
    pub(crate) key: String,
    /// Whether the key is the caller's, who may use it again.
    pub(crate) is_given: bool,
    request_hash: u64,
    /// The version that `If-Match` names.
    pub(crate) if_version: Option<u64>,
}

impl WriteHead {
    fn new(request: Vec<u8>, headers: &HeaderMap) -> Self {
        let one = |name| headers.get(name).cloned();
        Self { request, key: one(IDEMPOTENCY_KEY), if_match: one(header::IF_MATCH) }
    }

    /// The identity of the write with this body. Without a key of the caller's the router makes
    /// one, so that its own retries are safe.
    pub(crate) fn identity(&self, body: &[u8]) -> Answer<WriteIdentity> {
        let key = match &self.key {
            None => Uuid::now_v7().to_string(),
            Some(value) => {
                let text = value.to_str().ok().filter(|key| (1..=ID_BYTES_MAX).contains(&key.len()));
                let detail =
                    || format!("Idempotency-Key must have 1 to {ID_BYTES_MAX} printable ASCII characters");
                text.ok_or_else(|| Problem::invalid("Idempotency-Key", detail()))?.to_owned()
            }
        };
        let if_match = self.if_match.as_ref();
        let if_version = match if_match.map(|value| value.to_str().unwrap_or_default().trim()) {
            None | Some("*") => None,
            Some(tag) => Some(parse_etag(tag)?),
        };
        let mut hash = Xxh3::new();
        let if_match = if_match.map(|value| value.as_bytes()).unwrap_or_default();
        for part in [self.request.as_slice(), body, if_match] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let is_given = self.key.is_some();
        Ok(WriteIdentity { key, is_given, request_hash: hash.digest(), if_version })
    }
}

/// `"7"`: the version of a memory as an entity tag.
pub(crate) fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

fn parse_etag(tag: &str) -> Answer<u64> {
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    inner.and_then(|version| version.parse().ok()).ok_or_else(|| {
        Problem::invalid("If-Match", "If-Match must be one version in quotes, such as \"3\", as ETag gave it")
    })
}

impl WriteIdentity {
    /// The identity of a write that is one command.
    pub(crate) fn whole(&self) -> Idempotency {
        Idempotency { key_hash: xxh3_128(self.key.as_bytes()), request_hash: self.request_hash }
    }

    /// The identity of what is kept of a request that concerns several partitions. Keys hold no zero byte, and
    /// [`WriteIdentity::part`] adds another number of bytes.
    pub(crate) fn kept(&self) -> Idempotency {
        let mut key = self.key.as_bytes().to_vec();
        key.extend_from_slice(b"\0kept");
        Idempotency { key_hash: xxh3_128(&key), request_hash: self.request_hash }
    }

    /// The identity of the part `at` of a write that was cut into several commands. Keys hold no
    /// zero byte, so a part never looks like another key.
    pub(crate) fn part(&self, at: usize) -> Idempotency {
        let mut key = self.key.as_bytes().to_vec();
        key.push(0);
        key.extend_from_slice(&(at as u64).to_le_bytes());
        Idempotency { key_hash: xxh3_128(&key), request_hash: self.request_hash }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn identity(path: &str, headers: &[(&'static str, &str)], body: &[u8]) -> Answer<WriteIdentity> {
        let headers = headers.iter().map(|(name, value)| {
            (
                axum::http::HeaderName::from_static(name),
                axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            )
        });
        WriteHead::new(path.as_bytes().to_vec(), &headers.collect()).identity(body)
    }

    #[test]
    fn a_key_names_one_request() {
        let key = [("idempotency-key", "k")];
        let hash = |path: &str, headers: &[(&'static str, &str)], body: &[u8]| {
            let identity = identity(path, headers, body).unwrap();
            (identity.whole(), identity.part(0))
        };
        let first = hash("POST /a", &key, b"x");
        assert_eq!(first, hash("POST /a", &key, b"x"));
        assert_ne!(first.0.key_hash, first.1.key_hash);
        assert!(identity("POST /a", &key, b"x").unwrap().is_given);
        assert!(!identity("POST /a", &[], b"x").unwrap().is_given);
        for other in [
            hash("POST /b", &key, b"x"),
            hash("POST /a", &key, b"y"),
            hash("POST /a", &[("idempotency-key", "k"), ("if-match", "\"1\"")], b"x"),
        ] {
            assert_eq!(first.0.key_hash, other.0.key_hash);
            assert_ne!(first.0.request_hash, other.0.request_hash);
        }
    }

    #[test]
    fn bad_headers_are_refused() {
        let long = "x".repeat(257);
        for headers in [
            [("idempotency-key", "")],
            [("idempotency-key", long.as_str())],
            [("idempotency-key", "键")],
            [("if-match", "3")],
            [("if-match", "\"x\"")],
            [("if-match", "W/\"3\"")],
        ] {
            assert!(identity("PATCH /a", &headers, b"").is_err(), "{headers:?}");
        }
        assert_eq!(identity("PATCH /a", &[("if-match", "\"3\"")], b"").unwrap().if_version, Some(3));
        assert_eq!(identity("PATCH /a", &[("if-match", "*")], b"").unwrap().if_version, None);
        assert!(!identity("PATCH /a", &[], b"").unwrap().key.is_empty());
    }
}
