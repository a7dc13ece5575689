//! `GET …/memories/{id}/history`.

use super::get::{ReadParams, set_headers};
use super::locate::look as look_in;
use super::view::MemoryView;
use crate::auth::{InSpace, PathId};
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::{answer, query};
use crate::nodes::{Client, ReadKind};
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::space::SpaceKey;
use holdfast_proto::v1;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct History {
    /// Oldest first; the current one is the last.
    versions: Vec<MemoryView>,
}

/// The versions of a memory: the current one and the last
/// [`HISTORY_VERSIONS_MAX`](holdfast_core::limits::HISTORY_VERSIONS_MAX) (100) before it. What is
/// older than those is not kept, so the first version in the answer may be a later one than 1.
pub(crate) async fn history(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let (shared, access, id, wish) = (&*shared, &access, &id, &wish);
    let look = |space: SpaceKey| async move {
        let ask = |mut client: Client, read| {
            let request = v1::HistoryRequest {
                access: Some(access.clone().into()),
                space: Some((&space).into()),
                read: Some(read),
                id: id.clone(),
            };
            async move { client.history(request).await }
        };
        let response = shared.nodes.read_space(ReadKind::Point, &space, wish, deadline, ask).await?;
        let versions = Some(response.versions).filter(|versions| !versions.is_empty());
        Ok((versions, shared.nodes.observe(response.seen)))
    };
    let (versions, _, seen) = look_in(&place.partitions()?, look).await?;
    let versions: Answer<Vec<MemoryView>> = versions.into_iter().map(MemoryView::new).collect();
    let versions = versions?;
    let current = versions.last().map(|view| view.version);
    let mut response = answer(StatusCode::OK, &History { versions })?;
    set_headers(&mut response, current, access, seen)?;
    Ok(response)
}
