//! The hashes of a replica at the points of the log at which replicas are compared.

use holdfast_core::state::StateHash;
use std::collections::VecDeque;

/// Points that are kept: an hour of the usual ones.
const POINTS_MAX: usize = 64;

/// The hash of a replica's rows after one entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The entry.
    pub index: u64,
    /// The hash.
    pub hash: StateHash,
}

/// The last points, oldest first. In memory alone: what a restart forgets, the next point tells anew.
#[derive(Debug, Default)]
pub(super) struct Points(VecDeque<Point>);

impl Points {
    pub(super) fn record(&mut self, points: Vec<Point>) {
        self.0.extend(points);
        let surplus = self.0.len().saturating_sub(POINTS_MAX);
        self.0.drain(..surplus);
    }

    pub(super) fn at(&self, index: u64) -> Option<StateHash> {
        let at = self.0.binary_search_by_key(&index, |point| point.index).ok()?;
        self.0.get(at).map(|point| point.hash)
    }

    pub(super) fn all(&self) -> Vec<Point> {
        self.0.iter().copied().collect()
    }

    /// Points of a state that was replaced say nothing about the new one.
    pub(super) fn replace(&mut self, points: Vec<Point>) {
        self.0.clear();
        self.record(points);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_points_are_kept() {
        let point = |index: u64| Point { index, hash: StateHash(u128::from(index) * 7) };
        let mut points = Points::default();
        assert_eq!(points.at(3), None);
        for index in 0..200 {
            points.record(vec![point(index * 2)]);
        }
        assert_eq!(points.all().len(), POINTS_MAX);
        assert_eq!(points.at(398), Some(StateHash(398 * 7)));
        assert_eq!((points.at(397), points.at(2)), (None, None), "between two points, and before the first");
        points.replace(vec![point(5)]);
        assert_eq!(points.all(), [point(5)]);
    }
}
