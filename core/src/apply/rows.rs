//! Typed reads and writes of rows, so that commands never touch bytes.

use super::ApplyError;
use crate::codec::Stored;
use crate::keys::{self, due::Due};
use crate::limits::BATCH_ROWS_MAX;
use crate::memory::{Counters, IndexRow, MemoryRow, SpaceRow};
use crate::space::SpaceKey;
use crate::state::{Row, State};

type Result<T> = std::result::Result<T, ApplyError>;

pub(super) struct Rows<'a, S> {
    state: &'a mut S,
    written: usize,
}

impl<'a, S: State> Rows<'a, S> {
    pub(super) fn new(state: &'a mut S) -> Self {
        Self { state, written: 0 }
    }

    /// Whether the command has changed so many rows that what may go on in another one stops here. A row that
    /// changes twice counts twice.
    pub(super) fn are_full(&self) -> bool {
        self.written >= BATCH_ROWS_MAX
    }

    pub(super) fn read<T: Stored>(&self, key: &[u8]) -> Result<Option<T>> {
        Ok(self.state.get(key)?.map(|value| T::decode(&value)).transpose()?)
    }

    pub(super) fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.state.get(key)?)
    }

    pub(super) fn exists(&self, key: &[u8]) -> Result<bool> {
        Ok(self.state.get(key)?.is_some())
    }

    pub(super) fn write<T: Stored>(&mut self, key: Vec<u8>, value: &T) -> Result<()> {
        self.put(key, value.encode()?)
    }

    pub(super) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.written += 1;
        Ok(self.state.put(key, value)?)
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.written += 1;
        Ok(self.state.delete(key)?)
    }

    pub(super) fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Row>> {
        Ok(self.state.scan(prefix, after, limit)?)
    }

    pub(super) fn memory(&self, space: &SpaceKey, id: &str) -> Result<Option<MemoryRow>> {
        self.read(&keys::memory::key(space, id))
    }

    /// The columns of a memory that exists.
    pub(super) fn index_row(&self, space: &SpaceKey, seq: u64) -> Result<IndexRow> {
        let row = self.read(&keys::index_row::key(space, seq))?;
        row.ok_or_else(|| ApplyError::Inconsistent(format!("memory {seq} of {space} has no index row")))
    }

    pub(super) fn counters(&self, space: &SpaceKey) -> Result<Counters> {
        Ok(self.read(&keys::counters::key(space))?.unwrap_or_default())
    }

    pub(super) fn write_counters(&mut self, space: &SpaceKey, counters: &Counters) -> Result<()> {
        self.write(keys::counters::key(space), counters)
    }

    pub(super) fn space_row(&self, space: &SpaceKey) -> Result<Option<SpaceRow>> {
        self.read(&keys::space_row::key(space))
    }

    /// The id of the memory that says this text already.
    pub(super) fn id_of_text(&self, space: &SpaceKey, hash: u128) -> Result<Option<String>> {
        let Some(value) = self.state.get(&keys::text_hash::key(space, hash))? else { return Ok(None) };
        match keys::text_hash::id(&value) {
            Some(id) => Ok(Some(id.to_owned())),
            None => Err(ApplyError::Inconsistent(format!("a text hash row of {space} is damaged"))),
        }
    }

    /// Makes a memory findable by its text, unless another one says the same already.
    pub(super) fn claim_text(&mut self, space: &SpaceKey, hash: u128, id: &str) -> Result<()> {
        if self.id_of_text(space, hash)?.is_none() {
            self.put(keys::text_hash::key(space, hash), keys::text_hash::value(id))?;
        }
        Ok(())
    }

    /// Takes [`Rows::claim_text`] back, if this memory had it.
    pub(super) fn release_text(&mut self, space: &SpaceKey, hash: u128, id: &str) -> Result<()> {
        if self.id_of_text(space, hash)?.as_deref() == Some(id) {
            self.delete(&keys::text_hash::key(space, hash))?;
        }
        Ok(())
    }

    /// Moves the way back to a fact from one object to another. An empty object has none.
    pub(super) fn move_edge(
        &mut self,
        space: &SpaceKey,
        fact: &[u8],
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<()> {
        let key = |object: &str| {
            let key = keys::edge::key(space, object, fact);
            key.ok_or_else(|| {
                ApplyError::Inconsistent(format!("a fact of {space} has a key of another family"))
            })
        };
        if let Some(from) = from.filter(|object| !object.is_empty()) {
            self.delete(&key(from)?)?;
        }
        if let Some(to) = to.filter(|object| !object.is_empty()) {
            self.put(key(to)?, keys::edge::value())?;
        }
        Ok(())
    }

    /// Makes a memory findable by its text, whoever says the same.
    pub(super) fn seize_text(&mut self, space: &SpaceKey, hash: u128, id: &str) -> Result<()> {
        self.put(keys::text_hash::key(space, hash), keys::text_hash::value(id))
    }

    /// Leads from the memories that one was made from to it.
    pub(super) fn put_derived(&mut self, space: &SpaceKey, id: &str, sources: &[String]) -> Result<()> {
        for source in sources {
            self.put(keys::derived::key(space, source, id), keys::derived::value())?;
        }
        Ok(())
    }

    pub(super) fn put_due(&mut self, due: &Due) -> Result<()> {
        self.put(due.key(), keys::due::value())
    }

    pub(super) fn delete_due(&mut self, due: &Due) -> Result<()> {
        self.delete(&due.key())
    }
}
