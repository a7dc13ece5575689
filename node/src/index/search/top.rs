use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A row that may be among the best.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) score: f64,
    pub(super) seq: u64,
    pub(super) row: u32,
}

/// The k best candidates so far. Of equal scores the higher seq is better, so the answer does not
/// depend on the order in which rows are looked at.
pub(super) struct Top {
    heap: BinaryHeap<Reverse<Candidate>>,
    k: usize,
}

impl Top {
    /// For the best `k` of `rows` rows.
    pub(super) fn new(k: usize, rows: usize) -> Self {
        let k = k.min(rows);
        Self { heap: BinaryHeap::with_capacity(k), k }
    }

    /// Whether a candidate would get in now.
    #[inline]
    pub(super) fn would_take(&self, candidate: &Candidate) -> bool {
        self.heap.len() < self.k || self.heap.peek().is_some_and(|worst| *candidate > worst.0)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are as many as are wanted, so that one more has to be better than one of them.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.heap.len() >= self.k
    }

    /// The worst of the best, once there are as many as are wanted.
    pub(super) fn worst(&self) -> Option<Candidate> {
        self.heap.peek().filter(|_| self.heap.len() == self.k).map(|worst| worst.0)
    }

    /// Takes a candidate that [`Top::would_take`].
    pub(super) fn take(&mut self, candidate: Candidate) {
        if self.heap.len() == self.k {
            self.heap.pop();
        }
        self.heap.push(Reverse(candidate));
    }

    /// The best first.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = Candidate> {
        // Ascending in the reversed order.
        self.heap.into_sorted_vec().into_iter().map(|candidate| candidate.0)
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_what_sorting_would(scores in prop::collection::vec(0u8..5, 0..40), k in 0usize..12) {
            let all: Vec<Candidate> = (0..).zip(&scores)
                .map(|(row, score)| Candidate { score: f64::from(*score), seq: u64::from(row) ^ 5, row })
                .collect();
            let mut top = Top::new(k, all.len());
            for candidate in &all {
                if top.would_take(candidate) {
                    top.take(*candidate);
                }
            }
            let got: Vec<u64> = top.into_sorted().map(|candidate| candidate.seq).collect();
            let mut sorted = all;
            sorted.sort_by(|a, b| b.cmp(a));
            let want: Vec<u64> = sorted.iter().take(k).map(|candidate| candidate.seq).collect();
            prop_assert_eq!(got, want);
        }
    }
}
