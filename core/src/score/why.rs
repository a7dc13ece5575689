//! The parts of a score, for those who ask why a memory was found.

use serde::{Deserialize, Serialize};

use super::relevance::{keyword_relevance, vector_relevance};
use super::scorer::Parts;

/// Why a row has its score. All are in 0..=1 but `boost`, which is in -.2..=.2.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Why {
    /// S, by the relevance that was asked for.
    pub relevance: f64,
    /// The cosine, clamped to 0..=1: 0 where row or query has no vector.
    pub cosine: f64,
    /// The part of the query's words that the row itself carries ([`keyword_relevance`]), without
    /// what its neighbours lend it.
    pub keyword: f64,
    /// R.
    pub recency: f64,
    /// I.
    pub importance: f64,
    /// F.
    pub frequency: f64,
    /// The sum of the boosts.
    pub boost: f64,
}

impl Why {
    /// Puts the parts together. `bm25` is the row's own, `query_weight` comes from
    /// [`super::CorpusStats::query_weight`], `boost` from [`super::boost_sum`].
    pub fn new(parts: &Parts, cosine: Option<f32>, bm25: f32, query_weight: f32, boost: f64) -> Self {
        Self {
            relevance: parts.relevance,
            cosine: vector_relevance(cosine),
            keyword: keyword_relevance(bm25, query_weight),
            recency: parts.recency,
            importance: parts.importance,
            frequency: parts.frequency,
            boost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_carried_over() {
        let parts = Parts { relevance: 0.9, recency: 0.8, importance: 0.7, frequency: 0.6 };
        let why = Why::new(&parts, Some(-0.3), 1.0, 2.0, 0.1);
        assert_eq!((why.relevance, why.cosine, why.keyword), (0.9, 0.0, 0.5));
        assert_eq!((why.recency, why.importance), (0.8, 0.7));
        assert_eq!((why.frequency, why.boost), (0.6, 0.1));
    }
}
