//! `GET …/stats`: how much a space holds.

use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::http::{answer, query};
use crate::memories::get::ReadParams;
use crate::nodes::{Client, ReadKind};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::codec::Stored;
use holdfast_core::memory::{Counters, SpaceRow};
use holdfast_proto::v1;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Stats {
    space: String,
    /// When it was first written to; `null` if it never was, or was erased since.
    created_at: Option<Time>,
    memories: u64,
    /// Bytes of content and metadata.
    bytes: u64,
    /// Deleted memories that are remembered, so that no import brings them back.
    tombstones: u64,
    /// Whether the whole space is being erased.
    erasing: bool,
    embedding_models: Vec<Model>,
    token: String,
}

#[derive(Serialize)]
struct Model {
    id: String,
    dims: u16,
}

pub(crate) async fn stats(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let ask = |mut client: Client, read| {
        let request = v1::SpaceStatsRequest {
            access: Some(access.clone().into()),
            space: Some((&space).into()),
            read: Some(read),
        };
        async move { client.space_stats(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Point, &space, &wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    let counters: Counters = stored(&response.counters)?;
    let settings: Option<SpaceRow> =
        if response.settings.is_empty() { None } else { Some(stored(&response.settings)?) };
    let created_at = settings.as_ref().map(|row| Time(row.created_us));
    let models = settings.map(|row| row.models).unwrap_or_default();
    let stats = Stats {
        space: space.label().to_owned(),
        created_at,
        memories: counters.memories,
        bytes: counters.bytes,
        tombstones: counters.tombstones,
        erasing: counters.erasing.is_some(),
        embedding_models: models.into_iter().map(|model| Model { id: model.id, dims: model.dims }).collect(),
        token: tokens::text(&access.tenant, seen)?,
    };
    answer(StatusCode::OK, &stats)
}

/// A row in its stored form; nothing stands for the default.
fn stored<T: Stored + Default>(bytes: &[u8]) -> Answer<T> {
    if bytes.is_empty() {
        return Ok(T::default());
    }
    T::decode(bytes)
        .map_err(|error| Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}")))
}
