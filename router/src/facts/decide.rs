//! `POST …/facts/{id}:retract` and `POST …/facts:resolve`.

use super::parse_fact_id;
use crate::auth::{InSpace, PathId};
use crate::http::json::{self, Bounded};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{Body, answer};
use crate::memories::ItemResult;
use crate::nodes::Written;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::limits::RESOLVE_ITEMS_MAX;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveBody {
    /// The memory that stands.
    keep: String,
    /// Those that are taken back.
    retire: Bounded<String, RESOLVE_ITEMS_MAX>,
}

#[derive(Serialize)]
struct Decided {
    results: Vec<ItemResult>,
    token: String,
}

/// The action stands behind the id, after a colon.
pub(crate) async fn retract(
    state: State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
) -> Answer<Response> {
    let Some(id) = id.strip_suffix(":retract") else {
        let detail = "there is nothing to do with a fact here but POST …/facts/{id}:retract";
        return Err(Problem::new(ErrorCode::NotFound, detail));
    };
    let (id, ordinal) = parse_fact_id(id);
    decide(state, caller, head, &[], Write::Retract { id: id.to_owned(), ordinal }).await
}

pub(crate) async fn resolve(
    state: State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let asked: ResolveBody = json::body(&body)?;
    let write = Write::Resolve { keep: asked.keep, retire: asked.retire.0 };
    decide(state, caller, head, &body, write).await
}

async fn decide(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    body: &[u8],
    write: Write,
) -> Answer<Response> {
    let (access, written) = write_one(&shared, caller, head, body, write).await?;
    let results = written.items.into_iter().map(ItemResult::from).collect();
    answer(StatusCode::OK, &Decided { results, token: tokens::text(&access.tenant, written.seen)? })
}

/// Proposes a write that is a decision of the caller's.
pub(crate) async fn write_one(
    shared: &Shared,
    caller: InSpace,
    head: WriteHead,
    body: &[u8],
    write: Write,
) -> Answer<(Access, Written)> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(body)?;
    let idempotency = Some(identity.whole());
    let command = Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency, write }));
    command.check()?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let written = shared.nodes.write(&access, &space, &command, deadline).await;
    let written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    Ok((access, written))
}
