use super::Scratch;
use holdfast_core::score::flag;

/// The place of a memory among those that the query sees, by one source of relevance alone; from 1.
/// Equal values share the better place. Of a search that ran out of time, among those that were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ranks {
    /// By the cosine; none where there is no vector to compare.
    pub cosine: Option<u64>,
    /// By its own words; none where it has none of the query's.
    pub keyword: Option<u64>,
}

/// The values of each source in descending order, from which the place of any row is read.
pub(super) struct Ranking {
    cosines: Vec<f32>,
    bm25: Vec<f32>,
}

impl Ranking {
    pub(super) fn new(scratch: &Scratch) -> Self {
        let seen = |values: &[f32], counts: fn(f32) -> bool| {
            let rows = scratch.flags.iter().zip(values);
            let seen = rows.filter(|(flags, value)| **flags & flag::LIVE != 0 && counts(**value));
            let mut values: Vec<f32> = seen.map(|(_, value)| *value).collect();
            values.sort_unstable_by(|a, b| b.total_cmp(a));
            values
        };
        Self { cosines: seen(&scratch.cosines, f32::is_finite), bm25: seen(&scratch.bm25, |bm25| bm25 > 0.0) }
    }

    pub(super) fn of(&self, scratch: &Scratch, at: usize) -> Ranks {
        let place = |sorted: &[f32], value: Option<&f32>| {
            let value = value.filter(|value| value.is_finite())?;
            let better = sorted.partition_point(|other| other > value);
            sorted.get(better).is_some_and(|other| other == value).then_some(better as u64 + 1)
        };
        Ranks {
            cosine: place(&self.cosines, scratch.cosines.get(at)),
            keyword: place(&self.bm25, scratch.bm25.get(at).filter(|bm25| **bm25 > 0.0)),
        }
    }
}
