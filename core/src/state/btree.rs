use super::{Changes, Reader, Row, State, StateError};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The model that every other store is compared with, and the store of tests and simulations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BTreeState {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl BTreeState {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the writes of an overlay.
    pub fn commit(&mut self, changes: Changes) {
        for change in changes.rows {
            match change.new {
                Some(value) => self.rows.insert(change.key, value),
                None => self.rows.remove(&change.key),
            };
        }
    }

    /// All rows in order.
    pub fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.rows.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

impl Reader for BTreeState {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let rows = self.rows.range::<[u8], _>((start, Bound::Unbounded));
        let within = rows.take_while(|(key, _)| key.starts_with(prefix));
        Ok(within.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl State for BTreeState {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StateError> {
        self.rows.insert(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StateError> {
        self.rows.remove(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::state::conformance::run(BTreeState::new, |state, changes| state.commit(changes));
    }
}
