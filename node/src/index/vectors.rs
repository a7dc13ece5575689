//! The vectors of an image: one contiguous buffer for each embedding model.

use holdfast_core::vector::{Vector, normalise};
use holdfast_core::{Error, Result};
use numkong::{Dot, f16};

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

/// The f16 vectors of one model and length, one behind the other in the order of their rows.
#[derive(Debug)]
struct Arena {
    model: u8,
    dims: usize,
    values: Vec<f16>,
    /// Vectors whose rows are alive.
    live: usize,
}

/// What a cosine can be off by the rounding of sums in f32.
pub(super) const ROUNDING: f32 = 1e-4;

/// All vectors of an image. Those of other models or lengths are never compared with each other.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    arenas: Vec<Arena>,
}

/// The vector of a query and the arena that it is compared with.
#[derive(Debug)]
pub(super) struct Probe<'a> {
    values: Vec<f16>,
    arena: Option<(u32, &'a Arena)>,
}

impl Vectors {
    /// Appends the vector of a row.
    pub(super) fn push(&mut self, vector: &Vector) -> Place {
        let dims = vector.dims();
        let same = |arena: &Arena| arena.model == vector.model && arena.dims == dims;
        let at = self.arenas.iter().position(same).unwrap_or_else(|| {
            self.arenas.push(Arena { model: vector.model, dims, values: Vec::new(), live: 0 });
            self.arenas.len() - 1
        });
        let arena = &mut self.arenas[at];
        let slot = arena.values.len() / dims.max(1);
        arena.values.extend(vector.to_halves().map(|half| f16(half.to_bits())));
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

    /// Numbers in each vector of an arena.
    pub(super) fn dims(&self, arena: usize) -> usize {
        self.arenas.get(arena).map_or(0, |arena| arena.dims)
    }

    /// The vector at a place, if it is in this arena.
    pub(super) fn in_arena(&self, arena: usize, place: Place) -> Option<&[f16]> {
        self.get(place).filter(|_| place.arena as usize == arena).map(|(_, values)| values)
    }

    /// Whether the vector at a place is this one.
    pub(super) fn same(&self, place: Place, vector: Option<&Vector>) -> bool {
        match (self.get(place), vector) {
            (None, None) => true,
            (Some((arena, values)), Some(vector)) => {
                let halves = vector.to_halves().map(half::f16::to_bits);
                arena.model == vector.model
                    && values.len() == vector.dims()
                    && values.iter().map(|value| value.0).eq(halves)
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

    fn get(&self, place: Place) -> Option<(&Arena, &[f16])> {
        let arena = self.arenas.get(place.arena as usize)?;
        arena.slot(place.slot).map(|values| (arena, values))
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.arenas.iter().map(|arena| size_of::<Arena>() + arena.values.capacity() * size_of::<f16>()).sum()
    }

    pub(super) fn shrink(&mut self) {
        self.arenas.iter_mut().for_each(|arena| arena.values.shrink_to_fit());
    }
}

impl Arena {
    #[inline]
    fn slot(&self, slot: u32) -> Option<&[f16]> {
        let start = slot as usize * self.dims;
        self.values.get(start..start + self.dims)
    }
}

impl Probe<'_> {
    /// The arena whose vectors it is compared with.
    pub(super) fn arena(&self) -> Option<u32> {
        self.arena.map(|(number, _)| number)
    }

    /// The vector of the query, of unit length.
    pub(super) fn values(&self) -> &[f16] {
        &self.values
    }

    /// The cosine with the vector at a place: the dot product of two vectors of unit length. None
    /// if there is no vector there that may be compared with.
    #[inline]
    pub(super) fn cosine(&self, place: Place) -> Option<f32> {
        let (number, arena) = self.arena?;
        if place.arena != number {
            return None;
        }
        // Both sides have `arena.dims` values, the only thing that numkong asks for.
        f16::dot(&self.values, arena.slot(place.slot)?)
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
        let a = vectors.push(&first);
        let b = vectors.push(&other);
        assert!(vectors.same(a, Some(&first)) && !vectors.same(a, Some(&other)) && !vectors.same(a, None));
        assert!(vectors.same(Place::NOWHERE, None) && !vectors.same(Place::NOWHERE, Some(&first)));
        let probe = vectors.probe(0, &[2.0, 0.0]).unwrap();
        assert_eq!((probe.cosine(a), probe.cosine(b), probe.cosine(Place::NOWHERE)), (Some(1.0), None, None));
        assert_eq!(vectors.probe(7, &[1.0; 9]).unwrap().cosine(a), None);
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
            let place = vectors.push(&Vector::quantise(&row).unwrap());
            let got = vectors.probe(0, &query).unwrap().cosine(place).unwrap();
            prop_assert!((f64::from(got) - exact).abs() < 1e-3, "{got} {exact}");
        }
    }
}
