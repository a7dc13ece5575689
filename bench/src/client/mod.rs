//! A small typed client of the public REST API, used by the command line and the benchmarks.
//!
//! Every call it makes is safe to repeat: reads change nothing, and writes carry an
//! `Idempotency-Key`. So it retries, a bounded number of times, what the server calls
//! temporary and what the network broke off.

mod error;
mod retry;
mod types;

use std::io::Write;
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;

pub use error::{ClientError, Problem};
pub use retry::RetryPolicy;
use types::HeadLine;
pub use types::{
    AddAnswer, AddRequest, AddResult, AddStatus, ContextAnswer, ContextItem, ContextRequest, ContextSection,
    ContextSource, ContextTookUs, EndLine, ExportCounts, Exported, Fact, FoundMemory, ImportAnswer,
    ImportCounts, LeftOut, NewMemory, RecallAnswer, RecallHit, RecallRequest, ScoreParts, Situation, Source,
    TookUs,
};

/// The largest answer that the client reads, in bytes: a recall of 1,000 memories of 64 KiB each.
const ANSWER_BYTES_MAX: usize = 96 << 20;

/// The longest line of an export, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// How long an export may take.
const STREAM_MAX: Duration = Duration::from_hours(24);

/// Where the server is and how patiently to talk to it.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Base URL of the client listener, for example `http://127.0.0.1:7700`.
    pub url: String,
    /// API key, sent as a bearer token. It decides the tenant.
    pub key: String,
    /// Longest time for one attempt, from connecting to the last byte of the answer.
    pub timeout: Duration,
    /// When and how often an attempt is repeated.
    pub retry: RetryPolicy,
}

impl ClientOptions {
    /// Options with the default timeout (30 s an attempt) and retry policy.
    pub fn new(url: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key: key.into(),
            timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
        }
    }
}

/// A connection pool to one Holdfast router. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    authorization: HeaderValue,
    retry: RetryPolicy,
}

impl Client {
    /// Makes a client; no connection is opened yet.
    ///
    /// # Errors
    /// [`ClientError::Usage`] if the URL is not a plain `http://` address or the key holds
    /// characters that no HTTP header can carry.
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let base = parse_base(&options.url)?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", options.key)).map_err(|_| {
            ClientError::Usage(
                "the API key holds a line break or another character that no HTTP header can \
                     carry; check HOLDFAST_API_KEY"
                    .to_owned(),
            )
        })?;
        authorization.set_sensitive(true);
        let http = reqwest::Client::builder()
            .connect_timeout(options.timeout.min(Duration::from_secs(3)))
            .timeout(options.timeout)
            // A database is spoken to directly; a proxy in the environment would even take
            // the loopback addresses of `holdfast dev`.
            .no_proxy()
            .build()
            .map_err(|transport| ClientError::Unreachable { url: base.to_string(), transport })?;
        Ok(Self { http, base, authorization, retry: options.retry })
    }

    /// Stores memories of one user.
    ///
    /// `idempotency_key` must be the same only for the same request: the server answers a
    /// repetition with the first outcome.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn add_memories(
        &self,
        user: &str,
        request: &AddRequest,
        idempotency_key: &str,
    ) -> Result<AddAnswer, ClientError> {
        let url = self.user_url(user, "memories")?;
        let key = HeaderValue::from_str(idempotency_key)
            .map_err(|_| ClientError::Usage("an idempotency key must be visible ASCII".to_owned()))?;
        let body = encode(request)?;
        self.send(Method::POST, url, Some(body), Some(key)).await
    }

    /// Asks for the memories that matter for a question.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn recall(&self, user: &str, request: &RecallRequest) -> Result<RecallAnswer, ClientError> {
        let url = self.user_url(user, "recall")?;
        self.send(Method::POST, url, Some(encode(request)?), None).await
    }

    /// As [`recall`](Self::recall), but the answer is the server's JSON as it came.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn recall_json(
        &self,
        user: &str,
        request: &RecallRequest,
    ) -> Result<serde_json::Value, ClientError> {
        let url = self.user_url(user, "recall")?;
        self.send(Method::POST, url, Some(encode(request)?), None).await
    }

    /// Asks for a prompt within a token budget.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn context(&self, user: &str, request: &ContextRequest) -> Result<ContextAnswer, ClientError> {
        let url = self.user_url(user, "context")?;
        self.send(Method::POST, url, Some(encode(request)?), None).await
    }

    /// As [`context`](Self::context), but the answer is the server's JSON as it came.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn context_json(
        &self,
        user: &str,
        request: &ContextRequest,
    ) -> Result<serde_json::Value, ClientError> {
        let url = self.user_url(user, "context")?;
        self.send(Method::POST, url, Some(encode(request)?), None).await
    }

    /// Decides between memories: one stands, others are taken back in its favour.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn resolve(
        &self,
        user: &str,
        keep: &str,
        retire: &[&str],
    ) -> Result<serde_json::Value, ClientError> {
        let url = self.user_url(user, "facts:resolve")?;
        let body = encode(&serde_json::json!({"keep": keep, "retire": retire}))?;
        self.send(Method::POST, url, Some(body), None).await
    }

    /// Writes everything that a user's space holds to `out`, as JSON Lines. Returns what it comes to.
    ///
    /// # Errors
    /// What the server refused, that it could not be reached or broke off, or that `out` takes no more.
    pub async fn export(&self, user: &str, out: &mut impl Write) -> Result<Exported, ClientError> {
        let url = self.user_url(user, "export")?;
        let request = self
            .http
            .get(url.clone())
            .header("authorization", self.authorization.clone())
            // As long as it takes: what stops is noticed by the server.
            .timeout(STREAM_MAX);
        let unreachable =
            |transport: reqwest::Error| ClientError::Unreachable { url: self.base.to_string(), transport };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let bad = |detail: String| ClientError::BadAnswer { url: url.to_string(), detail };
        let (mut first, mut last) = (Vec::new(), Vec::new());
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if status.is_success() {
                out.write_all(&chunk).map_err(|error| bad(format!("it could not be written: {error}")))?;
            }
            keep_first_line(&mut first, &chunk);
            keep_last_line(&mut last, &chunk);
        }
        if !status.is_success() {
            return Err(ClientError::Refused(Box::new(Problem::from_answer(status.as_u16(), &last, None))));
        }
        let end: Option<EndLine> = serde_json::from_slice(&last).ok();
        let end = end.ok_or_else(|| bad("the export broke off: its last line is missing".to_owned()))?.end;
        let head: HeadLine = serde_json::from_slice(&first)
            .map_err(|error| bad(format!("the first line of the export cannot be read: {error}")))?;
        Ok(Exported { counts: end, left_out: head.export.left_out })
    }

    /// Brings lines of an export in; the first of them must be its head.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached (see [`ClientError`]).
    pub async fn import_lines(
        &self,
        user: &str,
        lines: Vec<u8>,
        idempotency_key: &str,
    ) -> Result<ImportAnswer, ClientError> {
        let url = self.user_url(user, "import")?;
        let key = HeaderValue::from_str(idempotency_key)
            .map_err(|_| ClientError::Usage("an idempotency key must be visible ASCII".to_owned()))?;
        self.send(Method::POST, url, Some(lines), Some(key)).await
    }

    /// `/v1/users/{user}/{resource}`, with the user escaped.
    fn user_url(&self, user: &str, resource: &str) -> Result<Url, ClientError> {
        // A URL parser folds "." and ".." away (escaped or not), so they cannot be addressed.
        if user.is_empty() || user == "." || user == ".." {
            return Err(ClientError::Usage(format!(
                "the user {user:?} cannot stand in a URL; choose another name"
            )));
        }
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| ClientError::Usage(format!("{} cannot be a base URL", self.base)))?
            .pop_if_empty()
            .extend(["v1", "users", user, resource]);
        Ok(url)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<Vec<u8>>,
        idempotency_key: Option<HeaderValue>,
    ) -> Result<T, ClientError> {
        let started = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut request = self
                .http
                .request(method.clone(), url.clone())
                .header("authorization", self.authorization.clone());
            if let Some(body) = &body {
                request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            }
            if let Some(key) = &idempotency_key {
                request = request.header("idempotency-key", key.clone());
            }
            let error = match self.attempt(request).await {
                Ok(bytes) => {
                    return serde_json::from_slice(&bytes).map_err(|source| ClientError::BadAnswer {
                        url: url.to_string(),
                        detail: source.to_string(),
                    });
                }
                Err(error) => error,
            };
            match self.retry.pause(attempt, started.elapsed(), &error) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    /// One attempt: the body of a 2xx answer, or the error that stands for everything else.
    async fn attempt(&self, request: RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let unreachable =
            |transport: reqwest::Error| ClientError::Unreachable { url: self.base.to_string(), transport };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|seconds| seconds.trim().parse::<u64>().ok())
            .map(Duration::from_secs);
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(ClientError::BadAnswer {
                    url: self.base.to_string(),
                    detail: format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(bytes);
        }
        Err(ClientError::Refused(Box::new(Problem::from_answer(status.as_u16(), &bytes, retry_after))))
    }
}

/// Keeps the first line, as far as a line of an export goes.
fn keep_first_line(first: &mut Vec<u8>, chunk: &[u8]) {
    if !first.ends_with(b"\n") {
        let room = LINE_BYTES_MAX.saturating_sub(first.len());
        let end = chunk.iter().position(|byte| *byte == b'\n').map_or(chunk.len(), |at| at + 1);
        first.extend_from_slice(&chunk[..end.min(room)]);
    }
}

/// Keeps what follows the last line break but one, or the last: a whole last line at the end.
fn keep_last_line(last: &mut Vec<u8>, chunk: &[u8]) {
    last.extend_from_slice(chunk);
    let whole = last.strip_suffix(b"\n").unwrap_or(last);
    if let Some(at) = whole.iter().rposition(|byte| *byte == b'\n') {
        last.drain(..=at);
    }
}

fn encode(request: &impl serde::Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(request)
        .map_err(|source| ClientError::Usage(format!("the request cannot be encoded: {source}")))
}

fn parse_base(text: &str) -> Result<Url, ClientError> {
    let url = Url::parse(text).map_err(|source| {
        ClientError::Usage(format!("{text:?} is not a URL ({source}); give HOLDFAST_URL as http://host:port"))
    })?;
    match url.scheme() {
        "http" if url.has_host() => Ok(url),
        "https" => Err(ClientError::Usage(format!(
            "{text} needs TLS, which this client does not speak yet; use the http:// address or a \
             local TLS proxy"
        ))),
        _ => Err(ClientError::Usage(format!(
            "{text:?} is not an HTTP address; give HOLDFAST_URL as http://host:port"
        ))),
    }
}

#[cfg(test)]
mod tests;
