//! What a context is made of: one file for each section, which turns what was found into items.

mod blocks;
mod constraints;
mod facts;
mod memories;
mod procedures;
mod task;

use super::found::Found;
use super::item::Item;
use holdfast_core::{Error, Result};

/// A section. They stand in a prompt in the order of [`Section::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Section {
    /// What the agent keeps before its eyes.
    Blocks,
    /// What must be respected whatever is asked. Always there.
    Constraints,
    /// What the agent is busy with.
    Task,
    /// What was said and what happened, in its own words.
    Memories,
    /// What is known, in short.
    Facts,
    /// How things are done.
    Procedures,
}

impl Section {
    pub(super) const ALL: [Self; 6] =
        [Self::Blocks, Self::Constraints, Self::Task, Self::Memories, Self::Facts, Self::Procedures];
    /// Those of a request that names none: procedures are looked for only where they are asked for.
    const USUAL: [Self; 5] = [Self::Blocks, Self::Constraints, Self::Task, Self::Memories, Self::Facts];

    /// The name, which is also the tag that fences it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Constraints => "constraints",
            Self::Task => "task",
            Self::Memories => "memories",
            Self::Facts => "facts",
            Self::Procedures => "procedures",
        }
    }

    /// The sections that are asked for, and the one that is always there.
    pub(super) fn choose(names: Option<Vec<String>>) -> Result<Vec<Self>> {
        let Some(names) = names else { return Ok(Self::USUAL.to_vec()) };
        if names.is_empty() {
            return Err(Error::invalid("sections", "sections is empty; name some, or leave it out for all"));
        }
        let mut chosen = vec![Self::Constraints];
        for (at, name) in names.iter().enumerate() {
            let found = Self::ALL.into_iter().find(|section| section.name() == name);
            chosen.push(found.ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                Error::invalid(format!("sections[{at}]"), format!("there is no such section; use {known}"))
            })?);
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }

    /// Whether lines stand below the day and the speaker.
    pub(super) const fn has_headings(self) -> bool {
        matches!(self, Self::Memories)
    }

    /// Whether its items have scores of a recall.
    pub(super) const fn is_scored(self) -> bool {
        matches!(self, Self::Memories | Self::Facts)
    }

    /// What was found for it, the best first.
    pub(super) fn items(self, found: &Found, query: Option<&str>) -> Result<Vec<Item>> {
        match self {
            Self::Blocks => blocks::items(found),
            Self::Constraints => constraints::items(found),
            Self::Task => task::items(found),
            Self::Memories => memories::items(found),
            Self::Facts => facts::items(found),
            Self::Procedures => procedures::items(found, query),
        }
    }
}
