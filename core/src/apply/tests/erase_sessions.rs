//! Erasures of sessions: what was there when they began goes, with what follows from it.

use super::sessions::{promote, turn, turns};
use super::*;
use crate::erasure::*;
use crate::limits::DELETE_TURNS_MAX;
use crate::session::{Dialogue, Summary, SummaryLine, TurnRow};

const SECRET: &str = "秘密-x7";

fn say(replica: &mut Replica, words: &str, count: usize) {
    for at in (0..count).step_by(100) {
        let turns_of = (at..count.min(at + 100)).map(|n| turn("user", &format!("{words} {n}"))).collect();
        replica.write(turns("s", turns_of));
    }
}

fn begin(replica: &mut Replica) {
    let selection = Selection::Session("s".into());
    replica.write(Write::Erase(EraseStep::Begin { id: "e".into(), selection }));
}

/// Works the erasure off as a leader does that finds `memories` at first.
fn work_off(replica: &mut Replica, memories: &[&str]) -> usize {
    let mut memories: Vec<String> = memories.iter().map(|id| (*id).to_owned()).collect();
    let (after, mut steps) = (replica.counters().last_seq, 0);
    while replica.erasure("e").phase == Phase::Removing {
        let memories = std::mem::take(&mut memories);
        replica.write(Write::Erase(EraseStep::Remove { id: "e".into(), memories, after, ended: true }));
        steps += 1;
        assert!(steps < 100, "each takes something");
    }
    steps
}

fn kept(replica: &Replica) -> Vec<TurnRow> {
    let rows = replica.state.scan(&keys::turn::prefix(&space(), "s"), None, usize::MAX).unwrap();
    rows.iter().map(|(_, value)| TurnRow::decode(value).unwrap()).collect()
}

#[test]
fn what_was_said_after_an_erasure_began_stays() {
    let mut replica = Replica::new();
    let before = 2 * DELETE_TURNS_MAX + 30;
    say(&mut replica, SECRET, before);
    promote(&mut replica, 1, "s", 7, &format!("{SECRET} promoted"));
    let lines = vec![SummaryLine { turn: 1, text: SECRET.into(), ..SummaryLine::default() }];
    let summary = replica.digest("s", 150, DigestResult::Summary(lines.clone()));
    replica.items(summary);
    let intent = ChangeDialogue {
        session: "s".into(),
        if_version: None,
        phase: None,
        intent: Some(Some(SECRET.into())),
        slots: vec![("a".into(), Some(format!("\"{SECRET}\"")))],
        confirmed: None,
        user_act: None,
        system_act: None,
    };
    replica.write(Write::Dialogue(Box::new(intent)));
    begin(&mut replica);
    say(&mut replica, "later", 8);
    // A job that had not yet come to what was there.
    promote(&mut replica, 2, "s", 9, &format!("{SECRET} promoted late"));
    promote(&mut replica, 3, "s", before as u64 + 2, "promoted of what came later");
    let stale = replica.digest("s", 200, DigestResult::Summary(lines));

    assert!(work_off(&mut replica, &["3"]) > 2, "in bounded steps");
    assert!(replica.holding(SECRET.as_bytes()).is_empty());
    assert_eq!(kept(&replica).len(), 8);
    let row = replica.session("s").unwrap();
    assert!(row.is_there());
    assert_eq!((row.turns, row.tokens), (before as u64 + 8, 80), "numbers go on");
    assert_eq!(row.dialogue, Dialogue::default());
    assert!(row.window_start() > before as u64, "the window has only what is there");
    assert_eq!(row.promoted, before as u64 + 2, "what was made of later turns is not made again");
    assert_eq!(replica.counters().memories, 1);
    assert_eq!(replica.erasure("e").erased.memories, 2);
    let summary = replica.state.get(&keys::summary::key(&space(), "s")).unwrap().unwrap();
    assert_eq!(Summary::decode(&summary).unwrap(), Summary { through: before as u64, lines: vec![] });
    assert_eq!(failed(replica.write(stale)), ErrorCode::Conflict, "what was made of it comes too late");
    // It goes on as any other.
    say(&mut replica, "more", 30);
    let row = replica.session("s").unwrap();
    let summary = replica.digest("s", row.window_start() - 1, DigestResult::Summary(vec![]));
    replica.items(summary);
}

/// Where the turns of a step end exactly at the first that stays, jobs go on with that one.
#[test]
fn the_turns_of_a_step_may_end_with_those_that_go() {
    for before in [DELETE_TURNS_MAX - 1, DELETE_TURNS_MAX, DELETE_TURNS_MAX + 1, 2 * (DELETE_TURNS_MAX + 1)] {
        let mut replica = Replica::new();
        say(&mut replica, SECRET, before);
        begin(&mut replica);
        say(&mut replica, "later", 3);
        work_off(&mut replica, &[]);
        assert!(replica.holding(SECRET.as_bytes()).is_empty() && kept(&replica).len() == 3, "{before}");
        let row = replica.session("s").unwrap();
        assert_eq!((row.summarised, row.turns), (before as u64, before as u64 + 3), "{before}");
        let summary = replica.state.get(&keys::summary::key(&space(), "s")).unwrap().unwrap();
        assert_eq!(Summary::decode(&summary).unwrap().through, before as u64);
    }
}

/// A sweep beside an erasure takes nothing that the receipt would then not count.
#[test]
fn sweeps_leave_a_session_to_its_erasure() {
    let mut replica = Replica::new();
    say(&mut replica, SECRET, 2 * DELETE_TURNS_MAX + 5);
    promote(&mut replica, 1, "s", 7, &format!("{SECRET} promoted"));
    begin(&mut replica);
    let after = replica.counters().last_seq;
    while replica.erasure("e").phase == Phase::Removing {
        replica.write(Write::Erase(EraseStep::Remove {
            id: "e".into(),
            memories: vec![],
            after,
            ended: true,
        }));
        replica.run(&Command::Sweep { limit: 16 });
    }
    assert!(replica.session("s").is_none() && replica.holding(SECRET.as_bytes()).is_empty());
    assert_eq!(replica.erasure("e").erased.memories, 1);
}

#[test]
fn a_session_in_which_nothing_was_said_since_goes_whole_and_a_later_one_stays() {
    let mut replica = Replica::new();
    say(&mut replica, SECRET, 5);
    begin(&mut replica);
    replica.write(Write::EndSession { session: "s".into(), if_version: None });
    work_off(&mut replica, &[]);
    assert!(replica.session("s").is_none() && replica.holding(SECRET.as_bytes()).is_empty());

    let mut replica = Replica::new();
    begin(&mut replica);
    say(&mut replica, "another", 5);
    assert_eq!(work_off(&mut replica, &[]), 1);
    assert_eq!(kept(&replica).len(), 5);
}

#[test]
fn what_another_session_says_as_well_stays_and_is_that_ones() {
    let mut replica = Replica::new();
    say(&mut replica, "I live in 北京.", 3);
    replica.write(turns("other", vec![turn("user", "I live in 北京.")]));
    promote(&mut replica, 1, "s", 1, "I live in 北京.");
    promote(&mut replica, 2, "other", 1, "I live in 北京.");
    let id = crate::apply::add::uuid_text([1; 16]);
    assert_eq!(replica.memory(&id).unwrap().0.derived_from.len(), 2);
    begin(&mut replica);
    work_off(&mut replica, &[&id]);
    let (memory, row) = replica.memory(&id).unwrap();
    assert_eq!(memory.derived_from, ["turn:other#1"]);
    assert_ne!(row.session.as_deref(), Some("s"));
    assert_eq!(replica.erasure("e").erased.memories, 0);
    assert!(replica.holding(b"turn:s#").is_empty());
}

#[test]
fn what_was_said_again_since_stays_on_that() {
    let mut replica = Replica::new();
    say(&mut replica, "I live in 北京.", 3);
    promote(&mut replica, 1, "s", 2, "I live in 北京.");
    let id = crate::apply::add::uuid_text([1; 16]);
    begin(&mut replica);
    say(&mut replica, "I live in 北京.", 1);
    promote(&mut replica, 2, "s", 4, "I live in 北京.");
    assert_eq!(replica.memory(&id).unwrap().0.derived_from.len(), 2);
    work_off(&mut replica, &[&id]);
    let (memory, row) = replica.memory(&id).unwrap();
    assert_eq!((memory.derived_from, row.count), (vec!["turn:s#4".to_owned()], 2));
    assert_eq!((replica.family(Family::Derived), replica.family(Family::SessionMemory)), (1, 1));
    replica.items(Write::DeleteSession { session: "s".into(), if_version: None });
    assert_eq!(replica.counters().memories, 0);
}
