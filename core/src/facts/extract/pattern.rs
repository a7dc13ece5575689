//! The patterns of rules: data, so that a tenant can add some.
//!
//! A pattern is matched against a whole clause. It consists of words (CJK characters by
//! themselves), `(a|b c)` for one of several, `[a|b]` for one of several or nothing, `<adv>` for any
//! number of adverbs, `<kind>` for "the city of" and the like or nothing, and slots: `{s}` the subject,
//! `{o}` the object, `{p}` the predicate, `{v}` a verb and `{k}` a noun such as "city" that belong to
//! it, `{x}` what does not matter. A slot takes as few tokens as possible, at least one. A word that
//! is part of a name, by its capital, is no word of a pattern.

use super::lexicon;
use super::tokens::{Token, tokens};
use super::verbs;
use std::ops::Range;

/// Most tokens that one slot takes.
const SLOT_TOKENS_MAX: usize = 16;
/// Most steps of one match: patterns with several slots try many splits.
const STEPS_MAX: u32 = 4_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Word(String),
    Slot(Slot),
    Adverbs,
    Kind,
    /// One of several; nothing, if `optional`.
    OneOf {
        choices: Vec<Vec<Part>>,
        optional: bool,
    },
}

/// What a part of the clause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Subject,
    Object,
    Predicate,
    Verb,
    Kind,
    Ignored,
}

/// A pattern that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    /// Of each of these lists a word stands in every clause that fits: most clauses are told by it
    /// that they do not.
    required: Vec<Vec<String>>,
}

/// Why a pattern cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` cannot be read: {reason}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The tokens of each slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) subject: Option<Range<usize>>,
    pub(super) object: Option<Range<usize>>,
    pub(super) predicate: Option<Range<usize>>,
    pub(super) verb: Option<Range<usize>>,
    pub(super) kind: Option<Range<usize>>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`PatternError`] that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let failed = |reason| PatternError { pattern: text.to_owned(), reason };
        let mut reader = Reader { text, at: 0 };
        let mut choices = reader.choices(0).map_err(failed)?;
        match (choices.pop(), choices.is_empty(), reader.at == text.len()) {
            (Some(parts), true, true) if !parts.is_empty() => {
                let required = parts.iter().filter_map(required).collect();
                Ok(Self { parts, required })
            }
            _ => Err(failed("a bracket is missing, or `|` stands outside of brackets")),
        }
    }

    /// The slots, if the pattern fits the whole clause.
    pub(super) fn matches(
        &self,
        clause: &[Token],
        slot_fits: &dyn Fn(Slot, &[Token]) -> bool,
    ) -> Option<Bound> {
        let stands = |word: &String| clause.iter().any(|token| token.low == *word && !token.titled);
        if !self.required.iter().all(|any| any.iter().any(stands)) {
            return None;
        }
        let mut matcher = Matcher { clause, slot_fits, steps: 0 };
        let queue: Vec<&Part> = self.parts.iter().rev().collect();
        matcher.from(0, &queue, &Bound::default())
    }
}

/// The words of which one must stand in a clause for this part to fit, if that can be told.
fn required(part: &Part) -> Option<Vec<String>> {
    let first = |choice: &Vec<Part>| match choice.first() {
        Some(Part::Word(word)) => Some(word.clone()),
        _ => None,
    };
    match part {
        Part::Word(word) => Some(vec![word.clone()]),
        Part::OneOf { choices, optional: false } => choices.iter().map(first).collect(),
        _ => None,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn choices(&mut self, depth: u32) -> Result<Vec<Vec<Part>>, &'static str> {
        if depth > 3 {
            return Err("brackets nest more than three deep");
        }
        let mut choices = vec![Vec::new()];
        while let Some(c) = self.text[self.at..].chars().next() {
            let part = match c {
                '(' | '[' => {
                    self.at += 1;
                    let inner = self.choices(depth + 1)?;
                    let close = if c == '(' { ')' } else { ']' };
                    if !self.text[self.at..].starts_with(close) {
                        return Err("a bracket is not closed");
                    }
                    self.at += 1;
                    vec![Part::OneOf { choices: inner, optional: c == '[' }]
                }
                '{' | '<' => {
                    let close = if c == '{' { '}' } else { '>' };
                    let end = self.text[self.at..].find(close).ok_or("a slot is not closed")?;
                    let name = &self.text[self.at + 1..self.at + end];
                    self.at += end + 1;
                    vec![match (c, name) {
                        ('{', "s") => Part::Slot(Slot::Subject),
                        ('{', "o") => Part::Slot(Slot::Object),
                        ('{', "p") => Part::Slot(Slot::Predicate),
                        ('{', "v") => Part::Slot(Slot::Verb),
                        ('{', "k") => Part::Slot(Slot::Kind),
                        ('{', "x") => Part::Slot(Slot::Ignored),
                        ('<', "adv") => Part::Adverbs,
                        ('<', "kind") => Part::Kind,
                        _ => return Err("slots are {s}, {o}, {p}, {v}, {k}, {x}, <adv> and <kind>"),
                    }]
                }
                ')' | ']' if depth > 0 => return Ok(choices),
                '|' if depth > 0 => {
                    self.at += 1;
                    choices.push(Vec::new());
                    continue;
                }
                _ => {
                    let rest = &self.text[self.at..];
                    let end = rest.find(['(', ')', '[', ']', '{', '<', '|']).unwrap_or(rest.len());
                    if end == 0 {
                        return Err("a bracket is closed that was not opened, or `|` stands outside");
                    }
                    self.at += end;
                    tokens(&rest[..end]).into_iter().map(|token| Part::Word(token.low)).collect()
                }
            };
            if let Some(last) = choices.last_mut() {
                last.extend(part);
            }
        }
        Ok(choices)
    }
}

struct Matcher<'a> {
    clause: &'a [Token],
    slot_fits: &'a dyn Fn(Slot, &[Token]) -> bool,
    steps: u32,
}

impl<'a> Matcher<'a> {
    /// Matches the parts in `queue`, the next one last, from a token on to the end of the clause.
    fn from(&mut self, at: usize, queue: &[&'a Part], bound: &Bound) -> Option<Bound> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return None;
        }
        let Some((part, rest)) = queue.split_last() else {
            return (at == self.clause.len()).then(|| bound.clone());
        };
        match part {
            Part::Word(word) => {
                let fits = self.clause.get(at).is_some_and(|token| token.low == *word && !token.titled);
                if fits { self.from(at + 1, rest, bound) } else { None }
            }
            Part::Adverbs => {
                let mut end = at;
                loop {
                    if let Some(found) = self.from(end, rest, bound) {
                        return Some(found);
                    }
                    end += lexicon::adverb_at(self.clause.get(end..).unwrap_or_default())?;
                }
            }
            Part::Kind => match self.clause.get(at..at + 3) {
                Some([the, kind, of])
                    if the.low == "the" && of.low == "of" && verbs::is_kind(std::slice::from_ref(kind)) =>
                {
                    self.from(at + 3, rest, bound).or_else(|| self.from(at, rest, bound))
                }
                _ => self.from(at, rest, bound),
            },
            Part::OneOf { choices, optional } => {
                for choice in choices {
                    let mut queue = rest.to_vec();
                    queue.extend(choice.iter().rev());
                    if let Some(found) = self.from(at, &queue, bound) {
                        return Some(found);
                    }
                }
                if *optional { self.from(at, rest, bound) } else { None }
            }
            Part::Slot(slot) => {
                let longest = self.clause.len().min(at + SLOT_TOKENS_MAX);
                for end in at + 1..=longest {
                    if !(self.slot_fits)(*slot, &self.clause[at..end]) {
                        continue;
                    }
                    let mut bound = bound.clone();
                    match slot {
                        Slot::Subject => bound.subject = Some(at..end),
                        Slot::Object => bound.object = Some(at..end),
                        Slot::Predicate => bound.predicate = Some(at..end),
                        Slot::Verb => bound.verb = Some(at..end),
                        Slot::Kind => bound.kind = Some(at..end),
                        Slot::Ignored => {}
                    }
                    if let Some(found) = self.from(end, rest, &bound) {
                        return Some(found);
                    }
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn found(pattern: &str, text: &str) -> Option<(String, String)> {
        let clause = tokens(text);
        let bound = Pattern::parse(pattern).unwrap().matches(&clause, &|_, _| true)?;
        let text_of = |range: Option<Range<usize>>| {
            range.map_or(String::new(), |range| {
                text[clause[range.start].start..clause[range.end - 1].end].to_owned()
            })
        };
        Some((text_of(bound.subject), text_of(bound.object)))
    }

    #[test]
    fn slots_take_what_the_words_leave() {
        let pattern = "{s} <adv> (lives|is living) in [the city of] {o}";
        let pair = |s: &str, o: &str| Some((s.to_owned(), o.to_owned()));
        assert_eq!(found(pattern, "Anna now lives in New York"), pair("Anna", "New York"));
        assert_eq!(found(pattern, "Anna is living in the city of Bonn"), pair("Anna", "Bonn"));
        assert_eq!(found(pattern, "lives in Bonn"), None);
        assert_eq!(found("[{s}]<adv>住在{o}", "小明现在住在北京"), pair("小明", "北京"));
        assert_eq!(found("[{s}]<adv>住在{o}", "住在北京"), pair("", "北京"));
    }

    #[test]
    fn bad_patterns_are_refused() {
        for bad in ["", "a | b", "(a", "a)", "{q}", "{s", "((((a))))"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_match_is_bounded() {
        let words = "a ".repeat(60);
        let clause = tokens(&words);
        let pattern = Pattern::parse("{s} a {p} a {o} a {x} b").unwrap();
        assert_eq!(pattern.matches(&clause, &|_, _| true), None);
    }
}
