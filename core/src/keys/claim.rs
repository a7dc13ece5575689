//! Key: `… . 0x51 . period u32 BE . hash of an id, u128 BE`. Value: the format byte, then the partition, u8. In which
//! partition of its collection a new memory of this id is stored: written to the partition that the id hashes to before
//! the memory is, so that two writes of one moment come to one partition, whatever else decides where they go.
//!
//! A claim holds for [`CLAIM_KEEP_US`] at least and twice as long at most. Those of one period of that length go
//! together, by one `due` row of the space.

use super::due::{Due, DueKind};
use super::{Family, row};
use crate::codec::Format;
use crate::limits::CLAIM_KEEP_US;
use crate::space::SpaceKey;
use xxhash_rust::xxh3::xxh3_128;

/// The period of a time. A clock before 1970 is in the first one.
pub fn period(at_us: i64) -> u32 {
    u32::try_from((at_us / CLAIM_KEEP_US).max(0)).unwrap_or(u32::MAX)
}

/// The key of a claim.
pub fn key(space: &SpaceKey, period: u32, id: &str) -> Vec<u8> {
    let mut key = prefix(space, period);
    key.extend_from_slice(&xxh3_128(id.as_bytes()).to_be_bytes());
    key
}

/// The prefix of the claims of a period.
pub fn prefix(space: &SpaceKey, period: u32) -> Vec<u8> {
    row(space, Family::Claim, &period.to_be_bytes())
}

/// The value of a claim.
pub fn value(partition: u8) -> Vec<u8> {
    vec![Format::V1 as u8, partition]
}

/// Reads [`value`]; `None` if it is damaged.
pub fn partition(value: &[u8]) -> Option<u8> {
    match value {
        [format, partition] if *format == Format::V1 as u8 => Some(*partition),
        _ => None,
    }
}

/// When the claims of a period go.
pub fn due(space: &SpaceKey, period: u32) -> Due {
    let at_us = (i64::from(period) + 2).saturating_mul(CLAIM_KEEP_US);
    Due { at_us, space: space.clone(), kind: DueKind::Claims, id: String::new() }
}

/// The period whose claims are due at a time that [`due`] gave.
pub fn period_due(at_us: i64) -> u32 {
    period(at_us.saturating_sub(2 * CLAIM_KEEP_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_and_values_read_back() {
        let space = SpaceKey::shared("t", "商品", 3).expect("valid");
        for at_us in [i64::MIN, -1, 0, CLAIM_KEEP_US - 1, CLAIM_KEEP_US, 1_800_000_000_000_000] {
            let period = period(at_us);
            let due = due(&space, period);
            assert_eq!(period_due(due.at_us), period, "{at_us}");
            let held_us = due.at_us - at_us.max(0);
            assert!((CLAIM_KEEP_US..=2 * CLAIM_KEEP_US).contains(&held_us), "{at_us}: {held_us}");
        }
        assert_eq!(partition(&value(63)), Some(63));
        for damaged in [&[][..], &[1], &[9, 1], &[1, 1, 1]] {
            assert_eq!(partition(damaged), None);
        }
        assert!(key(&space, 7, "一").starts_with(&prefix(&space, 7)));
        assert_ne!(key(&space, 7, "a"), key(&space, 7, "b"));
    }
}
