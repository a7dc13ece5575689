use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;

/// One list of facts with its questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Such as `factconsolidation_sh_6k`.
    pub name: String,
    /// The facts in their order, later ones newer.
    pub facts: Vec<String>,
    /// The questions about facts that changed.
    pub questions: Vec<Question>,
}

/// A question about a fact that has an older version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub(super) text: String,
    /// Place of the newest version among the facts.
    pub(super) current: usize,
    /// The sentences of its older versions.
    pub(super) stale: BTreeSet<String>,
}

/// The single-hop cases of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// In the order of the file.
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
struct RawCase {
    context: String,
    questions: Vec<String>,
    answers: Vec<Vec<String>>,
    metadata: RawMetadata,
}

#[derive(Deserialize)]
struct RawMetadata {
    qa_pair_ids: Vec<String>,
}

impl Dataset {
    /// Reads a file of cases; those with several hops are left out.
    ///
    /// # Errors
    /// If it is no such file, or has no single-hop case.
    pub fn parse(text: &str) -> Result<Self> {
        let raw: Vec<RawCase> = serde_json::from_str(text).context("this is no FactConsolidation file")?;
        let mut cases = Vec::new();
        for case in raw {
            let id = case.metadata.qa_pair_ids.first().map(String::as_str).unwrap_or_default();
            let name = id.rsplit_once("_no").map_or(id, |(name, _)| name).to_owned();
            if name.contains("_sh_") {
                ensure!(case.questions.len() == case.answers.len(), "{name}: a question has no answer");
                cases.push(read(name, case));
            }
        }
        ensure!(!cases.is_empty(), "the file has no single-hop case");
        Ok(Self { cases })
    }
}

fn read(name: String, raw: RawCase) -> Case {
    let facts: Vec<String> = raw.context.lines().filter_map(fact).collect();
    let each = raw.questions.into_iter().zip(raw.answers);
    let questions = each.filter_map(|(text, answers)| question(text, &answers, &facts)).collect();
    Case { name, facts, questions }
}

/// The sentence of a line such as `17. The capital of X is Y.`
fn fact(line: &str) -> Option<String> {
    let (number, sentence) = line.split_once(". ")?;
    let numbered = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (numbered && !sentence.trim().is_empty()).then(|| sentence.trim().to_owned())
}

/// The fact that answers a question: the last of those that end in an answer and share most words
/// with the question in front of it. `None` if it has no older version, which is one that begins
/// with the same words.
fn question(text: String, answers: &[String], facts: &[String]) -> Option<Question> {
    let asked = words(&text);
    let mut best: Option<(usize, usize, &str)> = None;
    for (at, sentence) in facts.iter().enumerate() {
        let Some(stem) = answers.iter().find_map(|answer| stem(sentence, answer)) else { continue };
        let shared = words(stem).intersection(&asked).count();
        if best.is_none_or(|(most, _, _)| shared >= most) {
            best = Some((shared, at, stem));
        }
    }
    let (_, current, stem) = best?;
    let stale: BTreeSet<String> = facts[..current]
        .iter()
        .filter(|other| other.starts_with(stem) && **other != facts[current])
        .cloned()
        .collect();
    (!stale.is_empty()).then_some(Question { text, current, stale })
}

/// What stands in front of the answer at the end of a sentence.
fn stem<'a>(sentence: &'a str, answer: &str) -> Option<&'a str> {
    let bare = sentence.trim_end_matches('.');
    let answer = answer.trim_end_matches('.');
    let at = bare.len().checked_sub(answer.len())?;
    let end = bare.get(at..)?;
    (!answer.is_empty() && end.eq_ignore_ascii_case(answer) && at > 0).then(|| &bare[..at])
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_changed_facts_of_one_hop_are_asked_for() {
        let case = |id: &str| {
            serde_json::json!({
                "context": "Here is a list of facts:\n0. The capital of Ulm is Oldtown.\n1. Bo speaks Dutch.\n\
                            2. The capital of Ulm is Newtown.\n3. The capital of Jena is Newtown.",
                "questions": ["What is the capital of Ulm?", "What does Bo speak?", "Who knows?"],
                "answers": [["Newtown"], ["Dutch"], ["nobody"]],
                "metadata": {"qa_pair_ids": [format!("factconsolidation_{id}_no0")]},
            })
        };
        let file = serde_json::json!([case("mh_6k"), case("sh_6k")]).to_string();
        let data = Dataset::parse(&file).unwrap();
        assert_eq!(data.cases.len(), 1);
        let case = &data.cases[0];
        assert_eq!((case.name.as_str(), case.facts.len()), ("factconsolidation_sh_6k", 4));
        assert_eq!(case.questions.len(), 1);
        assert_eq!(case.questions[0].current, 2);
        assert_eq!(case.questions[0].stale, BTreeSet::from(["The capital of Ulm is Oldtown.".to_owned()]));
        assert!(Dataset::parse("[]").is_err() && Dataset::parse("{}").is_err());
    }
}
