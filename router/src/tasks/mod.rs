//! `…/tasks`: the working memory of a space.

mod end;
mod episode;
mod parse;
mod read;
mod write;

pub(crate) use end::end;
pub(crate) use read::{get, list};
pub(crate) use write::{put, steps, variables};

use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::nodes::ReadWish;
use crate::shared::Shared;
use crate::tiers::{What, decode, rows};
use holdfast_core::access::Access;
use holdfast_core::outcome::Heartbeat;
use holdfast_core::space::SpaceKey;
use holdfast_core::tiers::task::{StepRow, TaskRow};
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A task with the steps that are kept of it.
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) row: TaskRow,
    /// With their numbers, oldest first.
    pub(crate) steps: Vec<(u64, StepRow)>,
}

/// Reads a task with its steps in one call of a node; `None` if there is none.
pub(crate) async fn fetch(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    id: &str,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<(Option<Task>, Option<Seen>)> {
    let what = What { tier: v1::Tier::Task, id, parts: true };
    let (entries, seen) = rows(shared, access, space, wish, deadline, what).await?;
    Ok((Task::of(entries)?, seen))
}

impl Task {
    /// Reads what a node answers about one task.
    fn of(entries: Vec<v1::TierEntry>) -> Answer<Option<Self>> {
        let mut entries = entries.into_iter();
        let Some(first) = entries.next() else { return Ok(None) };
        let row: TaskRow = decode(&first)?;
        let mut steps = Vec::new();
        for entry in entries {
            let number = entry.part.unwrap_or_default();
            // Steps that came or went while the rows were read are not of this version.
            if (row.first_step..row.next_step).contains(&number) {
                steps.push((number, decode(&entry)?));
            }
        }
        Ok(Some(Self { id: first.id, row, steps }))
    }

    /// Everything of the task as callers see it.
    pub(crate) fn view(&self) -> Answer<TaskView<'_>> {
        let steps = self.steps.iter().map(|(number, row)| StepView::new(*number, row)).collect();
        TaskView::new(&self.id, &self.row, Some(steps))
    }
}

/// A task as callers see it. Every field is always there, but the steps in a list.
#[derive(Serialize)]
pub(crate) struct TaskView<'a> {
    id: &'a str,
    goal: &'a str,
    session: Option<&'a str>,
    agent: Option<&'a str>,
    /// A stack, its top last.
    plan: Vec<PlanView<'a>>,
    variables: BTreeMap<&'a str, &'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<StepView<'a>>>,
    /// Steps that were recorded.
    steps_total: u64,
    /// Those of them that are not kept any more.
    steps_dropped: u64,
    /// Calls of tools since the last message.
    silent_steps: u32,
    heartbeat: Vec<&'static str>,
    ttl_s: u32,
    expires_at: Time,
    created_at: Time,
    updated_at: Time,
    version: u64,
}

#[derive(Serialize)]
struct PlanView<'a> {
    text: &'a str,
    status: &'static str,
}

#[derive(Serialize)]
pub(crate) struct StepView<'a> {
    n: u64,
    kind: &'static str,
    tool: Option<&'a str>,
    content: &'a str,
    success: Option<bool>,
    time: Time,
}

impl<'a> StepView<'a> {
    fn new(n: u64, row: &'a StepRow) -> Self {
        let step = &row.step;
        let (tool, content, success) = (step.tool.as_deref(), step.content.as_str(), step.success);
        Self { n, kind: step.kind.as_str(), tool, content, success, time: Time(row.at_us) }
    }
}

impl<'a> TaskView<'a> {
    fn new(id: &'a str, row: &'a TaskRow, steps: Option<Vec<StepView<'a>>>) -> Answer<Self> {
        let mut variables = BTreeMap::new();
        for (name, value) in &row.variables {
            let value: &RawValue = serde_json::from_str(value).map_err(|error| {
                Problem::new(ErrorCode::Corrupted, format!("a variable cannot be read: {error}"))
            })?;
            variables.insert(name.as_str(), value);
        }
        let plan = row.plan.iter().map(|item| PlanView { text: &item.text, status: item.status.as_str() });
        let heartbeat = row.is_silent().then_some(Heartbeat::SilentSteps3.as_str());
        Ok(Self {
            id,
            goal: &row.goal,
            session: row.session.as_deref(),
            agent: row.agent.as_deref(),
            plan: plan.collect(),
            variables,
            steps,
            steps_total: row.next_step.saturating_sub(1),
            steps_dropped: row.first_step.saturating_sub(1),
            silent_steps: row.silent_steps,
            heartbeat: heartbeat.into_iter().collect(),
            ttl_s: row.ttl_s,
            expires_at: Time(row.expires_us),
            created_at: Time(row.created_us),
            updated_at: Time(row.updated_us),
            version: row.version,
        })
    }
}

fn not_found() -> Problem {
    let detail = "there is no task with this id in this space; it ended, its time is over, or it never was";
    Error::new(ErrorCode::NotFound, detail).at("id").into()
}
