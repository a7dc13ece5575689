//! What leaders do for tenants that are erased: in each shard the mark, the rows of spaces slot by slot, and then what
//! names the tenant outside of them; in the meta group, where it began, the tenant's own rows. The meta group is done
//! when all shards are.

use super::leader::{Failed, Leader, Reports, TIMEOUT};
use crate::raft::GroupId;
use crate::service::Replica;
use crate::shard::ShardState;
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use holdfast_core::erasure::{ERASE_ROWS_MAX, Phase};
use holdfast_core::keys::tenant as keys;
use holdfast_core::space::{SLOTS, Shard, Slot};
use holdfast_core::state::Reader;
use holdfast_core::tenant::{TENANT_ROWS_MAX, TENANTS_GOING_MAX, TenantErasureRow, TenantStep};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Steps that the tenants of a group take in one turn, all of them together.
const STEPS_MAX: usize = 256;
/// Rows outside of spaces that one look reads at once, and at all.
const PAGE: usize = 1_024;
const LOOKED_AT_MAX: usize = 64 * PAGE;

/// Where the looks at one tenant in one group stand. What is forgotten is looked for anew: the rows decide.
#[derive(Debug, Clone, Default)]
struct Cursor {
    /// No slot holds anything.
    spaces_gone: bool,
    /// Which range of [`keys::outside`] comes next, and behind which of its rows.
    range: usize,
    after: Option<Vec<u8>>,
}

/// Where all looks stand.
#[derive(Default)]
pub(super) struct Looks(BTreeMap<(GroupId, String), Cursor>);

/// The tenants that are being erased, as far as a replica knows, by their ids.
pub(crate) fn going(state: &ShardState) -> Result<BTreeMap<String, TenantErasureRow>, Failed> {
    let reader = state.reader();
    let mut going = BTreeMap::new();
    for (key, _) in reader.scan(&keys::going_prefix(), None, TENANTS_GOING_MAX)? {
        let Some(tenant) = keys::parse_going(&key) else {
            tracing::error!(key = %key.escape_ascii(), "the row of a tenant that is erased cannot be read");
            continue;
        };
        if let Some(row) = read(&reader, tenant)? {
            going.insert(tenant.to_owned(), row);
        }
    }
    Ok(going)
}

fn read(reader: &dyn Reader, tenant: &str) -> Result<Option<TenantErasureRow>, Failed> {
    let value = reader.get(&keys::key(tenant))?;
    Ok(value.map(|value| TenantErasureRow::decode(&value)).transpose()?)
}

impl Looks {
    /// Lets the tenants of one group go on, if this node leads it.
    pub(super) async fn look_at(
        &mut self,
        leader: &Leader,
        replicas: &BTreeMap<GroupId, Replica>,
        id: GroupId,
        reports: &mut Reports,
    ) -> Result<(), Failed> {
        let (Some(replica), Some(meta)) = (replicas.get(&id), replicas.get(&meta_group())) else {
            return Ok(());
        };
        if !replica.group.status().is_leader {
            self.0.retain(|(group, _), _| *group != id);
            return Ok(());
        }
        if id != meta_group() {
            mark(replica, meta).await?;
        }
        let tenants = going(&replica.state)?;
        self.0.retain(|(group, tenant), _| *group != id || tenants.contains_key(tenant));
        let removing = tenants.values().filter(|row| row.phase == Phase::Removing).count();
        let share = (STEPS_MAX / removing.max(1)).max(1);
        // One that fails holds up no other.
        let mut ended = Ok(());
        for (tenant, row) in tenants {
            if leader.stops() {
                break;
            }
            let one = match row.phase {
                Phase::Removing => {
                    let cursor = self.0.entry((id, tenant.clone())).or_default();
                    remove(leader, replica, &tenant, cursor, share).await
                }
                Phase::Purging => {
                    let rest = id == meta_group() && !are_done(replicas, &tenant)?;
                    confirm(leader, replica, &tenant, &row, rest, reports).await
                }
                Phase::Done => Ok(()),
            };
            ended = ended.and(one);
        }
        ended
    }
}

/// The group where erasures of tenants begin.
fn meta_group() -> GroupId {
    GroupId::from(Shard::META.0)
}

/// Marks the tenants in a shard that the meta group names.
async fn mark(replica: &Replica, meta: &Replica) -> Result<(), Failed> {
    for (tenant, row) in going(&meta.state)? {
        if read(&replica.state.reader(), &tenant)?.is_none() {
            propose(replica, TenantStep::Begin { tenant, id: row.id }).await?;
        }
    }
    Ok(())
}

/// Whether all shards are done with a tenant, as far as this node knows.
fn are_done(replicas: &BTreeMap<GroupId, Replica>, tenant: &str) -> Result<bool, Failed> {
    for (_, replica) in replicas.iter().filter(|(id, _)| **id != meta_group()) {
        let row = read(&replica.state.reader(), tenant)?;
        if row.is_none_or(|row| row.phase != Phase::Done) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes rows out, in at most so many steps.
async fn remove(
    leader: &Leader,
    replica: &Replica,
    tenant: &str,
    cursor: &mut Cursor,
    most: usize,
) -> Result<(), Failed> {
    for _ in 0..most {
        let Some(row) = read(&replica.state.reader(), tenant)? else { return Ok(()) };
        if row.phase != Phase::Removing || leader.stops() {
            return Ok(());
        }
        let (state, named, slot) = (replica.state.clone(), tenant.to_owned(), row.slot);
        let mut looking = cursor.clone();
        let look = move || -> Result<_, Failed> {
            let step = next_step(&state.reader(), &named, slot, &mut looking)?;
            Ok((step, looking))
        };
        let (step, looked) = tokio::task::spawn_blocking(look).await??;
        let Some(step) = step else {
            // Much was looked at, and nothing found: it goes on in the next turn.
            *cursor = looked;
            return Ok(());
        };
        propose(replica, step).await?;
        // What was not taken is looked for again.
        *cursor = looked;
    }
    Ok(())
}

/// What is to be taken out next; `None` where this look ends without having found anything.
fn next_step(
    reader: &dyn Reader,
    tenant: &str,
    slot: u16,
    cursor: &mut Cursor,
) -> Result<Option<TenantStep>, Failed> {
    if !cursor.spaces_gone {
        for slot in slot..SLOTS {
            if !reader.scan(&keys::in_slot(Slot(slot), tenant), None, 1)?.is_empty() {
                let (tenant, limit) = (tenant.to_owned(), ERASE_ROWS_MAX);
                return Ok(Some(TenantStep::Drop { tenant, slot, limit }));
            }
        }
        cursor.spaces_gone = true;
    }
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let ranges = keys::outside();
    while let Some(range) = ranges.get(cursor.range) {
        let rows = reader.scan(range, cursor.after.as_deref(), PAGE)?;
        let is_last = rows.len() < PAGE;
        looked_at += rows.len();
        for (key, value) in rows {
            if keys::is_named(&key, &value, tenant)? {
                found.push(key.clone());
            }
            cursor.after = Some(key);
            if found.len() == TENANT_ROWS_MAX {
                let tenant = tenant.to_owned();
                return Ok(Some(TenantStep::Rows { tenant, keys: found, ended: false }));
            }
        }
        if is_last {
            (cursor.range, cursor.after) = (cursor.range + 1, None);
        } else if looked_at >= LOOKED_AT_MAX {
            let tenant = tenant.to_owned();
            let has_found = !found.is_empty();
            return Ok(has_found.then_some(TenantStep::Rows { tenant, keys: found, ended: false }));
        }
    }
    Ok(Some(TenantStep::Rows { tenant: tenant.to_owned(), keys: found, ended: true }))
}

/// Writes down what replicas have let go of; `rest` says that something else is still to be waited for.
async fn confirm(
    leader: &Leader,
    replica: &Replica,
    tenant: &str,
    row: &TenantErasureRow,
    rest: bool,
    reports: &mut Reports,
) -> Result<(), Failed> {
    let Some(removed) = row.removed_index else { return Ok(()) };
    let is_confirmed = |node, place| row.is_confirmed(node, place);
    let (confirmations, all) = leader.confirmations(replica, removed, is_confirmed, reports).await;
    let done = all && !rest;
    if !done && confirmations.is_empty() {
        return Ok(());
    }
    propose(replica, TenantStep::Confirm { tenant: tenant.to_owned(), confirmations, done }).await
}

async fn propose(replica: &Replica, step: TenantStep) -> Result<(), Failed> {
    let bytes = Command::Tenant(Box::new(step)).encode()?;
    replica.propose(bytes.into(), Instant::now() + TIMEOUT).await?;
    Ok(())
}

/// How many spaces of a tenant a replica still has rows of, each partition by itself, up to `most`; what stands in
/// the slots before `slot` is not counted.
pub(crate) fn spaces_left(
    reader: &dyn Reader,
    tenant: &str,
    slot: u16,
    most: u32,
) -> Result<u32, holdfast_core::state::StateError> {
    let mut found = 0;
    for slot in slot..SLOTS {
        let prefix = keys::in_slot(Slot(slot), tenant);
        let mut after: Option<Vec<u8>> = None;
        while let Some((key, _)) = reader.scan(&prefix, after.as_deref(), 1)?.first() {
            found += 1;
            if found == most {
                return Ok(found);
            }
            let space = holdfast_core::keys::space_of(key).ok_or_else(|| {
                holdfast_core::state::StateError(format!("a key belongs to no space: {}", key.escape_ascii()))
            })?;
            // Behind every family of it.
            after = Some([holdfast_core::keys::space_prefix(&space), vec![u8::MAX]].concat());
        }
    }
    Ok(found)
}

/// The tenants of which a replica has taken the last row out, and of which it may hold copies: since which index.
pub(super) fn removed(state: &ShardState) -> Result<Vec<(String, u64, i64)>, Failed> {
    let tenants = going(state)?.into_iter();
    let purging = tenants.filter(|(_, row)| row.phase == Phase::Purging);
    Ok(purging.filter_map(|(tenant, row)| Some((tenant, row.removed_index?, row.removed_us?))).collect())
}

/// Those of them that are named.
pub(super) fn named(removed: &[(String, u64, i64)], after: u64) -> BTreeSet<String> {
    let later = removed.iter().filter(|(_, index, _)| *index > after);
    later.map(|(tenant, _, _)| tenant.clone()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::keys::due::{Due, DueKind};
    use holdfast_core::keys::{memory, meta};
    use holdfast_core::space::SpaceKey;
    use holdfast_core::state::{BTreeState, State};

    fn put(state: &mut BTreeState, key: Vec<u8>) {
        state.put(key, vec![1]).unwrap();
    }

    fn due(tenant: &str, n: i64) -> Due {
        let space = SpaceKey::user(tenant, "u").unwrap();
        Due { at_us: n, space, kind: DueKind::Expiry, id: format!("m{n}") }
    }

    /// Does what the steps say, as apply would; how many those were.
    fn work_off(state: &mut BTreeState, tenant: &str, restart: bool) -> usize {
        let (mut cursor, mut slot, mut steps) = (Cursor::default(), 0, 0);
        loop {
            let step = next_step(&*state, tenant, slot, &mut cursor).unwrap();
            steps += 1;
            assert!(steps < 500, "it ends");
            match step {
                None => continue,
                Some(TenantStep::Drop { slot: at, limit, .. }) => {
                    assert!(at >= slot);
                    slot = at;
                    let rows = state.scan(&keys::in_slot(Slot(at), tenant), None, limit.into()).unwrap();
                    rows.iter().for_each(|(key, _)| state.delete(key).unwrap());
                }
                Some(TenantStep::Rows { keys, ended, .. }) => {
                    assert!(keys.len() <= TENANT_ROWS_MAX);
                    keys.iter().for_each(|key| state.delete(key).unwrap());
                    if ended {
                        return steps;
                    }
                }
                other => panic!("{other:?}"),
            }
            if restart {
                // Another leader, who knows nothing but the rows.
                cursor = Cursor::default();
            }
        }
    }

    #[test]
    fn all_of_a_tenant_is_found_whoever_leads_and_nothing_of_its_neighbours() {
        const NAMES: [&str; 5] = ["a", "ab", "a\u{301}", "租", "租户"];
        for (tenant, restart) in NAMES.into_iter().flat_map(|tenant| [(tenant, false), (tenant, true)]) {
            let mut state = BTreeState::new();
            for name in NAMES {
                for n in 0..40 {
                    let space = SpaceKey::user(name, &format!("用户{n}")).unwrap();
                    (0..5).for_each(|m| put(&mut state, memory::key(&space, &format!("m{m}"))));
                }
                let shared = SpaceKey::incarnation(name, "docs", 7, 63).unwrap();
                (0..200).for_each(|m| put(&mut state, memory::key(&shared, &format!("m{m}"))));
                (0..100).for_each(|n| put(&mut state, due(name, n).key()));
                put(&mut state, meta::tenant(name));
                put(&mut state, meta::collection(name, "docs"));
            }
            put(&mut state, holdfast_core::keys::clock());
            let all = state.rows().count();
            assert_eq!(spaces_left(&state, tenant, 0, 1_000).unwrap(), 41);
            assert_eq!(spaces_left(&state, tenant, 0, 7).unwrap(), 7);
            work_off(&mut state, tenant, restart);
            assert_eq!(all - state.rows().count(), 40 * 5 + 200 + 100 + 2, "{tenant}");
            assert_eq!(spaces_left(&state, tenant, 0, 1_000).unwrap(), 0);
            let next = NAMES.into_iter().find(|name| *name != tenant).unwrap();
            assert_eq!(spaces_left(&state, next, 0, 1_000).unwrap(), 41);
        }
    }

    #[test]
    fn a_look_is_bounded_and_the_next_one_goes_on() {
        let mut state = BTreeState::new();
        let many = i64::try_from(2 * LOOKED_AT_MAX + 10).unwrap();
        (0..many).for_each(|n| put(&mut state, due("other", n).key()));
        put(&mut state, due("t", many).key());
        let mut cursor = Cursor::default();
        assert_eq!(next_step(&state, "t", 0, &mut cursor).unwrap(), None);
        assert_eq!(next_step(&state, "t", 0, &mut cursor).unwrap(), None);
        let last = next_step(&state, "t", 0, &mut cursor).unwrap();
        let keys = vec![due("t", many).key()];
        assert_eq!(last, Some(TenantStep::Rows { tenant: "t".into(), keys, ended: true }));
    }
}
