use super::super::files::FileError;
use super::{Lists, Writer};
use holdfast_core::score::NONE;
use numkong::f16;
use std::collections::HashMap;
use std::sync::Arc;

/// Fewer changes are not worth making lists anew.
const CHANGES_MIN: usize = 256;

/// The vectors of an image that are in a file. A vector is known by its number in the file, its slot.
#[derive(Debug)]
pub(in crate::index) struct Listed {
    lists: Arc<Lists>,
    /// The row of each vector; [`NONE`] where it is not a vector of this image (any more).
    rows: Vec<u32>,
    alive: usize,
    /// Vectors that stay in memory, because every query compares them: those of the sample.
    resident: HashMap<u32, Box<[f16]>>,
    /// While the image is loaded: where the vectors of the memories are.
    by_seq: HashMap<u64, u32>,
}

/// The vectors of an image that is being loaded, on their way into a file.
#[derive(Debug)]
pub(in crate::index) struct Spilling {
    pub(in crate::index) writer: Writer,
    pub(in crate::index) rows: Vec<u32>,
}

impl Listed {
    /// The vectors of a file, of which it is not known yet to which rows they belong.
    pub(in crate::index) fn unclaimed(lists: Arc<Lists>, seqs: &[u64]) -> Self {
        let rows = vec![NONE; lists.len()];
        let by_seq = seqs.iter().copied().zip(0u32..).collect();
        Self { lists, rows, alive: 0, resident: HashMap::new(), by_seq }
    }

    /// The vectors of a file, of the given rows.
    pub(in crate::index) fn of(lists: Arc<Lists>, rows: Vec<u32>) -> Self {
        let alive = rows.iter().filter(|row| **row != NONE).count();
        Self { lists, rows, alive, resident: HashMap::new(), by_seq: HashMap::new() }
    }

    pub(in crate::index) fn lists(&self) -> &Arc<Lists> {
        &self.lists
    }

    /// Vectors in the file, those of no row included.
    pub(in crate::index) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Gives a row its vector, if the file has it.
    pub(in crate::index) fn claim(&mut self, seq: u64, print: u64, row: u32) -> Option<u32> {
        let slot = *self.by_seq.get(&seq)?;
        let free = self.rows.get_mut(slot as usize).filter(|row| **row == NONE)?;
        if self.lists.print(slot) != Some(print) {
            return None;
        }
        *free = row;
        self.alive += 1;
        Some(slot)
    }

    /// Ends the loading.
    pub(in crate::index) fn claimed(&mut self) {
        self.by_seq = HashMap::new();
    }

    /// Notes that the row of a vector died.
    pub(in crate::index) fn died(&mut self, slot: u32) {
        if let Some(row) = self.rows.get_mut(slot as usize).filter(|row| **row != NONE) {
            *row = NONE;
            self.alive -= 1;
            self.resident.remove(&slot);
        }
    }

    /// The row of a vector, if it is alive.
    #[inline]
    pub(in crate::index) fn row(&self, slot: u32) -> Option<u32> {
        self.rows.get(slot as usize).copied().filter(|row| *row != NONE)
    }

    /// Whether the lists should be made anew: a fifth of the vectors are dead, or those that are still in memory
    /// are an eighth of all.
    pub(in crate::index) fn is_worn(&self, tail: usize) -> bool {
        let (len, dead) = (self.rows.len(), self.rows.len() - self.alive);
        (tail >= CHANGES_MIN && tail * 8 >= len) || (dead >= CHANGES_MIN && dead * 5 >= len)
    }

    /// Does something with a vector, which is read from the file if it is not in memory.
    pub(in crate::index) fn with<T>(
        &self,
        slot: u32,
        work: impl FnOnce(&[f16]) -> T,
    ) -> Result<T, FileError> {
        match self.resident.get(&slot) {
            Some(values) => Ok(work(values)),
            None => Ok(work(&self.lists.vector(slot)?)),
        }
    }

    /// Keeps vectors in memory from now on.
    pub(in crate::index) fn keep(&mut self, vectors: impl IntoIterator<Item = (u32, Vec<f16>)>) {
        self.resident.extend(vectors.into_iter().map(|(slot, values)| (slot, values.into_boxed_slice())));
    }

    /// Memory in use, in bytes.
    pub(in crate::index) fn bytes(&self) -> usize {
        let resident = size_of::<(u32, Box<[f16]>)>() + self.lists.dims * size_of::<f16>();
        size_of::<Self>()
            + self.lists.bytes()
            + self.rows.capacity() * size_of::<u32>()
            + self.resident.len() * resident
            + self.by_seq.capacity() * (size_of::<(u64, u32)>() + 1)
    }
}
