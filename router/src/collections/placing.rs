//! In which partition of a collection a memory lies.

use holdfast_core::collection::CollectionRow;
use holdfast_core::command::NewMemory;

/// The partition of a new memory: it follows from the request alone, so that a repetition comes to the same one.
///
/// What the caller states as a fact or names entities of goes to the first, where facts and entities are. All
/// else follows its session, so that turns that stand around each other stay together; else its source,
/// else its chosen id. A memory without any of these goes by its text, since its id is made anew for each
/// request.
pub(crate) fn partition_of(collection: &CollectionRow, memory: &NewMemory, to_the_first: bool) -> u8 {
    if to_the_first {
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

/// Whether the caller stated a fact or named entities. What rules find in a text depends on the rules of the
/// day, and decides nothing.
pub(crate) fn is_stated(memory: &NewMemory) -> bool {
    !memory.index.entities.is_empty() || memory.statements.iter().any(|statement| statement.rules == 0)
}

/// Whether a memory, or one of its chunks, states anything at all or names entities.
pub(crate) fn holds_facts(memory: &NewMemory) -> bool {
    let of = |memory: &NewMemory| !memory.statements.is_empty() || !memory.index.entities.is_empty();
    of(memory) || memory.chunks.iter().any(of)
}

/// Takes out what rules found in a text that does not lie where facts are compared with each other.
pub(crate) fn without_found_facts(memory: &mut NewMemory) {
    let stated = |memory: &mut NewMemory| {
        memory.statements.retain(|statement| statement.rules == 0);
        memory.whole &= !memory.statements.is_empty();
    };
    stated(memory);
    memory.chunks.iter_mut().for_each(stated);
}
