//! The search of one sentence: clause by clause, rule by rule.

use super::Extracted;
use super::Saying;
use super::claims::Turned;
use super::clauses::{Clause, Sentence, Supposed};
use super::negations::negations;
use super::pattern::Slot;
use super::rules::{Act, Need, Rule, Rules};
use super::slots::{predicate_fits, satisfies, slot_fits};
use super::tokens::Token;
use super::{health, lexicon};
use crate::facts::constraint::binds;
use crate::facts::registry::Registry;
use crate::facts::statement::statement;
use crate::limits::STATEMENTS_MAX;
use crate::memory::{HARD_CONSTRAINT, Statement};

/// The importance of what ends a hard constraint: it binds nobody by itself.
const ENDED_CONSTRAINT: f32 = 0.9;

/// The search of one sentence.
pub(super) struct Search<'a> {
    pub(super) text: &'a str,
    pub(super) saying: Saying<'a>,
    pub(super) rules: &'a Rules,
    pub(super) registry: &'a Registry,
    pub(super) sentence: &'a Sentence,
    pub(super) supposed: Supposed,
}

impl Search<'_> {
    /// What the sentence states: as one clause, else clause by clause. `None` if it is nothing.
    pub(super) fn run(&self) -> Option<Extracted> {
        if self.supposed == Supposed::Yes || !self.sentence.is_statement() {
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
        self.said(&clause.tokens).or_else(|| self.said(&lexicon::without_time(&clause.tokens)?))
    }

    fn said(&self, clause: &[Token]) -> Option<Extracted> {
        if let Some(found) = self.positive(clause, None) {
            return Some(found);
        }
        negations(clause).into_iter().find_map(|(positive, turned)| {
            let turned = match turned {
                Turned::Not if self.sentence.says_no_longer => Turned::NoLonger,
                turned => turned,
            };
            self.positive(&positive, Some(turned))
        })
    }

    /// The first rule that fits and gives a statement.
    fn positive(&self, clause: &[Token], turned: Option<Turned>) -> Option<Extracted> {
        self.rules.rules.iter().find_map(|rule| {
            let fits = |slot, tokens: &[Token]| {
                slot_fits(rule.need, slot, tokens)
                    && (slot != Slot::Predicate || predicate_fits(rule.need, tokens))
            };
            let bound = rule.pattern.matches(clause, &fits)?;
            if !satisfies(rule.need, &bound, clause) {
                return None;
            }
            let claims = self.claims(rule, &bound, clause, turned)?;
            let made =
                claims.into_iter().filter_map(|claim| statement(claim, self.saying.who, self.registry));
            let statements: Vec<Statement> = made.take(STATEMENTS_MAX).collect();
            let importance = importance(rule, turned, &statements);
            let says_more = says_more(rule, &self.sentence.tokens);
            // Of a list some may be known, and others not.
            let named = bound.object.clone().map_or(0, |range| health::pieces(&clause[range]).len());
            let is_more = rule.need.is_of_harm() && named > statements.len();
            let believed = self.supposed == Supposed::No || importance < HARD_CONSTRAINT;
            (believed && !statements.is_empty()).then_some(Extracted {
                statements,
                whole: !says_more && !is_more,
                importance: Some(importance),
            })
        })
    }
}

/// How important it is what a rule has found: what binds, and is not the mere end of something, is a hard constraint.
fn importance(rule: &Rule, turned: Option<Turned>, statements: &[Statement]) -> f32 {
    let hard = statements.iter().any(binds);
    let denied = rule.act == Act::Denied || turned.is_some_and(|turned| turned != Turned::NoLonger);
    match rule.importance {
        own if own >= HARD_CONSTRAINT && !hard => ENDED_CONSTRAINT,
        _ if denied && hard => HARD_CONSTRAINT,
        own => own,
    }
}

/// Whether a sentence says more than the statement that a rule makes of it: how much of a medicine, and how often,
/// must not be lost because the same medicine was told of before.
fn says_more(rule: &Rule, sentence: &[Token]) -> bool {
    match rule.need {
        Need::Medicine => health::says_how_much(sentence),
        Need::Rescue => true,
        _ => false,
    }
}
