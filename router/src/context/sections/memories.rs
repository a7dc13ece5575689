//! Long-term memories in their own words, with the day and the speaker.

use super::Section;
use crate::context::item::Item;
use holdfast_core::Result;
use holdfast_proto::v1;

pub(super) fn items(found: &v1::RecallResponse) -> Result<Vec<Item>> {
    found.results.iter().map(|scored| Item::of_memory(Section::Memories, scored)).collect()
}
