//! What clients want: memories that they make, change, read, use and delete.

use holdfast_core::codec::{CodecError, Stored};
use holdfast_core::command::{
    Add, Command, FeedbackItem, Idempotency, NewMemory, Origin, SpaceCommand, Update, Verdict, Write,
};
use holdfast_core::keys;
use holdfast_core::memory::IndexRow;
use holdfast_core::space::SpaceKey;
use xxhash_rust::xxh3::xxh3_64;

/// Users whose spaces the memories lie in: enough to reach every group.
const USERS: u64 = 6;

/// The space of a memory.
pub(super) fn space_of(memory: &str) -> SpaceKey {
    let user = xxh3_64(memory.as_bytes()) % USERS;
    SpaceKey::user("租户", &format!("user-{user}")).expect("a valid name")
}

fn new_memory(memory: &str, content: &str) -> NewMemory {
    NewMemory {
        id_chosen: true,
        content: content.to_owned(),
        tokens: 0,
        text_hash: keys::text_hash::hash(content, None),
        confidence: 1.0,
        statements: Vec::new(),
        whole: false,
        conflicts: Vec::new(),
        source: None,
        derived_from: Vec::new(),
        chunks: Vec::new(),
        index: IndexRow { id: memory.to_owned(), ..IndexRow::default() },
        event_given: false,
    }
}

fn add(origin: Origin, memory: &str, content: &str) -> Write {
    let items = vec![new_memory(memory, content)];
    Write::Add(Add { origin, model: None, vectors_given: false, partial: false, items })
}

/// Makes a memory.
pub(super) fn create(memory: &str, content: &str) -> Write {
    add(Origin::Caller, memory, content)
}

/// Brings a memory from elsewhere, as a restore does.
pub(super) fn import(memory: &str, content: &str) -> Write {
    add(Origin::Import, memory, content)
}

/// Replaces one version of a memory.
pub(super) fn replace(memory: &str, if_version: u64, content: &str) -> Write {
    let memory = new_memory(memory, content);
    Write::Update(Box::new(Update {
        if_version,
        model: None,
        vectors_given: false,
        keep_statements: false,
        memory,
    }))
}

/// Deletes a memory.
pub(super) fn delete(memory: &str) -> Write {
    Write::Delete { id: memory.to_owned(), if_version: None }
}

/// Counts a use of a memory.
pub(super) fn adopt(memory: &str) -> Write {
    Write::Feedback { items: vec![FeedbackItem { id: memory.to_owned(), verdict: Verdict::Adopted }] }
}

/// The command of a write, with the key by which a repetition is known.
///
/// # Errors
/// If it cannot be encoded, which does not happen.
pub(super) fn command(memory: &str, write: Write, key: Option<u128>) -> Result<Vec<u8>, CodecError> {
    let idempotency = key.map(|key_hash| Idempotency { key_hash, request_hash: xxh3_64(memory.as_bytes()) });
    Command::Space(Box::new(SpaceCommand { space: space_of(memory), idempotency, write })).encode()
}
