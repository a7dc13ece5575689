//! The search of an image: one loop over its rows, which scores each row that may be among the best.
//!
//! Every part of a row's score but the cosine is at hand for all rows. The score grows with the cosine, so
//! the most that a row's cosine can be gives the most that its score can be, and a row that cannot enter by
//! that is passed over. How much is known of the cosines is what indices differ in ([`Cosines`]): the exact
//! scan has compared them all; a graph has found the nearest, and no other row in it is nearer; lists know of
//! each row how near it can be at the most.
//!
//! What a query may **see** is decided first: memories that are live, not expired, and, unless it
//! asks for them, neither superseded nor archived nor over, and of those that may contradict each
//! other the newest; or, where it asks for the past, what held then. All statistics (document frequencies, average
//! length, means and deviations) and all neighbours are those of the visible rows, as if the others
//! had never been written. The **filter** comes last: it chooses among scored rows and changes no
//! score, so the same memory has the same score under every filter.

mod asked;
mod best;
mod boosts;
mod cosines;
mod explain;
mod judge;
mod listed;
mod nearest;
mod query;
mod ranking;
mod top;
mod trace;

use super::image::{Columns, Image};
use best::Best;
use boosts::Boosts;
use cosines::Cosines;
use explain::Explain;
use holdfast_core::filter::Filter;
use holdfast_core::memory::{HARD_CONSTRAINT, Status};
use holdfast_core::score::{
    Constants, CorpusStats, Rows, RowsError, Scorer, Statics, Stats, Why, flag, lift_touched, sample,
    set_bits,
};
use holdfast_core::{Error, ErrorCode, Result};
use judge::Judge;
use ranking::Ranking;
use std::cell::RefCell;
use top::Candidate;

pub use query::{Answer, AsOf, Beside, Conflicts, Hit, Preference, Query, RelevanceMode};
pub use ranking::Ranks;
pub use trace::{Sight, Standing, Trace};

/// A thread keeps its buffers from search to search, unless they grew beyond this many rows.
const KEPT_ROWS_MAX: usize = 1 << 18;

/// Most speakers that one partition names: two that are different already address nobody, unless one of
/// them hides the other.
pub const NAMED_MAX: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Columns that one search computes, one entry a row.
#[derive(Default)]
struct Scratch {
    /// The image's flags, with `LIVE` only where the query may see the row, and `VECTOR` only where
    /// its vector can be compared with the query's.
    flags: Vec<u8>,
    bm25: Vec<f32>,
    lifted: Vec<f32>,
    /// Rows whose `lifted` may be other than 0: a word for each block.
    touched: Vec<u64>,
    /// NaN where there is none, or where it is not known yet.
    cosines: Vec<f32>,
    /// Of the rows that were scored; what stands at others is of searches before, but where a query explains.
    relevance: Vec<f64>,
}

impl Image {
    /// The best memories for a query, by statistics of this image alone: for a recall over one
    /// partition.
    ///
    /// # Errors
    /// If the query's vector has no direction, or another length than the vectors of its model; or
    /// [`ErrorCode::Unavailable`] if a vector could not be read from the file of the space's lists. Then the image
    /// is given up, and the next one that [`Spaces`](super::Spaces) answers is sound.
    pub fn search(&self, query: &Query<'_>) -> Result<Answer> {
        with_scratch(|scratch| {
            if let Some(answer) = nearest::search(self, query)? {
                return Ok(answer);
            }
            let mut pass = Pass::new(self, query, scratch)?;
            let corpus = pass.corpus();
            pass.match_words(&corpus)?;
            let constants = Constants::from_stats(&pass.stats()?, &query.prior, corpus.query_weight());
            pass.answer(&corpus, &constants)
        })
    }

    /// The counts that BM25 needs, to be merged with those of the recall's other partitions.
    ///
    /// # Errors
    /// As [`Image::search`].
    pub fn corpus(&self, query: &Query<'_>) -> Result<CorpusStats> {
        with_scratch(|scratch| Ok(Pass::new(self, query, scratch)?.corpus()))
    }

    /// The names of the speakers of whom the query holds something, to be put together with those of the
    /// recall's other partitions: at most [`NAMED_MAX`].
    pub fn named(&self, query: &Query<'_>) -> Vec<String> {
        let named = self.speaker_names().named(query.text);
        named.into_iter().take(NAMED_MAX).filter_map(|id| self.speakers.name(id)).map(str::to_owned).collect()
    }

    /// The sums for the constants of a recall, by the merged counts of all of its partitions.
    ///
    /// # Errors
    /// As [`Image::search`].
    pub fn stats(&self, query: &Query<'_>, corpus: &CorpusStats) -> Result<Stats> {
        with_scratch(|scratch| {
            let mut pass = Pass::new(self, query, scratch)?;
            pass.match_words(corpus)?;
            pass.stats()
        })
    }

    /// The best memories of this partition, by the counts and constants of the whole recall.
    ///
    /// # Errors
    /// As [`Image::search`].
    pub fn search_with(
        &self,
        query: &Query<'_>,
        corpus: &CorpusStats,
        constants: &Constants,
    ) -> Result<Answer> {
        with_scratch(|scratch| {
            if let Some(answer) = nearest::search(self, query)? {
                return Ok(answer);
            }
            let mut pass = Pass::new(self, query, scratch)?;
            pass.match_words(corpus)?;
            pass.answer(corpus, constants)
        })
    }
}

/// Whether a memory holds at the time that is asked about, as far as is asked.
#[inline]
fn sees(query: &Query<'_>, columns: &Columns, at: usize) -> bool {
    // At any time another one says the same; where a filter chooses, each is judged by itself.
    if columns.status[at] == Status::Merged
        && !query.include_deprecated
        && query.filter.is_none_or(Filter::is_all)
    {
        return false;
    }
    if let Some(then) = &query.as_of {
        return held(then, columns, at);
    }
    if query.include_deprecated || query.conflicts == Conflicts::All {
        return true;
    }
    // That something newer may say otherwise retires nothing, and hides least of all what must be respected.
    let binds = columns.importance[at] >= HARD_CONSTRAINT;
    let hidden = columns.older[at] && query.conflicts == Conflicts::Latest && !binds;
    matches!(columns.status[at], Status::Active | Status::Merged)
        && columns.valid_to_us[at] > query.now_us
        && !hidden
}

/// Whether a memory was believed at the one time to hold at the other. What its statements say goes
/// first; a memory without any tells what happened, from then on. Of one that names no time it is not known since when
/// it holds, and only when it was recorded counts.
fn held(then: &AsOf<'_>, columns: &Columns, at: usize) -> bool {
    let states = columns.valid_from_us[at] > i64::MIN;
    let has_begin = states || columns.event_us[at] != columns.created_us[at];
    match then.held.get(&columns.seq[at]) {
        Some(held) if states => *held,
        _ => {
            columns.created_us[at] <= then.recorded_us
                // Nothing is later than what is never taken back, not even the end of all times.
                && (columns.retracted_us[at] == i64::MAX || columns.retracted_us[at] > then.recorded_us)
                && (!has_begin || columns.event_us[at].max(columns.valid_from_us[at]) <= then.valid_us)
                && columns.valid_to_us[at] > then.valid_us
        }
    }
}

/// Columns of one image that do not fit together: a defect.
fn broken(error: RowsError) -> Error {
    Error::new(ErrorCode::Internal, error.to_string())
}

#[inline]
fn statics(columns: &Columns, at: usize) -> Statics {
    Statics {
        last_access_micros: columns.last_access_us[at],
        adopted: columns.access_count[at],
        importance: columns.importance[at],
        strength: f32::from(columns.strength_milli[at]) / 1_000.0,
    }
}

/// What a query's profile, weights and tau score by.
fn scorer(query: &Query<'_>) -> Scorer {
    let mut scorer = Scorer::new(query.profile, query.now_us);
    if let Some(weights) = query.weights {
        scorer = scorer.with_weights(weights);
    }
    if let Some(tau_hours) = query.tau_hours {
        scorer = scorer.with_tau_hours(tau_hours);
    }
    scorer
}

fn with_scratch<T>(search: impl FnOnce(&mut Scratch) -> Result<T>) -> Result<T> {
    SCRATCH.with_borrow_mut(|scratch| {
        let answer = search(scratch);
        if scratch.flags.capacity() > KEPT_ROWS_MAX {
            *scratch = Scratch::default();
        }
        answer
    })
}

/// One walk over an image for one query.
struct Pass<'a> {
    image: &'a Image,
    query: &'a Query<'a>,
    scratch: &'a mut Scratch,
    cosines: Cosines<'a>,
    visible: u64,
    visible_len: u64,
}

impl<'a> Pass<'a> {
    fn new(image: &'a Image, query: &'a Query<'a>, scratch: &'a mut Scratch) -> Result<Self> {
        let probe = query.vector.map(|vector| image.vectors.probe(query.vector_model, vector)).transpose()?;
        let mut pass =
            Self { image, query, scratch, cosines: Cosines::new(probe), visible: 0, visible_len: 0 };
        pass.see();
        let Scratch { flags, cosines, .. } = &mut *pass.scratch;
        pass.cosines.begin(image, flags, cosines);
        Ok(pass)
    }

    /// Masks what the query may not see. Of most blocks a query of the present sees every row.
    fn see(&mut self) {
        let columns = &self.image.columns;
        let flags = &mut self.scratch.flags;
        flags.clear();
        flags.extend_from_slice(&columns.flags);
        let present = self.query.as_of.is_none();
        for (number, block) in columns.blocks.iter().enumerate() {
            let rows = columns.rows_of(number);
            if present && block.special == 0 {
                self.visible += rows.len() as u64;
                self.visible_len += block.terms_len;
                continue;
            }
            for at in rows {
                if columns.expires_us[at] <= self.query.log_now_us || !sees(self.query, columns, at) {
                    flags[at] &= !flag::LIVE;
                }
                if flags[at] & flag::LIVE != 0 {
                    self.visible += 1;
                    self.visible_len += u64::from(columns.terms_len[at]);
                }
            }
        }
    }

    fn rows(&self) -> Result<Rows<'_>> {
        let links = &self.image.links;
        Rows::new(&self.scratch.flags, links.prev(), links.next(), &self.image.columns.speaker)
            .map_err(broken)
    }

    fn corpus(&self) -> CorpusStats {
        let flags = &self.scratch.flags;
        let visible = |row: u32| flags.get(row as usize).is_some_and(|flags| flags & flag::LIVE != 0);
        let df = |term: &String| {
            let rows = self.image.postings.rows(term);
            rows.iter().map(|(row, _)| u64::from(visible(*row))).sum()
        };
        CorpusStats {
            rows: self.visible,
            total_len: self.visible_len,
            df: self.query.terms.iter().map(df).collect(),
        }
    }

    /// BM25 of every row, and L.
    fn match_words(&mut self, corpus: &CorpusStats) -> Result<()> {
        let mut bm25 = std::mem::take(&mut self.scratch.bm25);
        let mut lifted = std::mem::take(&mut self.scratch.lifted);
        bm25.clear();
        bm25.resize(self.scratch.flags.len(), 0.0);
        let average_len = corpus.average_len();
        for (term, idf) in self.query.terms.iter().zip(corpus.idf()) {
            let rows = self.image.postings.rows(term).iter().copied();
            self.query.bm25.accumulate(idf, rows, &self.image.columns.terms_len, average_len, &mut bm25);
        }
        let mut touched = std::mem::take(&mut self.scratch.touched);
        let matched = self.query.terms.iter().flat_map(|term| self.image.postings.rows(term));
        let matched = matched.map(|(row, _)| *row);
        let neighbours = &self.query.neighbours;
        lift_touched(&self.rows()?, &bm25, matched, neighbours, &mut lifted, &mut touched);
        self.scratch.bm25 = bm25;
        self.scratch.lifted = lifted;
        self.scratch.touched = touched;
        Ok(())
    }

    fn stats(&mut self) -> Result<Stats> {
        let rows = self.rows()?;
        let mut stats = Stats::default();
        let lifted = set_bits(&self.scratch.touched);
        let lifted = lifted.filter(|row| rows.is_live(*row)).map(|row| self.scratch.lifted[row]);
        stats.add_lifted_of(self.visible, lifted);
        if self.query.vector.is_some() {
            let sampled = sample(&rows, &self.image.columns.id_hash);
            stats.add_cosines(sampled.into_iter().map(|row| self.cosine(row as usize)));
            self.cosines.check()?;
        }
        Ok(stats)
    }

    /// The cosine of a row, which is compared now if it was not before; NaN without one.
    #[inline]
    fn cosine(&mut self, at: usize) -> f32 {
        self.cosines.of(self.image, &mut self.scratch.cosines, at)
    }

    fn answer(&mut self, corpus: &CorpusStats, constants: &Constants) -> Result<Answer> {
        let Scratch { flags, cosines, .. } = &mut *self.scratch;
        self.cosines.compare(self.image, self.query, flags, cosines);
        let query_weight = corpus.query_weight();
        let judge = Judge::new(self.image, self.query, constants, query_weight);
        let scorer = scorer(self.query);
        let boosts = Boosts::new(self.image, self.query, corpus);
        let Best { top, constraints, constraints_total, stating, scored, is_whole } =
            self.best(&judge, &scorer, &boosts)?;
        let explains = self.query.explains();
        let explain =
            explains.then(|| Explain::new(self.image, self.query, self.scratch, judge.addressed(), &boosts));
        let ranking = explains.then(|| Ranking::new(self.scratch));
        let hit = |candidate: Candidate| {
            let at = candidate.row as usize;
            let parts = scorer.parts(self.scratch.relevance[at], &self.statics(at));
            let cosine = Some(self.scratch.cosines[at]).filter(|cosine| cosine.is_finite());
            Hit {
                seq: candidate.seq,
                id: self.image.columns.id[at].to_string(),
                score: candidate.score,
                parts: Why::new(&parts, cosine, self.scratch.bm25[at], query_weight, boosts.of(at)),
                ranks: ranking.as_ref().map(|ranking| ranking.of(self.scratch, at)),
                why: explain.as_ref().map(|explain| explain.row(candidate.row)).unwrap_or_default(),
            }
        };
        let trace = self.query.trace.map(|seq| self.trace(seq, &scorer, &boosts, hit));
        let standing =
            self.query.above.map(|score| self.standing(&scorer, &boosts, |other| other.score > score));
        Ok(Answer {
            hits: top.into_sorted().map(hit).collect(),
            scored: if self.cosines.is_exact() { self.visible } else { scored },
            exact: self.cosines.is_exact(),
            bound_met: is_whole,
            index: self.cosines.index(),
            constraints: constraints.into_sorted().map(hit).collect(),
            constraints_total,
            stating: stating.into_sorted().map(hit).collect(),
            trace,
            standing,
        })
    }

    #[inline]
    fn candidate(&self, row: u32, relevance: f64, scorer: &Scorer, boosts: &Boosts<'_>) -> Candidate {
        let at = row as usize;
        let score = scorer.score(&scorer.parts(relevance, &self.statics(at)), boosts.of(at));
        Candidate { score, seq: self.image.columns.seq[at], row }
    }

    #[inline]
    fn statics(&self, at: usize) -> Statics {
        statics(&self.image.columns, at)
    }
}
