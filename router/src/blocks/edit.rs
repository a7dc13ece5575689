//! `POST …/blocks/{label}:insert`, `:replace`, `:rethink` and `:patch`.

use super::write::make;
use super::{patch, write::Change};
use crate::auth::{InSpace, PathAction};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{Body, json};
use crate::shared::Shared;
use axum::extract::State;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::tiers::block::BlockChange;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InsertBody {
    text: String,
    /// How many lines stand before it; all, if left out.
    line: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplaceBody {
    old: String,
    new: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RethinkBody {
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchBody {
    /// A unified diff.
    patch: String,
}

pub(crate) async fn edit(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathAction { id: label, action }: PathAction,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let change = match action.as_str() {
        "insert" => {
            let InsertBody { text, line } = json::body(&body)?;
            BlockChange::Insert { text, line }
        }
        "replace" => {
            let ReplaceBody { old, new } = json::body(&body)?;
            BlockChange::Replace { old, new }
        }
        "rethink" => {
            let RethinkBody { value } = json::body(&body)?;
            BlockChange::Rethink { value }
        }
        "patch" => {
            let PatchBody { patch } = json::body(&body)?;
            let (access, space) = caller.require(Rights::WRITE)?;
            let identity = head.identity(&body)?;
            let deadline = Deadline::after(shared.config.write_timeout);
            let (shared, access, space) = (&*shared, &access, &space);
            let change = Change { shared, access, space, label: &label, identity: &identity, deadline };
            return patch::make(&change, patch).await;
        }
        _ => {
            let detail =
                "there is nothing to do with a block here but :insert, :replace, :rethink and :patch";
            return Err(Problem::new(ErrorCode::NotFound, detail));
        }
    };
    make(&shared, caller, &label, &head, &body, change).await
}
