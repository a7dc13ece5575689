use super::{Reader, Row, State, StateError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Values by key, `None` where there is none.
pub type Values = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The writes of a batch on top of a store that they have not reached yet. Overlays nest: a command
/// runs in one of its own, and a failed one is dropped without a trace.
pub struct Overlay<R> {
    base: R,
    writes: Values,
    /// Values of the store that were read already: commands look at most rows before they write
    /// them, and the old value is needed once more at the end.
    known: Option<RefCell<Values>>,
}

/// Values of the store that one overlay remembers.
const KNOWN_MAX: usize = 1_024;

/// One row that a batch changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: Vec<u8>,
    /// The value before, `None` if there was none.
    pub old: Option<Vec<u8>>,
    /// The value after, `None` if the row goes.
    pub new: Option<Vec<u8>>,
}

/// What a batch changes, in the order of the keys; rows that end as they began are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The rows.
    pub rows: Vec<Change>,
}

impl<R: Reader> Overlay<R> {
    /// An overlay without writes.
    pub fn new(base: R) -> Self {
        Self { base, writes: BTreeMap::new(), known: None }
    }

    /// An overlay without writes that reads no key of the store twice. The store must not change
    /// while it lives.
    pub fn remembering(base: R) -> Self {
        Self { known: Some(RefCell::default()), ..Self::new(base) }
    }

    /// The store's value of a key.
    fn below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        let Some(known) = &self.known else { return self.base.get(key) };
        if let Some(value) = known.borrow().get(key) {
            return Ok(value.clone());
        }
        let value = self.base.get(key)?;
        let mut known = known.borrow_mut();
        if known.len() < KNOWN_MAX {
            known.insert(key.to_vec(), value.clone());
        }
        Ok(value)
    }

    /// Number of rows written so far.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes alone, for the layer below.
    pub fn into_writes(self) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        self.writes
    }

    /// Takes the writes of an overlay that was built on this one.
    pub fn absorb(&mut self, writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
        self.writes.extend(writes);
    }

    /// What the store has to take, with the old values that the state hash needs.
    ///
    /// # Errors
    /// [`StateError`] if an old value cannot be read.
    pub fn into_changes(self) -> Result<Changes, StateError> {
        let Self { base, writes, known } = self;
        let mut known = known.map(RefCell::into_inner).unwrap_or_default();
        let mut rows = Vec::with_capacity(writes.len());
        for (key, new) in writes {
            let old = match known.remove(&key) {
                Some(old) => old,
                None => base.get(&key)?,
            };
            if old != new {
                rows.push(Change { key, old, new });
            }
        }
        Ok(Changes { rows })
    }
}

impl<R: Reader> Reader for Overlay<R> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        match self.writes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.below(key),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        scan_over(&self.writes, (prefix, after), limit, |limit| self.base.scan(prefix, after, limit))
    }
}

/// What [`Reader::scan`] answers for rows with others above them: `above` wins over what `below`
/// answers for a limit, and its `None` hides a row.
///
/// # Errors
/// Those of `below`.
pub fn scan_over<E>(
    above: &Values,
    (prefix, after): (&[u8], Option<&[u8]>),
    limit: usize,
    below: impl FnOnce(usize) -> Result<Vec<Row>, E>,
) -> Result<Vec<Row>, E> {
    let start = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let above = above.range::<[u8], _>((start, Bound::Unbounded));
    let mut above = above.take_while(|(key, _)| key.starts_with(prefix)).peekable();
    if above.peek().is_none() {
        return below(limit);
    }
    // Every deleted row above may hide one below, so that many more are read.
    let hidden = above.clone().filter(|(_, value)| value.is_none()).count();
    let below = below(limit.saturating_add(hidden))?;
    Ok(merge(below, above, limit))
}

/// Merges two sorted lists of rows; the upper one wins and its `None` hides a row of the lower one.
fn merge<'a>(
    below: Vec<Row>,
    above: impl Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>,
    limit: usize,
) -> Vec<Row> {
    let mut merged = Vec::new();
    let mut below = below.into_iter().peekable();
    for (key, value) in above {
        while let Some(row) = below.next_if(|(lower, _)| lower < key) {
            merged.push(row);
        }
        below.next_if(|(lower, _)| lower == key);
        if let Some(value) = value {
            merged.push((key.clone(), value.clone()));
        }
    }
    merged.extend(below);
    merged.truncate(limit);
    merged
}

impl<R: Reader> State for Overlay<R> {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StateError> {
        self.writes.insert(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StateError> {
        self.writes.insert(key.to_vec(), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{BTreeState, StateHash};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        Put(Vec<u8>, Vec<u8>),
        Delete(Vec<u8>),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let key = proptest::collection::vec(0u8..3, 1..4);
        let value = proptest::collection::vec(any::<u8>(), 0..3);
        let op =
            prop_oneof![(key.clone(), value).prop_map(|(k, v)| Op::Put(k, v)), key.prop_map(Op::Delete),];
        proptest::collection::vec(op, 0..40)
    }

    fn run(state: &mut impl State, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Put(key, value) => state.put(key.clone(), value.clone()),
                Op::Delete(key) => state.delete(key),
            }
            .expect("a map in memory");
        }
    }

    proptest! {
        /// An overlay, even a nested one, reads as if its writes had reached the store, and its
        /// changes carry the store and the hash to the same place.
        #[test]
        fn reads_as_the_store_would(
            first in ops(), second in ops(), third in ops(),
            prefix in proptest::collection::vec(0u8..3, 0..3),
            after in proptest::option::of(proptest::collection::vec(0u8..3, 1..4)),
            limit in 0usize..8,
            remembers in any::<bool>(),
            looked_at in proptest::collection::vec(proptest::collection::vec(0u8..3, 1..4), 0..12),
        ) {
            let mut store = BTreeState::new();
            run(&mut store, &first);
            let mut direct = store.clone();
            run(&mut direct, &second);
            run(&mut direct, &third);

            let mut overlay = if remembers { Overlay::remembering(&store) } else { Overlay::new(&store) };
            for key in &looked_at {
                prop_assert_eq!(overlay.get(key), store.get(key));
            }
            run(&mut overlay, &second);
            let writes = {
                let mut nested = Overlay::new(&overlay);
                for key in &looked_at {
                    nested.get(key).expect("a map in memory");
                }
                run(&mut nested, &third);
                for key in &looked_at {
                    prop_assert_eq!(nested.get(key), direct.get(key));
                }
                prop_assert_eq!(
                    nested.scan(&prefix, after.as_deref(), limit),
                    direct.scan(&prefix, after.as_deref(), limit)
                );
                nested.into_writes()
            };
            overlay.absorb(writes);
            prop_assert_eq!(
                overlay.scan(&prefix, after.as_deref(), limit),
                direct.scan(&prefix, after.as_deref(), limit)
            );

            let hash_of = |state: &BTreeState| {
                let mut hash = StateHash::default();
                state.rows().for_each(|(key, value)| hash.add(key, value));
                hash
            };
            let mut hash = hash_of(&store);
            let changes = overlay.into_changes().expect("a map in memory");
            hash.follow(&changes);
            store.commit(changes);
            prop_assert_eq!(&store, &direct);
            prop_assert_eq!(hash, hash_of(&direct));
        }
    }
}
