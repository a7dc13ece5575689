//! Where the conversation stands: what the user is after, what is known for it, and what was confirmed.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use holdfast_core::Result;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    let Some(talk) = &found.session else { return Ok(Vec::new()) };
    let Some(dialogue) = &talk.session.dialogue else { return Ok(Vec::new()) };
    let id = &talk.session.id;
    let item = |part: String, text: &str, place| {
        let item = Item::of_tier(Section::Dialogue, format!("{id}/{part}"), text, place);
        item.in_session(id)
    };
    let mut items = Vec::new();
    if let Some(intent) = dialogue.intent.as_deref().filter(|intent| !intent.trim().is_empty()) {
        items.push(item("intent".to_owned(), &format!("intent: {intent}"), (0, 0)));
    }
    // A map of the wire has no order of its own.
    let mut slots: Vec<(&String, &String)> = dialogue.slots.iter().collect();
    slots.sort();
    for (at, (name, value)) in (0u64..).zip(slots) {
        items.push(item(format!("slots/{name}"), &format!("{name} = {value}"), (1, at)));
    }
    for (at, fact) in (0u64..).zip(&dialogue.confirmed) {
        items.push(item(format!("confirmed/{at}"), &format!("confirmed: {fact}"), (2, at)));
    }
    Ok(items)
}
