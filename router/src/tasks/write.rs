//! `PUT …/tasks/{id}`, `POST …/tasks/{id}/steps` and `PUT …/tasks/{id}/variables`.

use super::parse;
use crate::auth::{InSpace, PathId};
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{Body, answer};
use crate::shared::Shared;
use crate::{tiers, tokens};
use axum::extract::State;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::command::Write;
use holdfast_core::tiers::task::{TaskChange, TaskWrite};
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Changed {
    id: String,
    version: u64,
    status: &'static str,
    heartbeat: Vec<&'static str>,
    token: String,
}

pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    make(&shared, caller, id, &head, &body, parse::put(&body)?).await
}

pub(crate) async fn steps(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    make(&shared, caller, id, &head, &body, parse::steps(&body)?).await
}

pub(crate) async fn variables(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    make(&shared, caller, id, &head, &body, parse::variables(&body)?).await
}

async fn make(
    shared: &Shared,
    caller: InSpace,
    id: String,
    head: &WriteHead,
    body: &[u8],
    change: TaskChange,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let write = Write::Task(Box::new(TaskWrite { id, if_version: identity.if_version, change }));
    let written = tiers::write(shared, &access, &space, &identity, write, deadline).await?;
    let item = tiers::first(&written)?;
    let changed = Changed {
        id: item.id.clone(),
        version: item.version,
        status: item.status.as_str(),
        heartbeat: item.heartbeat.iter().map(|beat| beat.as_str()).collect(),
        token: tokens::text(&access.tenant, written.seen)?,
    };
    let mut response = answer(tiers::status(item), &changed)?;
    tiers::set_headers(&mut response, item.version, &access, written.seen)?;
    Ok(response)
}
