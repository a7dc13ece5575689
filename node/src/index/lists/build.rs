//! Making the lists of an image while it answers and changes.
//!
//! Rows of an image are never renumbered. So the rows that are alive at the beginning are read a few at a
//! time, each under a short look at the image, sorted by centroids and written. Rows that die meanwhile are
//! left out or noted when the lists come to serve; rows that come meanwhile stay in memory, as the tail.

use super::super::files::{FileError, Files};
use super::super::image::{Image, SharedImage};
use super::train::{SAMPLE_PER_LIST, Trained, lists_for, train};
use super::{Entry, Lists, Shape, Writer, halves};
use holdfast_core::score::SAMPLE_ROWS_MAX;
use holdfast_core::space::SpaceKey;
use holdfast_core::vector::Vector;
use numkong::f16;
use std::sync::Arc;

/// Vectors that are read under one look at the image.
const BATCH: usize = 64;
/// Vectors that stay in memory: those of the sample, and some that take their place when these are hidden.
const RESIDENT: usize = 2 * SAMPLE_ROWS_MAX;

/// Lists that may serve an image from now on.
#[derive(Debug)]
pub(in crate::index) struct Built {
    pub(in crate::index) lists: Arc<Lists>,
    /// For each vector of the file the row that it was read from.
    pub(in crate::index) rows: Vec<u32>,
    pub(in crate::index) resident: Vec<(u32, Vec<f16>)>,
}

/// What lists are made from, and for.
pub(in crate::index) struct Site<'a> {
    pub(in crate::index) files: &'a Files,
    pub(in crate::index) space: &'a SpaceKey,
    pub(in crate::index) image: &'a SharedImage,
    /// Asked often; when it answers no, the work is given up.
    pub(in crate::index) is_wanted: &'a dyn Fn() -> bool,
}

/// A row whose list is known.
struct Placed {
    list: u32,
    row: u32,
    along: f32,
    beside: f32,
}

/// Makes lists of all vectors of an arena: of one model and length.
///
/// # Errors
/// [`FileError`]; the image answers on without.
pub(in crate::index) fn build(site: &Site<'_>, arena: usize) -> Result<Built, FileError> {
    let (mut rows, kind) = {
        let image = site.image.read();
        (image.rows_in(arena), image.vectors.kind(arena).ok_or(FileError::GivenUp)?)
    };
    // By the hash of their ids: what comes first is a sample of all.
    rows.sort_unstable();
    let rows: Vec<u32> = rows.into_iter().map(|(_, row)| row).collect();
    let trained = site.train(arena, kind.1, &rows)?;
    let placed = site.place(arena, &trained, &rows)?;
    let writer = Writer::new(site.files, site.space, kind, placed.len(), site.is_wanted)?;
    let (lists, written) = site.write(arena, &trained, writer, &placed)?;
    let sampled: std::collections::HashSet<u32> = rows.iter().take(RESIDENT).copied().collect();
    let slots = (0u32..).zip(&written).filter(|(_, row)| sampled.contains(row)).map(|(slot, _)| slot);
    let resident = residents(&lists, slots)?;
    Ok(Built { lists, rows: written, resident })
}

impl Image {
    /// Keeps those vectors of a file in memory that belong to the sample: of the rows with the smallest hashes.
    pub(in crate::index) fn keep_residents(&mut self, arena: usize) -> Result<(), FileError> {
        let Some(listed) = self.vectors.listed(arena) else { return Ok(()) };
        let lists = Arc::clone(listed.lists());
        let mut rows = self.rows_in(arena);
        if rows.len() > RESIDENT {
            rows.select_nth_unstable(RESIDENT);
            rows.truncate(RESIDENT);
        }
        let slots = rows.into_iter().filter_map(|(_, row)| self.vectors.file_slot(self.place(row)?));
        let kept = residents(&lists, slots)?;
        self.vectors.keep(arena, kept);
        Ok(())
    }
}

fn residents(lists: &Lists, slots: impl Iterator<Item = u32>) -> Result<Vec<(u32, Vec<f16>)>, FileError> {
    slots.map(|slot| Ok((slot, lists.vector(slot)?))).collect()
}

impl Site<'_> {
    fn check(&self) -> Result<(), FileError> {
        if (self.is_wanted)() { Ok(()) } else { Err(FileError::GivenUp) }
    }

    fn train(&self, arena: usize, dims: usize, rows: &[u32]) -> Result<Trained, FileError> {
        let sampled = lists_for(rows.len()) * SAMPLE_PER_LIST;
        let mut sample = Vec::with_capacity(sampled.min(rows.len()) * dims);
        self.each(arena, rows.get(..sampled).unwrap_or(rows), |_, values| {
            sample.extend_from_slice(&values);
            Ok(())
        })?;
        train(&sample, dims, rows.len(), &|| !(self.is_wanted)()).ok_or(FileError::GivenUp)
    }

    fn place(&self, arena: usize, trained: &Trained, rows: &[u32]) -> Result<Vec<Placed>, FileError> {
        let mut placed = Vec::with_capacity(rows.len());
        self.each(arena, rows, |row, values| {
            let (list, along) = trained.nearest(&values);
            let norm: f32 = values.iter().map(|value| half::f16::from_bits(value.0).to_f32().powi(2)).sum();
            let beside = (norm - along * along).max(0.0).sqrt();
            let list = u32::try_from(list).map_err(|_| FileError::Damaged("lists"))?;
            placed.push(Placed { list, row, along, beside });
            Ok(())
        })?;
        placed.sort_unstable_by_key(|placed| (placed.list, placed.row));
        Ok(placed)
    }

    fn write(
        &self,
        arena: usize,
        trained: &Trained,
        mut writer: Writer,
        placed: &[Placed],
    ) -> Result<(Arc<Lists>, Vec<u32>), FileError> {
        let mut written = Vec::with_capacity(placed.len());
        let mut odd = 0;
        for list in placed.chunk_by(|a, b| a.list == b.list) {
            let centroid = list.first().map(|placed| {
                let at = placed.list as usize * trained.dims;
                &trained.centroids[at..at + trained.dims]
            });
            for part in list.chunks(super::LIST_ROWS_MAX) {
                let rows: Vec<u32> = part.iter().map(|placed| placed.row).collect();
                let mut entries = Vec::with_capacity(part.len());
                let mut places = part.iter().peekable();
                self.each(arena, &rows, |row, values| {
                    // Those that died meanwhile are missing.
                    while places.next_if(|placed| placed.row != row).is_some() {}
                    // A vector whose length is not 1 cannot be bounded by its list: it stays in memory.
                    let vector = Vector::from_halves(&halves(&values));
                    odd += usize::from(vector.is_err());
                    if let (Some(placed), Ok(vector)) = (places.next(), vector) {
                        let seq = self.image.read().columns.seq[row as usize];
                        let Placed { along, beside, .. } = *placed;
                        entries.push(Entry { seq, vector, along, beside });
                        written.push(row);
                    }
                    Ok(())
                })?;
                writer.list(&entries, centroid)?;
            }
        }
        if odd * 16 > placed.len() {
            // They would be a tail for which lists are made anew for ever.
            return Err(FileError::Damaged("vectors whose length is not 1"));
        }
        let shape = Shape { probes: trained.probes, spread: trained.spread };
        Ok((writer.finish(self.files, shape, self.is_wanted)?, written))
    }

    /// Reads the vectors of rows, as far as they are alive, and does something with each.
    fn each(
        &self,
        arena: usize,
        rows: &[u32],
        mut work: impl FnMut(u32, Vec<f16>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        for rows in rows.chunks(BATCH) {
            self.check()?;
            let sources: Vec<_> = {
                let image = self.image.read();
                rows.iter().filter_map(|row| Some((*row, image.source(arena, *row)?))).collect()
            };
            for (row, source) in sources {
                let values = source.read().inspect_err(|_| self.image.read().vectors.note_damage())?;
                work(row, values)?;
            }
        }
        Ok(())
    }
}
