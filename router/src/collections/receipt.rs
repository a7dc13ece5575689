//! `GET /v1/collections/{name}/erasures/{id}`: how far an erasure has come in each partition. The id says of
//! which collection of the name, so that the receipt outlives it.

use super::erasure_id::ErasureId;
use super::manage::Named;
use crate::auth::PathId;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::{answer, query};
use crate::lifecycle::receipt::{Reading, Receipt, not_there};
use crate::memories::get::ReadParams;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use futures::future::try_join_all;
use holdfast_core::access::Rights;
use holdfast_core::space::SpaceKey;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Receipts {
    id: String,
    space: String,
    selection: &'static str,
    /// That of the partition that is behind all others.
    status: &'static str,
    partitions: Vec<OfPartition>,
    /// Partitions in which it has not begun: repeat the request with the same key.
    not_begun: Vec<u8>,
    token: String,
}

#[derive(Serialize)]
struct OfPartition {
    partition: u8,
    #[serde(flatten)]
    receipt: Receipt,
}

pub(crate) async fn receipt(
    State(shared): State<Arc<Shared>>,
    named: Named,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let Named { access, name, space } = named;
    access.check(&space, Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let erasure = ErasureId::parse(&id).ok_or_else(not_there)?;
    let of_partition = erasure.of_partition();
    let reading = Reading { shared: &shared, access: &access, id: &of_partition, wish: &wish, deadline };
    let spaces = (0..erasure.partitions)
        .map(|partition| SpaceKey::incarnation(&access.tenant, &name, erasure.incarnation, partition));
    let spaces = spaces.collect::<Result<Vec<_>, _>>()?;
    let told = try_join_all(spaces.iter().map(|space| reading.of(space))).await?;
    let (mut partitions, mut not_begun, mut all_seen) = (Vec::new(), Vec::new(), Vec::new());
    for (partition, (receipt, seen)) in (0u8..).zip(told) {
        all_seen.extend(seen);
        match receipt {
            Some(receipt) => partitions.push(OfPartition { partition, receipt }),
            None => not_begun.push(partition),
        }
    }
    let first = partitions.first().ok_or_else(not_there)?;
    let has = |status: &str| partitions.iter().any(|part| part.receipt.status == status);
    let status = ["removing", "purging"].into_iter().find(|status| has(status)).unwrap_or("done");
    let receipts = Receipts {
        id,
        space: space.label().to_owned(),
        selection: first.receipt.selection,
        status: if not_begun.is_empty() { status } else { "removing" },
        partitions,
        not_begun,
        token: tokens::text(&access.tenant, all_seen)?,
    };
    answer(StatusCode::OK, &receipts)
}
