//! A memory as a caller wants it to be: checked against every limit, not yet derived.

use super::embedding;
use super::parse::{FactBody, MemoryBody, PatchBody, SourceBody};
use crate::http::json::{self, Change};
use crate::http::time::Time;
use crate::sensory::is_raw_json;
use holdfast_core::facts::normal;
use holdfast_core::facts::registry::Arity;
use holdfast_core::limits::{self, check_id};
use holdfast_core::memory::{Fact, Kind, Mode, Source, Status};
use holdfast_core::{Error, Result};
use holdfast_proto::v1;
use serde_json::{Map, Value};

const IMPORTANCE_DEFAULT: f32 = 0.5;
const CONFIDENCE_DEFAULT: f32 = 1.0;

/// A vector that the caller brings, at unit length, and its model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) unit: Vec<f32>,
    pub(super) model: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) id: Option<String>,
    pub(super) content: String,
    pub(super) kind: Kind,
    pub(super) status: Status,
    pub(super) role: Option<String>,
    pub(super) speaker: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) sentiment: Option<String>,
    pub(super) importance: f32,
    /// Whether the caller gave the importance, so that no rule does.
    pub(super) importance_given: bool,
    pub(super) confidence: f32,
    pub(super) event_us: Option<i64>,
    pub(super) expires_us: Option<i64>,
    pub(super) valid_from_us: Option<i64>,
    pub(super) valid_to_us: Option<i64>,
    pub(super) pinned: bool,
    pub(super) entities: Vec<String>,
    /// Canonical JSON; empty if there is none.
    pub(super) metadata: String,
    /// `metadata.caption`, which is indexed with the text.
    pub(super) caption: Option<String>,
    /// What the caller states.
    pub(super) fact: Option<Fact>,
    /// How many objects its predicate holds, if the caller says so.
    pub(super) arity: Option<Arity>,
    /// What the fact does to those before it.
    pub(super) mode: Mode,
    /// Whether facts are looked for in the text where the caller states none.
    pub(super) infer: bool,
    pub(super) source: Option<Source>,
    pub(super) derived_from: Vec<String>,
    pub(super) given: Option<Given>,
}

impl Draft {
    /// A new memory. A field at fault is named from `prefix`, such as `memories[3]`.
    pub(super) fn new(body: MemoryBody) -> Result<Self> {
        if !body.raw_json.unwrap_or(false) && is_raw_json(&body.content) {
            let detail = "content is raw JSON, which is noise in a memory; send what matters of it as a sentence, \
                          or set raw_json to true if it is meant";
            return Err(Error::invalid("content", detail));
        }
        let unit = body.embedding.map(|embedding| embedding.unit("embedding")).transpose()?;
        let model = embedding::model_name(unit.is_some(), body.embedding_model)?;
        let mut draft = Self {
            id: body.id,
            content: body.content,
            kind: body.kind.map_or(Kind::default(), |kind| kind.0),
            status: Status::Active,
            speaker: body.speaker.or_else(|| body.role.clone()),
            role: body.role,
            session: body.session,
            agent: body.agent,
            sentiment: body.sentiment,
            importance_given: body.importance.is_some(),
            importance: body.importance.map_or(Ok(IMPORTANCE_DEFAULT), |value| share("importance", value))?,
            confidence: CONFIDENCE_DEFAULT,
            event_us: body.event_time.map(|time| time.0),
            expires_us: body.expires_at.map(|time| time.0),
            valid_from_us: None,
            valid_to_us: None,
            pinned: body.pinned.unwrap_or(false),
            entities: body.entities.map(|entities| entities.0).unwrap_or_default(),
            metadata: String::new(),
            caption: None,
            fact: None,
            arity: None,
            mode: Mode::State,
            infer: true,
            source: body.source.map(source).transpose()?,
            derived_from: Vec::new(),
            given: unit.zip(model).map(|(unit, model)| Given { unit, model }),
        };
        draft.set_metadata(body.metadata)?;
        draft.set_fact(body.fact)?;
        draft.check()?;
        Ok(draft)
    }

    /// A stored memory, to be changed.
    pub(super) fn of_stored(memory: v1::Memory) -> Result<Self> {
        let stated = memory.fact.filter(|fact| fact.rules == 0);
        let (valid_from_us, valid_to_us) = match &stated {
            Some(_) => (memory.valid_from_us, memory.valid_to_us),
            None => (None, None),
        };
        let fact = stated.map(|fact| Fact {
            subject: fact.subject,
            predicate: fact.predicate,
            object: fact.object,
            qualifiers: fact.qualifiers,
            confidence: fact.confidence,
        });
        let source = memory.source.map(|source| Source { uri: source.uri, message_ids: source.message_ids });
        let mut draft = Self {
            id: Some(memory.id),
            content: memory.content,
            kind: Kind::from_wire(&memory.kind).unwrap_or_default(),
            // What a caller changes stands by itself.
            status: Status::from_wire(&memory.status)
                .filter(|status| *status != Status::Merged)
                .unwrap_or_default(),
            role: memory.role,
            speaker: memory.speaker,
            session: memory.session,
            agent: memory.agent,
            sentiment: memory.sentiment,
            importance: memory.importance,
            importance_given: true,
            confidence: memory.confidence,
            event_us: Some(memory.event_us),
            expires_us: memory.expires_us,
            valid_from_us,
            valid_to_us,
            pinned: memory.pinned,
            entities: memory.entities,
            metadata: memory.metadata,
            caption: None,
            fact,
            arity: None,
            mode: Mode::State,
            infer: true,
            source,
            derived_from: memory.derived_from,
            given: None,
        };
        if !draft.metadata.is_empty() {
            let fields: Value = json::part(&draft.metadata, "metadata")?;
            draft.caption = caption_of(fields.as_object());
        }
        Ok(draft)
    }

    /// Takes over what a patch says. `clear` names what cannot be cleared in its error.
    pub(super) fn apply(&mut self, patch: PatchBody) -> Result<()> {
        let unit = match patch.embedding {
            Change::Keep => None,
            Change::Clear => {
                let detail =
                    "an embedding cannot be taken away alone: change the content, or give another embedding";
                return Err(Error::invalid("embedding", detail));
            }
            Change::Set(embedding) => Some(embedding.unit("embedding")?),
        };
        let model = embedding::model_name(unit.is_some(), optional(None, patch.embedding_model))?;
        self.given = unit.zip(model).map(|(unit, model)| Given { unit, model });

        let speaker_was_role = self.speaker == self.role;
        self.role = optional(self.role.take(), patch.role);
        self.speaker = match patch.speaker {
            Change::Keep if speaker_was_role => self.role.clone(),
            Change::Clear => self.role.clone(),
            change => optional(self.speaker.take(), change),
        };
        self.session = optional(self.session.take(), patch.session);
        self.agent = optional(self.agent.take(), patch.agent);
        self.sentiment = optional(self.sentiment.take(), patch.sentiment);
        self.expires_us = optional(self.expires_us, timed(patch.expires_at));
        required("content", &mut self.content, patch.content)?;
        if let Change::Set(Time(event_us)) = patch.event_time {
            self.event_us = Some(event_us);
        } else if matches!(patch.event_time, Change::Clear) {
            return Err(cannot_clear("event_time"));
        }
        match patch.importance {
            Change::Keep => {}
            Change::Clear => (self.importance, self.importance_given) = (IMPORTANCE_DEFAULT, false),
            Change::Set(value) => self.importance = share("importance", value)?,
        }
        match patch.kind {
            Change::Keep => {}
            Change::Clear => return Err(cannot_clear("kind")),
            Change::Set(kind) => self.kind = kind.0,
        }
        match patch.pinned {
            Change::Keep => {}
            Change::Clear => self.pinned = false,
            Change::Set(pinned) => self.pinned = pinned,
        }
        match patch.entities {
            Change::Keep => {}
            Change::Clear => self.entities.clear(),
            Change::Set(entities) => self.entities = entities.0,
        }
        match patch.metadata {
            Change::Keep => {}
            Change::Clear => self.set_metadata(None)?,
            Change::Set(fields) => self.set_metadata(Some(fields))?,
        }
        match patch.fact {
            Change::Keep => {}
            Change::Clear => {
                self.set_fact(None)?;
                self.infer = false;
            }
            Change::Set(fact) => self.set_fact(Some(fact))?,
        }
        match patch.source {
            Change::Keep => {}
            Change::Clear => self.source = None,
            Change::Set(body) => self.source = Some(source(body)?),
        }
        self.check()
    }

    fn set_metadata(&mut self, fields: Option<Map<String, Value>>) -> Result<()> {
        self.caption = caption_of(fields.as_ref());
        self.metadata = match fields {
            Some(fields) if !fields.is_empty() => canonical("metadata", fields)?,
            _ => String::new(),
        };
        Ok(())
    }

    fn set_fact(&mut self, body: Option<FactBody>) -> Result<()> {
        let Some(body) = body else {
            (self.fact, self.arity, self.mode) = (None, None, Mode::State);
            (self.valid_from_us, self.valid_to_us) = (None, None);
            return Ok(());
        };
        let confidence = body.confidence.map(|value| share("fact.confidence", value)).transpose()?;
        let object = match body.object {
            Value::String(text) => text,
            number_or_bool @ (Value::Number(_) | Value::Bool(_)) => number_or_bool.to_string(),
            _ => {
                return Err(Error::invalid(
                    "fact.object",
                    "fact.object must be a string, a number or true or false",
                ));
            }
        };
        let max = limits::FACT_OBJECT_BYTES_MAX;
        if object.len() > max {
            let detail = format!("fact.object has {} bytes; the limit is {max}", object.len());
            return Err(Error::too_large("fact.object", detail));
        }
        check_id("fact.subject", &body.subject)?;
        check_id("fact.predicate", &body.predicate)?;
        for (field, form) in [
            ("fact.subject", normal::name(&body.subject)),
            ("fact.predicate", normal::predicate(&body.predicate)),
            ("fact.object", normal::name(&object)),
        ] {
            if form.is_empty() {
                return Err(Error::invalid(field, format!("{field} has no letter and no digit; give words")));
            }
        }
        self.arity = body.cardinality.as_deref().map(cardinality).transpose()?;
        let (from, to) = (body.valid_from.map(|time| time.0), body.valid_to.map(|time| time.0));
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            return Err(Error::invalid(
                "fact.valid_to",
                "fact.valid_to lies before fact.valid_from; swap or leave one out",
            ));
        }
        self.mode = mode(body.mode.as_deref(), to, body.reason)?;
        let qualifiers = match body.qualifiers {
            Some(fields) if !fields.is_empty() => canonical("fact.qualifiers", fields)?,
            _ => String::new(),
        };
        self.confidence = confidence.unwrap_or(CONFIDENCE_DEFAULT);
        (self.valid_from_us, self.valid_to_us) = (from, to);
        let (subject, predicate) = (body.subject, body.predicate);
        self.fact = Some(Fact { subject, predicate, object, qualifiers, confidence });
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.content.trim().is_empty() {
            return Err(Error::invalid("content", "content is empty; give the text to remember"));
        }
        let (bytes, max) = (self.content.len(), limits::CONTENT_BYTES_MAX);
        if bytes > max {
            let detail =
                format!("content has {bytes} bytes; the limit is {max}; split it into several memories");
            return Err(Error::too_large("content", detail));
        }
        let named = [
            ("id", &self.id),
            ("role", &self.role),
            ("speaker", &self.speaker),
            ("session", &self.session),
            ("agent", &self.agent),
            ("sentiment", &self.sentiment),
        ];
        for (field, value) in named {
            value.as_ref().map_or(Ok(()), |value| check_id(field, value))?;
        }
        for (at, entity) in self.entities.iter().enumerate() {
            check_id(&format!("entities[{at}]"), entity)?;
        }
        Ok(())
    }
}

/// The new value of a field that may be empty.
fn optional<T>(old: Option<T>, change: Change<T>) -> Option<T> {
    match change {
        Change::Keep => old,
        Change::Clear => None,
        Change::Set(value) => Some(value),
    }
}

fn required<T>(field: &str, old: &mut T, change: Change<T>) -> Result<()> {
    match change {
        Change::Keep => Ok(()),
        Change::Clear => Err(cannot_clear(field)),
        Change::Set(value) => {
            *old = value;
            Ok(())
        }
    }
}

fn cannot_clear(field: &str) -> Error {
    Error::invalid(field, format!("{field} cannot be null; leave it out to keep it"))
}

fn timed(change: Change<Time>) -> Change<i64> {
    match change {
        Change::Keep => Change::Keep,
        Change::Clear => Change::Clear,
        Change::Set(time) => Change::Set(time.0),
    }
}

/// A number from 0 to 1.
fn share(field: &str, value: f64) -> Result<f32> {
    if (0.0..=1.0).contains(&value) {
        // The range holds after rounding too, since both ends are exact.
        #[allow(clippy::cast_possible_truncation)]
        return Ok(value as f32);
    }
    Err(Error::invalid(field, format!("{field} is {value}; give a number from 0 to 1")))
}

fn cardinality(name: &str) -> Result<Arity> {
    Arity::from_wire(name).ok_or_else(|| {
        Error::invalid(
            "fact.cardinality",
            "fact.cardinality is single, many or unknown; leave it out for the table's",
        )
    })
}

/// An override needs its end; it is told why by a word or two.
fn mode(name: Option<&str>, valid_to_us: Option<i64>, reason: Option<String>) -> Result<Mode> {
    if let Some(reason) = &reason {
        check_id("fact.reason", reason)?;
        if name != Some("override") {
            return Err(Error::invalid(
                "fact.reason",
                "fact.reason is that of an override; set mode to override",
            ));
        }
    }
    match (name, valid_to_us) {
        (None | Some("state"), _) => Ok(Mode::State),
        (Some("correct"), _) => Ok(Mode::Correct),
        (Some("end"), _) => Ok(Mode::End),
        (Some("override"), Some(until_us)) => {
            Ok(Mode::Override { until_us, reason: reason.unwrap_or_default() })
        }
        (Some("override"), None) => {
            Err(Error::invalid("fact.valid_to", "an override holds for a while; give fact.valid_to"))
        }
        _ => Err(Error::invalid("fact.mode", "fact.mode must be state, override, correct or end")),
    }
}

/// Fields of the caller's own as canonical JSON, within the limits of metadata.
pub(crate) fn canonical(field: &str, fields: Map<String, Value>) -> Result<String> {
    let value = Value::Object(fields);
    let (depth, max) = (json::depth(&value), limits::METADATA_DEPTH_MAX);
    if depth > max {
        return Err(Error::too_large(
            field,
            format!("{field} nests {depth} levels deep; the limit is {max}"),
        ));
    }
    let text = json::canonical(&value);
    let (bytes, max) = (text.len(), limits::METADATA_BYTES_MAX);
    if bytes > max {
        return Err(Error::too_large(
            field,
            format!("{field} has {bytes} bytes of JSON; the limit is {max}"),
        ));
    }
    Ok(text)
}

pub(crate) fn caption_of(fields: Option<&Map<String, Value>>) -> Option<String> {
    fields?.get("caption")?.as_str().map(str::to_owned)
}

fn source(body: SourceBody) -> Result<Source> {
    let message_ids = body.message_ids.map(|ids| ids.0).unwrap_or_default();
    for (at, id) in message_ids.iter().enumerate() {
        check_id(&format!("source.message_ids[{at}]"), id)?;
    }
    if let Some(uri) = &body.uri {
        let max = limits::SOURCE_URI_BYTES_MAX;
        if uri.is_empty() || uri.len() > max || uri.chars().any(char::is_control) {
            let detail = format!("source.uri must have 1 to {max} bytes and no control characters");
            return Err(Error::invalid("source.uri", detail));
        }
    }
    Ok(Source { uri: body.uri, message_ids })
}

#[cfg(test)]
mod tests;
