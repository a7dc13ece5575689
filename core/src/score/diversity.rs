//! Choosing what is good and not all alike.

use crate::text::chars::is_cjk;
use xxhash_rust::xxh3::xxh3_64;

/// Orders candidates by maximal marginal relevance (Carbonell and Goldstein, "The Use of MMR,
/// Diversity-Based Reranking for Reordering Documents and Producing Summaries", SIGIR 1998) and answers
/// the places of the first `k`: each next one is that with the best
///
/// `(1 - diversity) * score - diversity * likeness to the nearest one before it`
///
/// of equal ones the one with the lower place. `scores` and `likeness`, which is symmetric, are about
/// 0..=1; one that is not a number counts as 0. At `diversity` 0 the order is that of the scores.
///
/// Asks for at most `k * scores.len()` likenesses.
pub fn diversify(
    scores: &[f64],
    diversity: f64,
    k: usize,
    mut likeness: impl FnMut(usize, usize) -> f64,
) -> Vec<usize> {
    let diversity = if diversity.is_nan() { 0.0 } else { diversity.clamp(0.0, 1.0) };
    let number = |value: f64| if value.is_nan() { 0.0 } else { value };
    let mut nearest = vec![0.0f64; scores.len()];
    let mut rest: Vec<usize> = (0..scores.len()).collect();
    let mut order = Vec::with_capacity(k.min(scores.len()));
    while order.len() < k && !rest.is_empty() {
        let value = |at: usize| (1.0 - diversity) * number(scores[at]) - diversity * nearest[at];
        // Places in `rest` keep their order, so that the first of equal ones is the lowest.
        let mut best = 0;
        for at in 1..rest.len() {
            if value(rest[at]) > value(rest[best]) {
                best = at;
            }
        }
        let taken = rest.remove(best);
        if diversity > 0.0 {
            for at in &rest {
                nearest[*at] = nearest[*at].max(number(likeness(taken, *at)));
            }
        }
        order.push(taken);
    }
    order
}

/// Hashes of the words of a text, of Chinese, Japanese and Korean of the pairs of characters: sorted, each
/// once. What [`overlap`] compares.
pub fn words(text: &str) -> Vec<u64> {
    let hash = |text: &str| xxh3_64(text.as_bytes());
    let mut words = Vec::new();
    let lower = text.to_lowercase();
    for run in lower.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        if !run.chars().any(is_cjk) {
            words.push(hash(run));
            continue;
        }
        let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
        if starts.len() < 3 {
            words.push(hash(run));
        }
        words.extend(starts.windows(3).map(|at| hash(&run[at[0]..at[2]])));
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// The share of elements that two sorted lists without repetitions have in common (Jaccard), 0..=1.
pub fn overlap(one: &[u64], other: &[u64]) -> f64 {
    let (mut a, mut b, mut common) = (0, 0, 0usize);
    while let (Some(x), Some(y)) = (one.get(a), other.get(b)) {
        common += usize::from(x == y);
        a += usize::from(x <= y);
        b += usize::from(y <= x);
    }
    let all = one.len() + other.len() - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two that are alike, and a third.
    fn likeness(a: usize, b: usize) -> f64 {
        if a.max(b) == 1 { 0.9 } else { 0.1 }
    }

    #[test]
    fn worked_by_hand() {
        let scores = [0.9, 0.8, 0.5];
        assert_eq!(diversify(&scores, 0.0, 3, likeness), [0, 1, 2]);
        // At .5: the second is worth .4 - .45 = -.05, the third .25 - .05 = .2.
        assert_eq!(diversify(&scores, 0.5, 3, likeness), [0, 2, 1]);
        // At .2: .64 - .18 = .46 against .4 - .02 = .38.
        assert_eq!(diversify(&scores, 0.2, 3, likeness), [0, 1, 2]);
        assert_eq!(diversify(&scores, 0.5, 2, likeness), [0, 2]);
        assert_eq!(diversify(&scores, 0.5, 0, likeness), Vec::<usize>::new());
        assert_eq!(diversify(&[], 0.5, 4, likeness), Vec::<usize>::new());
        // At 1 the first is the first, since nothing is before it; then the least alike.
        assert_eq!(diversify(&scores, 1.0, 2, likeness), [0, 2]);
    }

    #[test]
    fn odd_numbers_are_no_trouble() {
        let scores = [f64::NAN, 0.5, f64::NEG_INFINITY, f64::INFINITY];
        let order = diversify(&scores, 0.3, 9, |_, _| f64::NAN);
        assert_eq!((order.len(), order[0]), (4, 3));
        assert_eq!(diversify(&[0.1, 0.2], f64::NAN, 2, likeness), [1, 0]);
    }

    #[test]
    fn what_is_shared_is_counted_once() {
        assert_eq!(overlap(&[], &[]), 0.0);
        assert_eq!(overlap(&[1, 2], &[1, 2]), 1.0);
        assert_eq!(overlap(&[1, 2, 3], &[3, 4, 5]), 0.2);
    }

    #[test]
    fn words_are_those_of_both_scripts() {
        assert_eq!(words("Green tea, green TEA!"), words("tea green"));
        assert_eq!(words("喝绿茶").len(), 2);
        assert!(overlap(&words("我喜欢喝绿茶"), &words("他喜欢喝绿茶")) > 0.5);
        assert_eq!(words("café naïve").len(), 2);
        assert!(words("🙂 …").is_empty());
        assert_eq!(words("茶").len(), 1);
    }

    proptest! {
        /// Each place once, and without diversity the order of the scores.
        #[test]
        fn an_order_is_a_choice_of_places(
            scores in prop::collection::vec(0.0..1.0f64, 0..20), diversity in 0.0..=1.0f64, k in 0usize..25,
        ) {
            let order = diversify(&scores, diversity, k, |a, b| ((a * 7 + b * 7) % 10) as f64 / 10.0);
            prop_assert_eq!(order.len(), k.min(scores.len()));
            let mut places = order.clone();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), order.len());
            let plain = diversify(&scores, 0.0, k, |_, _| 1.0);
            prop_assert!(plain.windows(2).all(|pair| scores[pair[0]] >= scores[pair[1]]));
        }
    }
}
