//! The body of a recall.

use super::diverse::DIVERSE_TOP_K_MAX;
use super::situation::{IntentAsked, Situation, Understood};
use crate::filters;
use crate::http::json;
use crate::http::time::Time;
use crate::memories::embedding::model_name;
use crate::tokens::Consistency;
use holdfast_core::limits::{QUERY_BYTES_MAX, TOP_K_MAX, check_id};
use holdfast_core::score::own::ScoringRow;
use holdfast_core::score::{Profile, Weights, WeightsError};
use holdfast_core::{Error, Result};
use holdfast_proto::v1;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

const TOP_K_DEFAULT: u32 = 10;
/// How many memories are answered on a small screen, where the caller does not say.
const TOP_K_MOBILE: u32 = 5;
/// Longest deadline that a caller may ask for, in milliseconds.
const DEADLINE_MS_MAX: u64 = 60_000;

/// Makes the body of a call that takes the fields of a recall, some of its own before them. (Serde
/// cannot refuse unknown fields of a struct that is flattened into another.)
macro_rules! recall_body {
    ($name:ident { $($(#[$meta:meta])* $own:ident: $of:ty,)+ }) => {
        $crate::recall::parse::recall_body!(@fields $name { $($(#[$meta])* $own: $of,)+ });

        impl $name {
            /// The call's own fields in their order, and those of a recall.
            pub(crate) fn split(self) -> ($($of,)+ $crate::recall::parse::RecallBody) {
                ($(self.$own,)+ $crate::recall::parse::RecallBody {
                    query: self.query,
                    embedding: self.embedding,
                    embedding_model: self.embedding_model,
                    top_k: self.top_k,
                    profile: self.profile,
                    relevance: self.relevance,
                    weights: self.weights,
                    kinds: self.kinds,
                    filter: self.filter,
                    situation: self.situation,
                    min_score: self.min_score,
                    explain: self.explain,
                    include_deprecated: self.include_deprecated,
                    consistency: self.consistency,
                    token: self.token,
                    deadline_ms: self.deadline_ms,
                    require_all: self.require_all,
                    collections: self.collections,
                    diversity: self.diversity,
                    intent: self.intent,
                    as_of: self.as_of,
                    conflicts: self.conflicts,
                    max_staleness_ms: self.max_staleness_ms,
                })
            }
        }
    };
    (@fields $name:ident { $($(#[$meta:meta])* $own:ident: $of:ty,)* }) => {
        #[derive(::serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$meta])* pub(crate) $own: $of,)*
            pub(crate) query: Option<String>,
            pub(crate) embedding: Option<$crate::memories::embedding::EmbeddingBody>,
            pub(crate) embedding_model: Option<String>,
            pub(crate) top_k: Option<u64>,
            pub(crate) profile: Option<String>,
            pub(crate) relevance: Option<String>,
            pub(crate) weights: Option<$crate::recall::parse::WeightsBody>,
            pub(crate) kinds: Option<$crate::http::json::Bounded<String, 8>>,
            pub(crate) filter: Option<::serde_json::Value>,
            pub(crate) situation: Option<$crate::recall::situation::SituationBody>,
            pub(crate) min_score: Option<f64>,
            pub(crate) explain: Option<bool>,
            pub(crate) include_deprecated: Option<bool>,
            pub(crate) consistency: Option<$crate::tokens::Consistency>,
            pub(crate) token: Option<String>,
            pub(crate) deadline_ms: Option<u64>,
            pub(crate) require_all: Option<bool>,
            pub(crate) collections: Option<$crate::http::json::Bounded<String, 64>>,
            pub(crate) diversity: Option<f64>,
            pub(crate) intent: Option<String>,
            pub(crate) as_of: Option<$crate::recall::parse::AsOfBody>,
            pub(crate) conflicts: Option<String>,
            pub(crate) max_staleness_ms: Option<u64>,
        }
    };
}
pub(crate) use recall_body;

recall_body!(@fields RecallBody {});

/// What differs from call to call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Whether there must be a text or a vector.
    pub(crate) needs_query: bool,
    pub(crate) top_k_default: u32,
    /// The same on a small screen.
    pub(crate) top_k_mobile: u32,
}

impl Call {
    /// How many memories are answered where the caller does not say.
    fn top_k_default(self, situation: &Situation) -> u32 {
        if situation.is_mobile { self.top_k_mobile } else { self.top_k_default }
    }

    pub(super) const RECALL: Self =
        Self { needs_query: true, top_k_default: TOP_K_DEFAULT, top_k_mobile: TOP_K_MOBILE };
}

/// Both default to now: what is true by what was believed, or what was true by what is believed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AsOfBody {
    pub(crate) valid: Option<Time>,
    pub(crate) recorded: Option<Time>,
}

impl AsOfBody {
    /// # Errors
    /// If it names neither time.
    pub(crate) fn read(self, now_us: i64) -> Result<v1::AsOf> {
        if self.valid.is_none() && self.recorded.is_none() {
            return Err(Error::invalid("as_of", "as_of names no time; give valid, recorded or both"));
        }
        let (valid, recorded) = (self.valid.map(|time| time.0), self.recorded.map(|time| time.0));
        // What is believed now is whatever was recorded by now, on whichever clock.
        Ok(v1::AsOf { valid_us: valid.unwrap_or(now_us), recorded_us: recorded.unwrap_or(i64::MAX) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightsBody {
    #[serde(default)]
    relevance: f64,
    #[serde(default)]
    recency: f64,
    #[serde(default)]
    importance: f64,
    #[serde(default)]
    frequency: f64,
}

/// The vector of a query, at unit length.
pub(crate) struct QueryVector {
    pub(crate) unit: Vec<f32>,
    pub(crate) model: String,
    /// Whether the caller brought it.
    pub(crate) given: bool,
}

impl QueryVector {
    pub(crate) fn tag(&self) -> v1::Model {
        v1::Model { id: self.model.clone(), dims: u32::try_from(self.unit.len()).unwrap_or(u32::MAX) }
    }
}

/// A recall, checked.
pub(crate) struct Query {
    pub(crate) text: Option<String>,
    pub(crate) vector: Option<QueryVector>,
    pub(crate) top_k: u32,
    pub(crate) profile: Profile,
    /// Whether the caller named the profile.
    profile_named: bool,
    /// Tau in place of the profile's.
    pub(crate) tau_hours: Option<f64>,
    pub(crate) relevance: v1::Relevance,
    pub(crate) weights: Option<v1::Weights>,
    /// JSON; empty for none.
    pub(crate) filter: String,
    pub(crate) situation: Situation,
    pub(crate) understood: Understood,
    pub(crate) min_score: Option<f64>,
    pub(crate) explain: bool,
    pub(crate) include_deprecated: bool,
    pub(crate) conflicts: v1::Conflicts,
    pub(crate) as_of: Option<v1::AsOf>,
    /// 0..=1.
    pub(crate) diversity: Option<f64>,
    /// Whether the results shall come with their vectors.
    pub(crate) with_vectors: bool,
    /// Shared collections that are searched too, each once.
    pub(crate) collections: Vec<String>,
    /// Whether an answer without one of the shards is of no use.
    pub(crate) require_all: bool,
    /// What is wanted beside the results.
    pub(crate) beside: Option<v1::Beside>,
    /// The memory of which it is asked why it is among the results or not.
    pub(crate) trace: Option<String>,
    pub(crate) consistency: Option<Consistency>,
    pub(crate) token: Option<String>,
    pub(crate) max_staleness_ms: Option<u64>,
    pub(crate) deadline: Option<Duration>,
}

impl Query {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        Self::of(json::body(bytes)?, Call::RECALL)
    }

    /// Takes from the settings of the tenant what the caller has not said.
    pub(crate) fn fill(&mut self, scoring: &ScoringRow) {
        if let Some(profile) = scoring.profile.filter(|_| !self.profile_named) {
            self.profile = profile;
        }
        let Some(own) = scoring.of(self.profile) else { return };
        self.weights = self.weights.or_else(|| own.weights().map(as_told));
        self.tau_hours = own.tau_hours();
    }

    pub(crate) fn of(body: RecallBody, call: Call) -> Result<Self> {
        let text = body.query.map(check_text).transpose()?;
        let unit = body.embedding.map(|embedding| embedding.unit("embedding")).transpose()?;
        let model = model_name(unit.is_some(), body.embedding_model)?;
        if call.needs_query && text.is_none() && unit.is_none() {
            return Err(Error::invalid("query", "give query, a text, or embedding, a vector, or both"));
        }
        let relevance = relevance(body.relevance.as_deref())?;
        if relevance == v1::Relevance::Keyword && text.is_none() {
            return Err(Error::invalid("relevance", "relevance keyword needs words; give query"));
        }
        let situation = Situation::of(body.situation)?;
        let now_us = situation.now_us;
        let intent = body.intent.as_deref().map(IntentAsked::from_name).transpose()?;
        let top_k_default = call.top_k_default(&situation);
        let top_k = within("top_k", body.top_k, u64::from(top_k_default), u64::from(TOP_K_MAX))?;
        let top_k = u32::try_from(top_k).unwrap_or(TOP_K_MAX);
        let diversity = body.diversity.map(diversity).transpose()?;
        if call.needs_query && diversity.is_some_and(|diversity| diversity > 0.0) && top_k > DIVERSE_TOP_K_MAX
        {
            let detail = format!(
                "with diversity top_k is at most {DIVERSE_TOP_K_MAX}; lower it, or leave diversity out"
            );
            return Err(Error::invalid("top_k", detail));
        }
        let understood = Understood::of(text.as_deref(), intent, &situation);
        Ok(Self {
            text,
            vector: unit.zip(model).map(|(unit, model)| QueryVector { unit, model, given: true }),
            top_k,
            profile: profile(body.profile.as_deref())?,
            profile_named: body.profile.is_some(),
            tau_hours: None,
            relevance,
            weights: body.weights.map(weights).transpose()?,
            filter: filter(body.kinds.map(|kinds| kinds.0), body.filter)?,
            understood,
            situation,
            min_score: body.min_score.map(min_score).transpose()?,
            explain: body.explain.unwrap_or(false),
            include_deprecated: body.include_deprecated.unwrap_or(false),
            conflicts: conflicts(body.conflicts.as_deref())?,
            as_of: body.as_of.map(|as_of| as_of.read(now_us)).transpose()?,
            diversity,
            with_vectors: false,
            collections: body.collections.map(|names| collections(names.0)).transpose()?.unwrap_or_default(),
            require_all: body.require_all.unwrap_or(false),
            beside: None,
            trace: None,
            consistency: body.consistency,
            token: body.token,
            max_staleness_ms: body.max_staleness_ms,
            deadline: match body.deadline_ms {
                None => None,
                asked => Some(Duration::from_millis(within("deadline_ms", asked, 1, DEADLINE_MS_MAX)?)),
            },
        })
    }
}

fn check_text(text: String) -> Result<String> {
    if text.trim().is_empty() {
        return Err(Error::invalid(
            "query",
            "query is empty; give a text, or leave it out and give embedding",
        ));
    }
    if text.len() > QUERY_BYTES_MAX {
        let detail = format!("query has {} bytes; the limit is {QUERY_BYTES_MAX}; shorten it", text.len());
        return Err(Error::too_large("query", detail));
    }
    Ok(text)
}

fn within(field: &str, value: Option<u64>, default: u64, max: u64) -> Result<u64> {
    match value.unwrap_or(default) {
        value if (1..=max).contains(&value) => Ok(value),
        value => Err(Error::invalid(field, format!("{field} is {value}; give 1 to {max}"))),
    }
}

fn profile(name: Option<&str>) -> Result<Profile> {
    let Some(name) = name else { return Ok(Profile::default()) };
    Profile::from_name(name).ok_or_else(|| {
        let known = Profile::ALL.map(Profile::name).join(", ");
        Error::invalid("profile", format!("there is no such profile; use one of {known}"))
    })
}

fn relevance(name: Option<&str>) -> Result<v1::Relevance> {
    match name {
        None | Some("fused") => Ok(v1::Relevance::Fused),
        Some("vector") => Ok(v1::Relevance::Vector),
        Some("keyword") => Ok(v1::Relevance::Keyword),
        Some(_) => Err(Error::invalid("relevance", "relevance must be fused, vector or keyword")),
    }
}

fn conflicts(name: Option<&str>) -> Result<v1::Conflicts> {
    match name {
        None | Some("latest") => Ok(v1::Conflicts::Latest),
        Some("mark") => Ok(v1::Conflicts::Mark),
        Some("all") => Ok(v1::Conflicts::All),
        Some(_) => Err(Error::invalid("conflicts", "conflicts must be latest, mark or all")),
    }
}

fn weights(body: WeightsBody) -> Result<v1::Weights> {
    Ok(as_told(body.checked("weights")?))
}

impl WeightsBody {
    /// The weights, which stand at `field` of the body.
    ///
    /// # Errors
    /// [`holdfast_core::ErrorCode::InvalidArgument`] that names the one that is wrong, or all.
    pub(crate) fn checked(self, field: &str) -> Result<Weights> {
        let Self { relevance, recency, importance, frequency } = self;
        Weights::new(relevance, recency, importance, frequency).map_err(|error| match error {
            WeightsError::OutOfRange { part, .. } => {
                Error::invalid(format!("{field}.{part}"), error.to_string())
            }
            WeightsError::Sum(_) => {
                Error::invalid(field, format!("{error}; a weight that is left out counts as 0"))
            }
        })
    }
}

/// As nodes are told.
fn as_told(weights: Weights) -> v1::Weights {
    // All are within 0..=1.
    #[allow(clippy::cast_possible_truncation)]
    let [relevance, recency, importance, frequency] =
        [weights.s, weights.r, weights.i, weights.f].map(|w| w as f32);
    v1::Weights { relevance, recency, importance, frequency }
}

fn min_score(value: f64) -> Result<f64> {
    // Scores lie in 0..=1, and boosts add or take at most .2.
    if !(-0.2..=1.2).contains(&value) {
        return Err(Error::invalid(
            "min_score",
            format!("min_score is {value}; scores lie between -0.2 and 1.2"),
        ));
    }
    Ok(value)
}

/// The names of collections, each once.
fn collections(names: Vec<String>) -> Result<Vec<String>> {
    let mut known: Vec<String> = Vec::with_capacity(names.len());
    for (at, name) in names.into_iter().enumerate() {
        check_id(&format!("collections[{at}]"), &name)?;
        if !known.contains(&name) {
            known.push(name);
        }
    }
    Ok(known)
}

fn diversity(value: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&value) {
        return Err(Error::invalid("diversity", format!("diversity is {value}; give 0 to 1")));
    }
    Ok(value)
}

fn filter(kinds: Option<Vec<String>>, filter: Option<Value>) -> Result<String> {
    let mut all = Vec::new();
    if let Some(filter) = filter {
        all.push(filters::parse(filter)?);
    }
    if let Some(kinds) = kinds {
        if kinds.is_empty() {
            return Err(Error::invalid(
                "kinds",
                "kinds is empty, which no memory fits; leave it out for all kinds",
            ));
        }
        for (at, kind) in kinds.iter().enumerate() {
            filters::check_value("kind", kind).map_err(|error| error.at(format!("kinds[{at}]")))?;
        }
        all.push(json!({"kind": {"$in": kinds}}));
    }
    filters::all(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(body: Value) -> Result<Query> {
        Query::read(body.to_string().as_bytes())
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let query = read(json!({"query": "我不吃辣"})).unwrap();
        assert_eq!((query.top_k, query.profile), (10, Profile::Ebbinghaus));
        assert_eq!(query.relevance, v1::Relevance::Fused);
        assert!(query.filter.is_empty() && query.weights.is_none() && query.deadline.is_none());
        assert!(read(json!({"query": "q", "require_all": true, "collections": [], "diversity": 0})).is_ok());
    }

    #[test]
    fn every_field_is_checked_and_named() {
        for (body, field) in [
            (json!({}), "query"),
            (json!({"query": " "}), "query"),
            (json!({"query": "x".repeat(16 * 1024 + 1)}), "query"),
            (json!({"query": "q", "top_k": 0}), "top_k"),
            (json!({"query": "q", "top_k": 1_000_000_000}), "top_k"),
            (json!({"query": "q", "top_k": -1}), "top_k"),
            (json!({"query": "q", "top_k": "ten"}), "top_k"),
            (json!({"query": "q", "profile": "best"}), "profile"),
            (json!({"query": "q", "relevance": "bm25"}), "relevance"),
            (json!({"embedding": [1], "relevance": "keyword"}), "relevance"),
            (json!({"query": "q", "weights": {"relevance": 0.5}}), "weights"),
            (json!({"query": "q", "weights": {"relevance": 2, "recency": -1}}), "weights.relevance"),
            (json!({"query": "q", "weights": {"s": 1}}), "weights.s"),
            (json!({"query": "q", "kinds": ["semantic", "x"]}), "kinds[1]"),
            (json!({"query": "q", "kinds": []}), "kinds"),
            (json!({"query": "q", "filter": {"colour": 1}}), "filter.colour"),
            (json!({"query": "q", "min_score": 7}), "min_score"),
            (json!({"query": "q", "deadline_ms": 0}), "deadline_ms"),
            (json!({"query": "q", "deadline_ms": 60_001}), "deadline_ms"),
            (json!({"query": "q", "consistency": "eventual"}), "consistency"),
            (json!({"query": "q", "situation": {"now": "today"}}), "situation.now"),
            (json!({"query": "q", "situation": {"device": ""}}), "situation.device"),
            (json!({"query": "q", "collections": ["products", ""]}), "collections[1]"),
            (json!({"query": "q", "collections": "products"}), "collections"),
            (json!({"query": "q", "require_all": 1}), "require_all"),
            (json!({"query": "q", "as_of": {}}), "as_of"),
            (json!({"query": "q", "as_of": {"valid": "yesterday"}}), "as_of.valid"),
            (json!({"query": "q", "conflicts": "newest"}), "conflicts"),
            (json!({"query": "q", "intent": "chat"}), "intent"),
            (json!({"query": "q", "intent": 1}), "intent"),
            (json!({"query": "q", "diversity": 1.5}), "diversity"),
            (json!({"query": "q", "diversity": 0.5, "top_k": 101}), "top_k"),
            (json!({"query": "q", "embedding": [0.0]}), "embedding"),
            (json!({"query": "q", "embedding_model": "m"}), "embedding_model"),
            (json!({"query": "q", "user": "bob"}), "user"),
        ] {
            let short: String = body.to_string().chars().take(80).collect();
            let error = read(body).err().unwrap();
            assert_eq!(error.field.as_deref(), Some(field), "{short}: {}", error.detail);
        }
    }

    #[test]
    fn collections_are_named_once() {
        let query = read(json!({"query": "q", "collections": ["产品", "b", "产品"]})).unwrap();
        assert_eq!(query.collections, ["产品", "b"]);
        let many: Vec<String> = (0..65).map(|n| format!("c{n}")).collect();
        let error = read(json!({"query": "q", "collections": many})).err().unwrap();
        assert_eq!(error.code, holdfast_core::ErrorCode::TooLarge);
    }

    #[test]
    fn kinds_and_filter_hold_together() {
        let query = read(json!({"query": "q", "kinds": ["semantic"], "filter": {"session": "s"}})).unwrap();
        assert_eq!(query.filter, r#"{"kind":{"$in":["semantic"]},"session":"s"}"#);
    }
}
