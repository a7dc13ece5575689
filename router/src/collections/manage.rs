//! `PUT`, `GET` and `DELETE /v1/collections/{name}`.
//!
//! A deletion closes every partition, begins its erasure, and then ends the name. The next collection of the name
//! is another incarnation, with keys of its own: what a router writes that has not noticed yet goes to the old
//! one, which refuses it.

use super::cache::{no_such_collection, read, read_settings};
use super::erasure_id::ErasureId;
use super::view::CollectionView;
use crate::auth::{Caller, path_param};
use crate::http::json::{self, Change};
use crate::http::problem::{Answer, Problem};
use crate::http::query::NoParams;
use crate::http::time::{Deadline, now_us};
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, NoBody, answer};
use crate::lifecycle::erase::{self, What};
use crate::nodes::Safety;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use holdfast_core::Error;
use holdfast_core::access::{Access, Rights};
use holdfast_core::collection::{CollectionChange, CollectionRow, Former, IndexKind};
use holdfast_core::command::{Command, Idempotency, MetaCommand};
use holdfast_core::limits::{COLLECTION_PARTITIONS_MAX, IDEMPOTENCY_KEEP_US};
use holdfast_core::memory::ModelTag;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::token::Seen;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    partitions: Option<u64>,
    embedding_model: Option<String>,
    dims: Option<u64>,
    index: Option<String>,
    #[serde(default)]
    retention: Change<RetentionBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetentionBody {
    ttl_s: u64,
}

#[derive(Serialize)]
struct Deleted {
    name: String,
    /// Names the erasure of all partitions.
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

pub(crate) async fn get(State(shared): State<Arc<Shared>>, named: Named, _: NoParams) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::READ)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let row = shared.collections.of(&shared.nodes, &access.tenant, &name, deadline).await?;
    answer(StatusCode::OK, &CollectionView::new(row.row.clone(), &row.settings))
}

pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    named: Named,
    Body(body): Body,
) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::WRITE)?;
    let asked: PutBody = if body.is_empty() { json::body(b"{}")? } else { json::body(&body)? };
    let deadline = Deadline::after(shared.config.write_timeout);
    let known = read(&shared.nodes, &access.tenant, &name, deadline).await?;
    let known = known.filter(|known| known.deleted.is_none());
    let change = change(&access, &name, &asked)?;
    let row = wanted(&shared, &access, &name, asked, known.as_ref())?;
    let command = Command::Meta(Box::new(MetaCommand::PutCollection(row)));
    // Once more is the same.
    shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await?;
    shared.collections.forget(&access.tenant, &name).await;
    let row = read(&shared.nodes, &access.tenant, &name, deadline).await?.ok_or_else(no_such_collection)?;
    if change.index.is_some() || change.retention_s.is_some() {
        let change = CollectionChange { incarnation: row.incarnation, ..change };
        let command = Command::Meta(Box::new(MetaCommand::SetCollection(change)));
        shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await?;
        shared.collections.forget(&access.tenant, &name).await;
    }
    let settings = read_settings(&shared.nodes, &row, deadline).await?;
    let status = if known.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &CollectionView::new(row, &settings))
}

/// What of the collection the body changes.
fn change(access: &Access, name: &str, asked: &PutBody) -> Result<CollectionChange, Error> {
    let index = asked.index.as_deref().map(|name| {
        let kind = IndexKind::from_wire(name);
        kind.ok_or_else(|| Error::invalid("index", "index must be auto, exact, hnsw or ivf"))
    });
    let retention_s = match &asked.retention {
        Change::Keep => None,
        Change::Clear => Some(None),
        Change::Set(retention) => Some(Some(retention.ttl_s)),
    };
    let (tenant, name, index) = (access.tenant.clone(), name.to_owned(), index.transpose()?);
    let change = CollectionChange { tenant, name, incarnation: 0, index, retention_s };
    change.check()?;
    Ok(change)
}

/// The row that the body asks for; what it leaves out stays as it is.
fn wanted(
    shared: &Shared,
    access: &Access,
    name: &str,
    asked: PutBody,
    known: Option<&CollectionRow>,
) -> Result<CollectionRow, Error> {
    let partitions = match asked.partitions {
        None => known.map_or(1, |known| known.partitions),
        Some(partitions) => u8::try_from(partitions).map_err(|_| {
            let detail = format!("partitions is {partitions}; give 1 to {COLLECTION_PARTITIONS_MAX}");
            Error::invalid("partitions", detail)
        })?,
    };
    let row = CollectionRow {
        tenant: access.tenant.clone(),
        name: name.to_owned(),
        partitions,
        model: model(shared, asked.embedding_model, asked.dims, known)?,
        ..CollectionRow::default()
    };
    row.check()?;
    Ok(row)
}

/// The model of a collection's vectors: what is asked for, else what it has, else the built-in one, if there
/// is any. It is fixed with its dimensions, since two partitions could otherwise take two that differ.
fn model(
    shared: &Shared,
    asked: Option<String>,
    dims: Option<u64>,
    known: Option<&CollectionRow>,
) -> Result<Option<ModelTag>, Error> {
    let builtin = shared.embedding.as_ref().map(|embedding| {
        let embedder = embedding.embedder();
        ModelTag { id: embedder.model_id().to_owned(), dims: at_most_u16(embedder.dims() as u64) }
    });
    let usual = known.map_or_else(|| builtin.clone(), |known| known.model.clone());
    let dims = dims.map(at_most_u16);
    if let Some(id) = asked {
        let same = |model: &ModelTag| model.id == id;
        let of_known =
            usual.as_ref().filter(|model| same(model)).or(builtin.as_ref().filter(|model| same(model)));
        let of_known = of_known.map(|model| model.dims);
        let Some(dims) = dims.or(of_known) else {
            let detail = "give dims, the number of dimensions of your vectors, with embedding_model";
            return Err(Error::invalid("dims", detail));
        };
        if let Some(builtin) = builtin.filter(|builtin| builtin.id == id && builtin.dims != dims) {
            let detail = format!("vectors of {id} have {} dimensions; leave dims out", builtin.dims);
            return Err(Error::invalid("dims", detail));
        }
        return Ok(Some(ModelTag { id, dims }));
    }
    match (&usual, dims) {
        (Some(model), Some(dims)) if model.dims != dims => {
            let detail = format!("vectors of {} have {} dimensions; leave dims out", model.id, model.dims);
            Err(Error::invalid("dims", detail))
        }
        (None, Some(_)) => {
            Err(Error::invalid("dims", "dims goes with embedding_model; give both or neither"))
        }
        _ => Ok(usual),
    }
}

/// What is larger is refused by the check of the row.
fn at_most_u16(dims: u64) -> u16 {
    u16::try_from(dims).unwrap_or(u16::MAX)
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    named: Named,
    head: WriteHead,
    _: NoBody,
) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::WRITE)?;
    let identity = head.identity(&[])?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let ended = end(&shared, &access, &name, &identity, deadline).await;
    let (erasure, seen) = ended.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let token = tokens::text(&access.tenant, seen)?;
    answer(StatusCode::ACCEPTED, &Deleted { name, erasure, status: "removing", token })
}

/// Erases all that the collection holds, and ends its name. Answers which erasure that is, and what was seen.
async fn end(
    shared: &Shared,
    access: &Access,
    name: &str,
    identity: &WriteIdentity,
    deadline: Deadline,
) -> Answer<(String, Vec<Seen>)> {
    let row = read(&shared.nodes, &access.tenant, name, deadline).await?.ok_or_else(no_such_collection)?;
    let Idempotency { key_hash, .. } = identity.whole();
    // The same request has ended the one before: another one that has its name by now is not meant.
    let is_remembered = now_us().saturating_sub(row.created_us) < IDEMPOTENCY_KEEP_US;
    if let Some(former) = row.former.filter(|former| is_remembered && former.key_hash == key_hash) {
        let Former { incarnation, partitions, .. } = former;
        return Ok((ErasureId { key_hash, incarnation, partitions }.to_string(), Vec::new()));
    }
    let spaces = row.spaces()?;
    let begun = erase::begin_everywhere(shared, access, &spaces, identity, What::Closing, deadline).await?;
    let command = Command::Meta(Box::new(MetaCommand::DeleteCollection {
        tenant: access.tenant.clone(),
        name: name.to_owned(),
        incarnation: row.incarnation,
        key_hash,
    }));
    let ended = shared.nodes.propose(access, Shard::META, &command, Safety::Repeatable, deadline).await;
    shared.collections.forget(&access.tenant, name).await;
    ended?;
    Ok((ErasureId::of(&row, key_hash).to_string(), begun.seen))
}
