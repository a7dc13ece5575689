//! `DELETE …/memories/{id}`.

use super::single;
use crate::auth::{InSpace, PathId};
use crate::http::answer;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::command::{Command, SpaceCommand, Write};
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Deleted {
    id: String,
    status: &'static str,
    token: String,
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(&[])?;
    let command = Command::Space(Box::new(SpaceCommand {
        space: space.clone(),
        idempotency: Some(identity.whole()),
        write: Write::Delete { id, if_version: identity.if_version },
    }));
    let deadline = Deadline::after(shared.config.write_timeout);
    let written = shared.nodes.write(&access, &space, &command, deadline).await;
    let mut written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let item = single(&mut written)?;
    let token = tokens::text(&access.tenant, written.seen)?;
    answer(StatusCode::OK, &Deleted { id: item.id, status: item.status.as_str(), token })
}
