//! A collection as callers see it.

use crate::http::time::Time;
use holdfast_core::collection::CollectionRow;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct CollectionView {
    name: String,
    partitions: u8,
    /// `null` for one that holds no vectors.
    embedding_model: Option<String>,
    dims: Option<u16>,
    created_at: Time,
}

impl From<CollectionRow> for CollectionView {
    fn from(row: CollectionRow) -> Self {
        Self {
            name: row.name,
            partitions: row.partitions,
            dims: row.model.as_ref().map(|model| model.dims),
            embedding_model: row.model.map(|model| model.id),
            created_at: Time(row.created_us),
        }
    }
}
