//! `POST …/recall:batch`: many recalls in one request, each with its own answer or problem.

use super::parse::Query;
use super::{Recall, Recalled, run};
use crate::auth::InSpace;
use crate::http::json::{self, Bounded};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::{Body, answer};
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures::stream::{self, StreamExt};
use holdfast_core::Error;
use holdfast_core::access::Rights;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most recalls of one request.
const RECALLS_MAX: usize = 64;
/// How many of them run at once, so that one request does not take the place of many.
const AT_ONCE: usize = 8;
/// Most results that all of them may ask for together.
const RESULTS_MAX: u64 = 4_096;
/// Longest time for all of them, in milliseconds.
const DEADLINE_MS_MAX: u64 = 60_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    /// Read one by one, so that each can fail alone.
    #[serde(borrow)]
    recalls: Bounded<&'a RawValue, RECALLS_MAX>,
    /// For all of them together.
    deadline_ms: Option<u64>,
}

#[derive(Serialize)]
struct Recalls {
    /// In the order of the request.
    recalls: Vec<Outcome>,
}

/// One of the two.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Recall(Box<Recalled>),
    Problem(Failed),
}

/// As a problem answer says it.
#[derive(Serialize)]
struct Failed {
    code: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        let Problem { error, retry_after_ms, .. } = problem;
        Self {
            code: error.code.as_str(),
            status: error.code.http_status(),
            detail: error.detail,
            field: error.field,
            retry_after_ms,
        }
    }
}

/// Where the field of a recall stands in the request.
fn within(at: usize, error: Error) -> Error {
    let field = match &error.field {
        Some(field) if field.starts_with("recalls[") => field.clone(),
        Some(field) => format!("recalls[{at}].{field}"),
        None => format!("recalls[{at}]"),
    };
    error.at(field)
}

pub(crate) async fn batch(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer<Response> {
    let started = Instant::now();
    let (access, place) = caller.require_place(Rights::READ)?;
    let (queries, limit) = read(&body)?;
    // One moment for all: what has not begun by then is told so.
    let deadline = Deadline::of(started, limit.unwrap_or(shared.config.read_timeout));
    let recall = Recall { shared: &shared, access: &access, place: &place, headers: &headers };
    let one = |(at, query): (usize, Result<Query, Error>)| async move {
        let query = query.map_err(|error| Problem::from(within(at, error)))?;
        let own = query.deadline.map_or(deadline, |own| Deadline::after(own).min(deadline));
        run(recall, query, own).await.map_err(|mut problem| {
            problem.error = within(at, problem.error);
            problem
        })
    };
    let running = stream::iter(queries.into_iter().enumerate()).map(one).buffered(AT_ONCE);
    let recalls = running
        .map(|ended| match ended {
            Ok(recalled) => Outcome::Recall(Box::new(recalled)),
            Err(problem) => Outcome::Problem(problem.into()),
        })
        .collect()
        .await;
    answer(StatusCode::OK, &Recalls { recalls })
}

/// The recalls of a body, each checked for itself, and the time for all.
#[allow(clippy::type_complexity)]
fn read(bytes: &[u8]) -> Result<(Vec<Result<Query, Error>>, Option<Duration>), Error> {
    let body: BatchBody<'_> = json::body(bytes)?;
    let raw = body.recalls.0;
    if raw.is_empty() {
        return Err(Error::invalid("recalls", "recalls is empty; give at least one"));
    }
    let limit = match body.deadline_ms {
        None => None,
        Some(ms @ 1..=DEADLINE_MS_MAX) => Some(Duration::from_millis(ms)),
        Some(ms) => {
            let detail = format!("deadline_ms is {ms}; give 1 to {DEADLINE_MS_MAX}");
            return Err(Error::invalid("deadline_ms", detail));
        }
    };
    let queries: Vec<_> = raw.iter().map(|raw| Query::read(raw.get().as_bytes())).collect();
    let wanted: u64 = queries.iter().flatten().map(|query| u64::from(query.top_k)).sum();
    if wanted > RESULTS_MAX {
        let detail = format!(
            "these recalls ask for {wanted} results together; the limit is {RESULTS_MAX}; lower top_k or send fewer"
        );
        return Err(Error::too_large("recalls", detail));
    }
    Ok((queries, limit))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn refused(body: &Value) -> String {
        read(body.to_string().as_bytes()).err().unwrap().field.unwrap()
    }

    #[test]
    fn a_batch_is_bounded_and_each_recall_fails_alone() {
        let many = |n: usize, top_k: u32| json!({"recalls": vec![json!({"query": "q", "top_k": top_k}); n]});
        assert_eq!(read(many(64, 64).to_string().as_bytes()).unwrap().0.len(), 64);
        for (body, field) in [
            (json!({"recalls": []}), "recalls"),
            (many(65, 1), "recalls"),
            (many(5, 1_000), "recalls"),
            (json!({"recalls": [{"query": "q"}], "deadline_ms": 0}), "deadline_ms"),
            (json!({"recalls": [{"query": "q"}], "token": "x"}), "token"),
        ] {
            assert_eq!(refused(&body), field);
        }
        let mixed = json!({"recalls": [{"query": "q"}, {"query": ""}, 7, {"query": "q", "x": 1}]});
        let (queries, _) = read(mixed.to_string().as_bytes()).unwrap();
        let faults: Vec<bool> = queries.iter().map(Result::is_err).collect();
        assert_eq!(faults, [false, true, true, true]);
        let error = within(1, queries.into_iter().nth(1).unwrap().err().unwrap());
        assert_eq!(error.field.as_deref(), Some("recalls[1].query"));
    }
}
