//! Shared collections: named spaces of a tenant that are cut into partitions.

use crate::codec::stored;
use crate::limits::{COLLECTION_PARTITIONS_MAX, EMBEDDING_DIMS_MAX, RETENTION_S_MAX, check_id};
use crate::memory::ModelTag;
use crate::space::SpaceKey;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A shared collection. Key: see [`crate::keys::meta::collection`].
///
/// The row stays when the collection is deleted, so that the same request can be answered again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRow {
    /// Whose it is.
    pub tenant: String,
    /// Its name, unique in the tenant.
    pub name: String,
    /// Number of partitions, 1 to [`COLLECTION_PARTITIONS_MAX`]; fixed for its life.
    pub partitions: u8,
    /// The model of its vectors; fixed for its life. `None` holds no vectors.
    pub model: Option<ModelTag>,
    /// The log index at which it was made: part of the keys of all that it holds, so that nothing of an earlier
    /// collection of the name is ever found in it.
    pub incarnation: u64,
    /// When it was created, in log time.
    pub created_us: i64,
    /// How it ended, if it did.
    pub deleted: Option<Deletion>,
    /// The collection that had the name before, and how it ended.
    pub former: Option<Former>,
}

/// Which index answers recalls over a partition of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// By the number of its vectors.
    #[default]
    Auto,
    /// The exact scan, however many there are.
    Exact,
    /// A graph (HNSW).
    Hnsw,
    /// Lists in a file (IVF).
    Ivf,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Exact, Self::Hnsw, Self::Ivf];

    /// The name in the public interface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Hnsw => "hnsw",
            Self::Ivf => "ivf",
        }
    }

    /// The one of a name.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What of a collection may change. Key: see [`crate::keys::meta::collection_settings`]. One that has no such row, or
/// one of an earlier collection of its name, has the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionSettings {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// As [`CollectionRow::incarnation`].
    pub incarnation: u64,
    /// Which index answers.
    pub index: IndexKind,
    /// How long a new memory lives for which no end is given, in seconds; `None` for ever.
    pub retention_s: Option<u64>,
    /// The log index at which these were set: later ones have a higher one. Apply sets it.
    pub version: u64,
}

stored!(CollectionSettings);

/// What is to change of a collection; what is missing stays as it is when this is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionChange {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// As [`CollectionRow::incarnation`].
    pub incarnation: u64,
    /// Which index answers.
    pub index: Option<IndexKind>,
    /// As [`CollectionSettings::retention_s`].
    pub retention_s: Option<Option<u64>>,
}

impl CollectionChange {
    /// Checks what came over the wire.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] that names the field.
    pub fn check(&self) -> Result<()> {
        check_id("tenant", &self.tenant)?;
        check_id("collection", &self.name)?;
        match self.retention_s.flatten() {
            Some(ttl_s) if !(1..=RETENTION_S_MAX).contains(&ttl_s) => {
                let detail =
                    format!("ttl_s is {ttl_s}; give 1 to {RETENTION_S_MAX} seconds, or null for ever");
                Err(Error::invalid("retention.ttl_s", detail))
            }
            _ => Ok(()),
        }
    }
}

/// How a collection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// When, in log time.
    pub at_us: i64,
    /// xxh3-128 of the key of the request.
    pub key_hash: u128,
}

/// A collection that ended before another one took its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// As [`CollectionRow::incarnation`].
    pub incarnation: u64,
    /// As [`CollectionRow::partitions`].
    pub partitions: u8,
    /// As [`Deletion::key_hash`].
    pub key_hash: u128,
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
        if self.partitions == 0 || self.partitions > COLLECTION_PARTITIONS_MAX {
            let detail = format!("partitions is {}; give 1 to {COLLECTION_PARTITIONS_MAX}", self.partitions);
            return Err(Error::invalid("partitions", detail));
        }
        let Some(model) = &self.model else { return Ok(()) };
        check_id("embedding_model", &model.id)?;
        if model.dims == 0 || usize::from(model.dims) > EMBEDDING_DIMS_MAX {
            let detail = format!("dims is {}; give 1 to {EMBEDDING_DIMS_MAX}", model.dims);
            return Err(Error::invalid("dims", detail));
        }
        Ok(())
    }

    /// One partition. The first one holds facts, entities and all else that is not cut.
    ///
    /// # Errors
    /// As [`SpaceKey::shared`]: none for a row that was [checked](Self::check).
    pub fn space(&self, partition: u8) -> Result<SpaceKey> {
        SpaceKey::incarnation(&self.tenant, &self.name, self.incarnation, partition)
    }

    /// All partitions, in order.
    ///
    /// # Errors
    /// As [`CollectionRow::space`].
    pub fn spaces(&self) -> Result<Vec<SpaceKey>> {
        (0..self.partitions).map(|partition| self.space(partition)).collect()
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
            model: Some(ModelTag { id: "client".into(), dims: 3 }),
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
            (
                CollectionRow { model: Some(ModelTag { id: String::new(), dims: 3 }), ..row(1) },
                "embedding_model",
            ),
            (CollectionRow { model: Some(ModelTag { id: "m".into(), dims: 0 }), ..row(1) }, "dims"),
            (CollectionRow { model: Some(ModelTag { id: "m".into(), dims: 4_097 }), ..row(1) }, "dims"),
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
