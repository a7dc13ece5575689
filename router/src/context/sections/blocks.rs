//! Core blocks: what the agent keeps before its eyes.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use holdfast_core::Result;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    let filled = found.blocks.iter().filter(|block| !block.value.trim().is_empty());
    let each = (0u64..).zip(filled).map(|(at, block)| {
        let text = format!("{}: {}", block.label, block.value);
        Item::of_tier(Section::Blocks, block.label.clone(), &text, (0, at))
    });
    Ok(each.collect())
}
