//! Reading the body of a request, within size and time.

use super::slot::Slot;
use super::time::Deadline;
use super::{Answer, Problem};
use crate::shared::Shared;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use futures::StreamExt;
use holdfast_core::limits::REQUEST_BYTES_MAX;
use holdfast_core::{Error, ErrorCode};
use std::sync::Arc;

/// The bytes of a JSON body.
pub(crate) struct Body(pub(crate) Bytes);

impl FromRequest<Arc<Shared>> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Answer<Self> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        // A missing type is taken for JSON: there is nothing else that it could be.
        if let Some(kind) = kind
            && !is_json(kind.to_str().unwrap_or_default())
        {
            return Err(Problem::invalid(
                "Content-Type",
                "the body must be JSON; send Content-Type: application/json",
            ));
        }
        let announced = request.headers().get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > REQUEST_BYTES_MAX) {
            return Err(too_large());
        }
        // Outside of the layers that give one out, as in tests of this extractor, there is none.
        let slot = request.extensions().get::<Slot>().cloned().unwrap_or_default();
        slot.receive(shared, announced.unwrap_or(REQUEST_BYTES_MAX))?;
        let deadline = Deadline::after(shared.config.body_timeout);
        let reading = axum::body::to_bytes(request.into_body(), REQUEST_BYTES_MAX);
        match tokio::time::timeout_at(deadline.at(), reading).await {
            Ok(Ok(bytes)) => {
                slot.enter(shared)?;
                Ok(Self(bytes))
            }
            Ok(Err(error)) if is_length_limit(&error) => Err(too_large()),
            Ok(Err(_)) => {
                Err(Problem::new(ErrorCode::InvalidArgument, "the body ended before it was complete"))
            }
            Err(_) => {
                let seconds = shared.config.body_timeout.as_secs();
                let detail =
                    format!("the body did not arrive within {seconds} s; send it faster or in parts");
                Err(Problem::new(ErrorCode::DeadlineExceeded, detail))
            }
        }
    }
}

/// That a request has no body, for calls that would not look at it: what is in it was meant to say something.
pub(crate) struct NoBody;

impl FromRequest<Arc<Shared>> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Answer<Self> {
        let mut body = request.into_body().into_data_stream();
        let deadline = Deadline::after(shared.config.body_timeout);
        let refused = || Problem::invalid("body", "this call takes no body; leave it out");
        loop {
            match tokio::time::timeout_at(deadline.at(), body.next()).await {
                Ok(None) => return Ok(Self),
                Ok(Some(Ok(bytes))) if bytes.is_empty() => {}
                Ok(Some(_)) | Err(_) => return Err(refused()),
            }
        }
    }
}

/// `application/json` or `application/<something>+json`, with any parameters.
fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        // The type is http_body_util::LengthLimitError; its text is the one part of it in our reach.
        if error.to_string() == "length limit exceeded" {
            return true;
        }
        cause = error.source();
    }
    false
}

fn too_large() -> Problem {
    let mib = REQUEST_BYTES_MAX / (1024 * 1024);
    Error::new(ErrorCode::TooLarge, format!("a request may have {mib} MiB; send it in parts")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_types_are_recognised() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
            assert!(is_json(good), "{good}");
        }
        for bad in ["", "text/plain", "application/x-www-form-urlencoded", "text/json+xml", "json"] {
            assert!(!is_json(bad), "{bad}");
        }
    }
}
