//! What every route shares: bodies, errors, times, identities of requests.

pub(crate) mod body;
pub(crate) mod json;
pub(crate) mod layers;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod slot;
pub(crate) mod time;
pub(crate) mod write;

pub(crate) use body::{Body, NoBody};
pub(crate) use problem::{Answer, Problem};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdfast_core::{Error, ErrorCode};
use serde::Serialize;

/// An answer in JSON.
pub(crate) fn answer(status: StatusCode, body: &impl Serialize) -> Answer<Response> {
    let bytes = serde_json::to_vec(body)
        .map_err(|error| Error::new(ErrorCode::Internal, format!("the answer cannot be written: {error}")))?;
    let json = HeaderValue::from_static("application/json");
    Ok((status, [(header::CONTENT_TYPE, json)], bytes).into_response())
}
