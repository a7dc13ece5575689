//! `…/procedures`: the procedural memory of a space.

mod act;
mod put;
mod read;
mod render;

pub(crate) use act::act;
pub(crate) use put::{delete, put};
pub(crate) use read::{get, list};
pub(crate) use render::{Values, known};

use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::nodes::ReadWish;
use crate::shared::Shared;
use crate::tiers::{What, decode, rows};
use holdfast_core::access::Access;
use holdfast_core::space::SpaceKey;
use holdfast_core::tiers::procedure::{Body, ProcedureRow, VersionRow};
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use serde::Serialize;

/// A procedure with versions of it.
pub(crate) struct Procedure {
    pub(crate) name: String,
    pub(crate) row: ProcedureRow,
    /// All that are kept, oldest first; of a list the active one alone.
    pub(crate) versions: Vec<VersionRow>,
}

/// Reads one procedure with all versions, or, without a name, every procedure with its active one: one
/// call of a node either way.
pub(crate) async fn fetch(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    name: Option<&str>,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<(Vec<Procedure>, Option<Seen>)> {
    let what = What { tier: v1::Tier::Procedure, id: name.unwrap_or_default(), parts: true };
    let (entries, seen) = rows(shared, access, space, wish, deadline, what).await?;
    Ok((Procedure::all_of(entries)?, seen))
}

impl Procedure {
    /// Reads what a node answers: each procedure, with its versions behind it.
    fn all_of(entries: Vec<v1::TierEntry>) -> Answer<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for entry in entries {
            if entry.part.is_none() {
                let row = decode(&entry)?;
                all.push(Self { name: entry.id, row, versions: Vec::new() });
            } else if let Some(last) = all.last_mut() {
                last.versions.push(decode(&entry)?);
            }
        }
        Ok(all)
    }

    /// The version that is used.
    pub(crate) fn active(&self) -> Option<&VersionRow> {
        self.row.active.and_then(|active| self.version(active))
    }

    fn version(&self, version: u64) -> Option<&VersionRow> {
        self.versions.iter().find(|row| row.version == version)
    }

    /// The version that a call names; the active one, or else the newest, if it names none.
    fn chosen(&self, version: Option<u64>) -> Answer<&VersionRow> {
        let wanted = version.or(self.row.active).unwrap_or(self.row.last_version);
        self.version(wanted).ok_or_else(|| {
            let detail =
                format!("the procedure has no version {wanted}; it never was, or is not kept any more");
            Error::new(ErrorCode::NotFound, detail).at("version").into()
        })
    }
}

/// A version as callers see it. Every field is always there.
#[derive(Serialize)]
pub(crate) struct VersionView<'a> {
    version: u64,
    state: &'static str,
    description: &'a str,
    /// Of a template.
    template: Option<&'a str>,
    /// Of a workflow.
    steps: Option<Vec<StepView<'a>>>,
    placeholders: &'a [String],
    successes: u64,
    failures: u64,
    /// Share of the reports that tell of success; none where there is no report.
    success_rate: Option<f64>,
    created_at: Time,
    verified_at: Option<Time>,
    activated_at: Option<Time>,
}

/// A step of a workflow as callers see it.
#[derive(Serialize)]
pub(crate) struct StepView<'a> {
    name: &'a str,
    text: &'a str,
    tool: Option<&'a str>,
}

impl<'a> VersionView<'a> {
    pub(crate) fn new(row: &'a VersionRow) -> Self {
        let (template, steps) = match &row.body {
            Body::Template { text } => (Some(text.as_str()), None),
            Body::Workflow { steps } => {
                let view = steps.iter().map(|step| StepView {
                    name: &step.name,
                    text: &step.text,
                    tool: step.tool.as_deref(),
                });
                (None, Some(view.collect()))
            }
        };
        let reports = row.successes + row.failures;
        // Far from 2^52 reports; and a share of more is right to many digits.
        #[allow(clippy::cast_precision_loss)]
        let success_rate = (reports > 0).then(|| row.successes as f64 / reports as f64);
        Self {
            version: row.version,
            state: row.state.as_str(),
            description: &row.description,
            template,
            steps,
            placeholders: &row.placeholders,
            successes: row.successes,
            failures: row.failures,
            success_rate,
            created_at: Time(row.created_us),
            verified_at: row.verified_us.map(Time),
            activated_at: row.activated_us.map(Time),
        }
    }
}

fn not_found() -> Problem {
    Error::new(ErrorCode::NotFound, "there is no procedure with this name in this space").at("name").into()
}
