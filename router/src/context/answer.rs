//! The answer: the prompt, what is in it and where that comes from, and what is not and why.

use super::choose::Left;
use super::item::{Item, Source};
use super::pack::Packed;
use super::parse::{Format, Request};
use super::render::Part;
use crate::recall::to_nine_places;
use serde::Serialize;

/// The share of its budget from which on an answer says that the context is nearly full.
const NEARLY_FULL: f64 = 0.75;
const NEARLY_FULL_NAME: &str = "context_75";
/// Says that the session speaks against what is remembered.
const CONFLICT_NAME: &str = "conflict";

#[derive(Serialize)]
pub(super) struct Assembled {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message>>,
    sections: Vec<SectionView>,
    tokens: usize,
    budget_tokens: usize,
    tokenizer: &'static str,
    left_out: Vec<Left>,
    /// How many more were left out than are named.
    left_out_more: u64,
    heartbeat: Vec<&'static str>,
    pub(super) partial: bool,
    pub(super) missing: Vec<u16>,
    pub(super) recall_id: String,
    pub(super) took_us: Took,
    pub(super) token: String,
}

/// Where the time went, in microseconds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Took {
    pub(super) embed: u64,
    /// From the first question to a node until its answer.
    pub(super) search: u64,
    /// Choosing, counting and packing, the wait for a thread included.
    pub(super) assemble: u64,
    pub(super) total: u64,
}

/// A message as chat models take it.
#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: String,
}

#[derive(Serialize)]
struct SectionView {
    name: &'static str,
    tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    items: Vec<ItemView>,
}

#[derive(Serialize)]
struct ItemView {
    id: String,
    #[serde(serialize_with = "to_nine_places")]
    score: f64,
    source: Source,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    possible_conflicts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
}

impl Assembled {
    pub(super) fn new(request: &Request, packed: Packed) -> Self {
        let Packed { rendered, count, tokens, items, left_out, contradicted, .. } = packed;
        let (format, left_out_more) = (request.format, left_out.more());
        let in_parts = format == Format::Sections;
        let mut items = items.into_iter().peekable();
        let mut view = |(part, tokens): (&Part, usize)| {
            let mut of_part = Vec::new();
            while let Some(item) = items.next_if(|item| item.section == part.section) {
                of_part.push(ItemView::from(item));
            }
            let text = rendered.text.get(part.start..part.end).filter(|_| in_parts);
            SectionView { name: part.section.name(), tokens, text: text.map(str::to_owned), items: of_part }
        };
        let sections = rendered.parts.iter().zip(count.parts).map(&mut view).collect();
        let nearly_full = tokens as f64 > NEARLY_FULL * request.budget as f64;
        let heartbeat = [(nearly_full, NEARLY_FULL_NAME), (contradicted, CONFLICT_NAME)];
        let (text, messages) = match format {
            Format::Text => (Some(rendered.text), None),
            Format::Messages if rendered.text.is_empty() => (None, Some(Vec::new())),
            Format::Messages => (None, Some(vec![Message { role: "system", content: rendered.text }])),
            Format::Sections => (None, None),
        };
        Self {
            text,
            messages,
            sections,
            tokens,
            budget_tokens: request.budget,
            tokenizer: request.tokenizer.name(),
            left_out: left_out.first,
            left_out_more,
            heartbeat: heartbeat.into_iter().filter_map(|(is, name)| is.then_some(name)).collect(),
            partial: false,
            missing: Vec::new(),
            recall_id: String::new(),
            took_us: Took::default(),
            token: String::new(),
        }
    }
}

impl From<Item> for ItemView {
    fn from(item: Item) -> Self {
        Self {
            id: item.id,
            score: item.score,
            source: item.source,
            possible_conflicts: item.possible_conflicts,
            why: item.why,
        }
    }
}
