//! `GET …/facts`: page by page, by subject and predicate.

use super::fact_id;
use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time, now_us};
use crate::http::{answer, query};
use crate::memories::view::fields;
use crate::nodes::{Client, ReadKind};
use crate::recall::parse::AsOfBody;
use crate::shared::Shared;
use crate::tokens::{self, Consistency};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::facts::normal;
use holdfast_core::facts::registry::Registry;
use holdfast_core::limits::LIST_ITEMS_MAX;
use holdfast_core::space::SpaceKey;
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

const LIMIT_DEFAULT: u32 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactParams {
    subject: Option<String>,
    predicate: Option<String>,
    /// What was true then; now, if left out.
    valid: Option<Time>,
    /// What was believed then.
    recorded: Option<Time>,
    include_deprecated: Option<bool>,
    limit: Option<u32>,
    cursor: Option<String>,
    token: Option<String>,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
}

#[derive(Serialize)]
struct Page {
    facts: Vec<FactView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    token: String,
}

/// One fact. Every field is always there, `null` where there is nothing.
#[derive(Serialize)]
struct FactView {
    id: String,
    memory_id: String,
    subject: String,
    predicate: String,
    object: String,
    qualifiers: Box<RawValue>,
    confidence: Option<f32>,
    /// `caller`, or `rules` that found it in the text.
    stated_by: &'static str,
    status: &'static str,
    valid_from: Time,
    valid_to: Option<Time>,
    recorded_at: Time,
    retracted_at: Option<Time>,
    supersedes: Vec<String>,
    superseded_by: Option<String>,
    overrides: Vec<String>,
    possible_conflicts: Vec<String>,
}

pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let params: FactParams = query::parse(&uri)?;
    let wish = tokens::wish(
        &access.tenant,
        params.token.as_deref(),
        &headers,
        params.consistency,
        params.max_staleness_ms,
    )?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let by = shared.fact_rules.of(&shared.nodes, &access.tenant, deadline).await?;
    let asked = params.read(&space, &by.registry)?;
    let request =
        v1::ListFactsRequest { access: Some(access.clone().into()), space: Some((&space).into()), ..asked };
    let ask = |mut client: Client, read| {
        let request = v1::ListFactsRequest { read: Some(read), ..request.clone() };
        async move { client.list_facts(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Point, &space, &wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    let facts: Answer<Vec<FactView>> = response.facts.into_iter().map(view).collect();
    let page = Page {
        facts: facts?,
        next_cursor: response.next.map(|next| cursor(&next, &space, &request)),
        token: tokens::text(&access.tenant, seen)?,
    };
    answer(StatusCode::OK, &page)
}

impl FactParams {
    /// The request without who asks and how.
    fn read(self, space: &SpaceKey, registry: &Registry) -> Answer<v1::ListFactsRequest> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIST_ITEMS_MAX).contains(&limit) {
            return Err(Problem::invalid("limit", format!("limit is {limit}; give 1 to {LIST_ITEMS_MAX}")));
        }
        if self.predicate.is_some() && self.subject.is_none() {
            return Err(Problem::invalid(
                "predicate",
                "predicate is listed within a subject; give subject too",
            ));
        }
        let now_us = now_us();
        let past = self.valid.is_some() || self.recorded.is_some();
        let as_of = past.then_some(AsOfBody { valid: self.valid, recorded: self.recorded });
        let named = |text: Option<String>, form: &dyn Fn(&str) -> String| {
            text.map(|text| form(&text)).unwrap_or_default()
        };
        let mut request = v1::ListFactsRequest {
            subject: named(self.subject, &|text| normal::subject(text, None)),
            predicate: named(self.predicate, &|text| registry.filed_under(text)),
            limit,
            now_us,
            include_deprecated: self.include_deprecated.unwrap_or(false),
            as_of: as_of.map(|as_of| as_of.read(now_us)).transpose()?,
            ..v1::ListFactsRequest::default()
        };
        if let Some(text) = &self.cursor {
            request.after = parse_cursor(text, space, &request)?;
        }
        Ok(request)
    }
}

fn view(stored: v1::StoredFact) -> Answer<FactView> {
    let missing = || Problem::new(ErrorCode::Internal, "a node answered a fact without its words");
    let fact = stored.fact.ok_or_else(missing)?;
    Ok(FactView {
        id: fact_id(&stored.memory_id, stored.ordinal),
        memory_id: stored.memory_id,
        subject: fact.subject,
        predicate: fact.predicate,
        object: fact.object,
        qualifiers: fields(fact.qualifiers)?,
        confidence: fact.confidence,
        stated_by: if fact.rules == 0 { "caller" } else { "rules" },
        status: if stored.superseded { "deprecated" } else { "active" },
        valid_from: Time(stored.valid_from_us),
        valid_to: stored.valid_to_us.map(Time),
        recorded_at: Time(stored.recorded_us),
        retracted_at: stored.retracted_us.map(Time),
        supersedes: stored.supersedes,
        superseded_by: stored.superseded_by,
        overrides: stored.overrides,
        possible_conflicts: stored.possible_conflicts,
    })
}

/// Bound to the space and what is listed, so that a cursor is not taken for a place in another list.
fn cursor(next: &[u8], space: &SpaceKey, request: &v1::ListFactsRequest) -> String {
    URL_SAFE_NO_PAD.encode([&list_hash(next, space, request), next].concat())
}

fn list_hash(next: &[u8], space: &SpaceKey, request: &v1::ListFactsRequest) -> [u8; 8] {
    let mut hash = Xxh3::new();
    for part in [next, &space.path(), request.subject.as_bytes(), &[0], request.predicate.as_bytes()] {
        hash.update(part);
    }
    hash.digest().to_be_bytes()
}

fn parse_cursor(text: &str, space: &SpaceKey, request: &v1::ListFactsRequest) -> Answer<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let next = bytes.as_deref().and_then(|bytes| {
        let (hash, next) = bytes.split_first_chunk::<8>()?;
        (!next.is_empty() && *hash == list_hash(next, space, request)).then(|| next.to_vec())
    });
    let detail = "this is not a cursor of this list; start again without one";
    next.ok_or_else(|| Problem::invalid("cursor", detail))
}
