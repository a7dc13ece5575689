//! Error answers: `application/problem+json` (RFC 9457) with the code, the field at fault and the
//! id of the request.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdfast_core::{Error, ErrorCode};
use serde::Serialize;

/// The result of everything that may end in an error answer.
pub(crate) type Answer<T> = Result<T, Problem>;

/// An error on its way to the caller. As a response it has no body yet: the outermost layer writes
/// it, since that one knows the id of the request.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) error: Error,
    /// Where HTTP knows a more exact status than the code has.
    pub(crate) status: Option<StatusCode>,
    pub(crate) retry_after_ms: Option<u64>,
    /// The key with which the write can be repeated safely.
    pub(crate) idempotency_key: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Error::new(code, detail).into()
    }

    pub(crate) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Error::invalid(field, detail).into()
    }

    /// The same with the field named.
    #[must_use]
    pub(crate) fn at(mut self, field: &str) -> Self {
        self.error.field = Some(field.to_owned());
        self
    }

    #[must_use]
    pub(crate) fn with_idempotency_key(mut self, key: &str) -> Self {
        self.idempotency_key = Some(key.to_owned());
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let retry_after_ms = match error.code {
            ErrorCode::Overloaded | ErrorCode::RateLimited => Some(1000),
            ErrorCode::Unavailable => Some(250),
            _ => None,
        };
        Self { error, status: None, retry_after_ms, idempotency_key: None }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    request_id: &'a str,
}

impl Problem {
    fn status(&self) -> StatusCode {
        let by_code = || StatusCode::from_u16(self.error.code.http_status());
        self.status.unwrap_or_else(|| by_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }

    /// Writes headers and body into the answer that this problem made.
    pub(crate) fn render(&self, request_id: &str, response: Response) -> Response {
        let status = self.status();
        let body = Body {
            r#type: format!("/docs/errors/{}", self.error.code),
            title: title(self.error.code),
            status: status.as_u16(),
            code: self.error.code.as_str(),
            detail: &self.error.detail,
            field: self.error.field.as_deref(),
            retry_after_ms: self.retry_after_ms,
            request_id,
        };
        // Strings and numbers alone: this cannot fail, and an empty body would still carry the status.
        let bytes = serde_json::to_vec(&body).unwrap_or_default();
        let (mut parts, _) = response.into_parts();
        parts.status = status;
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(ms) = self.retry_after_ms {
            parts.headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
        }
        if status == StatusCode::UNAUTHORIZED {
            parts.headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(key) = self.idempotency_key.as_deref().and_then(|key| HeaderValue::from_str(key).ok()) {
            parts.headers.insert("idempotency-key", key);
        }
        Response::from_parts(parts, bytes.into())
    }
}

/// A short summary of a code that does not change from one occurrence to the next (RFC 9457, 3.1.3).
fn title(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidArgument => "The request is not valid",
        ErrorCode::Unauthenticated => "The credential is missing or not valid",
        ErrorCode::PermissionDenied => "The credential does not allow this",
        ErrorCode::NotFound => "There is no such thing",
        ErrorCode::Conflict => "The state is not what the request expects",
        ErrorCode::AlreadyExists => "It exists already",
        ErrorCode::TooLarge => "A size limit is exceeded",
        ErrorCode::QuotaExceeded => "The quota is used up",
        ErrorCode::RateLimited => "Too many requests",
        ErrorCode::Overloaded => "Too much is going on",
        ErrorCode::Unavailable => "Not available right now",
        ErrorCode::DeadlineExceeded => "The deadline passed",
        ErrorCode::UnknownOutcome => "The write may or may not have happened",
        ErrorCode::Corrupted => "Stored data failed a check",
        ErrorCode::Internal => "A defect of the service",
    }
}
