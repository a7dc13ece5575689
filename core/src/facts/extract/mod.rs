//! Finds by rules what a text states: preferences, constraints, profile, places, work, relations.
//!
//! No language model, and nothing that knows a data set: tables of ordinary sentence patterns
//! ([`english`], [`chinese`]) and closed lists of words ([`lexicon`]). Precision goes before recall:
//! a sentence that is a question, a wish, a supposition, hearsay or about an unresolved "she" states
//! nothing here, and stays a plain memory. Bounded: long texts and long sentences are not searched.

mod chinese;
mod clauses;
mod cues;
mod english;
mod lexicon;
mod pattern;
mod rules;
mod tokens;

pub use pattern::{Pattern, PatternError};
pub use rules::{Rule, Rules, TENANT_RULES_MAX};

use super::normal;
use super::registry::{Arity, RULES_VERSION, Registry};
use super::statement::{Claim, statement};
use crate::limits::STATEMENTS_MAX;
use crate::memory::{Fact, Mode, Statement};
use crate::text::normalize;
use clauses::{Clause, Sentence};
use lexicon::joined;
use pattern::{Bound, Slot};
use rules::{Act, Need};
use std::ops::Range;
use tokens::{Token, is_mark};

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
    let mut said_anything = false;
    for sentence in clauses::sentences(&text) {
        said_anything |= !sentence.tokens.is_empty();
        let search = Search { text: &text, saying, rules, registry, sentence: &sentence };
        match search.sentence() {
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

/// The search of one sentence.
struct Search<'a> {
    text: &'a str,
    saying: Saying<'a>,
    rules: &'a Rules,
    registry: &'a Registry,
    sentence: &'a Sentence,
}

/// How a clause was turned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turned {
    Not,
    NoLonger,
}

impl Search<'_> {
    /// What the sentence states: as one clause, else clause by clause. `None` if it is nothing.
    fn sentence(&self) -> Option<Extracted> {
        if !self.sentence.is_statement() {
            return None;
        }
        let whole = self.sentence.core();
        if let Some(found) = self.clause(&whole) {
            return Some(found);
        }
        let mut all = Extracted { whole: true, ..Extracted::default() };
        let mut subject: Option<Vec<Token>> = None;
        for clause in self.sentence.clauses() {
            let with_subject = subject.as_ref().map(|subject| clause.after(subject));
            let found = self.clause(&clause).or_else(|| self.clause(with_subject.as_ref()?));
            match found {
                Some(found) => {
                    subject = clause.subject().or(subject);
                    all.take(found);
                }
                None => all.whole &= clause.is_filler(),
            }
        }
        (!all.statements.is_empty()).then_some(all)
    }

    fn clause(&self, clause: &Clause) -> Option<Extracted> {
        if clause.tokens.is_empty() || !lexicon::is_stated(&clause.tokens) {
            return None;
        }
        if let Some(found) = self.positive(&clause.tokens, None) {
            return Some(found);
        }
        clauses::negations(&clause.tokens).into_iter().find_map(|(positive, no_longer)| {
            let turned =
                if no_longer || self.sentence.says_no_longer { Turned::NoLonger } else { Turned::Not };
            self.positive(&positive, Some(turned))
        })
    }

    /// The first rule that fits and gives a statement.
    fn positive(&self, clause: &[Token], turned: Option<Turned>) -> Option<Extracted> {
        self.rules.rules.iter().find_map(|rule| {
            let fits = |slot, tokens: &[Token]| {
                slot_fits(slot, tokens) && (slot != Slot::Predicate || predicate_fits(rule.need, tokens))
            };
            let bound = rule.pattern.matches(clause, &fits)?;
            if !needs(rule.need, &bound, clause) {
                return None;
            }
            let claims = self.claims(rule, &bound, clause, turned)?;
            let made =
                claims.into_iter().filter_map(|claim| statement(claim, self.saying.who, self.registry));
            let statements: Vec<Statement> = made.take(STATEMENTS_MAX).collect();
            let constraint =
                turned == Some(Turned::Not) && matches!(rule.predicate.as_str(), "eats" | "drinks");
            let importance = if constraint { 1.0 } else { rule.importance };
            (!statements.is_empty()).then_some(Extracted {
                statements,
                whole: true,
                importance: Some(importance),
            })
        })
    }

    fn claims(
        &self,
        rule: &Rule,
        bound: &Bound,
        clause: &[Token],
        turned: Option<Turned>,
    ) -> Option<Vec<Claim>> {
        if turned.is_some() && matches!(rule.act, Act::Eaten | Act::Wish | Act::Inverse) {
            return None;
        }
        let subject =
            bound.subject.clone().map_or_else(|| "I".to_owned(), |range| self.shown(clause, &range));
        let predicate = match (&bound.predicate, rule.predicate.as_str()) {
            (Some(range), "") => self.shown(clause, range),
            (Some(range), template) => template.replace('*', &self.shown(clause, range)),
            (None, name) => name.to_owned(),
        };
        let predicate = match turned {
            None => predicate,
            Some(Turned::Not) => format!("does not {predicate}"),
            Some(Turned::NoLonger) => format!("no longer {predicate}"),
        };
        let objects = match &bound.object {
            None if rule.object.is_empty() => return None,
            None => vec![(rule.object.clone(), None)],
            Some(range) if rule.need == Need::Food => self.foods(clause, range),
            Some(range) => vec![self.object(rule, clause, range)],
        };
        let until = cues::holds_until(&self.sentence.tokens, self.saying.event_us);
        let mut claims = Vec::new();
        for (object, form) in objects {
            let fact =
                Fact { subject: subject.clone(), predicate: predicate.clone(), object, ..Fact::default() };
            let claim = Claim { fact, form, rules: RULES_VERSION, ..Claim::default() };
            match rule.act {
                Act::Eaten => claims.extend(eaten(claim, clause, bound)),
                Act::Wish => claims.push(Claim { mode: for_a_while(Some(until.clone()?)), ..claim }),
                Act::Inverse => {
                    let Fact { subject, object, .. } = claim.fact.clone();
                    let fact = Fact { subject: object, object: subject, ..claim.fact };
                    claims.push(Claim { fact, ..claim });
                }
                Act::State if cues::corrects(&self.sentence.tokens) && turned.is_none() => {
                    claims.push(Claim { mode: Mode::Correct, ..claim });
                }
                Act::State => {
                    let known = self.registry.find(&claim.fact.predicate).arity != Arity::Unknown;
                    let window = until.clone().filter(|_| known && turned != Some(Turned::NoLonger));
                    let mode = window.map_or(Mode::State, |window| for_a_while(Some(window)));
                    claims.push(Claim { mode, ..claim });
                }
                Act::Change => claims.push(claim),
            }
        }
        Some(claims)
    }

    /// An object as it is shown, and its own normal form if it has one.
    fn object(&self, rule: &Rule, clause: &[Token], range: &Range<usize>) -> (String, Option<String>) {
        let tokens = &clause[range.clone()];
        let shown = self.shown(clause, range);
        let form = match rule.need {
            Need::Diet => lexicon::diet(&joined(tokens)).map(str::to_owned),
            _ if matches!(rule.predicate.as_str(), "likes" | "loves" | "hates" | "dislikes" | "prefers") => {
                Some(food_form(tokens))
            }
            _ => None,
        };
        (shown, form)
    }

    /// What is eaten or drunk, one by one, and by its taste.
    fn foods(&self, clause: &[Token], range: &Range<usize>) -> Vec<(String, Option<String>)> {
        let mut foods = Vec::new();
        let mut start = range.start;
        for at in range.start..=range.end {
            let at_end = at == range.end;
            let splits = !at_end
                && matches!(clause[at].low.as_str(), "and" | "or" | "," | "、" | "和" | "或" | "跟" | "nor");
            if !(at_end || splits) || at == start {
                start = if splits { at + 1 } else { start };
                continue;
            }
            let tokens = &clause[start..at];
            foods.push((self.shown(clause, &(start..at)), Some(food_form(tokens))));
            if let Some(taste) = lexicon::taste(tokens)
                && food_form(tokens) != taste
            {
                foods.push((self.shown(clause, &(start..at)), Some(taste.to_owned())));
            }
            start = at + 1;
        }
        foods
    }

    /// The words of the text behind some tokens.
    fn shown(&self, clause: &[Token], range: &Range<usize>) -> String {
        let (first, last) = (&clause[range.start], &clause[range.end - 1]);
        // A clause that borrowed its subject is not one piece of the text.
        let piece = self.text.get(first.start..last.end).filter(|_| first.start < last.end);
        piece.map_or_else(|| joined(&clause[range.clone()]), str::to_owned)
    }
}

fn for_a_while(window: Option<(i64, String)>) -> Mode {
    window.map_or(Mode::State, |(until_us, reason)| Mode::Override { until_us, reason })
}

/// What was eaten speaks against the diets that exclude it, and against never eating it.
fn eaten(claim: Claim, clause: &[Token], bound: &Bound) -> Vec<Claim> {
    let Some(object) = &bound.object else { return Vec::new() };
    let mut claims = Vec::new();
    let against = lexicon::diets_against(&clause[object.clone()]);
    if !against.is_empty() {
        let fact = Fact { predicate: "diet".into(), ..claim.fact.clone() };
        claims.push(Claim { fact, mode: Mode::Evidence { against }, form: None, ..claim.clone() });
    }
    let fact = Fact { predicate: "eats".into(), ..claim.fact.clone() };
    let against = vec!["no".to_owned()];
    claims.push(Claim { fact, mode: Mode::Evidence { against }, ..claim });
    claims
}

/// The form of a food or of what is liked: a taste if it is nothing else, without the verb of eating.
fn food_form(tokens: &[Token]) -> String {
    let filler = [
        "food",
        "foods",
        "dish",
        "dishes",
        "things",
        "stuff",
        "something",
        "anything",
        "meal",
        "meals",
        "very",
        "too",
        "extra",
        "really",
        "super",
        "any",
        "some",
        "to",
        "eating",
        "eat",
        "drinking",
        "drink",
        "的",
        "吃",
        "喝",
        "菜",
        "东西",
        "味",
        "太",
        "很",
        "食",
        "物",
    ];
    let bare: Vec<&str> =
        tokens.iter().map(|token| token.low.as_str()).filter(|word| !filler.contains(word)).collect();
    let cjk = normal::is_chinese(&bare.concat());
    let bare = if cjk { bare.concat() } else { bare.join(" ") };
    let tasted = tokens::tokens(&bare);
    match lexicon::taste(&tasted) {
        Some(taste) if tasted.len() <= 2 => taste.to_owned(),
        _ => {
            let text = normal::name(&joined(tokens));
            let eaten = ["吃", "喝", "eating ", "to eat ", "drinking ", "to drink "]
                .iter()
                .find_map(|verb| text.strip_prefix(verb));
            eaten.filter(|rest| !rest.is_empty()).map_or(text.clone(), normal::name)
        }
    }
}

/// Whether tokens can stand in a slot.
fn slot_fits(slot: Slot, tokens: &[Token]) -> bool {
    match slot {
        Slot::Subject => is_subject(tokens),
        Slot::Object => is_object(tokens),
        Slot::Predicate => {
            tokens.len() <= 5 && !tokens.iter().any(is_mark) && !lexicon::has_unresolved(tokens)
        }
        Slot::Ignored => true,
    }
}

fn is_subject(tokens: &[Token]) -> bool {
    const SUBJECT_TOKENS_MAX: usize = 12;
    let Some(first) = tokens.first() else { return false };
    let text = joined(tokens);
    if tokens.len() > SUBJECT_TOKENS_MAX || lexicon::has_unresolved(tokens) || text == "my" {
        return false;
    }
    if normal::is_chinese(&text) {
        let own = ["我们", "我", "咱们", "咱", "本人"].iter().find_map(|own| text.strip_prefix(own));
        let rest = own.unwrap_or(&text).trim_start_matches('的');
        return match own {
            Some(_) if rest.is_empty() => !text.ends_with('的'),
            Some(_) => lexicon::is_kin(rest) && rest.chars().all(lexicon::in_chinese_subject),
            None => {
                tokens.len() <= 10
                    && text.chars().all(|c| lexicon::in_chinese_subject(c) && c.is_alphanumeric())
            }
        };
    }
    let me = ["i", "we"].contains(&text.as_str());
    let owned = matches!(first.low.as_str(), "my" | "our" | "the") && tokens.len() > 1;
    let joins =
        |token: &Token| is_mark(token) && !matches!(token.low.as_str(), "," | "." | "'" | "-" | "(" | ")");
    let verbs = [
        "is", "are", "was", "were", "am", "'m", "'re", "not", "n't", "do", "does", "did", "have", "has",
        "had",
    ];
    let verb = tokens.iter().any(|token| verbs.contains(&token.low.as_str()));
    me || (owned || first.capital)
        && !verb
        && !tokens.iter().any(joins)
        && first.low != "i"
        && !is_mark(first)
}

fn is_object(tokens: &[Token]) -> bool {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return false };
    if is_mark(first)
        || first.low == "的"
        || is_mark(last) && last.low != ")"
        || lexicon::is_empty_object(tokens)
    {
        return false;
    }
    let vague = ["something", "anything"];
    let named = tokens.iter().filter(|token| !vague.contains(&token.low.as_str()));
    let unresolved = lexicon::has_unresolved(&named.cloned().collect::<Vec<_>>());
    let pairs = tokens.iter().zip(tokens.iter().skip(1));
    let another_clause = pairs.clone().any(|(token, next)| match token.low.as_str() {
        "and" | "then" => clauses::begins_clause(next),
        "but" | "because" | "while" | "although" | "so" | "since" | "when" | "except" | "unless" | "但"
        | "因" => true,
        "," => !next.capital || next.low == "i",
        "，" | "；" | ";" | "(" | "\"" | "“" => true,
        _ => false,
    });
    !unresolved && !another_clause
}

/// Whether what the slots hold is what the rule needs.
fn needs(need: Need, bound: &Bound, clause: &[Token]) -> bool {
    let object = bound.object.clone().map_or(&[][..], |range| &clause[range]);
    let predicate = bound.predicate.clone().map_or(&[][..], |range| &clause[range]);
    let subject = bound.subject.clone().map_or(&[][..], |range| &clause[range]);
    let dated = || object.iter().any(|token| is_date_word(&token.low));
    match need {
        Need::Any => true,
        Need::Diet => lexicon::diet(&joined(object)).is_some(),
        Need::Occupation => object.len() <= 6 && lexicon::is_occupation(object),
        Need::Thing => lexicon::is_thing(object),
        Need::Food => object.len() <= 8,
        Need::Date => dated(),
        Need::NoDate => !dated(),
        Need::Number => {
            matches!(object, [number] if number.low.parse::<f64>().is_ok() || is_chinese_number(&number.low))
                || !object.is_empty()
                    && object.len() <= 3
                    && object.iter().all(|token| is_chinese_number(&token.low))
        }
        Need::Place => {
            lexicon::is_place(object) && !dated() && subject.first().is_none_or(|token| token.low != "the")
        }
        Need::Name => is_name(object),
        Need::Value => is_value(predicate, object),
        Need::Passive => true,
        Need::Verb => named_subject(bound, clause),
    }
}

/// Whether a rule's predicate can be made of these words.
fn predicate_fits(need: Need, predicate: &[Token]) -> bool {
    match (need, predicate) {
        (Need::Passive, [verb, preposition]) => {
            lexicon::is_participle(&verb.low) && is_preposition(&preposition.low)
        }
        (Need::Passive, _) => false,
        (Need::Verb, verb) => lexicon::is_relation(verb),
        _ => true,
    }
}

/// A proper name: in capitals where the script has them, and no description.
fn is_name(object: &[Token]) -> bool {
    let Some(first) = object.first() else { return false };
    let text = joined(object);
    if normal::is_chinese(&text) {
        return object.len() <= 8
            && !lexicon::is_occupation(object)
            && !text.starts_with('一')
            && !text.contains('的');
    }
    first.capital && object.len() <= 5
}

/// Whether a possessive names this as its value. "My wife is a doctor" names no wife.
fn is_value(predicate: &[Token], object: &[Token]) -> bool {
    let Some(first) = object.first() else { return false };
    let numeric = object.iter().any(|token| token.low.contains(|c: char| c.is_numeric()));
    if lexicon::is_no_attribute(predicate) {
        return numeric || first.capital && !matches!(first.low.as_str(), "a" | "an");
    }
    !matches!(first.low.as_str(), "a" | "an" | "very" | "so" | "too" | "not" | "that") || numeric
}

fn is_chinese_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| "零一二三四五六七八九十百两".contains(c))
}

/// Whether the subject is a proper name: every word of it but small ones begins with a capital.
fn named_subject(bound: &Bound, clause: &[Token]) -> bool {
    let small = ["of", "the", "and", "for", "de", "von", "van", "der", "in", "on", "at", "to", "a", "an"];
    let Some(range) = &bound.subject else { return false };
    let subject = &clause[range.clone()];
    subject.iter().all(|token| token.capital || is_mark(token) || small.contains(&token.low.as_str()))
        && subject
            .iter()
            .any(|token| token.capital && token.low != "i" && !small.contains(&token.low.as_str()))
}

fn is_preposition(word: &str) -> bool {
    ["in", "at", "by", "on", "to", "from", "with", "as", "for", "of", "into", "under"].contains(&word)
}

fn is_date_word(word: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    word.contains(|c: char| c.is_numeric()) || MONTHS.contains(&word) || "一二三四五六七八九十".contains(word)
}

#[cfg(test)]
mod tests;
