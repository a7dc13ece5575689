//! A store of index rows that many threads share, and its changes as a shard applies them.

use super::*;
use holdfast_core::codec::Stored as _;
use holdfast_core::event::Event;
use holdfast_core::keys::index_row;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{BTreeState, Reader, Row, State, StateError};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
pub(super) struct Store {
    rows: Mutex<BTreeState>,
    /// Scans that are to fail.
    pub(super) failing: AtomicUsize,
    pub(super) scans: AtomicUsize,
}

impl Store {
    /// Puts rows, or removes them, as one batch.
    pub(super) fn write(&self, space: &SpaceKey, changes: &[(u64, Option<IndexRow>)]) -> Vec<Event> {
        let mut rows = self.rows.lock();
        let mut events = Vec::new();
        for (seq, row) in changes {
            let (key, space) = (index_row::key(space, *seq), space.clone());
            events.push(match row {
                Some(row) => {
                    rows.put(key, row.encode().unwrap()).unwrap();
                    Event::Put { space, seq: *seq, row: Box::new(row.clone()) }
                }
                None => {
                    rows.delete(&key).unwrap();
                    Event::Remove { space, seq: *seq }
                }
            });
        }
        events
    }

    pub(super) fn put_raw(&self, key: Vec<u8>, value: Vec<u8>) {
        self.rows.lock().put(key, value).unwrap();
    }
}

impl Reader for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.rows.lock().get(key)
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(StateError("a disk that broke".into()));
        }
        self.rows.lock().scan(prefix, after, limit)
    }
}

pub(super) fn space(user: &str) -> SpaceKey {
    SpaceKey::user("acme", user).unwrap()
}
