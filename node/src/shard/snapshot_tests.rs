//! Snapshot files of a real state: written while applies go on, and made into states again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::tests::{add, boot, entry, log, memories, open, place, space};
use super::view::Purpose;
use super::{BuildError, BuildLimits, ShardState};
use crate::index::Spaces;
use crate::raft::Applier;
use crate::snapshot::{SnapshotError, SnapshotFile};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::keys;
use holdfast_core::state::{Reader, Row};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn build(state: &ShardState) -> Result<Arc<SnapshotFile>, BuildError> {
    state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false))
}

fn replicated(state: &ShardState) -> Vec<Row> {
    let rows = state.reader().scan(&[], None, usize::MAX).unwrap();
    rows.into_iter().filter(|(key, _)| keys::is_replicated(key)).collect()
}

fn rows_of(file: &SnapshotFile) -> Vec<Row> {
    let mut reader = file.reader().unwrap();
    let mut rows = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        rows.extend(block);
    }
    rows
}

fn delete(index: u64, id: &str) -> crate::raft::CommittedEntry {
    let write = Write::Delete { id: id.into(), if_version: None };
    let delete = SpaceCommand { space: space(), idempotency: None, write };
    entry(index, vec![Command::Space(Box::new(delete)).encode().unwrap().into()])
}

/// Copies the newest snapshot file of one state to the directory of another.
fn give_file(from: &ShardState, to: &Path) {
    let file = from.snapshots().newest().unwrap();
    let dir = to.join("snapshots");
    fs::create_dir_all(&dir).unwrap();
    fs::copy(file.path(), dir.join(file.path().file_name().unwrap())).unwrap();
}

#[test]
fn a_file_is_exact_while_applies_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    assert!(matches!(build(&state), Err(BuildError::NotNow(_))), "an empty state has nothing to write");
    for index in 0..40 {
        state.apply(vec![entry(index, (0..50).map(|n| add(&format!("{index}-{n}"))).collect())]).unwrap();
    }
    let (stop, mut files) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut index = 40;
            while !stop.load(Ordering::Relaxed) {
                let commands = (0..5).map(|n| add(&format!("{index}-{n}"))).collect();
                state.apply(vec![entry(index, commands)]).unwrap();
                state.apply(vec![delete(index + 1, &format!("{}-7", index % 40))]).unwrap();
                index += 2;
            }
        });
        // The writer compares what it wrote with the hash that apply had kept at that point.
        let begun = Instant::now();
        while files < 5 && begun.elapsed() < Duration::from_secs(30) {
            let before = state.visible();
            let file = build(&state).unwrap();
            assert!(Some(file.id().index) >= before && Some(file.id().index) <= state.visible());
            files += u32::from(Some(file.id().index) < state.visible());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(files, 5, "no build had applies beside it");
    let last = build(&state).unwrap();
    assert_eq!(rows_of(&last), replicated(&state));
    assert_eq!((last.header().hash, last.header().rows), (state.hash().hash, state.rows()));
    assert_eq!(state.log_bytes_since_snapshot(), 0);
    assert_eq!(state.recompute_hash().unwrap(), state.hash());
}

#[test]
fn a_build_that_takes_too_much_is_given_up_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    let never = AtomicBool::new(false);
    let limits = BuildLimits { time: Duration::ZERO, ..BuildLimits::default() };
    assert!(matches!(state.build_snapshot(&limits, true, &never), Err(BuildError::GivenUp(_))));
    assert_eq!(state.pause(), Duration::ZERO, "applies are not slowed down any more");
    let stopped = state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(BuildError::NotNow(_))));
    assert_eq!(fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 0);
    assert_eq!(build(&state).unwrap().id().index, 6);
}

/// Applies that change much ahead of the reader are slowed down, and end the build at the limit.
#[test]
fn a_build_keeps_no_more_than_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    state.begin_view(Purpose::Build, true).unwrap();
    assert!(
        matches!(state.begin_view(Purpose::Build, true), Err(BuildError::NotNow(_))),
        "one build at a time"
    );
    let slow = state.pause();
    assert!(slow > Duration::ZERO);
    let limits = |kept_bytes| BuildLimits { kept_bytes, ..BuildLimits::default() };
    for (at, id) in ["m-3-5", "m-3-6", "m-3-7"].into_iter().enumerate() {
        state.apply(vec![delete(7 + at as u64, id)]).unwrap();
    }
    let kept = state.applying.lock().views.of(Purpose::Build).as_ref().unwrap().kept_bytes();
    assert!(state.next_range(Purpose::Build, &limits(kept + 1)).is_ok());
    assert!(state.pause() > slow, "more than half of what may be kept is kept");
    state.apply(vec![delete(10, "m-6-50")]).unwrap();
    assert!(matches!(state.next_range(Purpose::Build, &limits(100)), Err(BuildError::GivenUp(_))));
    // An ordinary build afterwards finds everything as it should be.
    *state.applying.lock().views.of(Purpose::Build) = None;
    assert_eq!(rows_of(&build(&state).unwrap()), replicated(&state));
}

#[test]
fn a_state_that_does_not_have_its_hash_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    let (key, _) = replicated(&state).swap_remove(17);
    state.db().insert(key, b"bit rot".as_slice()).unwrap();
    assert!(matches!(build(&state), Err(BuildError::File(SnapshotError::Rows(_)))));
    assert!(state.snapshots().newest().is_none());
}

#[test]
fn a_lost_state_is_made_from_the_file_and_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    build(&state).unwrap();
    let at_file = (state.hash(), state.rows(), state.applied().unwrap());
    state.apply(vec![entry(7, vec![add("later")])]).unwrap();
    let (hash, log_bytes) = (state.hash(), state.log_bytes_since_snapshot());
    drop(state);
    // Another boot: sled's directory is not trusted.
    let state = open(dir.path(), &boot(2));
    assert_eq!((state.hash(), state.rows(), state.applied().unwrap()), at_file);
    assert_eq!((state.installs(), state.visible()), (1, Some(6)));
    assert_eq!(state.recompute_hash().unwrap(), state.hash());
    state.apply(vec![entry(7, vec![add("later")])]).unwrap();
    assert_eq!((state.hash(), state.log_bytes_since_snapshot()), (hash, log_bytes));
    state.write_out();
    drop(state);
    // Under the same boot the state is newer than the file and stays.
    let state = open(dir.path(), &boot(2));
    assert_eq!((state.hash(), state.installs()), (hash, 0));
    let states = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("sled-"));
    assert_eq!(states.count(), 1, "older generations are removed");
}

#[test]
fn a_state_older_than_the_file_is_replaced_at_the_start() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ahead = open(other.path(), &boot(1));
    ahead.apply(log()).unwrap();
    build(&ahead).unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log().into_iter().take(3).collect()).unwrap();
    state.close().unwrap();
    drop(state);
    give_file(&ahead, dir.path());
    let state = open(dir.path(), &boot(1));
    assert_eq!((state.hash(), state.installs()), (ahead.hash(), 1));
    assert_eq!(replicated(&state), replicated(&ahead));
}

#[test]
fn a_damaged_file_is_set_aside_and_its_rows_are_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    let path = build(&state).unwrap().path().to_owned();
    drop(state);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&path, bytes).unwrap();
    let state = open(dir.path(), &boot(2));
    assert_eq!((state.applied().unwrap().last, memories(&state)), (None, 0));
    assert_eq!((state.snapshots().newest_index(), state.snapshots().damaged()), (None, 1));
    assert!(dir.path().join("snapshots/snapshot.damaged").is_file());
    // The log, where it still has everything, brings it back.
    state.apply(log()).unwrap();
    assert_eq!(memories(&state), 164);
}

#[test]
fn an_install_replaces_rows_images_and_the_visible_index() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ahead = open(other.path(), &boot(1));
    ahead.apply(log()).unwrap();
    ahead.apply(vec![delete(7, "m-3-7")]).unwrap();
    let file = build(&ahead).unwrap();

    let spaces = Arc::new(Spaces::new(64 << 20));
    let boot = boot(1);
    let state = ShardState::open(place(dir.path(), &boot), Arc::clone(&spaces)).unwrap();
    state.apply(log().into_iter().take(4).collect()).unwrap();
    let soon = || Instant::now() + Duration::from_secs(10);
    let live = |state: &ShardState| {
        let image = state.spaces().get(&space(), &state.reader(), soon()).unwrap();
        image.read().len()
    };
    assert_eq!(live(&state), 101);
    let old_reader = state.db();
    state.install(&file).unwrap();
    assert_eq!(spaces.usage().images, 0, "images of the old state are dropped");
    assert_eq!(live(&state), 163);
    assert_eq!((state.hash(), state.visible(), state.rows()), (ahead.hash(), Some(7), ahead.rows()));
    assert_eq!(state.applied().unwrap(), ahead.applied().unwrap());
    assert!(old_reader.len() > 200, "who reads the old state can go on");
    // It goes on from there, and an older file changes nothing.
    for state in [&state, &ahead] {
        state.apply(vec![entry(8, vec![add("after")])]).unwrap();
    }
    state.install(&file).unwrap();
    assert_eq!((state.hash(), state.installs()), (ahead.hash(), 1));
    drop(old_reader);
    state.close().unwrap();
    drop(state);
    let state = open(dir.path(), &boot);
    assert_eq!(replicated(&state), replicated(&ahead));
}

/// A load that is under way when the state is replaced must not bring the old state back.
#[test]
fn images_loaded_across_an_install_are_of_the_new_state() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ahead = open(other.path(), &boot(1));
    ahead.apply(log()).unwrap();
    let file = build(&ahead).unwrap();
    for round in 0..20 {
        let dir = dir.path().join(round.to_string());
        let state = open(&dir, &boot(1));
        state.apply(log().into_iter().take(4).collect()).unwrap();
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| {
                let until = Instant::now() + Duration::from_secs(10);
                while state.visible() != Some(6) {
                    // Cancelled or not: what counts is what is live afterwards.
                    let _ = state.spaces().get(&space(), &state.reader(), until);
                    state.spaces().forget(|_| round % 2 == 0);
                }
            });
            state.install(&file).unwrap();
            loading.join().unwrap();
        });
        let image =
            state.spaces().get(&space(), &state.reader(), Instant::now() + Duration::from_secs(10)).unwrap();
        assert_eq!(image.read().len(), 164, "round {round}");
    }
}
