//! Procedural memory: the active versions of the procedures whose names or descriptions share words
//! with the query, as they are written, placeholders included.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use crate::procedures::Procedure;
use holdfast_core::Result;
use holdfast_core::text::{analyze, analyze_query};
use holdfast_core::tiers::procedure::{Body, VersionRow};
use std::cmp::Reverse;

/// Most procedures that a context shows.
const SHOWN_MAX: usize = 3;

pub(super) fn items(found: &Found, query: Option<&str>) -> Result<Vec<Item>> {
    let asked = query.map(|query| analyze_query(query).terms);
    let mut fitting: Vec<(usize, &Procedure, &VersionRow)> = Vec::new();
    for procedure in &found.procedures {
        let Some(active) = procedure.active() else { continue };
        let about =
            analyze(&format!("{} {}", procedure.name.replace(['_', '-'], " "), active.description)).terms;
        let common = |asked: &Vec<String>| about.iter().filter(|(term, _)| asked.contains(term)).count();
        match asked.as_ref().map(common) {
            Some(0) => {}
            common => fitting.push((common.unwrap_or(0), procedure, active)),
        }
    }
    fitting.sort_by(|one, other| (Reverse(one.0), &one.1.name).cmp(&(Reverse(other.0), &other.1.name)));
    let shown = (0u64..).zip(fitting.into_iter().take(SHOWN_MAX)).map(|(at, (_, procedure, active))| {
        let text = format!("{}: {}", procedure.name, words(&active.body));
        Item::of_tier(Section::Procedures, procedure.name.clone(), &text, (0, at))
    });
    Ok(shown.collect())
}

fn words(body: &Body) -> String {
    match body {
        Body::Template { text } => text.clone(),
        Body::Workflow { steps } => {
            let line = |(at, step): (usize, &holdfast_core::tiers::procedure::WorkflowStep)| {
                let tool = step.tool.as_deref().map(|tool| format!(" ({tool})")).unwrap_or_default();
                format!("{}. {}{tool}: {}", at + 1, step.name, step.text)
            };
            steps.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}
