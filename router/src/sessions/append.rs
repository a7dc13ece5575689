//! `POST …/sessions/{s}/turns`.

use super::turn::{self, Turn};
use crate::auth::{InSpace, PathId};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, now_us};
use crate::http::write::WriteHead;
use crate::http::{Body, answer};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::codec::Stored;
use holdfast_core::command::{AppendTurns, Command, SpaceCommand, Write};
use holdfast_core::limits::ATOMIC_BYTES_MAX;
use holdfast_core::outcome::ItemOutcome;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Appended {
    session: String,
    results: Vec<TurnResult>,
    token: String,
}

/// What became of one turn.
#[derive(Serialize)]
struct TurnResult {
    /// Its number in the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) async fn append(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(session): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let now_us = now_us();
    let by = shared.fact_rules.of(&shared.nodes, &access.tenant, deadline).await?;
    let turns = shared.work.run(deadline, move || turn::read(&body, now_us, &by)).await??;
    let rows: Vec<_> = turns.iter().filter_map(|turn| turn.as_ref().ok().cloned()).collect();
    let (items, seen) = if rows.is_empty() {
        (Vec::new(), None)
    } else {
        let write = Write::Turns(AppendTurns { session: session.clone(), turns: rows });
        let idempotency = Some(identity.whole());
        let command = Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency, write }));
        check_size(&command)?;
        let written = shared.nodes.write(&access, &space, &command, deadline).await;
        let written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
        (written.items, written.seen)
    };
    let results = results(&turns, items)?;
    answer(StatusCode::CREATED, &Appended { session, results, token: tokens::text(&access.tenant, seen)? })
}

fn check_size(command: &Command) -> Answer<()> {
    let bytes = command.encode().map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?.len();
    if bytes <= ATOMIC_BYTES_MAX {
        return Ok(());
    }
    let detail =
        format!("the turns have {bytes} bytes together; the limit is {ATOMIC_BYTES_MAX}; send fewer at once");
    Err(Problem::from(holdfast_core::Error::too_large("turns", detail)))
}

/// The outcomes in the order of the request, those that the filter left out among them.
fn results(turns: &[Turn], items: Vec<ItemOutcome>) -> Answer<Vec<TurnResult>> {
    let mut items = items.into_iter();
    let mut results = Vec::with_capacity(turns.len());
    for turn in turns {
        results.push(match turn {
            Err(why) => TurnResult { turn: None, status: "rejected", reason: Some(why.detail.clone()) },
            Ok(_) => {
                let item = items.next().ok_or_else(|| {
                    Problem::new(ErrorCode::Internal, "the write was answered for another number of turns")
                })?;
                TurnResult { turn: Some(item.version), status: item.status.as_str(), reason: None }
            }
        });
    }
    Ok(results)
}
