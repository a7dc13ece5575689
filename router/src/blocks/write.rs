//! `PUT …/blocks/{label}` and `DELETE …/blocks/{label}`.

use crate::auth::{InSpace, PathId};
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, NoBody, answer, json};
use crate::nodes::Written;
use crate::shared::Shared;
use crate::{tiers, tokens};
use axum::extract::State;
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::Write;
use holdfast_core::outcome::ItemStatus;
use holdfast_core::space::SpaceKey;
use holdfast_core::tiers::block::{BlockChange, BlockWrite};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is not given stays as it is; a new block has an empty text and the usual limit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    value: Option<String>,
    description: Option<String>,
    limit_chars: Option<u32>,
    read_only: Option<bool>,
}

#[derive(Serialize)]
struct Changed {
    label: String,
    version: u64,
    status: &'static str,
    token: String,
}

/// A caller that changes one block.
pub(super) struct Change<'a> {
    pub(super) shared: &'a Shared,
    pub(super) access: &'a Access,
    pub(super) space: &'a SpaceKey,
    pub(super) label: &'a str,
    pub(super) identity: &'a WriteIdentity,
    pub(super) deadline: Deadline,
}

impl Change<'_> {
    pub(super) async fn write(&self, change: BlockChange, if_version: Option<u64>) -> Answer<Written> {
        let by_admin = self.access.rights.allows(Rights::ADMIN);
        let block = BlockWrite { label: self.label.to_owned(), if_version, by_admin, change };
        let write = Write::Block(Box::new(block));
        tiers::write(self.shared, self.access, self.space, self.identity, write, self.deadline).await
    }

    /// Writes with the version that `If-Match` names.
    pub(super) async fn make(&self, change: BlockChange) -> Answer<Response> {
        self.answer(&self.write(change, self.identity.if_version).await?)
    }

    pub(super) fn answer(&self, written: &Written) -> Answer<Response> {
        let item = tiers::first(written)?;
        let changed = Changed {
            label: item.id.clone(),
            version: item.version,
            status: item.status.as_str(),
            token: tokens::text(&self.access.tenant, written.seen)?,
        };
        let mut response = answer(tiers::status(item), &changed)?;
        if item.status != ItemStatus::Deleted {
            tiers::set_headers(&mut response, item.version, self.access, written.seen)?;
        }
        Ok(response)
    }
}

pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(label): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let PutBody { value, description, limit_chars, read_only } = json::body(&body)?;
    make(
        &shared,
        caller,
        &label,
        &head,
        &body,
        BlockChange::Put { value, description, limit_chars, read_only },
    )
    .await
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(label): PathId,
    head: WriteHead,
    _: NoBody,
) -> Answer<Response> {
    make(&shared, caller, &label, &head, &[], BlockChange::Delete).await
}

pub(super) async fn make(
    shared: &Shared,
    caller: InSpace,
    label: &str,
    head: &WriteHead,
    body: &[u8],
    change: BlockChange,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    Change { shared, access: &access, space: &space, label, identity: &identity, deadline }.make(change).await
}
