//! `GET …/blocks`, `GET …/blocks/{label}` and its history.

use super::{BlockView, fetch_all, not_found};
use crate::auth::{InSpace, PathId};
use crate::http::answer;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::shared::Shared;
use crate::tiers::Reading;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_proto::v1::Tier;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Blocks {
    blocks: Vec<BlockView>,
    token: String,
}

#[derive(Serialize)]
struct History {
    /// Oldest first; the current one is the last.
    versions: Vec<BlockView>,
}

/// All of them: their number is bounded.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let Reading { access, space, wish } = Reading::of(caller, &uri, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let (blocks, seen) = fetch_all(&shared, &access, &space, &wish, deadline).await?;
    answer(StatusCode::OK, &Blocks { blocks, token: tokens::text(&access.tenant, seen)? })
}

pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(label): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let reading = Reading::of(caller, &uri, &headers)?;
    let (mut entries, seen) = reading.rows(&shared, Tier::Block, &label, false).await?;
    let view = BlockView::new(entries.pop().ok_or_else(not_found)?)?;
    reading.one(&view, view.version, seen)
}

pub(crate) async fn history(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(label): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let reading = Reading::of(caller, &uri, &headers)?;
    let (entries, seen) = reading.rows(&shared, Tier::Block, &label, true).await?;
    let views: Answer<Vec<BlockView>> = entries.into_iter().map(BlockView::new).collect();
    let mut views = views?.into_iter();
    let last = views.next().ok_or_else(not_found)?;
    let current = last.version;
    // An edit while the rows were read has put this one among the earlier ones, too.
    let earlier = views.filter(|earlier| earlier.version < current);
    let versions = earlier.chain(std::iter::once(last)).collect();
    reading.one(&History { versions }, current, seen)
}
