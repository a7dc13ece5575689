//! Long memories and their chunks.

use super::*;

pub(super) fn long(n: u8, content: &str, parts: &[&str]) -> NewMemory {
    let parent = made(n, content);
    let id = parent.index.id.clone();
    let chunk = |(at, part): (u8, &&str)| {
        let chunk = made(n + 100 + at, part);
        let text_hash = keys::text_hash::hash(&text::normalize(part), Some(&id));
        NewMemory { derived_from: vec![id.clone()], text_hash, ..chunk }
    };
    NewMemory { chunks: (0u8..).zip(parts).map(chunk).collect(), ..parent }
}

fn chunks(replica: &Replica, id: &str) -> Vec<(MemoryRow, IndexRow)> {
    replica.memory(id).unwrap().0.chunks.iter().map(|id| replica.memory(id).unwrap()).collect()
}

#[test]
fn chunks_come_and_go_with_their_memory() {
    let mut replica = Replica::new();
    let items = replica.items(add(vec![long(1, "one. two.", &["one.", "two."]), made(2, "one.")]));
    assert_eq!(items.iter().map(|item| item.status).collect::<Vec<_>>(), [ItemStatus::Created; 2]);
    let id = items[0].id.clone();
    let (memory, row) = replica.memory(&id).unwrap();
    assert!(row.chunked && memory.chunk.is_none());
    let parts = chunks(&replica, &id);
    assert_eq!(parts.iter().map(|(chunk, _)| chunk.chunk).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(parts.iter().all(|(chunk, row)| chunk.derived_from == [id.clone()] && !row.chunked));
    assert_eq!(replica.counters().memories, 4);
    // Of its own a chunk has its text and its columns.
    assert_eq!((replica.family(Family::TextHash), replica.family(Family::Derived)), (2, 0));
    // The text of a chunk is no statement of its own: the same words are a memory.
    assert_ne!(items[1].id, parts[0].1.id);

    // The same text again is counted, and makes no second set of chunks.
    let again = replica.items(add(vec![long(3, "one. two.", &["one.", "two."])]));
    assert_eq!((again[0].status, &again[0].id), (ItemStatus::Merged, &id));
    assert_eq!(replica.counters().memories, 4);

    for write in [delete(&parts[0].1.id), update(&parts[0].1.id, "other", 1)] {
        let outcome = replica.write(write);
        let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
        assert!(error.code == ErrorCode::Conflict && error.detail.contains(&id), "{error}");
    }
    replica.items(delete(&id));
    assert_eq!(replica.counters().memories, 1);
    assert_eq!(replica.family(Family::Memory), 1);
    assert_eq!(replica.family(Family::Tombstone), 3);
}

#[test]
fn a_new_version_has_new_chunks() {
    let mut replica = Replica::new();
    let id = replica.items(add(vec![long(1, "one. two.", &["one.", "two."])]))[0].id.clone();
    let new = |content: &str, parts: &[&str], if_version| {
        let item = long(7, content, parts);
        let mut item = NewMemory { index: IndexRow { id: id.clone(), ..item.index.clone() }, ..item };
        item.chunks.iter_mut().for_each(|chunk| chunk.derived_from = vec![id.clone()]);
        Write::Update(Box::new(Update {
            if_version,
            model: None,
            vectors_given: false,
            keep_statements: false,
            memory: item,
        }))
    };
    replica.items(new("three. four. five.", &["three.", "four.", "five."], 1));
    let texts: Vec<_> = chunks(&replica, &id).into_iter().map(|(chunk, _)| chunk.content).collect();
    assert_eq!(texts, ["three.", "four.", "five."]);
    assert_eq!(replica.counters().memories, 4);
    replica.items(new("short", &[], 2));
    let (memory, row) = replica.memory(&id).unwrap();
    assert!(memory.chunks.is_empty() && !row.chunked);
    assert_eq!(replica.counters().memories, 1);
}

#[test]
fn chunks_expire_with_their_memory() {
    let mut replica = Replica::new();
    let until = |n, at_us| {
        let mut item = long(n, "one. two.", &["one.", "two."]);
        item.index.expires_us = at_us;
        item.chunks.iter_mut().for_each(|chunk| chunk.index.expires_us = at_us);
        item
    };
    let start = replica.clock_us;
    let id = replica.items(add(vec![until(1, Some(start + 1_000))]))[0].id.clone();
    replica.items(add(vec![until(2, Some(start + 9_000_000))]));
    replica.clock_us += 2_000_000;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!(chunks(&replica, &id).len(), 2, "said to last longer");
    replica.clock_us += 9_000_000;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!((replica.counters().memories, replica.due()), (0, 1), "only the tombstones are due");
}

#[test]
fn a_chunk_has_no_chunks() {
    let mut item = long(1, "one. two.", &["one."]);
    item.chunks[0].chunks = vec![made(9, "deep")];
    let error = space_command(add(vec![item]), None).check().unwrap_err();
    assert_eq!(error.field.as_deref(), Some("memories[0].chunks"));
    let mut item = long(1, "one. two.", &["one."]);
    item.chunks[0].content = " ".into();
    let error = space_command(add(vec![item]), None).check().unwrap_err();
    assert_eq!(error.field.as_deref(), Some("memories[0].chunks[0].content"));
}
