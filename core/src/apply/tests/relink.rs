//! Possible conflicts that were looked up before a write, and what becomes of those that were looked
//! up too early.

use super::*;
use crate::keys::due::{Due, DueKind};
use crate::limits::RECHECK_KEEP_US;

fn hinted(n: u8, content: &str, id: &str, version: u64) -> NewMemory {
    NewMemory { conflicts: vec![Hint { id: id.into(), version }], ..made(n, content) }
}

impl Replica {
    fn rechecks(&self) -> Vec<Due> {
        let rows = self.state.scan(&keys::due::prefix(), None, usize::MAX).unwrap();
        let dues = rows.iter().map(|(key, _)| Due::parse(key).unwrap());
        dues.filter(|due| due.kind == DueKind::Recheck).collect()
    }

    fn conflicts(&self, id: &str) -> Vec<String> {
        self.memory(id).unwrap().0.possible_conflicts
    }
}

fn relink(due: &Due, conflicts: Vec<Hint>) -> Write {
    Write::Relink { id: due.id.clone(), due_us: due.at_us, conflicts }
}

#[test]
fn a_stale_hint_is_dropped_and_looked_at_again() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("old", "我骑车上班")]));
    replica.write(update("old", "我每天骑车上班", 1));
    let newer = replica.items(add(vec![hinted(1, "以后我坐地铁上班", "old", 1)])).remove(0);
    assert!(newer.possible_conflicts.is_empty(), "the version that was looked at is gone");
    let due = replica.rechecks().remove(0);
    assert_eq!((&due.id, due.at_us), (&newer.id, replica.clock_us));

    replica.write(relink(&due, vec![Hint { id: "old".into(), version: 2 }]));
    assert_eq!(
        (replica.conflicts("old"), replica.conflicts(&newer.id)),
        (vec![newer.id.clone()], vec!["old".into()])
    );
    assert!(replica.rechecks().is_empty());
    assert!(replica.memory("old").unwrap().1.older);
    // Once more changes nothing.
    let before = replica.state.clone();
    replica.write(relink(&due, vec![Hint { id: "old".into(), version: 2 }]));
    let changed =
        before.rows().filter(|(key, value)| replica.state.get(key).unwrap().as_deref() != Some(*value));
    assert_eq!(changed.count(), 1, "the clock");
}

#[test]
fn what_cannot_be_linked_any_more_is_not_looked_at_again() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("old", "I cycle to the office"), memory("gone", "I walk to the office")]));
    replica.write(delete("gone"));
    replica.items(add(vec![hinted(1, "From now on I take the tram to the office", "gone", 1)]));
    replica.items(add(vec![hinted(2, "These days I run to the office", "old", 1)]));
    assert!(replica.rechecks().is_empty());
    assert_eq!(replica.conflicts("old").len(), 1);
}

#[test]
fn a_second_look_that_is_late_again_is_repeated_and_given_up_after_a_while() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("old", "one")]));
    replica.write(update("old", "two", 1));
    replica.items(add(vec![hinted(1, "newer", "old", 1)]));
    let due = replica.rechecks().remove(0);
    replica.write(update("old", "three", 2));
    replica.write(relink(&due, vec![Hint { id: "old".into(), version: 2 }]));
    let again = replica.rechecks();
    assert_eq!(again.len(), 1);
    assert!(again[0].at_us > due.at_us);

    let swept = |replica: &mut Replica| replica.run(&Command::Sweep { limit: 16 });
    assert_eq!(swept(&mut replica), Outcome::Swept { done: 0, more: false });
    assert_eq!(replica.rechecks().len(), 1, "the leader's to do");
    replica.clock_us += RECHECK_KEEP_US;
    assert_eq!(swept(&mut replica), Outcome::Swept { done: 1, more: false });
    assert!(replica.rechecks().is_empty());
}

#[test]
fn what_waits_for_the_leader_holds_up_nothing_behind_it() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("old", "one")]));
    replica.write(update("old", "two", 1));
    for n in 0..20 {
        replica.items(add(vec![hinted(n, &format!("newer {n}"), "old", 1)]));
    }
    assert_eq!(replica.rechecks().len(), 20, "more than a sweep works off");
    let mut short = memory("short", "short");
    short.index.expires_us = Some(replica.clock_us + 1_000_000);
    replica.write(add(vec![short]));
    replica.clock_us += RECHECK_KEEP_US / 2;
    let swept = replica.run(&Command::Sweep { limit: 16 });
    assert_eq!(swept, Outcome::Swept { done: 1, more: false });
    assert!(replica.memory("short").is_none());
    assert_eq!(replica.rechecks().len(), 20);
}

#[test]
fn one_that_is_deleted_meanwhile_leaves_nothing() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("old", "one")]));
    replica.write(update("old", "two", 1));
    let newer = replica.items(add(vec![hinted(1, "newer", "old", 1)])).remove(0);
    let due = replica.rechecks().remove(0);
    replica.write(delete(&newer.id));
    assert!(replica.items(relink(&due, vec![Hint { id: "old".into(), version: 2 }])).is_empty());
    assert!(replica.rechecks().is_empty() && replica.conflicts("old").is_empty());
}

/// A new version that tells of another time turns round which of two is the older, on both sides.
#[test]
fn a_change_of_the_time_is_seen_on_both_sides_of_a_link() {
    let at = |item: NewMemory, event_us| {
        let index = IndexRow { event_us, ..item.index.clone() };
        NewMemory { event_given: true, index, ..item }
    };
    let mut replica = Replica::new();
    replica.write(add(vec![at(memory("old", "我骑车上班"), 100)]));
    let newer = hinted(1, "以后我坐地铁上班", "old", 1);
    let newer = replica.items(add(vec![at(newer, 200)])).remove(0).id;
    let older =
        |replica: &Replica| [replica.memory("old"), replica.memory(&newer)].map(|m| m.unwrap().1.older);
    assert_eq!(older(&replica), [true, false]);
    let patch = |id: &str, text: &str, event_us, if_version| {
        let memory = at(memory(id, text), event_us);
        let update = Update { if_version, model: None, vectors_given: false, keep_statements: true, memory };
        Write::Update(Box::new(update))
    };
    replica.items(patch("old", "我骑车上班", 300, 1));
    assert_eq!(older(&replica), [false, true]);
    replica.items(patch(&newer, "以后我坐地铁上班", 400, 1));
    assert_eq!(older(&replica), [true, false]);
}

mod random {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        /// Says something that may contradict these.
        Say {
            n: u8,
            event_us: i64,
            conflicts: Vec<u8>,
        },
        /// A new version, of another time.
        Change {
            n: u8,
            event_us: i64,
            keep_statements: bool,
        },
        Delete(u8),
    }

    const MEMORIES: u8 = 6;

    fn op() -> impl Strategy<Value = Op> {
        let n = || 0..MEMORIES;
        prop_oneof![
            4 => (n(), 0i64..5, proptest::collection::vec(n(), 0..4))
                .prop_map(|(n, event_us, conflicts)| Op::Say { n, event_us, conflicts }),
            4 => (n(), 0i64..5, any::<bool>())
                .prop_map(|(n, event_us, keep_statements)| Op::Change { n, event_us, keep_statements }),
            1 => n().prop_map(Op::Delete),
        ]
    }

    fn name(n: u8) -> String {
        format!("记{n}")
    }

    fn said(n: u8, event_us: i64) -> NewMemory {
        let item = memory(&name(n), &format!("text {n} of {event_us}"));
        let index = IndexRow { event_us, ..item.index.clone() };
        NewMemory { event_given: true, index, ..item }
    }

    fn version(replica: &Replica, n: u8) -> Option<u64> {
        replica.memory(&name(n)).map(|(memory, _)| memory.version)
    }

    proptest! {
        /// Whatever was changed: who names a later one as what it may contradict is older, and nobody else.
        #[test]
        fn marks_of_older_ones_follow_from_the_links(ops in proptest::collection::vec(op(), 1..40)) {
            let mut replica = Replica::new();
            for op in ops {
                match op {
                    Op::Say { n, event_us, conflicts } => {
                        let hint = |n: &u8| Some(Hint { id: name(*n), version: version(&replica, *n)? });
                        let conflicts = conflicts.iter().filter_map(hint).collect();
                        replica.write(add(vec![NewMemory { conflicts, ..said(n, event_us) }]));
                    }
                    Op::Change { n, event_us, keep_statements } => {
                        let Some(if_version) = version(&replica, n) else { continue };
                        let memory = said(n, event_us);
                        replica.write(Write::Update(Box::new(Update {
                            if_version, model: None, vectors_given: false, keep_statements, memory,
                        })));
                    }
                    Op::Delete(n) => {
                        replica.write(delete(&name(n)));
                    }
                }
                for n in 0..MEMORIES {
                    let Some((own, row)) = replica.memory(&name(n)) else { continue };
                    let is_later = |id: &String| {
                        let (other, other_row) = replica.memory(id).unwrap();
                        (other_row.event_us, other.seq) > (row.event_us, own.seq)
                    };
                    prop_assert_eq!(row.older, own.possible_conflicts.iter().any(is_later), "{}", n);
                }
            }
        }
    }
}
