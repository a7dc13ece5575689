//! The search for weights: by a Tree-structured Parzen Estimator (Bergstra et al. 2011, "Algorithms for
//! Hyper-Parameter Optimization"), over what recalls answered. Nothing is asked again: a score is a weighted sum of
//! parts that are known, so other weights only order the same memories in another way.

use anyhow::Result;
use holdfast_core::score::Weights;
use rand10::SeedableRng;
use rand10::rngs::StdRng;

/// One question with what a recall answered.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    /// In the order of the answer.
    pub(super) found: Vec<Found>,
    /// Memories that answer the question, found or not.
    pub(super) relevant: usize,
}

/// One memory of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) relevance: f64,
    pub(super) recency: f64,
    pub(super) importance: f64,
    pub(super) frequency: f64,
    pub(super) boost: f64,
    /// Whether it answers the question.
    pub(super) is_relevant: bool,
}

impl Found {
    fn score(&self, weights: &Weights) -> f64 {
        weights.s * self.relevance
            + weights.r * self.recency
            + weights.i * self.importance
            + weights.f * self.frequency
            + self.boost
    }
}

/// nDCG at `k` of one question (Järvelin and Kekäläinen 2002), with gains of 0 and 1: 1 if the first places have
/// nothing but relevant memories, 0 if they have none.
fn ndcg(judged: &Judged, weights: &Weights, k: usize) -> f64 {
    let mut order: Vec<(f64, bool)> =
        judged.found.iter().map(|found| (found.score(weights), found.is_relevant)).collect();
    // Stable: what has the same score stays in the order of the answer.
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let found: f64 =
        order.iter().take(k).enumerate().filter(|(_, (_, hit))| *hit).map(|(place, _)| gain(place)).sum();
    let most: f64 = (0..judged.relevant.min(k)).map(gain).sum();
    if most > 0.0 { found / most } else { 0.0 }
}

/// The mean of nDCG at `k` over questions.
pub(super) fn quality<'a>(judged: impl IntoIterator<Item = &'a Judged>, weights: &Weights, k: usize) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for judged in judged {
        sum += ndcg(judged, weights, k);
        count += 1;
    }
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// The best weights of `trials`, beginning with `first`. The same seed gives the same.
pub(super) fn best(
    judged: &[&Judged],
    first: Weights,
    k: usize,
    trials: usize,
    seed: u64,
) -> Result<Weights> {
    let optimiser =
        || -> Result<_> { Ok(tpe::TpeOptimizer::new(tpe::parzen_estimator(), tpe::range(0.0, 1.0)?)) };
    let mut optimisers = [optimiser()?, optimiser()?, optimiser()?, optimiser()?];
    let mut random = StdRng::seed_from_u64(seed);
    let mut best = (quality(judged.iter().copied(), &first, k), first);
    let told = [first.s, first.r, first.i, first.f];
    for (optimiser, value) in optimisers.iter_mut().zip(told) {
        // The range is open at its end.
        optimiser.tell(value.min(1.0 - 1e-9), 1.0 - best.0)?;
    }
    for _ in 0..trials {
        let mut asked = [0.0; 4];
        for (optimiser, value) in optimisers.iter_mut().zip(&mut asked) {
            *value = optimiser.ask(&mut random)?;
        }
        let sum: f64 = asked.iter().sum();
        if sum <= 0.0 {
            continue;
        }
        let [s, r, i, f] = asked.map(|value| value / sum);
        let weights = Weights { s, r, i, f };
        let found = quality(judged.iter().copied(), &weights, k);
        for (optimiser, value) in optimisers.iter_mut().zip(asked) {
            optimiser.tell(value, 1.0 - found)?;
        }
        if found > best.0 {
            best = (found, weights);
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::score::Profile;

    fn found(relevance: f64, recency: f64, is_relevant: bool) -> Found {
        Found { relevance, recency, importance: 0.5, frequency: 0.0, boost: 0.0, is_relevant }
    }

    /// What answers is new, whatever the words say.
    fn newest_wins(question: u32) -> Judged {
        let found = (0..20u32).map(|at| {
            let noise = f64::from((at * 37 + question * 11) % 20) / 20.0;
            found(noise, f64::from(at) / 20.0, at == 19)
        });
        Judged { found: found.collect(), relevant: 1 }
    }

    #[test]
    fn ndcg_counts_places() {
        let weights = Profile::Relevance.weights();
        let judged = |hits: [bool; 3], relevant| Judged {
            found: hits.into_iter().zip([0.9, 0.5, 0.1]).map(|(hit, s)| found(s, 0.0, hit)).collect(),
            relevant,
        };
        let of = |hits, relevant| ndcg(&judged(hits, relevant), &weights, 3);
        assert_eq!(of([true, true, false], 2), 1.0);
        assert!((of([false, true, false], 1) - 1.0 / 3f64.log2()).abs() < 1e-12);
        assert_eq!(of([false, false, false], 2), 0.0);
        assert_eq!(of([true, false, false], 0), 0.0, "nothing to find");
        assert!(of([true, false, false], 2) < 1.0, "one was not found at all");
        assert_eq!(ndcg(&judged([false, false, true], 1), &weights, 2), 0.0, "beyond k");
        assert_eq!(quality([], &weights, 3), 0.0);
    }

    #[test]
    fn weights_move_to_what_tells_and_the_same_seed_gives_the_same() {
        let all: Vec<Judged> = (0..40).map(newest_wins).collect();
        let (train, held): (Vec<&Judged>, Vec<&Judged>) =
            (all[..28].iter().collect(), all[28..].iter().collect());
        let before = Profile::Ebbinghaus.weights();
        let tuned = best(&train, before, 10, 100, 1).unwrap();
        assert!(tuned.r > tuned.s, "{tuned:?}");
        let of = |weights| quality(held.iter().copied(), weights, 10);
        assert!(of(&tuned) > of(&before) + 0.1, "{} {}", of(&tuned), of(&before));
        assert!((tuned.s + tuned.r + tuned.i + tuned.f - 1.0).abs() < 1e-9);
        assert_eq!(best(&train, before, 10, 100, 1).unwrap(), tuned);
        // Where nothing can be won, what was there stays.
        assert_eq!(best(&train, before, 10, 0, 1).unwrap(), before);
        let nothing = [&Judged { found: vec![], relevant: 1 }];
        assert_eq!(best(&nothing, before, 10, 20, 1).unwrap(), before);
    }
}
