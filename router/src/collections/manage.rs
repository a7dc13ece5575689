//! `PUT`, `GET` and `DELETE /v1/collections/{name}`.
//!
//! A deletion begins the erasure of every partition and then ends the name. A router that has not noticed
//! yet may still write for a while, so a collection that takes the name of a deleted one begins by
//! erasing all of its partitions again: nothing of an earlier one is ever found in it.

use super::cache::{no_such_collection, read};
use super::view::CollectionView;
use crate::auth::{Caller, path_param};
use crate::http::json;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, answer};
use crate::lifecycle::erase;
use crate::memories::embedding::CLIENT_MODEL;
use crate::nodes::Safety;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use holdfast_core::Error;
use holdfast_core::access::{Access, Rights};
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::erasure::Selection;
use holdfast_core::limits::COLLECTION_PARTITIONS_MAX;
use holdfast_core::space::{Shard, SpaceKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    partitions: Option<u64>,
    embedding_model: Option<String>,
    index: Option<Value>,
    retention: Option<Value>,
}

#[derive(Serialize)]
struct Deleted {
    name: String,
    /// Names the erasure of each partition.
    erasure: String,
    status: &'static str,
    token: String,
}

/// A caller and the name of a collection, be there one or not.
pub(crate) struct Named {
    pub(super) access: Access,
    pub(super) name: String,
    pub(super) space: SpaceKey,
}

impl FromRequestParts<Arc<Shared>> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let Caller { access, .. } = Caller::from_request_parts(parts, shared).await?;
        let name = path_param(parts, "name").await?.unwrap_or_default();
        let space = SpaceKey::shared(&access.tenant, &name, 0)?;
        Ok(Self { access, name, space })
    }
}

pub(crate) async fn get(State(shared): State<Arc<Shared>>, named: Named) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::READ)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let row = shared.collections.of(&shared.nodes, &access.tenant, &name, deadline).await?;
    answer(StatusCode::OK, &CollectionView::from(CollectionRow::clone(&row)))
}

pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    named: Named,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::WRITE)?;
    let asked: PutBody = if body.is_empty() { json::body(b"{}")? } else { json::body(&body)? };
    let identity = head.identity(&body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let known = read(&shared.nodes, &access.tenant, &name, deadline).await?;
    let row = wanted(&shared, &access, &name, asked, known.as_ref())?;
    if let Some(deleted) = known.as_ref().filter(|known| known.deleted_us.is_some()) {
        erase_all(&shared, &access, deleted, &identity, deadline).await?;
    }
    let is_new = known.is_none_or(|known| known.deleted_us.is_some());
    let command = Command::Meta(Box::new(MetaCommand::PutCollection(row)));
    // Once more is the same.
    shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await?;
    shared.collections.forget(&access.tenant, &name).await;
    let row = read(&shared.nodes, &access.tenant, &name, deadline).await?.ok_or_else(no_such_collection)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &CollectionView::from(row))
}

/// The row that the body asks for; what it leaves out stays as it is.
fn wanted(
    shared: &Shared,
    access: &Access,
    name: &str,
    asked: PutBody,
    known: Option<&CollectionRow>,
) -> Result<CollectionRow, Error> {
    for (field, value) in [("index", &asked.index), ("retention", &asked.retention)] {
        if value.is_some() {
            return Err(Error::invalid(field, format!("{field} is not supported yet; leave it out")));
        }
    }
    let known = known.filter(|known| known.deleted_us.is_none());
    let partitions = match asked.partitions {
        None => known.map_or(1, |known| known.partitions),
        Some(partitions) => u8::try_from(partitions).map_err(|_| {
            let detail = format!("partitions is {partitions}; give 1 to {COLLECTION_PARTITIONS_MAX}");
            Error::invalid("partitions", detail)
        })?,
    };
    let builtin =
        || shared.embedding.as_ref().map_or(CLIENT_MODEL, |model| model.embedder().model_id()).to_owned();
    let embedding_model = asked
        .embedding_model
        .or_else(|| known.map(|known| known.embedding_model.clone()))
        .unwrap_or_else(builtin);
    let row = CollectionRow {
        tenant: access.tenant.clone(),
        name: name.to_owned(),
        partitions,
        embedding_model,
        ..CollectionRow::default()
    };
    row.check()?;
    Ok(row)
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    named: Named,
    head: WriteHead,
) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::WRITE)?;
    let identity = head.identity(&[])?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let row = read(&shared.nodes, &access.tenant, &name, deadline).await?.ok_or_else(no_such_collection)?;
    let erased = erase_all(&shared, &access, &row, &identity, deadline).await;
    let erased = erased.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let command = MetaCommand::DeleteCollection { tenant: access.tenant.clone(), name: name.clone() };
    let command = Command::Meta(Box::new(command));
    let ended = shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await;
    shared.collections.forget(&access.tenant, &name).await;
    ended.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let token = tokens::text(&access.tenant, erased.seen)?;
    answer(StatusCode::ACCEPTED, &Deleted { name, erasure: erased.id, status: "removing", token })
}

/// Begins the erasure of all that a collection holds, or held.
async fn erase_all(
    shared: &Shared,
    access: &Access,
    row: &CollectionRow,
    identity: &WriteIdentity,
    deadline: Deadline,
) -> Answer<erase::Begun> {
    erase::begin_everywhere(shared, access, &row.spaces()?, identity, Selection::All, deadline).await
}
