//! `POST …/context`: a prompt within an exact token budget, of what is remembered and matters now.
//!
//! One search of the space answers all that is made of memories, so that its parts never contradict
//! each other: the best memories with what they state and whether that still holds, the hard
//! constraints, and the best facts. Blocks, a task, a session and procedures are read beside it (`found`). Then, on a thread
//! that may compute:
//! - `sections`: each section turns what was found into items, fenced as data (`fence`);
//! - `choose`: what says the same twice, holds no longer or scores too low goes; the rest is ordered;
//! - `told`: what the session tells is not told again, and what it tells otherwise goes;
//! - `pack`: what fits is guessed by stored counts, written by `render`, counted as a whole, and trimmed.

mod answer;
mod choose;
mod fence;
mod found;
mod item;
pub(crate) mod metrics;
mod pack;
mod parse;
mod render;
mod rest;
mod sections;
mod told;

use crate::auth::InSpace;
use crate::http::problem::Answer;
use crate::http::time::{Deadline, micros_since};
use crate::http::{Body, answer as json_answer};
use crate::recall::{self, fan_out};
use crate::shared::Shared;
use crate::tokens;
use answer::{Assembled, Took};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use found::{Asking, Found};
use holdfast_core::access::Rights;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use parse::Request;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) async fn context(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer<Response> {
    let started = Instant::now();
    let (access, place) = caller.require_place(Rights::READ)?;
    let mut request = Request::read(&body)?;
    let query = &mut request.query;
    let wish = tokens::wish(
        &access.tenant,
        query.token.as_deref(),
        &headers,
        query.consistency,
        query.max_staleness_ms,
    )?;
    let deadline = Deadline::of(started, query.deadline.unwrap_or(shared.config.read_timeout));

    let space = place.first()?;
    let spaces = fan_out::spaces(&shared, &access, &place, &query.collections, deadline).await?;

    let embedding = Instant::now();
    let scoring = shared.scoring.of(&shared.nodes, &access.tenant, deadline).await;
    query.fill(&scoring);
    let model = recall::embed(&shared, query, deadline).await?;
    let embed = micros_since(embedding);

    let searching = Instant::now();
    let asking =
        Asking { shared: &shared, access: &access, space: &space, spaces: &spaces, wish: &wish, deadline };
    let mut found = found::find(asking, &request, model).await?;
    let search = micros_since(searching);
    let (seen, missing) = (std::mem::take(&mut found.seen), std::mem::take(&mut found.missing));

    let assembling = Instant::now();
    let metrics = shared.metrics.clone();
    let work = move || {
        let packed = assemble(&request, &found)?;
        metrics.context.packed(&packed);
        Ok::<_, Error>(Assembled::new(&request, packed))
    };
    let mut assembled = shared.work.run(deadline, work).await??;
    let assemble = micros_since(assembling);
    assembled.recall_id = Uuid::now_v7().to_string();
    (assembled.partial, assembled.missing) = (!missing.is_empty(), missing);
    assembled.token = tokens::text(&access.tenant, seen)?;
    assembled.took_us = Took { embed, search, assemble, total: micros_since(started) };
    shared.metrics.context.took(&assembled.took_us);
    json_answer(StatusCode::OK, &assembled)
}

fn assemble(request: &Request, found: &Found) -> Result<pack::Packed, Error> {
    let v1::RecallResponse { constraints, constraints_total, .. } = &found.recall;
    if *constraints_total > constraints.len() as u64 && *constraints_total > u64::from(parse::CONSTRAINTS_MAX)
    {
        let detail = format!(
            "the space has {} hard constraints (memories of importance 1), of which a context holds at most {}; \
             lower the importance of those that are none",
            *constraints_total,
            parse::CONSTRAINTS_MAX
        );
        return Err(Error::new(ErrorCode::TooLarge, detail));
    }
    let chosen = choose::choose(request, found)?;
    pack::pack(request, found, chosen)
}
