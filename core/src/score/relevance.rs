//! S, the relevance of a row: what the query and the row have to do with each other.

use serde::{Deserialize, Serialize};

use super::constants::Constants;
use super::rows::{Rows, flag};
use crate::text::Addressed;

/// The weights of the parts of S, per embedding model and profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// `wd`: the weight of the cosine against that of the words.
    pub vector: f64,
    /// `sp` for a row whose speaker the query names.
    pub speaker: f64,
    /// `sp` for a row of role `user`, when the query says "I" and names nobody.
    pub asker: f64,
    /// `z0`: the sum at which S is one half. At 3 an average row has S = .05, and the median
    /// memory that answers a question .8 in a space of three to .99 among hundreds.
    pub midpoint: f64,
}

impl Recipe {
    /// For the multilingual Universal Sentence Encoder.
    pub const USE: Self = Self { vector: 0.7, speaker: 2.0, asker: 3.0, midpoint: 3.0 };

    /// For models that separate related from unrelated more sharply, and for client vectors.
    pub const SHARP: Self = Self { vector: 1.0, ..Self::USE };
}

/// The fused relevance of one query:
///
/// `S = logistic(wd (c - mean_c) / dev_c + (L - mean_L) / dev_L + m - z0)`
///
/// Monotone in c and in L, so bounds on them bound S. A row without a vector, or a query without
/// one, has c = mean_c: the term is 0, neither for nor against the row. Answers are f64: in f32
/// every sum above 17 would be 1, and the best rows would tie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relevance {
    vector_scale: f64,
    lift_scale: f64,
    /// What no part of the row changes: the means and the midpoint.
    offset: f64,
    vector_mean: f64,
    speaker: f64,
    asker: f64,
    addressed: Addressed,
}

impl Relevance {
    /// Fixes the constants of one query.
    pub fn new(constants: &Constants, recipe: &Recipe, addressed: Addressed) -> Self {
        let lift_scale = 1.0 / constants.dev_l;
        Self {
            vector_scale: recipe.vector / constants.dev_c,
            lift_scale,
            offset: -constants.mean_l * lift_scale - recipe.midpoint,
            vector_mean: constants.mean_c,
            speaker: recipe.speaker,
            asker: recipe.asker,
            addressed,
        }
    }

    /// S for a cosine (none, or not finite: as if average), an L and a speaker match.
    #[inline]
    pub fn of(&self, cosine: Option<f32>, lifted: f32, matched: f64) -> f64 {
        let vector = match cosine {
            Some(c) if c.is_finite() => {
                self.vector_scale * (f64::from(c).clamp(-1.0, 1.0) - self.vector_mean)
            }
            _ => 0.0,
        };
        // NaN.max(0) is 0.
        let lifted = f64::from(lifted).clamp(0.0, f64::from(f32::MAX)).max(0.0);
        logistic(vector + lifted * self.lift_scale + matched + self.offset)
    }

    /// `m` of a row: the addition for the speaker it has.
    #[inline]
    pub fn speaker_match(&self, rows: &Rows<'_>, row: usize) -> f64 {
        match self.addressed {
            Addressed::Nobody => 0.0,
            Addressed::Speaker(speaker) if rows.speaker(row) == speaker => self.speaker,
            Addressed::Asker if rows.flags(row) & flag::USER != 0 => self.asker,
            Addressed::Speaker(_) | Addressed::Asker => 0.0,
        }
    }

    /// Writes S of every row to `out`; 0 for dead rows.
    ///
    /// `lifted` comes from [`super::lift`]; `cosines` has an entry per row (those of rows without
    /// a vector are not read), or is none where the query has no vector.
    pub fn of_rows(&self, rows: &Rows<'_>, lifted: &[f32], cosines: Option<&[f32]>, out: &mut Vec<f64>) {
        out.clear();
        out.extend((0..rows.len()).map(|row| {
            if !rows.is_live(row) {
                return 0.0;
            }
            let cosine = cosines.filter(|_| rows.has_vector(row)).and_then(|c| c.get(row)).copied();
            let lifted = lifted.get(row).copied().unwrap_or(0.0);
            self.of(cosine, lifted, self.speaker_match(rows, row))
        }));
    }
}

/// S under `relevance: "vector"`: the cosine, clamped to 0..=1; 0 without one.
#[inline]
pub fn vector_relevance(cosine: Option<f32>) -> f64 {
    cosine.map_or(0.0, |c| f64::from(c).clamp(0.0, 1.0).max(0.0))
}

/// S under `relevance: "keyword"`: the part of the query that the row carries,
/// `BM25 / sum of the idf of the query's terms`.
///
/// In 0..=1 since a term's part is below its idf ([`super::Bm25`]), monotone in BM25, and fixed
/// by the collection's counts alone. `idf_sum` counts terms that no row has too, so a row that
/// matches one of five words does not look like a full match. 0 if there are no terms.
#[inline]
pub fn keyword_relevance(bm25: f32, idf_sum: f32) -> f64 {
    if idf_sum > 0.0 && bm25 > 0.0 { (f64::from(bm25) / f64::from(idf_sum)).clamp(0.0, 1.0) } else { 0.0 }
}

#[inline]
fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests;
