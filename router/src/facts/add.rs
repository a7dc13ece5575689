//! `POST …/facts`: facts without a text of their own. Each is a memory that says it in its words.

use crate::auth::InSpace;
use crate::http::Body;
use crate::http::json::{self, Bounded};
use crate::http::problem::Answer;
use crate::http::write::WriteHead;
use crate::memories::ItemResult;
use crate::memories::add::{added, store};
use crate::shared::Shared;
use axum::extract::State;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::limits::PARTIAL_ITEMS_MAX;
use holdfast_core::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FactsBody {
    facts: Bounded<Map<String, Value>, PARTIAL_ITEMS_MAX>,
    #[serde(default)]
    partial: bool,
}

/// Fields of an item that are the memory's, not the fact's.
const OF_MEMORY: [&str; 7] = ["id", "content", "event_time", "session", "source", "metadata", "importance"];

pub(crate) async fn add(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let memories = memories(&body)?;
    let stored = store(&shared, &access, &place, &identity, memories.into()).await;
    let named = stored.map(|(results, seen)| (results.into_iter().map(of_fact).collect(), seen));
    let named = named.map_err(|mut problem| {
        problem.error = error_of_fact(problem.error);
        problem
    });
    added(&access, &identity, named)
}

/// An error in the words of this call: its items are facts, whose fields stand at the top.
fn error_of_fact(mut error: Error) -> Error {
    error.field = error.field.map(|field| words_of_fact(&field));
    error.detail = words_of_fact(&error.detail);
    error
}

fn of_fact(mut item: ItemResult) -> ItemResult {
    item.field = item.field.map(|field| words_of_fact(&field));
    item.reason = item.reason.map(|reason| words_of_fact(&reason));
    item
}

/// `memories[3].fact.subject` is `facts[3].subject` here.
fn words_of_fact(text: &str) -> String {
    if text == "memories" {
        return "facts".to_owned();
    }
    let text = text.replace("memories[", "facts[").replace("].fact.", "].");
    let bare = text.strip_prefix("fact.").map(str::to_owned);
    bare.unwrap_or_else(|| text.strip_suffix("].fact").map(|item| format!("{item}]")).unwrap_or(text))
}

/// The body of the same request for memories.
fn memories(bytes: &[u8]) -> Result<Vec<u8>> {
    let body: FactsBody = json::body(bytes)?;
    if body.facts.0.is_empty() {
        return Err(Error::invalid("facts", "facts is empty; give at least one"));
    }
    let mut memories = Vec::with_capacity(body.facts.0.len());
    for mut fact in body.facts.0 {
        let mut memory = Map::new();
        for field in OF_MEMORY {
            if let Some(value) = fact.remove(field) {
                memory.insert(field.to_owned(), value);
            }
        }
        if !memory.contains_key("content") {
            memory.insert("content".into(), Value::String(words(&fact)));
        }
        memory.insert("fact".into(), Value::Object(fact));
        memories.push(Value::Object(memory));
    }
    Ok(json!({ "memories": memories, "infer": "none", "partial": body.partial }).to_string().into_bytes())
}

/// Subject, predicate and object as a sentence; Chinese without spaces.
fn words(fact: &Map<String, Value>) -> String {
    let part = |name: &str| match fact.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => String::new(),
    };
    let parts = ["subject", "predicate", "object"].map(part);
    let chinese = holdfast_core::facts::normal::is_chinese(&parts[1]);
    parts.join(if chinese { "" } else { " " })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn errors_name_the_fact() {
        for (field, named) in [
            ("memories[3].fact.subject", "facts[3].subject"),
            ("memories[0].fact", "facts[0]"),
            ("memories[0].id", "facts[0].id"),
            ("fact.object", "object"),
            ("memories", "facts"),
            ("Idempotency-Key", "Idempotency-Key"),
        ] {
            assert_eq!(words_of_fact(field), named);
        }
    }

    #[test]
    fn a_fact_becomes_a_memory_that_says_it() {
        let body = json!({"facts": [
            {"subject": "Ann", "predicate": "lives in", "object": "Ulm", "session": "s"},
            {"subject": "小明", "predicate": "住在", "object": "北京"},
            {"subject": "X", "predicate": "is", "object": 7, "content": "own words"},
        ]});
        let made: Value = serde_json::from_slice(&memories(body.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(made["memories"][0]["content"], "Ann lives in Ulm");
        assert_eq!(made["memories"][0]["session"], "s");
        assert_eq!(made["memories"][0]["fact"]["object"], "Ulm");
        assert_eq!(made["memories"][1]["content"], "小明住在北京");
        assert_eq!(made["memories"][2]["content"], "own words");
        for (body, field) in [(json!({"facts": []}), "facts"), (json!({"facts": [], "x": 1}), "x")] {
            assert_eq!(memories(body.to_string().as_bytes()).unwrap_err().field.as_deref(), Some(field));
        }
    }
}
