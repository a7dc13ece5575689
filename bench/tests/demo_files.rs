//! The demo's conversation and questions fit together and can be imported.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use holdfast_bench::import::{json_lines, read, utf8};
use holdfast_bench::locomo::AskedQuestion;

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../demo/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_conversation_is_in_order_and_every_turn_is_its_own() {
    let part = read(&file("conversation.jsonl"), "demo", None).unwrap().remove(0);
    let memories: Vec<_> = part.items.into_iter().map(|item| item.memory).collect();
    assert!(memories.len() >= 120, "{}", memories.len());
    let distinct = |values: Vec<&str>| values.into_iter().collect::<BTreeSet<_>>().len();
    // An equal text would be merged, and a question's evidence might be lost with it.
    assert_eq!(distinct(memories.iter().map(|m| m.content.as_str()).collect()), memories.len());
    assert_eq!(distinct(memories.iter().map(|m| m.id.as_deref().unwrap()).collect()), memories.len());
    assert_eq!(distinct(memories.iter().map(|m| m.session.as_deref().unwrap()).collect()), 14);
    let times: Vec<jiff::Timestamp> =
        memories.iter().map(|m| m.event_time.as_deref().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b));
}

#[test]
fn every_question_has_its_evidence_in_the_conversation() {
    let part = read(&file("conversation.jsonl"), "demo", None).unwrap().remove(0);
    let ids: BTreeSet<String> = part.items.into_iter().filter_map(|item| item.memory.id).collect();
    let bytes = file("questions.jsonl");
    let questions = json_lines::<AskedQuestion>(utf8(&bytes).unwrap()).unwrap();
    assert_eq!(questions.len(), 5);
    for (line, question) in &questions {
        assert!(!question.gold.is_empty(), "line {line}");
        assert!(question.gold.iter().all(|id| ids.contains(id)), "line {line}: {:?}", question.gold);
    }
    let chinese = questions.iter().filter(|(_, q)| q.question.contains('？')).count();
    assert_eq!(chinese, 2);
}
