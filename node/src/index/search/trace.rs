//! What became of one memory in a search: why it is among the hits, or not.

use super::super::image::{Columns, RowView};
use super::boosts::Boosts;
use super::query::Hit;
use super::top::Candidate;
use super::{Pass, Query, sees};
use holdfast_core::filter::Fault;
use holdfast_core::memory::Status;
use holdfast_core::score::{Scorer, flag};

/// Whether a query may see a memory, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// It may.
    Seen,
    /// There is no such memory, or its chunks stand in its place.
    Absent,
    /// It has expired.
    Expired,
    /// It did not hold at the time that is asked about, or was not believed to.
    NotThen,
    /// It is in cold storage.
    Archived,
    /// Another memory says the same and stands for it.
    Merged,
    /// Another memory has taken its place, or it was taken back.
    Superseded,
    /// What it states is over.
    Over,
    /// A newer memory may say otherwise.
    Older,
}

/// What became of one memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Whether the query may see it. If not, it was not scored, and the rest is empty.
    pub sight: Sight,
    /// What of the filter it does not meet.
    pub faults: Vec<Fault>,
    /// Its score with the reasons.
    pub hit: Option<Hit>,
    /// Its place among the memories that pass the filter, from 1, whether it passes itself or not; the
    /// lowest score that was asked for does not count. 0 if it was not scored.
    pub rank: u64,
    /// How many memories pass the filter, whatever their score.
    pub passing: u64,
}

/// Where a score stands among the memories that pass the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// How many score higher.
    pub above: u64,
    /// How many there are.
    pub passing: u64,
}

/// What a query sees of a row.
fn sight(query: &Query<'_>, columns: &Columns, at: usize) -> Sight {
    if columns.flags[at] & flag::LIVE == 0 {
        return Sight::Absent;
    }
    if columns.expires_us[at] <= query.log_now_us {
        return Sight::Expired;
    }
    if sees(query, columns, at) {
        return Sight::Seen;
    }
    match columns.status[at] {
        Status::Merged => Sight::Merged,
        _ if query.as_of.is_some() => Sight::NotThen,
        Status::Archived => Sight::Archived,
        Status::Deprecated => Sight::Superseded,
        Status::Active if columns.valid_to_us[at] <= query.now_us => Sight::Over,
        Status::Active => Sight::Older,
    }
}

impl Pass<'_> {
    /// Traces the memory of a `seq`. Looks at every row, as the scan does.
    pub(super) fn trace(
        &self,
        seq: u64,
        scorer: &Scorer,
        boosts: &Boosts<'_>,
        hit: impl Fn(Candidate) -> Hit,
    ) -> Trace {
        let columns = &self.image.columns;
        let row = self.image.row(seq);
        let sight = row.map_or(Sight::Absent, |row| sight(self.query, columns, row as usize));
        let mut trace = Trace { sight, faults: Vec::new(), hit: None, rank: 0, passing: 0 };
        let Some(row) = row.filter(|_| sight == Sight::Seen) else { return trace };
        let traced = self.candidate(row, self.scratch.relevance[row as usize], scorer, boosts);
        let standing = self.standing(scorer, boosts, |other| other > traced);
        (trace.rank, trace.passing) = (standing.above + 1, standing.passing);
        let view = RowView::new(self.image, row as usize);
        let filter = self.query.filter.filter(|filter| !filter.is_all());
        trace.faults = filter.map(|filter| filter.faults(&view)).unwrap_or_default();
        trace.hit = Some(hit(traced));
        trace
    }

    /// Counts the memories that pass the filter, and those of them that come before another one. Looks at every row,
    /// as the scan does.
    pub(super) fn standing(
        &self,
        scorer: &Scorer,
        boosts: &Boosts<'_>,
        is_before: impl Fn(Candidate) -> bool,
    ) -> Standing {
        let filter = self.query.filter.filter(|filter| !filter.is_all());
        let mut standing = Standing::default();
        for (row, (flags, relevance)) in (0u32..).zip(self.scratch.flags.iter().zip(&self.scratch.relevance))
        {
            let passes = flags & flag::LIVE != 0
                && filter.is_none_or(|filter| filter.matches(&RowView::new(self.image, row as usize)));
            if passes {
                standing.passing += 1;
                standing.above += u64::from(is_before(self.candidate(row, *relevance, scorer, boosts)));
            }
        }
        standing
    }
}
