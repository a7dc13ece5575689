//! The sums from which the constants of a query are made.

use serde::{Deserialize, Serialize};

use super::rows::Rows;

/// Sums over the rows of one partition, for one query. Sums add: those of all partitions are
/// merged ([`Stats::merge`]) and blended with the prior once, so how a set of rows is split does
/// not change the score of any of them.
///
/// Kept in f64: a million rows of f32 would lose the last digits otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Live rows.
    pub n: u64,
    /// Sum of L over the live rows.
    pub sum_l: f64,
    /// Sum of the squares of L.
    pub sumsq_l: f64,
    /// Cosines in the sums below.
    pub count_c: u64,
    /// Sum of the cosines of the sampled rows.
    pub sum_c: f64,
    /// Sum of their squares.
    pub sumsq_c: f64,
}

impl Stats {
    /// Adds L of every live row ([`super::lift`]).
    pub fn add_lifted(&mut self, rows: &Rows<'_>, lifted: &[f32]) {
        for (row, &l) in lifted.iter().enumerate() {
            if rows.is_live(row) && l.is_finite() {
                let l = f64::from(l);
                self.n += 1;
                self.sum_l += l;
                self.sumsq_l += l * l;
            }
        }
    }

    /// [`Self::add_lifted`] of `live` rows of which all but these have an L of 0. In the order of the rows the sums are
    /// the same to the last bit.
    pub fn add_lifted_of(&mut self, live: u64, lifted: impl IntoIterator<Item = f32>) {
        self.n += live;
        for l in lifted {
            if l.is_finite() {
                let l = f64::from(l);
                self.sum_l += l;
                self.sumsq_l += l * l;
            } else {
                self.n = self.n.saturating_sub(1);
            }
        }
    }

    /// Adds cosines, those of the rows of [`super::sample`]. What is not finite is left out.
    pub fn add_cosines(&mut self, cosines: impl IntoIterator<Item = f32>) {
        for c in cosines {
            if c.is_finite() {
                let c = f64::from(c).clamp(-1.0, 1.0);
                self.count_c += 1;
                self.sum_c += c;
                self.sumsq_c += c * c;
            }
        }
    }

    /// Adds the sums of another partition.
    pub fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.sum_l += other.sum_l;
        self.sumsq_l += other.sumsq_l;
        self.count_c = self.count_c.saturating_add(other.count_c);
        self.sum_c += other.sum_c;
        self.sumsq_c += other.sumsq_c;
    }
}
