//! `POST …/graph:merge` and `POST …/graph:split`: which names are one entity.

use super::name;
use crate::auth::InSpace;
use crate::http::Body;
use crate::http::json::{self, Bounded};
use crate::http::problem::Answer;
use crate::http::write::WriteHead;
use crate::shared::Shared;
use crate::{http, tokens};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::Result;
use holdfast_core::command::Write;
use holdfast_core::limits::GRAPH_NAMES_MAX;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MergeBody {
    /// The entity that the names become other names of.
    into: String,
    names: Bounded<String, GRAPH_NAMES_MAX>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitBody {
    /// The entity that the names are other names of.
    from: String,
    names: Bounded<String, GRAPH_NAMES_MAX>,
}

#[derive(Serialize)]
struct Decided {
    name: String,
    token: String,
}

pub(crate) async fn merge(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let asked: MergeBody = json::body(&body)?;
    let (into, names) = (name("into", &asked.into)?, names(&asked.names.0)?);
    let write = Write::MergeEntities { into: into.clone(), names };
    decide(&shared, caller, head, &body, into, write).await
}

pub(crate) async fn split(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let asked: SplitBody = json::body(&body)?;
    let (from, names) = (name("from", &asked.from)?, names(&asked.names.0)?);
    let write = Write::SplitEntities { from: from.clone(), names };
    decide(&shared, caller, head, &body, from, write).await
}

fn names(texts: &[String]) -> Result<Vec<String>> {
    texts.iter().enumerate().map(|(at, text)| name(&format!("names[{at}]"), text)).collect()
}

async fn decide(
    shared: &Shared,
    caller: InSpace,
    head: WriteHead,
    body: &[u8],
    name: String,
    write: Write,
) -> Answer<Response> {
    let (access, written) = crate::facts::decide::write_one(shared, caller, head, body, write).await?;
    let token = tokens::text(&access.tenant, written.seen)?;
    http::answer(StatusCode::OK, &Decided { name, token })
}
