//! `GET` and `PUT /admin/v1/tenants/{id}/fact-rules`: predicates and patterns of a tenant, by which
//! facts are found in its texts. A key with the right `admin` manages those of its own tenant, one
//! with the right `cluster` those of every tenant.

use crate::auth::{Caller, PathId};
use crate::fact_rules::{FactRules, read};
use crate::http::json::Bounded;
use crate::http::problem::{Answer, Problem};
use crate::http::query::NoParams;
use crate::http::time::{Deadline, Time};
use crate::http::write::{WriteHead, etag};
use crate::http::{Body, answer, json};
use crate::nodes::Safety;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::facts::own::{
    FactRulesRow, OWN_ALIASES_MAX, OWN_PATTERNS_MAX, OWN_PREDICATES_MAX, OwnCardinality, OwnPattern,
    OwnPredicate,
};
use holdfast_core::space::Shard;
use holdfast_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesBody {
    predicates: Option<Bounded<PredicateBody, OWN_PREDICATES_MAX>>,
    patterns: Option<Bounded<PatternBody, OWN_PATTERNS_MAX>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredicateBody {
    name: String,
    cardinality: String,
    aliases: Option<Bounded<String, OWN_ALIASES_MAX>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternBody {
    pattern: String,
    #[serde(default)]
    predicate: String,
    importance: Option<f64>,
}

#[derive(Serialize)]
struct RulesView {
    tenant: String,
    version: u64,
    updated_at: Option<Time>,
    predicates: Vec<PredicateView>,
    patterns: Vec<PatternView>,
}

#[derive(Serialize)]
struct PredicateView {
    name: String,
    cardinality: &'static str,
    aliases: Vec<String>,
}

#[derive(Serialize)]
struct PatternView {
    pattern: String,
    predicate: String,
    importance: f64,
}

impl From<FactRulesRow> for RulesView {
    fn from(row: FactRulesRow) -> Self {
        let predicate = |own: OwnPredicate| PredicateView {
            name: own.name,
            cardinality: own.cardinality.as_str(),
            aliases: own.aliases,
        };
        let pattern = |own: OwnPattern| PatternView {
            pattern: own.pattern,
            predicate: own.predicate,
            importance: f64::from(own.importance_milli) / 1_000.0,
        };
        Self {
            tenant: row.tenant,
            version: row.version,
            updated_at: (row.version > 0).then_some(Time(row.updated_us)),
            predicates: row.predicates.into_iter().map(predicate).collect(),
            patterns: row.patterns.into_iter().map(pattern).collect(),
        }
    }
}

pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(tenant): PathId,
    _: NoParams,
) -> Answer<Response> {
    manager(caller, &tenant)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    view(read(&shared.nodes, &tenant, deadline).await?)
}

pub(super) async fn put(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(tenant): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let access = manager(caller, &tenant)?;
    let if_version = head.identity(&body)?.if_version;
    let row = row(&tenant, json::body(&body)?)?;
    // What cannot be used is refused here, where it can be said why.
    FactRules::new(&row)?;
    let command = Command::Meta(Box::new(MetaCommand::SetFactRules { rules: row, if_version }));
    let deadline = Deadline::after(shared.config.write_timeout);
    shared.nodes.propose(&access, Shard::META, &command, Safety::Once, deadline).await?;
    shared.fact_rules.forget(&tenant).await;
    view(read(&shared.nodes, &tenant, deadline).await?)
}

pub(super) fn manager(caller: Caller, tenant: &str) -> Answer<Access> {
    let own = caller.access.tenant == tenant && caller.access.user.is_none();
    caller.require(if own { Rights::ADMIN } else { Rights::CLUSTER })
}

fn row(tenant: &str, body: RulesBody) -> Result<FactRulesRow> {
    let mut row = FactRulesRow { tenant: tenant.to_owned(), ..FactRulesRow::default() };
    for (at, own) in body.predicates.map(|all| all.0).unwrap_or_default().into_iter().enumerate() {
        let cardinality = OwnCardinality::from_wire(&own.cardinality).ok_or_else(|| {
            Error::invalid(format!("predicates[{at}].cardinality"), "cardinality is single, many or unknown")
        })?;
        let aliases = own.aliases.map(|aliases| aliases.0).unwrap_or_default();
        row.predicates.push(OwnPredicate { name: own.name, cardinality, aliases });
    }
    for (at, own) in body.patterns.map(|all| all.0).unwrap_or_default().into_iter().enumerate() {
        let importance = own.importance.unwrap_or(0.5);
        if !(0.0..=1.0).contains(&importance) {
            let field = format!("patterns[{at}].importance");
            return Err(Error::invalid(field, "importance is a number from 0 to 1"));
        }
        // Checked to be 0 to 1.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let importance_milli = (importance * 1_000.0).round() as u16;
        row.patterns.push(OwnPattern { pattern: own.pattern, predicate: own.predicate, importance_milli });
    }
    Ok(row)
}

fn view(row: FactRulesRow) -> Answer<Response> {
    let version = etag(row.version);
    let mut response = answer(StatusCode::OK, &RulesView::from(row))?;
    let version = HeaderValue::from_str(&version)
        .map_err(|error| Problem::new(ErrorCode::Internal, format!("the version is no header: {error}")))?;
    response.headers_mut().insert(header::ETAG, version);
    Ok(response)
}
