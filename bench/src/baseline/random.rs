//! The generator's source of chance: SplitMix64, written out here so that the same seed gives the
//! same workload with every version of every library.

/// A stream of numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5851_f42d_4c95_7f2d))
    }

    /// A stream of its own for the part of the work that `label` names: what one part draws does not
    /// move what another gets.
    pub fn fork(&self, label: u64) -> Self {
        Self(mix(self.0 ^ mix(label.wrapping_add(1))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `0..bound`; 0 if `bound` is 0. The bias of the remainder is below 2^-50 for the
    /// small bounds used here.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64) < probability
    }

    /// One of `items`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_seed_gives_one_stream_and_forks_differ() {
        let draw = |mut random: Random| (0..8).map(|_| random.below(1 << 30)).collect::<Vec<_>>();
        assert_eq!(draw(Random::new(7)), draw(Random::new(7)));
        assert_ne!(draw(Random::new(7)), draw(Random::new(8)));
        assert_ne!(draw(Random::new(7).fork(0)), draw(Random::new(7).fork(1)));
        assert_ne!(draw(Random::new(7).fork(0)), draw(Random::new(8).fork(0)));
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let mut seen = [0; 4];
        for _ in 0..400 {
            seen[random.between(3, 6) - 3] += 1;
        }
        assert!(seen.iter().all(|count| *count > 60), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert!(random.pick::<u8>(&[]).is_none());
        let hits = (0..1000).filter(|_| random.chance(0.3)).count();
        assert!((250..350).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
        let mut order: Vec<usize> = (0..20).collect();
        random.shuffle(&mut order);
        assert_ne!(order, (0..20).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}
