//! `POST …/erasures` and `DELETE /v1/users/{user}`.

use crate::auth::InSpace;
use crate::collections::erasure_id::ErasureId;
use crate::filters;
use crate::http::json::{self, Bounded};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, NoBody, answer};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, StreamExt, TryStreamExt};
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::erasure::{EraseStep, Selection};
use holdfast_core::limits::ERASE_IDS_MAX;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Exactly one of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EraseBody {
    all: Option<bool>,
    session: Option<String>,
    source: Option<String>,
    filter: Option<Value>,
    ids: Option<Bounded<String, ERASE_IDS_MAX>>,
}

/// Partitions in which an erasure begins at once.
const AT_ONCE: usize = 16;

#[derive(Serialize)]
struct BegunView {
    id: String,
    status: &'static str,
    token: String,
}

impl EraseBody {
    fn selection(self) -> Answer<Selection> {
        let filter = self.filter.map(filters::parse).transpose()?.map(|filter| filter.to_string());
        if self.all == Some(false) {
            return Err(Problem::invalid("all", "all can only be true; leave it out to erase a part"));
        }
        let named = [
            self.all.map(|_| Selection::All),
            self.session.map(Selection::Session),
            self.source.map(Selection::Source),
            filter.map(Selection::Filter),
            self.ids.map(|ids| Selection::Ids(ids.0)),
        ];
        let mut named = named.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(selection), None) => Ok(selection),
            _ => Err(Problem::invalid("body", "give exactly one of all, session, source, filter and ids")),
        }
    }
}

pub(crate) async fn erase(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let asked: EraseBody = json::body(&body)?;
    begin(&shared, caller, &head, &body, asked.selection()?).await
}

pub(crate) async fn erase_all(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    _: NoBody,
) -> Answer<Response> {
    begin(&shared, caller, &head, &[], Selection::All).await
}

async fn begin(
    shared: &Shared,
    caller: InSpace,
    head: &WriteHead,
    body: &[u8],
    selection: Selection,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let begun = begin_everywhere(
        shared,
        &access,
        &place.partitions()?,
        &identity,
        What::Selected(selection),
        deadline,
    )
    .await;
    let Begun { id, seen } = begun.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let id = place.collection().map_or(id, |row| ErasureId::of(row, identity.whole().key_hash).to_string());
    let token = tokens::text(&access.tenant, seen)?;
    answer(StatusCode::ACCEPTED, &BegunView { id, status: "removing", token })
}

/// What an erasure takes out.
pub(crate) enum What {
    /// What is selected, recorded by now.
    Selected(Selection),
    /// Everything, for good: nothing is ever stored there again.
    Closing,
}

impl What {
    fn step(&self, id: &str) -> EraseStep {
        let id = id.to_owned();
        match self {
            Self::Selected(selection) => EraseStep::Begin { id, selection: selection.clone() },
            Self::Closing => EraseStep::Close { id },
        }
    }
}

/// An erasure that has begun.
pub(crate) struct Begun {
    pub(crate) id: String,
    pub(crate) seen: Vec<Seen>,
}

/// Begins one erasure in all partitions of a space.
///
/// # Errors
/// The first partition's that could not begin it. Others may have: the same request with the same key goes
/// on where it stopped.
pub(crate) async fn begin_everywhere(
    shared: &Shared,
    access: &Access,
    spaces: &[SpaceKey],
    identity: &WriteIdentity,
    what: What,
    deadline: Deadline,
) -> Answer<Begun> {
    let idempotency = identity.whole();
    // Follows from the key, so that a repetition names the same erasure.
    let id = format!("{:032x}", idempotency.key_hash);
    let (id, what) = (&id, &what);
    let begin = |space: &SpaceKey| {
        let space = space.clone();
        async move {
            let command = Command::Space(Box::new(SpaceCommand {
                space: space.clone(),
                idempotency: Some(idempotency),
                write: Write::Erase(what.step(id)),
            }));
            command.check()?;
            shared.nodes.write(access, &space, &command, deadline).await
        }
    };
    let begun: Vec<_> =
        stream::iter(spaces.iter().map(begin)).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(Begun { id: id.clone(), seen: begun.into_iter().filter_map(|written| written.seen).collect() })
}
