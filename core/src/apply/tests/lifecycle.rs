//! Repetition, expiry and time.

use super::*;
use crate::erasure::{EraseStep, Selection};
use crate::limits::EXPIRE_ROWS_MAX;

#[test]
fn a_repeated_write_answers_as_before_and_does_nothing() {
    let mut replica = Replica::new();
    let target = replica.items(add(vec![made(9, "same")]))[0].id.clone();
    let write = add(vec![made(1, "new"), memory("chosen", "x"), made(2, "same")]);
    let first = replica.run(&space_command(write, Some(key(7, 70))));
    // The router of the retry makes other ids.
    let write = add(vec![made(3, "new"), memory("chosen", "x"), made(4, "same")]);
    let second = replica.run(&space_command(write.clone(), Some(key(7, 70))));
    let (
        Outcome::Items { items, log_index, replayed: false },
        Outcome::Items { items: again, log_index: at, replayed: true },
    ) = (&first, &second)
    else {
        panic!("{first:?} {second:?}")
    };
    assert_eq!((items, log_index), (again, at));
    assert_eq!(items[2].id, target);
    assert_eq!(replica.counters().memories, 3);
    assert_eq!(replica.memory(&target).unwrap().1.count, 2, "counted once");
    assert_eq!(failed(replica.run(&space_command(write, Some(key(7, 71))))), ErrorCode::Conflict);
}

#[test]
fn a_refused_write_may_be_repeated() {
    let mut replica = Replica::new();
    let write = update("late", "x", 1);
    assert_eq!(failed(replica.run(&space_command(write.clone(), Some(key(1, 1))))), ErrorCode::NotFound);
    replica.write(add(vec![memory("late", "w")]));
    assert!(matches!(replica.run(&space_command(write, Some(key(1, 1)))), Outcome::Items { .. }));
}

#[test]
fn idempotency_rows_are_bounded_and_the_oldest_go_first() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "x")]));
    let feed = Write::Feedback { items: vec![FeedbackItem { id: "a".into(), verdict: Verdict::Useless }] };
    for n in 0..=u128::from(IDEMPOTENCY_ROWS_MAX) {
        replica.run(&space_command(feed.clone(), Some(key(n, 0))));
    }
    let rows = replica.family(Family::Idempotency);
    assert!(rows <= IDEMPOTENCY_ROWS_MAX as usize, "{rows}");
    assert_eq!(rows, replica.counters().idempotency_rows as usize);
    let known = |n: u128| replica.state.get(&keys::idempotency::key(&space(), n)).unwrap().is_some();
    assert!(!known(0) && known(u128::from(IDEMPOTENCY_ROWS_MAX)));
    assert_eq!(replica.due(), 1, "one row for all of them");
}

#[test]
fn a_sweep_works_off_what_is_due_and_no_more() {
    let mut replica = Replica::new();
    let expiring = |id: &str, at_us| {
        let mut item = memory(id, id);
        item.index.expires_us = Some(at_us);
        item
    };
    let start = replica.clock_us;
    replica.run(&space_command(
        add(vec![expiring("soon", start + 1_000), expiring("late", start + 1_000_000), memory("never", "n")]),
        Some(key(1, 1)),
    ));
    // Moving the expiry moves its row.
    let mut moved = memory("late", "late");
    moved.index.expires_us = Some(start + 2_000_000);
    replica.write(Write::Update(Box::new(Update {
        if_version: 1,
        model: None,
        vectors_given: false,
        keep_statements: true,
        memory: moved,
    })));
    replica.clock_us = start + 1_500_000;
    assert_eq!(replica.run(&Command::Sweep { limit: 16 }), Outcome::Swept { done: 1, more: false });
    assert!(replica.memory("soon").is_none() && replica.memory("late").is_some());
    replica.clock_us = start + IDEMPOTENCY_KEEP_US + 1_000;
    assert_eq!(replica.run(&Command::Sweep { limit: 1 }), Outcome::Swept { done: 1, more: true });
    replica.run(&Command::Sweep { limit: 16 });
    assert!(replica.memory("late").is_none() && replica.memory("never").is_some());
    assert_eq!((replica.family(Family::Idempotency), replica.counters().idempotency_rows), (0, 0));
    assert_eq!(replica.family(Family::Tombstone), 2);
    replica.clock_us += TOMBSTONE_KEEP_US;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!((replica.family(Family::Tombstone), replica.due(), replica.counters().tombstones), (0, 0, 0));
    assert!(matches!(replica.events.last(), Some(Event::Remove { .. })));
}

/// Passes over tombstones are cut into steps: none is lost, and none stays longer than two times its time, though
/// some are made while a pass goes on.
#[test]
fn tombstones_go_in_bounded_steps() {
    const MANY: usize = 2_500;
    let mut replica = Replica::new();
    let id = |n: usize| format!("m{n:05}");
    let bury = |replica: &mut Replica, range: std::ops::Range<usize>| {
        for n in range {
            replica.write(add(vec![memory(&id(n), &format!("text {n}"))]));
            replica.write(delete(&id(n)));
        }
    };
    bury(&mut replica, 0..MANY);
    let young = replica.clock_us + TOMBSTONE_KEEP_US / 2;
    replica.clock_us = young;
    bury(&mut replica, 3_000..3_010);
    replica.clock_us = young + TOMBSTONE_KEEP_US / 2 + 1_000_000;
    // One step reads and takes out a bounded number; what it leaves is due at once.
    let before = replica.family(Family::Tombstone);
    assert!(matches!(replica.run(&Command::Sweep { limit: 1 }), Outcome::Swept { done: 1, more: true }));
    let taken = before - replica.family(Family::Tombstone);
    assert!((1..=EXPIRE_ROWS_MAX).contains(&taken), "{taken}");
    // Before and behind where the pass stands.
    bury(&mut replica, 0..1);
    bury(&mut replica, 9_000..9_001);
    let mut sweeps = 0;
    while matches!(replica.run(&Command::Sweep { limit: 16 }), Outcome::Swept { more: true, .. }) {
        sweeps += 1;
        assert!(sweeps < 100, "a pass ends");
    }
    assert_eq!(replica.family(Family::Tombstone), 12, "the young ones");
    assert_eq!((replica.counters().tombstones, replica.due()), (12, 1));
    replica.clock_us += TOMBSTONE_KEEP_US;
    for _ in 0..9 {
        replica.run(&Command::Sweep { limit: 16 });
    }
    assert_eq!((replica.family(Family::Tombstone), replica.due(), replica.counters().tombstones), (0, 0, 0));
    assert_eq!(replica.counters().tombstone_due_us, None);

    // In the midst of a pass the whole space goes.
    bury(&mut replica, 0..600);
    replica.clock_us += TOMBSTONE_KEEP_US;
    replica.run(&Command::Sweep { limit: 1 });
    replica.write(Write::Erase(EraseStep::Begin { id: "all".into(), selection: Selection::All }));
    replica.drop_all("all", 96);
    for _ in 0..9 {
        replica.run(&Command::Sweep { limit: 16 });
    }
    assert_eq!((replica.family(Family::Tombstone), replica.counters().tombstones, replica.due()), (1, 1, 1));
}

#[test]
fn log_time_never_goes_back() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("a", "x")]));
    let first = last_applied_us(&replica.state).unwrap().unwrap();
    replica.clock_us -= 3_600_000_000;
    replica.write(add(vec![memory("b", "y")]));
    assert_eq!(last_applied_us(&replica.state).unwrap(), Some(first + 1));
    assert_eq!(replica.memory("b").unwrap().1.created_us, first + 1);
    replica.clock_us = i64::MAX - 100;
    replica.write(add(vec![memory("c", "z")]));
    replica.write(add(vec![memory("d", "z2")]));
    assert!(replica.memory("d").is_some(), "the end of time is no panic");
}

#[test]
fn a_restated_text_lives_as_long_as_its_longest_statement() {
    let mut replica = Replica::new();
    let start = replica.clock_us;
    let until = |n, text: &str, at_us: Option<i64>| {
        let mut item = made(n, text);
        item.index.expires_us = at_us;
        item
    };
    replica
        .write(add(vec![until(1, "room 5", Some(start + 1_000)), until(2, "room 6", Some(start + 1_000))]));
    let items =
        replica.items(add(vec![until(3, "room 5", None), until(4, "room 6", Some(start + 5_000_000))]));
    assert!(items.iter().all(|item| item.status == ItemStatus::Merged));
    replica.clock_us = start + 2_000_000;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!(replica.counters().memories, 2, "both were said to last longer");
    replica.clock_us = start + 6_000_000;
    // Expired and not swept yet: the text is new, and the sweep that follows must not take it.
    let items = replica.items(add(vec![until(5, "room 6", None)]));
    assert_eq!(items[0].status, ItemStatus::Created);
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!((replica.counters().memories, replica.family(Family::Memory)), (2, 2));
    assert_eq!(replica.memory(&items[0].id).unwrap().1.expires_us, None);
}
