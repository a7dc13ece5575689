//! Finds by rules what a text states: preferences, constraints, profile, places, work, relations.
//!
//! No language model, and nothing that knows a data set: tables of ordinary sentence patterns
//! ([`english`], [`chinese`]) and closed lists of words ([`lexicon`]). Precision goes before recall:
//! a sentence that is a question, a wish, a supposition, hearsay or about an unresolved "she" states
//! nothing here, and stays a plain memory. Bounded: long texts and long sentences are not searched.

mod chinese;
mod claims;
mod clauses;
mod cues;
mod english;
mod health;
mod lexicon;
mod negations;
mod pattern;
mod rules;
mod search;
mod slots;
mod tokens;
mod verbs;

pub use pattern::{Pattern, PatternError};
pub use rules::{Rule, Rules, TENANT_RULES_MAX};

use super::registry::Registry;
use crate::limits::STATEMENTS_MAX;
use crate::memory::Statement;
use crate::text::normalize;
use clauses::Supposed;
use search::Search;

/// Longest text that is searched, in bytes: what is longer tells more than a few facts.
pub const TEXT_BYTES_MAX: usize = 2_000;
/// Importance of greetings and thanks.
const SMALL_TALK: f32 = 0.2;

/// What a text states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extracted {
    /// In the order of the text, at most [`STATEMENTS_MAX`].
    pub statements: Vec<Statement>,
    /// Whether they are all that the text says.
    pub whole: bool,
    /// How important the text is by rules, if they tell: 1 for a hard constraint, 0.2 for small talk.
    pub importance: Option<f32>,
}

/// Who says a text, and when.
#[derive(Debug, Clone, Copy)]
pub struct Saying<'a> {
    /// The speaker, if one is named.
    pub who: Option<&'a str>,
    /// When, in microseconds since 1970.
    pub event_us: i64,
}

/// Whether a text has a word that tells of a change: "no longer", "switched to", 改, 不再.
pub fn tells_change(text: &str) -> bool {
    let text = normalize(text.get(..TEXT_BYTES_MAX).unwrap_or(text));
    text.len() <= TEXT_BYTES_MAX && cues::tells_change(&tokens::tokens(&text))
}

/// What a text states, by the rules.
pub fn extract(text: &str, saying: Saying<'_>, rules: &Rules, registry: &Registry) -> Extracted {
    if text.len() > TEXT_BYTES_MAX {
        return Extracted::default();
    }
    let text = normalize(text);
    let mut found = Extracted { whole: true, ..Extracted::default() };
    let (mut said_anything, mut supposed) = (false, Supposed::No);
    for sentence in clauses::sentences(&text) {
        said_anything |= !sentence.tokens.is_empty();
        supposed = sentence.supposes(supposed);
        let search = Search { text: &text, saying, rules, registry, sentence: &sentence, supposed };
        match search.run() {
            Some(of_sentence) => found.take(of_sentence),
            None => found.whole &= sentence.is_filler(),
        }
    }
    if found.statements.is_empty() {
        let small_talk = said_anything && found.whole;
        return Extracted { importance: small_talk.then_some(SMALL_TALK), ..Extracted::default() };
    }
    found
}

impl Extracted {
    fn take(&mut self, other: Self) {
        self.whole &= other.whole;
        self.importance = match (self.importance, other.importance) {
            (Some(own), Some(others)) => Some(own.max(others)),
            (own, others) => own.or(others),
        };
        for statement in other.statements {
            if self.statements.len() == STATEMENTS_MAX {
                self.whole = false;
                return;
            }
            self.statements.push(statement);
        }
    }
}

#[cfg(test)]
mod tests;
