//! What lists say of a query: which rows are near, and how near the others can be at the most.

use super::super::files::FileError;
use super::super::image::Image;
use super::super::lists::{Codes, Listed, halves};
use super::super::vectors::{Probe, ROUNDING};
use super::cosines::{NEAREST, compared};
use holdfast_core::vector::Vector;
use numkong::{Dot, f16};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// A stored vector in f16 is at most so long.
const LENGTH_MAX: f32 = 1.01;
/// What rounding does to the parts along and beside a centroid.
const LIE_ROUNDING: f32 = 1e-3;

/// What is known of the rows whose vectors are in lists.
pub(super) struct Probed {
    /// The rows that seem to be the nearest by their codes.
    pub(super) found: Vec<u32>,
    /// For each row the most that its cosine can be: of those in the lists that were looked into by their codes,
    /// of others by how they lie to their centroid.
    most: Vec<f32>,
}

/// A row and its cosine by the codes, the nearest first in the order.
#[derive(PartialEq)]
struct Near(f32, u32);

impl Eq for Near {}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Probed {
    /// Looks into the nearest lists, and compares the rows that are found and those that are in no list.
    pub(super) fn new(
        image: &Image,
        probe: &Probe<'_>,
        flags: &[u8],
        out: &mut [f32],
    ) -> Result<Self, FileError> {
        let Some(listed) = probe.listed() else {
            return Ok(Self { found: Vec::new(), most: Vec::new() });
        };
        let mut probed = Self { found: Vec::new(), most: vec![1.0; flags.len()] };
        let is_compared = |row: u32| flags.get(row as usize).is_some_and(|flags| compared(*flags));
        let lists = listed.lists();
        let order = nearest_lists(listed, probe);
        let probes = if lists.is_plain() { order.len() } else { lists.probes };
        let query = Vector::from_halves(&halves(probe.values())).ok();
        let query = query.map(|query| (query.codes.iter().map(|code| code.cast_signed()).collect(), query));
        let (mut codes, mut near) = (Codes::default(), BinaryHeap::with_capacity(NEAREST + 1));
        let (mut place, mut last) = (0, f32::NAN);
        for (list, own) in order {
            // Probes are centroids: a list that is too long is several of one centroid, with one cosine.
            if own.to_bits() != last.to_bits() || lists.is_plain() {
                (place, last) = (place + 1, own);
            }
            match &query {
                Some(query) if place <= probes => {
                    lists.codes(list, &mut codes)?;
                    let slots = lists.range(list).zip(codes.iter(lists.dims));
                    for (slot, code) in slots {
                        let Some(row) = listed.row(slot).filter(|row| is_compared(*row)) else { continue };
                        let (about, error) = by_codes(query, code);
                        probed.set(row, about + error);
                        near.push(Reverse(Near(about, row)));
                        if near.len() > NEAREST {
                            near.pop();
                        }
                    }
                }
                Some(_) => probed.bound(listed, list, own),
                None => {}
            }
        }
        probed.found = near.into_iter().map(|Reverse(Near(_, row))| row).collect();
        let tail = probe.tail().iter().filter(|row| is_compared(**row));
        for row in probed.found.iter().chain(tail) {
            if let (Some(out), Some(place)) = (out.get_mut(*row as usize), image.place(*row))
                && let Some(cosine) = probe.cosine(place)?
            {
                *out = cosine;
            }
        }
        Ok(probed)
    }

    /// Nothing is known but what was compared, of which the nearest come first.
    pub(super) fn of_compared(cosines: &[f32]) -> Self {
        let mut compared: Vec<(u32, f32)> = (0u32..)
            .zip(cosines)
            .filter(|(_, cosine)| cosine.is_finite())
            .map(|(row, cosine)| (row, *cosine))
            .collect();
        compared.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Self { found: compared.into_iter().take(NEAREST).map(|(row, _)| row).collect(), most: Vec::new() }
    }

    /// The most that the cosine of a row can be.
    #[inline]
    pub(super) fn most(&self, at: usize) -> f32 {
        self.most.get(at).copied().unwrap_or(1.0)
    }

    fn set(&mut self, row: u32, most: f32) {
        if let Some(of_row) = self.most.get_mut(row as usize) {
            *of_row = most.min(1.0);
        }
    }

    /// Bounds the cosines of the rows of a list that is not looked into. With q = b c + s and x = a c + r, where
    /// c is the centroid and s and r are at right angles to it, q x = a b + s r; and s r is at most a part of
    /// |s| |r|, the `spread` that was measured in training.
    fn bound(&mut self, listed: &Listed, list: usize, own: f32) {
        let lists = listed.lists();
        let beside = lists.spread * (LENGTH_MAX * LENGTH_MAX - own * own).max(0.0).sqrt();
        for slot in lists.range(list) {
            if let Some(row) = listed.row(slot) {
                let (along, rest) = lists.lie(slot);
                self.set(row, along * own + beside * rest + LIE_ROUNDING);
            }
        }
    }
}

/// The lists, those with the nearest centroids first, each with the cosine of its centroid.
fn nearest_lists(listed: &Listed, probe: &Probe<'_>) -> Vec<(usize, f32)> {
    let lists = listed.lists();
    let cosine = |list| {
        let centroid = lists.centroid(list);
        centroid.and_then(|centroid| f16::dot(probe.values(), centroid)).unwrap_or(0.0)
    };
    let mut order: Vec<(usize, f32)> = (0..lists.count()).map(|list| (list, cosine(list))).collect();
    order.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    order
}

/// About the cosine, by the codes of query and row, and what it can be off: by Cauchy and Schwarz the error of
/// the row's code times the length of the query, and the error of the query's times the length of the code.
fn by_codes((query_codes, query): &(Vec<i8>, Vector), row: (&[i8], f32, f32)) -> (f32, f32) {
    let (codes, scale, code_error) = row;
    let dot = i8::dot(query_codes, codes).unwrap_or(0);
    let about = dot as f32 * scale * query.scale;
    let error = LENGTH_MAX * code_error + query.code_error * (LENGTH_MAX + code_error) + ROUNDING;
    (about, error)
}

/// Compares every row, those in memory first and the others list by list, the nearest first: where all places are
/// asked for. Answers whether there was time for all.
pub(super) fn compare_all(
    image: &Image,
    probe: &Probe<'_>,
    flags: &[u8],
    out: &mut [f32],
    ends: Option<Instant>,
) -> Result<bool, FileError> {
    let Some(listed) = probe.listed() else { return Ok(true) };
    let is_compared = |row: u32| flags.get(row as usize).is_some_and(|flags| compared(*flags));
    for row in probe.tail().iter().filter(|row| is_compared(**row)) {
        if let (Some(out), Some(place)) = (out.get_mut(*row as usize), image.place(*row))
            && let Some(cosine) = probe.cosine(place)?
        {
            *out = cosine;
        }
    }
    let lists = listed.lists();
    for (list, _) in nearest_lists(listed, probe) {
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            return Ok(false);
        }
        for (slot, values) in lists.range(list).zip(lists.vectors(list)?) {
            if let Some(row) = listed.row(slot).filter(|row| is_compared(*row))
                && let Some(out) = out.get_mut(row as usize)
            {
                *out = f16::dot(probe.values(), &values).unwrap_or(f32::NAN);
            }
        }
    }
    Ok(true)
}
