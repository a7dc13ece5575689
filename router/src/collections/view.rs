//! A collection as callers see it.

use crate::http::time::Time;
use holdfast_core::collection::{CollectionRow, CollectionSettings};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct CollectionView {
    name: String,
    partitions: u8,
    /// `null` for one that holds no vectors.
    embedding_model: Option<String>,
    dims: Option<u16>,
    index: &'static str,
    /// `null` for memories that stay.
    retention: Option<Retention>,
    created_at: Time,
}

#[derive(Serialize)]
struct Retention {
    ttl_s: u64,
}

impl CollectionView {
    pub(super) fn new(row: CollectionRow, settings: &CollectionSettings) -> Self {
        Self {
            name: row.name,
            partitions: row.partitions,
            dims: row.model.as_ref().map(|model| model.dims),
            embedding_model: row.model.map(|model| model.id),
            index: settings.index.as_str(),
            retention: settings.retention_s.map(|ttl_s| Retention { ttl_s }),
            created_at: Time(row.created_us),
        }
    }
}
