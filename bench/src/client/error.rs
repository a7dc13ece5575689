//! What can go wrong in a call, and the exit code that stands for it on the command line.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

/// Why a call did not give an answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The call was wrong before anything was sent: a bad URL, user or key.
    #[error("{0}")]
    Usage(String),
    /// No connection, or it broke before the whole answer was there.
    #[error("no answer from {url}: {}; is the server running?", innermost(.transport))]
    Unreachable {
        /// Base URL that was tried.
        url: String,
        /// The transport's error. Not called `source`: the message holds its deepest cause, and
        /// a chain would say it again.
        transport: reqwest::Error,
    },
    /// The server answered with an error.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The answer is not what the API promises; probably another server or version.
    #[error("unexpected answer from {url}: {detail}")]
    BadAnswer {
        /// URL that was called.
        url: String,
        /// What is wrong with the answer.
        detail: String,
    },
}

impl ClientError {
    /// The exit code of the command line for this error: 1 failed, 2 usage, 3 unreachable.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::BadAnswer { .. } => 1,
            Self::Usage(_) => 2,
            Self::Unreachable { .. } => 3,
        }
    }

    /// A short name for statistics: the API's error code, or `unreachable`, `timeout`,
    /// `bad_answer`, `usage`.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(problem) => &problem.code,
            Self::Unreachable { transport, .. } if transport.is_timeout() => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::BadAnswer { .. } => "bad_answer",
            Self::Usage(_) => "usage",
        }
    }
}

/// The deepest cause: "connection refused" says more than "error sending request".
fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// An error answer of the server: RFC 9457 problem JSON, or the closest to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// One of the API's codes, or `http_<status>` where a proxy answered instead.
    pub code: String,
    /// A sentence that says what is wrong and what to do.
    pub detail: String,
    /// The request field that is wrong, as the server names it, for example `memories[3].content`.
    pub field: Option<String>,
    /// How long the server asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Id under which the server logged the request.
    pub request_id: Option<String>,
}

#[derive(Deserialize)]
struct RawProblem {
    code: String,
    title: Option<String>,
    detail: Option<String>,
    field: Option<String>,
    retry_after_ms: Option<u64>,
    request_id: Option<String>,
}

impl Problem {
    /// Longest text quoted from an answer that is not problem JSON, in characters.
    const QUOTED_CHARS_MAX: usize = 200;

    /// Reads an error answer. `retry_after` is the HTTP header, used where the body has none.
    pub fn from_answer(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        match serde_json::from_slice::<RawProblem>(body) {
            Ok(raw) => Self {
                status,
                detail: raw.detail.or(raw.title).unwrap_or_default(),
                code: raw.code,
                field: raw.field,
                retry_after: raw.retry_after_ms.map(Duration::from_millis).or(retry_after),
                request_id: raw.request_id,
            },
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let quoted: String = text.trim().chars().take(Self::QUOTED_CHARS_MAX).collect();
                Self {
                    status,
                    code: format!("http_{status}"),
                    detail: if quoted.is_empty() { "the answer has no body".to_owned() } else { quoted },
                    field: None,
                    retry_after,
                    request_id: None,
                }
            }
        }
    }

    /// Whether the same request may well succeed a little later.
    pub fn is_temporary(&self) -> bool {
        // unknown_outcome is safe to repeat because the idempotency key stays the same.
        matches!(self.code.as_str(), "rate_limited" | "overloaded" | "unavailable" | "unknown_outcome")
            || matches!(self.status, 429 | 503)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)?;
        if let Some(field) = &self.field {
            write!(f, " (field {field})")?;
        }
        if let Some(id) = &self.request_id {
            write!(f, " [request {id}]")?;
        }
        Ok(())
    }
}
