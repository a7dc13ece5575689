//! What a context is worth: gold labels are looked at here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::plan::Key;
use super::texts::Language;
use super::workload::{Dialogue, Gold, Labels, Scope};

/// Counts of key memories, added up over questions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Questions.
    pub questions: usize,
    /// Sum over the questions of the share of the wanted key memories that were there.
    pub recalls: f64,
    /// Key memories that were there and hold.
    pub current: usize,
    /// Key memories that were there and do not hold.
    pub stale: usize,
}

impl Counts {
    /// Share of the wanted key memories that were there; every question counts the same.
    pub fn key_recall(&self) -> f64 {
        if self.questions == 0 { 0.0 } else { self.recalls / self.questions as f64 }
    }

    /// Share of superseded ones among the key memories that were there.
    pub fn stale_contamination(&self) -> f64 {
        share(self.stale, self.stale + self.current)
    }

    fn add(&mut self, other: Self) {
        self.questions += other.questions;
        self.recalls += other.recalls;
        self.current += other.current;
        self.stale += other.stale;
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Judges one context: the turns in it, given by their ids.
pub fn judge<'a>(labels: &Labels, gold: &Gold, turns: impl IntoIterator<Item = &'a str>) -> Counts {
    let there: BTreeSet<Key> = turns.into_iter().filter_map(|id| labels.states.get(id)).copied().collect();
    Counts {
        questions: 1,
        recalls: share(gold.wanted.intersection(&there).count(), gold.wanted.len()),
        current: gold.current.intersection(&there).count(),
        stale: gold.stale.intersection(&there).count(),
    }
}

/// Memories in a context that are not this user's own: by id, and by text.
pub fn leaks<'a>(dialogue: &Dialogue, answered: impl IntoIterator<Item = (&'a str, &'a str)>) -> usize {
    let own: BTreeMap<&str, &str> = dialogue
        .sessions
        .iter()
        .flat_map(|session| &session.turns)
        .map(|turn| (turn.id.as_str(), turn.text.as_str()))
        .collect();
    answered.into_iter().filter(|(id, text)| own.get(id) != Some(text)).count()
}

/// Figures of a part of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// How many.
    pub questions: usize,
    /// See [`Counts::key_recall`].
    pub key_recall: f64,
    /// See [`Counts::stale_contamination`].
    pub stale_contamination: f64,
}

/// Adds up the questions of one arm.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// All questions.
    pub all: Counts,
    groups: BTreeMap<&'static str, Counts>,
    tokens: usize,
    /// Tokens of the largest context.
    pub tokens_max: usize,
    latencies_ms: Vec<f64>,
    /// Memories of other users in answers.
    pub leaks: usize,
}

impl Tally {
    /// Adds a question.
    pub fn add(&mut self, counts: Counts, language: Language, scope: Scope, tokens: usize) {
        let language = match language {
            Language::En => "english",
            Language::Zh => "chinese",
        };
        let scope = match scope {
            Scope::Slot => "one_topic",
            Scope::Domain => "domain",
            Scope::General => "all_constraints",
        };
        self.all.add(counts);
        for group in [language, scope] {
            self.groups.entry(group).or_default().add(counts);
        }
        self.tokens += tokens;
        self.tokens_max = self.tokens_max.max(tokens);
    }

    /// Adds the time that a context took.
    pub fn took(&mut self, ms: f64) {
        self.latencies_ms.push(ms);
    }

    /// Mean tokens of a context.
    pub fn tokens_per_session(&self) -> f64 {
        share(self.tokens, self.all.questions)
    }

    /// The time within which this share of the contexts came, milliseconds (nearest rank).
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// Figures by language and by kind of question.
    pub fn groups(&self) -> BTreeMap<String, Group> {
        let figures = |counts: &Counts| Group {
            questions: counts.questions,
            key_recall: counts.key_recall(),
            stale_contamination: counts.stale_contamination(),
        };
        self.groups.iter().map(|(name, counts)| ((*name).to_owned(), figures(counts))).collect()
    }
}

/// Memories in a context that are not this user's own: by id, and by the lines that show them in
/// their own words.
pub fn foreign<'a>(dialogue: &Dialogue, memories: impl IntoIterator<Item = &'a str>, text: &str) -> usize {
    let turns = || dialogue.sessions.iter().flat_map(|session| &session.turns);
    let own: BTreeSet<&str> = turns().map(|turn| turn.id.as_str()).collect();
    let said: BTreeSet<&str> = turns().map(|turn| turn.text.as_str()).collect();
    let ids = memories.into_iter().filter(|id| !own.contains(id)).count();
    let in_short = text.find("<facts>").unwrap_or(text.len());
    let lines = text[..in_short].lines().filter_map(|line| line.strip_prefix("- "));
    ids.max(lines.filter(|line| !said.contains(line)).count())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::baseline::workload::{Role, Session, Turn};

    fn key(value: usize) -> Key {
        Key { slot: 0, value, once: None }
    }

    #[test]
    fn a_context_is_judged_by_what_its_turns_state() {
        let states = [("a", key(0)), ("b", key(1)), ("b2", key(1)), ("c", key(2))];
        let labels = Labels {
            states: states.map(|(id, key)| (id.to_owned(), key)).into_iter().collect(),
            gold: Vec::new(),
        };
        let gold = Gold {
            scope: Scope::Slot,
            wanted: [key(1), key(3)].into(),
            current: [key(1), key(2), key(3)].into(),
            stale: [key(0)].into(),
        };
        let counts = judge(&labels, &gold, ["a", "b", "b2", "c", "small talk"]);
        assert_eq!(counts, Counts { questions: 1, recalls: 0.5, current: 2, stale: 1 });
        assert!((counts.key_recall() - 0.5).abs() < 1e-12);
        assert!((counts.stale_contamination() - 1.0 / 3.0).abs() < 1e-12);
        let nothing = judge(&labels, &gold, []);
        assert_eq!((nothing.key_recall(), nothing.stale_contamination()), (0.0, 0.0));
    }

    #[test]
    fn anything_that_is_not_the_users_own_is_a_leak() {
        let turn = |id: &str, text: &str| Turn {
            id: id.to_owned(),
            role: Role::User,
            text: text.to_owned(),
            time: String::new(),
        };
        let dialogue = Dialogue {
            user: "u".to_owned(),
            sessions: vec![Session {
                id: "s1".to_owned(),
                language: Language::En,
                start: String::new(),
                questions: Vec::new(),
                turns: vec![turn("u-1", "tea"), turn("u-2", "milk")],
            }],
        };
        assert_eq!(leaks(&dialogue, [("u-1", "tea"), ("u-2", "milk")]), 0);
        assert_eq!(leaks(&dialogue, [("u-1", "milk"), ("v-1", "tea"), ("u-2", "milk")]), 2);
        let text = "head\n<memories>\n2026-01-02 user:\n- tea\n</memories>\n<facts>\n- user drinks milk\n";
        assert_eq!(foreign(&dialogue, ["u-1", "u-2"], text), 0);
        assert_eq!(foreign(&dialogue, ["u-1", "v-1", "u-2"], text), 1);
        assert_eq!(foreign(&dialogue, ["u-1"], &text.replace("tea", "beer")), 1);
    }

    #[test]
    fn a_tally_adds_up_and_ranks() {
        let mut tally = Tally::default();
        let counts = Counts { questions: 1, recalls: 0.75, current: 3, stale: 1 };
        tally.add(counts, Language::En, Scope::Slot, 100);
        tally.add(Counts { recalls: 0.25, ..counts }, Language::Zh, Scope::Slot, 300);
        for ms in 1..=200 {
            tally.took(f64::from(ms));
        }
        assert!((tally.tokens_per_session() - 200.0).abs() < 1e-9);
        assert_eq!(tally.tokens_max, 300);
        assert!((tally.all.key_recall() - 0.5).abs() < 1e-12);
        assert_eq!((tally.percentile_ms(0.5), tally.percentile_ms(0.99)), (100.0, 198.0));
        let groups = tally.groups();
        assert_eq!(groups["one_topic"].questions, 2);
        assert!((groups["english"].key_recall - 0.75).abs() < 1e-12);
        assert_eq!(Tally::default().percentile_ms(0.99), 0.0);
    }
}
