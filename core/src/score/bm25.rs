//! BM25, the keyword score of one row, and the counts of a collection that it needs.

use serde::{Deserialize, Serialize};

/// What BM25 must know of a collection. Counts add, so those of all partitions of a recall are
/// merged before any row is scored, and a split collection scores as an undivided one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusStats {
    /// Live rows.
    pub rows: u64,
    /// Sum of the lengths ([`crate::text::Terms::len`]) of the live rows.
    pub total_len: u64,
    /// For each term of the query, in its order: live rows that have it.
    pub df: Vec<u64>,
}

impl CorpusStats {
    /// Adds the counts of another partition, for the same query.
    pub fn merge(&mut self, other: &Self) {
        self.rows = self.rows.saturating_add(other.rows);
        self.total_len = self.total_len.saturating_add(other.total_len);
        if self.df.len() < other.df.len() {
            self.df.resize(other.df.len(), 0);
        }
        for (mine, theirs) in self.df.iter_mut().zip(&other.df) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// The mean length of a row, at least 1 (an empty collection has no mean).
    pub fn average_len(&self) -> f32 {
        (self.total_len as f64 / self.rows.max(1) as f64).max(1.0) as f32
    }

    /// The weight of the query: the sum of its terms' idf, which no row's BM25 exceeds. A term
    /// that no row has counts as if one had it: its idf proper would, in a small space, outweigh
    /// all the terms that do match.
    pub fn query_weight(&self) -> f32 {
        let idf = |&df: &u64| Bm25::idf(self.rows, df.max(1));
        self.df.iter().map(idf).sum()
    }

    /// The idf of each term of the query, in its order.
    pub fn idf(&self) -> Vec<f32> {
        self.df.iter().map(|&df| Bm25::idf(self.rows, df)).collect()
    }
}

/// The parameters of BM25 in the form of Robertson and Zaragoza (2009), without the constant
/// factor `k1 + 1`, which ranks nothing: a term's part is then always below its idf.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bm25 {
    /// How slowly repeats saturate. 0.4 is best on short turns, 0.9 is safer for long texts.
    pub k1: f32,
    /// How much long rows are held back, 0..=1.
    pub b: f32,
}

impl Default for Bm25 {
    fn default() -> Self {
        Self { k1: 0.9, b: 0.75 }
    }
}

impl Bm25 {
    /// `ln(1 + (N - df + .5) / (df + .5))`: above 0 for every df, finite for df > N too (counts
    /// of a moving collection may be a row apart).
    pub fn idf(rows: u64, df: u64) -> f32 {
        let df = df.min(rows) as f64;
        (1.0 + (rows as f64 - df + 0.5) / (df + 0.5)).ln() as f32
    }

    /// `tf / (tf + k1 (1 - b + b len / average))`, in 0..1, and 0 for tf 0.
    #[inline]
    pub fn tf(&self, tf: u32, len: u32, average_len: f32) -> f32 {
        if tf == 0 {
            return 0.0;
        }
        let tf = tf as f32;
        tf / (tf + self.k1 * (1.0 - self.b + self.b * len as f32 / average_len.max(1.0)))
    }

    /// Adds one term's part to the score of each row that has it.
    ///
    /// `postings` are (row, occurrences), `lens` the length of each row; a posting of a row
    /// beyond either slice is skipped (the row came after this view of the image was taken).
    pub fn accumulate(
        &self,
        idf: f32,
        postings: impl IntoIterator<Item = (u32, u32)>,
        lens: &[u32],
        average_len: f32,
        out: &mut [f32],
    ) {
        for (row, tf) in postings {
            let row = row as usize;
            if let (Some(score), Some(&len)) = (out.get_mut(row), lens.get(row)) {
                *score += idf * self.tf(tf, len, average_len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f32, b: f32) {
        assert!((a - b).abs() < 1e-5, "{a} is not {b}");
    }

    #[test]
    fn worked_by_hand() {
        // N 10, df 2: ln(1 + 8.5 / 2.5) = ln 4.4 = 1.4816045
        close(Bm25::idf(10, 2), 1.481_604_5);
        // tf 2, len 15, average 10: 2 / (2 + .9 (.25 + .75 * 1.5)) = 2 / (2 + .9 * 1.375)
        // = 2 / 3.2375 = .6177606
        close(Bm25::default().tf(2, 15, 10.0), 0.617_760_6);
    }

    #[test]
    fn finite_and_bounded_for_odd_counts() {
        let bm25 = Bm25::default();
        for (rows, df) in [(0, 0), (0, 5), (3, 9), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            let idf = Bm25::idf(rows, df);
            assert!(idf.is_finite() && idf >= 0.0, "{rows} {df}: {idf}");
        }
        for (tf, len, average) in [(0, 0, 0.0), (1, u32::MAX, 0.0), (u32::MAX, 1, 1e30)] {
            let part = bm25.tf(tf, len, average);
            assert!((0.0..=1.0).contains(&part), "{tf} {len} {average}: {part}");
        }
        assert_eq!(CorpusStats::default().average_len(), 1.0);
    }

    #[test]
    fn an_unseen_term_weighs_as_one_that_one_row_has() {
        let corpus = CorpusStats { rows: 10, total_len: 10, df: vec![0, 1, 2] };
        // ln(1 + 9.5 / 1.5) = 1.9924302 twice, and 1.4816045
        close(corpus.query_weight(), 5.466_465);
        assert_eq!(CorpusStats::default().query_weight(), 0.0);
    }

    #[test]
    fn counts_of_partitions_add() {
        let part = |rows, total_len, df: &[u64]| CorpusStats { rows, total_len, df: df.to_vec() };
        let mut sum = CorpusStats::default();
        sum.merge(&part(2, 20, &[1, 0]));
        sum.merge(&part(3, 5, &[2, 1]));
        assert_eq!(sum, part(5, 25, &[3, 1]));
        assert_eq!(sum.average_len(), 5.0);
    }

    #[test]
    fn a_posting_beyond_the_view_is_skipped() {
        let mut out = [0.0; 2];
        Bm25::default().accumulate(1.0, [(1, 1), (7, 1)], &[4, 4], 4.0, &mut out);
        assert_eq!(out[0], 0.0);
        close(out[1], 1.0 / 1.9);
    }
}
