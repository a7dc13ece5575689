//! The search of one sentence: clause by clause, rule by rule.

use super::Extracted;
use super::Saying;
use super::claims::Turned;
use super::clauses::{self, Clause, Sentence};
use super::lexicon;
use super::pattern::Slot;
use super::rules::Rules;
use super::slots::{predicate_fits, satisfies, slot_fits};
use super::tokens::Token;
use crate::facts::registry::Registry;
use crate::facts::statement::statement;
use crate::limits::STATEMENTS_MAX;
use crate::memory::Statement;

/// The search of one sentence.
pub(super) struct Search<'a> {
    pub(super) text: &'a str,
    pub(super) saying: Saying<'a>,
    pub(super) rules: &'a Rules,
    pub(super) registry: &'a Registry,
    pub(super) sentence: &'a Sentence,
}

impl Search<'_> {
    /// What the sentence states: as one clause, else clause by clause. `None` if it is nothing.
    pub(super) fn run(&self) -> Option<Extracted> {
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
}
