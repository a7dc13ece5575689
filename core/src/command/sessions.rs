//! Writes to sessions, by callers and by jobs.

use super::Add;
use crate::limits::{self, check_id};
use crate::memory::IndexRow;
use crate::session::{Phase, SummaryLine, TurnRow};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// New turns of a session, which begins with them if there is none. All of them or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppendTurns {
    /// Of which.
    pub session: String,
    /// In the order in which they were said.
    pub turns: Vec<NewTurn>,
}

/// One new turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTurn {
    /// The row. Apply sets `recorded_us`, and `event_us` where `event_given` is false.
    pub row: TurnRow,
    /// Whether `row.event_us` was given by the caller.
    pub event_given: bool,
}

/// What a caller says about where a dialogue stands. What is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeDialogue {
    /// Of which session.
    pub session: String,
    /// Only if this is its version.
    pub if_version: Option<u64>,
    /// The state that follows.
    pub phase: Option<Phase>,
    /// The intent; `Some(None)` clears it.
    pub intent: Option<Option<String>>,
    /// Slots: name, and the value as JSON; `None` takes it out.
    pub slots: Vec<(String, Option<String>)>,
    /// The facts that are confirmed, in place of those before.
    pub confirmed: Option<Vec<String>>,
    /// What the user's last turn did.
    pub user_act: Option<Option<String>>,
    /// What the system's last turn did.
    pub system_act: Option<Option<String>>,
}

/// What a job made of turns. It names what it is based on, and is dropped where that has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// Of which session.
    pub session: String,
    /// When the session that was looked at had begun.
    pub created_us: i64,
    /// Up to which turn the same work was done before.
    pub base: u64,
    /// Up to which turn it is done with this.
    pub through: u64,
    /// The work.
    pub result: DigestResult,
}

/// The works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DigestResult {
    /// The summary of all turns that have left the window.
    Summary(Vec<SummaryLine>),
    /// Memories of important turns.
    Promoted(Option<Add>),
    /// Episodes.
    Condensed(Option<Add>),
}

impl AppendTurns {
    pub(crate) fn check(&self) -> Result<()> {
        check_id("session", &self.session)?;
        if self.turns.is_empty() || self.turns.len() > limits::ATOMIC_ITEMS_MAX {
            let detail = format!("1 to {} turns in one write", limits::ATOMIC_ITEMS_MAX);
            return Err(Error::too_large("turns", detail));
        }
        for (at, turn) in self.turns.iter().enumerate() {
            turn.row.check().map_err(|error| {
                let field = format!("turns[{at}].{}", error.field.as_deref().unwrap_or_default());
                error.at(field)
            })?;
        }
        Ok(())
    }
}

impl TurnRow {
    /// Checks every limit of a turn.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] or [`crate::ErrorCode::TooLarge`], naming the field.
    pub fn check(&self) -> Result<()> {
        check_id("role", &self.role)?;
        if self.content.trim().is_empty() && self.tool.is_none() {
            return Err(Error::invalid(
                "content",
                "content is empty; give what was said, or what a tool answered",
            ));
        }
        let output = self.tool.as_ref().map_or("", |tool| &tool.output);
        for (field, text) in [("content", self.content.as_str()), ("tool.output", output)] {
            if text.len() > limits::CONTENT_BYTES_MAX {
                let (n, max) = (text.len(), limits::CONTENT_BYTES_MAX);
                let detail = format!("{field} has {n} bytes; the limit is {max}; split it");
                return Err(Error::too_large(field, detail));
            }
        }
        if let Some(tool) = &self.tool {
            check_id("tool.name", &tool.name)?;
        }
        if !(0.0..=1.0).contains(&self.importance) {
            return Err(Error::invalid("importance", "importance must be a number from 0 to 1"));
        }
        for (field, names) in [("tags", &self.tags), ("topics", &self.topics), ("entities", &self.entities)] {
            if names.len() > limits::TURN_TAGS_MAX {
                return Err(Error::too_large(field, format!("at most {} of {field}", limits::TURN_TAGS_MAX)));
            }
            names.iter().try_for_each(|name| check_id(field, name))?;
        }
        self.act.iter().try_for_each(|act| check_id("act", act))
    }
}

impl ChangeDialogue {
    pub(crate) fn check(&self) -> Result<()> {
        check_id("session", &self.session)?;
        for (field, value) in [
            ("intent", &self.intent),
            ("last_user_act", &self.user_act),
            ("last_system_act", &self.system_act),
        ] {
            value.iter().flatten().try_for_each(|value| check_id(field, value))?;
        }
        for (name, value) in &self.slots {
            check_id("slots", name)?;
            let max = limits::SLOT_BYTES_MAX;
            if let Some(value) = value.as_ref().filter(|value| value.len() > max) {
                let detail = format!("the slot {name} has {} bytes of JSON; the limit is {max}", value.len());
                return Err(Error::too_large("slots", detail));
            }
        }
        let confirmed = self.confirmed.as_deref().unwrap_or_default();
        if self.slots.len() > 2 * limits::SLOTS_MAX || confirmed.len() > limits::SLOTS_MAX {
            let detail = format!("at most {0} slots and {0} confirmed facts", limits::SLOTS_MAX);
            return Err(Error::too_large("slots", detail));
        }
        let long = confirmed.iter().any(|fact| fact.is_empty() || fact.len() > limits::SLOT_BYTES_MAX);
        if long {
            let detail = format!("a confirmed fact has 1 to {} bytes", limits::SLOT_BYTES_MAX);
            return Err(Error::too_large("confirmed_facts", detail));
        }
        Ok(())
    }
}

impl Digest {
    pub(crate) fn check(&self) -> Result<()> {
        check_id("session", &self.session)?;
        if self.through < self.base {
            return Err(Error::invalid("through", "a digest goes on from where the last one ended"));
        }
        match &self.result {
            DigestResult::Summary(lines) => {
                let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
                if bytes > crate::session::summary::BYTES_MAX {
                    return Err(Error::too_large("summary", "the summary is longer than it may be"));
                }
                Ok(())
            }
            DigestResult::Promoted(add) | DigestResult::Condensed(add) => {
                add.as_ref().map_or(Ok(()), |add| add.check(limits::DIGEST_ITEMS_MAX))
            }
        }
    }

    /// The memories that it brings.
    pub fn memories(&self) -> impl Iterator<Item = &IndexRow> {
        let add = match &self.result {
            DigestResult::Promoted(add) | DigestResult::Condensed(add) => add.as_ref(),
            DigestResult::Summary(_) => None,
        };
        add.into_iter().flat_map(|add| add.items.iter().map(|item| &item.index))
    }
}
