//! What a rule that fits makes of a clause.

use super::cues;
use super::lexicon::{self, joined};
use super::pattern::Bound;
use super::rules::{Act, Need, Rule};
use super::search::Search;
use super::slots::is_date;
use super::tokens::{self, Token};
use crate::facts::normal;
use crate::facts::registry::{Arity, RULES_VERSION};
use crate::facts::statement::Claim;
use crate::memory::{Fact, Mode};
use std::ops::Range;

/// How a clause was turned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    Not,
    NoLonger,
}

impl Search<'_> {
    pub(super) fn claims(
        &self,
        rule: &Rule,
        bound: &Bound,
        clause: &[Token],
        turned: Option<Turned>,
    ) -> Option<Vec<Claim>> {
        if turned.is_some() && matches!(rule.act, Act::Eaten | Act::Wish | Act::Inverse) {
            return None;
        }
        // What harms is not over because somebody says or dreams so.
        if turned.is_some() && rule.importance >= 1.0 && lexicon::is_hearsay(&self.sentence.tokens) {
            return None;
        }
        let subject =
            bound.subject.clone().map_or_else(|| "I".to_owned(), |range| self.shown(clause, &range));
        let predicate = self.predicate(rule, bound, clause);
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

    /// The predicate: the rule's own, with the words of the slots where it has marks for them.
    fn predicate(&self, rule: &Rule, bound: &Bound, clause: &[Token]) -> String {
        let mut predicate = if rule.predicate.is_empty() { "*".to_owned() } else { rule.predicate.clone() };
        for (mark, range) in [('*', &bound.predicate), ('^', &bound.verb), ('~', &bound.kind)] {
            if let Some(range) = range {
                predicate = predicate.replace(mark, &self.shown(clause, range));
            }
        }
        // "Founded in 1990" says nothing of what is "founded in Ulm".
        let relation = matches!(rule.need, Need::Passive | Need::Verb)
            && (predicate.ends_with(" in") || predicate.ends_with(" on"));
        if relation && bound.object.as_ref().is_some_and(|range| is_date(&clause[range.clone()])) {
            predicate.push_str(" date");
        }
        predicate
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
