//! Long-term memories in their own words, with the day and the speaker.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use holdfast_core::Result;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    found.recall.results.iter().map(|scored| Item::of_memory(Section::Memories, scored)).collect()
}
