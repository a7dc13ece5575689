//! `PUT …/procedures/{name}`: a new version. `DELETE …/procedures/{name}`.

use crate::auth::{InSpace, PathId};
use crate::http::json::Bounded;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{Body, NoBody, answer, json};
use crate::shared::Shared;
use crate::{tiers, tokens};
use axum::extract::State;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::command::Write;
use holdfast_core::limits::WORKFLOW_STEPS_MAX;
use holdfast_core::outcome::ItemStatus;
use holdfast_core::tiers::procedure::{self, ProcedureChange, ProcedureWrite, WorkflowStep};
use holdfast_core::tiers::template::Template;
use holdfast_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Either a template or steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    template: Option<String>,
    steps: Option<Bounded<StepBody, WORKFLOW_STEPS_MAX>>,
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody {
    name: String,
    text: String,
    tool: Option<String>,
}

#[derive(Serialize)]
struct Changed {
    name: String,
    version: u64,
    status: &'static str,
    token: String,
}

pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(name): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    make(&shared, caller, name, &head, &body, read(&body)?).await
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(name): PathId,
    head: WriteHead,
    _: NoBody,
) -> Answer<Response> {
    make(&shared, caller, name, &head, &[], ProcedureChange::Delete).await
}

pub(super) async fn make(
    shared: &Shared,
    caller: InSpace,
    name: String,
    head: &WriteHead,
    body: &[u8],
    change: ProcedureChange,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let write = ProcedureWrite { name, if_version: identity.if_version, change };
    let write = Write::Procedure(Box::new(write));
    let written = tiers::write(shared, &access, &space, &identity, write, deadline).await?;
    let item = tiers::first(&written)?;
    let changed = Changed {
        name: item.id.clone(),
        version: item.version,
        status: item.status.as_str(),
        token: tokens::text(&access.tenant, written.seen)?,
    };
    let mut response = answer(tiers::status(item), &changed)?;
    // Of a new version alone: the entity tag is the number of the newest one.
    if item.status == ItemStatus::Created {
        tiers::set_headers(&mut response, item.version, &access, written.seen)?;
    }
    Ok(response)
}

/// Reads a new version. The names of its placeholders are found here, so that apply need not know how a
/// template is written.
fn read(body: &[u8]) -> Result<ProcedureChange> {
    let PutBody { template, steps, description } = json::body(body)?;
    let body = match (template, steps) {
        (Some(text), None) => procedure::Body::Template { text },
        (None, Some(steps)) => {
            let step = |StepBody { name, text, tool }| WorkflowStep { name, text, tool };
            procedure::Body::Workflow { steps: steps.0.into_iter().map(step).collect() }
        }
        _ => return Err(Error::invalid("template", "give either template, a text, or steps, a workflow")),
    };
    let mut names = BTreeSet::new();
    for (at, text) in body.texts().into_iter().enumerate() {
        let field = field_of(&body, at);
        names.extend(Template::read(text).map_err(|error| error.at(field))?.names());
    }
    let placeholders = names.into_iter().map(str::to_owned).collect();
    Ok(ProcedureChange::Put { description: description.unwrap_or_default(), placeholders, body })
}

/// Where the text `at` of a body stands in the request.
pub(super) fn field_of(body: &procedure::Body, at: usize) -> String {
    match body {
        procedure::Body::Template { .. } => "template".to_owned(),
        procedure::Body::Workflow { .. } => format!("steps[{at}].text"),
    }
}
