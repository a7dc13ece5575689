//! `POST …/procedures/{name}:verify`, `:activate`, `:rollback`, `:report` and `:render`.

use super::put::make;
use super::render;
use crate::auth::{InSpace, PathAction};
use crate::http::problem::{Answer, Problem};
use crate::http::write::WriteHead;
use crate::http::{Body, json};
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::tiers::procedure::ProcedureChange;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActivateBody {
    /// The newest that was verified and never used, if left out.
    version: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackBody {
    /// Only if this is the active one.
    from: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    success: bool,
    /// The one that was followed; the active one, if left out.
    version: Option<u64>,
}

pub(crate) async fn act(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathAction { id: name, action }: PathAction,
    (uri, headers): (Uri, HeaderMap),
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    // Most of what is done needs nothing to be said.
    let said: &[u8] = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { &body };
    let change = match action.as_str() {
        "render" => return render::render(&shared, caller, &name, &uri, &headers, said).await,
        "verify" => return render::verify(&shared, caller, name, &head, &body, said).await,
        "activate" => {
            let ActivateBody { version } = json::body(said)?;
            ProcedureChange::Activate { version }
        }
        "rollback" => {
            let RollbackBody { from } = json::body(said)?;
            ProcedureChange::Rollback { from }
        }
        "report" => {
            let ReportBody { success, version } = json::body(said)?;
            ProcedureChange::Report { version, success }
        }
        _ => {
            let detail = "there is nothing to do with a procedure here but :verify, :activate, :rollback, :report and :render";
            return Err(Problem::new(ErrorCode::NotFound, detail));
        }
    };
    make(&shared, caller, name, &head, &body, change).await
}
