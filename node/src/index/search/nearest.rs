//! The nearest vectors alone: what a graph and lists are best at.

use super::super::files::FileError;
use super::super::graph::Graph;
use super::super::image::{Image, RowView};
use super::super::vectors::Probe;
use super::cosines::{note, unreadable};
use super::listed::Probed;
use super::top::{Candidate, Top};
use super::{Answer, Hit, Query, RelevanceMode, scorer, sees, statics};
use holdfast_core::Result;
use holdfast_core::filter::Filter;
use holdfast_core::score::{Scorer, Weights, Why, flag, vector_relevance};
use std::collections::HashMap;

/// Rows that a graph is asked for, as a multiple of the hits that are wanted: the others make up for what the
/// query may not see, and for misses.
const SURPLUS: usize = 4;
const NEAREST_MIN: usize = 64;
/// A query that sees so few of the nearest is answered by the loop over the rows; and one for which so many
/// vectors have to be read.
const NEAREST_MAX: usize = 4_096;
/// How many times as many are looked at next where none was wanted.
const MORE_MAX: usize = 8;

/// The answer to a query for which a row is worth its cosine and nothing else, if an index has it. Such a
/// query has no use for statistics, words or columns of other rows; its hits have no keyword part.
pub(super) fn search(image: &Image, query: &Query<'_>) -> Result<Option<Answer>> {
    let Some(vector) = query.vector.filter(|_| is_plain(query)) else { return Ok(None) };
    let probe = image.vectors.probe(query.vector_model, vector)?;
    if probe.listed().is_some() {
        return by_lists(image, query, &probe).map_err(|error| {
            note(image, &error);
            unreadable()
        });
    }
    match probe.arena().and_then(|arena| image.graphs.serving(arena)) {
        Some(graph) => Ok(by_graph(image, query, &probe, graph)),
        None => Ok(None),
    }
}

fn by_graph(image: &Image, query: &Query<'_>, probe: &Probe<'_>, graph: &Graph) -> Option<Answer> {
    let mut count = (query.top_k * SURPLUS).max(NEAREST_MIN);
    while count <= NEAREST_MAX {
        let nearest = graph.nearest(probe.values(), count).ok()?;
        let mut sieve = Sieve::new(image, query);
        // Rows behind `upto` that were added meanwhile are in the tail already.
        let found = nearest.rows.iter().copied().filter(|row| *row < nearest.upto);
        for row in found.chain(nearest.upto..image.rows_count()) {
            if let Some(place) = image.place(row).filter(|_| sieve.sees(row))
                && let Ok(Some(cosine)) = probe.cosine(place)
            {
                sieve.take(row, cosine);
            }
        }
        // Rows below a cosine of 0 all score 0, and rows without a vector too: the loop sorts them out.
        let ceiling = vector_relevance(Some(nearest.ceiling));
        if sieve.worst().is_some_and(|worst| worst > 0.0 && worst >= ceiling) {
            return Some(sieve.answer("hnsw"));
        }
        count = sieve.more(count);
    }
    None
}

/// Rows that may be nearer than the last of those that were found are read one by one.
fn by_lists(
    image: &Image,
    query: &Query<'_>,
    probe: &Probe<'_>,
) -> std::result::Result<Option<Answer>, FileError> {
    let flags = &image.columns.flags;
    let mut known = vec![f32::NAN; flags.len()];
    let probed = Probed::new(image, probe, flags, &mut known)?;
    let mut sieve = Sieve::new(image, query);
    for (row, cosine) in (0u32..).zip(&known) {
        if cosine.is_finite() && sieve.sees(row) {
            sieve.take(row, *cosine);
        }
    }
    if sieve.worst().is_none_or(|worst| worst <= 0.0) {
        return Ok(None);
    }
    let mut reads = 0;
    for (row, cosine) in (0u32..).zip(&known) {
        let most = vector_relevance(Some(probed.most(row as usize)));
        let may_enter = cosine.is_nan() && sieve.worst().is_none_or(|worst| most >= worst);
        let Some(place) = image.place(row).filter(|place| may_enter && probe.is_far(*place)) else {
            continue;
        };
        if sieve.sees(row) && sieve.passes(row) {
            if reads == NEAREST_MAX {
                return Ok(None);
            }
            reads += 1;
            if let Some(cosine) = probe.cosine(place)? {
                sieve.take(row, cosine);
            }
        }
    }
    Ok(Some(sieve.answer("ivf")))
}

/// The best rows of those that are shown to it.
struct Sieve<'a> {
    image: &'a Image,
    query: &'a Query<'a>,
    scorer: Scorer,
    filter: Option<&'a Filter>,
    top: Top,
    /// The cosines of the rows that were among the best at some time.
    cosines: HashMap<u32, f32>,
    scored: u64,
}

impl<'a> Sieve<'a> {
    fn new(image: &'a Image, query: &'a Query<'a>) -> Self {
        Self {
            image,
            query,
            scorer: scorer(query),
            filter: query.filter.filter(|filter| !filter.is_all()),
            top: Top::new(query.top_k, image.columns.len()),
            cosines: HashMap::new(),
            scored: 0,
        }
    }

    /// Whether the query may see a row.
    fn sees(&self, row: u32) -> bool {
        let (at, columns) = (row as usize, &self.image.columns);
        columns.flags.get(at).is_some_and(|flags| flags & flag::LIVE != 0)
            && columns.expires_us[at] > self.query.log_now_us
            && sees(self.query, columns, at)
    }

    fn passes(&self, row: u32) -> bool {
        self.filter.is_none_or(|filter| filter.matches(&RowView::new(self.image, row as usize)))
    }

    fn take(&mut self, row: u32, cosine: f32) {
        let (at, columns) = (row as usize, &self.image.columns);
        self.scored += 1;
        let score = self.scorer.score_row(vector_relevance(Some(cosine)), &statics(columns, at));
        let candidate = Candidate { score, seq: columns.seq[at], row };
        if score >= self.query.min_score.unwrap_or(f64::NEG_INFINITY)
            && self.top.would_take(&candidate)
            && self.passes(row)
        {
            self.top.take(candidate);
            self.cosines.insert(row, cosine);
        }
    }

    /// How many of the nearest to look at after so many did not do: by the share of them that the query wanted, with
    /// some to spare.
    fn more(&self, count: usize) -> usize {
        let more = match self.top.len() {
            0 => count.saturating_mul(MORE_MAX),
            wanted => count.saturating_mul(self.query.top_k).saturating_mul(3) / (wanted * 2),
        };
        more.max(count * 2)
    }

    /// The score of the last of the best, once there are as many as are wanted.
    fn worst(&self) -> Option<f64> {
        self.top.worst().map(|worst| worst.score)
    }

    fn answer(self, index: &'static str) -> Answer {
        let Self { image, scorer, top, cosines, scored, .. } = self;
        let hit = |candidate: Candidate| {
            let at = candidate.row as usize;
            let cosine = cosines.get(&candidate.row).copied();
            let parts = scorer.parts(vector_relevance(cosine), &statics(&image.columns, at));
            Hit {
                seq: candidate.seq,
                id: image.columns.id[at].to_string(),
                score: candidate.score,
                parts: Why::new(&parts, cosine, 0.0, 0.0, 0.0),
                why: Vec::new(),
                ranks: None,
            }
        };
        Answer {
            hits: top.into_sorted().map(hit).collect(),
            scored,
            exact: false,
            bound_met: true,
            index,
            constraints: Vec::new(),
            constraints_total: 0,
            stating: Vec::new(),
            trace: None,
            standing: None,
        }
    }
}

/// Whether the score of a row is its cosine, and nothing is asked beside that.
fn is_plain(query: &Query<'_>) -> bool {
    const COSINE: Weights = Weights { s: 1.0, r: 0.0, i: 0.0, f: 0.0 };
    query.relevance == RelevanceMode::Vector
        && query.weights.unwrap_or_else(|| query.profile.weights()) == COSINE
        && !query.explains()
        // As `Boosts` has it: what is guessed of a question, or read from it, lifts nothing here.
        && query.intent.is_none_or(|preference| preference.guessed)
        && query.situation.is_none_or(|situation| situation.is_empty())
        && query.beside == super::Beside::default()
        && query.top_k > 0
}
