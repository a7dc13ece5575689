//! The rows of a replica: a sled database, and before it a table of what sled was not given yet.
//!
//! sled takes 128 rows in one batch for little more than it takes 8, and of the rows that every
//! command writes again (counters, the applied position) only the last counts. So small applies are
//! gathered in a table in memory until they make one batch.
//!
//! Invariants:
//! - **What sled holds is a prefix of the commands of the log, and says so**: the table holds whole
//!   applies, the last one's applied position among its rows, and reaches sled in one atomic step.
//! - **Readers see the table over sled**, so that for them a row is there once it was committed.
//! - **The table may be lost.** A killed process replays it from the log, which holds it: the log is
//!   purged behind a snapshot file alone, and whoever builds one writes the table out before that.

use super::sled_reader::SledReader;
use crate::crash::{Step, crash_point};
use holdfast_core::limits::BATCH_ROWS_MAX;
use holdfast_core::state::{Change, Row, Values, scan_over};
use parking_lot::{Mutex, RwLock};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// With this many rows the table is written out, so that a usual next apply still fits in a batch.
const ROWS_FULL: usize = BATCH_ROWS_MAX * 3 / 4;
/// And with this many bytes: 64 shards may not take more than 32 MiB.
const BYTES_FULL: usize = 512 << 10;
/// A row waits no longer than this while there is somebody to look.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The rows. A clone is another handle on the same ones.
#[derive(Clone)]
pub(super) struct Store {
    db: sled::Db,
    table: Arc<RwLock<Table>>,
    /// Held by whoever changes the table; readers of the table do not wait for sled.
    writing: Arc<Mutex<()>>,
}

/// What sled was not given yet.
#[derive(Default)]
struct Table {
    rows: Values,
    bytes: usize,
    since: Option<Instant>,
}

impl Table {
    fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_FULL || self.bytes >= BYTES_FULL
    }

    fn is_overdue(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() > WAIT_MAX)
    }

    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.rows.insert(key, value);
    }
}

impl Store {
    pub(super) fn new(db: sled::Db) -> Self {
        Self { db, table: Arc::default(), writing: Arc::default() }
    }

    /// Takes what an apply changes, and the row that says how far the log is applied then; to be seen
    /// by readers at once.
    ///
    /// # Errors
    /// Those of sled; what it was not given then is still in the table.
    pub(super) fn commit(&self, changes: Vec<Change>, applied: (Vec<u8>, Vec<u8>)) -> sled::Result<()> {
        let mut rows: Vec<_> = changes.into_iter().map(|change| (change.key, change.new)).collect();
        rows.push((applied.0, Some(applied.1)));
        self.commit_rows(rows)
    }

    pub(super) fn commit_rows(&self, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> sled::Result<()> {
        let _writing = self.writing.lock();
        if self.table.read().rows.len() + rows.len() > BATCH_ROWS_MAX {
            self.write_table()?;
        }
        let is_due = {
            let mut table = self.table.write();
            for (key, value) in rows {
                table.put(key, value);
            }
            table.since.get_or_insert_with(Instant::now);
            table.is_full() || table.is_overdue()
        };
        if is_due { self.write_table() } else { Ok(()) }
    }

    /// Gives sled what it does not have.
    ///
    /// # Errors
    /// Those of sled.
    pub(super) fn write_out(&self) -> sled::Result<()> {
        let _writing = self.writing.lock();
        self.write_table()
    }

    /// Whether rows have waited for long.
    pub(super) fn is_overdue(&self) -> bool {
        self.table.read().is_overdue()
    }

    fn write_table(&self) -> sled::Result<()> {
        let mut batch = sled::Batch::default();
        {
            let table = self.table.read();
            if table.rows.is_empty() {
                return Ok(());
            }
            for (key, value) in &table.rows {
                match value {
                    Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                    None => batch.remove(key.as_slice()),
                }
            }
        }
        self.db.apply_batch(batch)?;
        crash_point(Step::RowsApplied);
        // Not before: a reader that misses a row here finds it in sled.
        *self.table.write() = Table::default();
        Ok(())
    }

    /// Writes everything out and lets sled flush it.
    ///
    /// # Errors
    /// Those of sled.
    pub(super) fn flush(&self) -> sled::Result<()> {
        self.write_out()?;
        self.db.flush().map(drop)
    }

    pub(super) fn size_on_disk(&self) -> sled::Result<u64> {
        self.db.size_on_disk()
    }

    /// The database, which lacks what is in the table.
    pub(super) fn db(&self) -> &sled::Db {
        &self.db
    }

    pub(super) fn get_row(&self, key: &[u8]) -> sled::Result<Option<Vec<u8>>> {
        if let Some(value) = self.table.read().rows.get(key) {
            return Ok(value.clone());
        }
        SledReader(&self.db).get_row(key)
    }

    pub(super) fn scan_rows(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> sled::Result<Vec<Row>> {
        // A copy, as applies are not to wait for a long scan; the table is small.
        let above: Values = {
            let table = self.table.read();
            let from = after.filter(|after| *after >= prefix).unwrap_or(prefix);
            let rows = table
                .rows
                .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
                .take_while(|(key, _)| key.starts_with(prefix));
            rows.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        scan_over(&above, (prefix, after), limit, |limit| {
            SledReader(&self.db).scan_rows(prefix, after, limit)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::keys;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn applied(n: u64) -> (Vec<u8>, Vec<u8>) {
        (keys::local("applied"), n.to_be_bytes().to_vec())
    }

    fn change(key: &[u8], new: Option<&[u8]>) -> Change {
        Change { key: key.to_vec(), old: None, new: new.map(<[u8]>::to_vec) }
    }

    fn temporary() -> Store {
        Store::new(sled::Config::new().temporary(true).flush_every_ms(None).open().unwrap())
    }

    fn rows_of(db: &sled::Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
        db.iter().map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    }

    #[derive(Debug, Clone)]
    enum Op {
        Commit(Vec<(Vec<u8>, Option<Vec<u8>>)>),
        WriteOut,
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = prop::collection::vec(0u8..3, 1..4);
        let value = prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..3));
        prop_oneof![
            4 => prop::collection::vec((key, value), 0..70).prop_map(Op::Commit),
            1 => Just(Op::WriteOut),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Wherever the rows are, they read as those of a map; and what sled holds is always what some
        /// whole commit left.
        #[test]
        fn reads_as_a_map_and_writes_whole_commits(
            ops in prop::collection::vec(op(), 0..12),
            prefix in prop::collection::vec(0u8..3, 0..3),
            after in prop::option::of(prop::collection::vec(0u8..3, 1..4)),
            limit in 0usize..60,
        ) {
            let store = temporary();
            let mut model = BTreeMap::new();
            let mut after_commits = vec![BTreeMap::new()];
            for op in ops {
                match op {
                    Op::WriteOut => store.write_out().unwrap(),
                    Op::Commit(changes) => {
                        // A batch names each key once.
                        let changes: BTreeMap<_, _> = changes.into_iter().collect();
                        let of_store = changes.iter().map(|(key, new)| change(key, new.as_deref())).collect();
                        let position = applied(after_commits.len() as u64);
                        store.commit(of_store, position.clone()).unwrap();
                        for (key, new) in changes {
                            match new {
                                Some(value) => model.insert(key, value),
                                None => model.remove(&key),
                            };
                        }
                        model.insert(position.0, position.1);
                        after_commits.push(model.clone());
                    }
                }
                let held = rows_of(store.db());
                prop_assert!(after_commits.contains(&held), "a part of a commit: {held:?}");
                for key in model.keys() {
                    prop_assert_eq!(store.get_row(key).unwrap(), model.get(key).cloned());
                }
                let is_next = |key: &[u8]| after.as_deref().is_none_or(|after| key > after);
                let wanted: Vec<Row> = model
                    .iter()
                    .filter(|(key, _)| key.starts_with(&prefix) && is_next(key))
                    .take(limit)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                prop_assert_eq!(store.scan_rows(&prefix, after.as_deref(), limit).unwrap(), wanted);
            }
        }
    }

    #[test]
    fn small_commits_are_gathered_and_large_ones_go_through() {
        let store = temporary();
        let key = |n: usize| format!("k{n:04}").into_bytes();
        for n in 0..ROWS_FULL - 2 {
            store.commit(vec![change(&key(n), Some(b"v"))], applied(n as u64)).unwrap();
        }
        assert!(store.db().is_empty(), "one position and the rows do not fill the table");
        store.commit(vec![change(&key(ROWS_FULL), Some(b"v"))], applied(1_000)).unwrap();
        assert_eq!(store.db().len(), ROWS_FULL, "each row once, the position too");
        // A commit that no table holds is one batch all the same.
        let many = (0..BATCH_ROWS_MAX * 3).map(|n| change(&key(n), Some(b"w"))).collect();
        store.commit(many, applied(1_001)).unwrap();
        assert_eq!(store.db().len(), BATCH_ROWS_MAX * 3 + 1);
        // So is one of few rows and many bytes.
        let huge = vec![7; BYTES_FULL];
        store.commit(vec![change(b"huge", Some(&huge))], applied(1_002)).unwrap();
        assert_eq!(store.db().get(b"huge").unwrap().unwrap(), huge);
        assert!(!store.is_overdue(), "nothing waits");
    }

    #[test]
    fn readers_never_miss_a_row_on_its_way_to_sled() {
        let store = temporary();
        store.commit(vec![change(b"always", Some(&[0]))], applied(0)).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..2_000u64 {
                    store.commit(vec![change(b"always", Some(&n.to_be_bytes()))], applied(n)).unwrap();
                    if n % 7 == 0 {
                        store.write_out().unwrap();
                    }
                }
                done.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(store.get_row(b"always").unwrap().is_some());
                assert_eq!(store.scan_rows(b"always", None, 2).unwrap().len(), 1);
            }
        });
    }
}
