//! `GET …/sessions`, `GET …/sessions/{s}` and `GET …/sessions/{s}/turns`.

use super::not_found;
use super::view::{SessionView, TurnView, WholeView};
use crate::auth::{InSpace, PathId};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::{answer, query};
use crate::memories::get::{ReadParams, set_headers};
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use crate::tokens::{self, Consistency};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_core::access::{Access, Rights};
use holdfast_core::limits::LIST_ITEMS_MAX;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIMIT_DEFAULT: u32 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    limit: Option<u32>,
    cursor: Option<String>,
    token: Option<String>,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
}

#[derive(Serialize)]
struct Sessions {
    sessions: Vec<SessionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    token: String,
}

#[derive(Serialize)]
struct Turns {
    turns: Vec<TurnView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    token: String,
}

pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let (session, window, seen) = fetch(&shared, &access, &space, &id, &wish, deadline).await?;
    let version = session.version;
    let view = shared.work.run(deadline, move || WholeView::new(session, window)).await??;
    let mut response = answer(StatusCode::OK, &view)?;
    set_headers(&mut response, Some(version), &access, seen)?;
    Ok(response)
}

/// Reads one session with what stands for it in a prompt: one call.
pub(crate) async fn fetch(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    id: &str,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<(v1::Session, v1::SessionWindow, Option<Seen>)> {
    let ask = |mut client: Client, read| {
        let request = v1::GetSessionRequest {
            access: Some(access.clone().into()),
            space: Some(space.into()),
            read: Some(read),
            session: id.to_owned(),
        };
        async move { client.get_session(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Point, space, wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    let session = response.session.ok_or_else(not_found)?;
    Ok((session, response.window.unwrap_or_default(), seen))
}

pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let params: ListParams = query::parse(&uri)?;
    let (wish, limit) = (params.wish(&access, &headers)?, params.limit()?);
    let after = match &params.cursor {
        None => String::new(),
        Some(cursor) => {
            let id = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            id.ok_or_else(bad_cursor)?
        }
    };
    let ask = |mut client: Client, read| {
        let request = v1::ListSessionsRequest {
            access: Some(access.clone().into()),
            space: Some((&space).into()),
            read: Some(read),
            limit,
            after: after.clone(),
        };
        async move { client.list_sessions(request).await }
    };
    let deadline = Deadline::after(shared.config.read_timeout);
    let response = shared.nodes.read_space(ReadKind::Point, &space, &wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    let sessions = response.sessions.into_iter().map(SessionView::new).collect::<Answer<_>>()?;
    let next_cursor = response.next.map(|id| URL_SAFE_NO_PAD.encode(id));
    answer(StatusCode::OK, &Sessions { sessions, next_cursor, token: tokens::text(&access.tenant, seen)? })
}

pub(crate) async fn turns(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let params: ListParams = query::parse(&uri)?;
    let (wish, limit) = (params.wish(&access, &headers)?, params.limit()?);
    let after = match &params.cursor {
        None => 0,
        Some(cursor) => cursor.parse::<u64>().map_err(|_| bad_cursor())?,
    };
    let ask = |mut client: Client, read| {
        let request = v1::ListTurnsRequest {
            access: Some(access.clone().into()),
            space: Some((&space).into()),
            read: Some(read),
            session: id.clone(),
            limit,
            after,
        };
        async move { client.list_turns(request).await }
    };
    let deadline = Deadline::after(shared.config.read_timeout);
    let response = shared.nodes.read_space(ReadKind::Point, &space, &wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    response.session.ok_or_else(not_found)?;
    let turns = response.turns.into_iter().map(TurnView::new).collect();
    let next_cursor = response.next.map(|number| number.to_string());
    answer(StatusCode::OK, &Turns { turns, next_cursor, token: tokens::text(&access.tenant, seen)? })
}

impl ListParams {
    fn wish(&self, access: &Access, headers: &HeaderMap) -> Answer<ReadWish> {
        tokens::wish(&access.tenant, self.token.as_deref(), headers, self.consistency, self.max_staleness_ms)
    }

    fn limit(&self) -> Answer<u32> {
        match self.limit.unwrap_or(LIMIT_DEFAULT) {
            limit @ 1..=LIST_ITEMS_MAX => Ok(limit),
            limit => {
                let detail = format!("limit is {limit}; give a number from 1 to {LIST_ITEMS_MAX}");
                Err(Problem::invalid("limit", detail))
            }
        }
    }
}

fn bad_cursor() -> Problem {
    Problem::invalid("cursor", "cursor is not one of this list; begin without one")
}
