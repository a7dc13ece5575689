//! What memories state, in short: subject, predicate, object. A fact stands for the memory that
//! states it, where there is no room for its words.

use super::Section;
use crate::context::found::Found;
use crate::context::item::{Claim, Item};
use crate::facts::fact_id;
use crate::http::time::Time;
use holdfast_core::Result;
use holdfast_proto::v1;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for scored in found.recall.results.iter().chain(&found.recall.stating) {
        for stated in scored.stated.iter().filter(|stated| stated.current) {
            let memory = Item::of_memory(Section::Facts, scored)?;
            let id = fact_id(&memory.memory, stated.ordinal);
            // A memory that is a result too comes twice.
            if items.iter().any(|item: &Item| item.id == id) {
                continue;
            }
            let Some(text) = words(stated) else { continue };
            items.push(Item {
                id,
                // What two spaces say of one subject is no contradiction that either could have seen.
                group: (!stated.exclusive).then(|| {
                    let space = memory.source.space.as_deref().unwrap_or_default();
                    [space, &stated.subject, &stated.predicate, &stated.about].join("\0")
                }),
                since_us: stated.from_us,
                claims: vec![Claim::of(stated)],
                ..memory.with_text(&text)
            });
        }
    }
    Ok(items)
}

/// A fact as a line, with the day until which it holds.
fn words(stated: &v1::Stated) -> Option<String> {
    let fact = stated.fact.as_ref()?;
    let mut text = Item::words_of(stated)?;
    if !fact.qualifiers.is_empty() {
        text = format!("{text} {}", fact.qualifiers);
    }
    if let Some(until_us) = stated.until_us {
        text = format!("{text} (until {})", Time(until_us).day());
    }
    Some(text)
}
