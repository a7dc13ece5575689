//! The workload: dialogues, which both arms see, and gold labels, which only the scoring sees. They
//! are two structures, so that no arm can be handed a label by mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::dialogue;
use super::params::Parameters;
use super::plan::{self, Key, Plan};
use super::questions;
use super::random::Random;
use super::texts::{Language, Phrasings, Texts};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The agent's model.
    Assistant,
    /// Output of a tool.
    Tool,
}

impl Role {
    /// The name as the API takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One turn of a dialogue.
#[derive(Debug, Clone, Serialize)]
pub struct Turn {
    /// Unique in the workload; says user, session and place, nothing else.
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
    /// When, RFC 3339.
    pub time: String,
}

/// A question at the start of a session: one way in which the session may open.
#[derive(Debug, Clone, Serialize)]
pub struct Question {
    /// Its text.
    pub text: String,
}

/// One session.
#[derive(Debug, Clone, Serialize)]
pub struct Session {
    /// Name, unique for the user.
    pub id: String,
    /// Language of its turns and questions.
    pub language: Language,
    /// When it starts, RFC 3339.
    pub start: String,
    /// Asked before its first turn.
    pub questions: Vec<Question>,
    /// Its turns in order.
    pub turns: Vec<Turn>,
}

/// What an arm sees of a user.
#[derive(Debug, Clone, Serialize)]
pub struct Dialogue {
    /// The user's id, which names the space.
    pub user: String,
    /// Sessions in time order.
    pub sessions: Vec<Session>,
}

/// How wide a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One slot.
    Slot,
    /// A domain.
    Domain,
    /// All hard constraints.
    General,
}

/// Gold labels of one question.
#[derive(Debug, Clone)]
pub struct Gold {
    /// How wide it is.
    pub scope: Scope,
    /// What the context should hold.
    pub wanted: BTreeSet<Key>,
    /// Everything that is true at that time, wanted or not.
    pub current: BTreeSet<Key>,
    /// What the context should not hold.
    pub stale: BTreeSet<Key>,
}

/// Gold labels of a user.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Turn -> what it states.
    pub states: BTreeMap<String, Key>,
    /// For each session, for each of its questions.
    pub gold: Vec<Vec<Gold>>,
}

/// A generated workload.
#[derive(Debug, Clone)]
pub struct Workload {
    /// What the arms see.
    pub dialogues: Vec<Dialogue>,
    /// What they do not see, in the same order.
    pub labels: Vec<Labels>,
}

impl Workload {
    /// Makes the workload of a seed: `users` dialogues, look-alikes side by side. Of five pairs two
    /// speak English, two Chinese, and one changes language from session to session.
    ///
    /// # Errors
    /// The built-in texts do not fit together: a fault of this program.
    pub fn generate(seed: u64, users: usize, phrasings: Phrasings, parameters: &Parameters) -> Result<Self> {
        let texts = Texts::load(phrasings)?;
        let random = Random::new(seed);
        let (mut dialogues, mut labels) = (Vec::new(), Vec::new());
        for pair in 0..users.div_ceil(2) {
            let of_pair = random.fork(pair as u64);
            let plans = plan::pair(&of_pair, &texts, parameters);
            for (side, plan) in plans.iter().enumerate().take(users - 2 * pair) {
                let writer =
                    Writer { random: of_pair.fork(100 + side as u64), texts: &texts, parameters, pair };
                let (dialogue, of_user) = writer.write(plan, &format!("u{:03}", 2 * pair + side));
                dialogues.push(dialogue);
                labels.push(of_user);
            }
        }
        Ok(Self { dialogues, labels })
    }

    /// Turns of all users.
    pub fn turns(&self) -> usize {
        self.dialogues.iter().flat_map(|user| &user.sessions).map(|session| session.turns.len()).sum()
    }

    /// SHA-256 of dialogues and labels: it names the workload that a figure was measured on.
    ///
    /// # Errors
    /// The dialogues cannot be written as JSON: a fault of this program.
    pub fn sha256(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for dialogue in &self.dialogues {
            hash.update(serde_json::to_vec(dialogue)?);
        }
        hash.update(format!("{:?}", self.labels));
        Ok(hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            // Writing into a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        }))
    }
}

/// Writes one user's dialogue.
struct Writer<'a> {
    random: Random,
    texts: &'a Texts,
    parameters: &'a Parameters,
    pair: usize,
}

impl Writer<'_> {
    fn language(&self, session: usize) -> Language {
        match (self.pair % 5, session % 2) {
            (0 | 2, _) | (4, 0) => Language::En,
            _ => Language::Zh,
        }
    }

    fn write(&self, plan: &Plan, user: &str) -> (Dialogue, Labels) {
        let mut labels = Labels::default();
        let mut sessions = Vec::new();
        for (number, planned) in plan.sessions.iter().enumerate() {
            let language = self.language(number);
            let mut random = self.random.fork(number as u64);
            let start = planned.day.at(8 + i8::try_from(random.below(12)).unwrap_or(0), 0, 0, 0);
            let (questions, gold) = if number == 0 {
                (Vec::new(), Vec::new())
            } else {
                questions::ask(&mut random, self.texts, self.parameters, language, &planned.truth)
            };
            let lines = dialogue::lines(&mut random, self.texts, self.parameters, language, &planned.events);
            let mut turns = Vec::with_capacity(lines.len());
            let mut seconds = 30;
            for (place, line) in lines.into_iter().enumerate() {
                let id = format!("{user}-s{}-t{:02}", number + 1, place + 1);
                if let Some(key) = line.states {
                    labels.states.insert(id.clone(), key);
                }
                turns.push(Turn { id, role: line.role, text: line.text, time: utc(start, seconds) });
                seconds += i64::try_from(random.between(15, 60)).unwrap_or(0);
            }
            labels.gold.push(gold);
            sessions.push(Session {
                id: format!("s{}", number + 1),
                language,
                start: utc(start, 0),
                questions,
                turns,
            });
        }
        (Dialogue { user: user.to_owned(), sessions }, labels)
    }
}

/// RFC 3339 in UTC, `seconds` after `start`.
fn utc(start: jiff::civil::DateTime, seconds: i64) -> String {
    let time = start.saturating_add(jiff::Span::new().seconds(seconds));
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn workload(seed: u64) -> Workload {
        Workload::generate(seed, 20, Phrasings::All, &Parameters::FIXED).unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let bytes = |seed| serde_json::to_vec(&workload(seed).dialogues).unwrap();
        assert_eq!(bytes(5), bytes(5));
        assert_ne!(bytes(5), bytes(6));
        assert_eq!(workload(5).sha256().unwrap(), workload(5).sha256().unwrap());
        assert_ne!(workload(5).sha256().unwrap(), workload(6).sha256().unwrap());
        // A smaller workload is the beginning of a larger one.
        let few = Workload::generate(5, 3, Phrasings::All, &Parameters::FIXED).unwrap();
        assert_eq!(few.dialogues.len(), 3);
        assert_eq!(
            serde_json::to_string(&few.dialogues).unwrap(),
            serde_json::to_string(&workload(5).dialogues[..3]).unwrap()
        );
    }

    #[test]
    fn texts_are_whole_and_ids_unique() {
        let workload = workload(1);
        let mut ids = BTreeSet::new();
        let (mut en, mut zh) = (0, 0);
        for session in workload.dialogues.iter().flat_map(|user| &user.sessions) {
            let texts = session.turns.iter().filter(|turn| turn.role != Role::Tool).map(|turn| &turn.text);
            for text in texts.chain(session.questions.iter().map(|question| &question.text)) {
                assert!(!text.is_empty() && !text.contains(['{', '}']), "{text}");
                let chinese = text.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter));
                assert_eq!(chinese, session.language == Language::Zh, "{text}");
                if chinese { zh += 1 } else { en += 1 }
            }
            for turn in &session.turns {
                assert!(ids.insert(turn.id.clone()), "{}", turn.id);
                assert!(turn.time.starts_with(&session.start[..10]), "{} {}", turn.time, session.start);
                if turn.role == Role::Tool {
                    serde_json::from_str::<serde_json::Value>(&turn.text).unwrap();
                }
            }
            assert!((40..=80).contains(&session.turns.len()), "{}", session.turns.len());
        }
        assert!(en > 1000 && zh > 1000, "{en} {zh}");
        let starts: Vec<_> = workload.dialogues[0].sessions.iter().map(|session| &session.start).collect();
        assert!(starts.is_sorted(), "{starts:?}");
    }

    #[test]
    fn labels_name_user_turns_that_hold_the_value() {
        let workload = workload(2);
        let texts = Texts::load(Phrasings::All).unwrap();
        let mut statements = 0;
        for (dialogue, labels) in workload.dialogues.iter().zip(&workload.labels) {
            for session in &dialogue.sessions {
                for turn in &session.turns {
                    let Some(key) = labels.states.get(&turn.id) else { continue };
                    assert_eq!(turn.role, Role::User);
                    let value = texts.slots[key.slot].value(key.value, session.language);
                    assert!(
                        turn.text.to_lowercase().contains(&value.to_lowercase()),
                        "{value}: {}",
                        turn.text
                    );
                    statements += 1;
                }
            }
            assert_eq!(labels.gold.len(), dialogue.sessions.len());
            for (gold, session) in labels.gold.iter().zip(&dialogue.sessions) {
                assert_eq!(gold.len(), session.questions.len());
            }
        }
        assert!(statements > 300, "{statements}");
    }
}
