//! The bodies of `POST …/memories` and `PATCH …/memories/{id}`.

use super::embedding::EmbeddingBody;
use crate::http::json::{Bounded, Change};
use crate::http::time::Time;
use crate::sensory::Sensory;
use holdfast_core::limits::{ENTITIES_MAX, PARTIAL_ITEMS_MAX, SOURCE_MESSAGES_MAX};
use holdfast_core::memory::Kind;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// `POST …/memories`. The items are read one by one, so that each can fail alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddBody<'a> {
    #[serde(borrow)]
    pub(super) memories: Bounded<&'a RawValue, PARTIAL_ITEMS_MAX>,
    #[serde(default)]
    pub(super) infer: Option<String>,
    #[serde(default)]
    pub(super) partial: Option<bool>,
    #[serde(default)]
    pub(super) sensory: Sensory,
}

/// One new memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryBody {
    pub(super) content: String,
    pub(super) id: Option<String>,
    pub(super) kind: Option<KindName>,
    pub(super) role: Option<String>,
    pub(super) speaker: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) sentiment: Option<String>,
    pub(super) importance: Option<f64>,
    pub(super) embedding: Option<EmbeddingBody>,
    pub(super) embedding_model: Option<String>,
    pub(super) event_time: Option<Time>,
    pub(super) expires_at: Option<Time>,
    pub(super) pinned: Option<bool>,
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) entities: Option<Bounded<String, ENTITIES_MAX>>,
    pub(super) fact: Option<FactBody>,
    pub(super) source: Option<SourceBody>,
    /// Whether content that is nothing but JSON is meant.
    pub(super) raw_json: Option<bool>,
}

/// `PATCH …/memories/{id}`: absent keeps, `null` clears where that has a meaning.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PatchBody {
    pub(super) content: Change<String>,
    pub(super) kind: Change<KindName>,
    pub(super) role: Change<String>,
    pub(super) speaker: Change<String>,
    pub(super) session: Change<String>,
    pub(super) agent: Change<String>,
    pub(super) sentiment: Change<String>,
    pub(super) importance: Change<f64>,
    pub(super) embedding: Change<EmbeddingBody>,
    pub(super) embedding_model: Change<String>,
    pub(super) event_time: Change<Time>,
    pub(super) expires_at: Change<Time>,
    pub(super) pinned: Change<bool>,
    pub(super) metadata: Change<Map<String, Value>>,
    pub(super) entities: Change<Bounded<String, ENTITIES_MAX>>,
    pub(super) fact: Change<FactBody>,
    pub(super) source: Change<SourceBody>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FactBody {
    pub(super) subject: String,
    pub(super) predicate: String,
    /// A string, a number or a boolean; kept as text.
    pub(super) object: Value,
    pub(super) qualifiers: Option<Map<String, Value>>,
    pub(super) confidence: Option<f64>,
    /// How many objects the predicate holds at once, where the registry does not know it.
    pub(super) cardinality: Option<String>,
    /// What it does to what was said before: state, override, correct or end.
    pub(super) mode: Option<String>,
    /// Why it holds for a while only.
    pub(super) reason: Option<String>,
    pub(super) valid_from: Option<Time>,
    pub(super) valid_to: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceBody {
    pub(super) uri: Option<String>,
    pub(super) message_ids: Option<Bounded<String, SOURCE_MESSAGES_MAX>>,
}

/// A kind by its wire name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KindName(pub(crate) Kind);

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let kind = Kind::from_wire(&name)
            .ok_or_else(|| de::Error::custom("must be semantic, episodic or procedural"))?;
        Ok(Self(kind))
    }
}

macro_rules! nothing {
    ($($field:ident),+) => {
        impl Default for PatchBody {
            fn default() -> Self {
                Self { $($field: Change::Keep),+ }
            }
        }

        impl PatchBody {
            /// Whether the patch mentions no field at all.
            pub(super) fn is_empty(&self) -> bool {
                true $(&& matches!(self.$field, Change::Keep))+
            }
        }
    };
}
nothing!(
    content,
    kind,
    role,
    speaker,
    session,
    agent,
    sentiment,
    importance,
    embedding,
    embedding_model,
    event_time,
    expires_at,
    pinned,
    metadata,
    entities,
    fact,
    source
);
