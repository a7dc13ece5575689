//! Sessions and turns as callers see them.

use crate::http::problem::Answer;
use crate::http::time::Time;
use crate::memories::view::fields;
use crate::tokenizer::Tokenizer;
use holdfast_proto::v1;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A session without its words. Every field is always there, `null` where there is nothing.
#[derive(Serialize)]
pub(super) struct SessionView {
    id: String,
    version: u64,
    state: String,
    intent: Option<String>,
    slots: BTreeMap<String, Box<RawValue>>,
    confirmed_facts: Vec<String>,
    last_user_act: Option<String>,
    last_system_act: Option<String>,
    turns: u64,
    tokens: u64,
    created_at: Time,
    updated_at: Time,
    ended_at: Option<Time>,
    /// Up to which turn the important ones are memories.
    promoted: u64,
    /// Up to which turn they are episodes.
    condensed: u64,
}

/// A session with what stands for it in a prompt.
#[derive(Serialize)]
pub(super) struct WholeView {
    #[serde(flatten)]
    session: SessionView,
    window: Vec<TurnView>,
    pinned: Vec<TurnView>,
    summary: SummaryView,
}

#[derive(Serialize)]
struct SummaryView {
    text: String,
    tokens: u32,
    /// Up to which turn it goes.
    through: u64,
    lines: Vec<LineView>,
}

#[derive(Serialize)]
struct LineView {
    turn: u64,
    role: String,
    text: String,
}

#[derive(Serialize)]
pub(super) struct TurnView {
    turn: u64,
    role: String,
    content: String,
    tokens: u32,
    importance: f32,
    pinned: bool,
    tags: Vec<String>,
    act: Option<String>,
    topics: Vec<String>,
    entities: Vec<String>,
    tool: Option<ToolView>,
    time: Time,
    recorded_at: Time,
}

#[derive(Serialize)]
struct ToolView {
    name: String,
    output: String,
}

impl SessionView {
    pub(super) fn new(session: v1::Session) -> Answer<Self> {
        let dialogue = session.dialogue.unwrap_or_default();
        let mut slots = BTreeMap::new();
        for (name, value) in dialogue.slots {
            slots.insert(name, fields(value)?);
        }
        Ok(Self {
            id: session.id,
            version: session.version,
            state: dialogue.phase,
            intent: dialogue.intent,
            slots,
            confirmed_facts: dialogue.confirmed,
            last_user_act: dialogue.user_act,
            last_system_act: dialogue.system_act,
            turns: session.turns,
            tokens: session.tokens,
            created_at: Time(session.created_us),
            updated_at: Time(session.updated_us),
            ended_at: session.ended_us.map(Time),
            promoted: session.promoted,
            condensed: session.condensed,
        })
    }
}

impl WholeView {
    pub(super) fn new(session: v1::Session, window: v1::SessionWindow) -> Answer<Self> {
        let lines: Vec<LineView> = window
            .summary
            .into_iter()
            .map(|line| LineView { turn: line.turn, role: line.role, text: line.text })
            .collect();
        let text: String = lines.iter().map(|line| format!("{}: {}\n", line.role, line.text)).collect();
        let tokens = Tokenizer::default().count_stored(&text);
        Ok(Self {
            session: SessionView::new(session)?,
            window: window.window.into_iter().map(TurnView::new).collect(),
            pinned: window.pinned.into_iter().map(TurnView::new).collect(),
            summary: SummaryView { text, tokens, through: window.summarised, lines },
        })
    }
}

impl TurnView {
    pub(super) fn new(turn: v1::Turn) -> Self {
        let output = turn.tool_output.unwrap_or_default();
        Self {
            turn: turn.number,
            role: turn.role,
            content: turn.content,
            tokens: turn.tokens,
            importance: turn.importance,
            pinned: turn.pinned,
            tags: turn.tags,
            act: turn.act,
            topics: turn.topics,
            entities: turn.entities,
            tool: turn.tool_name.map(|name| ToolView { name, output }),
            time: Time(turn.event_us),
            recorded_at: Time(turn.recorded_us),
        }
    }
}
