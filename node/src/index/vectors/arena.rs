use super::super::files::FileError;
use super::super::lists::{self, Listed, Spilling};
use holdfast_core::vector::Vector;
use numkong::f16;

/// The f16 vectors of one model and length. The first slots are in a file, if there is one; the others are in
/// memory, one behind the other in the order of their rows.
#[derive(Debug)]
pub(in crate::index) struct Arena {
    pub(super) model: u8,
    pub(super) dims: usize,
    pub(super) listed: Option<Listed>,
    pub(super) spilling: Option<Spilling>,
    pub(super) values: Vec<f16>,
    /// The row of each vector that is in memory.
    pub(super) rows: Vec<u32>,
    /// Vectors whose rows are alive.
    pub(super) live: usize,
}

impl Arena {
    pub(super) fn new(model: u8, dims: usize) -> Self {
        Self { model, dims, listed: None, spilling: None, values: Vec::new(), rows: Vec::new(), live: 0 }
    }

    /// Slots that are in a file.
    #[inline]
    pub(super) fn base(&self) -> usize {
        match (&self.listed, &self.spilling) {
            (Some(listed), _) => listed.len(),
            (None, Some(spilling)) => spilling.rows.len(),
            (None, None) => 0,
        }
    }

    /// The vector of a slot that is in memory.
    #[inline]
    pub(super) fn slot(&self, slot: u32) -> Option<&[f16]> {
        let start = (slot as usize).checked_sub(self.base())? * self.dims;
        self.values.get(start..start + self.dims)
    }

    /// The hash of the vector of a slot that is in a file.
    pub(super) fn print(&self, slot: u32) -> Option<u64> {
        match (&self.listed, &self.spilling) {
            (Some(listed), _) => listed.lists().print(slot),
            (None, Some(spilling)) => spilling.writer.print(slot),
            (None, None) => None,
        }
    }

    /// Moves the vectors in memory to the file that is being written. Their slots stay the same.
    pub(super) fn spill(&mut self, seq_of: impl Fn(u32) -> u64) -> std::result::Result<(), FileError> {
        let Some(spilling) = &mut self.spilling else { return Ok(()) };
        let lists = self.values.chunks(self.dims.max(1) * lists::LIST_ROWS_MAX);
        for (rows, values) in self.rows.chunks(lists::LIST_ROWS_MAX).zip(lists) {
            let mut entries = Vec::with_capacity(rows.len());
            for (row, values) in rows.iter().zip(values.chunks_exact(self.dims.max(1))) {
                let vector = Vector::from_halves(&lists::halves(values))
                    .map_err(|_| FileError::Damaged("a vector whose length is not 1"))?;
                entries.push(lists::Entry { seq: seq_of(*row), vector, along: 0.0, beside: 1.0 });
            }
            spilling.writer.list(&entries, None)?;
        }
        spilling.rows.append(&mut self.rows);
        // What was there before the file was begun may have been much.
        self.values = Vec::new();
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        let spilling = self.spilling.as_ref();
        size_of::<Self>()
            + self.values.capacity() * size_of::<f16>()
            + self.rows.capacity() * size_of::<u32>()
            + self.listed.as_ref().map_or(0, Listed::bytes)
            + spilling
                .map_or(0, |spilling| spilling.writer.bytes() + spilling.rows.capacity() * size_of::<u32>())
    }
}
