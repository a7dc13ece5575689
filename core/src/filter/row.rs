//! What a filter sees of a memory.

use crate::memory::{IndexRow, Kind};
use serde_json::{Map, Value};
use std::cell::OnceCell;

/// The columns of text that a memory may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextColumn {
    /// Author role.
    Role,
    /// Who said it.
    Speaker,
    /// The conversation.
    Session,
    /// The agent that wrote it.
    Agent,
    /// A label such as `positive`.
    Sentiment,
}

/// A memory as a filter sees it. Columns are read one by one, so an image answers from its arrays
/// without putting a row together.
pub trait FilterRow {
    /// What sort of memory it is.
    fn kind(&self) -> Kind;
    /// A column of text, if the memory has it.
    fn text(&self, column: TextColumn) -> Option<&str>;
    /// 0..=1.
    fn importance(&self) -> f32;
    /// When it was recorded, in microseconds since 1970.
    fn created_us(&self) -> i64;
    /// When what it tells happened, in microseconds since 1970.
    fn event_us(&self) -> i64;
    /// Whether it is never forgotten on purpose.
    fn pinned(&self) -> bool;
    /// Names of the things it mentions.
    fn entities(&self) -> impl Iterator<Item = &str>;
    /// The caller's own fields, parsed at most once for this view of the row.
    fn metadata(&self) -> Option<&Map<String, Value>>;
}

/// The metadata of one row, parsed when first asked for.
#[derive(Debug)]
pub struct Metadata<'a> {
    text: &'a str,
    parsed: OnceCell<Option<Map<String, Value>>>,
}

impl<'a> Metadata<'a> {
    /// Metadata from the row's canonical JSON; empty text is no metadata.
    pub fn new(text: &'a str) -> Self {
        Self { text, parsed: OnceCell::new() }
    }

    /// The fields. None if there are none, or if the text is not an object: writes are refused
    /// with such metadata, so no row has it.
    pub fn get(&self) -> Option<&Map<String, Value>> {
        if self.text.is_empty() {
            return None;
        }
        self.parsed.get_or_init(|| serde_json::from_str(self.text).ok()).as_ref()
    }
}

/// An [`IndexRow`] as a filter sees it.
#[derive(Debug)]
pub struct IndexRowView<'a> {
    row: &'a IndexRow,
    metadata: Metadata<'a>,
}

impl<'a> IndexRowView<'a> {
    /// The view of a row.
    pub fn new(row: &'a IndexRow) -> Self {
        Self { row, metadata: Metadata::new(&row.metadata) }
    }
}

impl FilterRow for IndexRowView<'_> {
    fn kind(&self) -> Kind {
        self.row.kind
    }

    fn text(&self, column: TextColumn) -> Option<&str> {
        let value = match column {
            TextColumn::Role => &self.row.role,
            TextColumn::Speaker => &self.row.speaker,
            TextColumn::Session => &self.row.session,
            TextColumn::Agent => &self.row.agent,
            TextColumn::Sentiment => &self.row.sentiment,
        };
        value.as_deref()
    }

    fn importance(&self) -> f32 {
        self.row.importance
    }

    fn created_us(&self) -> i64 {
        self.row.created_us
    }

    fn event_us(&self) -> i64 {
        self.row.event_us
    }

    fn pinned(&self) -> bool {
        self.row.pinned
    }

    fn entities(&self) -> impl Iterator<Item = &str> {
        self.row.entities.iter().map(String::as_str)
    }

    fn metadata(&self) -> Option<&Map<String, Value>> {
        self.metadata.get()
    }
}
