//! What a context is made of: one file for each section, which turns what was found into items.

mod constraints;
mod facts;
mod memories;

use super::item::Item;
use holdfast_core::{Error, Result};
use holdfast_proto::v1;

/// A section. They stand in a prompt in the order of [`Section::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Section {
    /// What must be respected whatever is asked. Always there.
    Constraints,
    /// What was said and what happened, in its own words.
    Memories,
    /// What is known, in short.
    Facts,
}

impl Section {
    pub(super) const ALL: [Self; 3] = [Self::Constraints, Self::Memories, Self::Facts];

    /// The name, which is also the tag that fences it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Constraints => "constraints",
            Self::Memories => "memories",
            Self::Facts => "facts",
        }
    }

    /// The sections that are asked for, and the one that is always there.
    pub(super) fn choose(names: Option<Vec<String>>) -> Result<Vec<Self>> {
        let Some(names) = names else { return Ok(Self::ALL.to_vec()) };
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

    /// What was found for it, the best first.
    pub(super) fn items(self, found: &v1::RecallResponse) -> Result<Vec<Item>> {
        match self {
            Self::Constraints => constraints::items(found),
            Self::Memories => memories::items(found),
            Self::Facts => facts::items(found),
        }
    }
}
