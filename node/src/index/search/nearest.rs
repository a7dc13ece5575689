//! The nearest vectors alone: what a graph is best at.

use super::super::image::{Image, RowView};
use super::top::{Candidate, Top};
use super::{Answer, Hit, Query, RelevanceMode, scorer, sees, statics};
use holdfast_core::Result;
use holdfast_core::score::{Weights, Why, flag, vector_relevance};

/// Rows that a graph is asked for, as a multiple of the hits that are wanted: the others make up for what the
/// query may not see, and for misses.
const SURPLUS: usize = 4;
const NEAREST_MIN: usize = 64;
/// A query that sees so few of the nearest is answered by the loop over the rows.
const NEAREST_MAX: usize = 4_096;

/// The answer to a query for which a row is worth its cosine and nothing else, if a graph has it. Such a
/// query has no use for statistics, words or columns of other rows; its hits have no keyword part.
pub(super) fn search(image: &Image, query: &Query<'_>) -> Result<Option<Answer>> {
    let Some(vector) = query.vector.filter(|_| is_plain(query)) else { return Ok(None) };
    let probe = image.vectors.probe(query.vector_model, vector)?;
    let Some(graph) = probe.arena().and_then(|arena| image.graphs.serving(arena)) else { return Ok(None) };
    let filter = query.filter.filter(|filter| !filter.is_all());
    let columns = &image.columns;
    let scorer = scorer(query);
    let mut count = (query.top_k * SURPLUS).max(NEAREST_MIN);
    while count <= NEAREST_MAX {
        let Ok(nearest) = graph.nearest(probe.values(), count) else { return Ok(None) };
        let mut top = Top::new(query.top_k, columns.len());
        let mut scored = 0;
        // Rows behind `upto` that were added meanwhile are in the tail already.
        let found = nearest.rows.iter().copied().filter(|row| *row < nearest.upto);
        for row in found.chain(nearest.upto..image.rows_count()) {
            let at = row as usize;
            let is_visible = columns.flags.get(at).is_some_and(|flags| flags & flag::LIVE != 0)
                && columns.expires_us[at] > query.log_now_us
                && sees(query, columns, at);
            let Some(cosine) = probe.cosine(columns.place[at]).filter(|_| is_visible) else { continue };
            scored += 1;
            let score = scorer.score_row(vector_relevance(Some(cosine)), &statics(columns, at));
            let candidate = Candidate { score, seq: columns.seq[at], row };
            if score >= query.min_score.unwrap_or(f64::NEG_INFINITY)
                && top.would_take(&candidate)
                && filter.is_none_or(|filter| filter.matches(&RowView::new(image, at)))
            {
                top.take(candidate);
            }
        }
        let ceiling = vector_relevance(Some(nearest.ceiling));
        // Rows below a cosine of 0 all score 0, and rows without a vector too: the loop sorts them out.
        let is_full = top.worst().is_some_and(|worst| worst.score > 0.0 && worst.score >= ceiling);
        if is_full {
            return Ok(Some(answer(image, top, scored, |at| probe.cosine(columns.place[at]), query)));
        }
        count *= 2;
    }
    Ok(None)
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

fn answer(
    image: &Image,
    top: Top,
    scored: u64,
    cosine: impl Fn(usize) -> Option<f32>,
    query: &Query<'_>,
) -> Answer {
    let scorer = scorer(query);
    let hit = |candidate: Candidate| {
        let at = candidate.row as usize;
        let cosine = cosine(at);
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
        index: "hnsw",
        constraints: Vec::new(),
        constraints_total: 0,
        stating: Vec::new(),
        trace: None,
    }
}
