//! The sorted byte map that the state machine runs on.
//!
//! A store implements [`Reader`]. [`apply`](mod@crate::apply) sees it as [`State`], through an
//! [`Overlay`] that holds the writes of the batch; the store then takes the overlay's [`Changes`]
//! in one atomic step. So "seen through the batch's own writes" is written once, and tested once.

mod btree;
pub mod conformance;
mod hash;
mod overlay;

pub use btree::BTreeState;
pub use hash::StateHash;
pub use overlay::{Change, Changes, Overlay, Values, scan_over};

/// A row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A store could not be read. Fatal for the replica: it is rebuilt, never read as empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the state cannot be read: {0}")]
pub struct StateError(pub String);

/// Reads of a sorted map from byte strings to byte strings.
pub trait Reader {
    /// The value of a key.
    ///
    /// # Errors
    /// [`StateError`] if the store cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError>;

    /// The first `limit` rows whose key starts with `prefix` and is greater than `after`, in the
    /// order of their keys.
    ///
    /// # Errors
    /// [`StateError`] if the store cannot be read.
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError>;
}

/// What commands read and write.
pub trait State: Reader {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`StateError`] if the store cannot be read.
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StateError>;

    /// Removes a key; one that is not there is no error.
    ///
    /// # Errors
    /// [`StateError`] if the store cannot be read.
    fn delete(&mut self, key: &[u8]) -> Result<(), StateError>;
}

impl<R: Reader + ?Sized> Reader for &R {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        (**self).get(key)
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>, StateError> {
        (**self).scan(prefix, after, limit)
    }
}
