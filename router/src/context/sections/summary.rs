//! What is kept of the turns before the window, word for word. Lines with an amount, a date, a dose or a
//! name go before the others, and the newest before the oldest.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use holdfast_core::Result;
use holdfast_core::text::protected;
use std::cmp::Reverse;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    let Some(talk) = &found.session else { return Ok(Vec::new()) };
    let id = &talk.session.id;
    let mut items = Vec::new();
    for (at, line) in (0u64..).zip(&talk.window.summary) {
        let text = format!("{}: {}", Item::speaker(&line.role), line.text);
        let item = Item::of_tier(Section::Summary, line_id(id, at), &text, (0, at)).in_session(id);
        items.push((protected(&line.text).is_empty(), Reverse(at), item));
    }
    items.sort_by_key(|(plain, at, _)| (*plain, *at));
    Ok(items.into_iter().map(|(_, _, item)| item).collect())
}

/// The id of a line.
pub(in crate::context) fn line_id(session: &str, at: u64) -> String {
    format!("{session}/summary/{at}")
}
