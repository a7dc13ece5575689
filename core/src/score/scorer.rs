//! The composite score of a row.

use serde::{Deserialize, Serialize};

use super::profile::{Frequency, Profile, Recency, Weights};

/// No single boost is larger, either way.
pub const BOOST_MAX: f64 = 0.1;

/// Nor all of a row's boosts together.
pub const BOOST_SUM_MAX: f64 = 0.2;

const MICROS_PER_HOUR: f64 = 3_600e6;

/// Importance where none is known.
const IMPORTANCE_DEFAULT: f64 = 0.5;

/// The columns of a row that do not depend on the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statics {
    /// When the memory was last adopted, or else happened: microseconds since 1970.
    pub last_access_micros: i64,
    /// Times recalled and adopted.
    pub adopted: u32,
    /// 0..=1.
    pub importance: f32,
    /// .1..=5.
    pub strength: f32,
}

/// The four parts of a score, each in 0..=1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Parts {
    /// S.
    pub relevance: f64,
    /// R.
    pub recency: f64,
    /// I.
    pub importance: f64,
    /// F.
    pub frequency: f64,
}

/// Scores the rows of one recall: a profile with its settings at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scorer {
    weights: Weights,
    recency: Recency,
    frequency: Frequency,
    now_micros: i64,
}

impl Scorer {
    /// The scorer of a profile at a query time, with the profile's own weights and tau.
    pub fn new(profile: Profile, now_micros: i64) -> Self {
        Self {
            weights: profile.weights(),
            recency: profile.recency(),
            frequency: profile.frequency(),
            now_micros,
        }
    }

    /// The same with other weights.
    #[must_use]
    pub fn with_weights(mut self, weights: Weights) -> Self {
        self.weights = weights;
        self
    }

    /// The same with another tau, in hours.
    #[must_use]
    pub fn with_tau_hours(mut self, tau_hours: f64) -> Self {
        self.recency = self.recency.with_tau_hours(tau_hours);
        self
    }

    /// The weights in use.
    pub fn weights(&self) -> Weights {
        self.weights
    }

    /// The parts of a row of relevance `relevance`. A last access in the future counts as now; an
    /// importance that is not a number as .5, the default.
    #[inline]
    pub fn parts(&self, relevance: f64, row: &Statics) -> Parts {
        Parts {
            relevance,
            recency: self.recency_of(row),
            importance: importance_of(row),
            frequency: self.frequency.of(row.adopted, row.strength),
        }
    }

    #[inline]
    fn recency_of(&self, row: &Statics) -> f64 {
        // In f64 no difference of two i64 overflows; what it rounds off is below a millisecond.
        let micros = self.now_micros as f64 - row.last_access_micros as f64;
        self.recency.of(micros / MICROS_PER_HOUR, row.adopted)
    }

    /// The score of a row without boosts: [`Self::score`] of [`Self::parts`], without computing
    /// parts of weight 0, for the pass over all rows.
    #[inline]
    pub fn score_row(&self, relevance: f64, row: &Statics) -> f64 {
        let w = &self.weights;
        let mut sum = w.s * relevance;
        if w.r > 0.0 {
            sum += w.r * self.recency_of(row);
        }
        if w.i > 0.0 {
            sum += w.i * importance_of(row);
        }
        if w.f > 0.0 {
            sum += w.f * self.frequency.of(row.adopted, row.strength);
        }
        sum
    }

    /// No less than [`Self::score_row`], without the logarithms and powers of R and F: for the pass that
    /// sorts out which rows to score at all.
    #[inline]
    pub fn at_most(&self, relevance: f64, row: &Statics) -> f64 {
        let w = &self.weights;
        let mut sum = w.s * relevance;
        if w.r > 0.0 {
            let micros = self.now_micros as f64 - row.last_access_micros as f64;
            sum += w.r * self.recency.at_most(micros / MICROS_PER_HOUR, row.adopted);
        }
        if w.i > 0.0 {
            sum += w.i * importance_of(row);
        }
        if w.f > 0.0 {
            sum += w.f * self.frequency.at_most(row.adopted, row.strength);
        }
        // Sums of another order are off by less.
        sum + 1e-12
    }

    /// `ws*S + wr*R + wi*I + wf*F + boosts`, the boosts by [`boost_sum`].
    #[inline]
    pub fn score(&self, parts: &Parts, boosts: f64) -> f64 {
        let w = &self.weights;
        w.s * parts.relevance + w.r * parts.recency + w.i * parts.importance + w.f * parts.frequency + boosts
    }
}

#[inline]
fn importance_of(row: &Statics) -> f64 {
    if row.importance.is_nan() { IMPORTANCE_DEFAULT } else { f64::from(row.importance).clamp(0.0, 1.0) }
}

/// The sum of a row's boosts: each held to ±[`BOOST_MAX`], the sum to ±[`BOOST_SUM_MAX`]; what is
/// not a number counts as 0.
pub fn boost_sum(boosts: impl IntoIterator<Item = f64>) -> f64 {
    let sum: f64 = boosts
        .into_iter()
        .filter(|boost| !boost.is_nan())
        .map(|boost| boost.clamp(-BOOST_MAX, BOOST_MAX))
        .sum();
    sum.clamp(-BOOST_SUM_MAX, BOOST_SUM_MAX)
}

#[cfg(test)]
mod tests;
