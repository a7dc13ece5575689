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
    /// Mean of L ([`super::lift`]) over a space, as a part of the query's weight
    /// ([`super::CorpusStats::query_weight`]). Relative, since idf grows with the logarithm of a
    /// space: in one of three memories a full match has a sixth of the L it has among hundreds.
    pub mean_l: f64,
    /// Deviation of L, as a part of the query's weight.
    pub dev_l: f64,
}

impl Prior {
    /// L of conversations of 370 to 680 turns: the medians over their questions are .045 and
    /// .049. With these, a memory that answers the query stands well out (a median sum of
    /// 4.4 to 6.7) in a space of one to fifty memories too, where unrelated ones stay around 0.
    const LIFTED: (f64, f64) = (0.045, 0.05);

    /// For vectors of the multilingual Universal Sentence Encoder; measured on the same
    /// conversations, where the medians of mean and deviation are .200 and .103.
    pub const USE: Self = Self::of_cosines(0.2, 0.1);

    /// For vectors that clients bring: between the models we know, whose unrelated texts have
    /// cosines around 0 (MiniLM) to .8 (E5), since which it is cannot be told; the rows of the
    /// space correct it soon.
    pub const CLIENT: Self = Self::of_cosines(0.25, 0.15);

    /// The prior of a model whose cosines of queries and memories have this mean and deviation.
    pub const fn of_cosines(mean_c: f64, dev_c: f64) -> Self {
        let (mean_l, dev_l) = Self::LIFTED;
        Self { mean_c, dev_c, mean_l, dev_l }
    }
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
    /// Blends pooled sums with the prior. Call it once, on the merged sums of all partitions, with
    /// the weight of the query ([`super::CorpusStats::query_weight`]) by their merged counts.
    pub fn from_stats(stats: &Stats, prior: &Prior, query_weight: f32) -> Self {
        let weight = f64::from(query_weight.clamp(0.0, f32::MAX).max(0.0));
        let (mean_c, dev_c) = blend(stats.count_c, stats.sum_c, stats.sumsq_c, prior.mean_c, prior.dev_c);
        let (mean_l, dev_l) =
            blend(stats.n, stats.sum_l, stats.sumsq_l, prior.mean_l * weight, prior.dev_l * weight);
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

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-12, "{got} is not {want}");
    }

    #[test]
    fn an_empty_space_is_the_prior() {
        let got = Constants::from_stats(&Stats::default(), &Prior::USE, 10.0);
        close(got.mean_c, 0.2);
        close(got.dev_c, 0.1);
        close(got.mean_l, 0.45);
        close(got.dev_l, 0.5);
    }

    #[test]
    fn worked_by_hand() {
        // 32 rows of cosine .5 and 32 pseudo-rows of mean .1, deviation .1:
        // mean (16 + 3.2) / 64 = .3
        // square (32 * .25 + 32 * (.01 + .01)) / 64 = .135; variance .135 - .09 = .045
        let mut stats = Stats::default();
        stats.add_cosines([0.5; 32]);
        let got = Constants::from_stats(&stats, &Prior::of_cosines(0.1, 0.1), 0.0);
        close(got.mean_c, 0.3);
        close(got.dev_c, 0.045f64.sqrt());
    }

    #[test]
    fn a_query_without_terms_still_divides() {
        for weight in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX] {
            let got = Constants::from_stats(&Stats::default(), &Prior::USE, weight);
            assert!(got.mean_l.is_finite() && got.dev_l.is_finite(), "{weight}");
            assert!(got.dev_l >= DEVIATION_MIN, "{weight}");
        }
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
        let got = Constants::from_stats(&stats, &Prior::USE, 10.0);
        close(got.mean_c, 0.2);
        close(got.dev_c, 0.1);
        close(got.mean_l, 0.45);
        close(got.dev_l, 0.5);
    }
}
