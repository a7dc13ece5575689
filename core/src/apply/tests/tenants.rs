//! Erasures of tenants. The one replica stands for a shard and for the meta group at once.

use super::erase::derived;
use super::sessions::{turn, turns};
use super::*;
use crate::access::{ApiKeyRow, Rights, TenantRow};
use crate::collection::CollectionRow;
use crate::erasure::{Confirmation, EraseStep, Phase, Place, Selection};
use crate::facts::own::FactRulesRow;
use crate::keys::tenant as rows;
use crate::space::{SLOTS, Slot};
use crate::tenant::{TENANT_ROWS_MAX, TENANTS_GOING_MAX, TenantErasureRow, TenantStep};
use crate::tiers::block::{BlockChange, BlockWrite};
use crate::tiers::task::{TaskChange, TaskWrite};

/// Each the beginning of the next, or the same to the eye.
const TENANTS: [&str; 6] = ["a", "ab", "a\u{301}", "\u{e1}", "租", "租户"];

fn meta(replica: &mut Replica, command: MetaCommand) -> Outcome {
    replica.run(&Command::Meta(Box::new(command)))
}

fn step(replica: &mut Replica, step: TenantStep) -> Outcome {
    assert_eq!(step.check(), Ok(()));
    replica.run(&Command::Tenant(Box::new(step)))
}

fn tenant(id: &str) -> TenantRow {
    TenantRow { id: id.into(), name: format!("name of {id}"), created_us: 0 }
}

fn api_key(tenant: &str, rights: Rights) -> ApiKeyRow {
    ApiKeyRow {
        id: format!("key-{tenant}-{}", rights.0),
        secret_sha256: [7; 32],
        tenant: tenant.into(),
        user: None,
        rights,
        name: format!("key of {tenant}"),
        created_us: 0,
        expires_us: None,
        revoked_us: None,
        created_by: None,
    }
}

fn erase(replica: &mut Replica, id: &str) -> Outcome {
    meta(replica, MetaCommand::EraseTenant { tenant: id.into(), id: format!("erasure-{id}") })
}

fn stored(replica: &Replica, tenant: &str) -> Option<TenantErasureRow> {
    let value = replica.state.get(&rows::key(tenant)).unwrap()?;
    Some(TenantErasureRow::decode(&value).unwrap())
}

fn in_space(space: &SpaceKey, write: Write, n: u128) -> Command {
    let (space, idempotency) = (space.clone(), Some(key(n, 1)));
    Command::Space(Box::new(SpaceCommand { space, idempotency, write }))
}

/// Something of everything that a tenant may have.
fn fill(replica: &mut Replica, id: &str) {
    meta(replica, MetaCommand::CreateTenant(tenant(id)));
    meta(replica, MetaCommand::CreateKey(api_key(id, Rights::READ)));
    let rules = FactRulesRow { tenant: id.into(), ..FactRulesRow::default() };
    meta(replica, MetaCommand::SetFactRules { rules, if_version: None });
    let row =
        CollectionRow { tenant: id.into(), name: "文档".into(), partitions: 2, ..CollectionRow::default() };
    meta(replica, MetaCommand::PutCollection(row));
    let spaces = [
        SpaceKey::user(id, "ann").unwrap(),
        SpaceKey::user(id, "用户\u{1f642}").unwrap(),
        SpaceKey::incarnation(id, "文档", 7, 0).unwrap(),
        SpaceKey::incarnation(id, "文档", 7, 1).unwrap(),
    ];
    for space in &spaces {
        let expiring = NewMemory {
            index: IndexRow { expires_us: Some(replica.clock_us + 1_000_000_000), ..memory("x", "x").index },
            ..memory("x", &format!("secret of {id}"))
        };
        replica.run(&in_space(space, add(vec![expiring, memory("old", "old")]), 1));
        replica.run(&in_space(
            space,
            add((1..=60).map(|n| derived(n, if n == 1 { &[] } else { &[1] })).collect()),
            2,
        ));
        replica.run(&in_space(space, update("x", &format!("changed secret of {id}"), 1), 3));
        replica.run(&in_space(space, delete("old"), 4));
        // Most of what was made from it is left to be done.
        replica.run(&in_space(space, delete(&super::erase::id(1)), 5));
        replica.run(&in_space(space, turns("会话", vec![turn("user", "hello"); 5]), 6));
        let change =
            TaskChange::Put { goal: None, session: None, agent: None, plan: None, ttl_s: Some(9_999) };
        let task = TaskWrite { id: "t".into(), if_version: None, change };
        replica.run(&in_space(space, Write::Task(Box::new(task)), 7));
        let change = BlockChange::Put {
            value: Some("b".into()),
            description: None,
            limit_chars: None,
            read_only: None,
        };
        let block = BlockWrite { label: "l".into(), if_version: None, by_admin: false, change };
        replica.run(&in_space(space, Write::Block(Box::new(block)), 8));
        let begin = EraseStep::Begin { id: "e".into(), selection: Selection::Session("none".into()) };
        replica.run(&in_space(space, Write::Erase(begin), 9));
        let end = EraseStep::Remove { id: "e".into(), memories: vec![], after: 0, ended: true };
        replica.run(&Command::Space(Box::new(SpaceCommand {
            space: space.clone(),
            idempotency: None,
            write: Write::Erase(end),
        })));
    }
}

/// The rows that name a tenant, by the bytes of its id between what may stand around it.
fn rows_of(replica: &Replica, tenant: &str) -> usize {
    let is_its = |key: &[u8], value: &[u8]| {
        rows::is_in_space_of(key, tenant) || rows::is_named(key, value, tenant).unwrap()
    };
    replica.state.rows().filter(|(key, value)| is_its(key, value)).count()
}

/// The next step, as a leader finds it.
fn next(replica: &Replica, tenant: &str) -> TenantStep {
    let slot = stored(replica, tenant).unwrap().slot;
    let holds =
        |slot: &u16| !replica.state.scan(&rows::in_slot(Slot(*slot), tenant), None, 1).unwrap().is_empty();
    let tenant = tenant.to_owned();
    if let Some(slot) = (slot..SLOTS).find(holds) {
        return TenantStep::Drop { tenant, slot, limit: 96 };
    }
    let all =
        rows::outside().into_iter().flat_map(|range| replica.state.scan(&range, None, usize::MAX).unwrap());
    let mut keys: Vec<Vec<u8>> =
        all.filter(|(key, value)| rows::is_named(key, value, &tenant).unwrap()).map(|(key, _)| key).collect();
    let ended = keys.len() <= TENANT_ROWS_MAX;
    keys.truncate(TENANT_ROWS_MAX);
    TenantStep::Rows { tenant, keys, ended }
}

fn work_off(replica: &mut Replica, tenant: &str) -> usize {
    let mut steps = 0;
    while stored(replica, tenant).unwrap().phase == Phase::Removing {
        let found = next(replica, tenant);
        let before = replica.state.rows().count();
        step(replica, found);
        assert!(before - replica.state.rows().count() <= 3 * 96, "a step is bounded");
        // Sweeps go on beside it, and bring nothing back.
        replica.run(&Command::Sweep { limit: 16 });
        steps += 1;
        assert!(steps < 200, "it ends");
    }
    steps
}

#[test]
fn nothing_of_a_tenant_is_left_and_its_neighbours_have_all_of_theirs() {
    let mut full = Replica::new();
    TENANTS.iter().for_each(|id| fill(&mut full, id));
    for id in TENANTS {
        let mut replica = Replica { state: full.state.clone(), hash: full.hash, events: vec![], ..full };
        let others: Vec<usize> = TENANTS.iter().map(|id| rows_of(&replica, id)).collect();
        assert_eq!(erase(&mut replica, id), Outcome::Done);
        let steps = work_off(&mut replica, id);
        assert!(steps > 5, "in many steps: {steps}");
        let row = stored(&replica, id).unwrap();
        assert_eq!((row.phase, row.spaces, row.slot), (Phase::Purging, 4, SLOTS), "{id}");
        assert!(row.erased.memories >= 4 && row.erased.versions >= 4 && row.removed_index.is_some());
        assert_eq!(rows_of(&replica, id), 0, "{id}");
        let secret = format!("secret of {id}");
        let exact = |(key, value): &(&[u8], &[u8])| {
            [key, value]
                .iter()
                .any(|bytes| bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
        };
        let longer = TENANTS.iter().any(|other| *other != id && other.starts_with(id));
        assert!(longer || !replica.state.rows().any(|row| exact(&row)), "{id}");
        for (other, before) in TENANTS.iter().zip(others) {
            let now = rows_of(&replica, other);
            // Sweeps have worked off what was left of a deletion.
            assert!(*other == id || now <= before && now > 50, "{id}: {other} {now} of {before}");
            let ann = SpaceKey::user(other, "ann").unwrap();
            let kept = replica.state.get(&keys::memory::key(&ann, "x")).unwrap();
            assert_eq!(kept.is_some(), *other != id);
        }
        // Every image hears of each memory that goes.
        let gone = replica
            .events
            .iter()
            .filter(|event| matches!(event, Event::Remove { space, .. } if space.tenant() == id));
        assert_eq!(gone.count() as u64, row.erased.memories, "{id}");
    }
}

#[test]
fn nothing_is_acknowledged_once_the_tenant_is_marked() {
    let mut replica = Replica::new();
    fill(&mut replica, "a");
    fill(&mut replica, "ab");
    let ann = SpaceKey::user("a", "ann").unwrap();
    let acknowledged = in_space(&ann, add(vec![memory("x2", "x2")]), 77);
    assert!(matches!(replica.run(&acknowledged), Outcome::Items { .. }));
    let marked = step(&mut replica, TenantStep::Begin { tenant: "a".into(), id: "e".into() });
    assert_eq!((marked, stored(&replica, "a").unwrap().begun_index), (Outcome::Done, replica.log_index));
    let all = EraseStep::Begin { id: "all".into(), selection: Selection::All };
    let late = [
        acknowledged,
        in_space(&ann, add(vec![memory("late", "late")]), 78),
        in_space(&SpaceKey::user("a", "a new one").unwrap(), add(vec![memory("late", "late")]), 79),
        in_space(&ann, turns("s", vec![turn("user", "late")]), 80),
        in_space(&ann, Write::Erase(all), 81),
        in_space(&ann, Write::Import(vec![]), 82),
    ];
    let before = replica.state.clone();
    for command in &late {
        match replica.run(command) {
            Outcome::Failed(error) => {
                assert_eq!((error.code, error.field.as_deref()), (ErrorCode::NotFound, Some("tenant")));
            }
            other => panic!("{other:?}"),
        }
    }
    let changed =
        replica.state.rows().filter(|(key, value)| before.get(key).unwrap().as_deref() != Some(*value));
    assert_eq!(changed.map(|(key, _)| key).collect::<Vec<_>>(), [keys::clock()], "but for the time");
    let rules = FactRulesRow { tenant: "a".into(), ..FactRulesRow::default() };
    for command in [
        MetaCommand::CreateKey(api_key("a", Rights::WRITE)),
        MetaCommand::SetFactRules { rules, if_version: None },
        MetaCommand::PutCollection(CollectionRow {
            tenant: "a".into(),
            name: "n".into(),
            partitions: 1,
            ..Default::default()
        }),
    ] {
        assert_eq!(failed(meta(&mut replica, command)), ErrorCode::NotFound);
    }
    work_off(&mut replica, "a");
    for command in &late {
        assert_eq!(failed(replica.run(command)), ErrorCode::NotFound, "nor afterwards, for good");
    }
    replica.clock_us += 100 * TOMBSTONE_KEEP_US;
    (0..50).for_each(|_| drop(replica.run(&Command::Sweep { limit: 16 })));
    assert_eq!(failed(replica.run(&late[1])), ErrorCode::NotFound, "however late");
    let of_other = in_space(&SpaceKey::user("ab", "ann").unwrap(), add(vec![memory("y", "y")]), 90);
    assert!(matches!(replica.run(&of_other), Outcome::Items { .. }));
}

#[test]
fn late_leaders_change_nothing() {
    let mut replica = Replica::new();
    fill(&mut replica, "a");
    let drop_in = |slot| TenantStep::Drop { tenant: "a".into(), slot, limit: 96 };
    let rows = |keys, ended| TenantStep::Rows { tenant: "a".into(), keys, ended };
    let said = |node, place| Confirmation { node, place, at_us: 0 };
    let confirm = |done| TenantStep::Confirm {
        tenant: "a".into(),
        confirmations: vec![said(1, Place::Log), said(1, Place::Log)],
        done,
    };
    let before = rows_of(&replica, "a");
    for early in [drop_in(0), rows(vec![], true), confirm(true)] {
        step(&mut replica, early);
    }
    assert_eq!((rows_of(&replica, "a"), stored(&replica, "a")), (before, None), "nobody has asked for it");

    erase(&mut replica, "a");
    let first = stored(&replica, "a").unwrap();
    erase(&mut replica, "a");
    step(&mut replica, TenantStep::Begin { tenant: "a".into(), id: "another".into() });
    meta(&mut replica, MetaCommand::EraseTenant { tenant: "a".into(), id: "another".into() });
    assert_eq!(stored(&replica, "a").unwrap(), first, "the same once more");
    step(&mut replica, confirm(true));
    assert_eq!(stored(&replica, "a").unwrap(), first, "rows are there still");
    // What is not the tenant's stays, whatever a step names.
    let foreign =
        vec![keys::meta::cluster(), keys::clock(), keys::meta::tenant("ab"), vec![], b"none".to_vec()];
    fill(&mut replica, "ab");
    let others = rows_of(&replica, "ab");
    step(&mut replica, rows(foreign, false));
    assert_eq!(rows_of(&replica, "ab"), others);
    let ann = SpaceKey::user("a", "ann").unwrap().slot().0;
    step(&mut replica, drop_in(SLOTS - 1));
    step(&mut replica, drop_in(ann));
    assert!(replica.state.get(&keys::counters::key(&SpaceKey::user("a", "ann").unwrap())).unwrap().is_some());

    let mut replica = Replica::new();
    fill(&mut replica, "a");
    erase(&mut replica, "a");
    work_off(&mut replica, "a");
    let purging = stored(&replica, "a").unwrap();
    for late in [drop_in(SLOTS - 1), rows(vec![], true)] {
        step(&mut replica, late);
        assert_eq!(stored(&replica, "a").unwrap(), purging);
    }
    step(&mut replica, confirm(false));
    step(&mut replica, confirm(true));
    let done = stored(&replica, "a").unwrap();
    assert_eq!((done.phase, done.confirmed.len()), (Phase::Done, 1));
    assert!(done.confirmed[0].at_us > 0 && done.done_us.is_some());
    assert!(replica.state.scan(&rows::going_prefix(), None, 9).unwrap().is_empty());
    step(&mut replica, confirm(true));
    assert_eq!(stored(&replica, "a").unwrap(), done);
}

#[test]
fn an_id_is_given_once() {
    let mut replica = Replica::new();
    assert_eq!(failed(erase(&mut replica, "nobody")), ErrorCode::NotFound);
    fill(&mut replica, "a");
    let again = || MetaCommand::CreateTenant(tenant("a"));
    assert_eq!(failed(meta(&mut replica, again())), ErrorCode::AlreadyExists);
    erase(&mut replica, "a");
    assert_eq!(failed(meta(&mut replica, again())), ErrorCode::Conflict, "while it goes");
    work_off(&mut replica, "a");
    step(&mut replica, TenantStep::Confirm { tenant: "a".into(), confirmations: vec![], done: true });
    replica.clock_us += 100 * TOMBSTONE_KEEP_US;
    assert_eq!(failed(meta(&mut replica, again())), ErrorCode::Conflict, "nor ever after");
    assert_eq!(erase(&mut replica, "a"), Outcome::Done, "the receipt is there still");
    assert_eq!(meta(&mut replica, MetaCommand::CreateTenant(tenant("a2"))), Outcome::Done);
}

#[test]
fn the_last_key_of_the_cluster_and_the_bound_hold_it_up() {
    let mut replica = Replica::new();
    for id in ["own", "other"] {
        fill(&mut replica, id);
        meta(&mut replica, MetaCommand::CreateKey(api_key(id, Rights::ALL)));
    }
    assert_eq!(erase(&mut replica, "other"), Outcome::Done);
    assert_eq!(failed(erase(&mut replica, "own")), ErrorCode::Conflict, "nobody could manage the cluster");
    assert!(stored(&replica, "own").is_none());

    // One that has no such key goes, be there none at all; but not more than so many at once.
    let mut replica = Replica::new();
    for n in 0..=TENANTS_GOING_MAX {
        meta(&mut replica, MetaCommand::CreateTenant(tenant(&format!("t{n}"))));
    }
    for n in 0..TENANTS_GOING_MAX {
        assert_eq!(erase(&mut replica, &format!("t{n}")), Outcome::Done);
    }
    let last = format!("t{TENANTS_GOING_MAX}");
    assert_eq!(failed(erase(&mut replica, &last)), ErrorCode::Unavailable);
    assert_eq!(erase(&mut replica, "t0"), Outcome::Done, "that it has begun is told");
    work_off(&mut replica, "t0");
    step(&mut replica, TenantStep::Confirm { tenant: "t0".into(), confirmations: vec![], done: true });
    assert_eq!(erase(&mut replica, &last), Outcome::Done);
}
