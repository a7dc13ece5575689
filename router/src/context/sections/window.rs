//! The newest turns of the conversation as they are, and before them those that are pinned. The newest
//! three go first, then what is pinned, then the rest: a window ends where a turn does not fit.

use super::Section;
use crate::context::found::Found;
use crate::context::item::{Heading, Item};
use crate::http::time::Time;
use holdfast_core::Result;
use holdfast_core::session::{turn_reference, window::TURNS_MIN};
use holdfast_proto::v1;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    let Some(talk) = &found.session else { return Ok(Vec::new()) };
    let id = &talk.session.id;
    let mut window = talk.window.window.iter().rev().map(|turn| Item { chained: true, ..item(id, turn) });
    let mut items: Vec<Item> = window.by_ref().take(TURNS_MIN).collect();
    items.extend(talk.window.pinned.iter().rev().map(|turn| item(id, turn)));
    items.extend(window);
    Ok(items)
}

fn item(session: &str, turn: &v1::Turn) -> Item {
    let id = turn_reference(session, turn.number, turn.number);
    let speaker = match &turn.tool_name {
        Some(name) => Item::speaker(&format!("{} ({name})", turn.role)),
        None => Item::speaker(&turn.role),
    };
    let text = words(turn);
    let mut item = Item::of_tier(Section::Window, id, &text, (0, turn.number)).in_session(session);
    // Its count is stored with it.
    item.stored_tokens = (turn.tokens > 0 && item.text == text).then_some(turn.tokens as usize);
    item.source.event_time = Some(Time(turn.event_us));
    item.source.speaker = Some(turn.role.clone());
    item.heading = Heading { day: Time(turn.event_us).day(), speaker };
    item
}

/// What was said, and what a tool answered.
fn words(turn: &v1::Turn) -> String {
    match turn.tool_output.as_deref().unwrap_or_default() {
        "" => turn.content.clone(),
        output if turn.content.is_empty() => output.to_owned(),
        output => format!("{}\n{output}", turn.content),
    }
}
