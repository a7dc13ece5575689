//! What a filter sees of a memory.

use super::path;
use crate::memory::{IndexRow, Kind};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

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
    /// One of the caller's own fields, by its path ([module](super)).
    fn metadata(&self, path: &str) -> Option<Cow<'_, Value>>;
}

/// The metadata of one row. The first field that is asked for is read from the text; a second one is worth parsing all
/// of it, once.
#[derive(Debug)]
pub struct Metadata<'a> {
    text: &'a str,
    asked: Cell<bool>,
    parsed: OnceCell<Option<Map<String, Value>>>,
}

impl<'a> Metadata<'a> {
    /// Metadata from the row's canonical JSON; empty text is no metadata.
    pub fn new(text: &'a str) -> Self {
        Self { text, asked: Cell::new(false), parsed: OnceCell::new() }
    }

    /// The field at a path. None if there is none, or if the text is not an object: writes are refused
    /// with such metadata, so no row has it.
    pub fn find(&self, path: &str) -> Option<Cow<'_, Value>> {
        if self.text.is_empty() {
            return None;
        }
        if !self.asked.replace(true) {
            return path::read(self.text, path).map(Cow::Owned);
        }
        let parsed = self.parsed.get_or_init(|| serde_json::from_str(self.text).ok()).as_ref()?;
        path::find(parsed, path).map(Cow::Borrowed)
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

    fn metadata(&self, path: &str) -> Option<Cow<'_, Value>> {
        self.metadata.find(path)
    }
}
