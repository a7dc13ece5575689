//! A collection as callers see it.

use crate::http::time::Time;
use holdfast_core::collection::CollectionRow;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct CollectionView {
    name: String,
    partitions: u8,
    embedding_model: String,
    created_at: Time,
}

impl From<CollectionRow> for CollectionView {
    fn from(row: CollectionRow) -> Self {
        Self {
            name: row.name,
            partitions: row.partitions,
            embedding_model: row.embedding_model,
            created_at: Time(row.created_us),
        }
    }
}
