//! `POST` and `GET /admin/v1/tenants`.

use super::tenant_erasure::{Begun, going};
use crate::auth::Caller;
use crate::http::problem::{Answer, Problem};
use crate::http::query::NoParams;
use crate::http::time::{Deadline, Time};
use crate::http::{Body, answer, json};
use crate::nodes::Safety;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Rights, TenantRow};
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::limits::check_id;
use holdfast_core::space::Shard;
use holdfast_proto::v1::Empty;
use holdfast_proto::v1::read_meta_request::What;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantBody {
    id: String,
    name: Option<String>,
}

#[derive(Serialize)]
struct TenantView {
    id: String,
    name: String,
    created_at: Time,
}

impl From<TenantRow> for TenantView {
    fn from(row: TenantRow) -> Self {
        Self { id: row.id, name: row.name, created_at: Time(row.created_us) }
    }
}

#[derive(Serialize)]
struct Tenants {
    tenants: Vec<TenantView>,
    /// Those that are being erased.
    erasing: Vec<Begun>,
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Body(body): Body,
) -> Answer<Response> {
    let access = caller.require(Rights::CLUSTER)?;
    let body: TenantBody = json::body(&body)?;
    check_id("id", &body.id)?;
    let name = body.name.unwrap_or_else(|| body.id.clone());
    check_id("name", &name)?;
    let row = TenantRow { id: body.id.clone(), name, created_us: 0 };
    let command = Command::Meta(Box::new(MetaCommand::CreateTenant(row)));
    let deadline = Deadline::after(shared.config.write_timeout);
    shared.nodes.propose(&access, Shard::META, &command, Safety::Once, deadline).await?;
    let mut rows: Vec<TenantRow> = shared.nodes.read_meta(What::Tenant(body.id), deadline).await?;
    let missing = || Problem::new(ErrorCode::Internal, "the tenant was created and cannot be read");
    let row = rows.pop().ok_or_else(missing)?;
    answer(StatusCode::CREATED, &TenantView::from(row))
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, caller: Caller, _: NoParams) -> Answer<Response> {
    caller.require(Rights::CLUSTER)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let rows: Vec<TenantRow> = shared.nodes.read_meta(What::Tenants(Empty {}), deadline).await?;
    let erasing = going(&shared, deadline).await?;
    let is_going = |row: &TenantRow| erasing.iter().any(|gone| gone.is_of(&row.id));
    let tenants = rows.into_iter().filter(|row| !is_going(row)).map(TenantView::from).collect();
    answer(StatusCode::OK, &Tenants { tenants, erasing })
}
