//! What the turns of the session that stand in a prompt tell already, and what they tell otherwise than
//! what is remembered. The conversation wins: it is newer, and jobs make memories of it in time.

use super::choose::{Reason, same};
use super::fence;
use super::found::Talk;
use super::item::{Claim, Group, Item};
use super::sections::{Section, line_id};
use crate::fact_rules::FactRules;
use holdfast_core::facts::extract::{Saying, extract};
use holdfast_core::memory::Mode;
use holdfast_core::session::rows::turns_from_to;
use holdfast_core::session::turn_reference;
use holdfast_core::text::sentences;
use holdfast_proto::v1;
use std::collections::{BTreeMap, HashMap};

/// The role whose statements are those of the user, as the job that makes memories of turns has it.
const USER: &str = "user";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Told {
    session: String,
    /// By number.
    turns: BTreeMap<u64, String>,
    /// Near-identical texts of one speaker -> the turn.
    same: HashMap<String, u64>,
    /// Lines of the summary as they are shown, each with its id.
    lines: HashMap<String, String>,
    /// What the user said of each thing last.
    stated: HashMap<Group, Stated>,
}

/// A statement of a turn.
#[derive(Debug)]
struct Stated {
    turn: u64,
    value: String,
    /// Whether the value holds no longer.
    ends: bool,
    at_us: i64,
}

impl Told {
    /// What the items tell that stand in the prompt.
    pub(super) fn of<'a>(talk: &Talk, shown: impl Iterator<Item = &'a Item>, by: Option<&FactRules>) -> Self {
        let shown: HashMap<&str, &Item> =
            shown.filter(|item| item.section.is_of_session()).map(|item| (item.id.as_str(), item)).collect();
        let mut told = Self { session: talk.session.id.clone(), ..Self::default() };
        // The oldest first: of what is said of one thing the last word counts.
        for turn in talk.window.pinned.iter().chain(&talk.window.window) {
            let id = turn_reference(&told.session, turn.number, turn.number);
            let Some(item) = shown.get(id.as_str()) else { continue };
            told.same.insert(same(item), turn.number);
            told.turns.insert(turn.number, item.text.clone());
            if let Some(by) = by {
                told.take_statements(turn, by);
            }
        }
        for (at, _) in (0u64..).zip(&talk.window.summary) {
            let id = line_id(&told.session, at);
            if let Some(item) = shown.get(id.as_str()) {
                told.lines.insert(item.text.clone(), id);
            }
        }
        told
    }

    fn take_statements(&mut self, turn: &v1::Turn, by: &FactRules) {
        if turn.role != USER {
            return;
        }
        let saying = Saying { who: Some(USER), event_us: turn.event_us };
        for statement in extract(&turn.content, saying, &by.rules, &by.registry).statements {
            let ends = match statement.mode {
                Mode::State | Mode::Correct => false,
                Mode::End => true,
                // What holds for a while leaves the rule standing, and evidence is no word against it.
                Mode::Override { .. } | Mode::Evidence { .. } => continue,
            };
            let (subject, predicate, about) = (statement.subject, statement.predicate, statement.about);
            let at_us = statement.valid_from_us.unwrap_or(turn.event_us);
            let stated = Stated { turn: turn.number, value: statement.value, ends, at_us };
            self.stated.insert(Group { subject, predicate, about }, stated);
        }
    }

    /// Why a memory or a fact need not stand beside the session, or must not, and the item that tells it.
    /// `latest` is whether of what contradicts each other the newest alone is wanted.
    pub(super) fn fault(&self, item: &Item, latest: bool) -> Option<(Reason, String)> {
        // What a collection says is nobody's conversation; the same words are the same all the same.
        if item.source.space.is_none() {
            if let Some(by) = self.made_of(item) {
                return Some((Reason::SupersededBySession, by));
            }
            if let Some(by) = self.against(item).filter(|_| latest) {
                return Some((Reason::SupersededBySession, by));
            }
        }
        let same = self.same.get(&same(item)).filter(|_| item.section == Section::Memories);
        same.map(|turn| (Reason::Duplicate, self.id(*turn)))
    }

    /// Whether what a memory or fact states is said otherwise, so that the conflict is worth a word.
    pub(super) fn contradicts(&self, item: &Item) -> bool {
        item.source.space.is_none() && self.made_of(item).is_none() && self.against(item).is_some()
    }

    fn id(&self, turn: u64) -> String {
        turn_reference(&self.session, turn, turn)
    }

    /// The item that tells a memory that jobs made of turns, if all of it is told.
    fn made_of(&self, item: &Item) -> Option<String> {
        let of_turns = item.source.derived_from.iter().find_map(|source| {
            turns_from_to(source).filter(|(session, _)| *session == self.session).map(|(_, turns)| turns)
        })?;
        let (first, last) = of_turns.into_inner();
        if first > last {
            return None;
        }
        // Words decide, not numbers: the memory may have been changed since, and another session may have had this id.
        let mut by = None;
        for line in item.words.split("\n  ") {
            let own = format!("{}: ", item.heading.speaker);
            let pieces: Vec<String> = match first == last {
                true => sentences(line).iter().map(|sentence| format!("{own}{sentence}")).collect(),
                false => vec![line.to_owned()],
            };
            for piece in pieces {
                by = Some(self.tells(&fence::quoted(&piece), first..=last)?);
            }
        }
        by
    }

    /// The line of the summary, or the turn, that tells a piece: a speaker and what was said.
    fn tells(&self, piece: &str, turns: std::ops::RangeInclusive<u64>) -> Option<String> {
        if let Some(id) = self.lines.get(piece) {
            return Some(id.clone());
        }
        let (_, words) = piece.split_once(": ")?;
        let said = self.turns.range(turns).find(|(_, text)| text.contains(words));
        said.map(|(turn, _)| self.id(*turn))
    }

    /// The turn by which nothing that it states holds any more.
    fn against(&self, item: &Item) -> Option<String> {
        // A memory falls with its facts only if they are all that it says.
        if item.section == Section::Memories && !item.whole {
            return None;
        }
        let mut by = None;
        for claim in &item.claims {
            by = Some(self.id(self.overrides(claim)?));
        }
        by
    }

    fn overrides(&self, claim: &Claim) -> Option<u64> {
        let stated = self.stated.get(&claim.group)?;
        let newer = claim.exclusive && claim.from_us < stated.at_us;
        let other = match stated.ends {
            true => stated.value.is_empty() || stated.value == claim.value,
            false => stated.value != claim.value,
        };
        (newer && other).then_some(stated.turn)
    }
}
