//! Sessions: turns, window, dialogue, digests, deletion.

use super::*;
use crate::limits::{
    DELETE_TURNS_MAX, SESSION_IDLE_GRID_US, SESSION_IDLE_US, SESSION_KEEP_US, SESSION_PINNED_MAX, SLOTS_MAX,
};
use crate::session::{Phase, SessionRow, SummaryLine, TurnRow, turn_reference};
use proptest::prelude::*;

pub(super) fn turn(role: &str, content: &str) -> NewTurn {
    let row = TurnRow { role: role.into(), content: content.into(), tokens: 10, ..TurnRow::default() };
    NewTurn { row, event_given: false }
}

pub(super) fn turns(session: &str, turns: Vec<NewTurn>) -> Write {
    Write::Turns(AppendTurns { session: session.into(), turns })
}

fn many(session: &str, count: usize) -> Write {
    turns(session, (0..count).map(|n| turn("user", &format!("turn {n}"))).collect())
}

fn delete_session(session: &str) -> Write {
    Write::DeleteSession { session: session.into(), if_version: None }
}

fn end(session: &str) -> Write {
    Write::EndSession { session: session.into(), if_version: None }
}

impl Replica {
    pub(super) fn session(&self, session: &str) -> Option<SessionRow> {
        let row = self.state.get(&keys::session::key(&space(), session)).unwrap();
        row.map(|row| SessionRow::decode(&row).unwrap())
    }

    fn turn(&self, session: &str, number: u64) -> Option<TurnRow> {
        let row = self.state.get(&keys::turn::key(&space(), session, number)).unwrap();
        row.map(|row| TurnRow::decode(&row).unwrap())
    }

    fn work(&self) -> Vec<keys::work::Work> {
        let rows =
            self.state.scan(&keys::work::prefix(keys::work::WorkKind::Session), None, usize::MAX).unwrap();
        rows.iter().map(|(key, _)| keys::work::Work::parse(key).unwrap()).collect()
    }

    pub(super) fn digest(&self, session: &str, through: u64, result: DigestResult) -> Write {
        let row = self.session(session).unwrap();
        let base = match &result {
            DigestResult::Summary(_) => row.summarised,
            DigestResult::Promoted(_) => row.promoted,
            DigestResult::Condensed(_) => row.condensed,
        };
        let session = session.to_owned();
        Write::Digest(Box::new(Digest { session, created_us: row.created_us, base, through, result }))
    }
}

fn made_of(n: u8, session: &str, first: u64, last: u64, content: &str) -> Add {
    let item = NewMemory { derived_from: vec![turn_reference(session, first, last)], ..made(n, content) };
    Add { origin: Origin::Job, model: None, vectors_given: false, partial: true, items: vec![item] }
}

#[test]
fn turns_are_counted_and_the_dialogue_follows_them() {
    let mut replica = Replica::new();
    let mut first = turn("user", "Where do I live?");
    first.row.act = Some("ask".into());
    first.row.pinned = true;
    let mut second = turn("assistant", "In Berlin. Right?");
    second.row.asks = true;
    second.event_given = true;
    second.row.event_us = -5;
    let items = replica.items(turns("s", vec![first, turn("tool", "{}"), second]));
    let numbers: Vec<_> = items.iter().map(|item| (item.version, item.status)).collect();
    assert_eq!(numbers, [1, 2, 3].map(|number| (number, ItemStatus::Recorded)));
    let row = replica.session("s").unwrap();
    assert_eq!((row.turns, row.tokens, row.version, row.pinned.as_slice()), (3, 30, 1, &[1][..]));
    assert_eq!(row.dialogue.phase, Phase::Waiting);
    assert_eq!(row.dialogue.user_act.as_deref(), Some("ask"));
    assert_eq!(replica.turn("s", 3).unwrap().event_us, -5);
    let plain = replica.turn("s", 1).unwrap();
    assert_eq!(plain.event_us, plain.recorded_us);
    replica.write(turns("s", vec![turn("user", "yes")]));
    let row = replica.session("s").unwrap();
    assert_eq!((row.turns, row.version, row.dialogue.phase), (4, 2, Phase::Processing));
    assert_eq!(replica.due(), 1, "one row by age, however many turns");
}

#[test]
fn a_repeated_append_answers_the_same_numbers() {
    let mut replica = Replica::new();
    let write = turns("会话", vec![turn("user", "a"), turn("user", "b")]);
    let first = replica.run(&space_command(write.clone(), Some(key(1, 1))));
    replica.write(turns("会话", vec![turn("user", "c")]));
    let again = replica.run(&space_command(write, Some(key(1, 1))));
    let (Outcome::Items { items, .. }, Outcome::Items { items: repeated, replayed, .. }) = (&first, &again)
    else {
        panic!("{first:?} {again:?}")
    };
    assert!(*replayed && items == repeated && items[0].id == "会话");
    assert_eq!(replica.session("会话").unwrap().turns, 3);
}

#[test]
fn an_ended_session_takes_no_turns_and_may_be_changed_no_more_than_that() {
    let mut replica = Replica::new();
    assert_eq!(failed(replica.write(end("s"))), ErrorCode::NotFound);
    replica.write(many("s", 2));
    assert_eq!(replica.items(end("s"))[0].status, ItemStatus::Ended);
    let version = replica.session("s").unwrap().version;
    replica.items(end("s"));
    assert_eq!(replica.session("s").unwrap().version, version, "ended once");
    assert_eq!(failed(replica.write(many("s", 1))), ErrorCode::Conflict);
    assert_eq!(replica.session("s").unwrap().turns, 2);
}

#[test]
fn the_dialogue_takes_legal_steps_by_compare_and_set() {
    let mut replica = Replica::new();
    replica.write(many("s", 1));
    let change = |phase, if_version| {
        let slots = vec![("city".to_owned(), Some("\"北京\"".to_owned())), ("gone".to_owned(), None)];
        Write::Dialogue(Box::new(ChangeDialogue {
            session: "s".into(),
            if_version,
            phase: Some(phase),
            slots,
            intent: Some(Some("book".into())),
            confirmed: Some(vec!["two people".into()]),
            ..ChangeDialogue::default()
        }))
    };
    assert_eq!(failed(replica.write(change(Phase::Waiting, Some(9)))), ErrorCode::Conflict);
    replica.items(change(Phase::Waiting, Some(1)));
    assert_eq!(failed(replica.write(change(Phase::Responding, None))), ErrorCode::Conflict);
    let dialogue = replica.session("s").unwrap().dialogue;
    assert_eq!((dialogue.phase, dialogue.slots["city"].as_str()), (Phase::Waiting, "\"北京\""));
    assert_eq!((dialogue.intent.as_deref(), dialogue.confirmed.len()), (Some("book"), 1));
    let slots = (0..SLOTS_MAX).map(|n| (format!("s{n}"), Some("1".to_owned()))).collect();
    let change = ChangeDialogue { session: "s".into(), slots, ..ChangeDialogue::default() };
    assert_eq!(failed(replica.write(Write::Dialogue(Box::new(change)))), ErrorCode::TooLarge);
}

#[test]
fn limits_of_a_session_are_told() {
    let mut replica = Replica::new();
    let pinned = NewTurn { row: TurnRow { pinned: true, ..turn("user", "x").row }, event_given: false };
    replica.write(turns("s", vec![pinned.clone(); SESSION_PINNED_MAX]));
    let outcome = replica.write(turns("s", vec![turn("user", "y"), pinned]));
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.code, error.field.as_deref()), (ErrorCode::TooLarge, Some("turns[1].pinned")));
    assert_eq!(replica.session("s").unwrap().turns, SESSION_PINNED_MAX as u64, "all or none");
    let mut bad = turn("user", " ");
    for (change, field) in [
        ((|_| {}) as fn(&mut TurnRow), "turns[0].content"),
        (|row| (row.content, row.importance) = ("x".into(), f32::NAN), "turns[0].importance"),
        (|row| (row.importance, row.role) = (0.0, String::new()), "turns[0].role"),
        (|row| (row.role, row.tags) = ("user".into(), vec!["a\nb".into()]), "turns[0].tags"),
        (|row| (row.tags, row.content) = (vec![], "长".repeat(30_000)), "turns[0].content"),
    ] {
        change(&mut bad.row);
        let error = space_command(turns("s", vec![bad.clone()]), None).check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field));
    }
    assert!(space_command(many("s", 101), None).check().is_err());
    assert!(space_command(many("", 1), None).check().is_err());
}

#[test]
fn work_waits_for_a_job_as_long_as_there_is_any() {
    let mut replica = Replica::new();
    replica.write(many("s", 1));
    let [work] = replica.work().try_into().unwrap();
    assert!(work.at_us >= replica.clock_us + SESSION_IDLE_US, "one turn waits until the session is idle");
    assert!(work.at_us <= replica.clock_us + SESSION_IDLE_US + SESSION_IDLE_GRID_US);
    replica.write(many("s", 19));
    let [work] = replica.work().try_into().unwrap();
    assert!(work.at_us <= replica.clock_us, "twenty do not");
    let digest =
        replica.digest("s", 20, DigestResult::Condensed(Some(made_of(1, "s", 1, 20, "twenty turns"))));
    replica.items(digest);
    assert_eq!(replica.work(), []);
    // An important one is worked on at once, and the summary when it lags.
    let mut important = turn("user", "I am allergic to nuts");
    important.row.promote = true;
    replica.write(turns("s", vec![important]));
    assert_eq!(replica.work().len(), 1);
    let digest = replica.digest("s", 21, DigestResult::Promoted(None));
    replica.items(digest);
    assert!(replica.work()[0].at_us > replica.clock_us);
    replica.write(end("s"));
    assert!(replica.work()[0].at_us <= replica.clock_us);
}

#[test]
fn a_digest_of_another_state_is_dropped() {
    let mut replica = Replica::new();
    replica.write(many("s", 30));
    let lines = vec![SummaryLine { turn: 1, text: "turn 0".into(), ..SummaryLine::default() }];
    let summary = replica.digest("s", 5, DigestResult::Summary(lines.clone()));
    let condensed =
        replica.digest("s", 20, DigestResult::Condensed(Some(made_of(1, "s", 1, 20, "an episode"))));
    replica.items(summary.clone());
    replica.items(condensed.clone());
    let before = replica.state.clone();
    for stale in [summary, condensed.clone()] {
        assert_eq!(failed(replica.write(stale)), ErrorCode::Conflict);
    }
    // Beyond the window's start, or beyond the last turn.
    for (through, result) in [
        (30, DigestResult::Summary(lines)),
        (31, DigestResult::Condensed(None)),
        (31, DigestResult::Promoted(None)),
    ] {
        let digest = replica.digest("s", through, result);
        assert_eq!(failed(replica.write(digest)), ErrorCode::Conflict);
    }
    assert_eq!(
        replica.state.rows().filter(|(key, _)| **key != *keys::clock()).collect::<Vec<_>>(),
        before.rows().filter(|(key, _)| **key != *keys::clock()).collect::<Vec<_>>()
    );
    // Another session under the same id is another one.
    replica.write(delete_session("s"));
    replica.write(many("s", 30));
    assert_eq!(failed(replica.write(condensed)), ErrorCode::Conflict);
    assert_eq!(replica.counters().memories, 0);
}

#[test]
fn a_deleted_session_takes_what_was_made_of_it() {
    let mut replica = Replica::new();
    for _ in 0..7 {
        replica.write(many("s", 100));
    }
    replica.write(many("other", 3));
    replica.write(add(vec![memory("own", "said elsewhere"), made(9, "said twice")]));
    for (n, content) in [(1, "episode one"), (2, "said twice"), (3, "episode two")] {
        let through = replica.session("s").unwrap().condensed + 20;
        let add = made_of(n, "s", through - 19, through, content);
        let digest = replica.digest("s", through, DigestResult::Condensed(Some(add)));
        replica.items(digest);
    }
    let summary = replica.digest("s", 600, DigestResult::Summary(vec![]));
    replica.items(summary);
    assert_eq!(replica.counters().memories, 4, "one merged");
    let late = replica.digest("s", 80, DigestResult::Condensed(Some(made_of(4, "s", 61, 80, "too late"))));

    assert_eq!(replica.items(delete_session("s"))[0].status, ItemStatus::Deleting);
    assert_eq!(replica.family(Family::Turn), 3 + 700 - DELETE_TURNS_MAX, "bounded");
    assert_eq!(failed(replica.write(late)), ErrorCode::Conflict);
    assert_eq!(failed(replica.write(many("s", 1))), ErrorCode::Conflict);
    assert_eq!(failed(replica.write(end("s"))), ErrorCode::NotFound, "it is not there");
    // It goes on by itself.
    for _ in 0..6 {
        replica.run(&Command::Sweep { limit: 16 });
    }
    assert_eq!(replica.items(delete_session("s"))[0].status, ItemStatus::Deleted);
    assert_eq!(failed(replica.write(delete_session("s"))), ErrorCode::NotFound);
    assert_eq!((replica.family(Family::Turn), replica.family(Family::Session)), (3, 1));
    assert_eq!((replica.family(Family::Summary), replica.family(Family::SessionMemory)), (0, 0));
    assert_eq!(replica.counters().memories, 2, "what callers said stays");
    assert!(replica.memory("own").is_some());
    assert_eq!(replica.family(Family::Tombstone), 3, "and one of the session");
    assert_eq!(replica.work().len(), 1, "of the other session");
    // A new one under the id is new.
    replica.write(many("s", 1));
    assert_eq!(replica.session("s").unwrap().turns, 1);
}

#[test]
fn an_old_session_goes_by_age_and_leaves_its_memories() {
    let mut replica = Replica::new();
    replica.write(many("s", 100));
    replica.write(many("s", 100));
    replica.write(many("s", 100));
    let digest =
        replica.digest("s", 300, DigestResult::Condensed(Some(made_of(1, "s", 1, 300, "an episode"))));
    replica.items(digest);
    replica.clock_us += SESSION_KEEP_US - 1_000;
    replica.write(turns("s", vec![turn("user", "still here")]));
    replica.clock_us += 2_000;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!(replica.session("s").unwrap().turns, 301, "used since");
    replica.clock_us += SESSION_KEEP_US;
    for _ in 0..4 {
        replica.run(&Command::Sweep { limit: 16 });
    }
    assert_eq!((replica.family(Family::Turn), replica.family(Family::Session)), (0, 0));
    assert_eq!((replica.counters().memories, replica.family(Family::SessionMemory)), (1, 0));
    assert_eq!((replica.due(), replica.work().len()), (0, 0));
}

/// What a job makes of a turn that is important.
pub(super) fn promote(replica: &mut Replica, n: u8, session: &str, through: u64, content: &str) {
    let made = made_of(n, session, through, through, content);
    let write = replica.digest(session, through, DigestResult::Promoted(Some(made)));
    replica.items(write);
}

/// The only memory there is.
fn only(replica: &Replica) -> (MemoryRow, IndexRow) {
    let rows = replica.state.scan(&keys::family_prefix(&space(), Family::IndexRow), None, 9).unwrap();
    let [(_, row)] = rows.as_slice() else { panic!("{} memories", rows.len()) };
    replica.memory(&IndexRow::decode(row).unwrap().id).unwrap()
}

#[test]
fn what_is_said_in_two_sessions_stands_until_both_are_gone() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut replica = Replica::new();
        for (n, session) in [(1, "a"), (2, "b")] {
            replica.write(many(session, 3));
            promote(&mut replica, n, session, 2, "I live in 北京.");
        }
        assert_eq!(only(&replica).0.derived_from, ["turn:a#2", "turn:b#2"]);
        replica.items(delete_session(order[0]));
        let (memory, row) = only(&replica);
        assert_eq!(memory.derived_from, [turn_reference(order[1], 2, 2)]);
        assert_eq!((replica.family(Family::Derived), replica.family(Family::SessionMemory)), (1, 1));
        assert_ne!(row.session.as_deref(), Some(order[0]));
        replica.items(delete_session(order[1]));
        assert_eq!((replica.counters().memories, replica.family(Family::Derived)), (0, 0));
    }
}

#[test]
fn what_a_caller_says_as_well_is_the_callers() {
    let mut replica = Replica::new();
    replica.write(many("a", 3));
    promote(&mut replica, 1, "a", 2, "I live in 北京.");
    assert_eq!(replica.items(add(vec![made(9, "I live in 北京.")]))[0].status, ItemStatus::Merged);
    assert_eq!((only(&replica).0.derived_from.len(), replica.family(Family::SessionMemory)), (0, 0));
    replica.write(many("b", 3));
    promote(&mut replica, 2, "b", 2, "I live in 北京.");
    for session in ["a", "b"] {
        replica.items(delete_session(session));
    }
    assert_eq!(only(&replica).1.count, 3);
}

#[derive(Debug, Clone)]
enum Act {
    Append(usize, bool),
    End,
    Delete,
    Summarise(u64),
    Promote(u64),
    Condense(u64, u8),
    Wait(i64),
    Sweep,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1usize..40, any::<bool>()).prop_map(|(n, promote)| Act::Append(n, promote)),
        1 => Just(Act::End),
        1 => Just(Act::Delete),
        2 => (0u64..60).prop_map(Act::Summarise),
        2 => (0u64..60).prop_map(Act::Promote),
        2 => (0u64..60, 0u8..5).prop_map(|(through, n)| Act::Condense(through, n)),
        1 => prop_oneof![Just(1), Just(SESSION_IDLE_US), Just(SESSION_KEEP_US)].prop_map(Act::Wait),
        2 => Just(Act::Sweep),
    ]
}

proptest! {
    /// Whatever happens to two sessions, in whatever order: what their rows say follows from their
    /// turns, work waits exactly where there is some, and nothing is left of what is gone.
    #[test]
    fn sessions_stay_whole(acts in proptest::collection::vec((act(), any::<bool>()), 1..40)) {
        let mut replica = Replica::new();
        for (act, first) in acts {
            let session = if first { "a" } else { "a#1" };
            match act {
                Act::Append(count, promote) => {
                    let mut one = turn("user", "x");
                    one.row.promote = promote;
                    replica.write(turns(session, vec![one; count]));
                }
                Act::End => drop(replica.write(end(session))),
                Act::Delete => drop(replica.write(delete_session(session))),
                Act::Wait(us) => replica.clock_us += us,
                Act::Sweep => drop(replica.run(&Command::Sweep { limit: 16 })),
                Act::Summarise(_) | Act::Promote(_) | Act::Condense(..) if replica.session(session).is_none() => {}
                Act::Summarise(through) => {
                    let digest = replica.digest(session, through, DigestResult::Summary(vec![]));
                    replica.write(digest);
                }
                Act::Promote(through) => {
                    let digest = replica.digest(session, through, DigestResult::Promoted(None));
                    replica.write(digest);
                }
                Act::Condense(through, n) => {
                    let add = made_of(n, session, 1, through.max(1), &format!("episode {n} of {session}"));
                    let digest = replica.digest(session, through, DigestResult::Condensed(Some(add)));
                    replica.write(digest);
                }
            }
            let mut work = replica.work().into_iter().map(|work| (work.id, work.at_us)).collect::<Vec<_>>();
            work.sort();
            let mut expected = Vec::new();
            let mut turns_kept = 0;
            for session in ["a", "a#1"] {
                let prefix = keys::turn::prefix(&space(), session);
                let kept = replica.state.scan(&prefix, None, 10_000).unwrap();
                turns_kept += kept.len();
                let Some(row) = replica.session(session) else {
                    prop_assert!(kept.is_empty());
                    prop_assert!(replica.state.get(&keys::summary::key(&space(), session)).unwrap().is_none());
                    let derived = replica.state.scan(&keys::session_memory::prefix(&space(), session), None, 1).unwrap();
                    prop_assert!(derived.is_empty());
                    continue;
                };
                expected.extend(row.work_us.map(|at_us| (session.to_owned(), at_us)));
                prop_assert!(row.summarised < row.window_start().max(1) && row.condensed <= row.turns);
                if row.is_there() {
                    prop_assert_eq!(kept.len() as u64, row.turns);
                    prop_assert_eq!(row.tokens, 10 * row.turns);
                    let wants = row.turns > row.condensed || row.wants_promotion() || row.unsummarised() >= 5;
                    prop_assert_eq!(row.work_us.is_some(), wants);
                }
            }
            prop_assert_eq!(work, expected);
            prop_assert_eq!(replica.family(Family::Turn), turns_kept);
        }
    }
}
