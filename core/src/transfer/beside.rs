//! What a space holds beside memories, as items of an export: sessions, tasks, blocks and procedures with their
//! parts. What follows from the parts (the window of a session, the numbers of steps, which versions are kept) is not
//! carried over but grows again as they come, so that whatever part of an export arrives, no row speaks of one that is
//! not there.

use super::{Page, ReadError, check_version, read};
use crate::codec::Stored;
use crate::command::{ChangeDialogue, Digest, DigestResult};
use crate::keys::{self, Family};
use crate::limits;
use crate::session::{Dialogue, SessionRow, Summary, TurnRow};
use crate::space::SpaceKey;
use crate::state::Reader;
use crate::tiers::block::{BlockChange, BlockRow, BlockWrite};
use crate::tiers::procedure::{ProcedureChange, ProcedureRow, ProcedureWrite, VersionRow};
use crate::tiers::task::{self, PlanItem, StepRow, TaskChange, TaskRow, TaskWrite};
use crate::tiers::template::Template;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A thing beside memories, or a part of one, behind the thing. Stored in the log with an import: append only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Beside {
    /// A session without its turns.
    Session(Session),
    /// A turn of a session.
    Turn(Turn),
    /// A task without its steps.
    Task(Task),
    /// A step of a task.
    Step(Step),
    /// A core block.
    Block(Block),
    /// An earlier version of a core block.
    BlockVersion(Block),
    /// A procedure without its versions.
    Procedure(Procedure),
    /// A version of a procedure.
    ProcedureVersion(ProcedureVersion),
}

/// See [`Beside::Session`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Which.
    pub id: String,
    /// As [`SessionRow::created_us`].
    pub created_us: i64,
    /// As [`SessionRow::updated_us`].
    pub updated_us: i64,
    /// As [`SessionRow::ended_us`].
    pub ended_us: Option<i64>,
    /// As [`SessionRow::version`].
    pub version: u64,
    /// Number of its first turn: those before it were erased.
    pub first_turn: u64,
    /// As [`SessionRow::dialogue`].
    pub dialogue: Dialogue,
    /// Its summary; that of no turn where there is none.
    pub summary: Summary,
    /// As [`SessionRow::promoted`].
    pub promoted: u64,
    /// As [`SessionRow::condensed`].
    pub condensed: u64,
}

/// See [`Beside::Turn`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Of which session.
    pub session: String,
    /// When that was created: another one of its id has none of these turns.
    pub created_us: i64,
    /// Its number.
    pub number: u64,
    /// As it is stored.
    pub turn: TurnRow,
}

/// See [`Beside::Task`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Which.
    pub id: String,
    /// As [`TaskRow::version`].
    pub version: u64,
    /// As [`TaskRow::goal`].
    pub goal: String,
    /// As [`TaskRow::session`].
    pub session: Option<String>,
    /// As [`TaskRow::agent`].
    pub agent: Option<String>,
    /// As [`TaskRow::plan`].
    pub plan: Vec<PlanItem>,
    /// As [`TaskRow::variables`].
    pub variables: BTreeMap<String, String>,
    /// As [`TaskRow::ttl_s`].
    pub ttl_s: u32,
    /// As [`TaskRow::expires_us`]; where that is over, its time begins anew.
    pub expires_us: i64,
    /// As [`TaskRow::created_us`].
    pub created_us: i64,
    /// As [`TaskRow::updated_us`].
    pub updated_us: i64,
    /// As [`TaskRow::first_step`].
    pub first_step: u64,
    /// As [`TaskRow::silent_steps`].
    pub silent_steps: u32,
}

/// See [`Beside::Step`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Of which task.
    pub task: String,
    /// When that was created.
    pub created_us: i64,
    /// Its number.
    pub number: u64,
    /// What was done.
    pub step: task::Step,
    /// As [`StepRow::at_us`].
    pub at_us: i64,
}

/// See [`Beside::Block`] and [`Beside::BlockVersion`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Which.
    pub label: String,
    /// As it is stored.
    pub block: BlockRow,
}

/// See [`Beside::Procedure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Procedure {
    /// Which.
    pub name: String,
    /// As [`ProcedureRow::last_version`].
    pub last_version: u64,
    /// As [`ProcedureRow::previous`].
    pub previous: Vec<u64>,
    /// As [`ProcedureRow::created_us`].
    pub created_us: i64,
    /// As [`ProcedureRow::updated_us`].
    pub updated_us: i64,
}

/// See [`Beside::ProcedureVersion`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcedureVersion {
    /// Of which procedure.
    pub procedure: String,
    /// When that was created.
    pub created_us: i64,
    /// As it is stored.
    pub version: VersionRow,
}

impl Beside {
    /// The name of its kind of line.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Turn(_) => "turn",
            Self::Task(_) => "task",
            Self::Step(_) => "step",
            Self::Block(_) => "block",
            Self::BlockVersion(_) => "block_version",
            Self::Procedure(_) => "procedure",
            Self::ProcedureVersion(_) => "procedure_version",
        }
    }

    /// The id of the thing that it is or belongs to.
    pub fn id(&self) -> &str {
        match self {
            Self::Session(session) => &session.id,
            Self::Turn(turn) => &turn.session,
            Self::Task(task) => &task.id,
            Self::Step(step) => &step.task,
            Self::Block(block) | Self::BlockVersion(block) => &block.label,
            Self::Procedure(procedure) => &procedure.name,
            Self::ProcedureVersion(version) => &version.procedure,
        }
    }

    /// When the thing was created that it is or belongs to.
    pub const fn created_us(&self) -> i64 {
        match self {
            Self::Session(session) => session.created_us,
            Self::Turn(turn) => turn.created_us,
            Self::Task(task) => task.created_us,
            Self::Step(step) => step.created_us,
            Self::Block(block) | Self::BlockVersion(block) => block.block.created_us,
            Self::Procedure(procedure) => procedure.created_us,
            Self::ProcedureVersion(version) => version.created_us,
        }
    }

    /// The latest time at which something of it was recorded.
    pub fn last_us(&self) -> i64 {
        let last = match self {
            Self::Session(session) => session.updated_us.max(session.ended_us.unwrap_or(i64::MIN)),
            Self::Turn(turn) => turn.turn.recorded_us,
            Self::Task(task) => task.updated_us,
            Self::Step(step) => step.at_us,
            Self::Block(block) | Self::BlockVersion(block) => block.block.updated_us,
            Self::Procedure(procedure) => procedure.updated_us,
            Self::ProcedureVersion(version) => {
                let VersionRow { created_us, verified_us, activated_us, .. } = &version.version;
                let times = [Some(*created_us), *verified_us, *activated_us];
                times.into_iter().flatten().max().unwrap_or(i64::MIN)
            }
        };
        last.max(self.created_us())
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Session(session) => session.check(),
            Self::Turn(turn) => {
                limits::check_id("session", &turn.session)?;
                check_number("number", turn.number, limits::SESSION_TURNS_MAX)?;
                turn.turn.check()
            }
            Self::Task(task) => task.check(),
            Self::Step(step) => {
                check_number("number", step.number, limits::VERSION_MAX)?;
                let (steps, plan) = (vec![step.step.clone()], Vec::new());
                let change = TaskChange::Steps { steps, plan };
                TaskWrite { id: step.task.clone(), if_version: None, change }.check()
            }
            Self::Block(block) | Self::BlockVersion(block) => block.check(),
            Self::Procedure(procedure) => {
                limits::check_id("name", &procedure.name)?;
                check_version(procedure.last_version)?;
                if procedure.previous.len() > limits::PROCEDURE_PREVIOUS_MAX {
                    return Err(Error::too_large(
                        "previous",
                        "more versions were active before than are kept",
                    ));
                }
                Ok(())
            }
            Self::ProcedureVersion(version) => version.check(),
        }
    }
}

fn check_number(field: &str, number: u64, max: u64) -> Result<()> {
    match number {
        number if (1..=max).contains(&number) => Ok(()),
        number => Err(Error::invalid(field, format!("{field} is {number}; give 1 to {max}"))),
    }
}

impl Session {
    fn of(id: &str, row: SessionRow, first_turn: u64, summary: Summary) -> Self {
        Self {
            id: id.to_owned(),
            created_us: row.created_us,
            updated_us: row.updated_us,
            ended_us: row.ended_us,
            version: row.version,
            first_turn,
            dialogue: row.dialogue,
            summary,
            promoted: row.promoted,
            condensed: row.condensed,
        }
    }

    fn check(&self) -> Result<()> {
        check_version(self.version)?;
        check_number("first_turn", self.first_turn, limits::SESSION_TURNS_MAX + 1)?;
        let marks = [self.summary.through, self.promoted, self.condensed];
        if marks.into_iter().any(|mark| mark > limits::SESSION_TURNS_MAX) {
            return Err(Error::invalid("condensed", "a session has not so many turns"));
        }
        // What was erased of a session is behind it for every job, and so for its summary.
        if marks.into_iter().any(|mark| mark < self.first_turn - 1) {
            let detail = "turns before first_turn are neither there nor dealt with";
            return Err(Error::invalid("first_turn", detail));
        }
        let Dialogue { phase, intent, slots, confirmed, user_act, system_act } = self.dialogue.clone();
        if slots.len() > limits::SLOTS_MAX {
            return Err(Error::too_large("slots", format!("at most {} slots", limits::SLOTS_MAX)));
        }
        let change = ChangeDialogue {
            session: self.id.clone(),
            if_version: None,
            phase: Some(phase),
            intent: Some(intent),
            slots: slots.into_iter().map(|(name, value)| (name, Some(value))).collect(),
            confirmed: Some(confirmed),
            user_act: Some(user_act),
            system_act: Some(system_act),
        };
        change.check()?;
        let lines = self.summary.lines.clone();
        lines.iter().try_for_each(|line| limits::check_id("summary.role", &line.role))?;
        let result = DigestResult::Summary(lines);
        let (session, created_us, through) = (self.id.clone(), self.created_us, self.summary.through);
        Digest { session, created_us, base: 0, through, result }.check()
    }
}

impl Task {
    fn of(id: &str, row: TaskRow) -> Self {
        Self {
            id: id.to_owned(),
            version: row.version,
            goal: row.goal,
            session: row.session,
            agent: row.agent,
            plan: row.plan,
            variables: row.variables,
            ttl_s: row.ttl_s,
            expires_us: row.expires_us,
            created_us: row.created_us,
            updated_us: row.updated_us,
            first_step: row.first_step,
            silent_steps: row.silent_steps,
        }
    }

    /// The row, before its steps come.
    pub fn row(&self) -> TaskRow {
        let task = self.clone();
        TaskRow {
            version: task.version,
            goal: task.goal,
            session: task.session,
            agent: task.agent,
            plan: task.plan,
            variables: task.variables,
            ttl_s: task.ttl_s,
            expires_us: task.expires_us,
            created_us: task.created_us,
            updated_us: task.updated_us,
            first_step: task.first_step,
            next_step: task.first_step,
            step_bytes: 0,
            silent_steps: task.silent_steps,
        }
    }

    fn check(&self) -> Result<()> {
        check_version(self.version)?;
        check_number("first_step", self.first_step, limits::VERSION_MAX)?;
        let change = TaskChange::Put {
            goal: Some(self.goal.clone()),
            session: self.session.clone(),
            agent: self.agent.clone(),
            plan: Some(self.plan.clone()),
            ttl_s: Some(self.ttl_s),
        };
        TaskWrite { id: self.id.clone(), if_version: None, change }.check()?;
        if !self.variables.is_empty() {
            let change = TaskChange::Variables { set: self.variables.clone(), remove: BTreeSet::default() };
            TaskWrite { id: self.id.clone(), if_version: None, change }.check()?;
            TaskRow::default().set_variables(&self.variables, &BTreeSet::default())?;
        }
        Ok(())
    }
}

impl Block {
    fn check(&self) -> Result<()> {
        check_version(self.block.version)?;
        let BlockRow { value, description, limit_chars, read_only, .. } = &self.block;
        let change = BlockChange::Put {
            value: Some(value.clone()),
            description: Some(description.clone()),
            limit_chars: Some(*limit_chars),
            read_only: Some(*read_only),
        };
        BlockWrite { label: self.label.clone(), if_version: None, by_admin: false, change }.check()?;
        self.block.check_size()
    }
}

impl ProcedureVersion {
    fn check(&self) -> Result<()> {
        let VersionRow { version, body, description, placeholders, .. } = &self.version;
        check_version(*version)?;
        let change = ProcedureChange::Put {
            body: body.clone(),
            description: description.clone(),
            placeholders: placeholders.clone(),
        };
        ProcedureWrite { name: self.procedure.clone(), if_version: None, change }.check()?;
        // What cannot be read could not be rendered.
        body.texts().into_iter().try_for_each(|text| Template::read(text).map(drop))
    }
}

/// A range of rows that an export reads one after the other. On the wire: the numbers never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Sessions = 1,
    Turns = 2,
    Tasks = 3,
    Steps = 4,
    Blocks = 5,
    BlockVersions = 6,
    Procedures = 7,
    ProcedureVersions = 8,
}

impl Part {
    pub(super) const ALL: [Self; 8] = [
        Self::Sessions,
        Self::Turns,
        Self::Tasks,
        Self::Steps,
        Self::Blocks,
        Self::BlockVersions,
        Self::Procedures,
        Self::ProcedureVersions,
    ];

    pub(super) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|part| *part as u32 == number)
    }

    /// The part behind it.
    pub(super) fn next(self) -> Option<Self> {
        Self::from_number(self as u32 + 1)
    }

    fn prefix(self, space: &SpaceKey) -> Vec<u8> {
        match self {
            Self::Sessions => keys::family_prefix(space, Family::Session),
            Self::Turns => keys::family_prefix(space, Family::Turn),
            Self::Tasks => keys::task::prefix(space),
            Self::Steps => keys::task::steps(space),
            Self::Blocks => keys::block::prefix(space),
            Self::BlockVersions => keys::block::versions(space),
            Self::Procedures => keys::procedure::prefix(space),
            Self::ProcedureVersions => keys::procedure::versions(space),
        }
    }
}

/// Rows that are read at once: a turn may have 128 KiB.
const STEP: usize = 8;

/// Where an export is among what stands beside memories.
pub(super) struct At {
    pub(super) part: Part,
    /// The rest of the last key that was looked at.
    pub(super) after: Vec<u8>,
    /// What was created later is left out, so that nothing comes without what it belongs to.
    pub(super) until_us: i64,
}

/// Reads on, until the page holds about `bytes_max`. Where to go on; `None` at the end.
pub(super) fn read_on(
    state: &dyn Reader,
    space: &SpaceKey,
    mut at: At,
    page: &mut Page,
    bytes: &mut usize,
    bytes_max: usize,
) -> std::result::Result<Option<At>, ReadError> {
    let mut parents = Parents::default();
    loop {
        let prefix = at.part.prefix(space);
        let after = [prefix.as_slice(), &at.after].concat();
        let rows = state.scan(&prefix, (!at.after.is_empty()).then_some(after.as_slice()), STEP)?;
        let at_end = rows.len() < STEP;
        for (key, value) in rows {
            let rest = key.get(prefix.len()..).unwrap_or_default();
            *bytes += value.len() + 64;
            if let Some(item) = parents.item(state, space, at.part, rest, &value, at.until_us)? {
                page.items.push(super::Item::Beside(Box::new(item)));
            }
            at.after = rest.to_vec();
            if *bytes >= bytes_max {
                return Ok(Some(at));
            }
        }
        if at_end {
            let Some(part) = at.part.next() else { return Ok(None) };
            at = At { part, after: Vec::new(), ..at };
        }
    }
}

/// The thing whose parts are being read: when it was created, or that it is not told.
#[derive(Default)]
struct Parents {
    last: Option<(String, Option<i64>)>,
}

impl Parents {
    /// The item of a row; `None` for one that is not told.
    fn item(
        &mut self,
        state: &dyn Reader,
        space: &SpaceKey,
        part: Part,
        rest: &[u8],
        value: &[u8],
        until_us: i64,
    ) -> std::result::Result<Option<Beside>, ReadError> {
        let (id, number) = parse(part, rest).ok_or(ReadError::Key)?;
        let item = match part {
            Part::Sessions => session(state, space, id, SessionRow::decode(value)?)?.map(Beside::Session),
            Part::Tasks => Some(Beside::Task(Task::of(id, TaskRow::decode(value)?))),
            Part::Blocks => {
                let (label, block) = (id.to_owned(), BlockRow::decode(value)?);
                Some(Beside::Block(Block { label, block }))
            }
            Part::Procedures => {
                let ProcedureRow { last_version, previous, created_us, updated_us, .. } =
                    ProcedureRow::decode(value)?;
                let name = id.to_owned();
                Some(Beside::Procedure(Procedure { name, last_version, previous, created_us, updated_us }))
            }
            Part::Turns | Part::Steps | Part::BlockVersions | Part::ProcedureVersions => {
                let Some(created_us) = self.created_us(state, space, part, id)? else { return Ok(None) };
                let of = id.to_owned();
                Some(match part {
                    Part::Turns => {
                        Beside::Turn(Turn { session: of, created_us, number, turn: TurnRow::decode(value)? })
                    }
                    Part::Steps => {
                        let StepRow { step, at_us } = StepRow::decode(value)?;
                        Beside::Step(Step { task: of, created_us, number, step, at_us })
                    }
                    Part::BlockVersions => {
                        Beside::BlockVersion(Block { label: of, block: BlockRow::decode(value)? })
                    }
                    _ => {
                        let version = VersionRow::decode(value)?;
                        Beside::ProcedureVersion(ProcedureVersion { procedure: of, created_us, version })
                    }
                })
            }
        };
        Ok(item.filter(|item| item.created_us() <= until_us))
    }

    fn created_us(
        &mut self,
        state: &dyn Reader,
        space: &SpaceKey,
        part: Part,
        id: &str,
    ) -> std::result::Result<Option<i64>, ReadError> {
        if let Some((last, created_us)) = &self.last
            && last == id
        {
            return Ok(*created_us);
        }
        let created_us = match part {
            Part::Turns => read::<SessionRow>(state, &keys::session::key(space, id))?
                .filter(SessionRow::is_there)
                .map(|row| row.created_us),
            Part::Steps => read::<TaskRow>(state, &keys::task::key(space, id))?.map(|row| row.created_us),
            Part::BlockVersions => {
                read::<BlockRow>(state, &keys::block::key(space, id))?.map(|row| row.created_us)
            }
            _ => read::<ProcedureRow>(state, &keys::procedure::key(space, id))?.map(|row| row.created_us),
        };
        self.last = Some((id.to_owned(), created_us));
        Ok(created_us)
    }
}

/// The id, and for parts the number, that the rest of a key names.
fn parse(part: Part, rest: &[u8]) -> Option<(&str, u64)> {
    match part {
        Part::Sessions | Part::Tasks | Part::Blocks | Part::Procedures => {
            Some((std::str::from_utf8(rest).ok()?, 0))
        }
        Part::Turns | Part::Steps | Part::BlockVersions | Part::ProcedureVersions => {
            let (id, number) = rest.split_last_chunk::<8>()?;
            let id = id.strip_suffix(&[0])?;
            Some((std::str::from_utf8(id).ok()?, u64::from_be_bytes(*number)))
        }
    }
}

/// A session with its summary; `None` for one that is being deleted.
fn session(
    state: &dyn Reader,
    space: &SpaceKey,
    id: &str,
    row: SessionRow,
) -> std::result::Result<Option<Session>, ReadError> {
    if !row.is_there() {
        return Ok(None);
    }
    let first = state.scan(&keys::turn::prefix(space, id), None, 1)?;
    let first = first.first().and_then(|(key, _)| keys::turn::number(key)).unwrap_or(row.turns + 1);
    let summary: Summary = read(state, &keys::summary::key(space, id))?.unwrap_or_default();
    Ok(Some(Session::of(id, row, first, summary)))
}
