//! The names of erasures in collections.

use holdfast_core::collection::CollectionRow;
use holdfast_core::limits::COLLECTION_PARTITIONS_MAX;
use std::fmt;

/// An erasure of a collection: the key of its request, and the incarnation and partitions that it concerns,
/// so that its receipt can be read once another collection has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErasureId {
    pub(crate) key_hash: u128,
    pub(crate) incarnation: u64,
    pub(crate) partitions: u8,
}

impl ErasureId {
    pub(crate) fn of(row: &CollectionRow, key_hash: u128) -> Self {
        Self { key_hash, incarnation: row.incarnation, partitions: row.partitions }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (Some(hash), Some(incarnation), Some(partitions), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let id = Self {
            key_hash: u128::from_str_radix(hash, 16).ok()?,
            incarnation: incarnation.parse().ok()?,
            partitions: partitions.parse().ok()?,
        };
        let is_written_so = id.to_string() == text;
        (is_written_so && (1..=COLLECTION_PARTITIONS_MAX).contains(&id.partitions)).then_some(id)
    }

    /// What the partitions call it.
    pub(crate) fn of_partition(self) -> String {
        format!("{:032x}", self.key_hash)
    }
}

impl fmt::Display for ErasureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{}-{}", self.key_hash, self.incarnation, self.partitions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back() {
        let id = ErasureId { key_hash: 0xff, incarnation: u64::MAX, partitions: 64 };
        assert_eq!(ErasureId::parse(&id.to_string()), Some(id));
        for bad in [
            "",
            "ff-1-1",
            "x",
            "000000000000000000000000000000ff-1-65",
            "000000000000000000000000000000ff-01-1",
            "000000000000000000000000000000ff-1-1-1",
            "000000000000000000000000000000ff-1-0",
            "收据-1-1",
        ] {
            assert_eq!(ErasureId::parse(bad), None, "{bad}");
        }
    }
}
