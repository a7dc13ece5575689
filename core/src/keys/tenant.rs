//! Key: `0xFFFD . "tenant" \0 . tenant id`. Value: [`crate::tenant::TenantErasureRow`]. Says in each group that a
//! tenant was erased, or is being; it stays. In the meta group it is also what the id is known by.
//!
//! Those that are not done are found by a second row: `0xFFFD . "going" \0 . tenant id`. Value: the format byte. One
//! short range, however many tenants were erased before.

use super::due::Due;
use super::work::{self, Work, WorkKind};
use super::{
    DUE_ROWS, META_ROWS, SHARD_ROWS, UPKEEP_ROWS, WORK_ROWS, erasure, meta, prefixed, slot_prefix, space_of,
};
use crate::codec::{CodecError, Format};
use crate::space::{Slot, SpaceKey};

const ERASED: &[u8] = b"tenant\0";
const GOING: &[u8] = b"going\0";

/// The key of the erasure of a tenant.
pub fn key(tenant: &str) -> Vec<u8> {
    let mut key = prefixed(SHARD_ROWS, ERASED);
    key.extend_from_slice(tenant.as_bytes());
    key
}

/// The prefix of the rows of all erasures of tenants that are not done.
pub fn going_prefix() -> Vec<u8> {
    prefixed(SHARD_ROWS, GOING)
}

/// The key of the row that says that the erasure of a tenant is not done.
pub fn going_key(tenant: &str) -> Vec<u8> {
    let mut key = going_prefix();
    key.extend_from_slice(tenant.as_bytes());
    key
}

/// Reads [`going_key`]; `None` if it is damaged.
pub fn parse_going(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(going_prefix().as_slice())?).ok()
}

/// The value of every row below [`going_prefix`].
pub fn going_value() -> Vec<u8> {
    vec![Format::V1 as u8]
}

/// The prefix of all rows of the spaces of a tenant in one slot. Ids hold no `\0`, so no tenant's is another one's.
pub fn in_slot(slot: Slot, tenant: &str) -> Vec<u8> {
    let mut key = slot_prefix(slot).to_vec();
    key.extend_from_slice(tenant.as_bytes());
    key.push(0);
    key
}

/// The ranges outside of spaces in which rows may name a tenant: what is due, what waits for jobs, erasures that are
/// not done, and the cluster's own data.
pub fn outside() -> [Vec<u8>; 5] {
    [
        super::due::prefix(),
        work::prefix(WorkKind::Session),
        work::prefix(WorkKind::Upkeep),
        erasure::open_prefix(),
        META_ROWS.to_be_bytes().to_vec(),
    ]
}

/// Whether a row of the ranges of [`outside`] is a tenant's.
///
/// # Errors
/// If its value would say so and cannot be read.
pub fn is_named(key: &[u8], value: &[u8], tenant: &str) -> Result<bool, CodecError> {
    let is_its = |space: Option<SpaceKey>| space.is_some_and(|space| space.tenant() == tenant);
    match key.first_chunk::<2>().map(|prefix| u16::from_be_bytes(*prefix)) {
        Some(DUE_ROWS) => Ok(is_its(Due::parse(key).map(|due| due.space))),
        Some(WORK_ROWS | UPKEEP_ROWS) => Ok(is_its(Work::parse(key).map(|work| work.space))),
        Some(SHARD_ROWS) => Ok(is_its(erasure::parse_open(key).map(|(space, _)| space))),
        Some(META_ROWS) => meta::is_of(key, value, tenant),
        _ => Ok(false),
    }
}

/// Whether a row of a space is a tenant's.
pub fn is_in_space_of(key: &[u8], tenant: &str) -> bool {
    space_of(key).is_some_and(|space| space.tenant() == tenant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{ApiKeyRow, Rights};
    use crate::codec::Stored;
    use crate::keys::due::DueKind;
    use crate::keys::work::WorkKind;
    use crate::keys::{counters, memory};

    /// Each the beginning of the next, or the same to the eye.
    const TENANTS: [&str; 6] = ["a", "ab", "a\u{301}", "\u{e1}", "租", "租户"];

    fn rows_of(tenant: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let space = SpaceKey::user(tenant, "安\u{1f642}").expect("valid");
        let due = |kind| Due { at_us: -5, space: space.clone(), kind, id: "x".into() };
        let work = |kind| Work { at_us: 7, space: space.clone(), kind, id: "s".into() };
        let api_key = ApiKeyRow {
            id: format!("key of {tenant}"),
            secret_sha256: [0; 32],
            tenant: tenant.into(),
            user: None,
            rights: Rights::READ,
            name: "a".into(),
            created_us: 1,
            expires_us: None,
            revoked_us: None,
            created_by: None,
        };
        let keys = [
            due(DueKind::Expiry).key(),
            due(DueKind::Derived).key(),
            work(WorkKind::Session).key(),
            work(WorkKind::Upkeep).key(),
            erasure::open_key(&space, "e"),
            meta::tenant(tenant),
            meta::fact_rules(tenant),
            meta::scoring(tenant),
            meta::collection(tenant, "a"),
            meta::collection_settings(tenant, "a"),
        ];
        let mut rows: Vec<_> = keys.into_iter().map(|key| (key, vec![1])).collect();
        rows.push((meta::api_key(&api_key.id), api_key.encode().expect("encodes")));
        rows
    }

    #[test]
    fn no_row_is_taken_for_another_tenants() {
        for owner in TENANTS {
            for (key, value) in rows_of(owner) {
                assert!(outside().iter().any(|range| key.starts_with(range)), "{key:?}");
                for tenant in TENANTS {
                    let is_named = is_named(&key, &value, tenant).expect("readable");
                    assert_eq!(is_named, tenant == owner, "{owner} {tenant} {}", key.escape_ascii());
                }
            }
            let space = SpaceKey::user(owner, "u").expect("valid");
            for tenant in TENANTS {
                for key in [memory::key(&space, "m"), counters::key(&space)] {
                    assert_eq!(key.starts_with(&in_slot(space.slot(), tenant)), tenant == owner);
                    assert_eq!(is_in_space_of(&key, tenant), tenant == owner);
                }
            }
        }
        for key in [meta::cluster(), crate::keys::clock(), key("a"), going_key("a"), vec![], vec![0xff]] {
            assert_eq!(is_named(&key, &[1], "a"), Ok(false), "{key:?}");
        }
    }

    #[test]
    fn those_under_way_read_back() {
        for tenant in TENANTS {
            assert_eq!(parse_going(&going_key(tenant)), Some(tenant));
        }
        assert_eq!(parse_going(&key("a")), None);
    }
}
