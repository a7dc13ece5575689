//! Exports and imports of what stands beside memories.

use super::sessions::{turn, turns};
use super::*;
use crate::erasure::{EraseStep, Selection};
use crate::session::{SessionRow, SummaryLine, turn_reference};
use crate::tiers::block::{BlockChange, BlockWrite};
use crate::tiers::procedure::{Body, ProcedureChange, ProcedureWrite, WorkflowStep};
use crate::tiers::task::{PlanOp, Step, StepKind, TaskChange, TaskWrite};
use crate::transfer::Item;
use crate::transfer::beside::Beside;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn block(label: &str, change: BlockChange) -> Write {
    Write::Block(Box::new(BlockWrite { label: label.into(), if_version: None, by_admin: true, change }))
}

fn task(id: &str, change: TaskChange) -> Write {
    Write::Task(Box::new(TaskWrite { id: id.into(), if_version: None, change }))
}

fn procedure(name: &str, change: ProcedureChange) -> Write {
    Write::Procedure(Box::new(ProcedureWrite { name: name.into(), if_version: None, change }))
}

fn put_block(value: &str) -> BlockChange {
    let value = Some(value.to_owned());
    BlockChange::Put { value, description: Some("茶".into()), limit_chars: Some(99), read_only: Some(true) }
}

fn put_task(ttl_s: u32) -> TaskChange {
    let (session, agent) = (Some("s".to_owned()), Some("a".to_owned()));
    TaskChange::Put { goal: Some("a trip 🙂".into()), session, agent, plan: None, ttl_s: Some(ttl_s) }
}

fn steps(count: usize) -> TaskChange {
    let step = |n| {
        let kind = if n % 2 == 0 { StepKind::Tool } else { StepKind::Observation };
        Step { kind, tool: Some("t".into()), content: format!("step {n}"), success: Some(true) }
    };
    TaskChange::Steps {
        steps: (0..count).map(step).collect(),
        plan: vec![PlanOp::Push { text: "go".into() }],
    }
}

fn template(text: &str) -> ProcedureChange {
    let body = Body::Template { text: text.into() };
    ProcedureChange::Put { body, description: "d".into(), placeholders: vec!["name".into()] }
}

/// Some of everything: a session with a summary and memories made of it, one that has ended, tasks, blocks and
/// procedures with several versions.
fn full() -> Replica {
    let mut replica = Replica::new();
    for n in 0..30 {
        let mut said = turn("user", &format!("转 {n}"));
        said.row.tokens = 300;
        said.row.pinned = n == 3;
        said.row.promote = n == 5;
        replica.write(turns("s", vec![said]));
    }
    let lines =
        vec![SummaryLine { turn: 1, role: "user".into(), text: "转 0".into(), ..SummaryLine::default() }];
    replica.write(replica.digest("s", 20, DigestResult::Summary(lines)));
    let item = NewMemory { derived_from: vec![turn_reference("s", 6, 6)], ..made(7, "转 5") };
    let items = vec![item];
    let add = Add { origin: Origin::Job, model: None, vectors_given: false, partial: true, items };
    replica.write(replica.digest("s", 30, DigestResult::Promoted(Some(add))));
    replica.write(turns("done", vec![turn("user", "bye"), turn("assistant", "bye")]));
    replica.write(Write::EndSession { session: "done".into(), if_version: None });
    replica.write(task("trip", put_task(86_400)));
    replica.write(task("trip", steps(300)));
    let set = BTreeMap::from([("城市".to_owned(), "\"柏林\"".to_owned())]);
    replica.write(task("trip", TaskChange::Variables { set, remove: BTreeSet::default() }));
    replica.write(task("idle", put_task(60)));
    for n in 0..25 {
        replica.write(block("human", put_block(&format!("版本 {n}"))));
    }
    replica.write(block("persona", put_block("")));
    for n in 0..4 {
        replica.write(procedure("greet", template(&format!("{n} {{{{name}}}}"))));
        replica.write(procedure("greet", ProcedureChange::Verify { version: n + 1 }));
        if n != 2 {
            replica.write(procedure("greet", ProcedureChange::Activate { version: Some(n + 1) }));
        }
    }
    replica.write(procedure("greet", ProcedureChange::Report { version: None, success: true }));
    let step = WorkflowStep { name: "ask".into(), text: "ask".into(), tool: None };
    let body = Body::Workflow { steps: vec![step] };
    let draft = ProcedureChange::Put { body, description: String::new(), placeholders: vec![] };
    replica.write(procedure("draft", draft));
    replica
}

/// The rows of what stands beside memories. When work on a session is due may differ: it is looked at anew.
fn rows(replica: &Replica) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let families = [
        Family::Session,
        Family::Turn,
        Family::Summary,
        Family::SessionMemory,
        Family::Task,
        Family::Block,
        Family::Procedure,
    ];
    let mut all = BTreeMap::new();
    for family in families {
        let prefix = keys::family_prefix(&space(), family);
        for (key, value) in replica.state.scan(&prefix, None, usize::MAX).unwrap() {
            let mut value = value.to_vec();
            if family == Family::Session {
                value = SessionRow { work_us: None, ..SessionRow::decode(&value).unwrap() }.encode().unwrap();
            }
            all.insert(key.to_vec(), value);
        }
    }
    all
}

fn only_beside(items: &[Item]) -> Vec<Item> {
    items.iter().filter(|item| matches!(item, Item::Beside(_))).cloned().collect()
}

#[test]
fn everything_comes_back_row_for_row() {
    let from = full();
    for (bytes_max, step) in [(1, 1), (700, 7), (usize::MAX, 100)] {
        let items = from.exported(bytes_max);
        let mut into = Replica::new();
        // Log time goes on, as it does elsewhere.
        into.clock_us = from.clock_us;
        let outcomes = into.import(&items, step);
        assert!(outcomes.iter().all(|item| item.status == ItemStatus::Created), "{outcomes:?}");
        assert_eq!(rows(&into), rows(&from));
        assert_eq!(into.due(), from.due());
        assert_eq!(into.counters().bytes, from.counters().bytes);
        assert_eq!(into.exported(usize::MAX), items);
        let before = into.rows_but_clock();
        let again = into.import(&items, step);
        assert!(again.iter().all(|item| item.status == ItemStatus::Duplicate), "{again:?}");
        assert_eq!(into.rows_but_clock(), before, "twice is once");
    }
    let kinds: BTreeSet<&str> = only_beside(&from.exported(9))
        .iter()
        .filter_map(|item| match item {
            Item::Beside(beside) => Some(beside.kind()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds.len(), 8, "{kinds:?}");
}

#[test]
fn what_was_deleted_stays_deleted_and_may_be_made_anew() {
    let mut replica = full();
    let items = only_beside(&replica.exported(usize::MAX));
    replica.write(Write::DeleteSession { session: "s".into(), if_version: None });
    replica.write(task("trip", TaskChange::End { episode: None }));
    replica.write(block("human", BlockChange::Delete));
    replica.write(procedure("greet", ProcedureChange::Delete));
    let gone = ["s", "trip", "human", "greet"];
    let before = rows(&replica);
    for outcome in replica.import(&items, 50) {
        let (expected, code) = match gone.contains(&outcome.id.as_str()) {
            true => (ItemStatus::Rejected, Some(ErrorCode::Conflict)),
            false => (ItemStatus::Duplicate, None),
        };
        assert_eq!(
            (outcome.status, outcome.reason.map(|reason| reason.code)),
            (expected, code),
            "{}",
            outcome.id
        );
    }
    assert_eq!(rows(&replica), before);
    // Callers may, and what they make is no part of the old one.
    replica.write(turns("s", vec![turn("user", "anew")]));
    replica.write(block("human", put_block("anew")));
    let outcomes = replica.import(&items, 50);
    let of_new = outcomes.iter().filter(|outcome| gone.contains(&outcome.id.as_str()));
    assert!(
        of_new.clone().count() > 40 && of_new.clone().all(|outcome| outcome.status == ItemStatus::Rejected)
    );
    assert_eq!(replica.session("s").unwrap().turns, 1);
    // What is made anew comes with an export of then.
    let anew = only_beside(&replica.exported(usize::MAX));
    let mut into = Replica::new();
    into.clock_us = replica.clock_us;
    assert!(into.import(&anew, 10).iter().all(|outcome| outcome.status == ItemStatus::Created));
    // An erasure of the whole space forgets none of it.
    replica.write(Write::Erase(EraseStep::Begin { id: "all".into(), selection: Selection::All }));
    replica.drop_all("all", 96);
    let outcomes = replica.import(&items, 50);
    assert!(outcomes.iter().all(|outcome| outcome.status == ItemStatus::Rejected));
    assert!(replica.session("s").is_none());
}

/// Nothing is left of a session that has aged out; an erasure that names it keeps it away nevertheless, and is not
/// what its name is known by.
#[test]
fn a_session_that_aged_out_stays_away_once_it_is_erased() {
    const NAME: &str = "会话-aged-71";
    let mut replica = Replica::new();
    replica.write(turns(NAME, vec![turn("user", "old"), turn("assistant", "old")]));
    let items = only_beside(&replica.exported(usize::MAX));
    replica.clock_us += crate::limits::SESSION_KEEP_US + 1;
    (0..3).for_each(|_| drop(replica.run(&Command::Sweep { limit: 16 })));
    assert!(replica.session(NAME).is_none() && replica.holding(NAME.as_bytes()).is_empty());
    let begin = |id: &str| {
        let selection = Selection::Session(NAME.into());
        Write::Erase(EraseStep::Begin { id: id.into(), selection })
    };
    let end = |id: &str| {
        let (id, memories) = (id.to_owned(), vec![]);
        Write::Erase(EraseStep::Remove { id, memories, after: 0, ended: true })
    };
    for id in ["e", "e2"] {
        replica.write(begin(id));
        replica.write(end(id));
        assert_eq!(replica.erasure(id).phase, crate::erasure::Phase::Purging);
        let tombstones = replica.counters().tombstones;
        assert_eq!((tombstones, replica.family(Family::Tombstone)), (1, 1), "one for both");
    }
    assert!(replica.holding(NAME.as_bytes()).is_empty(), "nor does the tombstone name it");
    let outcomes = replica.import(&items, 10);
    assert!(outcomes.iter().all(|outcome| outcome.status == ItemStatus::Rejected), "{outcomes:?}");
    // It may be said again, and that comes with an export.
    replica.write(turns(NAME, vec![turn("user", "anew")]));
    let anew = only_beside(&replica.exported(usize::MAX));
    assert!(replica.import(&anew, 10).iter().all(|outcome| outcome.status == ItemStatus::Duplicate));
    assert!(replica.import(&items, 10).iter().all(|outcome| outcome.status == ItemStatus::Rejected));
    // One that began in the meantime changes nothing about the one before.
    let mut replica = Replica::new();
    replica.clock_us += 1_000_000;
    replica.write(begin("e"));
    replica.write(turns(NAME, vec![turn("user", "since")]));
    replica.write(end("e"));
    assert_eq!(replica.session(NAME).map(|row| row.turns), Some(1));
    assert!(replica.import(&items, 10).iter().all(|outcome| outcome.status == ItemStatus::Rejected));
    // Tombstones of this kind go in time like any other.
    replica.clock_us += TOMBSTONE_KEEP_US + 1;
    (0..3).for_each(|_| drop(replica.run(&Command::Sweep { limit: 16 })));
    assert_eq!(replica.counters().tombstones, 0);
}

#[test]
fn what_is_there_is_left_as_it_is() {
    let items = only_beside(&full().exported(usize::MAX));
    let mut replica = Replica::new();
    replica.clock_us += 1_000_000;
    replica.write(turns("s", vec![turn("user", "mine")]));
    replica.write(task("trip", put_task(60)));
    replica.write(block("human", put_block("mine")));
    replica.write(procedure("greet", template("mine")));
    let mine = |replica: &Replica| -> BTreeMap<Vec<u8>, Vec<u8>> {
        let has = |key: &[u8], id: &str| key.windows(id.len()).any(|part| part == id.as_bytes());
        rows(replica)
            .into_iter()
            .filter(|(key, _)| ["trip", "human", "greet"].iter().any(|id| has(key, id)))
            .collect()
    };
    let before = mine(&replica);
    let outcomes = replica.import(&items, 20);
    for outcome in
        outcomes.iter().filter(|outcome| ["s", "trip", "human", "greet"].contains(&outcome.id.as_str()))
    {
        let code = outcome.reason.as_ref().map(|reason| reason.code);
        assert_eq!(
            (outcome.status, code),
            (ItemStatus::Rejected, Some(ErrorCode::AlreadyExists)),
            "{outcome:?}"
        );
    }
    assert_eq!((mine(&replica), replica.session("s").unwrap().turns), (before, 1));
}

/// What this cluster could not have recorded yet would outlive an erasure, which takes what was recorded before it.
#[test]
fn nothing_comes_from_the_future() {
    let items = only_beside(&full().exported(usize::MAX));
    let ahead_us = 3_600_000_000;
    let mut replica = Replica::new();
    replica.clock_us -= ahead_us;
    let outcomes = replica.import(&items, 50);
    assert!(outcomes.iter().all(|outcome| outcome.status == ItemStatus::Rejected));
    assert_eq!(rows(&replica).len(), 0);
    let mut turn =
        items.iter().find(|item| matches!(item, Item::Beside(of) if of.kind() == "turn")).unwrap().clone();
    if let Item::Beside(beside) = &mut turn
        && let Beside::Turn(turn) = beside.as_mut()
    {
        turn.turn.recorded_us += 100 * ahead_us;
    }
    replica.clock_us += 2 * ahead_us;
    let session =
        items.iter().find(|item| matches!(item, Item::Beside(of) if of.id() == "s")).unwrap().clone();
    let outcomes = replica.import(&[session, turn], 2);
    let statuses: Vec<ItemStatus> = outcomes.iter().map(|outcome| outcome.status).collect();
    assert_eq!(statuses, [ItemStatus::Created, ItemStatus::Rejected]);
    // What came before is erased, and stays so.
    replica.import(&items, 50);
    let selection = Selection::Session("s".into());
    replica.write(Write::Erase(EraseStep::Begin { id: "e".into(), selection }));
    for _ in 0..10 {
        let step = EraseStep::Remove { id: "e".into(), memories: vec![], after: u64::MAX, ended: true };
        replica.write(Write::Erase(step));
    }
    assert!(replica.session("s").is_none());
    let outcomes = replica.import(&items, 50);
    let of_session = outcomes.iter().filter(|outcome| outcome.id == "s");
    assert!(
        of_session.clone().count() > 30 && of_session.clone().all(|it| it.status == ItemStatus::Rejected)
    );
}

/// A session that came in part goes on with what is said here: it is summarised and remembered as any other.
#[test]
fn a_session_that_came_in_part_goes_on() {
    let items = only_beside(&full().exported(usize::MAX));
    let of_session = items.iter().filter(|item| item.id() == "s").take(4).cloned().collect::<Vec<_>>();
    let mut replica = Replica::new();
    replica.clock_us += 1_000_000;
    replica.import(&of_session, 9);
    let row = replica.session("s").unwrap();
    assert_eq!((row.turns, row.promoted), (3, 30), "jobs do not do their work again meanwhile");
    replica.write(turns("s", vec![turn("user", "here")]));
    let row = replica.session("s").unwrap();
    assert_eq!((row.turns, row.promoted, row.condensed.min(3), row.summarised), (4, 3, row.condensed, 3));
    let summary = replica.state.get(&keys::summary::key(&space(), "s")).unwrap().unwrap();
    let summary = crate::session::Summary::decode(&summary).unwrap();
    assert!(summary.through == 3 && summary.lines.iter().all(|line| line.turn <= 3));
}

/// A session of the same name that is another one's has nothing to do with memories that come.
#[test]
fn memories_are_not_tied_to_another_session_of_the_name() {
    let items = full().exported(usize::MAX);
    let mut replica = Replica::new();
    replica.clock_us += 1_000_000;
    replica.write(turns("s", vec![turn("user", "mine")]));
    replica.import(&items, 50);
    let memories = replica.family(Family::Memory);
    assert!(memories > 0);
    replica.write(Write::DeleteSession { session: "s".into(), if_version: None });
    assert_eq!(replica.family(Family::Memory), memories);
}

#[test]
fn a_task_whose_time_is_over_begins_it_anew() {
    let items = only_beside(&full().exported(usize::MAX));
    let mut later = Replica::new();
    later.clock_us += 3 * 86_400_000_000;
    later.import(&items, 50);
    let expires = |id: &str| {
        let row = later.state.get(&keys::task::key(&space(), id)).unwrap().unwrap();
        crate::tiers::task::TaskRow::decode(&row).unwrap().expires_us
    };
    assert!(expires("trip") > later.clock_us && expires("idle") > later.clock_us);
    // A session that nobody has used for so long goes with the next sweep, as it would have.
    later.clock_us += 40 * 86_400_000_000;
    for _ in 0..20 {
        later.run(&Command::Sweep { limit: 1000 });
    }
    assert_eq!((later.family(Family::Session), later.family(Family::Turn)), (0, 0));
}

/// Each change makes an item that is refused.
#[track_caller]
fn are_refused(changes: &[&dyn Fn(&mut Beside)]) {
    let items = only_beside(&full().exported(usize::MAX));
    let refused = |change: &dyn Fn(&mut Beside)| {
        items.iter().any(|item| {
            let mut item = item.clone();
            if let Item::Beside(beside) = &mut item {
                change(beside);
            }
            item.check().is_err()
        })
    };
    assert!(!refused(&|_| ()));
    for (at, change) in changes.iter().enumerate() {
        assert!(refused(change), "{at}");
    }
}

#[test]
fn sessions_and_turns_are_checked_before_they_are_proposed() {
    are_refused(&[
        &|item| {
            if let Beside::Session(session) = item {
                session.first_turn = 50;
            }
        },
        &|item| {
            if let Beside::Session(session) = item {
                session.version = 0
            }
        },
        &|item| {
            if let Beside::Session(session) = item {
                session.id = "\0".into()
            }
        },
        &|item| {
            if let Beside::Session(session) = item {
                session.first_turn = 0
            }
        },
        &|item| {
            if let Beside::Session(session) = item {
                session.promoted = u64::MAX
            }
        },
        &|item| {
            if let Beside::Session(session) = item {
                session.summary.lines =
                    vec![SummaryLine { text: "x".repeat(5000), role: "u".into(), ..SummaryLine::default() }]
            }
        },
        &|item| {
            if let Beside::Session(session) = item {
                session.dialogue.slots = (0..65).map(|n| (n.to_string(), String::new())).collect()
            }
        },
        &|item| {
            if let Beside::Turn(turn) = item {
                turn.number = 0
            }
        },
        &|item| {
            if let Beside::Turn(turn) = item {
                turn.turn.importance = f32::NAN
            }
        },
    ]);
}

#[test]
fn tasks_blocks_and_procedures_are_checked_before_they_are_proposed() {
    are_refused(&[
        &|item| {
            if let Beside::Task(task) = item {
                task.ttl_s = 0
            }
        },
        &|item| {
            if let Beside::Task(task) = item {
                task.variables = BTreeMap::from([("v".into(), "x".repeat(70_000))])
            }
        },
        &|item| {
            if let Beside::Step(step) = item {
                step.step.content = "x".repeat(17 << 10)
            }
        },
        &|item| {
            if let Beside::Block(block) = item {
                block.block.value = "长".repeat(100)
            }
        },
        &|item| {
            if let Beside::Procedure(procedure) = item {
                procedure.previous = vec![1; 1000]
            }
        },
        &|item| {
            if let Beside::ProcedureVersion(version) = item {
                version.version.body = Body::Template { text: "{{".into() }
            }
        },
    ]);
}

proptest! {
    /// Whatever part of an export comes, in whatever order, and whatever is done in between: no row speaks of one that
    /// is not there (apply would stop), and what is there can be exported.
    #[test]
    fn any_part_of_an_export_leaves_rows_that_fit(
        chosen in proptest::collection::vec((0usize..400, 1usize..6, 0u8..12), 1..60),
        in_order in any::<bool>(),
    ) {
        let items = only_beside(&full().exported(usize::MAX));
        let mut replica = Replica::new();
        replica.clock_us += 1_000_000;
        let mut at = 0;
        for (place, count, act) in chosen {
            // In order, with gaps; or from anywhere.
            let from = if in_order { at } else { place % items.len() };
            let part: Vec<Item> = items.iter().skip(from).take(count * 8).cloned().collect();
            at = if place % 7 == 0 { at + count } else { at } + part.len();
            if !part.is_empty() {
                replica.import(&part, 5);
            }
            let write = match act {
                0 => turns("s", vec![turn("user", "more")]),
                1 => task("trip", steps(3)),
                2 => block("human", put_block("more")),
                3 => procedure("greet", ProcedureChange::Rollback { from: None }),
                4 => procedure("greet", ProcedureChange::Activate { version: Some(2) }),
                5 => procedure("greet", template("more {{name}}")),
                6 => Write::DeleteSession { session: "s".into(), if_version: None },
                7 => task("trip", TaskChange::End { episode: None }),
                8 => procedure("greet", ProcedureChange::Delete),
                9 => block("human", BlockChange::Delete),
                10 => procedure("greet", ProcedureChange::Report { version: None, success: false }),
                _ => { replica.run(&Command::Sweep { limit: 100 }); continue },
            };
            replica.write(write);
        }
        let told = only_beside(&replica.exported(300));
        let mut into = Replica::new();
        into.clock_us = replica.clock_us;
        let outcomes = into.import(&told, 9);
        prop_assert!(outcomes.iter().all(|outcome| outcome.status == ItemStatus::Created), "{outcomes:?}");
        prop_assert_eq!(only_beside(&into.exported(usize::MAX)), told);
    }
}
