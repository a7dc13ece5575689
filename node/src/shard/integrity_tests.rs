//! Points, scrubs and rebuilds of one state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::tests::{add, boot, entry, log, memories, open, space};
use super::{BuildError, BuildLimits, Damage, Progress, Reason, RebuildError, ShardState, Source, point};
use crate::raft::{Applier, CommittedEntry};
use crate::snapshot::SnapshotFile;
use bytes::Bytes;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::keys::{self, Family};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn hash_point() -> Bytes {
    Command::HashPoint.encode().unwrap().into()
}

fn memory_rows() -> Vec<u8> {
    keys::family_prefix(&space(), Family::Memory)
}

fn scrub(state: &ShardState) -> Result<super::Scrubbed, BuildError> {
    state.scrub(&BuildLimits::default(), &Progress::default(), |_bytes| {})
}

#[test]
fn a_point_keeps_the_hash_of_whole_entries_and_changes_no_row() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (open(one.path(), &boot(1)), open(two.path(), &boot(1)));
    let entries = || {
        let mut log = log();
        // Between other commands of one entry, alone, and beside another one.
        log.push(entry(7, vec![add("x"), hash_point(), add("y")]));
        log.push(entry(8, vec![hash_point()]));
        log.push(entry(9, vec![add("z"), hash_point(), hash_point()]));
        log
    };
    one.apply(entries()).unwrap();
    for entry in entries() {
        two.apply(vec![entry]).unwrap();
        assert_eq!(two.hash_at(two.visible().unwrap()), Some(two.hash().hash));
    }
    assert_eq!(one.points(), two.points());
    let indices: Vec<u64> = one.points().iter().map(|point| point.index).collect();
    assert_eq!(indices, [7, 8, 9]);
    assert_eq!(one.hash_at(7), one.hash_at(8), "a point changes nothing, not even the clock");
    assert_ne!(one.hash_at(8), one.hash_at(9));
    assert_eq!(one.hash_at(6), None);
    assert_eq!(memories(&one), 167);
    assert!(scrub(&one).unwrap().is_sound());
}

#[test]
fn a_flipped_byte_and_a_lost_row_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    assert!(matches!(scrub(&state), Err(BuildError::NotNow(_))), "there is nothing yet");
    state.apply(log()).unwrap();
    let sound = scrub(&state).unwrap();
    assert!(sound.is_sound());
    assert_eq!((sound.index, sound.kept.0), (6, state.rows()));
    state.damage(&memory_rows(), 1, Damage::Row);
    assert!(!scrub(&state).unwrap().is_sound());
    assert!(!state.is_doubted());
    assert!(state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false)).is_err());
    assert!(state.is_doubted(), "no file is made of such rows, and they are read soon");
    state.damage(&memory_rows(), 255, Damage::Row);
    assert!(scrub(&state).unwrap().is_sound(), "and back");
    let key = state.db().scan_prefix(memory_rows()).next().unwrap().unwrap().0;
    state.db().remove(key).unwrap();
    let lost = scrub(&state).unwrap();
    assert_eq!(lost.found.0 + 1, lost.kept.0);
}

/// Rows are changed, added and removed all the time; the scrub never sees a difference.
#[test]
fn a_scrub_is_exact_while_applies_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(open(dir.path(), &boot(1)));
    state.apply(log()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut index = 7;
            while !stop.load(Ordering::Relaxed) {
                state
                    .apply(vec![entry(index, vec![add(&format!("w-{}", index % 300)), hash_point()])])
                    .unwrap();
                index += 1;
            }
        })
    };
    let until = Instant::now() + Duration::from_secs(2);
    let mut scrubs = 0;
    while Instant::now() < until || scrubs < 5 {
        // A snapshot file is built from a view of its own at the same time.
        let build = state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false));
        assert!(scrub(&state).unwrap().is_sound());
        build.unwrap();
        scrubs += 1;
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

fn rebuild(
    state: &ShardState,
    log: &[CommittedEntry],
    file: Option<&SnapshotFile>,
    must: Option<super::Point>,
) -> Result<std::path::PathBuf, RebuildError> {
    let entries = |first: u64, end: u64| {
        let wanted = log.iter().filter(|entry| (first..end).contains(&entry.position.index));
        Ok(wanted.take(2).cloned().collect())
    };
    state.rebuild(&Source { file, must, entries: &entries, stop: &AtomicBool::new(false), keep: true })
}

#[test]
fn a_state_is_made_anew_from_its_file_and_log() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    let mut log = log();
    state.apply(log.clone()).unwrap();
    let file = state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false)).unwrap();
    let more = vec![entry(7, vec![add("x"), hash_point()]), entry(8, vec![add("y")])];
    log.extend(more.clone());
    state.apply(more).unwrap();
    let (right, applied) = (state.hash(), state.applied().unwrap());
    let at = point(7, state.hash_at(7).unwrap().0);
    for from in [None, Some(&*file)] {
        state.damage(&memory_rows(), 1, Damage::Applied);
        assert_ne!(state.hash(), right);
        let kept = rebuild(&state, &log, from, Some(at)).unwrap();
        assert!(kept.is_dir(), "the old state is kept");
        assert_eq!((state.hash(), state.applied().unwrap()), (right, applied.clone()));
        assert!(scrub(&state).unwrap().is_sound());
        assert_eq!(state.points(), [at], "its points are those of the new rows");
    }
    assert_eq!(state.replacements(), 2);
    let kept = std::fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("lost-"));
    assert_eq!(kept.count(), 1, "one at most");
    // It goes on, and a restart finds the new one.
    state.apply(vec![entry(9, vec![add("z")])]).unwrap();
    let hash = state.hash();
    state.close().unwrap();
    drop(state);
    let state = open(dir.path(), &boot(1));
    assert_eq!((state.hash(), memories(&state)), (hash, 167));
}

#[test]
fn a_source_that_comes_to_something_else_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = open(dir.path(), &boot(1));
    let log = log();
    state.apply(log.clone()).unwrap();
    let before = state.hash();
    let wrong = rebuild(&state, &log, None, Some(point(5, 7)));
    assert!(matches!(wrong, Err(RebuildError::WrongSource { index: 5, wanted: 7, .. })), "{wrong:?}");
    let file = state.build_snapshot(&BuildLimits::default(), false, &AtomicBool::new(false)).unwrap();
    let old = rebuild(&state, &log, Some(&file), Some(point(5, 7)));
    assert!(matches!(old, Err(RebuildError::PointTooOld(5))), "{old:?}");
    let short = rebuild(&state, &log[..4], None, None);
    assert!(matches!(short, Err(RebuildError::Log(_))), "{short:?}");
    assert_eq!((state.hash(), state.replacements()), (before, 0));
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.iter().filter(|name| name.to_string_lossy().starts_with("sled-")).count(), 1, "{left:?}");
    state.apply(vec![entry(7, vec![add("x")])]).unwrap();
    assert!(scrub(&state).unwrap().is_sound());
}

/// The group stops, since nothing can be applied to such rows; the next start makes the state anew.
#[test]
fn a_row_that_cannot_be_read_costs_the_state_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let break_it = |state: &ShardState| {
        let (key, _) = state.db().scan_prefix(memory_rows()).next().unwrap().unwrap();
        state.db().insert(&key, &[99_u8, 1, 2]).unwrap();
        let id = String::from_utf8(key[memory_rows().len()..].to_vec()).unwrap();
        let write = Write::Delete { id, if_version: None };
        let delete = SpaceCommand { space: space(), idempotency: None, write };
        Command::Space(Box::new(delete)).encode().unwrap().into()
    };
    for rebuilt in 1..=2 {
        let state = open(dir.path(), &boot(1));
        state.apply(log()).unwrap();
        let delete = break_it(&state);
        assert!(state.apply(vec![entry(7, vec![delete])]).is_err());
        let suspicion = state.quarantine().suspicion().unwrap();
        assert_eq!((suspicion.reason, state.quarantine().holds()), (Reason::Unreadable, true));
        drop(state);
        let state = open(dir.path(), &boot(1));
        assert_eq!(state.visible(), None, "to be rebuilt from the log");
        assert_eq!((state.quarantine().holds(), state.quarantine().rebuilds_since(0)), (false, rebuilt));
        state.close().unwrap();
    }
    // A third time within a day would only hide what breaks it.
    let state = open(dir.path(), &boot(1));
    state.apply(log()).unwrap();
    let delete = break_it(&state);
    assert!(state.apply(vec![entry(7, vec![delete])]).is_err());
    drop(state);
    let state = open(dir.path(), &boot(1));
    assert_eq!((state.visible(), state.quarantine().holds()), (Some(6), true));
}

#[test]
fn an_image_is_compared_with_the_rows_while_applies_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(open(dir.path(), &boot(1)));
    assert!(state.check_index(&space(), |_rows| {}).unwrap().is_none(), "it is not in memory");
    state.apply(log()).unwrap();
    let soon = Instant::now() + Duration::from_secs(20);
    let image = state.spaces().get(&space(), &state.reader(), soon).unwrap();
    assert_eq!(state.live_spaces(), [space()]);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut index = 7;
            while !stop.load(Ordering::Relaxed) {
                state.apply(vec![entry(index, vec![add(&format!("w-{index}"))])]).unwrap();
                index += 1;
            }
        })
    };
    let until = Instant::now() + Duration::from_secs(2);
    let mut checks = 0;
    while Instant::now() < until || checks < 5 {
        let report = state.check_index(&space(), |_rows| {}).unwrap();
        let report = report.expect("it stays in memory");
        assert!(report.is_clean(), "{report:?}");
        checks += 1;
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    let seq = image.read().rows().next().unwrap().0;
    image.write().remove(seq);
    let report = state.check_index(&space(), |_rows| {}).unwrap().unwrap();
    assert_eq!((report.differences[0].seq, report.differences[0].what), (seq, "missing"));
}
