//! `POST …/recall`: a scored search.

pub(crate) mod parse;
mod view;
pub(crate) mod why_not;

use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, micros_since, now_us};
use crate::http::{Body, answer};
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use crate::tokens;
use crate::work::not_embedded;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::space::SpaceKey;
use holdfast_models::ModelProfile;
use holdfast_proto::v1;
use parse::{Query, QueryVector};
use serde::Serialize;
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
    missing: [u16; 0],
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
    let (access, space) = caller.require(Rights::READ)?;
    let mut query = Query::read(&body)?;
    let wish = tokens::wish(
        &access.tenant,
        query.token.as_deref(),
        &headers,
        query.consistency,
        query.max_staleness_ms,
    )?;
    let deadline = Deadline::of(started, query.deadline.unwrap_or(shared.config.read_timeout));

    let embedding = Instant::now();
    let model = embed(&shared, &mut query, deadline).await?;
    let embed = micros_since(embedding);

    let searching = Instant::now();
    let response = search(&shared, &access, &space, &query, model, &wish, deadline).await?;
    let search = micros_since(searching);

    let merging = Instant::now();
    let seen = shared.nodes.observe(response.seen);
    let hits: Answer<Vec<Hit>> = response.results.into_iter().map(hit).collect();
    let recalled = Recalled {
        recall_id: Uuid::now_v7().to_string(),
        results: hits?,
        exact: response.exact,
        bound_met: response.bound_met,
        index: response.index,
        scored: response.scored,
        partial: false,
        missing: [],
        token: tokens::text(&access.tenant, seen)?,
        took_us: Took { embed, search, merge: micros_since(merging), total: micros_since(started) },
    };
    answer(StatusCode::OK, &recalled)
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
            .map_err(|error| not_embedded("the query", &error.to_string()).at("query"))?;
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

pub(crate) async fn search(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    query: &Query,
    model: Option<ModelProfile>,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<v1::RecallResponse> {
    let vector = query.vector.as_ref();
    let request = v1::RecallRequest {
        access: Some(access.clone().into()),
        space: Some(space.into()),
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
        now_us: query.now_us.unwrap_or_else(now_us),
        min_score: query.min_score,
        include_deprecated: query.include_deprecated,
        conflicts: query.conflicts.into(),
        as_of: query.as_of,
        explain: query.explain,
        beside: query.beside,
        trace: query.trace.clone(),
        relevance_model: model.map(|model| v1::RelevanceModel {
            wd: model.wd,
            z0: model.z0,
            cos_mean_prior: model.cos_mean_prior,
            cos_dev_prior: model.cos_dev_prior,
        }),
    };
    let ask = |mut client: Client, read| {
        let request = v1::RecallRequest { read: Some(read), ..request.clone() };
        async move { client.recall(request).await }
    };
    shared.nodes.read_space(ReadKind::Scan, space, wish, deadline, ask).await
}
