//! From answers to figures.

use super::asked::Answered;
use super::dataset::{Case, Dataset, Expected, Tier, UNIVERSAL};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Beliefs that were stored.
    pub beliefs: usize,
    /// Cases that were asked.
    pub cases: usize,
    /// Those of which every part is as expected.
    pub passed: usize,
    /// Cases that expect relevant beliefs, and those of them that got these and no other.
    pub active: usize,
    /// See `active`.
    pub active_passed: usize,
    /// Cases that expect no relevant belief, and those of them that got none.
    pub empty: usize,
    /// See `empty`.
    pub empty_passed: usize,
    /// Over the active cases: share of what came that was expected; 0 where nothing came.
    pub precision: f64,
    /// Over the active cases: share of what was expected that came.
    pub recall: f64,
    /// Answers that held what is another user's or of another scope.
    pub leaked: usize,
    /// Superseded beliefs in answers.
    pub stale: usize,
    /// Superseded beliefs whose own words were asked for.
    pub superseded: usize,
    /// Those of them that stayed away while what supersedes them last came.
    pub superseded_right: usize,
    /// Of the recalls of relevant beliefs, as the client saw them.
    pub latency: Latency,
    /// Passed and asked, by category.
    pub categories: BTreeMap<String, (usize, usize)>,
    /// Cases that did not pass.
    pub failed: Vec<CaseReport>,
}

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Recalls.
    pub count: usize,
    /// Half of them are no slower.
    pub p50_ms: f64,
    /// 95 of 100 are no slower.
    pub p95_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// A case that did not pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseReport {
    /// Which.
    pub case: String,
    /// The parts that are not as expected.
    pub parts: Vec<&'static str>,
    /// The relevant beliefs that were expected, if that was said.
    pub expected: Option<BTreeSet<String>>,
    /// Those that came, the best first.
    pub came: Vec<String>,
}

/// Counts on the way.
#[derive(Debug, Default)]
pub(super) struct Counts {
    report: Report,
    precision: f64,
    recall: f64,
    times: Vec<Duration>,
}

impl Counts {
    pub(super) fn case(&mut self, data: &Dataset, case: &Case, answered: &Answered) {
        let Expected { persona_prelude, pinned_facts, relevant_beliefs, open_questions } = &case.expect;
        let parts = [
            ("personaPrelude", fits(persona_prelude, &answered.persona, &answered.persona_text)),
            ("pinnedFacts", fits(pinned_facts, &answered.pinned, "")),
            ("relevantBeliefs", fits(relevant_beliefs, &answered.relevant, "")),
            ("openQuestions", fits(open_questions, &answered.questions, "")),
        ];
        let wrong: Vec<&'static str> =
            parts.into_iter().filter_map(|(name, fits)| (!fits).then_some(name)).collect();
        let report = &mut self.report;
        report.cases += 1;
        let of_category = report.categories.entry(case.category.clone()).or_default();
        of_category.1 += 1;
        if wrong.is_empty() {
            report.passed += 1;
            of_category.0 += 1;
        }
        let came: BTreeSet<&String> = answered.relevant.iter().collect();
        match &relevant_beliefs.should_only_include {
            Some(expected) if expected.is_empty() => {
                report.empty += 1;
                report.empty_passed += usize::from(came.is_empty());
            }
            Some(expected) => {
                let right = expected.iter().filter(|id| came.contains(id)).count();
                report.active += 1;
                report.active_passed += usize::from(right == expected.len() && right == came.len());
                self.precision += right as f64 / came.len().max(1) as f64;
                self.recall += right as f64 / expected.len() as f64;
            }
            None => {}
        }
        if !wrong.is_empty() {
            let expected = relevant_beliefs.should_only_include.clone();
            let (case, came) = (case.case_id.clone(), answered.relevant.clone());
            report.failed.push(CaseReport { case, parts: wrong, expected, came });
        }
        self.times.extend(answered.took);
        let user = case.user_id.as_deref().unwrap_or_else(|| data.user());
        let universal = [UNIVERSAL.to_owned()];
        self.leaks(data, user, &universal, &answered.persona);
        for ids in [&answered.pinned, &answered.relevant, &answered.questions] {
            self.leaks(data, user, &case.scope, ids);
        }
    }

    /// Counts what must be in no answer to this user in this scope.
    fn leaks(&mut self, data: &Dataset, user: &str, scope: &[String], ids: &[String]) {
        for id in ids {
            let belief = data.belief(id);
            let own = belief.is_some_and(|belief| {
                belief.user_id == user && belief.scope.iter().any(|of| scope.contains(of))
            });
            self.report.leaked += usize::from(!own);
            self.report.stale += usize::from(belief.is_some_and(|belief| belief.superseded_by.is_some()));
        }
    }

    /// The answer to the words of a superseded belief.
    pub(super) fn superseded(
        &mut self,
        data: &Dataset,
        user: &str,
        scope: &[String],
        by: &str,
        came: &[String],
    ) {
        self.leaks(data, user, scope, came);
        let stale =
            came.iter().any(|id| data.belief(id).is_some_and(|belief| belief.superseded_by.is_some()));
        self.report.superseded += 1;
        self.report.superseded_right += usize::from(!stale && came.iter().any(|id| id == by));
    }

    pub(super) fn report(self, beliefs: usize) -> Report {
        let Self { mut report, precision, recall, mut times } = self;
        let active = report.active.max(1) as f64;
        (report.beliefs, report.precision, report.recall) = (beliefs, precision / active, recall / active);
        times.sort_unstable();
        let at = |share: f64| {
            let place = (times.len() as f64 * share).ceil() as usize;
            times.get(place.saturating_sub(1)).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        report.latency = Latency { count: times.len(), p50_ms: at(0.5), p95_ms: at(0.95), max_ms: at(1.0) };
        report
    }
}

/// Whether a part is as expected.
fn fits(expected: &Tier, ids: &[String], text: &str) -> bool {
    let came: BTreeSet<&String> = ids.iter().collect();
    let text = text.to_lowercase();
    let holds = |word: &String| text.contains(&word.to_lowercase());
    expected.must_include.iter().all(|id| came.contains(id))
        && !expected.must_exclude.iter().any(|id| came.contains(id))
        && expected
            .should_only_include
            .as_ref()
            .is_none_or(|only| only.iter().collect::<BTreeSet<_>>() == came)
        && (!expected.non_empty || !came.is_empty())
        && (!expected.is_null || came.is_empty())
        && expected.contains.iter().all(holds)
        && !expected.must_not_contain.iter().any(holds)
}
