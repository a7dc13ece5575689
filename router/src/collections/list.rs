//! `GET /v1/collections`: the collections of the caller's tenant, at most
//! [`COLLECTIONS_MAX`](holdfast_core::limits::COLLECTIONS_MAX), by name.

use super::cache::of_row;
use super::view::CollectionView;
use crate::auth::Caller;
use crate::http::answer;
use crate::http::problem::Answer;
use crate::http::query::NoParams;
use crate::http::time::Deadline;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::collection::{CollectionRow, CollectionSettings};
use holdfast_proto::v1::read_meta_request::What;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Serialize)]
struct Collections {
    collections: Vec<CollectionView>,
}

pub(crate) async fn list(State(shared): State<Arc<Shared>>, caller: Caller, _: NoParams) -> Answer<Response> {
    let access = caller.require(Rights::READ)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let rows: Vec<CollectionRow> =
        shared.nodes.read_meta(What::CollectionsOf(access.tenant.clone()), deadline).await?;
    let settings: Vec<CollectionSettings> =
        shared.nodes.read_meta(What::SettingsOfCollections(access.tenant), deadline).await?;
    let mut settings: HashMap<String, CollectionSettings> =
        settings.into_iter().map(|settings| (settings.name.clone(), settings)).collect();
    let there = rows.into_iter().filter(|row| row.deleted.is_none());
    let view = |row: CollectionRow| {
        let own = of_row(&row, settings.remove(&row.name));
        CollectionView::new(row, &own)
    };
    answer(StatusCode::OK, &Collections { collections: there.map(view).collect() })
}
