//! From the body of an append to turns: checked, filtered, labelled and counted.

use crate::fact_rules::FactRules;
use crate::http::json::{self, Bounded};
use crate::http::time::Time;
use crate::memories::infer;
use crate::sensory::{self, KEEP_MAX, Sensory};
use crate::tokenizer::Tokenizer;
use holdfast_core::command::NewTurn;
use holdfast_core::limits::{ATOMIC_ITEMS_MAX, CONTENT_BYTES_MAX, TURN_TAGS_MAX, check_id};
use holdfast_core::session::labels::labels;
use holdfast_core::session::{Tool, TurnRow};
use holdfast_core::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

/// Turns above this importance become memories.
pub(super) const PROMOTED_ABOVE: f32 = 0.35;

/// `POST …/sessions/{s}/turns`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnsBody {
    turns: Bounded<TurnBody, ATOMIC_ITEMS_MAX>,
    #[serde(default)]
    sensory: Sensory,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnBody {
    role: String,
    content: Option<String>,
    importance: Option<f64>,
    pinned: Option<bool>,
    tags: Option<Bounded<String, TURN_TAGS_MAX>>,
    tool: Option<ToolBody>,
    time: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolBody {
    name: String,
    output: Value,
    keep: Option<Bounded<String, KEEP_MAX>>,
}

/// A turn on its way to the command, or why the filter left it out.
pub(super) type Turn = std::result::Result<NewTurn, Error>;

/// Reads, checks and derives; computes in proportion to the body.
pub(super) fn read(bytes: &[u8], now_us: i64, by: &FactRules) -> Result<Vec<Turn>> {
    let body: TurnsBody = json::body(bytes)?;
    body.sensory.check()?;
    if body.turns.0.is_empty() {
        return Err(Error::invalid("turns", "turns is empty; give at least one"));
    }
    let turns = body.turns.0.into_iter().enumerate();
    turns
        .map(|(at, turn)| turn.derive(&body.sensory, now_us, by).map_err(|error| within(at, error)))
        .collect()
}

/// Names the turn that an error is about.
fn within(at: usize, error: Error) -> Error {
    let field = match &error.field {
        Some(field) => format!("turns[{at}].{field}"),
        None => format!("turns[{at}]"),
    };
    error.at(field)
}

impl TurnBody {
    fn derive(self, sensory: &Sensory, now_us: i64, by: &FactRules) -> Result<Turn> {
        let tool = self.tool.map(ToolBody::reduce).transpose()?;
        let content = self.content.unwrap_or_default();
        let content = sensory.cap(content);
        // Before the work that grows with it.
        if content.len() > CONTENT_BYTES_MAX {
            let (n, max) = (content.len(), CONTENT_BYTES_MAX);
            let detail = format!("content has {n} bytes; the limit is {max}; split it");
            return Err(Error::too_large("content", detail));
        }
        let said = if content.is_empty() { tool.as_ref().map_or("", |tool| &tool.output) } else { &content };
        let labels = labels(said);
        let (by_rules, states) = infer::importance(&self.role, said, now_us, by);
        let importance = match self.importance {
            Some(value) if (0.0..=1.0).contains(&value) => {
                // The range holds after rounding too, since both ends are exact.
                #[allow(clippy::cast_possible_truncation)]
                let value = value as f32;
                value
            }
            Some(value) => {
                let detail = format!("importance is {value}; give a number from 0 to 1");
                return Err(Error::invalid("importance", detail));
            }
            None => by_rules.unwrap_or(labels.importance),
        };
        let tokens = [content.as_str(), tool.as_ref().map_or("", |tool| &tool.output)];
        let row = TurnRow {
            tokens: tokens.iter().map(|text| Tokenizer::default().count_stored(text)).sum(),
            role: self.role,
            content,
            importance,
            // A fact takes the place of what it supersedes, however little its turn weighs.
            promote: importance > PROMOTED_ABOVE || states,
            pinned: self.pinned.unwrap_or(false),
            tags: self.tags.map(|tags| tags.0).unwrap_or_default(),
            act: labels.act.map(str::to_owned),
            topics: labels.topics.into_iter().map(str::to_owned).collect(),
            entities: labels.entities,
            asks: labels.asks,
            tool,
            event_us: self.time.map_or(0, |time| time.0),
            recorded_us: 0,
        };
        row.check()?;
        if let Err(why) = sensory.admit(importance) {
            return Ok(Err(why));
        }
        Ok(Ok(NewTurn { row, event_given: self.time.is_some() }))
    }
}

impl ToolBody {
    fn reduce(self) -> Result<Tool> {
        check_id("tool.name", &self.name)?;
        let keep = self.keep.map(|keep| keep.0).unwrap_or_default();
        let output = sensory::tool_output(&self.name, &self.output, &keep)?;
        Ok(Tool { name: self.name, output })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn turns(body: Value) -> Result<Vec<Turn>> {
        read(body.to_string().as_bytes(), 0, &FactRules::built_in())
    }

    fn one(turn: Value) -> TurnRow {
        turns(json!({"turns": [turn]})).unwrap().remove(0).unwrap().row
    }

    #[test]
    fn turns_are_labelled_counted_and_weighed() {
        let row = one(json!({"role": "user", "content": "Can you book a table for Anna tomorrow?"}));
        assert_eq!((row.act.as_deref(), row.asks, row.promote), (Some("request"), true, true));
        assert_eq!((row.entities.as_slice(), row.tokens), (&["Anna".to_owned()][..], 9));
        let constraint = one(json!({"role": "user", "content": "我对花生过敏"}));
        assert!((constraint.importance - 1.0).abs() < f32::EPSILON && constraint.promote);
        let small = one(json!({"role": "assistant", "content": "Sure!"}));
        assert!(small.importance < 0.3 && !small.promote);
        let slight = one(json!({"role": "user", "content": "i moved to paris", "importance": 0.1}));
        assert!(slight.promote && slight.importance < 0.2, "it states a fact");
        assert!(!one(json!({"role": "assistant", "content": "i moved to paris"})).promote);
        assert!(one(json!({"role": "user", "content": "hm", "importance": 0.36})).promote);
        assert!(!one(json!({"role": "user", "content": "20 mg", "importance": 0.35})).promote);
    }

    #[test]
    fn answers_of_tools_are_reduced() {
        let tool = json!({"name": "weather", "output": {"city": "Ulm", "raw": [1, 2]}, "keep": ["$.city"]});
        let row = one(json!({"role": "tool", "tool": tool}));
        assert_eq!((row.content.as_str(), row.tool.unwrap().output.as_str()), ("", r#"{"city":"Ulm"}"#));
        assert!(row.tokens > 0);
    }

    #[test]
    fn the_filter_leaves_out_and_shortens() {
        let body = json!({"sensory": {"min_importance": 0.35, "max_tokens": 10}, "turns": [
            {"role": "user", "content": "ok"},
            {"role": "user", "content": format!("{}My room is number 512.", "We talked. ".repeat(50))},
        ]});
        let turns = turns(body).unwrap();
        assert!(turns[0].as_ref().unwrap_err().detail.contains("min_importance"));
        let row = &turns[1].as_ref().unwrap().row;
        assert!(row.tokens <= 10 && row.content.contains("512"), "{}", row.content);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (turn, field) in [
            (json!({"role": "user"}), "turns[0].content"),
            (json!({"role": "user", "content": " "}), "turns[0].content"),
            (json!({"role": "", "content": "x"}), "turns[0].role"),
            (json!({"role": "user", "content": "x", "importance": 1.5}), "turns[0].importance"),
            (json!({"role": "user", "content": "x", "tags": [""]}), "turns[0].tags"),
            (json!({"role": "user", "content": "x", "kind": "y"}), "turns[0].kind"),
            (json!({"role": "user", "content": "长".repeat(30_000)}), "turns[0].content"),
            (json!({"role": "tool", "tool": {"name": "", "output": 1}}), "turns[0].tool.name"),
            (
                json!({"role": "tool", "tool": {"name": "t", "output": {"a": 1}, "keep": ["a"]}}),
                "turns[0].tool.keep[0]",
            ),
        ] {
            let error = turns(json!({"turns": [turn]})).err().unwrap();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
        assert_eq!(turns(json!({"turns": []})).err().unwrap().field.as_deref(), Some("turns"));
        let many = vec![json!({"role": "user", "content": "x"}); 101];
        assert_eq!(turns(json!({"turns": many})).err().unwrap().code, holdfast_core::ErrorCode::TooLarge);
    }
}
