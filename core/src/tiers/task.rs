//! Working memory: what an agent is busy with. A task has a plan (a stack), the steps that were made
//! (thoughts, calls of tools, observations, messages) and variables. It ends with an outcome, or when
//! nobody has touched it for its time to live, by log time.

use crate::codec::stored;
use crate::command::Add;
use crate::limits::{self, check_bytes};
use crate::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How long a task lives after its last change if nothing else is said, in seconds: a day.
pub const TTL_S_DEFAULT: u32 = 24 * 3_600;
/// Calls of tools in a row without a word to the user, from which on every answer says so.
pub const SILENT_STEPS: u32 = 3;

/// A task. Key: see [`crate::keys::task`]. Its steps are rows of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Counts changes; what compare-and-set compares.
    pub version: u64,
    /// What it is to achieve.
    pub goal: String,
    /// The conversation it belongs to.
    pub session: Option<String>,
    /// The agent that works on it.
    pub agent: Option<String>,
    /// The plan: a stack, its top last.
    pub plan: Vec<PlanItem>,
    /// Values by name, as canonical JSON.
    pub variables: BTreeMap<String, String>,
    /// How long it lives after its last change, in seconds.
    pub ttl_s: u32,
    /// When it ends by itself, in log time.
    pub expires_us: i64,
    /// When it was made, in log time.
    pub created_us: i64,
    /// When it was last changed, in log time.
    pub updated_us: i64,
    /// Number of the oldest step that is kept; steps count from 1.
    pub first_step: u64,
    /// Number that the next step gets.
    pub next_step: u64,
    /// Bytes of the steps that are kept.
    pub step_bytes: u64,
    /// Calls of tools since the last message.
    pub silent_steps: u32,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanItem {
    /// What.
    pub text: String,
    /// How it stands.
    pub status: PlanStatus,
}

/// How a thing to do stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanStatus {
    /// Still to be done.
    #[default]
    Open,
    /// Done.
    Done,
    /// Tried in vain.
    Failed,
    /// Not to be done any more.
    Skipped,
}

/// One step. Key: see [`crate::keys::task`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    /// What was done.
    pub step: Step,
    /// When it was recorded, in log time.
    pub at_us: i64,
}

/// What was done in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What sort of step it is.
    pub kind: StepKind,
    /// The tool that was called or answered.
    pub tool: Option<String>,
    /// The text.
    pub content: String,
    /// Whether it succeeded, if that is known.
    pub success: Option<bool>,
}

/// What sort of step it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepKind {
    /// The agent thought.
    Thought,
    /// The agent called a tool.
    Tool,
    /// Something came back.
    Observation,
    /// The agent said something to the user.
    Message,
}

stored!(TaskRow, StepRow);

/// Wire names of an enum without fields.
macro_rules! wire_names {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// The wire name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// Finds one by its wire name.
            pub fn from_wire(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

wire_names!(PlanStatus { Open => "open", Done => "done", Failed => "failed", Skipped => "skipped" });
wire_names!(StepKind {
    Thought => "thought",
    Tool => "tool",
    Observation => "observation",
    Message => "message",
});

/// A change of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskWrite {
    /// Which.
    pub id: String,
    /// Only if this is its version.
    pub if_version: Option<u64>,
    /// What.
    pub change: TaskChange,
}

/// What is done to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskChange {
    /// Makes the task, or sets what is given; the rest of one that exists stays.
    Put {
        /// As [`TaskRow::goal`].
        goal: Option<String>,
        /// As [`TaskRow::session`].
        session: Option<String>,
        /// As [`TaskRow::agent`].
        agent: Option<String>,
        /// The whole plan.
        plan: Option<Vec<PlanItem>>,
        /// As [`TaskRow::ttl_s`]; [`TTL_S_DEFAULT`] for a new task if not given.
        ttl_s: Option<u32>,
    },
    /// Records steps, and changes the plan.
    Steps {
        /// In their order.
        steps: Vec<Step>,
        /// One after the other, behind the steps.
        plan: Vec<PlanOp>,
    },
    /// Sets variables and takes some out; the others stay.
    Variables {
        /// Values by name, as canonical JSON.
        set: BTreeMap<String, String>,
        /// Names.
        remove: BTreeSet<String>,
    },
    /// Ends the task. With an episode, a memory tells of it, which was made of version
    /// `if_version`; both happen or none does.
    End {
        /// One memory.
        episode: Option<Box<Add>>,
    },
}

/// A change of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanOp {
    /// A new thing to do, on top.
    Push {
        /// What.
        text: String,
    },
    /// Takes the top off.
    Pop,
    /// Says how a thing to do stands.
    Mark {
        /// Which, from 0 at the bottom; the top, if not given.
        at: Option<u32>,
        /// How it stands.
        status: PlanStatus,
    },
}

impl TaskWrite {
    /// Checks what can be checked without the task. The memory of an episode is checked as every
    /// new memory is.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] or [`ErrorCode::TooLarge`], naming the field.
    pub fn check(&self) -> Result<()> {
        limits::check_id("id", &self.id)?;
        match &self.change {
            TaskChange::Put { goal, session, agent, plan, ttl_s } => {
                check_bytes("goal", goal.as_deref(), limits::TASK_GOAL_BYTES_MAX)?;
                for (field, name) in [("session", session), ("agent", agent)] {
                    name.as_ref().map_or(Ok(()), |name| limits::check_id(field, name))?;
                }
                for item in plan.iter().flatten() {
                    check_item(&item.text)?;
                }
                check_plan(plan.as_ref().map_or(0, Vec::len))?;
                check_ttl(*ttl_s)
            }
            TaskChange::Steps { steps, plan } => check_steps(steps, plan),
            TaskChange::Variables { set, remove } => {
                if set.is_empty() && remove.is_empty() {
                    let detail = "variables is empty; name at least one, null to take it out";
                    return Err(Error::invalid("variables", detail));
                }
                set.keys().chain(remove).try_for_each(|name| limits::check_id("variables", name))?;
                check_variables(set)
            }
            TaskChange::End { episode } => match episode {
                Some(add) if add.items.len() != 1 || add.partial || self.if_version.is_none() => {
                    Err(Error::invalid("episode", "an episode is one memory, made of a version of the task"))
                }
                _ => Ok(()),
            },
        }
    }
}

fn check_steps(steps: &[Step], plan: &[PlanOp]) -> Result<()> {
    if steps.is_empty() && plan.is_empty() {
        return Err(Error::invalid("steps", "steps and plan are empty; give at least one of them"));
    }
    for (field, number) in [("steps", steps.len()), ("plan", plan.len())] {
        let max = limits::STEPS_PER_WRITE_MAX;
        if number > max {
            let detail =
                format!("{field} has {number} elements; the limit of one call is {max}; send several");
            return Err(Error::too_large(field, detail));
        }
    }
    let mut bytes = 0;
    for (at, step) in steps.iter().enumerate() {
        check_bytes(&format!("steps[{at}].content"), Some(&step.content), limits::STEP_BYTES_MAX)?;
        step.tool.as_ref().map_or(Ok(()), |tool| limits::check_id(&format!("steps[{at}].tool"), tool))?;
        bytes += step.stored_bytes();
    }
    let max = limits::TASK_STEP_BYTES_MAX;
    if bytes > max {
        let detail = format!("the steps have {bytes} bytes together, and a task keeps {max}; shorten them");
        return Err(Error::too_large("steps", detail));
    }
    plan.iter().try_for_each(|op| match op {
        PlanOp::Push { text } => check_item(text),
        PlanOp::Pop | PlanOp::Mark { .. } => Ok(()),
    })
}

fn check_item(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid("plan", "an element of the plan is empty; say what is to be done"));
    }
    check_bytes("plan", Some(text), limits::PLAN_ITEM_BYTES_MAX)
}

fn check_plan(items: usize) -> Result<()> {
    let max = limits::PLAN_ITEMS_MAX;
    if items > max {
        let detail = format!("the plan would have {items} elements; the limit is {max}; take some off");
        return Err(Error::too_large("plan", detail));
    }
    Ok(())
}

fn check_ttl(ttl_s: Option<u32>) -> Result<()> {
    let max = limits::TASK_TTL_S_MAX;
    match ttl_s {
        Some(ttl_s) if !(1..=max).contains(&ttl_s) => {
            Err(Error::invalid("ttl_s", format!("ttl_s is {ttl_s}; give 1 to {max} seconds")))
        }
        _ => Ok(()),
    }
}

fn check_variables(variables: &BTreeMap<String, String>) -> Result<()> {
    let (number, max) = (variables.len(), limits::TASK_VARIABLES_MAX);
    if number > max {
        let detail = format!("the task would have {number} variables; the limit is {max}; take some out");
        return Err(Error::too_large("variables", detail));
    }
    let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
    let max = limits::TASK_VARIABLES_BYTES_MAX;
    if bytes > max {
        let detail = format!("the variables would have {bytes} bytes; the limit is {max}; take some out");
        return Err(Error::too_large("variables", detail));
    }
    Ok(())
}

impl Step {
    /// Bytes that it counts for.
    pub fn stored_bytes(&self) -> u64 {
        (self.content.len() + self.tool.as_ref().map_or(0, String::len)) as u64
    }
}

impl TaskRow {
    /// Bytes that the task counts for among those that the space stores, with its steps.
    pub fn stored_bytes(&self) -> u64 {
        let plan: usize = self.plan.iter().map(|item| item.text.len()).sum();
        let variables: usize = self.variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        (self.goal.len() + plan + variables) as u64 + self.step_bytes
    }

    /// How many steps are kept.
    pub fn steps_kept(&self) -> u64 {
        self.next_step.saturating_sub(self.first_step)
    }

    /// Changes the plan.
    ///
    /// # Errors
    /// [`ErrorCode::Conflict`] if there is nothing to pop or to mark, [`ErrorCode::TooLarge`] if the
    /// plan would be too long.
    pub fn plan_on(&mut self, op: &PlanOp) -> Result<()> {
        let empty = || Error::new(ErrorCode::Conflict, "the plan is empty; push something first").at("plan");
        match op {
            PlanOp::Push { text } => {
                check_plan(self.plan.len() + 1)?;
                self.plan.push(PlanItem { text: text.clone(), status: PlanStatus::Open });
            }
            PlanOp::Pop => {
                self.plan.pop().ok_or_else(empty)?;
            }
            PlanOp::Mark { at, status } => {
                let last = self.plan.len().checked_sub(1).ok_or_else(empty)?;
                let at = at.map_or(last, |at| at as usize);
                let item = self.plan.get_mut(at).ok_or_else(|| {
                    let detail =
                        format!("the plan has no element {at}; give 0 to {last}, or none for the top");
                    Error::new(ErrorCode::Conflict, detail).at("plan")
                })?;
                item.status = *status;
            }
        }
        Ok(())
    }

    /// Sets variables and takes some out.
    ///
    /// # Errors
    /// [`ErrorCode::TooLarge`] if there would be too many of them, or too many bytes.
    pub fn set_variables(&mut self, set: &BTreeMap<String, String>, remove: &BTreeSet<String>) -> Result<()> {
        self.variables.retain(|name, _| !remove.contains(name));
        self.variables.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
        check_variables(&self.variables)
    }

    /// Whether the agent has called tools for a while without a word to the user.
    pub fn is_silent(&self) -> bool {
        self.silent_steps >= SILENT_STEPS
    }
}
