use super::ranking::Ranks;
use super::trace::{Standing, Trace};
use holdfast_core::filter::Filter;
use holdfast_core::intent::Intent;
use holdfast_core::score::{Bm25, NeighbourWeights, Prior, Profile, Recipe, Weights, Why};
use holdfast_core::situation::Situation;
use holdfast_core::when::When;
use std::collections::HashMap;
use std::time::Instant;

/// What S, the relevance of a row, is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RelevanceMode {
    /// Cosine, words with their neighbours, and the speaker together
    /// ([`holdfast_core::score::Relevance`]).
    #[default]
    Fused,
    /// The cosine alone, clamped to 0..=1.
    Vector,
    /// The row's own BM25 as a part of what the query's words could give.
    Keyword,
}

impl RelevanceMode {
    /// The mode of a name in the public interface.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "fused" => Some(Self::Fused),
            "vector" => Some(Self::Vector),
            "keyword" => Some(Self::Keyword),
            _ => None,
        }
    }
}

/// Which of the memories that contradict each other are visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// The newest.
    #[default]
    Latest,
    /// All that are not known to be wrong.
    Mark,
    /// Also what was superseded or is over.
    All,
}

/// A time in the past, or one to come.
#[derive(Debug, Clone, Copy)]
pub struct AsOf<'a> {
    /// When it was true, in microseconds since 1970.
    pub valid_us: i64,
    /// When it was believed, in microseconds since 1970.
    pub recorded_us: i64,
    /// For each memory with statements, by seq, whether one of them held then.
    pub held: &'a HashMap<u64, bool>,
}

/// One search of one image. [`Query::default`] asks nothing: it orders all memories by the parts
/// of the score that need no query.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The text as it was asked, in which speakers are recognised.
    pub text: &'a str,
    /// Its terms, by [`holdfast_core::text::analyze_query`]: distinct.
    pub terms: &'a [String],
    /// Its vector, of any length but zero.
    pub vector: Option<&'a [f32]>,
    /// Which of the space's models made `vector`; rows of other models have no cosine.
    pub vector_model: u8,
    /// What S is made of.
    pub relevance: RelevanceMode,
    /// Which recency and frequency, and which weights where none are given.
    pub profile: Profile,
    /// Weights in place of the profile's.
    pub weights: Option<Weights>,
    /// Tau in place of the profile's, in hours.
    pub tau_hours: Option<f64>,
    /// The weights inside S, for the embedding model.
    pub recipe: Recipe,
    /// What is believed of the space before a row is seen, for the embedding model.
    pub prior: Prior,
    /// The parameters of BM25.
    pub bm25: Bm25,
    /// What the turns around a row lend it.
    pub neighbours: NeighbourWeights,
    /// Which rows may be answered. It changes the score of none.
    pub filter: Option<&'a Filter>,
    /// Query time, from which recency counts, in microseconds since 1970.
    pub now_us: i64,
    /// Log time, by which memories expire.
    pub log_now_us: i64,
    /// At most this many hits.
    pub top_k: usize,
    /// No hit scores less.
    pub min_score: Option<f64>,
    /// Whether superseded and archived memories are visible, and what holds no longer.
    pub include_deprecated: bool,
    /// Which of those that contradict each other are visible.
    pub conflicts: Conflicts,
    /// What was true at another time, in place of now.
    pub as_of: Option<AsOf<'a>>,
    /// Whether hits say why they were found. Then every row is compared, whichever index there is.
    pub explain: bool,
    /// What is answered beside the hits.
    pub beside: Beside,
    /// The times that the question names.
    pub times: &'a [When],
    /// What the question asks for.
    pub intent: Option<Preference>,
    /// Where and how it is asked.
    pub situation: Option<&'a Situation>,
    /// The memory, by seq, of which it is told why it is among the hits or not.
    pub trace: Option<u64>,
    /// A score of a memory of another partition, of which it is told where it would stand here.
    pub above: Option<f64>,
    /// By when the answer is wanted. A search that is not exact ends soon enough, with what it has.
    pub deadline: Option<Instant>,
    /// In a recall over several partitions: the names that the query holds something of, of the speakers of
    /// all of them ([`Image::named`](super::super::image::Image::named)). The image's own, if missing.
    pub speakers: Option<&'a [String]>,
}

/// The sort of memories that is preferred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preference {
    /// Which.
    pub intent: Intent,
    /// Whether it was guessed from the words of the question: then it counts half.
    pub guessed: bool,
}

impl Preference {
    /// By how much it counts.
    pub(super) fn weight(self) -> f64 {
        if self.guessed { 0.5 } else { 1.0 }
    }
}

/// What a context needs beside the best hits, from the same look at the space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// At most this many hard constraints: whatever the filter and the lowest score.
    pub constraints: usize,
    /// At most this many of the memories that state facts, the best first.
    pub stating: usize,
}

impl Default for Query<'_> {
    fn default() -> Self {
        Self {
            text: "",
            terms: &[],
            vector: None,
            vector_model: 0,
            relevance: RelevanceMode::default(),
            profile: Profile::default(),
            weights: None,
            tau_hours: None,
            recipe: Recipe::USE,
            prior: Prior::USE,
            bm25: Bm25::default(),
            neighbours: NeighbourWeights::default(),
            filter: None,
            now_us: 0,
            log_now_us: 0,
            top_k: 10,
            min_score: None,
            include_deprecated: false,
            conflicts: Conflicts::default(),
            as_of: None,
            explain: false,
            beside: Beside::default(),
            times: &[],
            intent: None,
            situation: None,
            trace: None,
            above: None,
            deadline: None,
            speakers: None,
        }
    }
}

impl Query<'_> {
    /// Whether reasons are wanted, among them the places of rows among all others: then all are compared.
    pub(super) fn explains(&self) -> bool {
        self.explain || self.trace.is_some() || self.above.is_some()
    }

    /// Whether anything is asked that a memory could be relevant to.
    pub(super) fn asks(&self) -> bool {
        self.vector.is_some() || !self.terms.is_empty() || !self.text.trim().is_empty()
    }
}

/// One memory that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Which memory.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// The composite score.
    pub score: f64,
    /// What the score is made of.
    pub parts: Why,
    /// Its place by each source alone, where it is asked why.
    pub ranks: Option<Ranks>,
    /// Sentences that say why it was found, where that was asked.
    pub why: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best rows, the best first; of equal scores the newer (the higher `seq`) first.
    pub hits: Vec<Hit>,
    /// Rows that were scored: of an exact scan all that the query may see, whatever its filter leaves of
    /// them.
    pub scored: u64,
    /// Whether the hits are the true best ones.
    pub exact: bool,
    /// Whether no row that was not scored could have been among the hits, as far as the index knows the
    /// nearest vectors.
    pub bound_met: bool,
    /// The index that answered: `exact`, `hnsw` for a graph, or `ivf` for lists.
    pub index: &'static str,
    /// The hard constraints that the query may see, as far as [`Beside`] asks for them.
    pub constraints: Vec<Hit>,
    /// How many there are; 0 where none are asked for.
    pub constraints_total: u64,
    /// The best memories that state facts, as far as [`Beside`] asks for them.
    pub stating: Vec<Hit>,
    /// What became of the memory that [`Query::trace`] names.
    pub trace: Option<Trace>,
    /// Where the score that [`Query::above`] names would stand.
    pub standing: Option<Standing>,
}
