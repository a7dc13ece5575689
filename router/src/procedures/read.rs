//! `GET …/procedures` and `GET …/procedures/{name}`.

use super::{Procedure, VersionView, fetch, not_found};
use crate::auth::{InSpace, PathId};
use crate::http::answer;
use crate::http::problem::Answer;
use crate::http::time::{Deadline, Time};
use crate::shared::Shared;
use crate::tiers::Reading;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Procedures<'a> {
    procedures: Vec<Listed<'a>>,
    token: String,
}

/// A procedure in a list: of its versions the active one.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    last_version: u64,
    active: Option<VersionView<'a>>,
    created_at: Time,
    updated_at: Time,
}

#[derive(Serialize)]
struct Whole<'a> {
    name: &'a str,
    /// The number of the version that is used.
    active: Option<u64>,
    last_version: u64,
    /// Oldest first.
    versions: Vec<VersionView<'a>>,
    created_at: Time,
    updated_at: Time,
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
    let (procedures, seen) = fetch(&shared, &access, &space, None, &wish, deadline).await?;
    let listed = procedures.iter().map(|procedure| Listed {
        name: &procedure.name,
        last_version: procedure.row.last_version,
        active: procedure.active().map(VersionView::new),
        created_at: Time(procedure.row.created_us),
        updated_at: Time(procedure.row.updated_us),
    });
    let body = Procedures { procedures: listed.collect(), token: tokens::text(&access.tenant, seen)? };
    answer(StatusCode::OK, &body)
}

pub(crate) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(name): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let reading = Reading::of(caller, &uri, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let (mut found, seen) =
        fetch(&shared, &reading.access, &reading.space, Some(&name), &reading.wish, deadline).await?;
    let Procedure { name, row, versions } = found.pop().ok_or_else(not_found)?;
    let whole = Whole {
        name: &name,
        active: row.active,
        last_version: row.last_version,
        versions: versions.iter().map(VersionView::new).collect(),
        created_at: Time(row.created_us),
        updated_at: Time(row.updated_us),
    };
    reading.one(&whole, row.last_version, seen)
}
