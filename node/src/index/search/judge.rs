use super::super::image::Image;
use super::{Query, RelevanceMode, Scratch};
use holdfast_core::score::{Constants, Relevance, Rows, keyword_relevance, vector_relevance};
use holdfast_core::text::{Addressed, SpeakerNames};

/// Computes S of rows, in whichever way the query asks for.
pub(super) enum Judge {
    /// Nothing is asked: S is 0.
    Nothing,
    Fused {
        relevance: Relevance,
        addressed: Addressed,
        has_vector: bool,
    },
    Vector,
    Keyword {
        query_weight: f32,
    },
}

/// Whom the query addresses, by the interned id of this image.
fn addressed(image: &Image, query: &Query<'_>) -> Addressed {
    let Some(names) = query.speakers else {
        return image.speaker_names().addressed(query.text);
    };
    let all = SpeakerNames::new((0..).zip(names.iter().map(String::as_str)));
    match all.addressed(query.text) {
        Addressed::Speaker(at) => {
            let speaker = names.get(at as usize).and_then(|name| image.speakers.find(name));
            // Who is meant speaks elsewhere: nobody here is preferred.
            speaker.map_or(Addressed::Nobody, Addressed::Speaker)
        }
        other => other,
    }
}

impl Judge {
    pub(super) fn new(image: &Image, query: &Query<'_>, constants: &Constants, query_weight: f32) -> Self {
        if !query.asks() {
            return Self::Nothing;
        }
        match query.relevance {
            RelevanceMode::Fused => {
                let addressed = addressed(image, query);
                let relevance = Relevance::new(constants, &query.recipe, addressed);
                Self::Fused { relevance, addressed, has_vector: query.vector.is_some() }
            }
            RelevanceMode::Vector => Self::Vector,
            RelevanceMode::Keyword => Self::Keyword { query_weight },
        }
    }

    /// Whom the query addresses.
    pub(super) fn addressed(&self) -> Addressed {
        match self {
            Self::Fused { addressed, .. } => *addressed,
            _ => Addressed::Nobody,
        }
    }

    /// Whether S of a row follows from its cosine alone.
    #[inline]
    pub(super) fn is_plain(&self, rows: &Rows<'_>, scratch: &Scratch, at: usize) -> bool {
        match self {
            Self::Nothing | Self::Vector => true,
            Self::Fused { relevance, .. } => {
                let lifted = scratch.lifted.get(at).copied().unwrap_or(0.0);
                lifted == 0.0 && relevance.speaker_match(rows, at) == 0.0
            }
            Self::Keyword { .. } => false,
        }
    }

    /// Whether no row gains by who said it.
    pub(super) fn names_nobody(&self) -> bool {
        matches!(self.addressed(), Addressed::Nobody)
    }

    /// S of a row without words and without a vector.
    pub(super) fn plain_alone(&self) -> f64 {
        match self {
            Self::Fused { relevance, .. } => relevance.of(None, 0.0, 0.0),
            Self::Nothing | Self::Keyword { .. } | Self::Vector => 0.0,
        }
    }

    /// S of such a row with a vector.
    pub(super) fn plain(&self, cosine: f32) -> f64 {
        match self {
            Self::Nothing | Self::Keyword { .. } => 0.0,
            Self::Fused { relevance, has_vector, .. } => {
                relevance.of((*has_vector).then_some(cosine), 0.0, 0.0)
            }
            Self::Vector => vector_relevance(Some(cosine)),
        }
    }

    /// S of a visible row by a cosine, NaN for none. It grows with the cosine.
    #[inline]
    pub(super) fn of(&self, rows: &Rows<'_>, scratch: &Scratch, at: usize, cosine: f32) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::Fused { relevance, has_vector, .. } => {
                let cosine = (*has_vector && rows.has_vector(at)).then_some(cosine);
                let lifted = scratch.lifted.get(at).copied().unwrap_or(0.0);
                relevance.of(cosine, lifted, relevance.speaker_match(rows, at))
            }
            // NaN, for no cosine, is 0 there.
            Self::Vector => vector_relevance(Some(cosine)),
            Self::Keyword { query_weight } => {
                keyword_relevance(scratch.bm25.get(at).copied().unwrap_or(0.0), *query_weight)
            }
        }
    }
}
