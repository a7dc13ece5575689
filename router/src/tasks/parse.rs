//! The bodies of calls about tasks.

use crate::http::json::{self, Bounded};
use holdfast_core::limits::{PLAN_ITEMS_MAX, STEPS_PER_WRITE_MAX};
use holdfast_core::tiers::task::{PlanItem, PlanOp, PlanStatus, Step, StepKind, TaskChange};
use holdfast_core::{Error, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What is not given stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody<'a> {
    goal: Option<String>,
    session: Option<String>,
    agent: Option<String>,
    #[serde(borrow)]
    plan: Option<Bounded<&'a RawValue, PLAN_ITEMS_MAX>>,
    ttl_s: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemBody {
    text: String,
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepsBody {
    steps: Option<Bounded<StepBody, STEPS_PER_WRITE_MAX>>,
    plan: Option<Bounded<PlanBody, STEPS_PER_WRITE_MAX>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody {
    kind: String,
    content: String,
    tool: Option<String>,
    success: Option<bool>,
}

/// One of `push`, `pop` and `mark`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanBody {
    push: Option<String>,
    pop: Option<bool>,
    mark: Option<String>,
    /// Which to mark; the top, if left out.
    at: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariablesBody {
    variables: Map<String, Value>,
}

pub(super) fn put(body: &[u8]) -> Result<TaskChange> {
    let PutBody { goal, session, agent, plan, ttl_s } = json::body(body)?;
    let plan = plan.map(|plan| plan.0.iter().enumerate().map(|(at, raw)| item(at, raw)).collect());
    Ok(TaskChange::Put { goal, session, agent, plan: plan.transpose()?, ttl_s })
}

/// A text, or an object with a text and a status.
fn item(at: usize, raw: &RawValue) -> Result<PlanItem> {
    let field = format!("plan[{at}]");
    if raw.get().starts_with('"') {
        let text = json::part(raw.get(), &field)?;
        return Ok(PlanItem { text, status: PlanStatus::Open });
    }
    let ItemBody { text, status: name } = json::part(raw.get(), &field)?;
    let status = name.map(|name| status(&name, format!("{field}.status"))).transpose()?;
    Ok(PlanItem { text, status: status.unwrap_or_default() })
}

fn status(name: &str, field: String) -> Result<PlanStatus> {
    PlanStatus::from_wire(name).ok_or_else(|| {
        Error::invalid(field.clone(), format!("{field} must be open, done, failed or skipped"))
    })
}

pub(super) fn steps(body: &[u8]) -> Result<TaskChange> {
    let StepsBody { steps, plan } = json::body(body)?;
    let steps = steps.map(|steps| steps.0).unwrap_or_default().into_iter().enumerate();
    let plan = plan.map(|plan| plan.0).unwrap_or_default().into_iter().enumerate();
    let steps: Result<Vec<Step>> = steps.map(|(at, body)| step(at, body)).collect();
    let plan: Result<Vec<PlanOp>> = plan.map(|(at, body)| plan_op(at, body)).collect();
    Ok(TaskChange::Steps { steps: steps?, plan: plan? })
}

fn step(at: usize, body: StepBody) -> Result<Step> {
    let kind = StepKind::from_wire(&body.kind).ok_or_else(|| {
        let field = format!("steps[{at}].kind");
        let detail = format!("{field} must be thought, tool, observation or message");
        Error::invalid(field, detail)
    })?;
    Ok(Step { kind, tool: body.tool, content: body.content, success: body.success })
}

fn plan_op(at: usize, body: PlanBody) -> Result<PlanOp> {
    let field = format!("plan[{at}]");
    match body {
        PlanBody { push: Some(text), pop: None, mark: None, at: None } => Ok(PlanOp::Push { text }),
        PlanBody { push: None, pop: Some(true), mark: None, at: None } => Ok(PlanOp::Pop),
        PlanBody { push: None, pop: None, mark: Some(name), at } => {
            Ok(PlanOp::Mark { at, status: status(&name, format!("{field}.mark"))? })
        }
        _ => {
            let detail = format!(
                "{field} must be one of {{\"push\": text}}, {{\"pop\": true}} and {{\"mark\": status, \"at\": number}}"
            );
            Err(Error::invalid(field, detail))
        }
    }
}

/// `null` takes a variable out.
pub(super) fn variables(body: &[u8]) -> Result<TaskChange> {
    let VariablesBody { variables } = json::body(body)?;
    let (mut set, mut remove) = (BTreeMap::new(), BTreeSet::new());
    for (name, value) in variables {
        match value {
            Value::Null => {
                remove.insert(name);
            }
            value => {
                set.insert(name, json::canonical(&value));
            }
        }
    }
    Ok(TaskChange::Variables { set, remove })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn fields(read: fn(&[u8]) -> Result<TaskChange>, bodies: &[(Value, &str)]) {
        for (body, field) in bodies {
            let error = read(body.to_string().as_bytes()).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(*field), "{body} {error}");
        }
    }

    #[test]
    fn bodies_are_read() {
        let TaskChange::Put { plan: Some(plan), .. } =
            put(br#"{"plan": ["a", {"text": "b", "status": "done"}], "goal": "g"}"#).unwrap()
        else {
            panic!()
        };
        assert_eq!(
            plan.iter().map(|item| item.status).collect::<Vec<_>>(),
            [PlanStatus::Open, PlanStatus::Done]
        );
        let body =
            json!({"plan": [{"push": "a"}, {"pop": true}, {"mark": "failed"}, {"mark": "done", "at": 3}]});
        let TaskChange::Steps { plan, steps } = steps(body.to_string().as_bytes()).unwrap() else { panic!() };
        assert_eq!((plan.len(), steps.len()), (4, 0));
        let TaskChange::Variables { set, remove } =
            variables(r#"{"variables": {"b": {"y": 1, "x": [null]}, "a": null, "名": "安"}}"#.as_bytes())
                .unwrap()
        else {
            panic!()
        };
        assert_eq!(set["b"], r#"{"x":[null],"y":1}"#);
        assert_eq!((set.len(), remove.len()), (2, 1));
    }

    #[test]
    fn bad_bodies_are_told() {
        fields(
            put,
            &[
                (json!({"plan": [7]}), "plan[0]"),
                (json!({"plan": ["a", {"text": "b", "status": "maybe"}]}), "plan[1].status"),
                (json!({"plan": [{"status": "done"}]}), "plan[0].text"),
                (json!({"plan": vec!["x"; 65]}), "plan"),
                (json!({"ttl": 7}), "ttl"),
                (json!({"ttl_s": -1}), "ttl_s"),
            ],
        );
        fields(
            steps,
            &[
                (json!({"steps": [{"kind": "dream", "content": "x"}]}), "steps[0].kind"),
                (json!({"steps": [{"kind": "tool"}]}), "steps[0].content"),
                (json!({"steps": {"kind": "tool", "content": "x"}}), "steps"),
                (json!({"plan": [{"pop": false}]}), "plan[0]"),
                (json!({"plan": [{"push": "x"}, {"push": "x", "pop": true}]}), "plan[1]"),
                (json!({"plan": [{"mark": "perhaps"}]}), "plan[0].mark"),
                (json!({"plan": [{"at": 1}]}), "plan[0]"),
            ],
        );
        fields(variables, &[(json!({"variables": []}), "variables"), (json!({"city": "x"}), "city")]);
    }
}
