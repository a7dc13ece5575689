//! Working memory: the task that the caller names. Its goal, its plan and its variables go before its
//! steps, and of these the newest before the oldest.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use holdfast_core::Result;

pub(super) fn items(found: &Found) -> Result<Vec<Item>> {
    let Some(task) = &found.task else { return Ok(Vec::new()) };
    let item = |part: &str, text: &str, place| {
        Item::of_tier(Section::Task, format!("{}/{part}", task.id), text, place)
    };
    let mut items = Vec::new();
    if !task.row.goal.trim().is_empty() {
        items.push(item("goal", &format!("goal: {}", task.row.goal), (0, 0)));
    }
    for (at, planned) in (0u64..).zip(&task.row.plan) {
        let text = format!("plan, {}: {}", planned.status.as_str(), planned.text);
        items.push(item(&format!("plan/{at}"), &text, (1, at)));
    }
    for (at, (name, value)) in (0u64..).zip(&task.row.variables) {
        items.push(item(&format!("variables/{name}"), &format!("{name} = {value}"), (2, at)));
    }
    for (number, row) in task.steps.iter().rev() {
        let step = &row.step;
        let tool = step.tool.as_deref().map(|tool| format!(" {tool}")).unwrap_or_default();
        let text = format!("{}{tool}: {}", step.kind.as_str(), step.content);
        items.push(item(&format!("steps/{number}"), &text, (3, *number)));
    }
    Ok(items)
}
