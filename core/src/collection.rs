//! Shared collections: named spaces of a tenant that are cut into partitions.

use crate::codec::stored;
use crate::limits::{COLLECTION_PARTITIONS_MAX, check_id};
use crate::space::SpaceKey;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A shared collection. Key: see [`crate::keys::meta::collection`].
///
/// The row stays when the collection is deleted, so that a new one of the same name begins by
/// erasing again what a router that did not know of the deletion may have written since.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRow {
    /// Whose it is.
    pub tenant: String,
    /// Its name, unique in the tenant.
    pub name: String,
    /// Number of partitions, 1 to [`COLLECTION_PARTITIONS_MAX`]; fixed for its life.
    pub partitions: u8,
    /// The model of its vectors; fixed for its life.
    pub embedding_model: String,
    /// When it was created, in log time.
    pub created_us: i64,
    /// When it was deleted, in log time.
    pub deleted_us: Option<i64>,
}

stored!(CollectionRow);

impl CollectionRow {
    /// Checks what came over the wire.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] that names the field.
    pub fn check(&self) -> Result<()> {
        check_id("tenant", &self.tenant)?;
        check_id("collection", &self.name)?;
        check_id("embedding_model", &self.embedding_model)?;
        if self.partitions == 0 || self.partitions > COLLECTION_PARTITIONS_MAX {
            let detail = format!("partitions is {}; give 1 to {COLLECTION_PARTITIONS_MAX}", self.partitions);
            return Err(Error::invalid("partitions", detail));
        }
        Ok(())
    }

    /// The first partition, which holds facts, entities and all else that is not cut.
    ///
    /// # Errors
    /// As [`SpaceKey::shared`]: none for a row that was [checked](Self::check).
    pub fn space(&self) -> Result<SpaceKey> {
        SpaceKey::shared(&self.tenant, &self.name, 0)
    }

    /// All partitions, in order.
    ///
    /// # Errors
    /// As [`SpaceKey::shared`]: none for a row that was [checked](Self::check).
    pub fn spaces(&self) -> Result<Vec<SpaceKey>> {
        (0..self.partitions).map(|partition| SpaceKey::shared(&self.tenant, &self.name, partition)).collect()
    }

    /// The partition of what is placed by a key: xxh3 of it, modulo the number of partitions. Part of the
    /// storage format.
    pub fn partition_of(&self, key: &[u8]) -> u8 {
        let partitions = u64::from(self.partitions.max(1));
        // A remainder below 64.
        u8::try_from(xxh3_64(key) % partitions).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(partitions: u8) -> CollectionRow {
        CollectionRow {
            tenant: "acme".into(),
            name: "商品".into(),
            partitions,
            embedding_model: "client".into(),
            ..CollectionRow::default()
        }
    }

    #[test]
    fn bounds_are_checked() {
        for partitions in [1, 2, 64] {
            assert_eq!(row(partitions).check(), Ok(()));
            assert_eq!(row(partitions).spaces().map(|spaces| spaces.len()), Ok(usize::from(partitions)));
        }
        for (bad, field) in [
            (row(0), "partitions"),
            (row(65), "partitions"),
            (CollectionRow { name: String::new(), ..row(1) }, "collection"),
            (CollectionRow { name: "a\0".into(), ..row(1) }, "collection"),
            (CollectionRow { embedding_model: String::new(), ..row(1) }, "embedding_model"),
        ] {
            assert_eq!(bad.check().expect_err("refused").field.as_deref(), Some(field));
        }
    }

    #[test]
    fn places_are_frozen_and_spread() {
        // Part of the storage format: if these change, sessions fall apart.
        let of = |key: &str| row(64).partition_of(key.as_bytes());
        assert_eq!([of("s-1"), of("会话"), of("")], PLACES);
        let mut counts = [0u32; 8];
        for n in 0..8_000u32 {
            counts[usize::from(row(8).partition_of(&n.to_le_bytes()))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
        assert_eq!(row(0).partition_of(b"x"), 0, "a damaged row divides by nothing");
    }

    const PLACES: [u8; 3] = [27, 11, 2];
}
