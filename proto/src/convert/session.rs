use crate::v1;
use holdfast_core::session::{Dialogue, SessionRow, Summary, TurnRow};

/// A session as callers see it.
pub fn session_from_row(id: &str, row: &SessionRow) -> v1::Session {
    v1::Session {
        id: id.to_owned(),
        version: row.version,
        created_us: row.created_us,
        updated_us: row.updated_us,
        ended_us: row.ended_us,
        turns: row.turns,
        tokens: row.tokens,
        dialogue: Some(dialogue(&row.dialogue)),
        promoted: row.promoted,
        condensed: row.condensed,
    }
}

fn dialogue(dialogue: &Dialogue) -> v1::Dialogue {
    v1::Dialogue {
        phase: dialogue.phase.as_str().to_owned(),
        intent: dialogue.intent.clone(),
        slots: dialogue.slots.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        confirmed: dialogue.confirmed.clone(),
        user_act: dialogue.user_act.clone(),
        system_act: dialogue.system_act.clone(),
    }
}

/// A turn as callers see it.
pub fn turn_from_row(number: u64, row: &TurnRow) -> v1::Turn {
    v1::Turn {
        number,
        role: row.role.clone(),
        content: row.content.clone(),
        tokens: row.tokens,
        importance: row.importance,
        pinned: row.pinned,
        tags: row.tags.clone(),
        act: row.act.clone(),
        topics: row.topics.clone(),
        entities: row.entities.clone(),
        tool_name: row.tool.as_ref().map(|tool| tool.name.clone()),
        tool_output: row.tool.as_ref().map(|tool| tool.output.clone()),
        event_us: row.event_us,
        recorded_us: row.recorded_us,
    }
}

/// What stands for a session in a prompt, of its parts; `summarised` is the last turn in the summary.
pub fn window_from_parts(
    window: Vec<v1::Turn>,
    pinned: Vec<v1::Turn>,
    summary: Summary,
    summarised: u64,
) -> v1::SessionWindow {
    let lines = summary.lines.into_iter();
    let summary = lines.map(|line| v1::SummaryLine { turn: line.turn, role: line.role, text: line.text });
    v1::SessionWindow { window, pinned, summary: summary.collect(), summarised }
}
