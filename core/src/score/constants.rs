//! The mean and deviation that a query's scores are measured in.

use serde::{Deserialize, Serialize};

use super::stats::Stats;

/// How many pseudo-rows the prior counts for.
pub const PRIOR_ROWS: f64 = 32.0;

/// No deviation is taken to be below this: a division by it stays finite.
const DEVIATION_MIN: f64 = 1e-3;

/// What is believed of a space before a row of it is seen, worth [`PRIOR_ROWS`] rows. In a space
/// of three memories it decides what "unusually similar" means; among thousands it is not felt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// Mean cosine of a query and an unrelated memory.
    pub mean_c: f64,
    /// Deviation of that cosine.
    pub dev_c: f64,
    /// Mean of L ([`super::lift`]) over a space.
    pub mean_l: f64,
    /// Deviation of L.
    pub dev_l: f64,
}

impl Prior {
    /// For vectors of the multilingual Universal Sentence Encoder, measured on conversations.
    pub const USE: Self = Self { mean_c: 0.12, dev_c: 0.12, mean_l: 0.3, dev_l: 0.6 };

    /// For vectors that clients bring, whose model is not known.
    pub const CLIENT: Self = Self { mean_c: 0.2, dev_c: 0.15, mean_l: 0.3, dev_l: 0.6 };
}

/// Fixed for one query before any candidate exists, and the same on every node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Constants {
    /// Mean of the cosine.
    pub mean_c: f64,
    /// Deviation of the cosine, above 0.
    pub dev_c: f64,
    /// Mean of L.
    pub mean_l: f64,
    /// Deviation of L, above 0.
    pub dev_l: f64,
}

impl Constants {
    /// Blends pooled sums with the prior. Call it once, on the merged sums of all partitions.
    pub fn from_stats(stats: &Stats, prior: &Prior) -> Self {
        let (mean_c, dev_c) = blend(stats.count_c, stats.sum_c, stats.sumsq_c, prior.mean_c, prior.dev_c);
        let (mean_l, dev_l) = blend(stats.n, stats.sum_l, stats.sumsq_l, prior.mean_l, prior.dev_l);
        Self { mean_c, dev_c, mean_l, dev_l }
    }
}

/// Mean and deviation of n rows with these sums and [`PRIOR_ROWS`] rows of the prior.
fn blend(n: u64, sum: f64, sumsq: f64, mean: f64, dev: f64) -> (f64, f64) {
    let n = n as f64 + PRIOR_ROWS;
    let blended = (sum + PRIOR_ROWS * mean) / n;
    let square = (sumsq + PRIOR_ROWS * (mean * mean + dev * dev)) / n;
    let deviation = (square - blended * blended).max(0.0).sqrt();
    if blended.is_finite() && deviation.is_finite() {
        (blended, deviation.max(DEVIATION_MIN))
    } else {
        // Sums from a damaged or hostile peer: the prior alone still ranks.
        (mean, dev.max(DEVIATION_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_space_is_the_prior() {
        let got = Constants::from_stats(&Stats::default(), &Prior::USE);
        assert!((got.mean_c - Prior::USE.mean_c).abs() < 1e-12);
        assert!((got.dev_c - Prior::USE.dev_c).abs() < 1e-12);
        assert!((got.mean_l - Prior::USE.mean_l).abs() < 1e-12);
        assert!((got.dev_l - Prior::USE.dev_l).abs() < 1e-12);
    }

    #[test]
    fn worked_by_hand() {
        // 32 rows of cosine .5 and 32 pseudo-rows of mean .1, deviation .1:
        // mean (16 + 3.2) / 64 = .3
        // square (32 * .25 + 32 * (.01 + .01)) / 64 = .135; variance .135 - .09 = .045
        let mut stats = Stats::default();
        stats.add_cosines([0.5; 32]);
        let prior = Prior { mean_c: 0.1, dev_c: 0.1, ..Prior::USE };
        let got = Constants::from_stats(&stats, &prior);
        assert!((got.mean_c - 0.3).abs() < 1e-12);
        assert!((got.dev_c - 0.045f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn damaged_sums_fall_back_to_the_prior() {
        let stats = Stats {
            n: u64::MAX,
            sum_l: f64::NAN,
            sumsq_l: f64::INFINITY,
            count_c: 1,
            sum_c: f64::INFINITY,
            sumsq_c: -1e300,
        };
        let got = Constants::from_stats(&stats, &Prior::USE);
        assert_eq!((got.mean_c, got.dev_c), (Prior::USE.mean_c, Prior::USE.dev_c));
        assert_eq!((got.mean_l, got.dev_l), (Prior::USE.mean_l, Prior::USE.dev_l));
    }
}
