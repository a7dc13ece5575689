use super::ShardState;
use super::store::Store;
use holdfast_core::state::{Reader, Row, StateError};
use std::ops::Bound;

/// Reads of a sled database.
#[derive(Clone, Copy)]
pub struct SledReader<'a>(pub &'a sled::Db);

fn unreadable(error: &sled::Error) -> StateError {
    StateError(format!("sled: {error}"))
}

impl SledReader<'_> {
    pub(super) fn get_row(&self, key: &[u8]) -> sled::Result<Option<Vec<u8>>> {
        Ok(self.0.get(key)?.map(|value| value.to_vec()))
    }

    pub(super) fn scan_rows(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> sled::Result<Vec<Row>> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut rows = Vec::new();
        for row in self.0.range::<&[u8], _>((start, Bound::Unbounded)).take(limit) {
            let (key, value) = row?;
            if !key.starts_with(prefix) {
                break;
            }
            rows.push((key.to_vec(), value.to_vec()));
        }
        Ok(rows)
    }
}

impl Reader for SledReader<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.get_row(key).map_err(|error| unreadable(&error))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        self.scan_rows(prefix, after, limit).map_err(|error| unreadable(&error))
    }
}

/// Reads of the rows of a state that notice it when its disk fails.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) store: &'a Store,
    /// Whose rows they are; none for a database that is being rebuilt.
    pub(super) live: Option<&'a ShardState>,
}

impl Rows<'_> {
    /// Whether it is the disk that failed is known here alone.
    fn failed(&self, error: &sled::Error) -> StateError {
        if let Some(live) = self.live {
            live.sled_failed(error);
        }
        unreadable(error)
    }
}

impl Reader for Rows<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.store.get_row(key).map_err(|error| self.failed(&error))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        self.store.scan_rows(prefix, after, limit).map_err(|error| self.failed(&error))
    }
}

/// Reads of a shard's state: each of them of the database that is current then, so that a reader that
/// goes on across the install of a snapshot file ends in the new state.
#[derive(Clone, Copy)]
pub struct ShardReader<'a>(pub(super) &'a ShardState);

impl Reader for ShardReader<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.0.store().get_row(key).map_err(|error| unreadable(&error))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        self.0.store().scan_rows(prefix, after, limit).map_err(|error| unreadable(&error))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::state::{Changes, conformance};

    fn temporary() -> Store {
        Store::new(sled::Config::new().temporary(true).flush_every_ms(None).open().unwrap())
    }

    impl Reader for Store {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
            self.get_row(key).map_err(|error| unreadable(&error))
        }
        fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
            self.scan_rows(prefix, after, limit).map_err(|error| unreadable(&error))
        }
    }

    #[test]
    fn a_store_conforms_wherever_its_rows_are() {
        let commit = |store: &mut Store, changes: Changes| {
            let rows = changes.rows.into_iter().map(|change| (change.key, change.new)).collect();
            store.commit_rows(rows).unwrap();
        };
        conformance::run(temporary, commit);
        conformance::run(temporary, |store: &mut Store, changes: Changes| {
            commit(store, changes);
            store.write_out().unwrap();
        });
    }
}
