//! What an export holds and an import brings: memories with all that belongs to them, and their earlier
//! versions.
//!
//! What follows from other rows (the text hash, terms, links within a group of facts, counters) is not
//! carried over but made again, so that an import can bring nothing that contradicts itself.
//!
//! [`FAMILIES`] says of every family of rows what an export does with it. A test holds it complete.

pub mod beside;

use crate::apply::last_applied_us;
use crate::codec::{CodecError, Stored, stored};
use crate::command::{NewMemory, check_statement};
use crate::keys::{self, Family};
use crate::limits;
use crate::memory::{FactRow, HistoryRow, IndexRow, MemoryRow, ModelTag, SpaceRow, Status};
use crate::space::SpaceKey;
use crate::state::{Reader, StateError};
use crate::upkeep::MergedRow;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What an export does with the rows of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exported {
    /// They are lines of this kind.
    Line(&'static str),
    /// They are part of the lines of this kind, or are made again from them.
    With(&'static str),
    /// They stay: the reason.
    Not(&'static str),
}

/// There are no such rows yet. An export that meets one fails.
const NO_ROWS: &str = "there are no such rows yet";
/// An export leaves them out and says so.
pub const NOT_YET: &str = "they are not exported yet";

/// What an export does with each family.
pub const FAMILIES: [(Family, Exported); Family::ALL.len()] = [
    (Family::Space, Exported::With("memory")),
    (Family::Counters, Exported::With("memory")),
    (Family::Memory, Exported::Line("memory")),
    (Family::IndexRow, Exported::With("memory")),
    (Family::TextHash, Exported::With("memory")),
    (Family::History, Exported::Line("version")),
    (Family::Derived, Exported::With("memory")),
    (Family::Merged, Exported::With("memory")),
    (Family::Upkeep, Exported::Not("jobs look at what an import brings")),
    (Family::Fact, Exported::With("memory")),
    (Family::Entity, Exported::Not(NOT_YET)),
    (Family::Edge, Exported::With("memory")),
    (Family::Session, Exported::Line("session")),
    (Family::Turn, Exported::Line("turn")),
    (Family::Task, Exported::Line("task")),
    (Family::Block, Exported::Line("block")),
    (Family::Procedure, Exported::Line("procedure")),
    (Family::Summary, Exported::With("session")),
    (Family::SessionMemory, Exported::With("memory")),
    (Family::Tombstone, Exported::Not("what is deleted here may live elsewhere")),
    (Family::Erasure, Exported::Not("a receipt speaks of this cluster alone")),
    (Family::Idempotency, Exported::Not("it answers requests to this cluster alone")),
    (Family::Claim, Exported::Not("it holds for writes that are under way here")),
    (Family::Change, Exported::Not(NO_ROWS)),
];

/// One item of an export. Stored in the log with an import: append only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Item {
    /// A memory.
    Memory(Box<Memory>),
    /// An earlier version of a memory, behind that memory.
    Version(Box<Version>),
    /// The links of a memory, behind all memories: what follows from groups of facts is known by then.
    Links(Box<Links>),
    /// What stands beside memories, behind them.
    Beside(Box<beside::Beside>),
}

/// A memory as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Text, statements and all columns.
    pub memory: NewMemory,
    /// The model of its vector, if it has one.
    pub model: Option<ModelTag>,
    /// As [`MemoryRow::version`].
    pub version: u64,
    /// As [`MemoryRow::updated_us`].
    pub updated_us: i64,
    /// Whether its text is found by it: of several memories with one text one has that.
    pub holds_text: bool,
    /// How each of its statements stands; `None` for one that left its full group.
    pub standing: Vec<Option<Standing>>,
}

/// What was said and done to one statement; the rest of its row follows from its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// As [`FactRow::from_us`].
    pub from_us: i64,
    /// As [`FactRow::recorded_us`].
    pub recorded_us: i64,
    /// As [`FactRow::retracted_us`].
    pub retracted_us: Option<i64>,
    /// As [`FactRow::retracted_by`].
    pub retracted_by: Option<String>,
}

/// An earlier version of a memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Which memory.
    pub id: String,
    /// The version; its `seq` is that of the memory, whatever stands here.
    pub row: HistoryRow,
}

/// The links of a memory to others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// Which memory.
    pub id: String,
    /// When it was recorded: one that took its id since has none of these links.
    pub created_us: i64,
    /// As [`MemoryRow::supersedes`].
    pub supersedes: Vec<String>,
    /// As [`MemoryRow::superseded_by`].
    pub superseded_by: Option<String>,
    /// As [`MemoryRow::possible_conflicts`].
    pub possible_conflicts: Vec<String>,
}

stored!(Item);

impl Item {
    /// The id of the memory that it is about.
    pub fn id(&self) -> &str {
        match self {
            Self::Memory(memory) => &memory.memory.index.id,
            Self::Version(version) => &version.id,
            Self::Links(links) => &links.id,
            Self::Beside(beside) => beside.id(),
        }
    }

    /// When what it brings was recorded.
    pub fn created_us(&self) -> i64 {
        match self {
            Self::Memory(memory) => memory.memory.index.created_us,
            Self::Version(version) => version.row.index.created_us,
            Self::Links(links) => links.created_us,
            Self::Beside(beside) => beside.created_us(),
        }
    }

    /// Checks an item before it is proposed.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] or [`crate::ErrorCode::TooLarge`], naming the field.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Memory(item) => item.check(),
            Self::Version(version) => version.check(),
            Self::Links(links) => links.check(),
            Self::Beside(beside) => beside.check(),
        }
    }
}

impl Memory {
    fn check(&self) -> Result<()> {
        self.memory.check(self.model.as_ref())?;
        check_version(self.version)?;
        let mut ids = std::collections::BTreeSet::from([&self.memory.index.id]);
        if !self.memory.chunks.iter().all(|chunk| ids.insert(&chunk.index.id)) {
            return Err(Error::invalid("chunks", "each chunk has an id of its own"));
        }
        if self.standing.len() != self.memory.statements.len() {
            return Err(Error::invalid("statements", "each statement stands in one way"));
        }
        if !self.memory.conflicts.is_empty() {
            return Err(Error::invalid("possible_conflicts", "an import brings no hints"));
        }
        let by = self.standing.iter().flatten().filter_map(|standing| standing.retracted_by.as_ref());
        by.into_iter().try_for_each(|id| limits::check_id("retracted_by", id))
    }
}

fn check_version(version: u64) -> Result<()> {
    if (1..=limits::VERSION_MAX).contains(&version) {
        return Ok(());
    }
    Err(Error::invalid("version", format!("a version is a number from 1 to {}", limits::VERSION_MAX)))
}

impl Links {
    fn check(&self) -> Result<()> {
        limits::check_id("id", &self.id)?;
        let named = self.supersedes.iter().chain(&self.possible_conflicts).chain(&self.superseded_by);
        let count = named.clone().count();
        if count > limits::LINKS_MAX {
            let detail =
                format!("{count} links are more than the {} that one memory may bring", limits::LINKS_MAX);
            return Err(Error::too_large("links", detail));
        }
        named.into_iter().try_for_each(|id| limits::check_id("links", id))
    }
}

impl Version {
    fn check(&self) -> Result<()> {
        limits::check_id("id", &self.id)?;
        let HistoryRow { memory, index, .. } = &self.row;
        check_version(memory.version)?;
        if index.id != self.id {
            return Err(Error::invalid("version", "an earlier version has the memory's id"));
        }
        memory.statements.iter().try_for_each(check_statement)?;
        if memory.content.len() > limits::CONTENT_BYTES_MAX
            || index.metadata.len() > limits::METADATA_BYTES_MAX
        {
            return Err(Error::too_large("content", "an earlier version is larger than a memory may be"));
        }
        let few = memory.statements.len() <= limits::STATEMENTS_MAX
            && memory.derived_from.len() <= limits::DERIVED_FROM_MAX
            && index.entities.len() <= limits::ENTITIES_MAX;
        if !few || !index.terms.is_empty() || index.vector.is_some() {
            return Err(Error::invalid(
                "version",
                "an earlier version has no vector, and as much as a memory may",
            ));
        }
        Ok(())
    }
}

/// Why rows could not be read for an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// A row cannot be decoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// There are rows that no export knows.
    #[error("there are rows of the family {0:#04x}, which this version does not export")]
    Unknown(u8),
    /// Log time cannot be read.
    #[error("the row of the clock cannot be read")]
    Clock,
    /// A key cannot be read.
    #[error("a key of what stands beside memories is damaged")]
    Key,
}

/// Where an export goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Whether all memories were told, and links are.
    pub links: bool,
    /// The last memory that was looked at.
    pub after_seq: u64,
    /// What is told of that stands beside memories; 0 while memories and links are.
    pub part: u32,
    /// The end of the last key of that part which was looked at.
    pub after: Vec<u8>,
    /// What was created later than this is not told, in log time.
    pub until_us: i64,
}

/// A piece of an export.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Memories in record order, each followed by its earlier versions; behind all of them their links.
    pub items: Vec<Item>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

/// Rows read in one step.
const STEP: usize = 64;

/// Reads what stands behind `cursor`, until about `bytes_max` are together.
///
/// # Errors
/// [`ReadError`].
pub fn page(
    state: &dyn Reader,
    space: &SpaceKey,
    cursor: Cursor,
    bytes_max: usize,
) -> std::result::Result<Page, ReadError> {
    let settings: SpaceRow = read(state, &keys::space_row::key(space))?.unwrap_or_default();
    let prefix = keys::family_prefix(space, Family::IndexRow);
    let mut page = Page::default();
    let (mut cursor, mut bytes) = (cursor, 0);
    while cursor.part == 0 {
        let after = keys::index_row::key(space, cursor.after_seq);
        let rows = state.scan(&prefix, Some(&after), STEP)?;
        let at_end = rows.len() < STEP;
        for (key, value) in rows {
            cursor.after_seq = keys::index_row::seq(&key).unwrap_or(u64::MAX);
            let index = IndexRow::decode(&value)?;
            // Links are few: what is read for them is bounded by the rows that are looked at.
            bytes += if cursor.links { 64 } else { value.len() };
            // One that was deleted meanwhile is left out.
            let Some(memory) = read::<MemoryRow>(state, &keys::memory::key(space, &index.id))? else {
                continue;
            };
            if cursor.links {
                page.items.extend(links(memory, index));
            } else if memory.chunk.is_none() {
                // Chunks are told with the memory that they are parts of.
                bytes += memory.content.len();
                let versions = versions(state, space, &index.id)?;
                let index = alone(state, space, index)?;
                bytes += versions.iter().map(|version| version.row.memory.content.len() + 512).sum::<usize>();
                page.items.push(Item::Memory(Box::new(exported(state, space, &settings, memory, index)?)));
                page.items.extend(versions.into_iter().map(|version| Item::Version(Box::new(version))));
            }
            if bytes >= bytes_max {
                page.next = Some(cursor);
                return Ok(page);
            }
        }
        match (at_end, cursor.links) {
            (false, _) => {}
            (true, false) => cursor = Cursor { links: true, ..Cursor::default() },
            (true, true) => {
                cursor.part = beside::Part::Sessions as u32;
                let clock = last_applied_us(state).map_err(|_| ReadError::Clock)?;
                cursor.until_us = clock.unwrap_or_default();
            }
        }
    }
    let Some(part) = beside::Part::from_number(cursor.part) else { return Err(ReadError::Key) };
    let at = beside::At { part, after: std::mem::take(&mut cursor.after), until_us: cursor.until_us };
    let next = beside::read_on(state, space, at, &mut page, &mut bytes, bytes_max)?;
    page.next = next.map(|at| Cursor { part: at.part as u32, after: at.after, ..cursor });
    Ok(page)
}

fn links(memory: MemoryRow, index: IndexRow) -> Option<Item> {
    let MemoryRow { supersedes, superseded_by, possible_conflicts, .. } = memory;
    let some = !supersedes.is_empty() || superseded_by.is_some() || !possible_conflicts.is_empty();
    let (id, created_us) = (index.id, index.created_us);
    some.then(|| {
        Item::Links(Box::new(Links { id, created_us, supersedes, superseded_by, possible_conflicts }))
    })
}

/// Looks for rows of families that an export does not know.
///
/// # Errors
/// [`ReadError::Unknown`] names the first.
pub fn check_families(state: &dyn Reader, space: &SpaceKey) -> std::result::Result<(), ReadError> {
    for family in 0..=u8::MAX {
        let known = FAMILIES.iter().find(|(known, _)| *known as u8 == family);
        let has_no_rows = known.is_none_or(|(_, exported)| *exported == Exported::Not(NO_ROWS));
        if !has_no_rows {
            continue;
        }
        let mut prefix = keys::space_prefix(space);
        prefix.push(family);
        if !state.scan(&prefix, None, 1)?.is_empty() {
            return Err(ReadError::Unknown(family));
        }
    }
    Ok(())
}

fn exported(
    state: &dyn Reader,
    space: &SpaceKey,
    settings: &SpaceRow,
    memory: MemoryRow,
    index: IndexRow,
) -> std::result::Result<Memory, ReadError> {
    let mut standing = Vec::with_capacity(memory.statements.len());
    for (ordinal, statement) in (0u8..).zip(&memory.statements) {
        let group = keys::fact::group_prefix(space, statement);
        let row: Option<FactRow> = read(state, &keys::fact::key(&group, memory.seq, ordinal))?;
        standing.push(row.map(|row| Standing {
            from_us: row.from_us,
            recorded_us: row.recorded_us,
            retracted_us: row.retracted_us,
            retracted_by: row.retracted_by,
        }));
    }
    let holder = state.get(&keys::text_hash::key(space, memory.text_hash))?;
    let holds_text = holder.is_some_and(|value| keys::text_hash::id(&value) == Some(&index.id));
    let mut chunks = Vec::with_capacity(memory.chunks.len());
    for id in &memory.chunks {
        let Some(chunk) = read::<MemoryRow>(state, &keys::memory::key(space, id))? else { continue };
        let Some(columns) = read(state, &keys::index_row::key(space, chunk.seq))? else { continue };
        chunks.push(new_memory(chunk, columns, Vec::new()));
    }
    let mut vectors =
        index.vector.iter().chain(chunks.iter().filter_map(|chunk| chunk.index.vector.as_ref()));
    let model = vectors.next().and_then(|vector| settings.models.get(usize::from(vector.model)).cloned());
    Ok(Memory {
        model,
        version: memory.version,
        updated_us: memory.updated_us,
        holds_text,
        standing,
        memory: new_memory(memory, index, chunks),
    })
}

/// A memory as if nothing had been merged: what is told is what each of them says, and where it arrives the
/// same is found again.
fn alone(state: &dyn Reader, space: &SpaceKey, index: IndexRow) -> std::result::Result<IndexRow, ReadError> {
    if index.status == Status::Merged {
        return Ok(IndexRow { status: Status::Active, ..index });
    }
    if index.count < 2 {
        return Ok(index);
    }
    let mut count = index.count;
    for (_, value) in state.scan(&keys::merged::prefix(space, &index.id), None, limits::MERGED_MAX)? {
        count = count.saturating_sub(MergedRow::decode(&value)?.count);
    }
    Ok(IndexRow { count: count.max(1), ..index })
}

fn new_memory(memory: MemoryRow, index: IndexRow, chunks: Vec<NewMemory>) -> NewMemory {
    NewMemory {
        id_chosen: true,
        content: memory.content,
        tokens: memory.tokens,
        text_hash: memory.text_hash,
        confidence: memory.confidence,
        statements: memory.statements,
        whole: memory.whole,
        conflicts: Vec::new(),
        source: memory.source,
        derived_from: memory.derived_from,
        chunks,
        index,
        event_given: true,
    }
}

fn versions(state: &dyn Reader, space: &SpaceKey, id: &str) -> std::result::Result<Vec<Version>, ReadError> {
    let most = usize::try_from(limits::HISTORY_VERSIONS_MAX).unwrap_or(usize::MAX).saturating_add(1);
    let rows = state.scan(&keys::history::prefix(space, id), None, most)?;
    let decoded =
        rows.iter().map(|(_, value)| Ok(Version { id: id.to_owned(), row: HistoryRow::decode(value)? }));
    decoded.collect()
}

fn read<T: Stored>(state: &dyn Reader, key: &[u8]) -> std::result::Result<Option<T>, ReadError> {
    Ok(state.get(key)?.map(|value| T::decode(&value)).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_exported_or_says_why_not() {
        for family in Family::ALL {
            let entries = FAMILIES.iter().filter(|(known, _)| *known == family).count();
            assert_eq!(entries, 1, "{family:?} needs one entry in FAMILIES");
        }
        for (family, exported) in FAMILIES {
            match exported {
                Exported::With(kind) => {
                    let is_kind = |(_, other): &(Family, Exported)| *other == Exported::Line(kind);
                    assert!(
                        FAMILIES.iter().any(is_kind),
                        "{family:?} goes with lines that there are none of"
                    );
                }
                Exported::Line(text) | Exported::Not(text) => assert!(!text.is_empty(), "{family:?}"),
            }
        }
    }
}
