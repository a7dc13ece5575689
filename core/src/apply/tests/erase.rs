//! Deletion with all that follows from it: derived memories, links, erasures.

use super::facts::says;
use super::*;
use crate::erasure::*;
use crate::keys::erasure;
use crate::limits::CASCADE_MAX;
use proptest::prelude::*;

/// An id that stands in no other bytes.
pub(super) fn id(n: usize) -> String {
    format!("⟦{n:03}⟧")
}

pub(super) fn begin(erasure: &str, selection: Selection) -> Write {
    Write::Erase(EraseStep::Begin { id: erasure.into(), selection })
}

impl Replica {
    pub(super) fn erasure(&self, id: &str) -> ErasureRow {
        let value = self.state.get(&erasure::key(&space(), id)).unwrap().unwrap();
        ErasureRow::decode(&value).unwrap()
    }

    fn open_erasures(&self) -> usize {
        self.state.scan(&erasure::open_prefix(), None, usize::MAX).unwrap().len()
    }

    /// Works an erasure of the whole space off.
    pub(super) fn drop_all(&mut self, erasure: &str, limit: u16) {
        while self.erasure(erasure).phase == Phase::Removing {
            self.write(Write::Erase(EraseStep::Drop { id: erasure.into(), limit }));
        }
    }

    /// Lets every deletion come to its end.
    pub(super) fn finish(&mut self) {
        for _ in 0..100 {
            let due = self.state.scan(&keys::due::prefix(), None, 99).unwrap();
            let due = due.iter().filter_map(|(key, _)| keys::due::Due::parse(key));
            let derived = due.filter(|due| due.kind == keys::due::DueKind::Derived).count();
            let open = self.state.scan(&erasure::open_prefix(), None, 99).unwrap();
            let open: Vec<String> = open.iter().map(|(key, _)| erasure::parse_open(key).unwrap().1).collect();
            let waits = |id: &&String| {
                let left = keys::derived::prefix(&space(), &keys::derived::left_of_erasure(id));
                !self.state.scan(&left, None, 1).unwrap().is_empty()
            };
            let waiting: Vec<String> = open.iter().filter(waits).cloned().collect();
            if derived == 0 && waiting.is_empty() {
                return;
            }
            self.run(&Command::Sweep { limit: 16 });
            for id in waiting {
                let memories = vec![];
                self.write(Write::Erase(EraseStep::Remove { id, memories, after: 0, ended: false }));
            }
        }
        panic!("a deletion does not end");
    }

    /// The keys of rows that hold these bytes, in key or value.
    pub(super) fn holding(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let holds = |hay: &[u8]| hay.windows(bytes.len()).any(|window| window == bytes);
        let rows = self.state.rows().filter(|(key, value)| holds(key) || holds(value));
        rows.map(|(key, _)| key.to_vec()).collect()
    }
}

pub(super) fn derived(n: usize, from: &[usize]) -> NewMemory {
    let sources = from.iter().map(|n| id(*n)).collect();
    NewMemory { derived_from: sources, ..memory(&id(n), &format!("text {n}")) }
}

#[test]
fn what_was_made_from_a_memory_goes_with_it() {
    let mut replica = Replica::new();
    let items =
        vec![derived(1, &[]), derived(2, &[]), derived(3, &[1, 2]), derived(4, &[3]), derived(5, &[2])];
    replica.write(add(items));
    assert_eq!(replica.family(Family::Derived), 4);
    replica.write(delete(&id(1)));
    let left: Vec<bool> = (1..=5).map(|n| replica.memory(&id(n)).is_some()).collect();
    assert_eq!(left, [false, true, false, false, true]);
    assert_eq!(replica.family(Family::Derived), 1, "the way from 2 to 5 alone");
    assert_eq!(replica.family(Family::Tombstone), 3);
    assert_eq!(replica.counters().memories, 2);
}

#[test]
fn a_long_chain_and_a_wide_fan_go_in_bounded_steps() {
    let mut replica = Replica::new();
    let wide: Vec<NewMemory> = (1..=90).map(|n| derived(n, if n == 1 { &[] } else { &[1] })).collect();
    replica.write(add(wide));
    replica.write(add((100..150).map(|n| derived(n, &[if n == 100 { 90 } else { n - 1 }])).collect()));
    replica.write(delete(&id(1)));
    assert!(replica.family(Family::Memory) >= 140 - 1 - CASCADE_MAX, "one command takes a bounded number");
    let mut sweeps = 0;
    while replica.due() > 1 {
        replica.run(&Command::Sweep { limit: 16 });
        sweeps += 1;
        assert!(sweeps < 60, "each takes something");
    }
    assert_eq!((replica.family(Family::Memory), replica.family(Family::Derived)), (0, 0));
}

#[test]
fn a_job_brings_nothing_back_that_was_made_from_what_is_gone() {
    let mut replica = Replica::new();
    replica.write(add(vec![derived(1, &[]), derived(2, &[])]));
    replica.write(delete(&id(1)));
    let bring = |origin, n, from: &[usize]| {
        let items = vec![derived(n, from)];
        Write::Add(Add { origin, model: None, vectors_given: false, partial: true, items })
    };
    let status = |replica: &mut Replica, write| replica.items(write)[0].status;
    for origin in [Origin::Job, Origin::Import] {
        assert_eq!(status(&mut replica, bring(origin, 7, &[2, 1])), ItemStatus::Rejected, "{origin:?}");
        assert_eq!(status(&mut replica, bring(origin, 1, &[])), ItemStatus::Rejected, "{origin:?}");
    }
    assert_eq!(status(&mut replica, bring(Origin::Job, 9, &[2])), ItemStatus::Created);
    assert_eq!(status(&mut replica, add(vec![derived(1, &[])])), ItemStatus::Created, "a user says it again");
}

#[test]
fn an_older_fact_is_current_again_unless_it_was_taken_back() {
    let lives = |n: u8, place: &str, at: i64| {
        let item = says(n, "I", "lives in", place).at(at);
        NewMemory { id_chosen: true, index: IndexRow { id: id(n.into()), ..item.index.clone() }, ..item }
    };
    let status = |replica: &Replica, n| replica.memory(&id(n)).unwrap().1.status;
    let mut replica = Replica::new();
    replica.write(add(vec![lives(1, "Berlin", 1), lives(2, "Paris", 2), lives(3, "Ulm", 3)]));
    replica.write(delete(&id(3)));
    assert_eq!((status(&replica, 1), status(&replica, 2)), (Status::Deprecated, Status::Active));
    assert_eq!(replica.memory(&id(2)).unwrap().0.superseded_by, None);
    replica.write(Write::Resolve { keep: id(1), retire: vec![id(2)] });
    replica.write(delete(&id(1)));
    assert_eq!(status(&replica, 2), Status::Deprecated, "that it is wrong was decided, and stays so");
    let names = replica.holding(id(1).as_bytes());
    assert_eq!(names, [keys::tombstone::key(&space(), &id(1))], "nothing else names what is gone");
}

#[test]
fn an_erasure_takes_what_was_there_and_leaves_what_comes() {
    let mut replica = Replica::new();
    replica.write(add(vec![derived(1, &[]), derived(2, &[1]), derived(3, &[])]));
    replica.write(begin("e", Selection::Session("work".into())));
    assert_eq!(replica.open_erasures(), 1);
    replica.write(add(vec![derived(4, &[])]));
    let step = |memories: &[usize], after, ended| {
        let memories = memories.iter().map(|n| id(*n)).collect();
        Write::Erase(EraseStep::Remove { id: "e".into(), memories, after, ended })
    };
    replica.write(step(&[1, 4, 77], 1, false));
    assert_eq!(replica.erasure("e").after, 1);
    replica.write(step(&[], 3, true));
    let row = replica.erasure("e");
    assert_eq!((row.phase, row.erased.memories, row.erased.derived), (Phase::Purging, 2, 1));
    assert_eq!((row.selection, row.kind), (None, SelectionKind::Session), "what it named is forgotten");
    assert!(replica.memory(&id(3)).is_some() && replica.memory(&id(4)).is_some());
    assert!(replica.holding(b"work").is_empty());
    replica.write(step(&[3], 9, true));
    assert!(replica.memory(&id(3)).is_some(), "a late leader takes nothing more");
    let said = |node, place| Confirmation { node, place, at_us: 0 };
    let confirm =
        |confirmations, done| Write::Erase(EraseStep::Confirm { id: "e".into(), confirmations, done });
    replica.write(confirm(vec![said(1, Place::Log), said(1, Place::Log)], false));
    replica.write(confirm(vec![said(1, Place::Log), said(2, Place::Database)], true));
    let row = replica.erasure("e");
    assert_eq!((row.phase, row.confirmed.len(), replica.open_erasures()), (Phase::Done, 2, 0));
    assert!(row.confirmed.iter().all(|said| said.at_us > 0), "in log time");
    replica.clock_us += TOMBSTONE_KEEP_US + 1;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!(replica.family(Family::Erasure), 0, "receipts go in time");
}

#[test]
fn an_erasure_that_matches_nothing_deletes_nothing() {
    let mut replica = Replica::new();
    replica.write(add(vec![derived(1, &[])]));
    replica.write(begin("e", Selection::Filter("{\"session\":{\"$eq\":\"none\"}}".into())));
    replica.write(Write::Erase(EraseStep::Remove {
        id: "e".into(),
        memories: vec![],
        after: 1,
        ended: true,
    }));
    assert_eq!(replica.erasure("e").erased, Erased::default());
    assert_eq!(replica.counters().memories, 1);
    replica.write(Write::Erase(EraseStep::Drop { id: "e".into(), limit: 96 }));
    assert_eq!(replica.counters().memories, 1, "only one of the whole space drops rows");
}

#[test]
fn a_space_is_erased_as_a_whole_and_its_neighbours_stay() {
    let mut replica = Replica::new();
    let near = SpaceKey::user("acme", "ann2").unwrap();
    let there =
        SpaceCommand { space: near.clone(), idempotency: None, write: add(vec![memory("x", "theirs")]) };
    replica.run(&Command::Space(Box::new(there)));
    let expiring = |n| {
        let mut item = derived(n, &[]);
        item.index.expires_us = Some(i64::MAX);
        item
    };
    for n in 0..60 {
        replica.run(&space_command(add(vec![expiring(n)]), Some(key(n as u128, 0))));
    }
    replica.write(update(&id(1), "other", 1));
    replica.write(delete(&id(0)));
    let last_seq = replica.counters().last_seq;
    replica.write(begin("all", Selection::All));
    assert_eq!(failed(replica.write(add(vec![derived(90, &[])]))), ErrorCode::Unavailable);
    replica.write(Write::Erase(EraseStep::Drop { id: "all".into(), limit: 7 }));
    // In the midst of it: what is due must not meet half of a memory.
    replica.run(&Command::Sweep { limit: 16 });
    let events = replica.events.len();
    replica.drop_all("all", 7);
    let row = replica.erasure("all");
    assert_eq!((row.erased.memories, row.erased.versions), (59, 1));
    assert_eq!(replica.events.len() - events, 59, "each image row is told to go");
    for family in Family::ALL {
        let left = match family {
            Family::Counters | Family::Erasure | Family::Tombstone => 1,
            Family::Idempotency => 60,
            _ => 0,
        };
        assert_eq!(replica.family(family), left, "{family:?}");
    }
    assert_eq!(replica.counters().last_seq, last_seq, "numbers are never given twice");
    assert_eq!(replica.due(), 2, "for the tombstone and the oldest answer");
    assert!(replica.holding("⟦".as_bytes()).is_empty());
    assert!(replica.state.get(&keys::memory::key(&near, "x")).unwrap().is_some());
    // A request of before that is repeated is answered and does nothing; a new statement is stored.
    let again = replica.run(&space_command(add(vec![expiring(5)]), Some(key(5, 0))));
    assert!(matches!(again, Outcome::Items { replayed: true, .. }));
    assert_eq!(replica.counters().memories, 0);
    assert_eq!(replica.items(add(vec![expiring(5)]))[0].status, ItemStatus::Created);
}

#[test]
fn what_is_kept_beside_memories_goes_with_the_space() {
    use crate::tiers::block::{BlockChange, BlockWrite};
    use crate::tiers::task::{Step, StepKind, TaskChange, TaskWrite};
    let task =
        |id: &str, change| Write::Task(Box::new(TaskWrite { id: id.into(), if_version: None, change }));
    let mut replica = Replica::new();
    for n in 0..20 {
        let name = id(n);
        let put =
            TaskChange::Put { goal: Some(name.clone()), session: None, agent: None, plan: None, ttl_s: None };
        replica.write(task(&name, put));
        let step = Step { kind: StepKind::Thought, tool: None, content: name.clone(), success: None };
        replica.write(task(&name, TaskChange::Steps { steps: vec![step], plan: vec![] }));
    }
    let change =
        BlockChange::Put { value: Some(id(1)), description: None, limit_chars: None, read_only: None };
    let block = BlockWrite { label: id(1), if_version: None, by_admin: false, change };
    replica.write(Write::Block(Box::new(block)));
    assert!(replica.due() >= 20 && !replica.holding("⟦".as_bytes()).is_empty());
    replica.write(begin("all", Selection::All));
    replica.write(Write::Erase(EraseStep::Drop { id: "all".into(), limit: 9 }));
    // In the midst of it the time of all tasks is over.
    replica.clock_us += 400 * 24 * 3_600 * 1_000_000;
    for _ in 0..4 {
        replica.run(&Command::Sweep { limit: 16 });
    }
    replica.drop_all("all", 9);
    assert!(replica.holding("⟦".as_bytes()).is_empty());
    assert_eq!((replica.family(Family::Task), replica.family(Family::Block)), (0, 0));
    assert_eq!(replica.due(), 1, "the tombstone's");
}

#[test]
fn chunks_go_with_their_memory_and_never_alone() {
    let mut replica = Replica::new();
    let whole = super::chunks::long(1, "a long text", &["a long", "text"]);
    let (whole_id, chunk) = (whole.index.id.clone(), whole.chunks[0].index.id.clone());
    replica.write(add(vec![whole]));
    let erase = |replica: &mut Replica, name: &str, id: &str| {
        replica.write(begin(name, Selection::Ids(vec![id.to_owned()])));
        let memories = vec![id.to_owned()];
        replica.write(Write::Erase(EraseStep::Remove { id: name.into(), memories, after: 1, ended: true }));
        replica.erasure(name).erased
    };
    assert_eq!(erase(&mut replica, "chunk", &chunk).memories, 0);
    let erased = erase(&mut replica, "whole", &whole_id);
    assert_eq!((erased.memories, erased.derived), (3, 2));
    assert_eq!((replica.family(Family::Memory), replica.family(Family::Derived)), (0, 0));
}

#[test]
fn the_same_erasure_begins_once_and_receipts_are_bounded() {
    let mut replica = Replica::new();
    replica.write(add(vec![derived(1, &[])]));
    let ids = Selection::Ids(vec![id(1)]);
    assert_eq!(replica.items(begin("e", ids.clone()))[0].status, ItemStatus::Created);
    assert_eq!(failed(replica.write(begin("e", ids.clone()))), ErrorCode::Conflict);
    for n in 1..ERASURES_MAX {
        replica.write(begin(&format!("e{n}"), ids.clone()));
    }
    assert_eq!(failed(replica.write(begin("more", ids))), ErrorCode::QuotaExceeded);
}

#[test]
fn steps_are_checked_before_they_are_proposed() {
    let checked = |write| space_command(write, None).check();
    let many = vec!["x".to_owned(); 1001];
    for selection in [
        Selection::Ids(vec![]),
        Selection::Ids(many),
        Selection::Ids(vec!["a\0b".into()]),
        Selection::Session(String::new()),
        Selection::Source(String::new()),
        Selection::Filter(" {} ".into()),
        Selection::Filter("{\"and\":[{}]}".into()),
        Selection::Filter("{\"or\":[{\"role\":\"user\"},{}]}".into()),
        Selection::Filter("{\"nope\":1}".into()),
        Selection::Filter("{}".into()),
    ] {
        assert!(checked(begin("e", selection.clone())).is_err(), "{selection:?}");
    }
    assert!(checked(begin("", Selection::All)).is_err());
    for limit in [0, ERASE_ROWS_MAX + 1] {
        assert!(checked(Write::Erase(EraseStep::Drop { id: "e".into(), limit })).is_err());
    }
    let memories = vec!["x".to_owned(); ERASE_STEP_MAX + 1];
    assert!(
        checked(Write::Erase(EraseStep::Remove { id: "e".into(), memories, after: 0, ended: true })).is_err()
    );
}

#[derive(Debug, Clone)]
enum Op {
    Say { n: usize, value: usize, from: Option<usize>, conflict: usize, mode: usize },
    Delete(usize),
    Resolve(usize, usize),
    Change(usize),
    Erase(usize, bool),
    Sweep,
}

fn op() -> impl Strategy<Value = Op> {
    let n = 0usize..10;
    prop_oneof![
        8 => (n.clone(), 0usize..3, proptest::option::of(n.clone()), n.clone(), 0usize..3)
            .prop_map(|(n, value, from, conflict, mode)| Op::Say { n, value, from, conflict, mode }),
        3 => n.clone().prop_map(Op::Delete),
        2 => (n.clone(), n.clone()).prop_map(|(a, b)| Op::Resolve(a, b)),
        1 => n.clone().prop_map(Op::Change),
        2 => (n, any::<bool>()).prop_map(|(n, ended)| Op::Erase(n, ended)),
        1 => Just(Op::Sweep),
    ]
}

/// Says something, linked in every way there is. Also what [`super::transfer`] exports.
pub(super) fn linked(n: usize, value: usize, from: Option<usize>, conflict: usize, mode: usize) -> NewMemory {
    let item =
        says(u8::try_from(n).unwrap(), "I", ["lives in", "就职于"][n % 2], ["Berlin", "北京", "Ulm"][value]);
    let mut item = item.at(i64::try_from(n % 4).unwrap());
    item.statements[0].mode = [Mode::State, Mode::Correct, Mode::End][mode].clone();
    item.index.id = id(n);
    item.id_chosen = true;
    item.index.session = Some("s".into());
    item.derived_from = from.filter(|from| *from < n).map(id).into_iter().collect();
    item.conflicts = vec![Hint { id: id(conflict), version: 1 }];
    item
}

proptest! {
    /// Whatever was said, linked, derived, decided and changed, in whatever order: of a memory that is
    /// gone nothing remains but its tombstone, nor of what was made from it; and the counters and the
    /// ways to derived memories tell what is there.
    #[test]
    fn nothing_but_a_tombstone_remains_of_what_is_gone(ops in proptest::collection::vec(op(), 1..50)) {
        let mut replica = Replica::new();
        let mut erasures = 0;
        for op in &ops {
            match op {
                Op::Say { n, value, from, conflict, mode } => {
                    let from = from.filter(|from| replica.memory(&id(*from)).is_some());
                    replica.write(add(vec![linked(*n, *value, from, *conflict, *mode)]));
                }
                Op::Delete(n) => drop(replica.write(delete(&id(*n)))),
                Op::Resolve(a, b) => drop(replica.write(Write::Resolve { keep: id(*a), retire: vec![id(*b)] })),
                Op::Change(n) => {
                    let version = replica.memory(&id(*n)).map_or(1, |(memory, _)| memory.version);
                    replica.write(update(&id(*n), "changed", version));
                }
                Op::Erase(n, ended) => {
                    erasures += 1;
                    let name = format!("e{erasures}");
                    replica.write(begin(&name, Selection::Session("s".into())));
                    let memories = vec![id(*n)];
                    replica.write(Write::Erase(EraseStep::Remove { id: name, memories, after: 1, ended: *ended }));
                }
                Op::Sweep => drop(replica.run(&Command::Sweep { limit: 16 })),
            }
            // What one command could not take out goes with the next.
            replica.finish();
            for n in 0..10 {
                if replica.memory(&id(n)).is_some() {
                    continue;
                }
                let grave = keys::tombstone::key(&space(), &id(n));
                let named = replica.holding(id(n).as_bytes());
                prop_assert!(named.iter().all(|key| *key == grave), "{n} after {op:?}: {named:?}");
            }
            prop_assert_eq!(replica.counters().memories as usize, replica.family(Family::Memory));
            prop_assert_eq!(replica.counters().tombstones as usize, replica.family(Family::Tombstone));
            let ways = (0..10).filter_map(|n| replica.memory(&id(n))).map(|(memory, _)| memory.derived_from.len());
            prop_assert_eq!(ways.sum::<usize>(), replica.family(Family::Derived));
        }
        replica.write(begin("all", Selection::All));
        replica.drop_all("all", 5);
        prop_assert!(replica.holding("⟦".as_bytes()).is_empty());
        prop_assert_eq!(replica.family(Family::Fact) + replica.family(Family::TextHash), 0);
    }
}

#[test]
fn everything_can_be_erased_whatever_was_erased_before() {
    let mut replica = Replica::new();
    for n in 0..ERASURES_MAX {
        replica.write(begin(&format!("e{n}"), Selection::Session(format!("s{n}"))));
    }
    let one_more = begin("more", Selection::Session("s".into()));
    assert_eq!(failed(replica.write(one_more.clone())), ErrorCode::QuotaExceeded);
    replica.write(add(vec![derived(1, &[])]));
    replica.write(begin("all", Selection::All));
    replica.drop_all("all", 96);
    assert_eq!(replica.erasure("all").erased.memories, 1);
    // Those that are under way find nothing and end; beyond the last place the oldest receipt makes room.
    let done = |id: &str| {
        let (confirmations, id) = (vec![], id.to_owned());
        Write::Erase(EraseStep::Confirm { id, confirmations, done: true })
    };
    replica.write(done("all"));
    for n in ERASURES_MAX + 1..ERASURES_OF_ALL_MAX {
        replica.write(begin(&format!("all{n}"), Selection::All));
        replica.drop_all(&format!("all{n}"), 96);
    }
    assert_eq!(replica.family(Family::Erasure), ERASURES_OF_ALL_MAX);
    replica.write(begin("last", Selection::All));
    replica.drop_all("last", 96);
    assert_eq!(replica.family(Family::Erasure), ERASURES_OF_ALL_MAX);
    assert!(replica.state.get(&erasure::key(&space(), "all")).unwrap().is_none(), "the oldest that is done");
    assert_eq!(failed(replica.write(begin("none", Selection::All))), ErrorCode::Unavailable);
    assert_eq!(failed(replica.write(one_more)), ErrorCode::QuotaExceeded);
}

/// A memory with many chunks.
fn heavy(n: u8) -> NewMemory {
    let texts: Vec<String> = (0..40).map(|part| format!("part {part} of {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut heavy = super::chunks::long(n, &format!("whole {n}"), &texts);
    heavy.chunks.iter_mut().enumerate().for_each(|(at, chunk)| chunk.index.id = format!("c{n}-{at}"));
    heavy
}

#[test]
fn a_step_takes_out_a_bounded_number_of_rows_and_all_of_them_go() {
    let mut replica = Replica::new();
    let heavy: Vec<NewMemory> = (0..12).map(heavy).collect();
    let ids: Vec<String> = heavy.iter().map(|item| item.index.id.clone()).collect();
    heavy.into_iter().for_each(|item| drop(replica.write(add(vec![item]))));
    // Each was made something from, too.
    let from = |(n, id): (usize, &String)| NewMemory {
        derived_from: vec![id.clone()],
        ..memory(&format!("d{n}"), &format!("derived {n}"))
    };
    replica.write(add(ids.iter().enumerate().map(from).collect()));
    let all = replica.counters().memories;
    replica.write(begin("e", Selection::Ids(ids.clone())));
    let (mut steps, mut most) = (0, 0);
    while replica.erasure("e").phase == Phase::Removing {
        let at = usize::try_from(replica.erasure("e").after).unwrap();
        let before = replica.state.rows().count();
        let (memories, after) = (ids[at..].to_vec(), ids.len() as u64);
        replica.write(Write::Erase(EraseStep::Remove { id: "e".into(), memories, after, ended: true }));
        most = most.max(before - replica.state.rows().count());
        steps += 1;
        assert!(steps < 50, "each takes something");
    }
    assert!(most < 3 * crate::limits::BATCH_ROWS_MAX, "{most} rows in one step");
    let erased = replica.erasure("e").erased;
    assert_eq!((erased.memories, replica.counters().memories), (all, 0));
    assert_eq!(erased.derived, all - 12, "chunks and what was made from them");
    assert_eq!(replica.family(Family::Derived), 0, "nor is anything noted any more");
}

#[test]
fn the_receipt_counts_a_wide_cascade_and_waits_for_its_end() {
    let mut replica = Replica::new();
    replica.write(add((1..=90).map(|n| derived(n, if n == 1 { &[] } else { &[1] })).collect()));
    replica.write(begin("e", Selection::Ids(vec![id(1)])));
    let step = |memories| Write::Erase(EraseStep::Remove { id: "e".into(), memories, after: 1, ended: true });
    replica.write(step(vec![id(1)]));
    assert_eq!(replica.erasure("e").phase, Phase::Removing, "some of it is still there");
    let mut steps = 1;
    while replica.erasure("e").phase == Phase::Removing {
        replica.write(step(vec![]));
        steps += 1;
        assert!(steps < 20, "each takes something");
    }
    let erased = replica.erasure("e").erased;
    assert_eq!((erased.memories, erased.derived), (90, 89));
    assert_eq!((replica.family(Family::Memory), replica.family(Family::Derived)), (0, 0));
}

#[test]
fn the_rest_of_a_cascade_leaves_what_has_its_id_since() {
    let mut replica = Replica::new();
    replica.write(add((1..=60).map(|n| derived(n, if n == 1 { &[] } else { &[1] })).collect()));
    replica.write(delete(&id(1)));
    assert!(replica.family(Family::Memory) > 20, "some of it is still there");
    // The id is used again, and something is made from what has it now.
    replica.write(add(vec![derived(1, &[]), derived(200, &[1]), derived(201, &[200])]));
    replica.finish();
    let left: Vec<usize> = (1..=201).filter(|n| replica.memory(&id(*n)).is_some()).collect();
    assert_eq!(left, [1, 200, 201]);
    assert_eq!(replica.family(Family::Derived), 2);
    replica.write(delete(&id(1)));
    replica.finish();
    assert_eq!((replica.family(Family::Memory), replica.family(Family::Derived)), (0, 0));
}

#[test]
fn a_cascade_that_an_older_version_noted_goes_on() {
    let mut replica = Replica::new();
    replica.write(add(vec![derived(1, &[]), derived(2, &[1])]));
    let due = keys::due::Due { at_us: 1, space: space(), kind: keys::due::DueKind::Derived, id: id(1) };
    let mut overlay = Overlay::new(&replica.state);
    crate::state::State::put(&mut overlay, due.key(), keys::due::value()).unwrap();
    let changes = overlay.into_changes().unwrap();
    replica.state.commit(changes);
    replica.finish();
    assert!(replica.memory(&id(1)).is_some() && replica.memory(&id(2)).is_none());
}
