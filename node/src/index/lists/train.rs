//! Where the centroids are, and how far a query has to look.
//!
//! Spherical k-means (Dhillon and Modha, 2001: centroids are means of unit vectors, scaled to unit length,
//! and nearness is the cosine) over a sample of the space's own vectors. The sample comes in the order of
//! hashes of ids, which is as good as any: nothing is drawn at random, and the same memories give the same
//! lists.

use numkong::{Dot, f16};

/// Vectors of the sample for each list.
pub(super) const SAMPLE_PER_LIST: usize = 48;
/// Lists at the most: each query compares all centroids.
pub(super) const LISTS_MAX: usize = 4_096;
/// Passes over the sample at the most.
const ROUNDS_MAX: usize = 8;
/// Vectors of the sample that are taken as queries to measure how far to look.
const QUERIES: usize = 64;
/// The nearest vectors of a query that its lists should have, in the whole space and in the sample.
const NEAREST: usize = 128;
const NEAREST_MIN: usize = 16;
/// How many of these are in the lists that are looked into: in hundredths.
const FOUND_PERCENT: usize = 99;
/// Queries of users are further from the vectors than these are from each other.
const PROBES_MARGIN: usize = 2;
const PROBES_MIN: usize = 8;
/// One pair in so many may have more in common beside a centroid than is assumed.
const SPREAD_ONE_IN: usize = 10_000;

/// What training found.
#[derive(Debug)]
pub(super) struct Trained {
    pub(super) dims: usize,
    /// One behind the other, of unit length.
    pub(super) centroids: Vec<f16>,
    pub(super) probes: usize,
    pub(super) spread: f32,
}

/// How many lists so many vectors get: the square root, which makes a look at all centroids about as dear as
/// one at a list.
pub(super) fn lists_for(vectors: usize) -> usize {
    vectors.isqrt().clamp(1, LISTS_MAX)
}

impl Trained {
    /// The nearest centroid of a vector, and its cosine.
    pub(super) fn nearest(&self, vector: &[f16]) -> (usize, f32) {
        let mut best = (0, f32::NEG_INFINITY);
        for (list, centroid) in self.centroids.chunks_exact(self.dims).enumerate() {
            let cosine = f16::dot(vector, centroid).unwrap_or(f32::NEG_INFINITY);
            if cosine > best.1 {
                best = (list, cosine);
            }
        }
        best
    }
}

/// Finds centroids for a space of `total` vectors by a sample, one vector behind the other. `None` if it was
/// given up.
pub(super) fn train(
    sample: &[f16],
    dims: usize,
    total: usize,
    give_up: &dyn Fn() -> bool,
) -> Option<Trained> {
    let count = sample.len() / dims.max(1);
    let lists = lists_for(total).min(count.max(1));
    let centroids = sample.get(..lists * dims).unwrap_or_default().to_vec();
    let mut trained = Trained { dims, centroids, probes: lists, spread: 1.0 };
    if count == 0 {
        return Some(trained);
    }
    let mut homes = vec![(0, 0.0); count];
    for _ in 0..ROUNDS_MAX {
        let mut moved = 0;
        for (vector, home) in sample.chunks_exact(dims).zip(&mut homes) {
            let nearest = trained.nearest(vector);
            moved += usize::from(nearest.0 != home.0);
            *home = nearest;
        }
        trained.centroids = means(sample, dims, lists, &homes);
        if give_up() {
            return None;
        }
        if moved * 100 < count {
            break;
        }
    }
    for (vector, home) in sample.chunks_exact(dims).zip(&mut homes) {
        *home = trained.nearest(vector);
    }
    measure(&mut trained, sample, total, &homes);
    (!give_up()).then_some(trained)
}

/// The mean of each list. A list without vectors gets one of those that are furthest from their own.
fn means(sample: &[f16], dims: usize, lists: usize, homes: &[(usize, f32)]) -> Vec<f16> {
    let mut sums = vec![0f32; lists * dims];
    let mut counts = vec![0u32; lists];
    for (vector, (home, _)) in sample.chunks_exact(dims).zip(homes) {
        counts[*home] += 1;
        let sum = &mut sums[home * dims..(home + 1) * dims];
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += half::f16::from_bits(value.0).to_f32());
    }
    let mut far: Vec<usize> = (0..homes.len()).collect();
    far.sort_unstable_by(|a, b| homes[*a].1.total_cmp(&homes[*b].1).then(a.cmp(b)));
    let mut far = far.into_iter();
    let mut centroids = Vec::with_capacity(lists * dims);
    for (list, sum) in sums.chunks_exact(dims).enumerate() {
        let norm = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if counts[list] > 0 && norm > 1e-6 {
            centroids.extend(sum.iter().map(|value| f16(half::f16::from_f32(value / norm).to_bits())));
        } else {
            let stray = far.next().unwrap_or(0);
            centroids.extend_from_slice(&sample[stray * dims..(stray + 1) * dims]);
        }
    }
    centroids
}

/// Measures how many lists a query has to look into, and what may be in the others: with vectors of the
/// sample as queries.
fn measure(trained: &mut Trained, sample: &[f16], total: usize, homes: &[(usize, f32)]) {
    let dims = trained.dims;
    let lists = trained.centroids.len() / dims.max(1);
    let count = homes.len();
    let wanted = (NEAREST * count / total.max(1)).max(NEAREST_MIN);
    let queries: Vec<&[f16]> =
        sample.chunks_exact(dims).step_by((count / QUERIES).max(1)).take(QUERIES).collect();
    let mut depths = Vec::new();
    let mut all = Vec::with_capacity(queries.len());
    for query in &queries {
        let places = Places::of(trained, query);
        let mut near: Vec<(f32, usize)> = sample
            .chunks_exact(dims)
            .map(|vector| f16::dot(query, vector).unwrap_or(-1.0))
            .zip(homes.iter().map(|home| home.0))
            .collect();
        let last = wanted.min(near.len()).saturating_sub(1);
        let cosines = near.clone();
        near.select_nth_unstable_by(last, |a, b| b.0.total_cmp(&a.0));
        depths.extend(near[..=last].iter().map(|(_, home)| places.depth[*home]));
        all.push((places, cosines));
    }
    let Some(at) = (depths.len() * FOUND_PERCENT / 100).checked_sub(1) else { return };
    let (_, depth, _) = depths.select_nth_unstable(at);
    trained.probes = ((*depth + 1) * PROBES_MARGIN).max(PROBES_MIN).min(lists);
    let mut common = Vec::new();
    for (places, cosines) in &all {
        for ((cosine, home), (_, along)) in cosines.iter().zip(homes) {
            if places.depth[*home] < trained.probes {
                continue;
            }
            let (own, rest) = (places.cosine[*home], (1.0 - along * along).max(0.0).sqrt());
            let beside = (1.0 - own * own).max(0.0).sqrt() * rest;
            if beside > 1e-3 {
                common.push((cosine - own * along) / beside);
            }
        }
    }
    // Of too few pairs there is nothing to learn: then what can be counts.
    if common.len() >= SPREAD_ONE_IN {
        let at = common.len() / SPREAD_ONE_IN;
        let (_, most, _) = common.select_nth_unstable_by(at, |a, b| b.total_cmp(a));
        trained.spread = most.clamp(0.0, 1.0);
    }
}

/// How a query lies to the centroids.
struct Places {
    cosine: Vec<f32>,
    /// For each list how many are nearer.
    depth: Vec<usize>,
}

impl Places {
    fn of(trained: &Trained, query: &[f16]) -> Self {
        let centroids = trained.centroids.chunks_exact(trained.dims);
        let cosine: Vec<f32> = centroids.map(|centroid| f16::dot(query, centroid).unwrap_or(-1.0)).collect();
        let mut order: Vec<usize> = (0..cosine.len()).collect();
        order.sort_unstable_by(|a, b| cosine[*b].total_cmp(&cosine[*a]).then(a.cmp(b)));
        let mut depth = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, list)| depth[*list] = place);
        Self { cosine, depth }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    const DIMS: usize = 16;

    /// Vectors around so many centres.
    fn clustered(count: usize, centres: u64) -> Vec<f16> {
        let mut random = StdRng::seed_from_u64(7);
        let mut all = Vec::new();
        for _ in 0..count {
            let mut centre = StdRng::seed_from_u64(random.random_range(0..centres));
            let raw: Vec<f32> = (0..DIMS)
                .map(|_| centre.random_range(-1.0..1.0f32) + 0.1 * random.random_range(-1.0..1.0f32))
                .collect();
            let unit = holdfast_core::vector::normalise(&raw).unwrap();
            all.extend(unit.iter().map(|value| f16(half::f16::from_f32(*value).to_bits())));
        }
        all
    }

    #[test]
    fn vectors_of_one_centre_share_a_list_and_the_same_sample_gives_the_same_lists() {
        let sample = clustered(900, 9);
        let trained = train(&sample, DIMS, 900, &|| false).unwrap();
        assert_eq!(trained.centroids.len(), 30 * DIMS);
        let far = sample.chunks_exact(DIMS).filter(|vector| trained.nearest(vector).1 < 0.9).count();
        assert!(far * 50 < 900, "{far}");
        assert!(trained.probes < 30 && trained.spread > 0.0 && trained.spread <= 1.0, "{trained:?}");
        let again = train(&sample, DIMS, 900, &|| false).unwrap();
        let bits = |trained: &Trained| trained.centroids.iter().map(|value| value.0).collect::<Vec<_>>();
        assert_eq!(bits(&trained), bits(&again));
        assert!(train(&sample, DIMS, 900, &|| true).is_none());
    }

    #[test]
    fn samples_without_order_are_borne() {
        // All the same, opposite to each other, one alone, none.
        let one = &clustered(1, 1)[..];
        let same: Vec<f16> = one.iter().copied().cycle().take(50 * DIMS).collect();
        let trained = train(&same, DIMS, 50, &|| false).unwrap();
        assert!(trained.nearest(one).1 > 0.99);
        let opposite: Vec<f16> = one.iter().map(|value| f16(value.0 ^ 0x8000)).collect();
        let both = [one, &opposite].concat();
        assert!(
            train(&both, DIMS, 1, &|| false)
                .unwrap()
                .centroids
                .iter()
                .all(|value| { half::f16::from_bits(value.0).is_finite() })
        );
        assert_eq!(train(one, DIMS, 1_000_000, &|| false).unwrap().centroids.len(), DIMS);
        assert!(train(&[], DIMS, 0, &|| false).unwrap().centroids.is_empty());
    }
}
