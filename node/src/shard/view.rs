//! The rows of a state at one point, read while applies go on.
//!
//! The reader walks through the keys in ranges. What apply changes ahead of it, apply keeps the old
//! value of, once; what it changes behind it was read already. Both happen under the mutex of applies,
//! so a range and the values kept for it are of one moment.

use holdfast_core::keys;
use holdfast_core::state::{Change, Reader, Row, StateError};
use std::collections::BTreeMap;

/// Keys in one range.
pub(super) const RANGE_KEYS: usize = 256;
/// What a kept value costs beside its bytes.
const KEPT_OVERHEAD: usize = 96;

/// A point of the state whose rows are being read.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The last key that was read; everything up to it is done.
    passed: Option<Vec<u8>>,
    /// Values as they were at the point, of keys behind `passed` that were changed since; `None`
    /// where there was no row.
    kept: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    kept_bytes: usize,
}

impl View {
    /// Keeps what a batch is about to overwrite. Called before the batch is in the store.
    pub(super) fn keep(&mut self, changes: &[Change]) {
        for Change { key, old, .. } in changes {
            let passed = self.passed.as_ref().is_some_and(|passed| key <= passed);
            if passed || !keys::is_replicated(key) || self.kept.contains_key(key) {
                continue;
            }
            self.kept_bytes += kept_bytes(key, old.as_ref());
            self.kept.insert(key.clone(), old.clone());
        }
    }

    /// Memory that the kept values take.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The next rows of the point in order, from a store in which every kept change has happened; no
    /// rows and `true` at the end. A range without rows is not the end: all of its keys may be newer.
    pub(super) fn next_range(
        &mut self,
        store: &impl Reader,
        keys_max: usize,
    ) -> Result<(Vec<Row>, bool), StateError> {
        let mut now = store.scan(&[], self.passed.as_deref(), keys_max)?;
        let last_of_store = now.len() < keys_max;
        let Some(end) = now.last().map(|(key, _)| key.clone()).filter(|_| !last_of_store) else {
            let kept = std::mem::take(&mut self.kept);
            self.kept_bytes = 0;
            return Ok((merge(now, kept), true));
        };
        let behind = self.kept.split_off(&end);
        let mut kept = std::mem::replace(&mut self.kept, behind);
        if let Some(value) = self.kept.remove(&end) {
            kept.insert(end.clone(), value);
        }
        for (key, value) in &kept {
            self.kept_bytes = self.kept_bytes.saturating_sub(kept_bytes(key, value.as_ref()));
        }
        self.passed = Some(end);
        now = merge(now, kept);
        Ok((now, false))
    }
}

/// What a view is for. At most one for each at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Writing a snapshot file.
    Build,
    /// Comparing the rows with the hash that was kept.
    Scrub,
}

/// The views of a state that are under way.
#[derive(Debug, Default)]
pub(super) struct Views {
    build: Option<View>,
    scrub: Option<View>,
}

impl Views {
    /// Keeps what a batch is about to overwrite, for each of them.
    pub(super) fn keep(&mut self, changes: &[Change]) {
        for view in [&mut self.build, &mut self.scrub].into_iter().flatten() {
            view.keep(changes);
        }
    }

    pub(super) fn of(&mut self, purpose: Purpose) -> &mut Option<View> {
        match purpose {
            Purpose::Build => &mut self.build,
            Purpose::Scrub => &mut self.scrub,
        }
    }
}

fn kept_bytes(key: &[u8], value: Option<&Vec<u8>>) -> usize {
    KEPT_OVERHEAD + key.len() + value.map_or(0, Vec::len)
}

/// The rows of the store as they were: kept values instead of the present ones.
fn merge(now: Vec<Row>, kept: BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Vec<Row> {
    let mut rows = Vec::with_capacity(now.len() + kept.len());
    let mut now = now.into_iter().filter(|(key, _)| keys::is_replicated(key)).peekable();
    for (key, old) in kept {
        while let Some(row) = now.next_if(|(present, _)| *present < key) {
            rows.push(row);
        }
        now.next_if(|(present, _)| *present == key);
        if let Some(value) = old {
            rows.push((key, value));
        }
    }
    rows.extend(now);
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::state::{BTreeState, Overlay, State, StateHash};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        /// A batch of writes and deletions.
        Apply(Vec<(u8, Option<Vec<u8>>)>),
        /// The reader takes a range of so many keys.
        Read(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let value = prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..4));
        let batch = prop::collection::vec((any::<u8>(), value), 1..12);
        prop_oneof![3 => batch.prop_map(Op::Apply), 2 => (1usize..9).prop_map(Op::Read)]
    }

    fn key(n: u8) -> Vec<u8> {
        // Keys of different lengths, one of which begins the other, and local rows between them.
        match n % 3 {
            0 => vec![n / 16, n],
            1 => vec![n / 16, n, n],
            _ => [&keys::local("")[..], &[n]].concat(),
        }
    }

    fn apply(state: &mut BTreeState, view: &mut View, batch: Vec<(u8, Option<Vec<u8>>)>) {
        let mut overlay = Overlay::new(&*state);
        for (n, value) in batch {
            match value {
                Some(value) => overlay.put(key(n), value).unwrap(),
                None => overlay.delete(&key(n)).unwrap(),
            }
        }
        let changes = overlay.into_changes().unwrap();
        view.keep(&changes.rows);
        state.commit(changes);
    }

    fn replicated(state: &BTreeState) -> Vec<Row> {
        let rows = state.rows().filter(|(key, _)| keys::is_replicated(key));
        rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// However applies and reads interleave, what is read is the state at the point.
        #[test]
        fn the_rows_are_those_of_the_point(
            before in prop::collection::vec((any::<u8>(), Just(Some(vec![7]))), 0..80),
            ops in prop::collection::vec(op(), 0..60),
        ) {
            let mut state = BTreeState::new();
            apply(&mut state, &mut View::default(), before);
            let point = replicated(&state);
            let mut view = View::default();
            let (mut read, mut ended) = (Vec::new(), false);
            for op in ops {
                match op {
                    Op::Apply(batch) if ended => apply(&mut state, &mut View::default(), batch),
                    Op::Apply(batch) => apply(&mut state, &mut view, batch),
                    Op::Read(_) if ended => {}
                    Op::Read(keys_max) => {
                        let (rows, end) = view.next_range(&state, keys_max).unwrap();
                        read.extend(rows);
                        ended = end;
                    }
                }
            }
            while !ended {
                let (rows, end) = view.next_range(&state, 3).unwrap();
                read.extend(rows);
                ended = end;
            }
            prop_assert_eq!(&read, &point);
            prop_assert_eq!(view.kept_bytes(), 0);
            let hash = |rows: &[Row]| {
                let mut hash = StateHash::default();
                rows.iter().for_each(|(key, value)| hash.add(key, value));
                hash
            };
            prop_assert_eq!(hash(&read), hash(&point));
        }
    }

    #[test]
    fn values_are_kept_once_and_only_ahead_of_the_reader() {
        let mut state = BTreeState::new();
        for n in 0..10u8 {
            state.put(vec![n], vec![n; 100]).unwrap();
        }
        let mut view = View::default();
        assert_eq!(view.next_range(&state, 5).unwrap().0.len(), 5);
        let change = |n: u8| Change { key: vec![n], old: Some(vec![n; 100]), new: None };
        view.keep(&[change(0), change(4)]);
        assert_eq!(view.kept_bytes(), 0, "these were read");
        view.keep(&[change(5)]);
        let once = view.kept_bytes();
        assert_eq!(once, KEPT_OVERHEAD + 101);
        view.keep(&[change(5)]);
        assert_eq!(view.kept_bytes(), once);
    }
}
