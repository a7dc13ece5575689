//! Filling in the placeholders of a procedure, be it to use it or to verify it.

use super::put::{field_of, make};
use super::{Procedure, fetch, not_found};
use crate::auth::InSpace;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{answer, json};
use crate::nodes::{Level, ReadWish};
use crate::shared::Shared;
use crate::tasks::{self, Task};
use crate::tiers::Reading;
use crate::{sessions, tokens};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::limits::check_id;
use holdfast_core::tiers::procedure::{Body, ProcedureChange, VersionRow};
use holdfast_core::tiers::template::Template;
use holdfast_core::token::Token;
use holdfast_core::{Error, ErrorCode, Result};
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenderBody {
    /// The active one, if left out; the newest, if none is active.
    version: Option<u64>,
    #[serde(default)]
    variables: Map<String, Value>,
    /// The task whose variables stand where `variables` has none.
    task: Option<String>,
    /// The session whose slots stand where neither has one.
    session: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyBody {
    /// The newest, if left out.
    version: Option<u64>,
    /// An example of each.
    #[serde(default)]
    variables: Map<String, Value>,
}

#[derive(Serialize)]
struct Rendered<'a> {
    name: &'a str,
    version: u64,
    /// Of a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Of a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<RenderedStep<'a>>>,
    token: String,
}

#[derive(Serialize)]
struct RenderedStep<'a> {
    name: &'a str,
    text: String,
    tool: Option<&'a str>,
}

pub(super) async fn render(
    shared: &Shared,
    caller: InSpace,
    name: &str,
    uri: &Uri,
    headers: &HeaderMap,
    said: &[u8],
) -> Answer<Response> {
    let Reading { access, space, wish } = Reading::of(caller, uri, headers)?;
    let RenderBody { version, variables, task, session } = json::body(said)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let (mut found, seen) = fetch(shared, &access, &space, Some(name), &wish, deadline).await?;
    let procedure = found.pop().ok_or_else(not_found)?;
    let mut values = texts(variables);
    if let Some(id) = &task {
        check_id("task", id)?;
        let (task, _) = tasks::fetch(shared, &access, &space, id, &wish, deadline).await?;
        let task = task.ok_or_else(|| {
            Error::new(ErrorCode::NotFound, "there is no task with this id in this space").at("task")
        })?;
        take(&mut values, &task.row.variables);
    }
    if let Some(id) = &session {
        check_id("session", id)?;
        let read = sessions::read::fetch(shared, &access, &space, id, &wish, deadline).await;
        let (session, ..) = read.map_err(|problem| problem.at("session"))?;
        take(&mut values, &session.dialogue.unwrap_or_default().slots);
    }
    let row = procedure.chosen(version)?;
    let filled = fill(row, &values)?;
    let mut rendered = Rendered {
        name: &procedure.name,
        version: row.version,
        text: None,
        steps: None,
        token: tokens::text(&access.tenant, seen)?,
    };
    match &row.body {
        Body::Template { .. } => rendered.text = filled.into_iter().next(),
        Body::Workflow { steps } => {
            let filled = steps.iter().zip(filled);
            let filled = filled.map(|(step, text)| RenderedStep {
                name: &step.name,
                text,
                tool: step.tool.as_deref(),
            });
            rendered.steps = Some(filled.collect());
        }
    }
    answer(StatusCode::OK, &rendered)
}

/// A version is verified if an example can be rendered.
pub(super) async fn verify(
    shared: &Shared,
    caller: InSpace,
    name: String,
    head: &WriteHead,
    body: &[u8],
    said: &[u8],
) -> Answer<Response> {
    let VerifyBody { version, variables } = json::body(said)?;
    let (access, space) = caller.check(Rights::READ.with(Rights::WRITE))?;
    let wish = ReadWish { level: Level::Linearizable, token: Token::new(&access.tenant) };
    let deadline = Deadline::after(shared.config.read_timeout);
    let (mut found, _) = fetch(shared, access, space, Some(&name), &wish, deadline).await?;
    let procedure: Procedure = found.pop().ok_or_else(not_found)?;
    let row = procedure.chosen(version.or(Some(procedure.row.last_version)))?;
    fill(row, &texts(variables))?;
    let change = ProcedureChange::Verify { version: row.version };
    make(shared, caller, name, head, body, change).await
}

/// Every text of a version with values in place of its placeholders.
fn fill(row: &VersionRow, values: &Values) -> Result<Vec<String>> {
    let value = |name: &str| values.get(name).cloned().flatten();
    let mut filled = Vec::new();
    for (at, text) in row.body.texts().into_iter().enumerate() {
        let template = Template::read(text).map_err(|error| error.at(field_of(&row.body, at)))?;
        filled.push(template.render(value)?);
    }
    Ok(filled)
}

fn texts(variables: Map<String, Value>) -> Values {
    variables.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Values by name, as they stand in a text; `None` for `null`.
pub(crate) type Values = BTreeMap<String, Option<String>>;

/// The variables of a task, and where it has none of a name the slots of a session.
pub(crate) fn known(task: Option<&Task>, session: Option<&v1::Session>) -> Values {
    let mut values = Values::new();
    if let Some(task) = task {
        take(&mut values, &task.row.variables);
    }
    if let Some(dialogue) = session.and_then(|session| session.dialogue.as_ref()) {
        take(&mut values, &dialogue.slots);
    }
    values
}

/// Takes in values that were written as JSON, where there is none of the name yet.
fn take<'a>(values: &mut Values, more: impl IntoIterator<Item = (&'a String, &'a String)>) {
    for (name, value) in more {
        let value: Value = serde_json::from_str(value).unwrap_or(Value::Null);
        values.entry(name.clone()).or_insert_with(|| text(value));
    }
}

/// A value as it stands in a text: strings as they are, `null` nowhere, anything else as JSON.
fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        value => Some(json::canonical(&value)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn values_stand_in_texts_as_people_write_them() {
        for (value, expected) in [
            (json!("柏林"), Some("柏林")),
            (json!(""), Some("")),
            (json!(7), Some("7")),
            (json!(true), Some("true")),
            (json!(["a", {"y": 1, "x": 2}]), Some(r#"["a",{"x":2,"y":1}]"#)),
            (Value::Null, None),
        ] {
            assert_eq!(text(value).as_deref(), expected);
        }
    }
}
