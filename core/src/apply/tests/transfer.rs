//! Exports and imports.

use super::erase::linked;
use super::*;
use crate::erasure::{EraseStep, Selection};
use crate::transfer::{Cursor, Item, check_families, page};
use proptest::prelude::*;

impl Replica {
    pub(super) fn exported(&self, bytes_max: usize) -> Vec<Item> {
        let (mut items, mut after) = (Vec::new(), Cursor::default());
        check_families(&self.state, &space()).unwrap();
        loop {
            let page = page(&self.state, &space(), after, bytes_max).unwrap();
            items.extend(page.items);
            match page.next {
                Some(next) => after = next,
                None => return items,
            }
        }
    }

    pub(super) fn import(&mut self, items: &[Item], step: usize) -> Vec<ItemOutcome> {
        let steps = items.chunks(step).flat_map(|items| {
            assert_eq!(space_command(Write::Import(items.to_vec()), None).check(), Ok(()));
            self.items(Write::Import(items.to_vec()))
        });
        steps.collect()
    }

    /// All rows of the space by family and value, but for what is documented to differ: the order of
    /// links, and when the space was first written.
    pub(super) fn rows_but_clock(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.state
            .rows()
            .filter(|(key, _)| *key != keys::clock())
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect()
    }
}

/// What an export promises to bring back: everything but `seq` and the order of links.
fn comparable(items: Vec<Item>) -> Vec<Item> {
    items
        .into_iter()
        .map(|mut item| {
            match &mut item {
                Item::Memory(_) | Item::Beside(_) => {}
                Item::Links(links) => {
                    links.supersedes.sort();
                    links.possible_conflicts.sort();
                }
                Item::Version(version) => version.row.memory.seq = 0,
            }
            item
        })
        .collect()
}

fn full() -> Replica {
    let mut replica = Replica::new();
    let mut plain = memory("plain", "普通的记忆 🙂");
    plain.index.expires_us = Some(i64::MAX);
    plain.index.metadata = r#"{"a":1}"#.into();
    plain.source = Some(Source { uri: Some("file:x".into()), message_ids: vec!["m1".into()] });
    plain.index.vector = Some(Vector::quantise(&[0.3, 0.4, -0.5]).unwrap());
    let model = Some(ModelTag { id: "client".into(), dims: 3 });
    let items = vec![plain];
    replica.write(Write::Add(Add {
        origin: Origin::Caller,
        model,
        vectors_given: true,
        partial: false,
        items,
    }));
    let mut with_vector = memory("vector", "has a vector");
    with_vector.index.expires_us = Some(i64::MAX);
    with_vector.index.vector = Some(Vector::quantise(&[0.1, 0.2, 0.3]).unwrap());
    let model = Some(ModelTag { id: "client".into(), dims: 3 });
    let items = vec![with_vector];
    replica.write(Write::Add(Add {
        origin: Origin::Caller,
        model,
        vectors_given: true,
        partial: false,
        items,
    }));
    replica.write(add(vec![linked(1, 0, None, 0, 0), linked(3, 1, Some(1), 1, 0), linked(5, 2, None, 3, 1)]));
    replica.write(update("plain", "changed once", 1));
    replica.write(update("plain", "changed twice", 2));
    let feed = vec![FeedbackItem { id: "plain".into(), verdict: Verdict::Adopted }];
    replica.write(Write::Feedback { items: feed });
    replica
}

#[test]
fn a_space_comes_back_as_it_was() {
    let mut from = full();
    from.write(delete(&linked(3, 0, None, 0, 0).index.id));
    let items = from.exported(1);
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Version(_))).count(), 2);
    let mut into = Replica::new();
    assert!(into.import(&items, 2).iter().all(|item| item.status != ItemStatus::Rejected));
    assert_eq!(comparable(into.exported(usize::MAX)), comparable(items.clone()));
    assert_eq!(into.counters().bytes, from.counters().bytes);
    for family in [Family::Memory, Family::Fact, Family::History, Family::TextHash, Family::Derived] {
        assert_eq!(into.family(family), from.family(family), "{family:?}");
    }
    assert_eq!(into.due(), 1, "what expires there expires here");
    let before = into.rows_but_clock();
    let again = into.import(&items, 3);
    assert!(again.iter().all(|item| item.status == ItemStatus::Duplicate), "{again:?}");
    assert_eq!(into.rows_but_clock(), before, "twice is once");
}

#[test]
fn what_was_deleted_stays_deleted_and_is_told() {
    let mut replica = full();
    let items = replica.exported(usize::MAX);
    replica.write(delete("plain"));
    let gone = |outcomes: &[ItemOutcome]| {
        let of = outcomes.iter().filter(|item| item.id == "plain");
        of.map(|item| (item.status, item.reason.as_ref().map(|reason| reason.code))).collect::<Vec<_>>()
    };
    let rejected = (ItemStatus::Rejected, Some(ErrorCode::Conflict));
    assert_eq!(gone(&replica.import(&items, 10)), [rejected; 3], "with its earlier versions");
    replica.write(add(vec![memory("plain", "said anew")]));
    let outcomes = gone(&replica.import(&items, 10));
    assert_eq!(outcomes[1..], [rejected; 2], "nothing of the old one hangs on to the new one");
    assert_eq!(replica.family(Family::History), 0);

    replica.write(Write::Erase(EraseStep::Begin { id: "all".into(), selection: Selection::All }));
    replica.drop_all("all", 96);
    let outcomes = replica.import(&items, 10);
    assert!(outcomes.iter().all(|item| item.status == ItemStatus::Rejected), "{outcomes:?}");
    assert_eq!(replica.family(Family::Memory), 0);
}

#[test]
fn chunks_come_back_with_their_memory() {
    let mut from = Replica::new();
    from.write(add(vec![super::chunks::long(1, "a long text", &["a long", "text"]), memory("next", "x")]));
    let items = from.exported(1);
    assert_eq!(items.len(), 2, "chunks are no lines of their own");
    let mut into = Replica::new();
    into.import(&items, 1);
    assert_eq!(into.family(Family::Memory), 4);
    let strip = |items: Vec<Item>| -> Vec<Vec<String>> {
        let ids = |item: Item| match item {
            Item::Memory(memory) => memory.memory.chunks.into_iter().map(|chunk| chunk.index.id).collect(),
            _ => Vec::new(),
        };
        items.into_iter().map(ids).collect()
    };
    assert_eq!(strip(into.exported(1)), strip(items.clone()));
    let before = into.rows_but_clock();
    into.import(&items, 2);
    assert_eq!(into.rows_but_clock(), before);
}

#[test]
fn a_version_needs_its_memory() {
    let items = full().exported(usize::MAX);
    let version = items.iter().find(|item| matches!(item, Item::Version(_))).unwrap().clone();
    let mut replica = Replica::new();
    let outcome = replica.import(&[version], 1).remove(0);
    assert_eq!(outcome.reason.unwrap().code, ErrorCode::NotFound);
}

#[test]
fn vectors_of_another_model_reject_the_memories_that_bring_them() {
    let items = full().exported(usize::MAX);
    let mut replica = Replica::new();
    let mut other = memory("o", "other");
    other.index.vector = Some(Vector::quantise(&[1.0, 0.0]).unwrap());
    let model = Some(ModelTag { id: "client".into(), dims: 2 });
    let write =
        Add { origin: Origin::Caller, model, vectors_given: true, partial: false, items: vec![other] };
    replica.write(Write::Add(write));
    let outcomes = replica.import(&items, 100);
    let rejected: Vec<&str> = outcomes
        .iter()
        .filter(|item| {
            item.reason.as_ref().is_some_and(|reason| reason.field.as_deref() == Some("embedding"))
        })
        .map(|item| item.id.as_str())
        .collect();
    assert_eq!(rejected, ["vector"]);
    assert_eq!(replica.family(Family::Memory), 5);
}

#[test]
fn items_are_checked_before_they_are_proposed() {
    let items = full().exported(usize::MAX);
    let refused = |change: &dyn Fn(&mut Item)| {
        items.iter().any(|item| {
            let mut item = item.clone();
            change(&mut item);
            item.check().is_err()
        })
    };
    assert!(!refused(&|_| ()));
    let of_memory = |change: fn(&mut crate::transfer::Memory)| {
        move |item: &mut Item| {
            if let Item::Memory(memory) = item {
                change(memory);
            }
        }
    };
    assert!(refused(&of_memory(|memory| memory.version = 0)));
    assert!(refused(&of_memory(|memory| memory.version = u64::MAX)), "there would be no next one");
    assert!(refused(&of_memory(|memory| memory.standing.clear())));
    assert!(refused(&of_memory(|memory| memory.model = None)));
    for (ids, by) in [(vec!["x".to_owned(); 1001], None), (vec![], Some("\0".to_owned()))] {
        assert!(refused(&|item| {
            if let Item::Links(links) = item {
                (links.supersedes, links.superseded_by) = (ids.clone(), by.clone());
            }
        }));
    }
    assert!(refused(&of_memory(|memory| memory.memory.content = " ".into())));
    assert!(refused(&|item| {
        if let Item::Version(version) = item {
            version.id = "other".into();
        }
    }));
    assert!(space_command(Write::Import(vec![]), None).check().is_err());
}

proptest! {
    /// Whatever was said, decided and deleted before: what is exported, imported and exported again is
    /// what was exported, however it is cut.
    #[test]
    fn export_import_export_is_export(
        said in proptest::collection::vec((0usize..10, 0usize..3, proptest::option::of(0usize..10), 0usize..10, 0usize..3), 1..20),
        decided in proptest::collection::vec((0usize..10, 0usize..10), 0..4),
        gone in proptest::collection::vec(0usize..10, 0..3),
        bytes_max in 1usize..4000,
        step in 1usize..8,
    ) {
        let mut from = Replica::new();
        let id = |n: usize| linked(n, 0, None, 0, 0).index.id;
        for (n, value, source, conflict, mode) in said {
            from.write(add(vec![linked(n, value, source, conflict, mode)]));
        }
        for (keep, retire) in decided {
            from.write(Write::Resolve { keep: id(keep), retire: vec![id(retire)] });
        }
        for n in gone {
            from.write(delete(&id(n)));
        }
        let items = from.exported(bytes_max);
        let mut into = Replica::new();
        into.import(&items, step);
        prop_assert_eq!(comparable(into.exported(usize::MAX)), comparable(items.clone()));
        for family in [Family::Memory, Family::Fact, Family::History, Family::TextHash, Family::Derived] {
            prop_assert_eq!(into.family(family), from.family(family), "{:?}", family);
        }
        let before = into.rows_but_clock();
        into.import(&items, step);
        prop_assert_eq!(into.rows_but_clock(), before);
    }
}
