//! A statement of a memory in a line of an export, and how it stands among the others.

use crate::http::time::Time;
use crate::memories::draft::canonical;
use holdfast_core::limits::{FACT_NAME_BYTES_MAX, FACT_OBJECT_BYTES_MAX};
use holdfast_core::memory::{Cardinality, Fact, Mode, Statement};
use holdfast_core::transfer::Standing;
use holdfast_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatementLine {
    subject: String,
    predicate: String,
    object: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    qualifiers: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confidence: Option<f32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_from: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_to: Option<Time>,
    mode: ModeLine,
    /// Whether its predicate has one object at a time.
    single: bool,
    /// Version of the rules that found it; 0 if the caller stated it.
    rules: u16,
    /// The forms that statements are compared by.
    normal: NormalLine,
    /// How it stands among the others; missing where it does not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stands: Option<StandingLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ModeLine {
    State,
    Override { until: Time, reason: String },
    Correct,
    End,
    Evidence { against: Vec<String> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NormalLine {
    subject: String,
    predicate: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    about: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    value: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StandingLine {
    from: Time,
    recorded_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retracted_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retracted_by: Option<String>,
}

impl StatementLine {
    pub(super) fn of(statement: Statement, standing: Option<Standing>) -> Result<Self> {
        let Statement {
            fact,
            subject,
            predicate,
            about,
            value,
            cardinality,
            mode,
            valid_from_us,
            valid_to_us,
            rules,
        } = statement;
        let mode = match mode {
            Mode::State => ModeLine::State,
            Mode::Override { until_us, reason } => ModeLine::Override { until: Time(until_us), reason },
            Mode::Correct => ModeLine::Correct,
            Mode::End => ModeLine::End,
            Mode::Evidence { against } => ModeLine::Evidence { against },
        };
        Ok(Self {
            subject: fact.subject,
            predicate: fact.predicate,
            object: fact.object,
            qualifiers: fields("qualifiers", &fact.qualifiers)?,
            confidence: fact.confidence,
            valid_from: valid_from_us.map(Time),
            valid_to: valid_to_us.map(Time),
            mode,
            single: cardinality == Cardinality::Single,
            rules,
            normal: NormalLine { subject, predicate, about, value },
            stands: standing.map(|standing| StandingLine {
                from: Time(standing.from_us),
                recorded_at: Time(standing.recorded_us),
                retracted_at: standing.retracted_us.map(Time),
                retracted_by: standing.retracted_by,
            }),
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        let max = FACT_NAME_BYTES_MAX;
        if self.subject.len() > max || self.predicate.len() > max || self.object.len() > FACT_OBJECT_BYTES_MAX
        {
            return Err(Error::too_large("statements", "a subject, predicate or object is too long"));
        }
        Ok(())
    }

    pub(super) fn into_statement(self) -> Result<(Statement, Option<Standing>)> {
        let qualifiers = if self.qualifiers.is_empty() {
            String::new()
        } else {
            canonical("qualifiers", self.qualifiers)?
        };
        let mode = match self.mode {
            ModeLine::State => Mode::State,
            ModeLine::Override { until, reason } => Mode::Override { until_us: until.0, reason },
            ModeLine::Correct => Mode::Correct,
            ModeLine::End => Mode::End,
            ModeLine::Evidence { against } => Mode::Evidence { against },
        };
        if let Mode::Override { reason, .. } = &mode
            && reason.len() > FACT_NAME_BYTES_MAX
        {
            return Err(Error::too_large("mode.reason", "the reason of an override is too long"));
        }
        let (subject, predicate, object) = (self.subject, self.predicate, self.object);
        let statement = Statement {
            fact: Fact { subject, predicate, object, qualifiers, confidence: self.confidence },
            subject: self.normal.subject,
            predicate: self.normal.predicate,
            about: self.normal.about,
            value: self.normal.value,
            cardinality: if self.single { Cardinality::Single } else { Cardinality::Unknown },
            mode,
            valid_from_us: self.valid_from.map(|time| time.0),
            valid_to_us: self.valid_to.map(|time| time.0),
            rules: self.rules,
        };
        let standing = self.stands.map(|line| Standing {
            from_us: line.from.0,
            recorded_us: line.recorded_at.0,
            retracted_us: line.retracted_at.map(|time| time.0),
            retracted_by: line.retracted_by,
        });
        Ok((statement, standing))
    }
}

/// Stored JSON as fields; no text stands for none.
pub(super) fn fields(field: &str, json: &str) -> Result<Map<String, Value>> {
    if json.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(json).map_err(|error| {
        Error::new(holdfast_core::ErrorCode::Corrupted, format!("stored JSON: {error}")).at(field)
    })
}
