use super::super::files::{Draft, FileError, Files, seal};
use super::{Footer, LIST_ROWS_MAX, Lists, MARK, NUMBERS, RowNote, print};
use holdfast_core::space::SpaceKey;
use holdfast_core::vector::Vector;
use numkong::f16;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Writes a file of lists, one list after the other.
#[derive(Debug)]
pub(in crate::index) struct Writer {
    draft: Draft,
    name: String,
    footer: Footer,
}

/// A vector on its way into a list.
#[derive(Debug)]
pub(in crate::index) struct Entry {
    pub(in crate::index) seq: u64,
    pub(in crate::index) vector: Vector,
    pub(in crate::index) along: f32,
    pub(in crate::index) beside: f32,
}

/// What training found.
#[derive(Debug, Clone, Copy)]
pub(in crate::index) struct Shape {
    pub(in crate::index) probes: usize,
    pub(in crate::index) spread: f32,
}

impl Writer {
    /// Begins a file for the vectors of one model.
    pub(in crate::index) fn new(
        files: &Files,
        space: &SpaceKey,
        (model, dims): (u8, usize),
        vectors: usize,
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<Self, FileError> {
        let name = super::file_name(model, dims);
        let draft = files.draft(space, &name, super::file_bytes(vectors, dims), is_wanted)?;
        let dims = u32::try_from(dims).map_err(|_| FileError::Damaged("dimensions"))?;
        let footer = Footer {
            space: space.clone(),
            model,
            dims,
            probes: 0,
            spread: 1.0,
            lists: Vec::new(),
            centroids: Vec::new(),
            rows: Vec::new(),
        };
        Ok(Self { draft, name, footer })
    }

    /// Appends vectors as one list, or as several if they are very many.
    pub(in crate::index) fn list(
        &mut self,
        entries: &[Entry],
        centroid: Option<&[f16]>,
    ) -> Result<(), FileError> {
        for entries in entries.chunks(LIST_ROWS_MAX) {
            let mut codes = Vec::with_capacity(entries.len() * (self.footer.dims as usize + NUMBERS));
            entries.iter().for_each(|entry| codes.extend_from_slice(&entry.vector.codes));
            for Entry { vector, .. } in entries {
                codes.extend_from_slice(&vector.scale.to_le_bytes());
                codes.extend_from_slice(&vector.code_error.to_le_bytes());
            }
            self.draft.has_room(super::file_bytes(entries.len(), self.footer.dims as usize))?;
            let mut out = BufWriter::with_capacity(1 << 18, &self.draft.file);
            out.write_all(&codes)?;
            for entry in entries {
                out.write_all(&entry.vector.halves)?;
                self.footer.rows.push(RowNote {
                    seq: entry.seq,
                    print: print(self.footer.model, &entry.vector.halves),
                    along: entry.along,
                    beside: entry.beside,
                });
            }
            out.flush()?;
            let rows = u32::try_from(entries.len()).map_err(|_| FileError::Damaged("lists"))?;
            self.footer.lists.push((rows, xxh3_64(&codes)));
            self.footer.centroids.extend(centroid.unwrap_or_default().iter().map(|value| value.0));
        }
        Ok(())
    }

    /// The hash of a vector that was written, by its number.
    pub(in crate::index) fn print(&self, slot: u32) -> Option<u64> {
        self.footer.rows.get(slot as usize).map(|row| row.print)
    }

    /// Memory in use, in bytes.
    pub(in crate::index) fn bytes(&self) -> usize {
        self.footer.rows.capacity() * size_of::<RowNote>()
    }

    /// Ends the file, puts it in its place and opens it.
    pub(in crate::index) fn finish(
        mut self,
        files: &Files,
        shape: Shape,
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<Arc<Lists>, FileError> {
        self.footer.probes = u32::try_from(shape.probes).unwrap_or(u32::MAX);
        self.footer.spread = shape.spread;
        let space = self.footer.space.clone();
        let end = seal(&self.footer, MARK)?;
        let mut file = &self.draft.file;
        file.write_all(&end)?;
        files.publish(self.draft, is_wanted)?;
        // What was written is what is read from here on.
        Ok(Lists::open(&files.path(&space, &self.name)?, &space)?.0)
    }
}
