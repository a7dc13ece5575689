//! Hard constraints: every memory of importance 1 that holds now, whatever is asked.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use holdfast_core::Result;
use holdfast_core::facts::normal;
use holdfast_proto::v1;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    found.recall.constraints.iter().map(constraint).collect()
}

fn constraint(scored: &v1::Scored) -> Result<Item> {
    let item = Item::of_memory(Section::Constraints, scored)?;
    let speaker = item.heading.speaker.as_str();
    // There are no headings: their days matter less than their number. Whose they are does matter.
    let item = match normal::speaker(Some(speaker)).as_str() {
        normal::USER => item,
        _ => {
            let text = format!("{speaker}: {}", item.text);
            item.with_text(&text)
        }
    };
    Ok(Item { required: true, ..item })
}
