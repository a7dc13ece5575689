//! Filters: conditions on the columns and metadata of memories.
//!
//! A filter is a JSON object. A field name leads to a value or to operators; `and`, `or` and `not`
//! lead to lists of objects; everything in one object holds together (and):
//!
//! ```json
//! {"kind": "semantic", "importance": {"$gte": 0.5, "$lt": 0.9},
//!  "or": [{"entities": {"$contains": "Ann"}}, {"metadata.project.name": "atlas"}]}
//! ```
//!
//! # Meaning
//! - A bare value is `$eq`. Values are compared whole: no character is a pattern.
//! - A number is compared with numbers (as numbers: 1 equals 1.0, and integers keep all their
//!   digits), text with text (byte by byte, so by code point), true and false with each other.
//!   What is of another type never matches: `{"$gt": 10}` leaves out the text `"9"`.
//! - `$ne` and `$nin` are the exact negations of `$eq` and `$in`. So they match where the field is
//!   missing or of another type; add `{"$exists": true}` where that is not wanted.
//! - A list (`entities`, or one in the metadata) matches `$eq`, `$in` and `$contains` if one of its
//!   elements does; it has no order, so `$gt` and its like never match it.
//! - `$contains` on text looks for a part of it, case counting.
//! - A metadata value of null, and an empty list of entities, are as if missing.
//! - `metadata.a.b` finds the key `a.b`, or else the key `b` in the object `a`.
//! - `not` holds if none of its objects does.
//! - `{}` matches every memory.

mod fault;
mod matches;
mod parse;
mod path;
mod row;
mod scalar;
#[cfg(test)]
mod tests;

use crate::memory::Kind;
use crate::{Error, Result};
use scalar::Scalar;
use serde_json::Value;

pub use fault::Fault;
pub use row::{FilterRow, IndexRowView, Metadata, TextColumn};

/// Most values in all the lists of `$in` and `$nin` of one filter.
pub const FILTER_VALUES_MAX: usize = 1_000;

/// A condition on a memory, checked and ready to be asked of many rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
}

impl Default for Filter {
    fn default() -> Self {
        Self::all()
    }
}

impl Filter {
    /// The filter that every memory passes.
    pub fn all() -> Self {
        Self { root: Node::All(Vec::new()) }
    }

    /// Memories of one of these kinds; no kind named means every kind.
    pub fn kinds(kinds: &[Kind]) -> Self {
        if kinds.is_empty() {
            return Self::all();
        }
        let names = kinds.iter().map(|kind| Scalar::Text(kind.as_str().into()));
        let test = Test::OneOf(scalar::sorted(names.collect()));
        Self { root: Node::Condition(Condition { field: Field::Text(TextField::Kind), test }) }
    }

    /// Reads the public syntax (see the [module](self)).
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] that names the place and says what is allowed there.
    pub fn parse(value: &Value) -> Result<Self> {
        parse::parse(value).map(|root| Self { root })
    }

    /// Reads the public syntax from text; blank text is [`Filter::all`].
    ///
    /// # Errors
    /// As [`Filter::parse`], and if the text is not JSON.
    pub fn parse_text(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::all());
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::invalid("filter", format!("the filter is not JSON: {error}")))?;
        Self::parse(&value)
    }

    /// The filter that holds where both do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut both = match self.root {
            Node::All(nodes) => nodes,
            node => vec![node],
        };
        match other.root {
            Node::All(nodes) => both.extend(nodes),
            node => both.push(node),
        }
        Self { root: Node::all(both) }
    }

    /// Whether every memory passes, so that rows need not be asked.
    pub fn is_all(&self) -> bool {
        self.root.is_all()
    }

    /// Whether a row passes.
    pub fn matches(&self, row: &impl FilterRow) -> bool {
        matches::node(&self.root, row)
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Condition(Condition),
}

impl Node {
    /// Whether it holds of everything because nothing is asked; what is asked may hold of everything, too.
    fn is_all(&self) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(Self::is_all),
            Self::Any(nodes) => nodes.iter().any(Self::is_all),
            Self::Not(_) | Self::Condition(_) => false,
        }
    }

    /// Columns are asked before metadata, which may have to be parsed: the order of conditions
    /// does not change what they answer.
    fn all(mut nodes: Vec<Self>) -> Self {
        nodes.sort_by_key(Self::asks_metadata);
        Self::All(nodes)
    }

    fn any(mut nodes: Vec<Self>) -> Self {
        nodes.sort_by_key(Self::asks_metadata);
        Self::Any(nodes)
    }

    fn not(node: Self) -> Self {
        Self::Not(Box::new(node))
    }

    fn asks_metadata(&self) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(Self::asks_metadata),
            Self::Not(node) => node.asks_metadata(),
            Self::Condition(condition) => matches!(condition.field, Field::Metadata(_)),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    field: Field,
    test: Test,
}

/// What is looked at. Fields of one type share a variant.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Text(TextField),
    Time(TimeField),
    Importance,
    Pinned,
    Entities,
    /// A path without its `metadata.`.
    Metadata(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TextField {
    Kind,
    Column(TextColumn),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeField {
    Created,
    Event,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Equals(Scalar),
    /// Sorted by [`scalar::sorted`].
    OneOf(Vec<Scalar>),
    Ordered(Ordered, Scalar),
    Contains(Scalar),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ordered {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}
