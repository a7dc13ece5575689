//! `GET …/memories/{id}`.

use super::locate::look as look_in;
use super::view::MemoryView;
use crate::auth::{InSpace, PathId};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::{answer, query, write};
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use crate::tokens::{self, Consistency};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use serde::Deserialize;
use std::sync::Arc;

/// What every read of single memories takes in its query string.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadParams {
    pub(crate) token: Option<String>,
    pub(crate) consistency: Option<Consistency>,
    pub(crate) max_staleness_ms: Option<u64>,
}

impl ReadParams {
    /// Which state of a space the read may see, with the token that the headers carry.
    pub(crate) fn wish(&self, access: &Access, headers: &HeaderMap) -> Answer<ReadWish> {
        let token = self.token.as_deref();
        tokens::wish(&access.tenant, token, headers, self.consistency, self.max_staleness_ms)
    }
}

pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let fetched = fetch(&shared, &access, &place.partitions()?, &id, &wish, deadline).await?;
    let Fetched { memory, seen, .. } = fetched;
    let view = MemoryView::new(memory)?;
    let mut response = answer(StatusCode::OK, &view)?;
    set_headers(&mut response, Some(view.version), &access, seen)?;
    Ok(response)
}

/// A memory and where it lies.
pub(super) struct Fetched {
    pub(super) memory: v1::Memory,
    pub(super) space: SpaceKey,
    pub(super) seen: Vec<Seen>,
}

/// Reads one memory of a space, whichever of its partitions it lies in.
pub(super) async fn fetch(
    shared: &Shared,
    access: &Access,
    spaces: &[SpaceKey],
    id: &str,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<Fetched> {
    let look = |space: SpaceKey| async move {
        let ask = |mut client: Client, read| {
            let request = v1::GetRequest {
                access: Some(access.clone().into()),
                space: Some((&space).into()),
                read: Some(read),
                id: id.to_owned(),
            };
            async move { client.get(request).await }
        };
        let response = shared.nodes.read_space(ReadKind::Point, &space, wish, deadline, ask).await?;
        Ok((response.memory, shared.nodes.observe(response.seen)))
    };
    let (memory, space, seen) = look_in(spaces, look).await?;
    Ok(Fetched { memory, space, seen })
}

/// The one answer to an id that is not there, whether it ever was or is somebody else's.
pub(super) fn not_found() -> Problem {
    Error::new(ErrorCode::NotFound, "there is no memory with this id in this space").at("id").into()
}

/// Version and position of an answer whose body has no place for them.
pub(crate) fn set_headers(
    response: &mut Response,
    version: Option<u64>,
    access: &Access,
    seen: impl IntoIterator<Item = Seen>,
) -> Answer<()> {
    let token = tokens::text(&access.tenant, seen)?;
    let headers = response.headers_mut();
    if let Ok(token) = HeaderValue::from_str(&token) {
        headers.insert(tokens::HEADER, token);
    }
    if let Some(Ok(etag)) = version.map(|version| HeaderValue::from_str(&write::etag(version))) {
        headers.insert(header::ETAG, etag);
    }
    Ok(())
}
