#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Position, apply, last_applied_us};
use crate::codec::Stored;
use crate::command::*;
use crate::event::Event;
use crate::keys::{self, Family};
use crate::limits::{HISTORY_VERSIONS_MAX, IDEMPOTENCY_KEEP_US, IDEMPOTENCY_ROWS_MAX, TOMBSTONE_KEEP_US};
use crate::memory::*;
use crate::outcome::{ItemOutcome, ItemStatus, Outcome};
use crate::space::SpaceKey;
use crate::state::{BTreeState, Overlay, Reader, StateHash};
use crate::vector::Vector;
use crate::{ErrorCode, text};
use std::collections::BTreeMap;

mod blocks;
mod chunks;
mod claims;
mod collections;
mod erase;
mod erase_left;
mod erase_sessions;
mod facts;
mod facts_random;
mod graph;
mod lifecycle;
mod merged;
mod procedures;
mod random;
mod relink;
mod sessions;
mod tasks;
mod tenants;
mod transfer;
mod transfer_beside;

/// A replica in memory: applies commands one by one, as a batch of one each.
struct Replica {
    state: BTreeState,
    hash: StateHash,
    log_index: u64,
    clock_us: i64,
    events: Vec<Event>,
}

impl Replica {
    fn new() -> Self {
        Self {
            state: BTreeState::new(),
            hash: StateHash::default(),
            log_index: 0,
            clock_us: 1_700_000_000_000_000,
            events: vec![],
        }
    }

    fn run(&mut self, command: &Command) -> Outcome {
        self.log_index += 1;
        self.clock_us += 10;
        // Through the bytes, as the log carries it.
        let command = Command::decode(&command.encode().unwrap()).unwrap();
        let mut overlay = Overlay::new(&self.state);
        let position = Position { log_index: self.log_index, stamp_us: self.clock_us };
        let applied = apply(&mut overlay, position, &command).unwrap();
        let changes = overlay.into_changes().unwrap();
        self.hash.follow(&changes);
        self.state.commit(changes);
        self.events.extend(applied.events);
        applied.outcome
    }

    fn write(&mut self, write: Write) -> Outcome {
        self.run(&space_command(write, None))
    }

    fn items(&mut self, write: Write) -> Vec<ItemOutcome> {
        match self.write(write) {
            Outcome::Items { items, .. } => items,
            other => panic!("expected items, got {other:?}"),
        }
    }

    fn memory(&self, id: &str) -> Option<(MemoryRow, IndexRow)> {
        let memory = self.state.get(&keys::memory::key(&space(), id)).unwrap()?;
        let memory = MemoryRow::decode(&memory).unwrap();
        let index = self.state.get(&keys::index_row::key(&space(), memory.seq)).unwrap().unwrap();
        Some((memory, IndexRow::decode(&index).unwrap()))
    }

    fn counters(&self) -> Counters {
        let value = self.state.get(&keys::counters::key(&space())).unwrap();
        value.map(|value| Counters::decode(&value).unwrap()).unwrap_or_default()
    }

    fn family(&self, family: Family) -> usize {
        self.state.scan(&keys::family_prefix(&space(), family), None, usize::MAX).unwrap().len()
    }

    fn due(&self) -> usize {
        self.state.scan(&keys::due::prefix(), None, usize::MAX).unwrap().len()
    }
}

fn space() -> SpaceKey {
    SpaceKey::user("acme", "ann").unwrap()
}

fn space_command(write: Write, idempotency: Option<Idempotency>) -> Command {
    Command::Space(Box::new(SpaceCommand { space: space(), idempotency, write }))
}

fn memory(id: &str, content: &str) -> NewMemory {
    let normal = text::normalize(content);
    NewMemory {
        id_chosen: true,
        content: content.into(),
        tokens: 0,
        text_hash: keys::text_hash::hash(&normal, None),
        confidence: 1.0,
        statements: vec![],
        whole: false,
        conflicts: vec![],
        source: None,
        derived_from: vec![],
        chunks: vec![],
        index: IndexRow { id: id.into(), importance: 0.5, ..IndexRow::default() },
        event_given: false,
    }
}

fn add(items: Vec<NewMemory>) -> Write {
    Write::Add(Add { origin: Origin::Caller, model: None, vectors_given: false, partial: false, items })
}

fn made(n: u8, content: &str) -> NewMemory {
    let id = super::add::uuid_text([n; 16]);
    NewMemory { id_chosen: false, ..memory(&id, content) }
}

fn failed(outcome: Outcome) -> ErrorCode {
    match outcome {
        Outcome::Failed(error) => error.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn key(key_hash: u128, request_hash: u64) -> Idempotency {
    Idempotency { key_hash, request_hash }
}

#[test]
fn a_plain_add_writes_four_rows_and_the_shared_ones() {
    let mut replica = Replica::new();
    replica.run(&space_command(add(vec![memory("warm", "up")]), Some(key(1, 1))));
    let before: BTreeMap<_, _> = replica.state.rows().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    replica.run(&space_command(add(vec![memory("m", "text")]), Some(key(2, 2))));
    let new = replica.state.rows().filter(|(k, _)| !before.contains_key(*k)).count();
    assert_eq!(new, 4, "memory, index row, text hash, idempotency; counters and clock exist already");
}

#[test]
fn the_same_text_is_counted_and_a_chosen_id_stays_its_own() {
    let mut replica = Replica::new();
    let first = replica.items(add(vec![made(1, "我不吃辣")]));
    assert_eq!(first[0].status, ItemStatus::Created);
    let again = replica.items(add(vec![made(2, "  我不吃辣 "), made(3, "other")]));
    assert_eq!((again[0].status, &again[0].id), (ItemStatus::Merged, &first[0].id));
    assert_eq!(again[1].status, ItemStatus::Created);
    assert_eq!(replica.memory(&first[0].id).unwrap().1.count, 2);
    let chosen = replica.items(add(vec![memory("mine", "我不吃辣")]));
    assert_eq!((chosen[0].status, chosen[0].id.as_str()), (ItemStatus::Created, "mine"));
    assert_eq!(replica.counters().memories, 3);
}

#[test]
fn a_surer_source_makes_a_memory_sure() {
    let mut replica = Replica::new();
    let said = |n: u8, confidence: f32| NewMemory { confidence, ..made(n, "茶是绿色的") };
    let first = replica.items(add(vec![said(1, 0.5)]));
    let stored = |replica: &Replica| {
        let (memory, row) = replica.memory(&first[0].id).unwrap();
        (memory.confidence, row.unsure)
    };
    assert_eq!(stored(&replica), (0.5, true));
    for (n, confidence, now) in [(2, 0.3, (0.5, true)), (3, 0.95, (0.95, false)), (4, 0.1, (0.95, false))] {
        assert_eq!(replica.items(add(vec![said(n, confidence)]))[0].status, ItemStatus::Merged);
        assert_eq!(stored(&replica), now);
    }
}

#[test]
fn the_words_of_two_speakers_are_two_memories() {
    let mut replica = Replica::new();
    let said_by = |n, speaker| {
        let mut item = made(n, "yes");
        item.text_hash = keys::text_hash::hash("yes", Some(speaker));
        item
    };
    let items = replica.items(add(vec![said_by(1, "Ann"), said_by(2, "Bob"), said_by(3, "Ann")]));
    let statuses: Vec<_> = items.iter().map(|item| item.status).collect();
    assert_eq!(statuses, [ItemStatus::Created, ItemStatus::Created, ItemStatus::Merged]);
}

#[test]
fn a_repeated_id_is_a_duplicate_or_an_error_for_the_whole_batch() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "one")]));
    assert_eq!(replica.items(add(vec![memory("a", "one")]))[0].status, ItemStatus::Duplicate);
    let before = replica.state.clone();
    let code = failed(replica.write(add(vec![memory("b", "two"), memory("a", "changed")])));
    assert_eq!(code, ErrorCode::AlreadyExists);
    assert!(replica.memory("b").is_none(), "nothing half-stored");
    let differing =
        before.rows().filter(|(k, v)| replica.state.get(k).unwrap().as_deref() != Some(*v)).count();
    assert_eq!(differing, 1, "only the clock moved");

    let Write::Add(batch) = add(vec![memory("b", "two"), memory("a", "changed")]) else { unreachable!() };
    let items = replica.items(Write::Add(Add { partial: true, ..batch }));
    assert_eq!(items[0].status, ItemStatus::Created);
    assert_eq!(items[1].reason.as_ref().unwrap().code, ErrorCode::AlreadyExists);
}

fn update(id: &str, content: &str, if_version: u64) -> Write {
    let memory = memory(id, content);
    Write::Update(Box::new(Update {
        if_version,
        model: None,
        vectors_given: false,
        keep_statements: true,
        memory,
    }))
}

#[test]
fn an_update_compares_versions_and_keeps_history() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "Berlin")]));
    let items = replica.items(update("a", "Paris", 1));
    assert_eq!((items[0].status, items[0].version), (ItemStatus::Updated, 2));
    assert_eq!(failed(replica.write(update("a", "Rome", 1))), ErrorCode::Conflict);
    assert_eq!(failed(replica.write(update("b", "Rome", 1))), ErrorCode::NotFound);
    assert_eq!(replica.memory("a").unwrap().0.content, "Paris");
    assert_eq!(replica.family(Family::History), 1);
    // The old text is free again, the new one is taken.
    assert_eq!(replica.items(add(vec![made(1, "Paris")]))[0].status, ItemStatus::Merged);
    assert_eq!(replica.items(add(vec![made(2, "Berlin")]))[0].status, ItemStatus::Created);
    assert_eq!(replica.counters().bytes, 5 + 6);
}

#[test]
fn an_update_keeps_what_use_has_made_of_the_memory() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "x")]));
    replica
        .write(Write::Feedback { items: vec![FeedbackItem { id: "a".into(), verdict: Verdict::Adopted }] });
    let (_, used) = replica.memory("a").unwrap();
    replica.write(update("a", "y", 1));
    let (_, after) = replica.memory("a").unwrap();
    assert_eq!((after.access_count, after.strength_milli), (1, 1500));
    assert_eq!((after.created_us, after.last_access_us), (used.created_us, used.last_access_us));
}

#[test]
fn history_keeps_the_columns_of_its_time_and_is_bounded() {
    let mut replica = Replica::new();
    let mut item = memory("a", "version 1");
    item.index.session = Some("s1".into());
    item.index.entities = vec!["A".into()];
    replica.write(add(vec![item]));
    let first = replica.memory("a").unwrap().1;
    replica.write(update("a", "version 2", 1));
    let row = replica.state.get(&keys::history::key(&space(), "a", 1)).unwrap().unwrap();
    let row = HistoryRow::decode(&row).unwrap();
    assert_eq!(row.memory.content, "version 1");
    assert_eq!(row.index, IndexRow { terms: Default::default(), vector: None, ..first });

    for version in 2..=HISTORY_VERSIONS_MAX + 20 {
        replica.write(update("a", &format!("version {}", version + 1), version));
    }
    assert_eq!(replica.family(Family::History) as u64, HISTORY_VERSIONS_MAX);
    replica.write(delete("a"));
    assert_eq!(replica.family(Family::History), 0);
}

#[test]
fn in_a_partial_write_a_vector_that_does_not_fit_rejects_its_item_alone() {
    let mut replica = Replica::new();
    let vector = |id: &str, dims: usize| {
        let mut item = memory(id, id);
        item.index.vector = Some(Vector::quantise(&vec![1.0; dims]).unwrap());
        item
    };
    let write = |items, dims| {
        let model = Some(ModelTag { id: "client".into(), dims });
        Write::Add(Add { origin: Origin::Caller, model, vectors_given: true, partial: true, items })
    };
    replica.items(write(vec![vector("first", 2)], 2));
    let items = replica.items(write(vec![memory("text", "t"), vector("misfit", 3), memory("more", "m")], 3));
    let statuses: Vec<_> = items.iter().map(|item| item.status).collect();
    assert_eq!(statuses, [ItemStatus::Created, ItemStatus::Rejected, ItemStatus::Created]);
    assert_eq!(items[1].reason.as_ref().unwrap().code, ErrorCode::InvalidArgument);
}

#[test]
fn the_vector_stays_while_the_text_does() {
    let mut replica = Replica::new();
    let mut item = memory("a", "x");
    item.index.vector = Some(Vector::quantise(&[1.0, 2.0]).unwrap());
    let model = Some(ModelTag { id: "client".into(), dims: 2 });
    let Write::Add(batch) = add(vec![item]) else { unreachable!() };
    replica.write(Write::Add(Add { model, vectors_given: true, ..batch }));
    replica.write(update("a", "x", 1));
    assert!(replica.memory("a").unwrap().1.vector.is_some(), "only other fields changed");
    replica.write(update("a", "y", 2));
    assert!(replica.memory("a").unwrap().1.vector.is_none(), "a new text has no vector yet");
}

#[test]
fn the_first_vector_fixes_the_model() {
    let mut replica = Replica::new();
    let with = |id: &str, dims: usize, model: &str, given: bool| {
        let mut item = memory(id, id);
        item.index.vector = Some(Vector::quantise(&vec![1.0; dims]).unwrap());
        let model = Some(ModelTag { id: model.into(), dims: u16::try_from(dims).unwrap() });
        Write::Add(Add {
            origin: Origin::Caller,
            model,
            vectors_given: given,
            partial: false,
            items: vec![item],
        })
    };
    replica.write(add(vec![memory("text", "only")]));
    replica.items(with("a", 4, "client", true));
    assert_eq!(failed(replica.write(with("b", 5, "client", true))), ErrorCode::InvalidArgument);
    assert_eq!(failed(replica.write(with("b", 4, "other", true))), ErrorCode::InvalidArgument);
    replica.items(with("c", 4, "built-in", false));
    assert!(replica.memory("c").unwrap().1.vector.is_none(), "stored, found by keywords");
    assert_eq!(replica.memory("a").unwrap().1.vector.unwrap().model, 0);
}

fn delete(id: &str) -> Write {
    Write::Delete { id: id.into(), if_version: None }
}

#[test]
fn a_deleted_memory_leaves_only_its_tombstone() {
    let mut replica = Replica::new();
    let mut item = memory("a", "secret 秘密");
    item.index.expires_us = Some(replica.clock_us + 1_000_000_000);
    item.source = Some(Source { uri: Some("file:secret".into()), message_ids: vec!["m1".into()] });
    replica.write(add(vec![item]));
    replica.write(update("a", "secret 秘密 2", 1));
    replica.write(delete("a"));
    assert!(replica.memory("a").is_none());
    for (family, rows) in [
        (Family::Memory, 0),
        (Family::IndexRow, 0),
        (Family::TextHash, 0),
        (Family::History, 0),
        (Family::Tombstone, 1),
    ] {
        assert_eq!(replica.family(family), rows, "{family:?}");
    }
    assert_eq!((replica.counters().memories, replica.counters().bytes), (0, 0));
    assert_eq!(replica.due(), 1, "the tombstone's own");
    let traces = replica.state.rows().filter(|(_, value)| {
        ["secret", "秘密"].iter().any(|word| value.windows(word.len()).any(|w| w == word.as_bytes()))
    });
    assert_eq!(traces.count(), 0, "no content is left anywhere");
    assert_eq!(failed(replica.write(delete("a"))), ErrorCode::NotFound);
}

#[test]
fn a_tombstone_stops_imports_and_never_a_caller() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "text")]));
    replica.write(delete("a"));
    for origin in [Origin::Import, Origin::Job] {
        let Write::Add(batch) = add(vec![memory("a", "text")]) else { unreachable!() };
        let items = replica.items(Write::Add(Add { origin, partial: true, ..batch }));
        assert_eq!(items[0].status, ItemStatus::Rejected, "{origin:?}");
    }
    let items = replica.items(add(vec![memory("a", "text")]));
    assert_eq!((items[0].status, items[0].version), (ItemStatus::Created, 2), "versions go on");
    assert_eq!(failed(replica.write(update("a", "late", 1))), ErrorCode::Conflict);
}

#[test]
fn feedback_strengthens_and_weakens_within_bounds() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "x")]));
    let feed = |verdict| Write::Feedback { items: vec![FeedbackItem { id: "a".into(), verdict }] };
    let strengths: Vec<u16> = (0..6)
        .map(|_| {
            replica.write(feed(Verdict::Adopted));
            replica.memory("a").unwrap().1.strength_milli
        })
        .collect();
    assert_eq!(strengths, [1500, 2250, 3375, 5000, 5000, 5000]);
    assert_eq!(replica.memory("a").unwrap().1.access_count, 6);
    let accessed = replica.memory("a").unwrap().1.last_access_us;
    for _ in 0..20 {
        replica.write(feed(Verdict::Harmful));
    }
    let (_, row) = replica.memory("a").unwrap();
    assert_eq!((row.strength_milli, row.access_count, row.last_access_us), (100, 6, accessed));
    let items = replica.items(Write::Feedback {
        items: vec![
            FeedbackItem { id: "gone".into(), verdict: Verdict::Adopted },
            FeedbackItem { id: "a".into(), verdict: Verdict::Adopted },
        ],
    });
    assert_eq!(items[0].reason.as_ref().unwrap().code, ErrorCode::NotFound);
    assert_eq!(items[1].status, ItemStatus::Recorded);
}

#[test]
fn two_spaces_never_meet() {
    let mut replica = Replica::new();
    let other = SpaceKey::user("acme", "anna").unwrap();
    replica.write(add(vec![memory("m", "mine")]));
    let write = add(vec![memory("m", "theirs")]);
    let command = Command::Space(Box::new(SpaceCommand { space: other.clone(), idempotency: None, write }));
    replica.run(&command);
    replica.write(delete("m"));
    let theirs = replica.state.get(&keys::memory::key(&other, "m")).unwrap().unwrap();
    assert_eq!(MemoryRow::decode(&theirs).unwrap().content, "theirs");
    let prefix = keys::space_prefix(&space());
    let rows = replica.state.scan(&keys::space_prefix(&other), None, usize::MAX).unwrap();
    assert!(rows.iter().all(|(key, _)| !key.starts_with(&prefix)));
}

#[test]
fn the_meta_group_keeps_tenants_and_keys() {
    use crate::access::{ApiKeyRow, Rights, TenantRow};
    let tenant = |id: &str| TenantRow { id: id.into(), name: id.into(), created_us: 0 };
    let api_key = |id: &str, tenant: &str| ApiKeyRow {
        id: id.into(),
        secret_sha256: [7; 32],
        tenant: tenant.into(),
        user: None,
        rights: Rights::ALL,
        name: String::new(),
        created_us: 0,
        expires_us: None,
        revoked_us: None,
        created_by: None,
    };
    let mut replica = Replica::new();
    let mut run = |command| replica.run(&Command::Meta(Box::new(command)));
    let init =
        || MetaCommand::InitCluster { cluster_id: 5, shards: 8, tenant: tenant("t"), key: api_key("k", "t") };
    assert_eq!(run(init()), Outcome::Done);
    assert_eq!(failed(run(init())), ErrorCode::AlreadyExists, "happens once");
    assert_eq!(failed(run(MetaCommand::CreateTenant(tenant("t")))), ErrorCode::AlreadyExists);
    assert_eq!(failed(run(MetaCommand::CreateKey(api_key("k2", "nobody")))), ErrorCode::NotFound);
    assert_eq!(run(MetaCommand::CreateTenant(tenant("u"))), Outcome::Done);
    assert_eq!(run(MetaCommand::CreateKey(api_key("k2", "u"))), Outcome::Done);
    let revoke = |id: &str, tenant: Option<&str>, by| MetaCommand::RevokeKey {
        id: id.into(),
        tenant: tenant.map(Into::into),
        by,
    };
    assert_eq!(
        failed(run(revoke("k2", Some("t"), Rights::ALL))),
        ErrorCode::NotFound,
        "another tenant's key"
    );
    let lesser = Rights::READ.with(Rights::WRITE).with(Rights::ADMIN);
    assert_eq!(failed(run(revoke("k2", Some("u"), lesser))), ErrorCode::PermissionDenied, "it can do more");
    assert_eq!(run(revoke("k2", Some("u"), Rights::ALL)), Outcome::Done);
    assert_eq!(
        failed(run(revoke("k", None, Rights::ALL))),
        ErrorCode::Conflict,
        "the last one for the cluster"
    );
    let row = replica.state.get(&keys::meta::api_key("k2")).unwrap().unwrap();
    assert!(ApiKeyRow::decode(&row).unwrap().revoked_us.is_some());
}
