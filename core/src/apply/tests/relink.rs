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
