//! The state machine: what a committed command does to the state of a shard. One file per command.
//!
//! Invariants, each held by a test:
//! - the same commands at the same positions on the same state give the same bytes and outcomes;
//! - a command changes all of its rows or none;
//! - log time never stands still: now = max(last applied time + 1 us, the leader's stamp);
//! - only replicated rows are read and written.

mod add;
mod blocks;
mod chunks;
mod claims;
mod delete;
mod erase;
mod facts;
mod feedback;
mod graph;
mod idempotency;
mod import;
mod links;
mod merged;
mod meta;
mod procedures;
mod rows;
mod sessions;
mod sweep;
mod tasks;
mod tenant;
#[cfg(test)]
mod tests;
mod tiers;
mod tombstones;
mod update;
mod upkeep;

use crate::codec::CodecError;
use crate::command::{Command, SpaceCommand, Write};
use crate::erasure::EraseStep;
use crate::event::Event;
use crate::memory::IdempotencyItem;
use crate::outcome::{ItemOutcome, Outcome};
use crate::state::{Overlay, Reader, State, StateError};
use crate::{Error, ErrorCode, keys};
use rows::Rows;

pub use claims::CLAIMED_FIELD;
pub use merged::may_merge;

/// The version of the state machine: what commands there are, and what applying each of them means.
/// Raised with every command that is added and every meaning that changes, so that replicas can tell
/// each other what they know. 1: the first one that knows [`Command::HashPoint`]. Before it there was
/// no way to tell; such a replica counts as 0. 2: the first one that knows the tiers beside memories.
/// 3: merges and splits of entities, rules of tenants, second looks for possible conflicts
/// ([`Command::known_since`]). 4: sessions, chunks of memories, erasures and imports. 5: shared collections;
/// deletions end with a number of rows and go on in another command, memories stand on all turns that say
/// the same, and an erasure of a session leaves what was said since. 6: partitions of deleted collections close;
/// sweeps look past what waits for the leader, and read tombstones in bounded steps; imports
/// bring what stands beside memories, and where that is deleted tombstones remain; chunks are found by their memory
/// alone, and have no rows of their own for that. 7: tenants are erased; erasures take over what deletions have left
/// to be done, and sessions that have aged out leave a tombstone when they are erased; memories that say what an
/// older one says are merged into it by a job, for which new memories wake it; what only happened hides no rule. 8: a
/// change of a memory is seen by those that it may contradict; the partitions of a collection agree on where a new memory
/// of an id goes, and on what a repeated request concerns.
pub const STATE_VERSION: u32 = 8;

/// Where in the log a command stands, and when its leader proposed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Index of the entry in the log of the group.
    pub log_index: u64,
    /// The leader's clock at the proposal, in microseconds since 1970.
    pub stamp_us: i64,
}

/// What applying a command gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The answer for the writer.
    pub outcome: Outcome,
    /// The changes for whoever follows the state, in order.
    pub events: Vec<Event>,
}

/// The state cannot be trusted, or the command is of a later version: the replica must stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A row cannot be read from the store.
    #[error(transparent)]
    State(#[from] StateError),
    /// A row or a command cannot be decoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Two rows that belong together disagree.
    #[error("the state is inconsistent: {0}")]
    Inconsistent(String),
}

/// Why a command ends without an answer of its own: a refusal for the caller, or a fault.
enum Stop {
    Refused(Error),
    Fault(ApplyError),
}

impl<E: Into<ApplyError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The field of the error by which a partition refuses writes whose collection is deleted: who was led to it
/// has an old row of the collection.
pub const CLOSED_FIELD: &str = "collection";

type Step<T> = std::result::Result<T, Stop>;

/// What a command sees: the rows, the time, and where it puts its events.
struct Context<'a, S> {
    rows: Rows<'a, S>,
    now_us: i64,
    log_index: u64,
    events: Vec<Event>,
}

/// Applies one committed command.
///
/// # Errors
/// [`ApplyError`] if the state cannot be read; nothing was written then, and the replica must stop.
pub fn apply(
    state: &mut Overlay<impl Reader>,
    position: Position,
    command: &Command,
) -> Result<Applied, ApplyError> {
    if matches!(command, Command::HashPoint) {
        // Not even log time moves: a point that changed what it measures would keep idle groups busy.
        return Ok(Applied { outcome: Outcome::Done, events: Vec::new() });
    }
    let now_us = tick(state, position.stamp_us)?;
    let mut savepoint = Overlay::new(&*state);
    let mut context = Context {
        rows: Rows::new(&mut savepoint),
        now_us,
        log_index: position.log_index,
        events: Vec::new(),
    };
    let end = match command {
        Command::Space(command) => space(&mut context, command),
        Command::Sweep { limit } => sweep::apply(&mut context, *limit),
        Command::Meta(command) => meta::apply(&mut context, command),
        Command::Tenant(step) => tenant::apply(&mut context, step),
        Command::HashPoint => Ok(Outcome::Done),
    };
    let events = context.events;
    match end {
        Ok(outcome) => {
            let writes = savepoint.into_writes();
            state.absorb(writes);
            Ok(Applied { outcome, events })
        }
        Err(Stop::Refused(error)) => Ok(Applied { outcome: Outcome::Failed(error), events: Vec::new() }),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// The log time of the last applied command, `None` before the first.
///
/// # Errors
/// [`ApplyError`] if the row cannot be read.
pub fn last_applied_us(state: &(impl Reader + ?Sized)) -> Result<Option<i64>, ApplyError> {
    let Some(value) = state.get(&keys::clock())? else { return Ok(None) };
    match <[u8; 8]>::try_from(value.get(1..).unwrap_or_default()) {
        Ok(bytes) if value[0] == crate::codec::Format::V1 as u8 => Ok(Some(i64::from_be_bytes(bytes))),
        _ => Err(ApplyError::Inconsistent("the row of the clock is damaged".into())),
    }
}

/// Advances log time, which a clock that goes backwards cannot hold up.
fn tick(state: &mut impl State, stamp_us: i64) -> Result<i64, ApplyError> {
    let now_us = match last_applied_us(state)? {
        Some(last) => stamp_us.max(last.saturating_add(1)),
        None => stamp_us,
    };
    let mut value = vec![crate::codec::Format::V1 as u8];
    value.extend_from_slice(&now_us.to_be_bytes());
    state.put(keys::clock(), value)?;
    Ok(now_us)
}

/// The answers of a write with what its idempotency row keeps of them.
type Answers = Vec<(ItemOutcome, IdempotencyItem)>;

fn space<S: State>(context: &mut Context<'_, S>, command: &SpaceCommand) -> Step<Outcome> {
    // Before anything else: what comes late is not even answered as it was the first time.
    if tenant::is_erased(context, command.space.tenant())? {
        return Err(tenant::gone().into());
    }
    if let Some(identity) = &command.idempotency
        && let Some(outcome) = idempotency::replay(context, command, identity)?
    {
        return Ok(outcome);
    }
    let space = &command.space;
    let (is_step, is_closing) = match &command.write {
        Write::Erase(step) => (!step.is_beginning(), matches!(step, EraseStep::Close { .. })),
        _ => (false, false),
    };
    // Only partitions of collections are closed.
    if !is_step
        && !is_closing
        && space.collection().is_some()
        && context.rows.exists(&keys::counters::closed(space))?
    {
        let detail =
            "this collection was deleted; if there is another one of its name by now, repeat the request";
        return Err(Error::new(ErrorCode::Unavailable, detail).at(CLOSED_FIELD).into());
    }
    if !is_step && context.rows.counters(space)?.erasing.is_some() {
        let detail =
            "this space is being erased, and takes no writes until its rows are gone; retry in a moment";
        return Err(Error::new(ErrorCode::Unavailable, detail).into());
    }
    let answers = match &command.write {
        Write::Add(add) => add::apply(context, space, add)?,
        Write::Update(update) => update::apply(context, space, update)?,
        Write::Delete { id, if_version } => delete::apply(context, space, id, *if_version)?,
        Write::Feedback { items } => feedback::apply(context, space, items)?,
        Write::Retract { id, ordinal } => links::retract(context, space, id, *ordinal)?,
        Write::Resolve { keep, retire } => links::resolve(context, space, keep, retire)?,
        Write::Block(write) => blocks::apply(context, space, write)?,
        Write::Task(write) => tasks::apply(context, space, write)?,
        Write::Procedure(write) => procedures::apply(context, space, write)?,
        Write::Relink { id, due_us, conflicts } => links::relink(context, space, id, *due_us, conflicts)?,
        Write::MergeEntities { into, names } => graph::merge(context, space, into, names)?,
        Write::SplitEntities { from, names } => graph::split(context, space, from, names)?,
        Write::Turns(append) => sessions::append(context, space, append)?,
        Write::Dialogue(change) => sessions::dialogue(context, space, change)?,
        Write::EndSession { session, if_version } => sessions::end(context, space, session, *if_version)?,
        Write::DeleteSession { session, if_version } => {
            sessions::delete(context, space, session, *if_version)?
        }
        Write::Digest(digest) => sessions::digest(context, space, digest)?,
        Write::Erase(step) => erase::apply(context, space, step)?,
        Write::Import(items) => import::apply(context, space, items)?,
        Write::Upkeep(upkeep) => upkeep::apply(context, space, upkeep)?,
        Write::Claim(claims) => claims::apply(context, space, claims)?,
        Write::Keep { numbers } => claims::keep(numbers),
    };
    let (items, kept) = answers.into_iter().unzip();
    if let Some(identity) = &command.idempotency {
        idempotency::record(context, space, identity, kept)?;
    }
    Ok(Outcome::Items { items, log_index: context.log_index, replayed: false })
}
