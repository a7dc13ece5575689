//! `GET` and `PUT /admin/v1/tenants/{id}/scoring`: the default profile of a tenant, and weights and tau of its own. A key
//! with the right `admin` manages those of its own tenant, one with the right `cluster` those of every tenant.

use super::fact_rules::manager;
use crate::auth::{Caller, PathId};
use crate::http::problem::{Answer, Problem};
use crate::http::query::NoParams;
use crate::http::time::{Deadline, Time};
use crate::http::write::{WriteHead, etag};
use crate::http::{Body, answer, json};
use crate::nodes::Safety;
use crate::recall::parse::WeightsBody;
use crate::scoring::read;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::score::own::{OwnProfile, ScoringRow};
use holdfast_core::score::{Profile, Weights};
use holdfast_core::space::Shard;
use holdfast_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoringBody {
    profile: Option<String>,
    profiles: Option<BTreeMap<String, ProfileBody>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileBody {
    weights: Option<WeightsBody>,
    tau_hours: Option<f64>,
}

#[derive(Serialize)]
struct ScoringView {
    tenant: String,
    version: u64,
    updated_at: Option<Time>,
    /// That of calls that name none.
    profile: &'static str,
    /// What differs from the built-in profiles.
    profiles: BTreeMap<&'static str, ProfileView>,
}

#[derive(Serialize)]
struct ProfileView {
    weights: Option<WeightsView>,
    tau_hours: Option<f64>,
}

#[derive(Serialize)]
struct WeightsView {
    relevance: f64,
    recency: f64,
    importance: f64,
    frequency: f64,
}

impl From<Weights> for WeightsView {
    fn from(weights: Weights) -> Self {
        let Weights { s, r, i, f } = weights;
        Self { relevance: s, recency: r, importance: i, frequency: f }
    }
}

impl From<ScoringRow> for ScoringView {
    fn from(row: ScoringRow) -> Self {
        let own = |own: &OwnProfile| {
            let view =
                ProfileView { weights: own.weights().map(WeightsView::from), tau_hours: own.tau_hours() };
            (own.profile.name(), view)
        };
        Self {
            version: row.version,
            updated_at: (row.version > 0).then_some(Time(row.updated_us)),
            profile: row.profile.unwrap_or_default().name(),
            profiles: row.profiles.iter().map(own).collect(),
            tenant: row.tenant,
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
    let scoring = row(&tenant, json::body(&body)?)?;
    let command = Command::Meta(Box::new(MetaCommand::SetScoring { scoring, if_version }));
    let deadline = Deadline::after(shared.config.write_timeout);
    shared.nodes.propose(&access, Shard::META, &command, Safety::Once, deadline).await?;
    shared.scoring.forget(&tenant).await;
    view(read(&shared.nodes, &tenant, deadline).await?)
}

fn row(tenant: &str, body: ScoringBody) -> Result<ScoringRow> {
    let named = |field: &str, name: &str| {
        Profile::from_name(name).ok_or_else(|| {
            let known = Profile::ALL.map(Profile::name).join(", ");
            Error::invalid(field, format!("there is no such profile; use one of {known}"))
        })
    };
    let profile = body.profile.map(|name| named("profile", &name)).transpose()?;
    let mut profiles = Vec::new();
    for (name, own) in body.profiles.unwrap_or_default() {
        let at = format!("profiles.{name}");
        let profile = named(&at, &name)?;
        let weights = own.weights.map(|weights| weights.checked(&format!("{at}.weights"))).transpose()?;
        let own = OwnProfile::new(profile, weights, own.tau_hours);
        profiles.push(own.map_err(|error| {
            let field = error.field.clone().unwrap_or_default();
            error.at(format!("{at}.{field}"))
        })?);
    }
    Ok(ScoringRow { tenant: tenant.to_owned(), profile, profiles, ..ScoringRow::default() })
}

fn view(row: ScoringRow) -> Answer<Response> {
    let version = etag(row.version);
    let mut response = answer(StatusCode::OK, &ScoringView::from(row))?;
    let version = HeaderValue::from_str(&version)
        .map_err(|error| Problem::new(ErrorCode::Internal, format!("the version is no header: {error}")))?;
    response.headers_mut().insert(header::ETAG, version);
    Ok(response)
}
