//! The loop over the rows.

use super::super::image::{BLOCK_ROWS, Image, RowView};
use super::boosts::Boosts;
use super::judge::Judge;
use super::top::{Candidate, Top};
use super::{Cosines, Pass, Query, Scratch, statics};
use holdfast_core::Result;
use holdfast_core::filter::Filter;
use holdfast_core::memory::HARD_CONSTRAINT;
use holdfast_core::score::{Rows, Scorer, Statics, flag};
use std::ops::Range;
use std::time::Instant;

/// Rows between two looks at the clock.
const CLOCK_ROWS: usize = 4_096;
/// Vectors that are read from a file between two looks at the clock.
const CLOCK_READS: usize = 64;
/// Steps in which the most that a cosine can be is rounded up, where it is another for each row.
const CEILING_STEPS: usize = 512;

/// The rows that are answered.
pub(super) struct Best {
    pub(super) top: Top,
    pub(super) constraints: Top,
    pub(super) constraints_total: u64,
    pub(super) stating: Top,
    /// Rows whose score was computed.
    pub(super) scored: u64,
    /// Whether every row that could be among the best was scored.
    pub(super) is_whole: bool,
}

impl Pass<'_> {
    /// The best rows that pass the filter, which is asked only of rows that would get in; and what is
    /// wanted beside them.
    pub(super) fn best(&mut self, judge: &Judge, scorer: &Scorer, boosts: &Boosts<'_>) -> Result<Best> {
        let Self { image, query, scratch, cosines, .. } = self;
        let count = image.columns.len();
        let mut relevance = std::mem::take(&mut scratch.relevance);
        let mut known = std::mem::take(&mut scratch.cosines);
        if query.explains() {
            // It is asked for the relevance of every row, and others only for that of the rows that were scored.
            relevance.clear();
        }
        relevance.resize(count, 0.0);
        let top = |k| Top::new(k, count);
        let mut walk = Walk {
            image,
            query,
            scratch,
            rows: Rows::new(&scratch.flags, image.links.prev(), image.links.next(), &image.columns.speaker)
                .map_err(super::broken)?,
            judge,
            scorer,
            boosts,
            cosines,
            plain_most: PlainMost::new(judge, cosines),
            passes_over: !query.explains() && cosines.ceiling().is_some() && judge.names_nobody(),
            plain_alone: judge.plain_alone(),
            boosts_most: boosts.most(),
            soon: query.deadline.filter(|_| !cosines.is_exact()).map(soon),
            is_late: false,
            filter: query.filter.filter(|filter| !filter.is_all()),
            min_score: query.min_score.unwrap_or(f64::NEG_INFINITY),
            known: &mut known,
            relevance: &mut relevance,
            best: Best {
                top: top(query.top_k),
                constraints: top(query.beside.constraints),
                constraints_total: 0,
                stating: top(query.beside.stating),
                scored: 0,
                is_whole: true,
            },
        };
        walk.all();
        let best = walk.best;
        self.scratch.relevance = relevance;
        self.scratch.cosines = known;
        self.cosines.check()?;
        Ok(best)
    }
}

struct Walk<'a> {
    image: &'a Image,
    query: &'a Query<'a>,
    scratch: &'a Scratch,
    rows: Rows<'a>,
    judge: &'a Judge,
    scorer: &'a Scorer,
    boosts: &'a Boosts<'a>,
    cosines: &'a Cosines<'a>,
    plain_most: PlainMost,
    /// Whether whole blocks may be passed over: where one number bounds the cosines that are not known, and a row
    /// without words of the query is worth its cosine.
    passes_over: bool,
    /// S of such a row without a vector.
    plain_alone: f64,
    /// The most that a row gains beside its parts.
    boosts_most: f64,
    /// When to end, if the answer may be less than the best.
    soon: Option<Instant>,
    is_late: bool,
    filter: Option<&'a Filter>,
    min_score: f64,
    known: &'a mut [f32],
    relevance: &'a mut [f64],
    best: Best,
}

/// The most that S can be of a row without words of the query whose cosine is not known.
enum PlainMost {
    /// For all rows.
    One(f64),
    /// By the most that the cosine can be, from -1 to 1.
    Steps(Vec<f64>),
}

impl PlainMost {
    fn new(judge: &Judge, cosines: &Cosines<'_>) -> Self {
        match cosines.ceiling() {
            Some(ceiling) => Self::One(judge.plain(ceiling)),
            None => {
                let cosine = |step: usize| 2.0 * step as f32 / CEILING_STEPS as f32 - 1.0;
                Self::Steps((0..=CEILING_STEPS).map(|step| judge.plain(cosine(step))).collect())
            }
        }
    }

    /// Rounded up to the next step.
    #[inline]
    fn of(&self, ceiling: f32) -> f64 {
        match self {
            Self::One(most) => *most,
            Self::Steps(steps) => {
                let step = ((ceiling + 1.0) / 2.0 * CEILING_STEPS as f32).ceil();
                // Casts of floats saturate.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let step = (step as usize).min(CEILING_STEPS);
                steps.get(step).copied().unwrap_or(1.0)
            }
        }
    }
}

/// What a row could be answered as.
#[derive(Clone, Copy)]
struct Roles {
    is_constraint: bool,
    states: bool,
}

impl Walk<'_> {
    /// The rows that the index found first, so that most of the others are soon seen to be no better. Of
    /// these the newest first, which are likelier to be among the best.
    fn all(&mut self) {
        let mut visited = vec![0u64; self.image.columns.blocks.len()];
        for row in self.cosines.found() {
            let row = *row as usize;
            if let Some(word) = visited.get_mut(row / BLOCK_ROWS) {
                *word |= 1 << (row % BLOCK_ROWS);
                self.visit(row);
            }
        }
        for block in (0..visited.len()).rev() {
            if block.is_multiple_of(CLOCK_ROWS / BLOCK_ROWS) {
                self.look_at_the_clock();
            }
            let rows = self.image.columns.rows_of(block);
            let all = u64::MAX >> (BLOCK_ROWS - rows.len());
            let mut left = all & !visited[block];
            if self.passes_over && !self.block_could_enter(block) {
                // But rows with words of the query, or beside such rows, are worth more than their cosine.
                left &= self.scratch.touched.get(block).copied().unwrap_or(u64::MAX);
            }
            while left != 0 {
                let bit = BLOCK_ROWS - 1 - left.leading_zeros() as usize;
                left &= !(1 << bit);
                let at = rows.start + bit;
                // Hard constraints must not be missing, however late it is; there are few. Nor must what is known.
                if !self.is_late || self.is_constraint(at) || !self.known[at].is_nan() {
                    self.visit(at);
                }
            }
        }
    }

    /// Whether a row of a block could be among the best that has no words of the query.
    fn block_could_enter(&self, number: usize) -> bool {
        let columns = &self.image.columns;
        let Some(block) = columns.blocks.get(number) else { return true };
        if self.query.beside.constraints > 0 && block.importance >= HARD_CONSTRAINT {
            return true;
        }
        if !self.best.top.is_full() {
            return true;
        }
        let statics = Statics {
            last_access_micros: block.last_access_us,
            adopted: block.access_count,
            importance: block.importance,
            strength: f32::from(block.strength_milli) / 1_000.0,
        };
        let relevance = self.relevance_most(columns.rows_of(number));
        let score = self.scorer.at_most(relevance, &statics) + self.boosts_most;
        // Of equal scores the higher seq is better, and which it is is not known here.
        let candidate = Candidate { score, seq: u64::MAX, row: u32::MAX };
        let states = self.query.beside.stating > 0 && block.states;
        score >= self.min_score
            && (self.best.top.would_take(&candidate) || (states && self.best.stating.would_take(&candidate)))
    }

    /// The most that S can be of one of these rows that has no words of the query.
    fn relevance_most(&self, rows: Range<usize>) -> f64 {
        let known = self.known.get(rows).unwrap_or_default();
        let (most, is_whole) = largest(known);
        let mut relevance = self.plain_alone;
        if !is_whole && !self.cosines.is_exact() {
            relevance = relevance.max(self.plain_most.of(1.0));
        }
        if most > f32::NEG_INFINITY {
            relevance = relevance.max(self.judge.plain(most));
        }
        relevance
    }

    fn look_at_the_clock(&mut self) {
        if self.soon.is_some_and(|soon| Instant::now() >= soon) {
            self.best.is_whole = false;
            self.is_late = true;
        }
    }

    /// Whether a vector that is in a file is worth reading, and may still be read.
    fn may_read(&mut self, roles: Roles) -> bool {
        if roles.is_constraint {
            return true;
        }
        if self.cosines.reads().is_multiple_of(CLOCK_READS) {
            self.look_at_the_clock();
        }
        let may = !self.is_late && !self.cosines.is_spent();
        self.best.is_whole &= may;
        may
    }

    /// Whether a row is a hard constraint, and these are asked for.
    #[inline]
    fn is_constraint(&self, at: usize) -> bool {
        self.query.beside.constraints > 0 && self.image.columns.importance[at] >= HARD_CONSTRAINT
    }

    #[inline]
    fn visit(&mut self, at: usize) {
        let flags = self.rows.flags(at);
        if flags & flag::LIVE == 0 {
            return;
        }
        let columns = &self.image.columns;
        let roles = Roles {
            is_constraint: self.is_constraint(at),
            states: self.query.beside.stating > 0 && columns.valid_from_us[at] > i64::MIN,
        };
        self.best.constraints_total += u64::from(roles.is_constraint);
        if self.known[at].is_nan() && flags & flag::VECTOR != 0 {
            // Not known yet: first whether it matters.
            if !self.could_enter(at, roles) {
                return;
            }
            if self.cosines.is_far(self.image, at) && !self.may_read(roles) {
                return;
            }
        }
        let cosine = self.cosines.of(self.image, self.known, at);
        let relevance = self.judge.of(&self.rows, self.scratch, at, cosine);
        self.relevance[at] = relevance;
        self.best.scored += 1;
        if !self.is_open(roles) && !self.has_room_for(&self.bound(at, relevance), roles) {
            return;
        }
        let candidate = self.candidate(at, relevance);
        self.enter(candidate, roles);
    }

    /// Whether a row whose cosine is not known yet could get in anywhere.
    fn could_enter(&self, at: usize, roles: Roles) -> bool {
        if !self.is_open(roles) && !self.has_room_for(&self.most(at), roles) {
            return false;
        }
        // The filter costs no more than a cosine, and less than one and a score.
        roles.is_constraint || self.filter.is_none_or(|filter| filter.matches(&RowView::new(self.image, at)))
    }

    /// Whether a row gets in whatever its score is, so that bounds are of no use.
    #[inline]
    fn is_open(&self, roles: Roles) -> bool {
        self.min_score == f64::NEG_INFINITY && !self.best.top.is_full()
            || (roles.is_constraint && !self.best.constraints.is_full())
    }

    /// What a row would be with the largest cosine that it can have; its score is rounded up.
    #[inline]
    fn most(&self, at: usize) -> Candidate {
        let ceiling = self.cosines.most(at);
        let relevance = if self.judge.is_plain(&self.rows, self.scratch, at) {
            self.plain_most.of(ceiling)
        } else {
            self.judge.of(&self.rows, self.scratch, at, ceiling)
        };
        self.bound(at, relevance)
    }

    /// What a row would be of this S; its score is rounded up.
    #[inline]
    fn bound(&self, at: usize, relevance: f64) -> Candidate {
        let columns = &self.image.columns;
        let score = self.scorer.at_most(relevance, &statics(columns, at)) + self.boosts.of(at);
        Candidate { score, seq: columns.seq[at], row: row_number(at) }
    }

    #[inline]
    fn candidate(&self, at: usize, relevance: f64) -> Candidate {
        let columns = &self.image.columns;
        let score =
            self.scorer.score(&self.scorer.parts(relevance, &statics(columns, at)), self.boosts.of(at));
        Candidate { score, seq: columns.seq[at], row: row_number(at) }
    }

    /// Whether a row of this score gets in anywhere, whatever the filter says.
    fn has_room_for(&self, candidate: &Candidate, roles: Roles) -> bool {
        let best = &self.best;
        (roles.is_constraint && best.constraints.would_take(candidate))
            || (candidate.score >= self.min_score
                && (best.top.would_take(candidate) || (roles.states && best.stating.would_take(candidate))))
    }

    fn enter(&mut self, candidate: Candidate, roles: Roles) {
        let best = &mut self.best;
        if roles.is_constraint && best.constraints.would_take(&candidate) {
            best.constraints.take(candidate);
        }
        if candidate.score < self.min_score {
            return;
        }
        let hit = best.top.would_take(&candidate);
        let states = roles.states && best.stating.would_take(&candidate);
        let passes = |filter: &Filter| filter.matches(&RowView::new(self.image, candidate.row as usize));
        if (hit || states) && self.filter.is_none_or(passes) {
            if hit {
                best.top.take(candidate);
            }
            if states {
                best.stating.take(candidate);
            }
        }
    }
}

/// The largest of these that is a number, and whether all are.
fn largest(values: &[f32]) -> (f32, bool) {
    const LANES: usize = 8;
    // In lanes, and without branches, so that it is done by vectors.
    let (mut most, mut missing) = ([f32::NEG_INFINITY; LANES], [false; LANES]);
    for values in values.chunks(LANES) {
        for ((value, most), missing) in values.iter().zip(&mut most).zip(&mut missing) {
            *most = if *value > *most { *value } else { *most };
            *missing |= value.is_nan();
        }
    }
    let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
    (most, !missing.contains(&true))
}

/// Images have fewer rows than 2^32: `Image::append` sees to it.
#[allow(clippy::cast_possible_truncation)]
fn row_number(at: usize) -> u32 {
    at as u32
}

/// When a search has to end for its answer to be there in time: a quarter of what is left before the
/// deadline.
pub(super) fn soon(deadline: Instant) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + left - left / 4
}
