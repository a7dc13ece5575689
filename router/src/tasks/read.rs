//! `GET …/tasks` and `GET …/tasks/{id}`.

use super::{Task, TaskView, not_found};
use crate::auth::{InSpace, PathId};
use crate::http::answer;
use crate::http::problem::Answer;
use crate::shared::Shared;
use crate::tiers::{Reading, decode};
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_core::tiers::task::TaskRow;
use holdfast_proto::v1::Tier;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Tasks<'a> {
    tasks: Vec<TaskView<'a>>,
    token: String,
}

/// All of them, without their steps: their number is bounded.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let reading = Reading::of(caller, &uri, &headers)?;
    let (entries, seen) = reading.rows(&shared, Tier::Task, "", false).await?;
    let mut read: Vec<(String, TaskRow)> = Vec::with_capacity(entries.len());
    for entry in entries {
        let row = decode(&entry)?;
        read.push((entry.id, row));
    }
    let tasks: Answer<Vec<TaskView<'_>>> =
        read.iter().map(|(id, row)| TaskView::new(id, row, None)).collect();
    answer(StatusCode::OK, &Tasks { tasks: tasks?, token: tokens::text(&reading.access.tenant, seen)? })
}

pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let reading = Reading::of(caller, &uri, &headers)?;
    let (entries, seen) = reading.rows(&shared, Tier::Task, &id, true).await?;
    let task = Task::of(entries)?.ok_or_else(not_found)?;
    reading.one(&task.view()?, task.row.version, seen)
}
