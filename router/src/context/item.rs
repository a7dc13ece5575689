//! One thing that may stand in a context.

use super::fence;
use super::rest::Rest;
use super::sections::Section;
use crate::http::time::Time;
use holdfast_core::facts::normal::is_chinese;
use holdfast_core::space::SpaceKey;
use holdfast_core::{Error, ErrorCode, Result};
use holdfast_proto::v1;
use serde::Serialize;

/// Longest name of a speaker that is shown, in characters.
const SPEAKER_CHARS_MAX: usize = 64;

/// Who said something, and on which day (UTC).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Heading {
    pub(super) day: String,
    pub(super) speaker: String,
}

/// Where an item comes from.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Source {
    /// `memory`, `block`, `task`, `dialogue`, `summary`, `turn` or `procedure`.
    kind: &'static str,
    /// The memory that states it; for a memory its own id.
    memory: Option<String>,
    /// The shared collection that it comes from; missing for what is the user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) space: Option<String>,
    pub(super) session: Option<String>,
    pub(super) speaker: Option<String>,
    pub(super) event_time: Option<Time>,
    uri: Option<String>,
    pub(super) derived_from: Vec<String>,
}

/// Something that a memory states and that holds, in the form that statements are compared by.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) group: Group,
    pub(super) value: String,
    /// Whether two values of the group exclude each other.
    pub(super) exclusive: bool,
    pub(super) from_us: i64,
}

/// What statements that may contradict each other have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) subject: String,
    pub(super) predicate: String,
    pub(super) about: String,
}

impl Claim {
    pub(super) fn of(stated: &v1::Stated) -> Self {
        let v1::Stated { subject, predicate, about, value, exclusive, from_us, .. } = stated;
        let (subject, predicate, about) = (subject.clone(), predicate.clone(), about.clone());
        let group = Group { subject, predicate, about };
        Self { group, value: value.clone(), exclusive: *exclusive, from_us: *from_us }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) section: Section,
    pub(super) id: String,
    /// The memory that states it; empty for what is no memory.
    pub(super) memory: String,
    pub(super) score: f64,
    /// As it is shown, fenced.
    pub(super) text: String,
    /// Tokens of the stored text by the tokenizer that stored texts are counted by, if it is shown
    /// unchanged.
    pub(super) stored_tokens: Option<usize>,
    /// Shown where the section has headings.
    pub(super) heading: Heading,
    /// Its place in the section: when it happened, then in which order it was recorded.
    pub(super) place: (i64, u64),
    /// Whether the context is worth nothing without it.
    pub(super) required: bool,
    /// Whether all that it says are facts, and none of them holds any more.
    pub(super) fallen: bool,
    /// What is left of it where some of its facts hold no longer.
    pub(super) rest: Rest,
    /// The words of the memory that it is or is stated by, fenced.
    pub(super) words: String,
    /// Whether what it states is all that it says.
    pub(super) whole: bool,
    /// What it states that holds.
    pub(super) claims: Vec<Claim>,
    /// Whether it is left out where the one after it is: a conversation has no holes.
    pub(super) chained: bool,
    /// For a fact whose group may hold many values: the group.
    pub(super) group: Option<String>,
    /// From when it holds.
    pub(super) since_us: i64,
    pub(super) source: Source,
    pub(super) possible_conflicts: Vec<String>,
    pub(super) why: Vec<String>,
}

/// Whether this names a collection and not the space of a user.
fn is_shared(space: &str) -> bool {
    space.starts_with("shared:")
}

impl Item {
    /// A memory as an item of a section.
    ///
    /// # Errors
    /// If a node answered without the memory.
    pub(super) fn of_memory(section: Section, scored: &v1::Scored) -> Result<Self> {
        let memory = scored
            .memory
            .as_ref()
            .ok_or_else(|| Error::new(ErrorCode::Internal, "a node answered a result without its memory"))?;
        // Two spaces may have one id, so that of a collection's memory names its space.
        let space =
            memory.space.as_ref().map(|space| SpaceKey::label_of(&space.name)).filter(|name| is_shared(name));
        let id = space.map_or_else(|| memory.id.clone(), |space| format!("{space}/{}", memory.id));
        let text = fence::quoted(&memory.content);
        let unchanged = memory.tokens > 0 && text == memory.content;
        let name = memory.speaker.as_deref().or(memory.role.as_deref()).unwrap_or_default();
        let speaker = Self::speaker(name);
        let rest = Rest::of(scored, &memory.content);
        Ok(Self {
            section,
            memory: id.clone(),
            id,
            score: scored.score,
            stored_tokens: unchanged.then_some(memory.tokens as usize),
            words: text.clone(),
            text,
            heading: Heading { day: Time(memory.event_us).day(), speaker },
            place: (memory.event_us, memory.seq),
            required: false,
            fallen: rest.is_nothing()
                || scored.whole
                    && !scored.stated.is_empty()
                    && scored.stated.iter().all(|stated| !stated.current),
            rest,
            claims: scored.stated.iter().filter(|stated| stated.current).map(Claim::of).collect(),
            chained: false,
            whole: scored.whole,
            group: None,
            since_us: memory.event_us,
            source: Source {
                kind: "memory",
                memory: Some(memory.id.clone()),
                space: space.map(str::to_owned),
                session: memory.session.clone(),
                speaker: memory.speaker.clone(),
                event_time: Some(Time(memory.event_us)),
                uri: memory.source.as_ref().and_then(|source| source.uri.clone()),
                derived_from: memory.derived_from.clone(),
            },
            possible_conflicts: memory.possible_conflicts.clone(),
            why: scored.why.clone(),
        })
    }

    /// Something that is kept beside memories.
    pub(super) fn of_tier(section: Section, id: String, text: &str, place: (i64, u64)) -> Self {
        let kind = match section {
            Section::Blocks => "block",
            Section::Task => "task",
            Section::Dialogue => "dialogue",
            Section::Summary => "summary",
            Section::Window => "turn",
            Section::Procedures => "procedure",
            Section::Constraints | Section::Memories | Section::Facts => "memory",
        };
        Self {
            section,
            id,
            memory: String::new(),
            score: 1.0,
            text: fence::quoted(text),
            stored_tokens: None,
            heading: Heading { day: String::new(), speaker: String::new() },
            place,
            required: false,
            fallen: false,
            rest: Rest::default(),
            claims: Vec::new(),
            chained: false,
            words: String::new(),
            whole: false,
            group: None,
            since_us: 0,
            source: Source { kind, ..Source::default() },
            possible_conflicts: Vec::new(),
            why: Vec::new(),
        }
    }

    /// A fact as a line: Chinese without spaces.
    pub(super) fn words_of(stated: &v1::Stated) -> Option<String> {
        let fact = stated.fact.as_ref()?;
        // Whom "I" means is in the normal form alone.
        let parts = [stated.subject.as_str(), &fact.predicate, &fact.object];
        Some(if is_chinese(&fact.predicate) { parts.join("") } else { parts.join(" ") })
    }

    /// The same without what of it holds no longer, or with that told behind its words where the same sentence says
    /// more.
    #[must_use]
    pub(super) fn rest(self) -> Self {
        let is_memory = matches!(self.section, Section::Constraints | Section::Memories);
        if self.rest == Rest::default() || !is_memory {
            return self;
        }
        // Whose a constraint is stands in front of it.
        let whole = self.text.strip_suffix(self.words.as_str()).map(str::to_owned).unwrap_or_default();
        let words = self.rest.text.as_ref().map_or_else(|| self.words.clone(), |left| fence::quoted(left));
        let mut text = format!("{whole}{words}");
        if !self.rest.over.is_empty() {
            let over = fence::quoted(&self.rest.over.join("; "));
            let mark = if is_chinese(&text) { "已不再成立" } else { "no longer so" };
            text = format!("{text} ({mark}: {over})");
        }
        Self { text, stored_tokens: None, ..self }
    }

    /// The name of who speaks as it is shown.
    pub(super) fn speaker(name: &str) -> String {
        fence::name(name, SPEAKER_CHARS_MAX)
    }

    /// The same, as a part of this session.
    #[must_use]
    pub(super) fn in_session(mut self, session: &str) -> Self {
        self.source.session = Some(session.to_owned());
        self
    }

    /// The same with other words.
    #[must_use]
    pub(super) fn with_text(self, text: &str) -> Self {
        Self { text: fence::quoted(text), stored_tokens: None, ..self }
    }
}
