//! L: the keyword score of a row with what its neighbours lend it.

use super::rows::{Rows, flag};

/// How much of their BM25 the turns around a row lend it. Measured: without neighbours evidence
/// recall falls by 7 points, without the hand-over of questions by 1.5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NeighbourWeights {
    /// `w`: the share of the turn before and of the turn after.
    pub near: f32,
    /// The share of the turns two away, as a part of `near`.
    pub far: f32,
    /// `g`: how much more the turn after a short question gets from it.
    pub answer_gain: f32,
    /// `h`: the part of its own score that a short question keeps.
    pub question_keep: f32,
}

impl Default for NeighbourWeights {
    fn default() -> Self {
        Self { near: 0.4, far: 0.7, answer_gain: 0.5, question_keep: 0.7 }
    }
}

/// Writes L of every row to `out`; dead rows get 0 and lend nothing.
///
/// `L_i = b_i (1 - (1-h) q_i) + w (b_{i-1} (1 + g q_{i-1}) + b_{i+1}) + far w (b_{i-2} + b_{i+2})`
///
/// with b = `bm25` (0 for rows without a match; what is below 0 or not a number counts as 0) and
/// q = the question flag. The terms of a row are always added in this order, wherever the row
/// lies, so a partition computes the same L as the whole. Monotone in every b.
pub fn lift(rows: &Rows<'_>, bm25: &[f32], weights: &NeighbourWeights, out: &mut Vec<f32>) {
    out.clear();
    out.extend((0..rows.len()).map(|row| lift_of(rows, bm25, weights, row)));
}

/// [`lift`] where few rows match: `matched` must name every row whose `bm25` is not 0. In `out` all rows that no
/// matched row reaches are 0; in `touched` the others are set, 64 rows to a word.
pub fn lift_touched(
    rows: &Rows<'_>,
    bm25: &[f32],
    matched: impl IntoIterator<Item = u32>,
    weights: &NeighbourWeights,
    out: &mut Vec<f32>,
    touched: &mut Vec<u64>,
) {
    touched.clear();
    touched.resize(rows.len().div_ceil(64), 0);
    let mut touch = |row: usize| {
        if let Some(word) = touched.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    };
    for row in matched {
        let row = row as usize;
        // Links lead from live rows to live rows, so a dead one lends nothing.
        if !rows.is_live(row) {
            continue;
        }
        touch(row);
        for near in [rows.before(row), rows.after(row)].into_iter().flatten() {
            touch(near);
        }
        let before = rows.before(row).and_then(|near| rows.before(near));
        let after = rows.after(row).and_then(|near| rows.after(near));
        for far in [before, after].into_iter().flatten() {
            touch(far);
        }
    }
    out.clear();
    out.resize(rows.len(), 0.0);
    for row in set_bits(touched) {
        if let Some(lifted) = out.get_mut(row) {
            *lifted = lift_of(rows, bm25, weights, row);
        }
    }
}

/// The places of the bits that are set, in ascending order.
pub fn set_bits(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            // Takes the lowest bit away; of 0 nothing is left.
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(at * 64 + bit)
        })
    })
}

fn lift_of(rows: &Rows<'_>, bm25: &[f32], weights: &NeighbourWeights, row: usize) -> f32 {
    if !rows.is_live(row) {
        return 0.0;
    }
    let keep = [1.0, weights.question_keep];
    let lend = [weights.near, weights.near * (1.0 + weights.answer_gain)];
    let far = weights.near * weights.far;
    let own = |row: usize| clean(bm25.get(row));
    let question = |row: usize| usize::from(rows.flags(row) & flag::QUESTION != 0);
    let mut sum = own(row) * keep[question(row)];
    let mut far_sum = 0.0;
    if let Some(before) = rows.before(row) {
        sum += own(before) * lend[question(before)];
        far_sum += rows.before(before).map_or(0.0, own);
    }
    if let Some(after) = rows.after(row) {
        sum += own(after) * weights.near;
        far_sum += rows.after(after).map_or(0.0, own);
    }
    sum + far_sum * far
}

/// No BM25 comes near this; it keeps a damaged one from making the sum infinite.
const SCORE_MAX: f32 = 1e6;

/// Without a branch: which rows match is random, and five mispredicted branches a row were most
/// of the time of this pass. (`NaN.max(0.0)` is 0.)
#[allow(clippy::manual_clamp, reason = "clamp would let NaN through")]
#[inline]
fn clean(score: Option<&f32>) -> f32 {
    score.map_or(0.0, |score| score.max(0.0).min(SCORE_MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{NONE, Neighbours};
    use super::*;

    const LIVE: u8 = flag::LIVE;
    const ASK: u8 = flag::LIVE | flag::QUESTION;

    fn lifted(flags: &[u8], session: &[u32], bm25: &[f32]) -> Vec<f32> {
        let order: Vec<(i64, u64)> = (0..).take(flags.len()).map(|seq| (0, seq)).collect();
        let links = Neighbours::build(session, &order);
        let speaker = vec![NONE; flags.len()];
        let rows = Rows::new(flags, links.prev(), links.next(), &speaker).unwrap();
        let mut out = vec![9.0; 3];
        lift(&rows, bm25, &NeighbourWeights::default(), &mut out);
        out
    }

    fn close(got: &[f32], want: &[f32]) {
        assert_eq!(got.len(), want.len());
        for (a, b) in got.iter().zip(want) {
            assert!((a - b).abs() < 1e-6, "{got:?} is not {want:?}");
        }
    }

    #[test]
    fn a_score_spreads_two_turns_each_way() {
        // near .4, far .4 * .7 = .28
        close(
            &lifted(&[LIVE; 7], &[1; 7], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
            &[0.0, 0.28, 0.4, 1.0, 0.4, 0.28, 0.0],
        );
    }

    #[test]
    fn a_short_question_hands_its_score_to_the_answer() {
        // Keeps .7 of 2; the answer gets 2 * .4 * 1.5 = 1.2; the turn before only 2 * .4.
        close(&lifted(&[LIVE, ASK, LIVE], &[1; 3], &[0.0, 2.0, 0.0]), &[0.8, 1.4, 1.2]);
    }

    #[test]
    fn nothing_crosses_a_session_or_comes_from_outside_one() {
        close(&lifted(&[LIVE; 4], &[1, 2, NONE, NONE], &[0.0, 1.0, 0.0, 1.0]), &[0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn dead_rows_are_as_if_never_written() {
        // Row 1 is dead: 0 and 2 are neighbours, and its own score is gone.
        close(&lifted(&[LIVE, 0, LIVE], &[1; 3], &[1.0, 5.0, 0.0]), &[1.0, 0.0, 0.4]);
        close(&lifted(&[0, 0], &[1; 2], &[1.0, 1.0]), &[0.0, 0.0]);
    }

    #[test]
    fn odd_scores_count_as_none() {
        close(&lifted(&[LIVE; 4], &[NONE; 4], &[f32::NAN, 0.0, -1.0, f32::NEG_INFINITY]), &[0.0; 4]);
        let huge = lifted(&[LIVE; 3], &[1; 3], &[f32::INFINITY, f32::MAX, 1.0]);
        assert!(huge.iter().all(|l| l.is_finite()), "{huge:?}");
        // A column that is shorter than the view: the rest has no score.
        close(&lifted(&[LIVE; 2], &[NONE; 2], &[1.0]), &[1.0, 0.0]);
    }

    #[test]
    fn damaged_links_end() {
        // Two dead rows that point at each other, and a link out of range.
        let flags = [LIVE, 0, 0];
        let next = [1, 2, 1];
        let prev = [77, NONE, NONE];
        let speaker = [NONE; 3];
        let rows = Rows::new(&flags, &prev, &next, &speaker).unwrap();
        let mut out = Vec::new();
        lift(&rows, &[1.0; 3], &NeighbourWeights::default(), &mut out);
        close(&out, &[1.0, 0.0, 0.0]);
    }

    #[test]
    fn bits_are_told_in_order() {
        assert_eq!(set_bits(&[]).count(), 0);
        assert_eq!(set_bits(&[0, 1 | 1 << 63, 0, 0b110]).collect::<Vec<_>>(), [64, 127, 193, 194]);
        assert_eq!(set_bits(&[u64::MAX]).count(), 64);
    }

    proptest::proptest! {
        /// What is computed for the rows that are touched is what is computed for all.
        #[test]
        fn the_rows_that_are_not_touched_are_zero(
            rows in proptest::collection::vec((0u8..4, 0u32..3, proptest::option::weighted(0.2, -1f32..9.0)), 0..200),
        ) {
            let flags: Vec<u8> = rows.iter().map(|(flags, ..)| *flags).collect();
            let session: Vec<u32> = rows.iter().map(|(_, session, _)| [1, 2, NONE][*session as usize]).collect();
            let bm25: Vec<f32> = rows.iter().map(|(.., own)| own.unwrap_or(0.0)).collect();
            let order: Vec<(i64, u64)> = (0..).take(flags.len()).map(|seq| (0, seq)).collect();
            let links = Neighbours::build(&session, &order);
            let speaker = vec![NONE; flags.len()];
            let view = Rows::new(&flags, links.prev(), links.next(), &speaker).unwrap();
            let (mut all, mut some, mut touched) = (Vec::new(), vec![5.0; 3], vec![7]);
            lift(&view, &bm25, &NeighbourWeights::default(), &mut all);
            let matched = (0u32..).zip(&rows).filter(|(_, row)| row.2.is_some()).map(|(row, _)| row);
            lift_touched(&view, &bm25, matched, &NeighbourWeights::default(), &mut some, &mut touched);
            proptest::prop_assert_eq!(&all, &some);
            for row in 0..rows.len() {
                proptest::prop_assert!(touched[row / 64] >> (row % 64) & 1 == 1 || all[row] == 0.0);
            }
        }
    }
}
