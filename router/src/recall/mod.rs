//! `POST …/recall`: a scored search of one space, or of several together (`fan_out`), and many of them at
//! once (`batch`).

pub(crate) mod batch;
mod diverse;
pub(crate) mod fan_out;
pub(crate) mod parse;
pub(crate) mod situation;
mod view;
pub(crate) mod why_not;

use crate::auth::{InSpace, Place};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, micros_since};
use crate::http::{Body, answer};
use crate::shared::Shared;
use crate::tokens;
use crate::work::embedding_failed;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use diverse::Diverse;
use fan_out::{Asking, Found};
use holdfast_core::access::{Access, Rights};
use holdfast_models::ModelProfile;
use holdfast_proto::v1;
use parse::{Query, QueryVector};
use serde::Serialize;
use situation::UnderstoodView;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;
use view::{Hit, hit};

pub(crate) use view::to_nine_places;

#[derive(Serialize)]
struct Recalled {
    recall_id: String,
    results: Vec<Hit>,
    exact: bool,
    bound_met: bool,
    index: String,
    scored: u64,
    partial: bool,
    /// The shards that did not answer in time.
    missing: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    understood: Option<UnderstoodView>,
    /// How many results were left out for a small screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    capped: Option<usize>,
    took_us: Took,
    token: String,
}

/// Where the time went, in microseconds.
#[derive(Serialize)]
struct Took {
    embed: u64,
    /// From the first question to a node until its answer.
    search: u64,
    merge: u64,
    total: u64,
}

pub(crate) async fn recall(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer<Response> {
    let started = Instant::now();
    let (access, place) = caller.require_place(Rights::READ)?;
    let query = Query::read(&body)?;
    let deadline = Deadline::of(started, query.deadline.unwrap_or(shared.config.read_timeout));
    let recalled =
        run(Recall { shared: &shared, access: &access, place: &place, headers: &headers }, query, deadline);
    answer(StatusCode::OK, &recalled.await?)
}

/// Who recalls, and where.
#[derive(Clone, Copy)]
struct Recall<'a> {
    shared: &'a Shared,
    access: &'a Access,
    place: &'a Place,
    headers: &'a HeaderMap,
}

async fn run(recall: Recall<'_>, mut query: Query, deadline: Deadline) -> Answer<Recalled> {
    let started = Instant::now();
    let Recall { shared, access, place, headers } = recall;
    let wish = tokens::wish(
        &access.tenant,
        query.token.as_deref(),
        headers,
        query.consistency,
        query.max_staleness_ms,
    )?;
    let spaces = fan_out::spaces(shared, access, place, &query.collections, deadline).await?;

    let embedding = Instant::now();
    let scoring = shared.scoring.of(&shared.nodes, &access.tenant, deadline).await;
    query.fill(&scoring);
    let model = embed(shared, &mut query, deadline).await?;
    let embed = micros_since(embedding);

    let diverse = Diverse::of(&mut query);
    let searching = Instant::now();
    let asking = Asking { shared, access, spaces: &spaces, wish: &wish, deadline };
    let Found { mut response, seen, missing } = fan_out::find(asking, &query, model).await?;
    let search = micros_since(searching);

    let merging = Instant::now();
    if let Some(diverse) = diverse {
        response.results = diverse.choose(shared, response.results, query.explain, deadline).await?;
    }
    let mut results = response.results;
    let capped = query.situation.is_mobile.then(|| cap(&mut results)).filter(|capped| *capped > 0);
    let hits: Answer<Vec<Hit>> = results.into_iter().map(hit).collect();
    Ok(Recalled {
        recall_id: Uuid::now_v7().to_string(),
        results: hits?,
        exact: response.exact,
        bound_met: response.bound_met,
        index: response.index,
        scored: response.scored,
        partial: !missing.is_empty(),
        missing,
        token: tokens::text(&access.tenant, seen)?,
        understood: query.explain.then(|| query.understood.view()),
        capped,
        took_us: Took { embed, search, merge: micros_since(merging), total: micros_since(started) },
    })
}

/// Most characters of all results together on a small screen.
const MOBILE_CHARS_MAX: usize = 4_000;

/// Keeps the first results that are short enough together, whole, and in any case the first. Answers
/// how many are left out.
fn cap(results: &mut Vec<v1::Scored>) -> usize {
    let before = results.len();
    let mut chars = 0;
    let mut kept = 0;
    for scored in results.iter() {
        chars += scored.memory.as_ref().map_or(0, |memory| memory.content.chars().count());
        if kept > 0 && chars > MOBILE_CHARS_MAX {
            break;
        }
        kept += 1;
    }
    results.truncate(kept);
    before - kept
}

/// Makes the vector of the query, where it brings none and one is of use. Answers the constants of
/// the vector's model.
pub(crate) async fn embed(
    shared: &Shared,
    query: &mut Query,
    deadline: Deadline,
) -> Answer<Option<ModelProfile>> {
    let builtin = shared.embedding.as_ref().map(|embedding| embedding.embedder());
    if let Some(vector) = &query.vector {
        let known = builtin.filter(|model| model.model_id() == vector.model);
        return Ok(Some(known.map_or(ModelProfile::CLIENT, |model| model.profile())));
    }
    if query.relevance == v1::Relevance::Keyword {
        return Ok(None);
    }
    let mut unit = None;
    if let (Some(embedding), Some(text)) = (&shared.embedding, &query.text) {
        let embedded = embedding.embed(vec![text.clone()], deadline).await?;
        unit = embedded
            .into_iter()
            .next()
            .transpose()
            .map_err(|error| embedding_failed("the query", &error).at("query"))?;
    }
    match (unit.flatten(), builtin) {
        (Some(unit), Some(model)) => {
            let name = model.model_id().to_owned();
            query.vector = Some(QueryVector { unit, model: name, given: false });
            Ok(Some(model.profile()))
        }
        _ if query.relevance == v1::Relevance::Vector => {
            let detail = "relevance vector needs a vector, and none can be made of this query here; give embedding, \
                          or use relevance fused or keyword";
            Err(Problem::invalid("relevance", detail))
        }
        _ => Ok(None),
    }
}

/// What a node is asked, but for the space and how fresh the answer must be.
pub(crate) fn request(access: &Access, query: &Query, model: Option<ModelProfile>) -> v1::RecallRequest {
    let vector = query.vector.as_ref();
    v1::RecallRequest {
        access: Some(access.clone().into()),
        space: None,
        read: None,
        query: query.text.clone().unwrap_or_default(),
        vector: vector.map(|vector| vector.unit.clone()).unwrap_or_default(),
        model: vector.map(QueryVector::tag),
        vector_given: vector.is_some_and(|vector| vector.given),
        top_k: query.top_k,
        profile: query.profile.name().to_owned(),
        relevance: query.relevance.into(),
        weights: query.weights,
        filter: query.filter.clone(),
        now_us: query.situation.now_us,
        min_score: query.min_score,
        include_deprecated: query.include_deprecated,
        conflicts: query.conflicts.into(),
        as_of: query.as_of,
        explain: query.explain,
        beside: query.beside,
        trace: query.trace.clone(),
        with_vectors: query.with_vectors,
        times: query.understood.times(),
        intent: query.understood.intent().into(),
        intent_guessed: query.understood.guessed(),
        situation: query.situation.shared(),
        relevance_model: model.map(|model| v1::RelevanceModel {
            wd: model.wd,
            z0: model.z0,
            cos_mean_prior: model.cos_mean_prior,
            cos_dev_prior: model.cos_dev_prior,
        }),
        pool: None,
        above: None,
        index: None,
        tau_hours: query.tau_hours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_screen_gets_whole_memories_up_to_a_length() {
        let of = |chars: &[usize]| {
            let memory =
                |chars: &usize| v1::Memory { content: "茶".repeat(*chars), ..v1::Memory::default() };
            let scored = |chars| v1::Scored { memory: Some(memory(chars)), ..v1::Scored::default() };
            let mut results: Vec<v1::Scored> = chars.iter().map(scored).collect();
            let capped = cap(&mut results);
            (results.len(), capped)
        };
        assert_eq!(of(&[]), (0, 0));
        assert_eq!(of(&[2_000, 2_000, 1]), (2, 1));
        assert_eq!(of(&[9_000, 1]), (1, 1));
        assert_eq!(of(&[1, 1, 1]), (3, 0));
    }
}
