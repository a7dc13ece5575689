//! One line of an export.

use super::record::{MemoryLine, VersionLine};
use crate::http::time::Time;
use holdfast_core::Result;
use holdfast_core::transfer::beside::{self, Beside};
use holdfast_core::transfer::{Exported, FAMILIES, Item, Links, NOT_YET};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format that this version writes, and the newest that it reads.
/// 2: what stands beside memories.
pub(super) const FORMAT: u32 = 2;

/// A line: an object with one field, which names its kind.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first: what this is.
    Export(Head),
    /// A memory.
    Memory(Box<MemoryLine>),
    /// An earlier version of the memory before.
    Version(Box<VersionLine>),
    /// Links of a memory to others.
    Links(LinksLine),
    /// A session without its turns.
    Session(Box<beside::Session>),
    /// A turn of a session.
    Turn(Box<beside::Turn>),
    /// A task without its steps.
    Task(Box<beside::Task>),
    /// A step of a task.
    Step(Box<beside::Step>),
    /// A core block.
    Block(Box<beside::Block>),
    /// An earlier version of a core block.
    BlockVersion(Box<beside::Block>),
    /// A procedure without its versions.
    Procedure(Box<beside::Procedure>),
    /// A version of a procedure.
    ProcedureVersion(Box<beside::ProcedureVersion>),
    /// The last: without it something is missing.
    End(End),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) format: u32,
    pub(super) space: String,
    pub(super) exported_at: Time,
    /// The log index that all of it is at least as new as, and the shard of that log.
    pub(super) log_index: u64,
    pub(super) shard: u16,
    /// Of a collection: the same of each partition, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) partitions: Vec<Position>,
    /// What a space may hold and an export of this version leaves out.
    #[serde(default)]
    pub(super) left_out: Vec<String>,
}

/// A place in the log of a shard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    pub(super) shard: u16,
    pub(super) log_index: u64,
}

/// What this version leaves out.
pub(super) fn left_out() -> Vec<String> {
    let not_yet = FAMILIES.iter().filter(|(_, exported)| *exported == Exported::Not(NOT_YET));
    not_yet.map(|(family, _)| format!("{family:?}").to_lowercase()).collect()
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub(super) memories: u64,
    pub(super) versions: u64,
    pub(super) links: u64,
    /// What stands beside memories, by the kind of line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) beside: BTreeMap<String, u64>,
}

impl End {
    pub(super) fn count(&mut self, item: &Item) {
        *match item {
            Item::Memory(_) => &mut self.memories,
            Item::Version(_) => &mut self.versions,
            Item::Links(_) => &mut self.links,
            Item::Beside(beside) => self.beside.entry(beside.kind().to_owned()).or_default(),
        } += 1;
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinksLine {
    id: String,
    created_at: Time,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    supersedes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    possible_conflicts: Vec<String>,
}

impl Line {
    /// The line of an item.
    pub(super) fn of(item: Item) -> Result<Self> {
        Ok(match item {
            Item::Memory(memory) => Self::Memory(Box::new(MemoryLine::of(*memory)?)),
            Item::Version(version) => Self::Version(Box::new(VersionLine::of(*version)?)),
            Item::Links(links) => Self::Links(LinksLine {
                id: links.id,
                created_at: Time(links.created_us),
                supersedes: links.supersedes,
                superseded_by: links.superseded_by,
                possible_conflicts: links.possible_conflicts,
            }),
            Item::Beside(beside) => match *beside {
                Beside::Session(session) => Self::Session(Box::new(session)),
                Beside::Turn(turn) => Self::Turn(Box::new(turn)),
                Beside::Task(task) => Self::Task(Box::new(task)),
                Beside::Step(step) => Self::Step(Box::new(step)),
                Beside::Block(block) => Self::Block(Box::new(block)),
                Beside::BlockVersion(block) => Self::BlockVersion(Box::new(block)),
                Beside::Procedure(procedure) => Self::Procedure(Box::new(procedure)),
                Beside::ProcedureVersion(version) => Self::ProcedureVersion(Box::new(version)),
            },
        })
    }

    /// The item of a line; `None` for the first and the last.
    pub(super) fn into_item(self) -> Result<Option<Item>> {
        let beside = |beside: Beside| Item::Beside(Box::new(beside));
        let item = match self {
            Self::Export(_) | Self::End(_) => return Ok(None),
            Self::Session(line) => beside(Beside::Session(*line)),
            Self::Turn(line) => beside(Beside::Turn(*line)),
            Self::Task(line) => beside(Beside::Task(*line)),
            Self::Step(line) => beside(Beside::Step(*line)),
            Self::Block(line) => beside(Beside::Block(*line)),
            Self::BlockVersion(line) => beside(Beside::BlockVersion(*line)),
            Self::Procedure(line) => beside(Beside::Procedure(*line)),
            Self::ProcedureVersion(line) => beside(Beside::ProcedureVersion(*line)),
            Self::Memory(line) => Item::Memory(Box::new(line.into_memory()?)),
            Self::Version(line) => Item::Version(Box::new(line.into_version()?)),
            Self::Links(line) => Item::Links(Box::new(Links {
                id: line.id,
                created_us: line.created_at.0,
                supersedes: line.supersedes,
                superseded_by: line.superseded_by,
                possible_conflicts: line.possible_conflicts,
            })),
        };
        item.check()?;
        Ok(Some(item))
    }

    /// The name of its kind.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Export(_) => "export",
            Self::Memory(_) => "memory",
            Self::Version(_) => "version",
            Self::Links(_) => "links",
            Self::Session(_) => "session",
            Self::Turn(_) => "turn",
            Self::Task(_) => "task",
            Self::Step(_) => "step",
            Self::Block(_) => "block",
            Self::BlockVersion(_) => "block_version",
            Self::Procedure(_) => "procedure",
            Self::ProcedureVersion(_) => "procedure_version",
            Self::End(_) => "end",
        }
    }

    /// The id that it is about.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Export(_) | Self::End(_) => None,
            Self::Memory(line) => Some(line.id()),
            Self::Version(line) => Some(line.id()),
            Self::Links(line) => Some(&line.id),
            Self::Session(line) => Some(&line.id),
            Self::Turn(line) => Some(&line.session),
            Self::Task(line) => Some(&line.id),
            Self::Step(line) => Some(&line.task),
            Self::Block(line) | Self::BlockVersion(line) => Some(&line.label),
            Self::Procedure(line) => Some(&line.name),
            Self::ProcedureVersion(line) => Some(&line.procedure),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_that_the_table_names_is_a_line() {
        for (family, exported) in FAMILIES {
            let Exported::Line(kind) = exported else { continue };
            let read: std::result::Result<Line, _> = serde_json::from_str(&format!("{{\"{kind}\":{{}}}}"));
            let error = read.unwrap_err().to_string();
            assert!(!error.contains("unknown variant"), "{family:?}: {error}");
        }
    }
}
