//! The body of a context: the fields of a recall, and what is to be assembled.

use super::sections::Section;
use crate::http::json::{self, Bounded};
use crate::recall::parse::{Call, Query, recall_body};
use crate::tokenizer::Tokenizer;
use holdfast_core::limits::{CONTEXT_BUDGET_MAX, TOP_K_MAX, check_id};
use holdfast_core::{Error, Result};
use holdfast_proto::v1;
use serde::Deserialize;

/// Most hard constraints of a space that a context can hold.
pub(super) const CONSTRAINTS_MAX: u32 = 1000;
/// Memories that state facts, besides those among the candidates.
const STATING: u32 = 48;
/// Tokens that a short memory takes with its line: by it follows from the budget how many memories are
/// looked at. With 20 the candidates ran out before the budget did (`bench baseline`, train: key
/// recall 97.1% with 106 candidates, 98.7% with 150, 99.0% with 200).
const TOKENS_EACH: u64 = 14;
/// Fewest memories that are looked at.
const CANDIDATES_MIN: u64 = 32;

recall_body!(ContextBody {
    budget_tokens: u64,
    tokenizer: Option<String>,
    sections: Option<Bounded<String, 16>>,
    format: Option<Format>,
    session: Option<String>,
    task: Option<String>,
});

/// The form of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// One text.
    #[default]
    Text,
    /// Messages of a chat.
    Messages,
    /// A text for each section.
    Sections,
}

/// A context, checked.
pub(super) struct Request {
    pub(super) query: Query,
    pub(super) budget: usize,
    pub(super) tokenizer: Tokenizer,
    pub(super) format: Format,
    /// In the order in which they stand.
    pub(super) sections: Vec<Section>,
    /// The conversation that is going on.
    pub(super) session: Option<String>,
    /// The task that the agent is busy with.
    pub(super) task: Option<String>,
    /// No memory scores less. It is applied here, so that the answer can say what it cost.
    pub(super) min_score: Option<f64>,
    pub(super) diversity: f64,
}

impl Request {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let body: ContextBody = json::body(bytes)?;
        let (budget, tokenizer, sections, format, session, task, recall) = body.split();
        let budget = match usize::try_from(budget) {
            Ok(budget) if (1..=CONTEXT_BUDGET_MAX).contains(&budget) => budget,
            _ => {
                let detail = format!("budget_tokens is {budget}; give 1 to {CONTEXT_BUDGET_MAX}");
                return Err(Error::invalid("budget_tokens", detail));
            }
        };
        if let Some(session) = &session {
            check_id("session", session)?;
        }
        if let Some(task) = &task {
            check_id("task", task)?;
        }
        let mut query = Query::of(recall, call(budget))?;
        let asks_how = query.understood.intent() == v1::Intent::Procedural;
        let sections = Section::choose(sections.map(|sections| sections.0), asks_how)?;
        query.beside = Some(v1::Beside {
            constraints: CONSTRAINTS_MAX,
            stating: if sections.contains(&Section::Facts) { STATING } else { 0 },
        });
        Ok(Self {
            budget,
            tokenizer: Tokenizer::from_name(tokenizer.as_deref())?,
            format: format.unwrap_or_default(),
            sections,
            session,
            task,
            min_score: query.min_score.take(),
            diversity: query.diversity.unwrap_or(0.0),
            query,
        })
    }

    /// Whether one of these is asked for.
    pub(super) fn wants(&self, sections: &[Section]) -> bool {
        sections.iter().any(|section| self.sections.contains(section))
    }
}

/// A context needs more candidates than fit into it: some are left out, and short ones fill gaps.
fn call(budget: usize) -> Call {
    let candidates = (budget as u64 / TOKENS_EACH).clamp(CANDIDATES_MIN, u64::from(TOP_K_MAX));
    let top_k_default = u32::try_from(candidates).unwrap_or(TOP_K_MAX);
    Call { needs_query: false, top_k_default, top_k_mobile: top_k_default }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn read(body: Value) -> Result<Request> {
        Request::read(body.to_string().as_bytes())
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let request = read(json!({"budget_tokens": 2000})).unwrap();
        assert_eq!((request.budget, request.format, request.diversity), (2000, Format::Text, 0.0));
        assert_eq!(request.sections, Section::ALL[..8]);
        let how = read(json!({"budget_tokens": 9, "query": "q", "intent": "procedural"})).unwrap();
        assert_eq!(how.sections, Section::ALL);
        assert_eq!(request.tokenizer.name(), "o200k_base");
        assert_eq!(request.query.top_k, 142);
        assert_eq!(read(json!({"budget_tokens": 1})).unwrap().query.top_k, 32);
        assert_eq!(read(json!({"budget_tokens": 1_000_000})).unwrap().query.top_k, 1000);
        assert_eq!(read(json!({"budget_tokens": 9, "top_k": 7})).unwrap().query.top_k, 7);
        let one = read(json!({"budget_tokens": 9, "sections": ["memories"]})).unwrap();
        assert_eq!(one.sections, [Section::Constraints, Section::Memories]);
        assert_eq!(one.query.beside.unwrap().stating, 0);
    }

    #[test]
    fn every_field_is_checked_and_named() {
        for (more, field) in [
            (json!({"budget_tokens": 0}), "budget_tokens"),
            (json!({"budget_tokens": 1_000_001}), "budget_tokens"),
            (json!({"budget_tokens": -1}), "budget_tokens"),
            (json!({"budget_tokens": null}), "budget_tokens"),
            (json!({"tokenizer": "gpt-4o"}), "tokenizer"),
            (json!({"format": "xml"}), "format"),
            (json!({"sections": ["memories", "dreams"]}), "sections[1]"),
            (json!({"sections": []}), "sections"),
            (json!({"session": ""}), "session"),
            (json!({"session": 7}), "session"),
            (json!({"task": ""}), "task"),
            (json!({"query": " "}), "query"),
            (json!({"diversity": 1.5}), "diversity"),
            (json!({"diversity": -0.1}), "diversity"),
            (json!({"collections": ["products", ""]}), "collections[1]"),
            (json!({"min_score": 7}), "min_score"),
            (json!({"user": "bob"}), "user"),
        ] {
            let mut body = json!({"budget_tokens": 100});
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            let error = read(body).err().unwrap();
            assert_eq!(error.field.as_deref(), Some(field), "{more}: {}", error.detail);
        }
        let missing = read(json!({"query": "q"})).err().unwrap();
        assert_eq!(missing.field.as_deref(), Some("budget_tokens"));
        let unknown = read(json!({"budget_tokens": 9, "sections": ["dreams"]})).err().unwrap();
        for section in Section::ALL {
            assert!(unknown.detail.contains(section.name()), "{}", unknown.detail);
        }
    }
}
