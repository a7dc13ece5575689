#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{BootId, ShardPlace, ShardState};
use crate::index::Spaces;
use crate::raft::{Applier, CommittedBody, CommittedEntry, EntryPayload, LogPosition};
use bytes::Bytes;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Add, Command, NewMemory, Origin, SpaceCommand, Write};
use holdfast_core::keys::{self, Family};
use holdfast_core::memory::IndexRow;
use holdfast_core::outcome::Outcome;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn boot(n: u32) -> BootId {
    BootId(format!("boot-{n}"))
}

pub(super) fn place<'a>(dir: &'a Path, boot: &'a BootId) -> ShardPlace<'a> {
    ShardPlace { cluster: "00ff", shards: 1, group: 1, dir, boot, cache_bytes: 8 << 20 }
}

pub(crate) fn open(dir: &Path, boot: &BootId) -> ShardState {
    ShardState::open(place(dir, boot), Arc::new(Spaces::new(64 << 20))).unwrap()
}

pub(crate) fn space() -> SpaceKey {
    SpaceKey::user("acme", "ann").unwrap()
}

pub(crate) fn add(id: &str) -> Bytes {
    let item = NewMemory {
        id_chosen: true,
        content: format!("memory {id} 记忆"),
        tokens: 0,
        text_hash: keys::text_hash::hash(id, None),
        confidence: 1.0,
        statements: vec![],
        whole: false,
        conflicts: vec![],
        source: None,
        derived_from: vec![],
        chunks: vec![],
        index: IndexRow { id: id.into(), ..IndexRow::default() },
        event_given: false,
    };
    let add =
        Add { origin: Origin::Caller, model: None, vectors_given: false, partial: false, items: vec![item] };
    let command = SpaceCommand { space: space(), idempotency: None, write: Write::Add(add) };
    Command::Space(Box::new(command)).encode().unwrap().into()
}

pub(crate) fn entry(index: u64, commands: Vec<Bytes>) -> CommittedEntry {
    let position = LogPosition { term: 1, node: 1, index };
    let payload = EntryPayload { format: 1, stamp_us: 1_700_000_000_000_000 + index, commands };
    CommittedEntry { position, body: CommittedBody::Normal(payload) }
}

/// A log whose entries hold up to 100 commands, so that they are cut into several batches.
pub(crate) fn log() -> Vec<CommittedEntry> {
    let blank = LogPosition { term: 1, node: 1, index: 0 };
    let mut log = vec![
        CommittedEntry { position: blank, body: CommittedBody::Membership(vec![1, 2, 3]) },
        CommittedEntry { position: LogPosition { index: 1, ..blank }, body: CommittedBody::Blank },
    ];
    for (at, size) in [1usize, 100, 3, 0, 60].into_iter().enumerate() {
        let index = at as u64 + 2;
        log.push(entry(index, (0..size).map(|n| add(&format!("m-{index}-{n}"))).collect()));
    }
    log
}

pub(super) fn memories(state: &ShardState) -> usize {
    state.reader().scan(&keys::family_prefix(&space(), Family::Memory), None, usize::MAX).unwrap().len()
}

#[test]
fn applies_answers_and_shows() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    assert_eq!((state.visible(), state.applied().unwrap().last), (None, None));
    let outcomes = state.apply(log()).unwrap();
    assert_eq!(outcomes.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 1, 100, 3, 0, 60]);
    for outcome in outcomes.iter().flatten() {
        let Outcome::Items { items, .. } = Outcome::decode(outcome).unwrap() else { panic!("refused") };
        assert_eq!(items.len(), 1);
    }
    assert_eq!(state.visible(), Some(6));
    let applied = state.applied().unwrap();
    assert_eq!((applied.last.unwrap().index, applied.membership), (6, vec![1, 2, 3]));
    assert_eq!(memories(&state), 164);
    assert_eq!(state.recompute_hash().unwrap(), state.hash());
}

#[test]
fn the_hash_does_not_depend_on_how_entries_come() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (open(one.path(), &boot(1)), open(two.path(), &boot(1)));
    one.apply(log()).unwrap();
    for entry in log() {
        two.apply(vec![entry]).unwrap();
    }
    assert_eq!(one.hash(), two.hash());
}

#[test]
fn a_clean_state_opens_after_a_reboot() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    let hash = state.hash();
    state.close().unwrap();
    drop(state);
    let state = open(dir.path(), &boot(2));
    assert_eq!((state.hash(), memories(&state)), (hash, 164));
    assert_eq!(state.recompute_hash().unwrap(), hash);
}

#[test]
fn an_unclean_state_opens_under_the_same_boot_only() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    let hash = state.hash();
    state.write_out();
    drop(state);
    let state = open(dir.path(), &boot(1));
    assert_eq!(state.hash(), hash, "sled's own drop wrote what it held");
    drop(state);
    let state = open(dir.path(), &boot(2));
    assert_eq!(state.applied().unwrap().last, None, "set aside, so that the log rebuilds it");
    state.apply(log()).unwrap();
    assert_eq!(state.hash(), hash, "rebuilt to the same bytes");
    assert!(dir.path().join("lost-1").is_dir(), "the old directory is kept");
}

/// Rows that sled was not given yet go with the process; what it has says how far it is, and the log
/// brings the rest.
#[test]
fn what_was_not_written_out_is_replayed_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    state.write_out();
    for index in 7..10 {
        state.apply(vec![entry(index, vec![add(&format!("晚到的 {index}"))])]).unwrap();
    }
    let (hash, rows) = (state.hash(), state.rows());
    assert_eq!(state.visible(), Some(9), "readers see them all the same");
    assert_eq!(memories(&state), 167);
    assert_eq!(state.recompute_hash().unwrap(), hash, "so does whoever reads all rows");
    drop(state);
    let state = open(dir.path(), &boot(1));
    assert_eq!((state.visible(), memories(&state)), (Some(6), 164));
    for index in 7..10 {
        state.apply(vec![entry(index, vec![add(&format!("晚到的 {index}"))])]).unwrap();
    }
    assert_eq!((state.hash(), state.rows()), (hash, rows));
    state.close().unwrap();
    drop(state);
    let state = open(dir.path(), &boot(2));
    assert_eq!((state.hash(), state.rows()), (hash, rows), "a clean stop writes everything");
}

#[test]
fn damage_is_set_aside_and_never_read_as_empty() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    state.close().unwrap();
    drop(state);
    // The row of the applied position is lost while others are there.
    let db = sled::open(dir.path().join("sled-1")).unwrap();
    db.remove(keys::local("applied")).unwrap();
    db.flush().unwrap();
    drop(db);
    let state = open(dir.path(), &boot(1));
    assert_eq!((state.applied().unwrap().last, memories(&state)), (None, 0));
    assert!(dir.path().join("lost-1").is_dir());
    state.close().unwrap();
    drop(state);
    // A directory that is gone is not an empty state either: it becomes a new generation.
    std::fs::remove_dir_all(dir.path().join("sled-2")).unwrap();
    let state = open(dir.path(), &boot(1));
    assert_eq!(state.applied().unwrap().last, None);
    assert!(dir.path().join("sled-3").is_dir());
}

#[test]
fn rows_are_counted_with_the_batches_that_change_them() {
    let dir = tempfile::tempdir().unwrap();
    let replicated = |state: &ShardState| {
        let rows = state.reader().scan(&[], None, usize::MAX).unwrap();
        rows.iter().filter(|(key, _)| keys::is_replicated(key)).count() as u64
    };
    let state = open(dir.path(), &boot(1));
    assert_eq!(state.rows(), 0);
    state.apply(log()).unwrap();
    assert!(state.rows() > 300, "a memory is more than one row");
    assert_eq!(state.rows(), replicated(&state));
    let write = Write::Delete { id: "m-3-7".into(), if_version: None };
    let delete = SpaceCommand { space: space(), idempotency: None, write };
    let delete = Command::Space(Box::new(delete)).encode().unwrap();
    state.apply(vec![entry(7, vec![delete.into()])]).unwrap();
    let rows = state.rows();
    assert_eq!(rows, replicated(&state));
    // sled writes what it has when it gets to it.
    state.db().flush().unwrap();
    assert!(state.disk_bytes().unwrap() > 0);
    drop(state);
    assert_eq!(open(dir.path(), &boot(1)).rows(), rows, "the number is stored with the rows");
}

/// sled panics on damage in a database of some size; a small one it just refuses.
#[test]
fn a_flipped_bit_in_a_large_state_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    for index in 0..60 {
        let commands = (0..50).map(|n| add(&format!("{index}-{n}-{}", "x".repeat(200)))).collect();
        state.apply(vec![entry(index, commands)]).unwrap();
    }
    state.close().unwrap();
    drop(state);
    let path = dir.path().join("sled-1/db");
    let mut bytes = std::fs::read(&path).unwrap();
    for at in [bytes.len() / 3, bytes.len() / 2, bytes.len() * 2 / 3] {
        bytes[at..at + 4096].fill(0xA5);
    }
    std::fs::write(&path, bytes).unwrap();
    let state = open(dir.path(), &boot(1));
    assert_eq!(state.applied().unwrap().last, None, "set aside, so that the log rebuilds it");
    assert!(dir.path().join("lost-1").is_dir());
}

#[test]
fn a_damaged_current_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), &boot(1)));
    std::fs::write(dir.path().join("current.json"), b"{").unwrap();
    let spaces = Arc::new(Spaces::new(1 << 20));
    let error = ShardState::open(place(dir.path(), &boot(1)), spaces).err().expect("must be refused");
    assert!(error.to_string().contains("current.json"), "{error}");
}

#[test]
fn a_command_that_cannot_be_read_stops_the_replica() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    let before = state.hash();
    let later = Bytes::from_static(&[99, 1, 2, 3]);
    assert!(state.apply(vec![entry(1, vec![add("a"), later])]).is_err());
    assert_eq!((state.hash(), state.visible()), (before, None));
}

/// A crash between two batches of one entry leaves its first commands; the rest follow, once.
#[test]
fn an_entry_cut_in_two_is_finished_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let whole = open(&dir.path().join("whole"), &boot(1));
    let commands: Vec<Bytes> = (0..100).map(|n| add(&format!("m-{n}"))).collect();
    let poison = Bytes::from_static(&[99]);
    whole.apply(vec![entry(1, commands.clone())]).unwrap();

    // The poisoned copy stops after some batches were written, as a crash would.
    let cut = open(&dir.path().join("cut"), &boot(1));
    let poisoned = [&commands[..90], &[poison]].concat();
    assert!(cut.apply(vec![entry(1, poisoned)]).is_err());
    let written = memories(&cut);
    assert!(written > 0 && written < 90, "{written}");
    drop(cut);
    let cut = open(&dir.path().join("cut"), &boot(1));
    assert_eq!(cut.applied().unwrap().last, None, "the entry is not applied whole");
    let outcomes = cut.apply(vec![entry(1, commands)]).unwrap();
    assert_eq!(outcomes[0].len(), 100);
    assert_eq!(cut.hash(), whole.hash());
}
