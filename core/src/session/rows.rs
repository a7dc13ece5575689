//! The rows of a session. All times are microseconds since 1970-01-01 UTC.

use super::dialogue::Dialogue;
use super::summary::Summary;
use super::window;
use crate::codec::stored;
use crate::limits::{SESSION_IDLE_GRID_US, SESSION_IDLE_US, SESSION_TURNS_CONDENSED};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// What a deletion takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The turns alone: what was made of them has its own life.
    Turns,
    /// Also the memories that jobs made of them.
    All,
}

/// A session without its words. Key: see [`crate::keys::session`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// When its first turn was recorded, in log time. Log time never repeats, so it also tells two
    /// sessions of one id apart.
    pub created_us: i64,
    /// When it last changed, in log time.
    pub updated_us: i64,
    /// When it was ended.
    pub ended_us: Option<i64>,
    /// Whether it is being deleted: then it is not there for anybody else.
    pub deleting: Option<Ending>,
    /// Counts changes from 1; what compare-and-set compares.
    pub version: u64,
    /// Number of turns, and so the number of the last one: they are counted from 1.
    pub turns: u64,
    /// Tokens of all turns.
    pub tokens: u64,
    /// Tokens of the newest turns, oldest first: at most [`window::TURNS_MAX`]. The window follows from
    /// them, without a look at the turns.
    pub recent: Vec<u32>,
    /// Numbers of the turns that stay in the window for good.
    pub pinned: Vec<u64>,
    /// Where the dialogue stands.
    pub dialogue: Dialogue,
    /// Up to which turn the summary goes.
    pub summarised: u64,
    /// Up to which turn the important ones have become memories.
    pub promoted: u64,
    /// The last turn that is important enough for that.
    pub important: u64,
    /// Up to which turn they have become episodes.
    pub condensed: u64,
    /// The time of its row in [`crate::keys::work`].
    pub work_us: Option<i64>,
}

/// What a tool answered, as much of it as is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name of the tool.
    pub name: String,
    /// Chosen fields as JSON, or a sentence.
    pub output: String,
}

/// One turn. Key: see [`crate::keys::turn`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnRow {
    /// Who speaks: `user`, `assistant`, `tool` or another word of the caller's.
    pub role: String,
    /// What was said; empty if there is only a tool's answer.
    pub content: String,
    /// Tokens of content and tool output in the default tokenizer.
    pub tokens: u32,
    /// 0..1.
    pub importance: f32,
    /// Whether it is important enough to become a memory.
    pub promote: bool,
    /// Whether it stays in the window for good.
    pub pinned: bool,
    /// The caller's own.
    pub tags: Vec<String>,
    /// What it does, by rules: see [`super::labels`].
    pub act: Option<String>,
    /// What it is about, by rules.
    pub topics: Vec<String>,
    /// The names in it, by rules.
    pub entities: Vec<String>,
    /// Whether it asks something, so that an answer is waited for.
    pub asks: bool,
    /// What a tool answered.
    pub tool: Option<Tool>,
    /// When it was said; the time of recording where none was given.
    pub event_us: i64,
    /// When it was recorded, in log time.
    pub recorded_us: i64,
}

stored!(SessionRow, TurnRow, Summary);

/// How memories name the turns they were made of.
pub fn turn_reference(session: &str, first: u64, last: u64) -> String {
    if first == last { format!("turn:{session}#{first}") } else { format!("turn:{session}#{first}-{last}") }
}

/// Whether a source of a memory is a turn of this session.
pub fn is_turn_of(reference: &str, session: &str) -> bool {
    let rest = reference.strip_prefix("turn:").and_then(|rest| rest.strip_prefix(session));
    rest.is_some_and(|rest| rest.strip_prefix('#').is_some_and(|numbers| !numbers.contains('#')))
}

/// The session of the turns that a source of a memory names, and the first of them; `None` if it names no turns.
pub fn turns_of(reference: &str) -> Option<(&str, u64)> {
    turns_from_to(reference).map(|(session, turns)| (session, *turns.start()))
}

/// The session of the turns that a source of a memory names, and the first and last of them; `None` if it names no
/// turns.
pub fn turns_from_to(reference: &str) -> Option<(&str, RangeInclusive<u64>)> {
    let (session, numbers) = reference.strip_prefix("turn:")?.rsplit_once('#')?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let turns: RangeInclusive<u64> = number(first)?..=number(last)?;
    Some((session, turns)).filter(|_| !session.is_empty())
}

/// The session of [`turns_of`].
pub fn session_of_turn(reference: &str) -> Option<&str> {
    turns_of(reference).map(|(session, _)| session)
}

impl TurnRow {
    /// All of its text.
    pub fn text(&self) -> &str {
        match &self.tool {
            Some(tool) if self.content.is_empty() => &tool.output,
            _ => &self.content,
        }
    }
}

impl SessionRow {
    /// Whether callers see it.
    pub fn is_there(&self) -> bool {
        self.deleting.is_none()
    }

    /// The number of the first turn in the window.
    pub fn window_start(&self) -> u64 {
        let turns = u64::try_from(window::turns(&self.recent)).unwrap_or(u64::MAX);
        self.turns.saturating_sub(turns) + 1
    }

    /// Turns that have left the window and are not in the summary.
    pub fn unsummarised(&self) -> u64 {
        self.window_start().saturating_sub(1).saturating_sub(self.summarised)
    }

    /// Whether a job has to make memories of important turns.
    pub fn wants_promotion(&self) -> bool {
        self.important > self.promoted
    }

    /// Whether a job has to make episodes of turns, at `now_us`: enough of them, or a few and nothing
    /// more is to come.
    pub fn wants_condensation(&self, now_us: i64) -> bool {
        let open = self.turns.saturating_sub(self.condensed);
        let quiet = self.ended_us.is_some() || now_us >= self.idle_at_us();
        open >= SESSION_TURNS_CONDENSED || open > 0 && quiet
    }

    /// When a job has something to do for it, in log time; `None` if it has not.
    pub fn wants_work_at(&self, now_us: i64) -> Option<i64> {
        if !self.is_there() {
            return None;
        }
        let lags = self.unsummarised() >= window::TURNS as u64;
        if lags || self.wants_promotion() || self.wants_condensation(now_us) {
            return Some(self.work_us.map_or(now_us, |at_us| at_us.min(now_us)));
        }
        (self.turns > self.condensed).then(|| self.idle_at_us())
    }

    /// From when on it counts as idle: on a grid, so that not every turn moves the row.
    fn idle_at_us(&self) -> i64 {
        let at_us = self.updated_us.saturating_add(SESSION_IDLE_US);
        let over = at_us.rem_euclid(SESSION_IDLE_GRID_US);
        if over == 0 { at_us } else { at_us.saturating_add(SESSION_IDLE_GRID_US - over) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_name_turns_of_one_session() {
        for session in ["s", "s#1", "会话", "a:b"] {
            assert!(is_turn_of(&turn_reference(session, 1, 1), session));
            assert!(is_turn_of(&turn_reference(session, 3, 9), session));
            assert_eq!(session_of_turn(&turn_reference(session, 3, 9)), Some(session));
            assert_eq!(session_of_turn(&turn_reference(session, 7, 7)), Some(session));
            assert_eq!(turns_from_to(&turn_reference(session, 3, 9)), Some((session, 3..=9)));
            assert_eq!(turns_from_to(&turn_reference(session, 7, 7)), Some((session, 7..=7)));
        }
        for reference in ["", "turn:", "turn:s", "turn:#1", "turn:s#", "turn:s#1-", "turn:s#x", "s#1", "m-1"]
        {
            assert_eq!(session_of_turn(reference), None, "{reference}");
        }
        for (reference, session) in [
            ("turn:s#1", "s#1"),
            ("turn:s#1#2", "s"),
            ("turn:ss#1", "s"),
            ("s#1", "s"),
            ("turn:s", "s"),
            ("", ""),
        ] {
            assert!(!is_turn_of(reference, session), "{reference} {session}");
        }
    }

    #[test]
    fn idle_time_lies_on_a_grid_and_never_too_early() {
        for updated_us in [0, 1, -7, 1_700_000_000_123_456, i64::MAX] {
            let row = SessionRow { updated_us, ..SessionRow::default() };
            let at_us = row.idle_at_us();
            assert!(at_us >= updated_us.saturating_add(SESSION_IDLE_US));
            assert!(at_us - updated_us <= SESSION_IDLE_US + SESSION_IDLE_GRID_US);
        }
    }
}
