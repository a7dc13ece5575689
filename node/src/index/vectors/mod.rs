//! The vectors of an image: one contiguous buffer for each embedding model, or a file of lists.

mod arena;
mod filed;

pub(super) use arena::Arena;

use super::files::FileError;
use super::lists::{self, Listed, Lists};
use holdfast_core::vector::{Vector, normalise};
use holdfast_core::{Error, Result};
use numkong::{Dot, f16};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the vector of a row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) arena: u32,
    slot: u32,
}

impl Place {
    /// Of a row that has no vector.
    pub(super) const NOWHERE: Self = Self { arena: u32::MAX, slot: u32::MAX };
}

/// What a cosine can be off by the rounding of sums in f32.
pub(super) const ROUNDING: f32 = 1e-4;

/// All vectors of an image. Those of other models or lengths are never compared with each other.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    arenas: Vec<Arena>,
    /// A vector could not be read from its file: the image is of no use any more.
    damaged: Arc<AtomicBool>,
}

/// The vector of a query and the arena that it is compared with.
#[derive(Debug)]
pub(super) struct Probe<'a> {
    values: Vec<f16>,
    arena: Option<(u32, &'a Arena)>,
}

/// From where a vector can be read when nobody looks at the image.
pub(super) enum Source {
    Memory(Vec<f16>),
    File(Arc<Lists>, u32),
}

impl Source {
    pub(super) fn read(self) -> std::result::Result<Vec<f16>, FileError> {
        match self {
            Self::Memory(values) => Ok(values),
            Self::File(lists, slot) => lists.vector(slot),
        }
    }
}

impl Vectors {
    /// Appends the vector of a row. One that a file has stays there.
    pub(super) fn push(&mut self, row: u32, seq: u64, vector: &Vector) -> Place {
        let at = self.arena_for(vector.model, vector.dims());
        let arena = &mut self.arenas[at];
        let print = || lists::print(vector.model, &vector.halves);
        let claimed = arena.listed.as_mut().and_then(|listed| listed.claim(seq, print(), row));
        let slot = claimed.map_or_else(
            || {
                let slot = arena.base() + arena.rows.len();
                arena.values.extend(vector.to_halves().map(|half| f16(half.to_bits())));
                arena.rows.push(row);
                slot
            },
            |slot| slot as usize,
        );
        arena.live += 1;
        match (u32::try_from(at), u32::try_from(slot)) {
            (Ok(arena), Ok(slot)) => Place { arena, slot },
            // 2^32 vectors do not fit in memory.
            _ => Place::NOWHERE,
        }
    }

    /// Notes that the row of a vector died.
    pub(super) fn release(&mut self, place: Place) {
        if let Some(arena) = self.arenas.get_mut(place.arena as usize) {
            arena.live = arena.live.saturating_sub(1);
            if let Some(listed) = arena.listed.as_mut().filter(|listed| (place.slot as usize) < listed.len())
            {
                listed.died(place.slot);
            }
        }
    }

    /// How many models and lengths there are: their arenas are numbered from 0.
    pub(super) fn arenas(&self) -> usize {
        self.arenas.len()
    }

    /// Vectors of an arena whose rows are alive.
    pub(super) fn live(&self, arena: usize) -> usize {
        self.arenas.get(arena).map_or(0, |arena| arena.live)
    }

    /// Model and length of the vectors of an arena.
    pub(super) fn kind(&self, arena: usize) -> Option<(u8, usize)> {
        self.arenas.get(arena).map(|arena| (arena.model, arena.dims))
    }

    /// Numbers in each vector of an arena.
    pub(super) fn dims(&self, arena: usize) -> usize {
        self.arenas.get(arena).map_or(0, |arena| arena.dims)
    }

    /// The lists of an arena.
    pub(super) fn listed(&self, arena: usize) -> Option<&Listed> {
        self.arenas.get(arena)?.listed.as_ref()
    }

    /// Vectors of an arena that are in memory although it has lists.
    pub(super) fn tail(&self, arena: usize) -> usize {
        self.arenas.get(arena).map_or(0, |arena| arena.rows.len())
    }

    /// The vector at a place, if it is in this arena and in memory.
    pub(super) fn in_arena(&self, arena: usize, place: Place) -> Option<&[f16]> {
        let found = self.arenas.get(arena).filter(|_| place.arena as usize == arena)?;
        found.slot(place.slot)
    }

    /// From where the vector at a place can be read, if it is in this arena.
    pub(super) fn source(&self, arena: usize, place: Place) -> Option<Source> {
        if place.arena as usize != arena {
            return None;
        }
        match self.file_slot(place) {
            Some(slot) => Some(Source::File(Arc::clone(self.listed(arena)?.lists()), slot)),
            None => self.in_arena(arena, place).map(|values| Source::Memory(values.to_vec())),
        }
    }

    /// The number of a vector in the file, if it is there.
    pub(super) fn file_slot(&self, place: Place) -> Option<u32> {
        let arena = self.arenas.get(place.arena as usize)?;
        arena.listed.as_ref().filter(|listed| (place.slot as usize) < listed.len()).map(|_| place.slot)
    }

    /// Whether the vector at a place is this one. One that is in a file is told by its hash.
    pub(super) fn same(&self, place: Place, vector: Option<&Vector>) -> bool {
        match (self.arenas.get(place.arena as usize), vector) {
            (None, None) => true,
            (Some(arena), Some(vector)) => {
                let is_kin = arena.model == vector.model && arena.dims == vector.dims();
                is_kin
                    && match (arena.slot(place.slot), arena.print(place.slot)) {
                        (Some(values), _) => same_bits(values, vector),
                        (None, print) => print == Some(lists::print(vector.model, &vector.halves)),
                    }
            }
            _ => false,
        }
    }

    /// Prepares the vector of a query for rows whose vectors `model` made.
    ///
    /// # Errors
    /// If the vector has no direction, or another length than the model's.
    pub(super) fn probe(&self, model: u8, query: &[f32]) -> Result<Probe<'_>> {
        let unit = normalise(query)?;
        let values: Vec<f16> = unit.iter().map(|value| f16(half::f16::from_f32(*value).to_bits())).collect();
        let of_model = || (0..).zip(&self.arenas).filter(|(_, arena)| arena.model == model);
        let arena = of_model().find(|(_, arena)| arena.dims == query.len());
        if arena.is_none()
            && let Some((_, other)) = of_model().next()
        {
            let detail = format!(
                "the vectors of this space have {} dimensions, this one has {}",
                other.dims,
                query.len()
            );
            return Err(Error::invalid("embedding", detail));
        }
        Ok(Probe { values, arena })
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.arenas.iter().map(Arena::bytes).sum()
    }

    /// Memory of the lists, in bytes, and how many arenas have some.
    pub(super) fn lists_size(&self) -> (usize, usize) {
        let listed = self.arenas.iter().filter_map(|arena| arena.listed.as_ref());
        listed.fold((0, 0), |(bytes, count), listed| (bytes + listed.bytes(), count + 1))
    }

    pub(super) fn shrink(&mut self) {
        for arena in &mut self.arenas {
            arena.values.shrink_to_fit();
            arena.rows.shrink_to_fit();
        }
    }

    /// Whether a vector could not be read.
    pub(super) fn damage(&self) -> &Arc<AtomicBool> {
        &self.damaged
    }

    /// Notes that one could not.
    pub(super) fn note_damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    fn arena_for(&mut self, model: u8, dims: usize) -> usize {
        let same = |arena: &Arena| arena.model == model && arena.dims == dims;
        self.arenas.iter().position(same).unwrap_or_else(|| {
            self.arenas.push(Arena::new(model, dims));
            self.arenas.len() - 1
        })
    }
}

fn same_bits(values: &[f16], vector: &Vector) -> bool {
    values.iter().map(|value| value.0).eq(vector.to_halves().map(half::f16::to_bits))
}

impl Probe<'_> {
    /// The arena whose vectors it is compared with.
    pub(super) fn arena(&self) -> Option<u32> {
        self.arena.map(|(number, _)| number)
    }

    /// The lists of that arena.
    pub(super) fn listed(&self) -> Option<&Listed> {
        self.arena?.1.listed.as_ref()
    }

    /// The rows of that arena whose vectors are in memory, dead ones among them.
    pub(super) fn tail(&self) -> &[u32] {
        self.arena.map_or(&[], |(_, arena)| &arena.rows)
    }

    /// The vector of the query, of unit length.
    pub(super) fn values(&self) -> &[f16] {
        &self.values
    }

    /// Whether the vector at a place has to be read from a file.
    #[inline]
    pub(super) fn is_far(&self, place: Place) -> bool {
        self.arena.is_some_and(|(number, arena)| {
            place.arena == number
                && arena.listed.as_ref().is_some_and(|listed| (place.slot as usize) < listed.len())
        })
    }

    /// The cosine with the vector at a place: the dot product of two vectors of unit length. None
    /// if there is no vector there that may be compared with.
    ///
    /// # Errors
    /// If it is in a file and cannot be read.
    #[inline]
    pub(super) fn cosine(&self, place: Place) -> std::result::Result<Option<f32>, FileError> {
        let Some((_, arena)) = self.arena.filter(|(number, _)| place.arena == *number) else {
            return Ok(None);
        };
        // Both sides have `arena.dims` values, the only thing that numkong asks for.
        match &arena.listed {
            Some(listed) if (place.slot as usize) < listed.len() => {
                listed.with(place.slot, |values| f16::dot(&self.values, values))
            }
            _ => Ok(arena.slot(place.slot).and_then(|values| f16::dot(&self.values, values))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn models_and_lengths_stay_apart() {
        let mut vectors = Vectors::default();
        let first = Vector::quantise(&[1.0, 0.0]).unwrap();
        let mut other = Vector::quantise(&[1.0, 0.0]).unwrap();
        other.model = 1;
        let a = vectors.push(0, 1, &first);
        let b = vectors.push(1, 2, &other);
        assert!(vectors.same(a, Some(&first)) && !vectors.same(a, Some(&other)) && !vectors.same(a, None));
        assert!(vectors.same(Place::NOWHERE, None) && !vectors.same(Place::NOWHERE, Some(&first)));
        let probe = vectors.probe(0, &[2.0, 0.0]).unwrap();
        let cosine = |place| probe.cosine(place).unwrap();
        assert_eq!((cosine(a), cosine(b), cosine(Place::NOWHERE)), (Some(1.0), None, None));
        assert_eq!(vectors.probe(7, &[1.0; 9]).unwrap().cosine(a).unwrap(), None);
        for bad in [&[1.0f32; 3][..], &[], &[0.0, 0.0], &[f32::NAN, 1.0]] {
            assert!(vectors.probe(0, bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        /// Against a plain loop in f64 over what the caller gave, at every length that a SIMD
        /// kernel could treat in another way.
        #[test]
        fn cosines_are_right_within_a_thousandth(
            pair in prop::collection::vec((-1f32..1.0, -1f32..1.0), 1..200),
        ) {
            let (row, query): (Vec<f32>, Vec<f32>) = pair.into_iter().unzip();
            let (Ok(unit_row), Ok(unit_query)) = (normalise(&row), normalise(&query)) else { return Ok(()) };
            let exact: f64 = unit_row.iter().zip(&unit_query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let mut vectors = Vectors::default();
            let place = vectors.push(0, 1, &Vector::quantise(&row).unwrap());
            let got = vectors.probe(0, &query).unwrap().cosine(place).unwrap().unwrap();
            prop_assert!((f64::from(got) - exact).abs() < 1e-3, "{got} {exact}");
        }
    }
}
