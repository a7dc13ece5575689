//! A memory that was found, as callers see it.

use crate::http::problem::{Answer, Problem};
use crate::memories::view::MemoryView;
use holdfast_core::ErrorCode;
use holdfast_core::space::SpaceKey;
use holdfast_proto::v1;
use serde::{Serialize, Serializer};

#[derive(Serialize)]
pub(super) struct Hit {
    pub(super) memory: MemoryView,
    /// The memory that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_of: Option<String>,
    #[serde(serialize_with = "to_nine_places")]
    pub(super) score: f64,
    pub(super) parts: Parts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ranks: Option<Ranks>,
    space: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) why: Vec<String>,
}

/// The place among all memories of the space that the recall sees, by one source alone.
#[derive(Serialize)]
pub(super) struct Ranks {
    cosine: Option<u64>,
    keyword: Option<u64>,
}

impl From<v1::Ranks> for Ranks {
    fn from(ranks: v1::Ranks) -> Self {
        Self { cosine: ranks.cosine, keyword: ranks.keyword }
    }
}

#[derive(Serialize)]
pub(super) struct Parts {
    relevance: f32,
    cosine: Option<f32>,
    keyword: f32,
    recency: f32,
    importance: f32,
    frequency: f32,
    boost: f32,
}

/// Writes a score to nine decimal places: what its sum adds beyond them is rounding. Ranks were made
/// from the full value.
// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn to_nine_places<S: Serializer>(score: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const SCALE: f64 = 1e9;
    // Adding zero turns -0 into 0.
    serializer.serialize_f64((score * SCALE).round() / SCALE + 0.0)
}

pub(super) fn hit(scored: v1::Scored) -> Answer<Hit> {
    let missing =
        || Problem::new(ErrorCode::Internal, "a node answered a result without its memory or its parts");
    let memory = scored.memory.ok_or_else(missing)?;
    let parts = scored.parts.ok_or_else(missing)?;
    let space = memory.space.as_ref().map_or("", |space| SpaceKey::label_of(&space.name)).to_owned();
    Ok(Hit {
        chunk_of: memory.chunk.and_then(|_| memory.derived_from.first().cloned()),
        memory: MemoryView::new(memory)?,
        score: scored.score,
        parts: parts.into(),
        ranks: scored.ranks.map(Ranks::from),
        space,
        why: scored.why,
    })
}

impl From<v1::Parts> for Parts {
    fn from(parts: v1::Parts) -> Self {
        let v1::Parts { relevance, cosine, keyword, recency, importance, frequency, boost } = parts;
        Self { relevance, cosine, keyword, recency, importance, frequency, boost }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shown(score: f64, part: f32) -> String {
        let memory = v1::Memory { importance: part, confidence: part, ..v1::Memory::default() };
        let parts = v1::Parts {
            relevance: part,
            cosine: Some(part),
            keyword: part,
            recency: part,
            importance: part,
            frequency: part,
            boost: part,
        };
        let scored = v1::Scored { memory: Some(memory), score, parts: Some(parts), ..v1::Scored::default() };
        serde_json::to_string(&hit(scored).unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_shown_without_noise() {
        for (score, text) in [
            (0.1 + 0.2, "0.3"),
            (f64::from(0.8f32), "0.800000012"),
            (2.0 / 3.0, "0.666666667"),
            (-1.0 / 3.0, "-0.333333333"),
            (1.0, "1.0"),
            (-1e-12, "0.0"),
            (1e-9, "1e-9"),
            (123_456_789.123_456_79, "123456789.12345679"),
        ] {
            let json = shown(score, 0.8);
            assert!(json.contains(&format!("\"score\":{text},")), "{text}: {json}");
        }
        let json = shown(0.5, 0.8);
        for field in ["relevance", "cosine", "keyword", "recency", "importance", "frequency", "confidence"] {
            assert!(json.contains(&format!("\"{field}\":0.8,")), "{field}: {json}");
        }
        assert!(json.contains("\"boost\":0.8}"), "{json}");
        // Every 32-bit number comes back as the same one.
        for part in [0.1f32, 1.0 / 3.0, f32::MIN_POSITIVE, 0.999_999_94] {
            assert!(
                shown(0.5, part).contains(&format!("\"keyword\":{}", serde_json::to_string(&part).unwrap()))
            );
        }
    }
}
