//! What surrounds every request: its id, its metrics, the bound on how many run at once, and what
//! a panic or an unknown path is answered with.

use super::problem::{Answer, Problem};
use super::slot::Slot;
use crate::shared::Shared;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_core::ErrorCode;
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

/// The outermost layer: gives the request an id, writes the body of a [`Problem`], counts and logs.
pub(crate) async fn observe(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = Uuid::now_v7().to_string();
    // The template, never the path itself: labels stay bounded and name no user.
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let method = method_label(request.method());
    let trace =
        request.headers().get("traceparent").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let span = tracing::debug_span!("request", id, route, trace);
    let response = next.run(request).instrument(span).await;

    let problem = response.extensions().get::<Problem>().cloned();
    let code = problem.as_ref().map_or("ok", |problem| problem.error.code.as_str());
    shared.metrics.observe_request(&route, method, code, started.elapsed());
    let mut response = match problem {
        Some(problem) => {
            log(&problem, &id, &route);
            problem.render(&id, response)
        }
        None => response,
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

fn log(problem: &Problem, id: &str, route: &str) {
    let error = &problem.error;
    match error.code {
        ErrorCode::Internal | ErrorCode::Corrupted => {
            tracing::error!(request = id, route, code = error.code.as_str(), "{}", error.detail);
        }
        ErrorCode::Unavailable | ErrorCode::UnknownOutcome | ErrorCode::Overloaded => {
            tracing::warn!(request = id, route, code = error.code.as_str(), "{}", error.detail);
        }
        // The details of what callers do wrong may hold what they sent: only the code is logged.
        _ => tracing::debug!(request = id, route, code = error.code.as_str()),
    }
}

/// Methods that exist here; anything else would let a caller make labels.
fn method_label(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "other",
    }
}

/// Refuses a request at once when too many are being worked on.
pub(crate) async fn limit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    if let Err(problem) = no_stray_parameters(request.method(), request.uri()) {
        return problem.into_response();
    }
    let slot = Slot::default();
    if let Err(problem) = slot.enter(&shared) {
        return problem.into_response();
    }
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    drop(slot);
    response
}

/// Refuses a change whose address has parameters, on the listener for operators.
pub(crate) async fn whole_address(request: Request, next: Next) -> Response {
    match no_stray_parameters(request.method(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Only what reads has parameters in its address. One that was ignored elsewhere, such as `dry_run`, could
/// cost what its sender meant to keep.
fn no_stray_parameters(method: &Method, uri: &Uri) -> Answer<()> {
    let query = uri.query().unwrap_or_default();
    if query.is_empty() || matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let name: String = query.split(['=', '&']).next().unwrap_or_default().chars().take(64).collect();
    let detail = format!("a {method} request takes no parameters in its address; leave {name:?} out");
    Err(Problem::invalid(name, detail))
}

/// The answer to a panic: a defect, reported as one, while the server goes on.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let what =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!("a request panicked: {}", what.unwrap_or("no message"));
    Problem::new(ErrorCode::Internal, "the request met a defect; please report it with the request id")
        .into_response()
}

/// The answer to a path that does not exist.
pub(crate) async fn no_such_path() -> Problem {
    Problem::new(ErrorCode::NotFound, "there is no such path; the API is described in the documentation")
}

/// The answer to a method that a path does not have.
pub(crate) async fn no_such_method() -> Problem {
    let detail = "this path does not have this method; the Allow header names those that it has";
    let mut problem = Problem::new(ErrorCode::InvalidArgument, detail);
    problem.status = Some(StatusCode::METHOD_NOT_ALLOWED);
    problem
}
