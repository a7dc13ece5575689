//! `DELETE …/sessions/{s}`: step by step, each of them bounded, until all is gone.

use crate::auth::{InSpace, PathId};
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{NoBody, answer};
use crate::memories::single;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::outcome::ItemStatus;
use serde::Serialize;
use std::sync::Arc;

/// Most steps of one request; what is left then goes by itself.
const STEPS_MAX: usize = 500;

#[derive(Serialize)]
struct Deleted {
    id: String,
    status: &'static str,
    token: String,
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(session): PathId,
    head: WriteHead,
    _: NoBody,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(&[])?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let (mut status, mut seen) = (ItemStatus::Deleting, None);
    for step in 0..STEPS_MAX {
        let (idempotency, if_version) = match step {
            0 => (identity.whole(), identity.if_version),
            // From the first step on it is not there for anybody who could change it.
            _ => (identity.part(step), None),
        };
        let write = Write::DeleteSession { session: session.clone(), if_version };
        let command = Command::Space(Box::new(SpaceCommand {
            space: space.clone(),
            idempotency: Some(idempotency),
            write,
        }));
        match shared.nodes.write(&access, &space, &command, deadline).await {
            Ok(mut written) => {
                status = single(&mut written)?.status;
                seen = written.seen.or(seen);
            }
            // The leader has finished it by itself.
            Err(problem) if step > 0 && problem.error.code == ErrorCode::NotFound => {
                status = ItemStatus::Deleted
            }
            Err(problem) if step == 0 => return Err(problem.with_idempotency_key(&identity.key)),
            // It is gone for every reader, and the leader goes on.
            Err(_) => break,
        }
        if status == ItemStatus::Deleted {
            break;
        }
    }
    let deleted =
        Deleted { id: session, status: status.as_str(), token: tokens::text(&access.tenant, seen)? };
    answer(StatusCode::OK, &deleted)
}
