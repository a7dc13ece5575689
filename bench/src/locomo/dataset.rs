//! Reads a LoCoMo file into memories and questions.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::evidence;
use crate::client::NewMemory;

/// A LoCoMo file, read and checked.
#[derive(Debug)]
pub struct Dataset {
    /// The conversations in the order of the file.
    pub conversations: Vec<Conversation>,
}

/// One conversation with its questions.
#[derive(Debug)]
pub struct Conversation {
    /// Name in the file, for example `conv-26`.
    pub id: String,
    /// One memory per turn, in order of time.
    pub memories: Vec<NewMemory>,
    /// The questions in the order of the file.
    pub questions: Vec<Question>,
}

/// One question about a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The text.
    pub text: String,
    /// 1 several turns, 2 time, 3 inference, 4 one turn, 5 adversarial (no answer in the text).
    pub category: u8,
    /// Memory ids of the evidence turns that exist, without repetition.
    pub gold: Vec<String>,
    /// Evidence strings that name no turn of the conversation, as they stand in the file.
    pub unresolved: Vec<String>,
}

#[derive(Deserialize)]
struct RawConversation {
    sample_id: String,
    conversation: Map<String, Value>,
    #[serde(default)]
    qa: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawQuestion {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: u8,
}

#[derive(Deserialize)]
struct RawTurn {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

/// Whether `text` looks like a LoCoMo file: a JSON array whose first object has a conversation.
pub fn is_locomo(text: &str) -> bool {
    // A JSON Lines file never starts with an array: each of its lines is one memory object.
    text.trim_start().starts_with('[') && text.contains("\"conversation\"")
}

/// The id of the memory of one turn.
pub fn memory_id(conversation: &str, turn: &str) -> String {
    format!("{conversation}/{turn}")
}

impl Dataset {
    /// Reads the text of a LoCoMo file.
    ///
    /// # Errors
    /// If it is not JSON of that shape, a session has no readable date, or a turn id repeats;
    /// the message names the conversation and session.
    pub fn parse(text: &str) -> Result<Self> {
        let raw: Vec<RawConversation> = serde_json::from_str(text).context("this is not a LoCoMo file")?;
        ensure!(!raw.is_empty(), "the LoCoMo file holds no conversation");
        let mut names = HashSet::new();
        let mut conversations = Vec::with_capacity(raw.len());
        for conversation in raw {
            let name = conversation.sample_id.clone();
            ensure!(names.insert(name.clone()), "conversation {name} is in the file twice");
            conversations.push(read(conversation).with_context(|| format!("conversation {name}"))?);
        }
        Ok(Self { conversations })
    }

    /// The conversation of that name.
    ///
    /// # Errors
    /// If there is none; the message lists those that exist.
    pub fn conversation(&self, id: &str) -> Result<&Conversation> {
        if let Some(found) = self.conversations.iter().find(|c| c.id == id) {
            return Ok(found);
        }
        let names: Vec<&str> = self.conversations.iter().map(|c| c.id.as_str()).collect();
        bail!("no conversation {id:?} in the file; it has {}", names.join(", "))
    }
}

fn read(raw: RawConversation) -> Result<Conversation> {
    let mut turns_seen = HashSet::new();
    let mut memories = Vec::new();
    for (number, turns) in sessions(&raw.conversation)? {
        let key = format!("session_{number}_date_time");
        let date = raw
            .conversation
            .get(&key)
            .and_then(Value::as_str)
            .with_context(|| format!("{key} is missing"))?;
        let start = parse_session_time(date).with_context(|| key.clone())?;
        for (position, turn) in (0_i64..).zip(turns) {
            ensure!(turns_seen.insert(turn.dia_id.clone()), "turn {} is there twice", turn.dia_id);
            // The file dates sessions, not turns: one second apart keeps their order.
            let time = start + SignedDuration::from_secs(position);
            memories.push(memory_of(&raw.sample_id, number, turn, time));
        }
    }
    let questions = raw
        .qa
        .into_iter()
        .map(|question| {
            let found = evidence::resolve(&question.evidence, |id| turns_seen.contains(id));
            Question {
                text: question.question,
                category: question.category,
                gold: found.turns.iter().map(|turn| memory_id(&raw.sample_id, turn)).collect(),
                unresolved: found.unresolved,
            }
        })
        .collect();
    Ok(Conversation { id: raw.sample_id, memories, questions })
}

/// The sessions by number: as text, session_10 would come before session_2.
fn sessions(conversation: &Map<String, Value>) -> Result<BTreeMap<u32, Vec<RawTurn>>> {
    let mut sessions = BTreeMap::new();
    for (key, value) in conversation {
        let number = key.strip_prefix("session_").and_then(|n| n.parse().ok());
        if let (Some(number), Value::Array(_)) = (number, value) {
            let turns = Vec::<RawTurn>::deserialize(value).with_context(|| key.clone())?;
            sessions.insert(number, turns);
        }
    }
    Ok(sessions)
}

fn memory_of(conversation: &str, session: u32, turn: RawTurn, time: Timestamp) -> NewMemory {
    NewMemory {
        id: Some(memory_id(conversation, &turn.dia_id)),
        session: Some(format!("{conversation}/session_{session}")),
        speaker: Some(turn.speaker),
        kind: Some("episodic".to_owned()),
        event_time: Some(time.to_string()),
        metadata: turn
            .blip_caption
            .map(|caption| Map::from_iter([("caption".to_owned(), Value::String(caption))])),
        content: turn.text,
        ..NewMemory::default()
    }
}

/// Reads a session date such as `1:56 pm on 8 May, 2023`. The file names no zone: taken as UTC.
fn parse_session_time(text: &str) -> Result<Timestamp> {
    let civil = DateTime::strptime("%I:%M %p on %d %B, %Y", text.trim())
        .with_context(|| format!("the date {text:?} is not like \"1:56 pm on 8 May, 2023\""))?;
    Ok(civil.to_zoned(TimeZone::UTC)?.timestamp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// Handmade; nothing of the dataset is in it.
    pub(crate) const TINY: &str = r#"[{"sample_id": "c-1", "conversation": {
        "speaker_a": "Ann", "speaker_b": "Bo",
        "session_10_date_time": "12:05 am on 1 January, 2024",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Happy new year! 新年快乐"}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": "Hi"},
            {"speaker": "Bo", "dia_id": "D2:2", "text": "Look at this.",
             "blip_caption": "a photo of a red kite", "img_url": ["x"], "query": "kite"}],
        "session_3_date_time": "2:00 pm on 9 May, 2023"},
      "qa": [
        {"question": "What flew?", "answer": "a kite", "evidence": ["D2:2"], "category": 4},
        {"question": "When?", "answer": 2024, "evidence": ["D10:01; D2:1", "D9:9"], "category": 2},
        {"question": "Why?", "adversarial_answer": "x", "evidence": [], "category": 5}]}]"#;

    #[test]
    fn turns_become_memories_in_order_of_sessions() {
        let data = Dataset::parse(TINY).unwrap();
        let c = data.conversation("c-1").unwrap();
        let ids: Vec<_> = c.memories.iter().map(|m| m.id.as_deref().unwrap()).collect();
        assert_eq!(ids, ["c-1/D2:1", "c-1/D2:2", "c-1/D10:1"]);
        let kite = &c.memories[1];
        assert_eq!(kite.event_time.as_deref(), Some("2023-05-08T13:56:01Z"));
        assert_eq!(kite.session.as_deref(), Some("c-1/session_2"));
        assert_eq!(kite.speaker.as_deref(), Some("Bo"));
        assert_eq!(kite.content, "Look at this.");
        assert_eq!(
            serde_json::to_value(&kite.metadata).unwrap(),
            serde_json::json!({"caption": "a photo of a red kite"})
        );
        let midnight = c.memories[2].event_time.as_deref();
        assert_eq!(midnight, Some("2024-01-01T00:05:00Z"));
    }

    #[test]
    fn questions_carry_their_gold_and_what_could_not_be_resolved() {
        let data = Dataset::parse(TINY).unwrap();
        let questions = &data.conversations[0].questions;
        assert_eq!(questions[0].gold, ["c-1/D2:2"]);
        assert_eq!(questions[1].gold, ["c-1/D10:1", "c-1/D2:1"]);
        assert_eq!(questions[1].unresolved, ["D9:9"]);
        assert!(questions[2].gold.is_empty());
    }

    #[test]
    fn noon_and_midnight_are_read_right_and_nonsense_is_an_error() {
        let read = |text| parse_session_time(text).map(|t| t.to_string());
        assert_eq!(read("12:09 am on 13 September, 2023").unwrap(), "2023-09-13T00:09:00Z");
        assert_eq!(read("12:30 pm on 1 March, 2024").unwrap(), "2024-03-01T12:30:00Z");
        for bad in ["", "yesterday", "13:00 pm on 1 March, 2024", "1:00 pm on 31 June, 2024"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn broken_files_name_the_place() {
        let error = Dataset::parse("[]").unwrap_err();
        assert!(error.to_string().contains("no conversation"));
        let error = Dataset::parse(&TINY.replace("1:56 pm on 8 May, 2023", "soon")).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("c-1") && text.contains("session_2_date_time"), "{text}");
        let error = Dataset::parse(&TINY.replace("D2:2\", \"text", "D2:1\", \"text")).unwrap_err();
        assert!(format!("{error:#}").contains("D2:1 is there twice"));
        let error = Dataset::parse(TINY).unwrap().conversation("c-9").map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("it has c-1"), "{error}");
    }

    #[test]
    fn locomo_files_are_told_from_json_lines() {
        assert!(is_locomo(TINY));
        assert!(!is_locomo("{\"content\":\"the conversation\"}\n"));
        assert!(!is_locomo(""));
    }
}
