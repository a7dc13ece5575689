//! Moving vectors from memory to files of lists, and back into their hands.

use super::super::files::{FileError, Files};
use super::super::lists::{self, Listed, Lists, Spilling, Writer};
use super::{Arena, Place, Vectors};
use holdfast_core::score::NONE;
use numkong::f16;
use std::sync::Arc;

/// Vectors that go into the file at once while an image is loaded.
const SPILL_VECTORS: usize = lists::LIST_ROWS_MAX;
/// Fewer are not worth beginning a file for, however short memory is.
const SPILL_MIN: usize = 256;

impl Vectors {
    /// Takes the vectors of a file, before the first row comes.
    pub(in crate::index) fn offer(&mut self, lists: Arc<Lists>, seqs: &[u64]) {
        let at = self.arena_for(lists.model, lists.dims);
        self.arenas[at].listed = Some(Listed::unclaimed(lists, seqs));
    }

    /// Whether an arena is being written to a file.
    pub(in crate::index) fn is_spilling(&self, arena: usize) -> bool {
        self.arenas.get(arena).is_some_and(|arena| arena.spilling.is_some())
    }

    /// Writes what an arena has in memory to a file, while the image is loaded: if it is worth a list, or if all of
    /// it has to go `now`. `seq_of` knows the seq of a row.
    pub(in crate::index) fn spill(
        &mut self,
        arena: usize,
        now: bool,
        seq_of: impl Fn(u32) -> u64,
        begin: impl FnOnce((u8, usize), usize) -> Result<Writer, FileError>,
    ) -> Result<(), FileError> {
        let Some(arena) = self.arenas.get_mut(arena).filter(|arena| arena.listed.is_none()) else {
            return Ok(());
        };
        let worth_it = match (now, &arena.spilling) {
            (false, _) => SPILL_VECTORS,
            (true, Some(_)) => 1,
            (true, None) => SPILL_MIN,
        };
        if arena.rows.len() < worth_it {
            return Ok(());
        }
        if arena.spilling.is_none() {
            let writer = begin((arena.model, arena.dims), arena.live)?;
            arena.spilling = Some(Spilling { writer, rows: Vec::new() });
        }
        arena.spill(seq_of)
    }

    /// Ends the files that were begun: the vectors in them are read from there from now on.
    pub(in crate::index) fn spilled(
        &mut self,
        files: &Files,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        for arena in &mut self.arenas {
            if let Some(Spilling { writer, rows }) = arena.spilling.take() {
                let shape = lists::Shape { probes: 0, spread: 1.0 };
                let lists = writer.finish(files, shape, is_wanted)?;
                arena.listed = Some(Listed::of(lists, rows));
            }
        }
        Ok(())
    }

    /// Ends the loading: what was not claimed of a file belongs to nobody.
    pub(in crate::index) fn claimed(&mut self) {
        self.arenas.iter_mut().filter_map(|arena| arena.listed.as_mut()).for_each(Listed::claimed);
    }

    /// Keeps vectors of a file in memory.
    pub(in crate::index) fn keep(&mut self, arena: usize, vectors: Vec<(u32, Vec<f16>)>) {
        if let Some(listed) = self.arenas.get_mut(arena).and_then(|arena| arena.listed.as_mut()) {
            listed.keep(vectors);
        }
    }

    /// Takes vectors in a file in place of those that an arena has. `places` are those of all rows; rows that
    /// are dead or of another arena are none for it. Answers what it had, to be freed when nobody waits; `None`
    /// if a row would lose its vector.
    pub(in crate::index) fn adopt(
        &mut self,
        at: usize,
        lists: Arc<Lists>,
        mut rows: Vec<u32>,
        places: &mut [Place],
        is_live: impl Fn(u32) -> bool,
    ) -> Option<Arena> {
        let number = u32::try_from(at).ok()?;
        let arena = self.arenas.get(at)?;
        let mut is_listed = vec![false; places.len()];
        for row in &mut rows {
            let place = places.get(*row as usize);
            if place.is_some_and(|place| place.arena == number) && is_live(*row) {
                is_listed[*row as usize] = true;
            } else {
                *row = NONE;
            }
        }
        let mut fresh = Arena::new(arena.model, arena.dims);
        fresh.live = arena.live;
        for (row, values) in arena.rows.iter().zip(arena.values.chunks_exact(arena.dims.max(1))) {
            if is_live(*row) && !is_listed[*row as usize] {
                fresh.rows.push(*row);
                fresh.values.extend_from_slice(values);
                is_listed[*row as usize] = true;
            }
        }
        let is_lost =
            |(row, place): (u32, &Place)| place.arena == number && is_live(row) && !is_listed[row as usize];
        if (0u32..).zip(places.iter()).any(is_lost) {
            return None;
        }
        let base = u32::try_from(rows.len()).ok()?;
        let tail = fresh.rows.iter().zip(base..);
        let listed = rows.iter().zip(0u32..).filter(|(row, _)| **row != NONE);
        for (row, slot) in listed.chain(tail) {
            places[*row as usize].slot = slot;
        }
        fresh.listed = Some(Listed::of(lists, rows));
        self.arenas.get_mut(at).map(|arena| std::mem::replace(arena, fresh))
    }
}
