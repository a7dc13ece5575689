//! What a context is made of: one file for each section, which turns what was found into items.

mod blocks;
mod constraints;
mod dialogue;
mod facts;
mod memories;
mod procedures;
mod summary;
mod task;
mod window;

pub(super) use summary::line_id;

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
    /// Where the conversation stands.
    Dialogue,
    /// What is kept of its older turns.
    Summary,
    /// Its newest turns, and those that stay, in their own words.
    Window,
    /// What was said and what happened, in its own words.
    Memories,
    /// What is known, in short.
    Facts,
    /// How things are done.
    Procedures,
}

impl Section {
    pub(super) const ALL: [Self; 9] = [
        Self::Blocks,
        Self::Constraints,
        Self::Task,
        Self::Dialogue,
        Self::Summary,
        Self::Window,
        Self::Memories,
        Self::Facts,
        Self::Procedures,
    ];
    /// Those of a session.
    pub(super) const OF_SESSION: [Self; 3] = [Self::Dialogue, Self::Summary, Self::Window];

    /// The name, which is also the tag that fences it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Constraints => "constraints",
            Self::Task => "task",
            Self::Dialogue => "dialogue",
            Self::Summary => "summary",
            Self::Window => "window",
            Self::Memories => "memories",
            Self::Facts => "facts",
            Self::Procedures => "procedures",
        }
    }

    /// The sections that are asked for, and the one that is always there. Of a request that names none these
    /// are all; procedures among them only if it asks how something is done.
    pub(super) fn choose(names: Option<Vec<String>>, asks_how: bool) -> Result<Vec<Self>> {
        let Some(names) = names else {
            return Ok(Self::ALL.into_iter().filter(|one| asks_how || *one != Self::Procedures).collect());
        };
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
        matches!(self, Self::Window | Self::Memories)
    }

    /// Whether its items are of the session.
    pub(super) fn is_of_session(self) -> bool {
        Self::OF_SESSION.contains(&self)
    }

    /// What goes before memories, and how early: the lower the earlier.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::Constraints => 0,
            Self::Blocks => 1,
            Self::Task => 2,
            Self::Dialogue => 3,
            Self::Window => 4,
            // The words of the newest turns matter more than what is left of the older ones.
            Self::Summary => 5,
            Self::Memories | Self::Facts => 6,
            Self::Procedures => 7,
        }
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
            Self::Dialogue => dialogue::items(found),
            Self::Summary => summary::items(found),
            Self::Window => window::items(found),
            Self::Memories => memories::items(found),
            Self::Facts => facts::items(found),
            Self::Procedures => procedures::items(found, query),
        }
    }
}
