//! Everything that a context is made of, as it was read.

use super::parse::Request;
use super::sections::Section;
use crate::blocks::{self, BlockView};
use crate::fact_rules::FactRules;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::ReadWish;
use crate::procedures::{self, Procedure};
use crate::recall::fan_out;
use crate::sessions;
use crate::shared::Shared;
use crate::tasks::{self, Task};
use holdfast_core::access::Access;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_models::ModelProfile;
use holdfast_proto::v1;
use std::sync::Arc;

/// What the sections are made of.
#[derive(Default)]
pub(super) struct Found {
    /// Memories, constraints and facts, from one look.
    pub(super) recall: v1::RecallResponse,
    pub(super) seen: Vec<Seen>,
    /// The shards that did not answer in time.
    pub(super) missing: Vec<u16>,
    pub(super) blocks: Vec<BlockView>,
    pub(super) task: Option<Task>,
    pub(super) session: Option<Talk>,
    pub(super) procedures: Vec<Procedure>,
    /// By which it is found what turns of the session state.
    pub(super) rules: Option<Arc<FactRules>>,
}

/// The conversation that is going on.
pub(super) struct Talk {
    pub(super) session: v1::Session,
    pub(super) window: v1::SessionWindow,
}

/// Who asks, where, and how fresh the answer must be.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) shared: &'a Shared,
    pub(super) access: &'a Access,
    pub(super) space: &'a SpaceKey,
    /// Where memories are looked for: there, and in collections.
    pub(super) spaces: &'a [SpaceKey],
    pub(super) wish: &'a ReadWish,
    pub(super) deadline: Deadline,
}

/// Reads all at once: they do not wait for each other.
pub(super) async fn find(
    asking: Asking<'_>,
    request: &Request,
    model: Option<ModelProfile>,
) -> Answer<Found> {
    let Asking { shared, access, spaces, wish, deadline, .. } = asking;
    let memories = fan_out::Asking { shared, access, spaces, wish, deadline };
    let recall = fan_out::find(memories, &request.query, model);
    let beside = futures::future::try_join5(
        blocks(asking, request),
        task(asking, request),
        session(asking, request),
        procedures(asking, request),
        rules(asking, request),
    );
    let (recall, beside) = futures::future::try_join(recall, beside).await?;
    let (blocks, task, session, procedures, rules) = beside;
    let fan_out::Found { response, seen, missing } = recall;
    Ok(Found { recall: response, seen, missing, blocks, task, session, procedures, rules })
}

async fn blocks(asking: Asking<'_>, request: &Request) -> Answer<Vec<BlockView>> {
    if !request.sections.contains(&Section::Blocks) {
        return Ok(Vec::new());
    }
    let Asking { shared, access, space, wish, deadline, .. } = asking;
    Ok(blocks::fetch_all(shared, access, space, wish, deadline).await?.0)
}

async fn task(asking: Asking<'_>, request: &Request) -> Answer<Option<Task>> {
    let wanted = request.wants(&[Section::Task, Section::Procedures]);
    let Some(id) = request.task.as_deref().filter(|_| wanted) else { return Ok(None) };
    let Asking { shared, access, space, wish, deadline, .. } = asking;
    let (task, _) = tasks::fetch(shared, access, space, id, wish, deadline).await?;
    let missing = || {
        let detail =
            "there is no task with this id in this space; it ended, its time is over, or it never was";
        Problem::from(Error::new(ErrorCode::NotFound, detail).at("task"))
    };
    task.map(Some).ok_or_else(missing)
}

/// A session that is named: for its sections, and for what procedures have placeholders for.
async fn session(asking: Asking<'_>, request: &Request) -> Answer<Option<Talk>> {
    let wanted = request.wants(&Section::OF_SESSION) || request.wants(&[Section::Procedures]);
    let Some(id) = request.session.as_deref().filter(|_| wanted) else { return Ok(None) };
    let Asking { shared, access, space, wish, deadline, .. } = asking;
    let read = sessions::read::fetch(shared, access, space, id, wish, deadline).await;
    let (session, window, _) = read.map_err(|problem| match problem.error.code {
        ErrorCode::NotFound => problem.at("session"),
        _ => problem,
    })?;
    Ok(Some(Talk { session, window }))
}

async fn rules(asking: Asking<'_>, request: &Request) -> Answer<Option<Arc<FactRules>>> {
    if request.session.is_none() || !request.wants(&[Section::Window]) {
        return Ok(None);
    }
    let Asking { shared, access, deadline, .. } = asking;
    Ok(Some(shared.fact_rules.of(&shared.nodes, &access.tenant, deadline).await?))
}

async fn procedures(asking: Asking<'_>, request: &Request) -> Answer<Vec<Procedure>> {
    if !request.sections.contains(&Section::Procedures) {
        return Ok(Vec::new());
    }
    let Asking { shared, access, space, wish, deadline, .. } = asking;
    Ok(procedures::fetch(shared, access, space, None, wish, deadline).await?.0)
}
