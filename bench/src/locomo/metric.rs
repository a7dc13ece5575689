//! Evidence recall: of the turns that prove the answer, how many are among the first k.

use std::collections::BTreeMap;

use serde::Serialize;

/// The cut-offs that are reported.
pub const CUTOFFS: [usize; 3] = [5, 10, 20];

/// What recall answered for one question.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    /// Position of the conversation in the file, from 0.
    pub conversation: usize,
    /// The question's category, 1..5.
    pub category: u8,
    /// Ids of the evidence, each once; never empty.
    pub gold: Vec<String>,
    /// Ids recalled, best first.
    pub recalled: Vec<String>,
}

impl Answered {
    /// |gold found in the first k| / |gold|.
    fn recall_at(&self, k: usize) -> f64 {
        let first = &self.recalled[..k.min(self.recalled.len())];
        let found = self.gold.iter().filter(|id| first.contains(id)).count();
        found as f64 / self.gold.len() as f64
    }
}

/// The mean evidence recall of a group of questions, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measure {
    /// Questions in the group that have evidence.
    pub questions: usize,
    /// Within the first 5.
    pub recall_at_5: f64,
    /// Within the first 10.
    pub recall_at_10: f64,
    /// Within the first 20.
    pub recall_at_20: f64,
}

impl Measure {
    /// An empty group measures 0 of 0 questions.
    fn of<'a>(answers: impl Iterator<Item = &'a Answered> + Clone) -> Self {
        let questions = answers.clone().count();
        let mean = |k| {
            let sum: f64 = answers.clone().map(|a| a.recall_at(k)).sum();
            100.0 * sum / questions.max(1) as f64
        };
        let [at_5, at_10, at_20] = CUTOFFS.map(mean);
        Self { questions, recall_at_5: at_5, recall_at_10: at_10, recall_at_20: at_20 }
    }
}

/// What was not measured, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Conversations imported.
    pub conversations: usize,
    /// Turns imported, one memory each.
    pub memories: usize,
    /// Turns whose text was in the same conversation before; found under the first one's id.
    pub memories_merged: usize,
    /// Questions without any valid evidence: left out of every mean.
    pub questions_without_evidence: usize,
    /// Evidence strings that name no turn.
    pub evidence_unresolved: usize,
}

/// The result of `holdfast bench locomo`, as written by `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Scoring profile of every recall.
    pub profile: String,
    /// Number of memories asked for.
    pub top_k: u32,
    /// By group: `category_1` .. `category_5`, `all_1_4`, `tuned_on` (the first five
    /// conversations, categories 1-4) and `held_out` (the others, categories 1-4).
    #[serde(flatten)]
    pub groups: BTreeMap<String, Measure>,
    /// What was not measured.
    pub counts: Counts,
    /// Duration of the import, seconds.
    pub import_s: f64,
    /// Duration of all questions, seconds.
    pub questions_s: f64,
}

/// Conversations at the start of the file on which constants may be tuned.
pub(super) const TUNED_ON: usize = 5;

/// All groups of the report.
pub(super) fn groups(answers: &[Answered]) -> BTreeMap<String, Measure> {
    let mut groups = BTreeMap::new();
    for category in 1..=5 {
        let measure = Measure::of(answers.iter().filter(|a| a.category == category));
        groups.insert(format!("category_{category}"), measure);
    }
    let answerable = || answers.iter().filter(|a| (1..=4).contains(&a.category));
    groups.insert("all_1_4".to_owned(), Measure::of(answerable()));
    groups.insert("tuned_on".to_owned(), Measure::of(answerable().filter(|a| a.conversation < TUNED_ON)));
    groups.insert("held_out".to_owned(), Measure::of(answerable().filter(|a| a.conversation >= TUNED_ON)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(conversation: usize, category: u8, gold: &[&str], recalled: &[&str]) -> Answered {
        let own = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Answered { conversation, category, gold: own(gold), recalled: own(recalled) }
    }

    #[test]
    fn recall_counts_the_gold_within_the_cutoff() {
        let seven = ["a", "x", "x1", "x2", "x3", "b", "x4"];
        let answers = [
            answered(0, 1, &["a", "b"], &seven), // half within 5, all within 10
            answered(0, 1, &["c"], &seven),      // never
            answered(7, 4, &["x"], &seven),      // at once
            answered(7, 5, &["a"], &[]),         // nothing recalled
        ];
        let groups = groups(&answers);
        let one = groups["category_1"];
        assert_eq!((one.questions, one.recall_at_5), (2, 25.0));
        assert_eq!((one.recall_at_10, one.recall_at_20), (50.0, 50.0));
        assert_eq!(groups["category_5"].recall_at_20, 0.0);
        assert_eq!(groups["category_2"], Measure::default());
        let all = groups["all_1_4"];
        assert_eq!((all.questions, all.recall_at_5), (3, 50.0));
        assert_eq!(groups["tuned_on"].questions, 2);
        assert_eq!(groups["held_out"].questions, 1);
        assert_eq!(groups["held_out"].recall_at_5, 100.0);
    }

    #[test]
    fn the_json_has_the_promised_names() {
        let report = Report {
            profile: "relevance".to_owned(),
            top_k: 20,
            groups: groups(&[]),
            counts: Counts::default(),
            import_s: 0.0,
            questions_s: 0.0,
        };
        let json = serde_json::to_value(&report).unwrap_or_default();
        for name in ["category_1", "category_5", "all_1_4", "held_out", "tuned_on"] {
            for k in CUTOFFS {
                assert!(json[name][format!("recall_at_{k}")].is_number(), "{name} {k}");
            }
            assert!(json[name]["questions"].is_number());
        }
    }
}
