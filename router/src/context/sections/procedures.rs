//! Procedural memory: the active versions of the procedures whose names or descriptions share words
//! with the query. Placeholders are filled with the variables of the task and the slots of the session; those
//! without a value stand there by their names.

use super::Section;
use crate::context::found::Found;
use crate::context::item::Item;
use crate::procedures::{Procedure, Values, known};
use holdfast_core::Result;
use holdfast_core::text::{analyze, analyze_query};
use holdfast_core::tiers::procedure::{Body, VersionRow};
use holdfast_core::tiers::template::Template;
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
        let common = |asked: &Vec<String>| {
            about.iter().filter(|(term, _)| asked.iter().any(|asked| asked == term)).count()
        };
        match asked.as_ref().map(common) {
            Some(0) => {}
            common => fitting.push((common.unwrap_or(0), procedure, active)),
        }
    }
    fitting.sort_by(|one, other| (Reverse(one.0), &one.1.name).cmp(&(Reverse(other.0), &other.1.name)));
    let values = known(found.task.as_ref(), found.session.as_ref().map(|talk| &talk.session));
    let shown = (0u64..).zip(fitting.into_iter().take(SHOWN_MAX)).map(|(at, (_, procedure, active))| {
        let text = format!("{}: {}", procedure.name, words(&active.body, &values));
        Item::of_tier(Section::Procedures, procedure.name.clone(), &text, (0, at))
    });
    Ok(shown.collect())
}

fn words(body: &Body, values: &Values) -> String {
    match body {
        Body::Template { text } => filled(text, values),
        Body::Workflow { steps } => {
            let line = |(at, step): (usize, &holdfast_core::tiers::procedure::WorkflowStep)| {
                let tool = step.tool.as_deref().map(|tool| format!(" ({tool})")).unwrap_or_default();
                format!("{}. {}{tool}: {}", at + 1, step.name, filled(&step.text, values))
            };
            steps.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A text with what is known in place of its placeholders; as it is written where that is too long.
fn filled(text: &str, values: &Values) -> String {
    let rendered = Template::read(text)
        .and_then(|template| template.render_known(|name| values.get(name)?.as_deref().map(one_line)));
    rendered.unwrap_or_else(|_| text.to_owned())
}

/// A value on one line: no words of a conversation become a step of their own.
fn one_line(value: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    value.split(breaks).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
