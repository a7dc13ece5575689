//! Core blocks, alone and against a model that is too simple to be wrong.

use super::*;
use crate::keys::block;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_VERSIONS_MAX, BLOCKS_MAX};
use crate::tiers::TierRow;
use crate::tiers::block::{BlockChange, BlockRow, BlockWrite, LIMIT_CHARS_DEFAULT};
use proptest::prelude::*;

fn write(label: &str, change: BlockChange) -> BlockWrite {
    BlockWrite { label: label.into(), if_version: None, by_admin: false, change }
}

fn change(label: &str, change: BlockChange) -> Write {
    Write::Block(Box::new(write(label, change)))
}

fn put(value: &str) -> BlockChange {
    BlockChange::Put { value: Some(value.into()), description: None, limit_chars: None, read_only: None }
}

fn read_only(read_only: bool) -> BlockChange {
    BlockChange::Put { value: None, description: None, limit_chars: None, read_only: Some(read_only) }
}

fn at(version: u64, label: &str, change: BlockChange) -> Write {
    Write::Block(Box::new(BlockWrite { if_version: Some(version), ..write(label, change) }))
}

fn by_admin(label: &str, change: BlockChange) -> Write {
    Write::Block(Box::new(BlockWrite { by_admin: true, ..write(label, change) }))
}

impl Replica {
    fn block(&self, label: &str) -> Option<BlockRow> {
        let value = self.state.get(&block::key(&space(), label)).unwrap()?;
        Some(BlockRow::decode(&value).unwrap())
    }

    fn blocks(&self) -> Vec<(String, BlockRow)> {
        let prefix = block::prefix(&space());
        let rows = self.state.scan(&prefix, None, usize::MAX).unwrap().into_iter();
        let label = |key: &[u8]| String::from_utf8(key[prefix.len()..].to_vec()).unwrap();
        rows.map(|(key, value)| (label(&key), BlockRow::decode(&value).unwrap())).collect()
    }

    fn versions(&self, label: &str) -> Vec<BlockRow> {
        let rows = self.state.scan(&block::versions_of(&space(), label), None, usize::MAX).unwrap();
        rows.iter().map(|(_, value)| BlockRow::decode(value).unwrap()).collect()
    }
}

#[test]
fn a_block_is_made_edited_and_deleted() {
    let mut replica = Replica::new();
    assert_eq!(
        failed(replica.write(change("human", BlockChange::Rethink { value: "x".into() }))),
        ErrorCode::NotFound
    );
    let made = replica.items(change("human", put("名字：安")));
    assert_eq!((made[0].id.as_str(), made[0].version, made[0].status), ("human", 1, ItemStatus::Created));
    assert_eq!(replica.block("human").unwrap().limit_chars, LIMIT_CHARS_DEFAULT);
    replica.items(change("human", BlockChange::Insert { text: "喜欢茶".into(), line: None }));
    replica.items(change("human", BlockChange::Replace { old: "茶".into(), new: "咖啡☕".into() }));
    assert_eq!(replica.block("human").unwrap().value, "名字：安\n喜欢咖啡☕");
    assert_eq!(replica.block("human").unwrap().version, 3);
    assert_eq!(replica.counters().bytes, replica.block("human").unwrap().value.len() as u64);
    // What changes nothing makes no version.
    assert_eq!(replica.items(change("human", read_only(false)))[0].version, 3);
    replica.items(change("human", BlockChange::Delete));
    assert_eq!((replica.block("human"), replica.counters().bytes), (None, 0));
    assert!(replica.versions("human").is_empty(), "nothing of the text is left");
    assert_eq!(failed(replica.write(change("human", BlockChange::Delete))), ErrorCode::NotFound);
    // A version that somebody still holds does not fit the next block of this name.
    assert_eq!(replica.items(change("human", put("new")))[0].version, 4);
    assert_eq!(failed(replica.write(at(1, "human", put("late")))), ErrorCode::Conflict);
}

#[test]
fn versions_are_compared_and_kept_up_to_a_bound() {
    let mut replica = Replica::new();
    assert_eq!(failed(replica.write(at(1, "b", put("x")))), ErrorCode::NotFound, "there is none to compare");
    replica.write(change("b", put("0")));
    for version in 1..=BLOCK_VERSIONS_MAX + 5 {
        let value = version.to_string();
        assert_eq!(replica.items(at(version, "b", BlockChange::Rethink { value }))[0].version, version + 1);
    }
    assert_eq!(failed(replica.write(at(1, "b", BlockChange::Delete))), ErrorCode::Conflict);
    let kept: Vec<u64> = replica.versions("b").iter().map(|row| row.version).collect();
    assert_eq!(kept.len() as u64, BLOCK_VERSIONS_MAX);
    assert_eq!(kept.last(), Some(&(BLOCK_VERSIONS_MAX + 5)));
    assert_eq!(replica.versions("b")[0].value, (kept[0] - 1).to_string());
}

#[test]
fn limits_hold_whichever_way_a_text_grows() {
    let mut replica = Replica::new();
    let limited = BlockChange::Put {
        value: Some("12345".into()),
        description: Some("digits".into()),
        limit_chars: Some(6),
        read_only: None,
    };
    replica.write(change("b", limited));
    for too_long in [
        put("1234567"),
        BlockChange::Insert { text: "6".into(), line: Some(0) },
        BlockChange::Replace { old: "5".into(), new: "五六七".into() },
        BlockChange::Rethink { value: "七个字符的文本".into() },
        BlockChange::Patch { value: Some("1234567".into()) },
        BlockChange::Put { value: None, description: None, limit_chars: Some(4), read_only: None },
    ] {
        assert_eq!(failed(replica.write(at(1, "b", too_long))), ErrorCode::TooLarge);
    }
    replica.write(change("b", BlockChange::Insert { text: "\n".into(), line: None }));
    assert_eq!(failed(replica.write(change("new", put(&"字".repeat(2001))))), ErrorCode::TooLarge);
    for n in 1..BLOCKS_MAX {
        replica.write(change(&n.to_string(), put("")));
    }
    assert_eq!(failed(replica.write(change("one more", put("")))), ErrorCode::QuotaExceeded);
    replica.write(change("1", BlockChange::Delete));
    assert_eq!(replica.items(change("one more", put("")))[0].status, ItemStatus::Created);
}

#[test]
fn a_read_only_block_is_changed_by_administrators_alone() {
    let mut replica = Replica::new();
    assert_eq!(failed(replica.write(change("rules", read_only(true)))), ErrorCode::PermissionDenied);
    replica.write(change("rules", put("be kind")));
    replica.items(by_admin("rules", read_only(true)));
    for edit in [
        put("x"),
        read_only(false),
        BlockChange::Insert { text: "x".into(), line: None },
        BlockChange::Replace { old: "kind".into(), new: "rude".into() },
        BlockChange::Rethink { value: "x".into() },
        BlockChange::Patch { value: Some("x".into()) },
        BlockChange::Delete,
    ] {
        assert_eq!(
            failed(replica.write(at(2, "rules", edit.clone()))),
            ErrorCode::PermissionDenied,
            "{edit:?}"
        );
    }
    assert_eq!(replica.block("rules").unwrap().value, "be kind");
    replica.items(by_admin("rules", BlockChange::Rethink { value: "be kind and brief".into() }));
    replica.items(by_admin("rules", read_only(false)));
    replica.items(change("rules", BlockChange::Delete));
}

#[test]
fn a_repeated_edit_is_answered_as_before_also_where_it_would_not_fit_any_more() {
    let mut replica = Replica::new();
    replica.write(add(vec![memory("b", "a memory of the same name")]));
    replica.write(change("b", put("tea")));
    let edit = change("b", BlockChange::Replace { old: "tea".into(), new: "coffee".into() });
    let first = replica.run(&space_command(edit.clone(), Some(key(1, 1))));
    let again = replica.run(&space_command(edit, Some(key(1, 1))));
    let (Outcome::Items { items, .. }, Outcome::Items { items: repeated, replayed: true, .. }) =
        (&first, &again)
    else {
        panic!("{first:?} {again:?}")
    };
    assert_eq!(items, repeated);
    // A patch whose repetition does not fit the new text.
    let patch =
        |value: Option<&str>, version| at(version, "b", BlockChange::Patch { value: value.map(Into::into) });
    replica.run(&space_command(patch(Some("milk"), 2), Some(key(2, 2))));
    let again = replica.run(&space_command(patch(None, 3), Some(key(2, 2))));
    assert!(matches!(again, Outcome::Items { replayed: true, .. }), "{again:?}");
    assert_eq!(failed(replica.write(patch(None, 3))), ErrorCode::Conflict);
    assert_eq!(failed(replica.write(patch(None, 2))), ErrorCode::Conflict);
}

#[test]
fn what_no_block_can_take_is_refused_before_the_log() {
    let long = "x".repeat(BLOCK_BYTES_MAX + 1);
    let limit = |limit| BlockChange::Put {
        value: None,
        description: None,
        limit_chars: Some(limit),
        read_only: None,
    };
    for (label, change, field) in [
        ("", put("x"), "label"),
        ("a\0b", put("x"), "label"),
        ("b", put(&long), "value"),
        ("b", limit(0), "limit_chars"),
        ("b", limit(65_537), "limit_chars"),
        ("b", BlockChange::Insert { text: String::new(), line: None }, "text"),
        ("b", BlockChange::Insert { text: long.clone(), line: None }, "text"),
        ("b", BlockChange::Replace { old: String::new(), new: "x".into() }, "old"),
        ("b", BlockChange::Rethink { value: long.clone() }, "value"),
        ("b", BlockChange::Patch { value: None }, "version"),
    ] {
        let error = space_command(Write::Block(Box::new(write(label, change))), None).check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    assert!(space_command(change("b", limit(65_536)), None).check().is_ok());
}

fn edit() -> impl Strategy<Value = BlockChange> {
    let text = || prop_oneof![Just("a"), Just("b\n"), Just("茶"), Just("🙂🙂"), Just("")];
    prop_oneof![
        3 => (proptest::option::of(text()), proptest::option::of(1u32..12), proptest::option::of(any::<bool>()))
            .prop_map(|(value, limit_chars, read_only)| BlockChange::Put {
                value: value.map(Into::into), description: None, limit_chars, read_only,
            }),
        3 => (text(), proptest::option::of(0u32..4))
            .prop_map(|(text, line)| BlockChange::Insert { text: format!("{text}x"), line }),
        3 => (text(), text()).prop_map(|(old, new)| BlockChange::Replace { old: format!("{old}x"), new: new.into() }),
        1 => text().prop_map(|text| BlockChange::Rethink { value: text.into() }),
        1 => Just(BlockChange::Delete),
    ]
}

#[derive(Debug, Clone)]
struct Op {
    write: BlockWrite,
    key: Option<u128>,
}

fn op() -> impl Strategy<Value = Op> {
    let label = prop_oneof![Just("a"), Just("ab"), Just("标签")];
    let if_version = proptest::option::weighted(0.3, 1u64..8);
    (label, if_version, any::<bool>(), edit(), proptest::option::of(0u128..30)).prop_map(
        |(label, if_version, by_admin, change, key)| Op {
            write: BlockWrite { label: label.into(), if_version, by_admin, change },
            key,
        },
    )
}

/// One block of the model: version, text, limit, read-only.
type Simple = (u64, String, u32, bool);

/// What the model makes of an edit; `None` if it is refused.
fn simply(model: &BTreeMap<String, Simple>, floor: u64, write: &BlockWrite) -> Option<Option<Simple>> {
    let old = model.get(&write.label);
    if write.if_version.is_some_and(|version| old.is_none_or(|old| old.0 != version)) {
        return None;
    }
    let (version, text, limit, locked) = match (old, &write.change) {
        (Some(old), _) => old.clone(),
        (None, BlockChange::Put { .. }) => (floor, String::new(), LIMIT_CHARS_DEFAULT, false),
        (None, _) => return None,
    };
    let locks = matches!(write.change, BlockChange::Put { read_only: Some(true), .. });
    if (locked || locks) && !write.by_admin {
        return None;
    }
    let mut new = (version, text.clone(), limit, locked);
    match &write.change {
        BlockChange::Put { value, limit_chars, read_only, .. } => {
            new.1 = value.clone().unwrap_or(text);
            new.2 = limit_chars.unwrap_or(limit);
            new.3 = read_only.unwrap_or(locked);
        }
        BlockChange::Insert { text: line, line: at } => {
            let mut lines: Vec<String> = text.split_inclusive('\n').map(Into::into).collect();
            let at = at.map_or(lines.len(), |at| at as usize);
            if at > lines.len() {
                return None;
            }
            lines.insert(at, line.clone());
            let last = lines.len() - 1;
            for line in &mut lines[..last] {
                if !line.ends_with('\n') {
                    line.push('\n');
                }
            }
            new.1 = lines.concat();
        }
        BlockChange::Replace { old, new: by } => {
            let places = text.char_indices().filter(|(at, _)| text[*at..].starts_with(old)).count();
            if places != 1 {
                return None;
            }
            new.1 = text.replacen(old, by, 1);
        }
        BlockChange::Rethink { value } => new.1 = value.clone(),
        BlockChange::Patch { .. } => return None,
        BlockChange::Delete => return Some(None),
    }
    if new.1.chars().count() > new.2 as usize {
        return None;
    }
    if old.is_none() || new != (version, model[&write.label].1.clone(), limit, locked) {
        new.0 += 1;
    }
    Some(Some(new))
}

proptest! {
    /// Whatever is edited, by whom, repeated and deleted, in whatever order: the blocks are those of
    /// the simple model, no version is given twice, and everything is bounded and counted.
    #[test]
    fn blocks_are_what_the_simple_model_says(ops in proptest::collection::vec(op(), 1..60)) {
        let mut replica = Replica::new();
        let (mut model, mut floor): (BTreeMap<String, Simple>, u64) = (BTreeMap::new(), 0);
        let mut done: BTreeMap<u128, (BlockWrite, Outcome)> = BTreeMap::new();
        for op in ops {
            // A key names one request for ever: its repetition changes nothing.
            let repeated = op.key.and_then(|key| done.get(&key).cloned());
            let write = repeated.as_ref().map_or(op.write, |(write, _)| write.clone());
            let identity = op.key.map(|n| key(n, 0));
            let outcome = replica.run(&space_command(Write::Block(Box::new(write.clone())), identity));
            if let Some((_, Outcome::Items { items: before, .. })) = &repeated {
                let same = matches!(&outcome, Outcome::Items { items, replayed: true, .. } if items == before);
                prop_assert!(same, "{:?}", outcome);
            } else {
                let expected = simply(&model, floor, &write);
                prop_assert_eq!(expected.is_some(), matches!(outcome, Outcome::Items { .. }), "{:?} {:?}", write, outcome);
                match expected {
                    Some(Some(new)) => { model.insert(write.label.clone(), new); }
                    Some(None) => {
                        let old = model.remove(&write.label).unwrap();
                        floor = floor.max(old.0);
                    }
                    None => {}
                }
            }
            if let Some(n) = op.key {
                done.insert(n, (write, outcome));
            }
            let found: BTreeMap<String, Simple> = replica.blocks().into_iter()
                .map(|(label, row)| (label, (row.version, row.value, row.limit_chars, row.read_only))).collect();
            prop_assert_eq!(&found, &model);
            prop_assert_eq!(replica.counters().bytes, model.values().map(|block| block.1.len() as u64).sum::<u64>());
            let tier = replica.state.get(&block::tier(&space())).unwrap();
            let tier = tier.map(|value| TierRow::decode(&value).unwrap()).unwrap_or_default();
            prop_assert_eq!(tier.count as usize, model.len());
            for label in ["a", "ab", "标签"] {
                let versions = replica.versions(label);
                let newest = model.get(label).map_or(0, |block| block.0);
                prop_assert!(versions.len() as u64 <= BLOCK_VERSIONS_MAX);
                prop_assert!(versions.iter().all(|row| row.version < newest));
            }
        }
    }
}
