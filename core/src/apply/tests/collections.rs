//! The rows of shared collections.

use super::*;
use crate::access::TenantRow;
use crate::collection::CollectionRow;
use crate::keys::meta;
use crate::limits::{COLLECTION_KEEP_US, COLLECTIONS_MAX};

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
