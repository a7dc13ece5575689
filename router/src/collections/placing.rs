//! In which partition of a collection a memory lies.

use crate::auth::Place;
use crate::http::problem::Answer;
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::NewMemory;
use holdfast_core::space::SpaceKey;

/// The partition of a space that a new memory goes to.
pub(crate) fn space_of(place: &Place, memory: &NewMemory) -> Answer<SpaceKey> {
    match place {
        Place::User(space) => Ok(space.clone()),
        Place::Collection(row) => Ok(SpaceKey::shared(&row.tenant, &row.name, partition_of(row, memory))?),
    }
}

/// The partition of a new memory.
///
/// What states facts or names entities goes to the first, where facts and entities are: its row and its facts
/// are written together. All else follows its session, so that turns that stand around each other stay
/// together; else its source, else its chosen id. A memory without any of these goes by its text: its id
/// is made anew when a request is repeated, its text is not, so a repetition comes to the
/// same partition, and so does the same text again, which is then merged.
pub(crate) fn partition_of(collection: &CollectionRow, memory: &NewMemory) -> u8 {
    if holds_facts(memory) {
        return 0;
    }
    let index = &memory.index;
    let uri = memory.source.as_ref().and_then(|source| source.uri.as_deref());
    let id = memory.id_chosen.then_some(index.id.as_str());
    match index.session.as_deref().or(uri).or(id) {
        Some(key) => collection.partition_of(key.as_bytes()),
        None => collection.partition_of(&memory.text_hash.to_be_bytes()),
    }
}

/// Whether a memory, or one of its chunks, states facts or names entities.
fn holds_facts(memory: &NewMemory) -> bool {
    let of = |memory: &NewMemory| !memory.statements.is_empty() || !memory.index.entities.is_empty();
    of(memory) || memory.chunks.iter().any(of)
}
