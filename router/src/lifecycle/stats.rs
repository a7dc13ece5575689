//! `GET …/stats`: how much a space holds, all partitions of a collection together.

use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::http::{answer, query};
use crate::memories::get::ReadParams;
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use futures::future::try_join_all;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::memory::{Counters, ModelTag, SpaceRow};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
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
    let (access, place) = caller.require_place(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let spaces = place.partitions()?;
    let asked = spaces.iter().map(|space| of(&shared, &access, space, &wish, deadline));
    let mut all = Sum::default();
    for (counters, settings, seen) in try_join_all(asked).await? {
        all.add(&counters, settings);
        all.seen.extend(seen);
    }
    let stats = Stats {
        space: place.first()?.label().to_owned(),
        created_at: all.created_us.map(Time),
        memories: all.memories,
        bytes: all.bytes,
        tombstones: all.tombstones,
        erasing: all.erasing,
        embedding_models: all.models.into_iter().map(|ModelTag { id, dims }| Model { id, dims }).collect(),
        token: tokens::text(&access.tenant, all.seen)?,
    };
    answer(StatusCode::OK, &stats)
}

/// What all partitions of a space hold together.
#[derive(Default)]
struct Sum {
    created_us: Option<i64>,
    memories: u64,
    bytes: u64,
    tombstones: u64,
    erasing: bool,
    models: Vec<ModelTag>,
    seen: Vec<Seen>,
}

impl Sum {
    fn add(&mut self, counters: &Counters, settings: Option<SpaceRow>) {
        self.memories = self.memories.saturating_add(counters.memories);
        self.bytes = self.bytes.saturating_add(counters.bytes);
        self.tombstones = self.tombstones.saturating_add(counters.tombstones);
        self.erasing |= counters.erasing.is_some();
        let Some(settings) = settings else { return };
        let created_us = settings.created_us;
        self.created_us = Some(self.created_us.map_or(created_us, |first| first.min(created_us)));
        for model in settings.models {
            if !self.models.contains(&model) {
                self.models.push(model);
            }
        }
    }
}

/// What one partition says of itself.
async fn of(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<(Counters, Option<SpaceRow>, Option<Seen>)> {
    let ask = |mut client: Client, read| {
        let request = v1::SpaceStatsRequest {
            access: Some(access.clone().into()),
            space: Some(space.into()),
            read: Some(read),
        };
        async move { client.space_stats(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Point, space, wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    let is_there = !response.settings.is_empty();
    let settings = is_there.then(|| stored(&response.settings)).transpose()?;
    Ok((stored(&response.counters)?, settings, seen))
}

/// A row in its stored form; nothing stands for the default.
fn stored<T: Stored + Default>(bytes: &[u8]) -> Answer<T> {
    if bytes.is_empty() {
        return Ok(T::default());
    }
    T::decode(bytes)
        .map_err(|error| Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}")))
}
