//! `PATCH …/sessions/{s}` and `POST …/sessions/{s}:end`.

use crate::auth::{InSpace, PathAction, PathId};
use crate::http::json::{self, Change};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{Body, answer};
use crate::memories::get::set_headers;
use crate::memories::single;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::command::{ChangeDialogue, Command, SpaceCommand, Write};
use holdfast_core::limits::SLOTS_MAX;
use holdfast_core::session::Phase;
use holdfast_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Absent keeps, `null` clears where that has a meaning.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PatchBody {
    state: Option<String>,
    intent: Change<String>,
    /// Each name is set to its value, or taken out with `null`.
    slots: Map<String, Value>,
    confirmed_facts: Change<json::Bounded<String, SLOTS_MAX>>,
    last_user_act: Change<String>,
    last_system_act: Change<String>,
}

impl Default for PatchBody {
    fn default() -> Self {
        Self {
            state: None,
            intent: Change::Keep,
            slots: Map::new(),
            confirmed_facts: Change::Keep,
            last_user_act: Change::Keep,
            last_system_act: Change::Keep,
        }
    }
}

#[derive(Serialize)]
struct Changed {
    id: String,
    version: u64,
    status: &'static str,
    token: String,
}

pub(crate) async fn patch(
    state: State<Arc<Shared>>,
    caller: InSpace,
    PathId(session): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let patch: PatchBody = json::body(&body)?;
    let write = |if_version| {
        let change = patch.change(session.clone(), if_version)?;
        Ok(Write::Dialogue(Box::new(change)))
    };
    run(state, caller, head, &session, &body, "updated", write).await
}

/// The action stands behind the id, after a colon.
pub(crate) async fn act(
    state: State<Arc<Shared>>,
    caller: InSpace,
    PathAction { id: session, action }: PathAction,
    head: WriteHead,
) -> Answer<Response> {
    if action != "end" {
        let detail = "there is nothing to do with a session here but POST …/sessions/{id}:end";
        return Err(Problem::new(ErrorCode::NotFound, detail));
    }
    let write = |if_version| Ok(Write::EndSession { session: session.clone(), if_version });
    run(state, caller, head, &session, &[], "ended", write).await
}

async fn run(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    session: &str,
    body: &[u8],
    status: &'static str,
    write: impl FnOnce(Option<u64>) -> Result<Write>,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(body)?;
    let (idempotency, write) = (Some(identity.whole()), write(identity.if_version)?);
    let command = Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency, write }));
    command.check()?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let written = shared.nodes.write(&access, &space, &command, deadline).await;
    let mut written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let version = single(&mut written)?.version;
    let token = tokens::text(&access.tenant, written.seen)?;
    let mut response = answer(StatusCode::OK, &Changed { id: session.to_owned(), version, status, token })?;
    set_headers(&mut response, Some(version), &access, written.seen)?;
    Ok(response)
}

impl PatchBody {
    fn change(self, session: String, if_version: Option<u64>) -> Result<ChangeDialogue> {
        let phase = self.state.map(|name| {
            let unknown = || {
                let names = Phase::ALL.map(Phase::as_str).join(", ");
                Error::invalid("state", format!("there is no state {name}; state is one of {names}"))
            };
            Phase::from_wire(&name).ok_or_else(unknown)
        });
        let slots = self.slots.into_iter().map(|(name, value)| {
            let value = (!value.is_null()).then(|| json::canonical(&value));
            (name, value)
        });
        Ok(ChangeDialogue {
            session,
            if_version,
            phase: phase.transpose()?,
            intent: changed(self.intent),
            slots: slots.collect(),
            confirmed: changed(self.confirmed_facts)
                .map(|facts| facts.map(|facts| facts.0).unwrap_or_default()),
            user_act: changed(self.last_user_act),
            system_act: changed(self.last_system_act),
        })
    }
}

fn changed<T>(change: Change<T>) -> Option<Option<T>> {
    match change {
        Change::Keep => None,
        Change::Clear => Some(None),
        Change::Set(value) => Some(Some(value)),
    }
}
