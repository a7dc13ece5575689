//! The result as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::flat::FlatRun;
use super::holdfast::HoldfastRun;
use super::params::{PUBLISHED_FLAT, PUBLISHED_TARGET, Parameters, Published, Scale, TOLERANCE};
use super::score::{Group, Tally};
use super::texts::Phrasings;
use crate::load::Machine;

/// Figures of one arm; shares are fractions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arm {
    /// Mean tokens of the prompt's memory part when a session opens.
    pub tokens_per_session: f64,
    /// Tokens of the largest one.
    pub tokens_max: usize,
    /// Share of the wanted key memories that were there.
    pub key_recall: f64,
    /// Share of superseded ones among the key memories that were there.
    pub stale_contamination: f64,
    /// Median time to the context.
    pub context_p50_ms: f64,
    /// 99th percentile of it.
    pub context_p99_ms: f64,
    /// Time to store all turns.
    pub ingest_s: f64,
    /// Questions asked.
    pub questions: usize,
    /// Memories of other users in answers.
    pub leaks: usize,
    /// By language and by kind of question.
    pub groups: BTreeMap<String, Group>,
}

impl Arm {
    /// The figures of a whole run.
    pub fn new(tally: &Tally, ingest_s: f64) -> Self {
        Self {
            tokens_per_session: tally.tokens_per_session(),
            tokens_max: tally.tokens_max,
            key_recall: tally.all.key_recall(),
            stale_contamination: tally.all.stale_contamination(),
            context_p50_ms: tally.percentile_ms(0.5),
            context_p99_ms: tally.percentile_ms(0.99),
            ingest_s,
            questions: tally.all.questions,
            leaks: tally.leaks,
            groups: tally.groups(),
        }
    }

    /// The figures that this flat arm misses the published ones by more than the tolerance in.
    pub fn off_the_published(&self) -> Vec<String> {
        [
            ("tokens_per_session", self.tokens_per_session, PUBLISHED_FLAT.tokens_per_session),
            ("key_recall", self.key_recall, PUBLISHED_FLAT.key_recall),
            ("stale_contamination", self.stale_contamination, PUBLISHED_FLAT.stale_contamination),
        ]
        .into_iter()
        .filter(|(_, measured, published)| (measured / published - 1.0).abs() > TOLERANCE)
        .map(|(name, measured, published)| format!("{name} {measured:.3} (published {published})"))
        .collect()
    }
}

/// One budget of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Most tokens.
    pub budget_tokens: usize,
    /// Mean tokens used.
    pub tokens_per_session: f64,
    /// As in [`Arm`].
    pub key_recall: f64,
    /// As in [`Arm`].
    pub stale_contamination: f64,
}

/// A curve of an arm.
pub fn curve(runs: &[(usize, Tally)]) -> Vec<Point> {
    runs.iter()
        .map(|(budget, tally)| Point {
            budget_tokens: *budget,
            tokens_per_session: tally.tokens_per_session(),
            key_recall: tally.all.key_recall(),
            stale_contamination: tally.all.stale_contamination(),
        })
        .collect()
}

/// Curves over token budgets.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Curves {
    /// The holdfast arm.
    pub holdfast: Vec<Point>,
    /// For reference: the turns that the plain cosine ranks first, in the same budgets.
    pub plain_cosine: Vec<Point>,
    /// The same of the user's own turns alone, which is what the holdfast arm asks for.
    pub plain_cosine_users_turns: Vec<Point>,
}

/// Both published rows.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PublishedRows {
    /// The baseline.
    pub flat: Published,
    /// What is to be reached.
    pub target: Published,
}

/// How a run was set up.
#[derive(Debug, Clone, Serialize)]
pub struct Setup {
    /// Seed of the workload.
    pub seed: u64,
    /// Set of phrasings.
    pub phrasings: Phrasings,
    /// Size by name.
    pub scale: Scale,
    /// Users.
    pub users: usize,
    /// Turns of all users.
    pub turns: usize,
    /// SHA-256 of dialogues and labels.
    pub workload_sha256: String,
    /// What the generator was told.
    pub parameters: Parameters,
    /// Version of Holdfast.
    pub version: &'static str,
    /// Token counter.
    pub tokenizer: &'static str,
    /// Embedding model of both arms.
    pub embedder: String,
    /// Most tokens of a context of the holdfast arm.
    pub budget_tokens: usize,
    /// Scoring profile of the holdfast arm.
    pub profile: String,
    /// Whether the cluster was started for this run, on this machine.
    pub own_cluster: bool,
    /// The machine.
    pub machine: Machine,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// How it was set up.
    #[serde(flatten)]
    pub setup: Setup,
    /// The flat arm.
    pub flat: Arm,
    /// The holdfast arm, unless only the flat one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holdfast: Option<Arm>,
    /// Over budgets.
    pub curves: Curves,
    /// The published figures.
    pub published: PublishedRows,
}

impl Outcome {
    /// Puts the result of a run together.
    pub fn new(setup: Setup, flat: &FlatRun, holdfast: Option<&HoldfastRun>) -> Self {
        Self {
            setup,
            flat: Arm::new(&flat.tally, flat.ingest_s),
            holdfast: holdfast.map(|run| Arm::new(&run.tally, run.ingest_s)),
            curves: Curves {
                holdfast: holdfast.map(|run| curve(&run.within_budget)).unwrap_or_default(),
                plain_cosine: curve(&flat.within_budget),
                plain_cosine_users_turns: curve(&flat.users_turns_within_budget),
            },
            published: PublishedRows { flat: PUBLISHED_FLAT, target: PUBLISHED_TARGET },
        }
    }
}

/// What the report shows of the result of another seed.
#[derive(Debug, Clone, Deserialize)]
pub struct Earlier {
    /// Its seed.
    pub seed: u64,
    /// Its set of phrasings.
    pub phrasings: Phrasings,
    /// Its users.
    pub users: usize,
    /// Its flat arm.
    pub flat: Arm,
    /// Its holdfast arm.
    pub holdfast: Arm,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::baseline::score::Counts;
    use crate::baseline::texts::Language;
    use crate::baseline::workload::Scope;

    fn arm(tokens: usize, found: usize, stale: usize) -> Arm {
        let mut tally = Tally::default();
        let counts = Counts { questions: 1, recalls: found as f64 / 1e3, current: 1000 - stale, stale };
        tally.add(counts, Language::En, Scope::Slot, tokens);
        Arm::new(&tally, 0.0)
    }

    #[test]
    fn the_published_baseline_may_be_missed_by_fifteen_percent() {
        assert_eq!(arm(8420, 624, 286).off_the_published(), Vec::<String>::new());
        assert_eq!(arm(8420 * 114 / 100, 540, 325).off_the_published(), Vec::<String>::new());
        let off = arm(8420 * 116 / 100, 500, 200).off_the_published();
        assert_eq!(off.len(), 3, "{off:?}");
        assert!(off[0].starts_with("tokens_per_session"));
    }
}
