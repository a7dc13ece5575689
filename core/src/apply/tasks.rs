//! Changes of tasks, and their end by time.

use super::delete::{self, Tier};
use super::{Answers, ApplyError, Context, Step, add, tiers};
use crate::keys::due::{Due, DueKind};
use crate::keys::task as keys;
use crate::limits::{TASK_STEP_BYTES_MAX, TASK_STEPS_MAX, TASKS_MAX};
use crate::memory::IdempotencyId;
use crate::outcome::{Heartbeat, ItemStatus};
use crate::space::SpaceKey;
use crate::state::State;
use crate::tiers::other_version;
use crate::tiers::task::{self, PlanOp, StepKind, StepRow, TTL_S_DEFAULT, TaskChange, TaskRow, TaskWrite};
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    write: &TaskWrite,
) -> Step<Answers> {
    let id = &write.id;
    let old = living(context, space, id)?;
    match (&old, write.if_version) {
        (Some(old), Some(expected)) if old.version != expected => {
            return Err(other_version("task", old.version, expected).into());
        }
        (None, Some(_)) => return Err(missing().into()),
        _ => {}
    }
    let mut new = match (&old, &write.change) {
        (Some(old), TaskChange::End { episode }) => {
            let mut answers =
                vec![add::answer(id, old.version, ItemStatus::Deleted, IdempotencyId::Requested)];
            if let Some(episode) = episode {
                answers.extend(add::apply(context, space, episode)?);
            }
            remove(context, space, id, old)?;
            delete::bury(context, space, Tier::Task, id, old.version)?;
            return Ok(answers);
        }
        (Some(old), _) => old.clone(),
        (None, TaskChange::Put { .. }) => create(context, space)?,
        (None, _) => return Err(missing().into()),
    };
    match &write.change {
        TaskChange::Put { goal, session, agent, plan, ttl_s } => {
            new.goal = goal.clone().unwrap_or(new.goal);
            new.session = session.clone().or(new.session);
            new.agent = agent.clone().or(new.agent);
            new.plan = plan.clone().unwrap_or(new.plan);
            new.ttl_s = ttl_s.unwrap_or(new.ttl_s);
        }
        TaskChange::Steps { steps, plan } => advance(context, space, id, &mut new, steps, plan)?,
        TaskChange::Variables { set, remove } => new.set_variables(set, remove)?,
        TaskChange::End { .. } => {}
    }
    let new = save(context, space, id, old.as_ref(), new)?;
    let status = if old.is_some() { ItemStatus::Updated } else { ItemStatus::Created };
    let (mut outcome, kept) = add::answer(id, new.version, status, IdempotencyId::Requested);
    outcome.heartbeat = heartbeat(&new);
    Ok(vec![(outcome, kept)])
}

fn missing() -> Error {
    let detail = "there is no task with this id in this space; it ended, its time is over, or it never was";
    Error::new(ErrorCode::NotFound, detail).at("id")
}

fn heartbeat(task: &TaskRow) -> Vec<Heartbeat> {
    if task.is_silent() { vec![Heartbeat::SilentSteps3] } else { Vec::new() }
}

/// What the answer of a repeated write says of the task: how it is now.
pub(super) fn heartbeat_now<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    id: &str,
) -> Step<Vec<Heartbeat>> {
    let task: Option<TaskRow> = context.rows.read(&keys::key(space, id))?;
    Ok(task.map(|task| heartbeat(&task)).unwrap_or_default())
}

/// The task, if its time is not over. One that only waits to be swept goes.
fn living<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, id: &str) -> Step<Option<TaskRow>> {
    let task: Option<TaskRow> = context.rows.read(&keys::key(space, id))?;
    match task {
        Some(task) if task.expires_us <= context.now_us => {
            remove(context, space, id, &task)?;
            Ok(None)
        }
        task => Ok(task),
    }
}

/// An empty task, with the version before its first.
fn create<S: State>(context: &mut Context<'_, S>, space: &SpaceKey) -> Step<TaskRow> {
    let version = tiers::enter(context, &keys::tier(space), TASKS_MAX, "tasks")?;
    Ok(TaskRow {
        version: version - 1,
        ttl_s: TTL_S_DEFAULT,
        created_us: context.now_us,
        first_step: 1,
        next_step: 1,
        ..TaskRow::default()
    })
}

/// Records steps. A task keeps the newest: the oldest go where there are too many, or too many bytes.
fn advance<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    task: &mut TaskRow,
    steps: &[task::Step],
    plan: &[PlanOp],
) -> Step<()> {
    for step in steps {
        let row = StepRow { step: step.clone(), at_us: context.now_us };
        context.rows.write(keys::step(space, id, task.next_step), &row)?;
        task.next_step += 1;
        task.step_bytes += step.stored_bytes();
        match step.kind {
            StepKind::Tool => task.silent_steps = task.silent_steps.saturating_add(1),
            StepKind::Message => task.silent_steps = 0,
            StepKind::Thought | StepKind::Observation => {}
        }
    }
    keep_newest(context, space, id, task)?;
    for (at, op) in plan.iter().enumerate() {
        task.plan_on(op).map_err(|error| error.at(format!("plan[{at}]")))?;
    }
    Ok(())
}

/// Takes the oldest steps out where there are too many, or too many bytes.
pub(super) fn keep_newest<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    task: &mut TaskRow,
) -> Step<()> {
    while task.steps_kept() > TASK_STEPS_MAX || task.step_bytes > TASK_STEP_BYTES_MAX {
        let key = keys::step(space, id, task.first_step);
        let Some(oldest) = context.rows.read::<StepRow>(&key)? else {
            let detail = format!("step {} of task {id} of {space} is missing", task.first_step);
            return Err(ApplyError::Inconsistent(detail).into());
        };
        context.rows.delete(&key)?;
        task.first_step += 1;
        task.step_bytes = task.step_bytes.saturating_sub(oldest.step.stored_bytes());
    }
    Ok(())
}

/// Writes a new version, whose time to live begins now.
fn save<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    old: Option<&TaskRow>,
    new: TaskRow,
) -> Step<TaskRow> {
    let live_us = i64::from(new.ttl_s).saturating_mul(1_000_000);
    let expires_us = context.now_us.saturating_add(live_us);
    let new = TaskRow { version: new.version + 1, updated_us: context.now_us, expires_us, ..new };
    if let Some(old) = old {
        context.rows.delete_due(&due(space, id, old.expires_us))?;
    }
    context.rows.put_due(&due(space, id, expires_us))?;
    tiers::count_bytes(context, space, old.map_or(0, TaskRow::stored_bytes), new.stored_bytes())?;
    context.rows.write(keys::key(space, id), &new)?;
    Ok(new)
}

/// Takes every row of a task out. Its number of steps is bounded.
fn remove<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, id: &str, task: &TaskRow) -> Step<()> {
    for number in task.first_step..task.next_step {
        context.rows.delete(&keys::step(space, id, number))?;
    }
    context.rows.delete(&keys::key(space, id))?;
    context.rows.delete_due(&due(space, id, task.expires_us))?;
    tiers::leave(context, &keys::tier(space), task.version)?;
    tiers::count_bytes(context, space, task.stored_bytes(), 0)
}

/// The time of a task may be over.
pub(super) fn expire<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<()> {
    let Some(task) = context.rows.read::<TaskRow>(&keys::key(&due.space, &due.id))? else { return Ok(()) };
    // Every change moves the due row; one that stayed behind must not end anything.
    if task.expires_us == due.at_us {
        remove(context, &due.space, &due.id, &task)?;
    }
    Ok(())
}

pub(super) fn due(space: &SpaceKey, id: &str, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Task, id: id.to_owned() }
}
