//! Deletes a memory with its history and all that was made from it, and leaves tombstones.

use super::{Answers, Context, Step, add, chunks, facts, links, merged, update};
use crate::erasure::Erased;
use crate::event::Event;
use crate::keys;
use crate::keys::due::{Due, DueKind};
use crate::limits::{CASCADE_MAX, HISTORY_VERSIONS_MAX, TOMBSTONE_KEEP_US};
use crate::memory::{Counters, IdempotencyId, MemoryRow, TombstoneRow};
use crate::outcome::ItemStatus;
use crate::sabotage::{Fault, is};
use crate::space::SpaceKey;
use crate::state::State;

/// Pages of what was made from one memory that one command looks through: of a source whose id was used again
/// most may be another one's.
const CASCADE_LOOKS_MAX: usize = 16;

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    if_version: Option<u64>,
) -> Step<Answers> {
    let memory = update::current(context, space, id, if_version)?;
    chunks::refuse(&memory)?;
    remove(context, space, id, &memory, Rest::Due)?;
    Ok(vec![add::answer(id, memory.version, ItemStatus::Deleted, IdempotencyId::Requested)])
}

/// Where it is noted what a deletion has still to take out.
#[derive(Clone, Copy)]
pub(super) enum Rest<'a> {
    /// It is due at once.
    Due,
    /// The erasure of this id goes on with it, and counts it.
    Of(&'a str),
}

/// What was made from a memory that is gone, as far as it is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    /// The memory.
    source: String,
    /// The last memory that was recorded by then: later ones were made from another one of the same id.
    upto_seq: u64,
    /// Where to go on.
    after: String,
}

impl Left {
    fn of<S: State>(context: &Context<'_, S>, space: &SpaceKey, source: &str) -> Step<Self> {
        let upto_seq = context.rows.counters(space)?.last_seq;
        Ok(Self { source: source.to_owned(), upto_seq, after: String::new() })
    }

    /// Ids hold no `\0`.
    fn text(&self) -> String {
        format!("{}\0{}\0{}", self.source, self.upto_seq, self.after)
    }

    /// Reads [`Left::text`], or the id alone, which was written before state version 5.
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = text.splitn(3, '\0');
        let mut next = || parts.next().unwrap_or_default();
        let (source, upto_seq, after) = (next().to_owned(), next(), next());
        Self { source, upto_seq: upto_seq.parse().unwrap_or(u64::MAX), after: after.to_owned() }
    }
}

/// Takes every row of a memory out, and of those that were made from it, whoever asked for it.
pub(super) fn remove<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    rest: Rest<'_>,
) -> Step<Erased> {
    let mut erased = take(context, space, id, memory, rest)?;
    let left = Left::of(context, space, id)?;
    erased.add(cascade(context, space, left, rest)?);
    Ok(erased)
}

/// Takes out what was made from a memory that is gone, and what was made from that. Where that is more
/// than one command may take, the rest is noted.
pub(super) fn cascade<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    left: Left,
    rest: Rest<'_>,
) -> Step<Erased> {
    let (mut erased, mut open) = (Erased::default(), vec![left]);
    while let Some(mut left) = open.pop() {
        if !derived(context, space, &mut left, &mut open, &mut erased, rest)? {
            note(context, space, &left, rest)?;
        }
    }
    Ok(erased)
}

/// Takes out what was made from one memory, as much as the command may; what is to be looked at next goes to
/// `open`. Whether that was all.
fn derived<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    left: &mut Left,
    open: &mut Vec<Left>,
    erased: &mut Erased,
    rest: Rest<'_>,
) -> Step<bool> {
    let prefix = keys::derived::prefix(space, &left.source);
    for _ in 0..CASCADE_LOOKS_MAX {
        let after = (!left.after.is_empty()).then(|| keys::derived::key(space, &left.source, &left.after));
        let rows = context.rows.scan(&prefix, after.as_deref(), CASCADE_MAX)?;
        for (key, _) in &rows {
            if erased.memories >= CASCADE_MAX as u64 || context.rows.are_full() {
                return Ok(false);
            }
            let id = keys::derived::derived(&prefix, key).unwrap_or_default();
            left.after = id.to_owned();
            let memory = context.rows.memory(space, id)?;
            if memory.as_ref().is_some_and(|memory| memory.seq > left.upto_seq) {
                continue;
            }
            context.rows.delete(key)?;
            let Some(memory) = memory.filter(|memory| memory.derived_from.contains(&left.source)) else {
                continue;
            };
            let mut taken = take(context, space, id, &memory, rest)?;
            taken.derived = taken.memories;
            erased.add(taken);
            open.push(Left::of(context, space, id)?);
        }
        if rows.len() < CASCADE_MAX {
            return Ok(true);
        }
    }
    Ok(false)
}

fn note<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, left: &Left, rest: Rest<'_>) -> Step<()> {
    match rest {
        Rest::Due => {
            let due = due_of(space, context.now_us, left.text());
            context.rows.put_due(&due)?;
            // An erasure looks for it here.
            context.rows.put(note_key(&due), keys::derived::noted(due.at_us))?;
        }
        Rest::Of(erasure) => {
            let source = keys::derived::left_of_erasure(erasure);
            let key = keys::derived::key(space, &source, &left.text());
            context.rows.put(key, keys::derived::value())?;
        }
    }
    Ok(())
}

fn due_of(space: &SpaceKey, at_us: i64, id: String) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Derived, id }
}

/// Where it stands in the space what a deletion has still to take out.
fn note_key(due: &Due) -> Vec<u8> {
    keys::derived::key(&due.space, &keys::derived::left_of_deletions(), &due.id)
}

/// Forgets what a deletion has noted, as it is worked off.
pub(super) fn forget_note<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<()> {
    Ok(context.rows.delete(&note_key(due))?)
}

/// Goes on with what an erasure has noted, as far as the command may; and with what deletions have, since what it
/// selects may be what was made from a memory that one of them took out before.
pub(super) fn go_on<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, erasure: &str) -> Step<Erased> {
    let mut erased = Erased::default();
    let prefix = keys::derived::prefix(space, &keys::derived::left_of_erasure(erasure));
    for (key, _) in context.rows.scan(&prefix, None, CASCADE_MAX)? {
        if context.rows.are_full() {
            return Ok(erased);
        }
        context.rows.delete(&key)?;
        let left = Left::parse(keys::derived::derived(&prefix, &key).unwrap_or_default());
        erased.add(cascade(context, space, left, Rest::Of(erasure))?);
    }
    let prefix = keys::derived::prefix(space, &keys::derived::left_of_deletions());
    for (key, value) in context.rows.scan(&prefix, None, CASCADE_MAX)? {
        if context.rows.are_full() {
            return Ok(erased);
        }
        context.rows.delete(&key)?;
        let note = keys::derived::derived(&prefix, &key).unwrap_or_default();
        if let Some(at_us) = keys::derived::noted_at(&value) {
            context.rows.delete_due(&due_of(space, at_us, note.to_owned()))?;
        }
        erased.add(cascade(context, space, Left::parse(note), Rest::Of(erasure))?);
    }
    Ok(erased)
}

/// Whether an erasure, or a deletion, has noted anything that is still to be done.
pub(super) fn is_left<S: State>(context: &Context<'_, S>, space: &SpaceKey, erasure: &str) -> Step<bool> {
    for source in [keys::derived::left_of_erasure(erasure), keys::derived::left_of_deletions()] {
        if !context.rows.scan(&keys::derived::prefix(space, &source), None, 1)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes out of `due` what a row of the family says that a deletion has left to be done there.
pub(super) fn forget_due_of_note<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    key: &[u8],
    value: &[u8],
) -> Step<()> {
    let prefix = keys::derived::prefix(space, &keys::derived::left_of_deletions());
    if let (Some(note), Some(at_us)) = (keys::derived::derived(&prefix, key), keys::derived::noted_at(value))
    {
        context.rows.delete_due(&due_of(space, at_us, note.to_owned()))?;
    }
    Ok(())
}

/// Takes the rows of one memory out.
fn take<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    rest: Rest<'_>,
) -> Step<Erased> {
    let mut erased = chunks::remove(context, space, memory, rest)?;
    let members = facts::take_out(context, space, memory)?;
    links::forget(context, space, id, memory, &members)?;
    let row = context.rows.index_row(space, memory.seq)?;
    merged::leave(context, space, id, &row)?;
    context.rows.delete(&keys::memory::key(space, id))?;
    context.rows.delete(&keys::index_row::key(space, memory.seq))?;
    context.rows.release_text(space, memory.text_hash, id)?;
    for source in &memory.derived_from {
        context.rows.delete(&keys::derived::key(space, source, id))?;
    }
    if let Some(at_us) = row.expires_us {
        context.rows.delete_due(&add::expiry(space, id, at_us))?;
    }
    // One that lost a link while it was recorded still waits for a second look.
    context.rows.delete_due(&links::recheck(space, id, row.created_us))?;
    let versions = remove_history(context, space, id)?;

    let source_ids = memory.source.iter().flat_map(|source| source.uri.iter().chain(&source.message_ids));
    let tombstone = TombstoneRow {
        seq: memory.seq,
        version: memory.version,
        log_index: context.log_index,
        deleted_us: context.now_us,
        sources: source_ids.map(|source| keys::tombstone::source_hash(space, source)).collect(),
    };
    let mut counters = context.rows.counters(space)?;
    leave_tombstone(context, space, keys::tombstone::key(space, id), &tombstone, &mut counters)?;
    counters.memories = counters.memories.saturating_sub(1);
    counters.bytes = counters.bytes.saturating_sub(add::stored_bytes(&memory.content, &row.metadata));
    context.rows.write_counters(space, &counters)?;
    context.events.push(Event::Remove { space: space.clone(), seq: memory.seq });
    let facts = memory.statements.len() as u64;
    erased.add(Erased { memories: 1, versions, facts, ..Erased::default() });
    Ok(erased)
}

/// Counts the tombstone in `counters`, which the caller writes.
fn leave_tombstone<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    grave: Vec<u8>,
    tombstone: &TombstoneRow,
    counters: &mut Counters,
) -> Step<()> {
    let is_new = context.rows.read::<TombstoneRow>(&grave)?.is_none();
    if !is(Fault::NoTombstone) {
        context.rows.write(grave, tombstone)?;
    }
    counters.tombstones += u64::from(is_new);
    if counters.tombstone_due_us.is_none() {
        let at_us = context.now_us.saturating_add(TOMBSTONE_KEEP_US);
        counters.tombstone_due_us = Some(at_us);
        context.rows.put_due(&tombstones_due(space, at_us))?;
    }
    Ok(())
}

/// What stands beside memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    Session,
    Task,
    Block,
    Procedure,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Task => "task",
            Self::Block => "block",
            Self::Procedure => "procedure",
        }
    }
}

/// The key of the tombstone of such a thing: no memory has an id with a control character.
pub(super) fn grave(space: &SpaceKey, tier: Tier, id: &str) -> Vec<u8> {
    keys::tombstone::key(space, &format!("\u{1}{}\u{1}{id}", tier.name()))
}

/// The same of what nothing is known of here any more, by its hash alone: an erasure that named it shall not be what
/// the name is known by.
fn unnamed_grave(space: &SpaceKey, tier: Tier, id: &str) -> Vec<u8> {
    let hash = keys::tombstone::source_hash(space, id);
    keys::tombstone::key(space, &format!("\u{1}{}\u{1}\u{1}{hash:016x}", tier.name()))
}

/// Where tombstones of such a thing may be.
pub(super) fn graves(space: &SpaceKey, tier: Tier, id: &str) -> [Vec<u8>; 2] {
    [grave(space, tier, id), unnamed_grave(space, tier, id)]
}

/// Leaves a tombstone of such a thing, for imports: callers may make it anew.
pub(super) fn bury<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    tier: Tier,
    id: &str,
    version: u64,
) -> Step<()> {
    bury_as_of(context, space, tier, id, version, context.now_us)
}

/// As [`bury`], of what was there at this time.
pub(super) fn bury_as_of<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    tier: Tier,
    id: &str,
    version: u64,
    deleted_us: i64,
) -> Step<()> {
    leave_grave(context, space, grave(space, tier, id), version, deleted_us)
}

/// Leaves a tombstone of such a thing, of what was there at this time, without its name.
pub(super) fn bury_unnamed<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    tier: Tier,
    id: &str,
    deleted_us: i64,
) -> Step<()> {
    leave_grave(context, space, unnamed_grave(space, tier, id), 0, deleted_us)
}

fn leave_grave<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    grave: Vec<u8>,
    version: u64,
    deleted_us: i64,
) -> Step<()> {
    let log_index = context.log_index;
    let tombstone = TombstoneRow { seq: 0, version, log_index, deleted_us, sources: Vec::new() };
    let mut counters = context.rows.counters(space)?;
    leave_tombstone(context, space, grave, &tombstone, &mut counters)?;
    Ok(context.rows.write_counters(space, &counters)?)
}

pub(super) fn tombstones_due(space: &SpaceKey, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Tombstone, id: String::new() }
}

/// Their number is bounded by [`HISTORY_VERSIONS_MAX`].
pub(super) fn remove_history<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
) -> Step<u64> {
    let prefix = keys::history::prefix(space, id);
    let most = usize::try_from(HISTORY_VERSIONS_MAX).unwrap_or(usize::MAX).saturating_add(1);
    let rows = context.rows.scan(&prefix, None, most)?;
    for (key, _) in &rows {
        context.rows.delete(key)?;
    }
    Ok(rows.len() as u64)
}
