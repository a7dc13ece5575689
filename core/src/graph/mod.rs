//! The graph of a space: entities are the subjects and objects of its facts, relations the facts
//! themselves. Nothing is stored twice: a fact's row is the way from its subject to its object, and an
//! edge row ([`crate::keys::edge`]) the way back, so that graph and facts cannot say different things.
//!
//! Which names are one entity is a caller's decision ([`EntityRow`]). Facts keep the names they were
//! stated with; names are resolved when the graph is read, so that a merge can be taken back.

mod read;
mod walk;

pub use read::{Direction, Edge, Entity, Fault, Graph, When};
pub use walk::{Bounds, Path, Walked};

use crate::codec::stored;
use crate::limits::FACT_NAME_BYTES_MAX;
use crate::memory::{FactRow, Mode, Statement};
use serde::{Deserialize, Serialize};

/// What was decided about a name. Key: see [`crate::keys::entity`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityRow {
    /// The entity that this name is another name of; then it has no aliases of its own.
    pub same_as: Option<String>,
    /// Other names of this entity, in byte order, at most [`crate::limits::ENTITY_ALIASES_MAX`].
    pub aliases: Vec<String>,
}

stored!(EntityRow);

/// The entity that a statement relates its subject to, by bytes alone; `None` if it relates it to
/// nothing: it ends something, speaks against something, says that something is not so, or its object
/// is too long for a name.
pub fn object(statement: &Statement) -> Option<&str> {
    if !matches!(statement.mode, Mode::State | Mode::Correct | Mode::Override { .. }) {
        return None;
    }
    // Qualifiers stand behind the object.
    let about = statement.about.split('\u{1}').next().unwrap_or_default();
    let object = match (about, statement.value.as_str()) {
        ("", value) => value,
        (_, "no") => return None,
        (object, _) => object,
    };
    (!object.is_empty() && object.len() <= FACT_NAME_BYTES_MAX && !object.contains('\0')).then_some(object)
}

/// What the relation of a fact is called: its predicate, or the attitude that is its value.
fn label<'a>(predicate: &'a str, row: &'a FactRow) -> &'a str {
    if row.value == row.object || row.value == "yes" { predicate } else { &row.value }
}
