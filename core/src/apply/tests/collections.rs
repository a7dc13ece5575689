//! The rows of shared collections.

use super::*;
use crate::access::TenantRow;
use crate::collection::{CollectionChange, CollectionRow, CollectionSettings, IndexKind};
use crate::erasure::{EraseStep, Selection};
use crate::keys::meta;
use crate::limits::{COLLECTION_KEEP_US, COLLECTIONS_MAX, IDEMPOTENCY_KEEP_US};

fn row(name: &str, partitions: u8) -> CollectionRow {
    CollectionRow {
        tenant: "t".into(),
        name: name.into(),
        partitions,
        model: Some(ModelTag { id: "client".into(), dims: 3 }),
        ..CollectionRow::default()
    }
}

fn run(replica: &mut Replica, command: MetaCommand) -> Outcome {
    replica.run(&Command::Meta(Box::new(command)))
}

fn put(replica: &mut Replica, row: CollectionRow) -> Outcome {
    run(replica, MetaCommand::PutCollection(row))
}

fn delete(replica: &mut Replica, name: &str) -> Outcome {
    let incarnation = stored(replica, name).map_or(0, |row| row.incarnation);
    delete_one(replica, name, incarnation)
}

fn delete_one(replica: &mut Replica, name: &str, incarnation: u64) -> Outcome {
    let (tenant, name) = ("t".into(), name.into());
    run(replica, MetaCommand::DeleteCollection { tenant, name, incarnation, key_hash: 77 })
}

fn stored(replica: &Replica, name: &str) -> Option<CollectionRow> {
    let value = replica.state.get(&meta::collection("t", name)).unwrap()?;
    Some(CollectionRow::decode(&value).unwrap())
}

#[track_caller]
fn failed(outcome: Outcome) -> (ErrorCode, Option<String>) {
    match outcome {
        Outcome::Failed(error) => (error.code, error.field),
        other => panic!("{other:?}"),
    }
}

fn with_tenant() -> Replica {
    let mut replica = Replica::new();
    let tenant = TenantRow { id: "t".into(), name: "t".into(), created_us: 0 };
    assert_eq!(run(&mut replica, MetaCommand::CreateTenant(tenant)), Outcome::Done);
    replica
}

#[test]
fn a_collection_keeps_its_shape_for_life() {
    let mut replica = with_tenant();
    assert_eq!(put(&mut replica, row("商品", 8)), Outcome::Done);
    let created = stored(&replica, "商品").unwrap();
    assert_eq!((created.partitions, created.deleted, created.former), (8, None, None));
    assert_eq!(created.incarnation, replica.log_index);
    assert!(created.created_us > 0);
    assert_eq!(put(&mut replica, row("商品", 8)), Outcome::Done, "the same once more");
    assert_eq!(stored(&replica, "商品").unwrap(), created);
    assert_eq!(failed(put(&mut replica, row("商品", 9))), (ErrorCode::Conflict, Some("partitions".into())));
    let other = CollectionRow { model: None, ..row("商品", 8) };
    assert_eq!(failed(put(&mut replica, other)), (ErrorCode::Conflict, Some("embedding_model".into())));
    let foreign = CollectionRow { tenant: "nobody".into(), ..row("x", 1) };
    assert_eq!(failed(put(&mut replica, foreign)).0, ErrorCode::NotFound);
    assert_eq!(stored(&replica, "商品").unwrap(), created);
}

#[test]
fn a_name_can_be_used_again_with_another_shape() {
    let mut replica = with_tenant();
    assert_eq!(failed(delete(&mut replica, "a")).0, ErrorCode::NotFound);
    put(&mut replica, row("a", 2));
    assert_eq!(delete(&mut replica, "a"), Outcome::Done);
    let deleted = stored(&replica, "a").unwrap();
    assert_eq!(deleted.deleted.unwrap().key_hash, 77);
    assert_eq!(delete(&mut replica, "a"), Outcome::Done, "once more is the same");
    assert_eq!(stored(&replica, "a").unwrap(), deleted);
    assert_eq!(put(&mut replica, row("a", 5)), Outcome::Done);
    let again = stored(&replica, "a").unwrap();
    assert_eq!((again.partitions, again.deleted), (5, None));
    assert!(again.created_us > deleted.created_us && again.incarnation > deleted.incarnation);
    let former = again.former.unwrap();
    assert_eq!((former.incarnation, former.partitions, former.key_hash), (deleted.incarnation, 2, 77));
    // A deletion that was meant for the one before ends none of this.
    assert_eq!(failed(delete_one(&mut replica, "a", deleted.incarnation)).0, ErrorCode::Conflict);
    assert_eq!(stored(&replica, "a").unwrap(), again);
}

#[test]
fn the_request_that_ended_the_one_before_is_remembered_for_a_day() {
    let mut replica = with_tenant();
    for (waits_us, is_known) in [(IDEMPOTENCY_KEEP_US - 1_000_000, true), (IDEMPOTENCY_KEEP_US, false)] {
        put(&mut replica, row("a", 2));
        delete(&mut replica, "a");
        replica.clock_us += waits_us;
        put(&mut replica, row("a", 2));
        assert_eq!(stored(&replica, "a").unwrap().former.is_some(), is_known);
    }
}

#[test]
fn a_closed_partition_takes_nothing_but_its_erasure() {
    let mut replica = Replica::new();
    let of = |name: &str, write, identity| {
        let space = SpaceKey::incarnation("t", name, 7, 1).unwrap();
        Command::Space(Box::new(SpaceCommand { space, idempotency: identity, write }))
    };
    let close = |id: &str| Write::Erase(EraseStep::Close { id: id.into() });
    for name in ["a", "b"] {
        replica.run(&of(name, add(vec![memory("x", "x")]), Some(key(1, 1))));
    }
    assert!(matches!(replica.run(&of("a", close("e"), Some(key(2, 2)))), Outcome::Items { .. }));
    let refused = Some("collection".to_owned());
    let late = |n| of("a", add(vec![memory("late", "late")]), Some(key(n, 1)));
    assert_eq!(
        failed(replica.run(&late(3))),
        (ErrorCode::Unavailable, refused.clone()),
        "as it is taken out"
    );
    replica.run(&of("a", Write::Erase(EraseStep::Drop { id: "e".into(), limit: 96 }), None));
    replica.clock_us += TOMBSTONE_KEEP_US;
    for _ in 0..9 {
        replica.run(&Command::Sweep { limit: 16 });
    }
    let all = Write::Erase(EraseStep::Begin { id: "all".into(), selection: Selection::All });
    for write in [add(vec![memory("late", "late")]), super::delete("x"), all] {
        let outcome = replica.run(&of("a", write, None));
        assert_eq!(failed(outcome), (ErrorCode::Unavailable, refused.clone()), "for good");
    }
    // A deletion that was interrupted is repeated, with the same key or another one.
    assert!(matches!(replica.run(&of("a", close("again"), None)), Outcome::Items { .. }));
    // Neither its neighbour nor the next collection of its name has to do with it.
    assert!(matches!(replica.run(&of("b", add(vec![memory("y", "y")]), None)), Outcome::Items { .. }));
    let space = SpaceKey::incarnation("t", "a", 8, 1).unwrap();
    let write = add(vec![memory("y", "y")]);
    let next = Command::Space(Box::new(SpaceCommand { space, idempotency: None, write }));
    assert!(matches!(replica.run(&next), Outcome::Items { .. }));
}

#[test]
fn their_number_is_bounded() {
    let mut replica = with_tenant();
    for n in 0..COLLECTIONS_MAX {
        assert_eq!(put(&mut replica, row(&format!("c{n}"), 1)), Outcome::Done);
    }
    assert_eq!(failed(put(&mut replica, row("more", 1))).0, ErrorCode::QuotaExceeded);
    // One whose name is a prefix of this tenant's has its own.
    let tenant = TenantRow { id: "t2".into(), name: "t2".into(), created_us: 0 };
    run(&mut replica, MetaCommand::CreateTenant(tenant));
    assert_eq!(put(&mut replica, CollectionRow { tenant: "t2".into(), ..row("a", 1) }), Outcome::Done);
    delete(&mut replica, "c7");
    delete(&mut replica, "c3");
    assert_eq!(failed(put(&mut replica, row("more", 1))).0, ErrorCode::QuotaExceeded, "too young to forget");
    replica.clock_us += COLLECTION_KEEP_US;
    assert_eq!(put(&mut replica, row("more", 1)), Outcome::Done);
    assert!(stored(&replica, "c7").is_none(), "deleted first");
    assert!(stored(&replica, "c3").is_some() && stored(&replica, "more").is_some());
}

fn settings(replica: &Replica) -> Option<CollectionSettings> {
    let value = replica.state.get(&meta::collection_settings("t", "商品")).unwrap()?;
    Some(CollectionSettings::decode(&value).unwrap())
}

#[test]
fn what_may_change_changes_and_ends_with_the_collection() {
    let mut replica = with_tenant();
    let set = |incarnation, index, retention_s| {
        let (tenant, name) = ("t".into(), "商品".into());
        MetaCommand::SetCollection(CollectionChange {
            tenant,
            name,
            incarnation,
            index: Some(index),
            retention_s: Some(retention_s),
        })
    };
    assert_eq!(failed(run(&mut replica, set(1, IndexKind::Ivf, None))).0, ErrorCode::NotFound);
    put(&mut replica, row("商品", 2));
    let incarnation = stored(&replica, "商品").unwrap().incarnation;
    assert_eq!(settings(&replica), None);
    assert_eq!(run(&mut replica, set(incarnation, IndexKind::Ivf, Some(7))), Outcome::Done);
    let first = settings(&replica).unwrap();
    assert_eq!((first.index, first.retention_s, first.version), (IndexKind::Ivf, Some(7), replica.log_index));
    assert_eq!(run(&mut replica, set(incarnation, IndexKind::Ivf, Some(7))), Outcome::Done);
    assert_eq!(settings(&replica).unwrap(), first, "the same once more");
    assert_eq!(run(&mut replica, set(incarnation, IndexKind::Exact, None)), Outcome::Done);
    assert!(settings(&replica).unwrap().version > first.version);
    assert_eq!(failed(run(&mut replica, set(incarnation + 1, IndexKind::Auto, None))).0, ErrorCode::Conflict);
    // Two changes of one moment: each leaves what the other one says.
    for (index, retention_s) in [(Some(IndexKind::Hnsw), None), (None, Some(Some(5)))] {
        let (tenant, name) = ("t".into(), "商品".into());
        let change = CollectionChange { tenant, name, incarnation, index, retention_s };
        assert_eq!(run(&mut replica, MetaCommand::SetCollection(change)), Outcome::Done);
    }
    let both = settings(&replica).unwrap();
    assert_eq!((both.index, both.retention_s), (IndexKind::Hnsw, Some(5)));
    delete(&mut replica, "商品");
    assert_eq!(settings(&replica), None);
    assert_eq!(failed(run(&mut replica, set(incarnation, IndexKind::Auto, None))).0, ErrorCode::NotFound);
}

#[test]
fn settings_of_collections_are_checked() {
    for kind in IndexKind::ALL {
        assert_eq!(IndexKind::from_wire(kind.as_str()), Some(kind));
    }
    assert_eq!(IndexKind::from_wire("HNSW"), None);
    let of = |retention_s| {
        let retention_s = Some(retention_s);
        let settings =
            CollectionChange { tenant: "t".into(), name: "n".into(), retention_s, ..Default::default() };
        settings.check().err().and_then(|error| error.field)
    };
    assert_eq!((of(None), of(Some(1)), of(Some(crate::limits::RETENTION_S_MAX))), (None, None, None));
    for bad in [0, crate::limits::RETENTION_S_MAX + 1, u64::MAX] {
        assert_eq!(of(Some(bad)).as_deref(), Some("retention.ttl_s"));
    }
}
