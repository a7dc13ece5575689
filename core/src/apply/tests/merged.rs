//! Memories that say the same, merged by a job.

use super::*;
use crate::erasure::{EraseStep, Selection};
use crate::keys::merged;
use crate::keys::work::{Work, WorkKind};
use crate::limits::{MERGED_MAX, UPKEEP_AFTER_US};
use crate::session::turn_reference;
use crate::transfer::Item;
use crate::upkeep::{MergedRow, UpkeepRow};

pub(super) fn duplicates(base: u64, through: u64, pairs: &[(&str, u64, &str, u64)]) -> Write {
    let hint = |id: &str, version| Hint { id: id.into(), version };
    let merge = |(stands, of, merged, version): &(&str, u64, &str, u64)| Merge {
        stands: hint(stands, *of),
        merged: hint(merged, *version),
        cosine_milli: Some(987),
    };
    Write::Upkeep(Box::new(Upkeep::Duplicates { base, through, merges: pairs.iter().map(merge).collect() }))
}

impl Replica {
    fn upkeep(&self) -> UpkeepRow {
        let value = self.state.get(&keys::upkeep::key(&space())).unwrap();
        value.map(|value| UpkeepRow::decode(&value).unwrap()).unwrap_or_default()
    }

    fn waiting(&self) -> Vec<Work> {
        let rows = self.state.scan(&keys::work::prefix(WorkKind::Upkeep), None, usize::MAX).unwrap();
        rows.iter().map(|(key, _)| Work::parse(key).unwrap()).collect()
    }

    /// Merges each into the one before it, at their versions, and answers what became of it.
    fn merge(&mut self, pairs: &[(&str, &str)]) -> Vec<ItemStatus> {
        let version = |id: &str| self.memory(id).map_or(1, |(memory, _)| memory.version);
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| (*a, version(a), *b, version(b))).collect();
        let write = duplicates(self.upkeep().looked, self.counters().last_seq, &pairs);
        self.items(write).iter().map(|item| item.status).collect()
    }

    fn shape(&self, id: &str) -> Option<(Status, u32)> {
        self.memory(id).map(|(_, row)| (row.status, row.count))
    }

    fn stands_for(&self, id: &str) -> Option<String> {
        let value = self.state.get(&merged::into(&space(), id)).unwrap()?;
        merged::stands(&value).map(str::to_owned)
    }
}

/// What holds after every command.
pub(super) fn check(replica: &Replica) {
    let rows =
        replica.state.scan(&keys::family_prefix(&space(), Family::IndexRow), None, usize::MAX).unwrap();
    let mut merged_ones = 0;
    for (_, value) in rows {
        let row = IndexRow::decode(&value).unwrap();
        let members = replica.state.scan(&merged::prefix(&space(), &row.id), None, usize::MAX).unwrap();
        let counts: u32 = members.iter().map(|(_, value)| MergedRow::decode(value).unwrap().count).sum();
        assert!(members.len() <= MERGED_MAX && row.count > counts, "{row:?}");
        let stands = replica.stands_for(&row.id);
        assert_eq!(row.status == Status::Merged, stands.is_some(), "{row:?}");
        if let Some(stands) = stands {
            merged_ones += 1;
            assert!(members.is_empty(), "what is merged has nothing merged into it");
            let forward = replica.state.get(&merged::key(&space(), &stands, &row.id)).unwrap().unwrap();
            assert_eq!(MergedRow::decode(&forward).unwrap().count, row.count);
            assert_ne!(replica.shape(&stands).map(|(status, _)| status), Some(Status::Merged));
            assert!(replica.memory(&stands).unwrap().0.seq < replica.memory(&row.id).unwrap().0.seq);
        }
    }
    assert_eq!(replica.family(Family::Merged), 2 * merged_ones, "no row is left over");
    let (upkeep, waiting) = (replica.upkeep(), replica.waiting());
    assert_eq!(waiting.iter().map(|work| work.at_us).collect::<Vec<_>>(), Vec::from_iter(upkeep.work_us));
    let erasing = replica.counters().erasing.is_some();
    assert!(
        erasing
            || upkeep.looked >= replica.counters().last_seq
            || upkeep.work_us.is_some()
            || replica.family(Family::Memory) == 0
    );
}

fn two() -> Replica {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("old", "I like hiking"), memory("new", "I enjoy hiking")]));
    replica
}

fn merged_two() -> Replica {
    let mut replica = two();
    assert_eq!(replica.merge(&[("old", "new")]), [ItemStatus::Merged]);
    check(&replica);
    replica
}

#[test]
fn what_says_the_same_is_counted_on_one_and_keeps_its_id() {
    let replica = merged_two();
    assert_eq!(replica.shape("old"), Some((Status::Active, 2)));
    assert_eq!(replica.shape("new"), Some((Status::Merged, 1)));
    assert_eq!(replica.stands_for("new").as_deref(), Some("old"));
    assert_eq!(replica.memory("new").unwrap().0.content, "I enjoy hiking");
    assert_eq!(replica.memory("old").unwrap().0.version, 1, "merging is no change of the text");
    let told = replica.events.iter().rev().take(2).map(|event| match event {
        Event::Put { row, .. } => (row.id.as_str(), row.status, row.count),
        Event::Remove { .. } => panic!("nothing is removed"),
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [("new", Status::Merged, 1), ("old", Status::Active, 2)]);
}

#[test]
fn new_memories_wake_the_job_once_and_again_when_more_have_come() {
    let mut replica = two();
    let first = replica.waiting();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].at_us, replica.clock_us + UPKEEP_AFTER_US);
    replica.write(add(vec![memory("third", "x")]));
    assert_eq!(replica.waiting(), first, "one row for all of them");
    replica.write(duplicates(0, 2, &[]));
    assert_eq!(replica.waiting()[0].at_us, replica.clock_us, "the third is left");
    check(&replica);
    replica.write(duplicates(2, 3, &[]));
    assert!(replica.waiting().is_empty());
    replica.write(delete("third"));
    replica.write(add(vec![memory("old", "I like hiking")]));
    assert!(replica.waiting().is_empty(), "nothing new came");
    check(&replica);
}

#[test]
fn a_step_of_an_earlier_state_is_dropped() {
    let mut replica = two();
    let late = duplicates(0, 2, &[("old", 1, "new", 1)]);
    assert_eq!(failed(replica.write(duplicates(0, 9, &[]))), ErrorCode::Conflict);
    replica.items(late.clone());
    assert_eq!(failed(replica.write(late)), ErrorCode::Conflict, "another leader did it");
    check(&replica);
    let too_many: Vec<_> = (0..17).map(|_| ("a", 1, "b", 1)).collect();
    let refused = space_command(duplicates(0, 0, &too_many), None).check().unwrap_err();
    assert_eq!(refused.code, ErrorCode::TooLarge);
    let refused = space_command(duplicates(2, 1, &[]), None).check().unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidArgument);
    let mut forged = memory("forged", "x");
    forged.index.status = Status::Merged;
    assert!(space_command(add(vec![forged]), None).check().is_err());
}

#[test]
fn whatever_else_tells_two_apart_keeps_them_apart() {
    type Change = fn(&mut NewMemory);
    let changes: [(&str, Change); 17] = [
        ("session", |item| item.index.session = Some("monday".into())),
        ("importance", |item| item.index.importance = 0.6),
        ("confidence", |item| item.confidence = 0.95),
        ("pinned", |item| item.index.pinned = true),
        ("metadata", |item| item.index.metadata = r#"{"a":1}"#.into()),
        ("speaker", |item| item.index.speaker = Some("Anna".into())),
        ("role", |item| item.index.role = Some("assistant".into())),
        ("agent", |item| item.index.agent = Some("planner".into())),
        ("sentiment", |item| item.index.sentiment = Some("negative".into())),
        ("kind", |item| item.index.kind = Kind::Procedural),
        ("expiry", |item| item.index.expires_us = Some(i64::MAX)),
        ("entities", |item| item.index.entities = vec!["paris".into()]),
        ("question", |item| item.index.question = true),
        ("doubt", |item| item.confidence = 0.3),
        ("earlier", |item| (item.index.event_us, item.event_given) = (1, true)),
        ("fact", |item| item.statements = facts::says(9, "I", "lives in", "Rome").at(1).statements),
        ("chunks", |item| item.chunks = vec![memory("chunk", "I enjoy")]),
    ];
    for (what, change) in changes {
        let mut replica = Replica::new();
        let mut item = memory("new", "I enjoy hiking");
        change(&mut item);
        replica.write(add(vec![memory("old", "I like hiking"), item]));
        assert_eq!(replica.merge(&[("old", "new")]), [ItemStatus::Rejected], "{what}");
        assert_eq!(replica.shape("old"), Some((Status::Active, 1)), "{what}");
        check(&replica);
    }
    let mut replica = two();
    replica.write(update("new", "I enjoy hiking a lot", 1));
    let write = duplicates(0, 2, &[("old", 1, "new", 1), ("old", 1, "gone", 1), ("new", 2, "old", 1)]);
    let statuses: Vec<_> = replica.items(write).iter().map(|item| item.status).collect();
    assert_eq!(statuses, [ItemStatus::Rejected; 3], "changed, gone, and in the wrong order");
    check(&replica);
}

#[test]
fn who_deletes_one_of_two_deletes_that_one_alone() {
    let mut replica = merged_two();
    replica.write(delete("new"));
    assert_eq!((replica.shape("new"), replica.shape("old")), (None, Some((Status::Active, 1))));
    check(&replica);

    let mut replica = merged_two();
    replica.write(delete("old"));
    assert_eq!((replica.shape("old"), replica.shape("new")), (None, Some((Status::Active, 1))));
    assert_eq!(replica.family(Family::Tombstone), 1);
    assert!(replica.holding("I like hiking".as_bytes()).is_empty());
    check(&replica);
    // Not merged again into what is gone, by a leader that was late.
    let late = duplicates(replica.upkeep().looked, 2, &[("old", 1, "new", 1)]);
    assert_eq!(replica.items(late)[0].status, ItemStatus::Rejected);
    check(&replica);
}

#[test]
fn an_erasure_takes_what_it_selects_and_the_other_stands_by_itself() {
    let remove = |ids: &[&str]| {
        let memories = ids.iter().map(|id| (*id).to_owned()).collect();
        Write::Erase(EraseStep::Remove { id: "e".into(), memories, after: 9, ended: true })
    };
    let begin = |selection| Write::Erase(EraseStep::Begin { id: "e".into(), selection });
    let mut replica = merged_two();
    replica.write(begin(Selection::Source("mail".into())));
    replica.write(remove(&["old"]));
    assert_eq!((replica.shape("old"), replica.shape("new")), (None, Some((Status::Active, 1))));
    check(&replica);
    // Also by ids: what is merged meanwhile was not named.
    let mut replica = two();
    replica.write(begin(Selection::Ids(vec!["old".into()])));
    assert_eq!(replica.merge(&[("old", "new")]), [ItemStatus::Merged]);
    replica.write(remove(&["old"]));
    assert_eq!((replica.shape("old"), replica.shape("new")), (None, Some((Status::Active, 1))));
    assert_eq!(replica.erasure("e").erased.memories, 1);
    check(&replica);
    // Everything.
    let mut replica = merged_two();
    replica.write(add(vec![memory("more", "x")]));
    replica.write(begin(Selection::All));
    replica.drop_all("e", 3);
    assert_eq!((replica.family(Family::Merged), replica.family(Family::Upkeep)), (0, 0));
    assert!(replica.waiting().is_empty());
    assert_eq!(replica.erasure("e").erased.memories, 3);
    replica.write(add(vec![memory("old", "I like hiking")]));
    assert_eq!(replica.waiting().len(), 1);
}

#[test]
fn what_two_sessions_say_stands_while_one_of_them_does() {
    let mut replica = Replica::new();
    for (session, n, content) in [("a", 1, "I like hiking"), ("b", 2, "I enjoy hiking")] {
        let write = sessions::turns(session, vec![sessions::turn("user", content)]);
        replica.write(write);
        let derived_from = vec![turn_reference(session, 1, 1)];
        let item = NewMemory { derived_from, ..made(n, content) };
        let (origin, items) = (Origin::Job, vec![item]);
        let add = Add { origin, model: None, vectors_given: false, partial: true, items };
        let digest = replica.digest(session, 1, DigestResult::Promoted(Some(add)));
        replica.items(digest);
    }
    let (one, two) = (facts::id(1), facts::id(2));
    assert_eq!(replica.merge(&[(&one, &two)]), [ItemStatus::Merged]);
    replica.items(Write::DeleteSession { session: "a".into(), if_version: None });
    assert_eq!((replica.shape(&one), replica.shape(&two)), (None, Some((Status::Active, 1))));
    check(&replica);
    replica.items(Write::DeleteSession { session: "b".into(), if_version: None });
    assert_eq!((replica.counters().memories, replica.family(Family::Derived)), (0, 0));
    check(&replica);
}

#[test]
fn whoever_changes_or_decides_about_one_of_two_parts_them_first() {
    let apart = |replica: &Replica, what: &str| {
        assert_eq!(replica.shape("new"), Some((Status::Active, 1)), "{what}");
        assert_eq!(replica.shape("old").unwrap().1, 1, "{what}");
        assert_eq!(replica.family(Family::Merged), 0, "{what}");
        check(replica);
    };
    let mut replica = merged_two();
    replica.write(update("new", "I enjoy hiking in June", 1));
    apart(&replica, "a change of the merged one");
    // What stood for it says something else now; the same statement once more is found again.
    let mut replica = merged_two();
    replica.write(update("old", "I gave up hiking", 1));
    apart(&replica, "a change of the one that stood");
    let outcome = replica.items(add(vec![made(7, "I enjoy hiking")])).remove(0);
    assert_eq!((outcome.id.as_str(), replica.shape("new")), ("new", Some((Status::Active, 2))));
    let mut replica = merged_two();
    let mut expiring = memory("old", "I like hiking");
    expiring.index.expires_us = Some(replica.clock_us + 1_000);
    replica.write(Write::Update(Box::new(Update {
        if_version: 1,
        model: None,
        vectors_given: false,
        keep_statements: true,
        memory: expiring,
    })));
    apart(&replica, "an expiry of the one that stood");
    replica.clock_us += 10_000;
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!((replica.shape("old"), replica.shape("new")), (None, Some((Status::Active, 1))));
    for (keep, retire) in [("other", "old"), ("old", "other"), ("new", "other")] {
        let mut replica = merged_two();
        replica.write(add(vec![memory("other", "I hate hiking")]));
        replica.write(Write::Resolve { keep: keep.into(), retire: vec![retire.into()] });
        apart(&replica, retire);
        assert_eq!(replica.shape(retire).unwrap().0, Status::Deprecated);
    }
    let mut replica = merged_two();
    replica.write(add(vec![memory("other", "I hate hiking")]));
    replica.write(Write::Resolve { keep: "other".into(), retire: vec!["new".into()] });
    assert_eq!(replica.shape("old"), Some((Status::Active, 1)));
    assert_eq!(replica.shape("new"), Some((Status::Deprecated, 1)));
    check(&replica);
}

#[test]
fn what_may_contradict_one_of_two_may_contradict_both() {
    for named in ["old", "new"] {
        let mut replica = merged_two();
        let hints = vec![Hint { id: named.into(), version: 1 }];
        let newer = NewMemory { conflicts: hints, ..memory("newer", "I no longer hike") };
        replica.write(add(vec![newer]));
        check(&replica);
        assert_eq!(replica.family(Family::Merged), 0, "{named}");
        assert!(replica.memory(named).unwrap().1.older, "{named}");
        if named == "old" {
            let linked = replica.memory("newer").unwrap().0.possible_conflicts;
            assert_eq!(linked, ["old", "new"]);
            assert!(replica.memory("new").unwrap().1.older, "what says the same is older, too");
        }
    }
}

#[test]
fn a_repetition_of_a_merged_text_is_counted_on_both() {
    let mut replica = merged_two();
    let again = made(7, "I enjoy hiking");
    let outcome = replica.items(add(vec![again.clone()])).remove(0);
    assert_eq!((outcome.id.as_str(), outcome.status), ("new", ItemStatus::Merged));
    assert_eq!(
        (replica.shape("old"), replica.shape("new")),
        (Some((Status::Active, 3)), Some((Status::Merged, 2)))
    );
    check(&replica);
    // One that must not be forgotten stands by itself.
    let pinned = NewMemory { index: IndexRow { pinned: true, ..again.index.clone() }, ..again };
    replica.items(add(vec![pinned]));
    assert_eq!(
        (replica.shape("old"), replica.shape("new")),
        (Some((Status::Active, 1)), Some((Status::Active, 3)))
    );
    check(&replica);
}

#[test]
fn what_expires_together_goes_together() {
    let mut replica = Replica::new();
    let at_us = replica.clock_us + 1_000_000;
    let expiring = |id: &str, content: &str| {
        let mut item = memory(id, content);
        item.index.expires_us = Some(at_us);
        item
    };
    replica.write(add(vec![expiring("old", "I like hiking"), expiring("new", "I enjoy hiking")]));
    assert_eq!(replica.merge(&[("old", "new")]), [ItemStatus::Merged]);
    replica.clock_us = at_us + 1;
    assert_eq!(replica.merge(&[]), []);
    replica.run(&Command::Sweep { limit: 16 });
    assert_eq!((replica.counters().memories, replica.due()), (0, 1), "the tombstones' row is left");
    check(&replica);
}

#[test]
fn one_memory_takes_a_bounded_number_of_others() {
    let mut replica = Replica::new();
    let ids: Vec<String> = (0..=MERGED_MAX + 1).map(|n| format!("m{n:02}")).collect();
    replica.write(add(ids.iter().map(|id| memory(id, &format!("text of {id}"))).collect()));
    for id in &ids[1..=MERGED_MAX] {
        assert_eq!(replica.merge(&[("m00", id)]), [ItemStatus::Merged]);
    }
    assert_eq!(replica.merge(&[("m00", &ids[MERGED_MAX + 1])]), [ItemStatus::Rejected]);
    assert_eq!(
        replica.merge(&[("m01", &ids[MERGED_MAX + 1])]),
        [ItemStatus::Rejected],
        "that one is merged itself"
    );
    check(&replica);
    replica.write(delete("m00"));
    assert_eq!(replica.counters().memories, MERGED_MAX as u64 + 1);
    assert!(ids[1..].iter().all(|id| replica.shape(id) == Some((Status::Active, 1))));
    check(&replica);
}

#[test]
fn an_export_tells_what_each_of_them_says() {
    let mut replica = merged_two();
    replica.items(add(vec![made(7, "I enjoy hiking"), made(8, "I like hiking")]));
    assert_eq!(replica.shape("old"), Some((Status::Active, 4)));
    let items = replica.exported(usize::MAX);
    let told = items.iter().filter_map(|item| match item {
        Item::Memory(memory) => Some((memory.memory.index.status, memory.memory.index.count)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(Status::Active, 2); 2]);
    let mut other = Replica::new();
    other.import(&items, 1);
    assert_eq!(other.waiting().len(), 1, "jobs look at what came");
    assert_eq!(other.merge(&[("old", "new")]), [ItemStatus::Merged]);
    assert_eq!(other.shape("old"), Some((Status::Active, 4)));
    check(&other);
}
