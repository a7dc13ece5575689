//! `GET …/erasures/{id}`: how far an erasure has come, and in the end the receipt.

use crate::auth::{InSpace, PathId};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::http::{answer, query};
use crate::memories::get::ReadParams;
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::erasure::{ErasureRow, Phase, Place};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use serde::Serialize;
use std::sync::Arc;

/// The replicas make their files anew within twice the time after which they begin.
const WITHIN: u64 = 2;

#[derive(Serialize)]
struct Told {
    id: String,
    space: String,
    #[serde(flatten)]
    receipt: Receipt,
    token: String,
}

/// How far the erasure of one partition has come.
#[derive(Serialize)]
pub(crate) struct Receipt {
    /// What was chosen: `all`, `session`, `source`, `filter` or `ids`. What it named is not kept.
    pub(crate) selection: &'static str,
    /// `removing`, `purging` or `done`.
    pub(crate) status: &'static str,
    begun_at: Time,
    /// The log index at which it began: what was recorded later stays.
    log_index: u64,
    erased: Erased,
    removed_at: Option<Time>,
    /// The log index at which the last row went.
    removed_log_index: Option<u64>,
    replicas: Vec<Replica>,
    /// Where copies may still be, and until when.
    copies: Vec<Copy>,
    done_at: Option<Time>,
}

#[derive(Serialize)]
struct Erased {
    memories: u64,
    derived: u64,
    versions: u64,
    facts: u64,
    others: u64,
}

/// Since when a replica holds nothing more, place by place.
#[derive(Serialize)]
struct Replica {
    node: u64,
    images: Option<Time>,
    log: Option<Time>,
    database: Option<Time>,
}

#[derive(Serialize)]
struct Copy {
    place: &'static str,
    /// The nodes that have not confirmed.
    nodes: Vec<u64>,
    /// By when; `null` while rows are being removed. A node that is down confirms when it is back.
    until: Option<Time>,
}

pub(crate) async fn receipt(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let read = Reading { shared: &shared, access: &access, id: &id, wish: &wish, deadline };
    let (receipt, seen) = read.of(&space).await?;
    let receipt = receipt.ok_or_else(not_there)?;
    let token = tokens::text(&access.tenant, seen)?;
    answer(StatusCode::OK, &Told { id, space: space.label().to_owned(), receipt, token })
}

/// The one answer to an id that names no erasure.
pub(crate) fn not_there() -> Problem {
    let detail = "there is no erasure with this id in this space; receipts are kept for 35 days";
    Error::new(ErrorCode::NotFound, detail).at("id").into()
}

/// Who asks for which receipt.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) access: &'a Access,
    pub(crate) id: &'a str,
    pub(crate) wish: &'a ReadWish,
    pub(crate) deadline: Deadline,
}

impl Reading<'_> {
    /// The receipt of one partition, if the erasure began there, and what was seen.
    pub(crate) async fn of(self, space: &SpaceKey) -> Answer<(Option<Receipt>, Option<Seen>)> {
        let Self { shared, access, id, wish, deadline } = self;
        let ask = |mut client: Client, read| {
            let request = v1::GetErasureRequest {
                access: Some(access.clone().into()),
                space: Some(space.into()),
                read: Some(read),
                id: id.to_owned(),
            };
            async move { client.get_erasure(request).await }
        };
        let response = shared.nodes.read_space(ReadKind::Point, space, wish, deadline, ask).await?;
        let seen = shared.nodes.observe(response.seen);
        let row = response.row.as_deref().map(ErasureRow::decode).transpose();
        let row = row
            .map_err(|error| Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}")))?;
        Ok((row.map(|row| Receipt::new(&row, &response)), seen))
    }
}

impl Receipt {
    pub(crate) fn new(row: &ErasureRow, told: &v1::GetErasureResponse) -> Self {
        let said = |node: u64, place: Place| {
            let said = row.confirmed.iter().find(|said| (said.node, said.place) == (node, place));
            said.map(|said| Time(said.at_us))
        };
        // Those that confirmed count as well once they have left the shard.
        let mut nodes = told.replicas.clone();
        nodes.extend(row.confirmed.iter().map(|said| said.node));
        nodes.sort_unstable();
        nodes.dedup();
        let replicas = nodes.iter().map(|node| Replica {
            node: *node,
            images: said(*node, Place::Images),
            log: said(*node, Place::Log),
            database: said(*node, Place::Database),
        });
        let erased = row.erased;
        Self {
            selection: row.kind.as_str(),
            status: row.phase.as_str(),
            begun_at: Time(row.begun_us),
            log_index: row.begun_index,
            erased: Erased {
                memories: erased.memories,
                derived: erased.derived,
                versions: erased.versions,
                facts: erased.facts,
                others: erased.others,
            },
            removed_at: row.removed_us.map(Time),
            removed_log_index: row.removed_index,
            replicas: replicas.collect(),
            copies: if row.phase == Phase::Done { Vec::new() } else { copies(row, told) },
            done_at: row.done_us.map(Time),
        }
    }
}

fn copies(row: &ErasureRow, told: &v1::GetErasureResponse) -> Vec<Copy> {
    let after_ms = |place| match place {
        Place::Images => 0,
        Place::Log => told.log_after_ms,
        Place::Database => told.log_after_ms.max(told.database_after_ms),
    };
    let copy = |place: Place| {
        let open = told.replicas.iter().filter(|node| !row.is_confirmed(**node, place));
        let within_us = i64::try_from(after_ms(place).saturating_mul(WITHIN * 1_000)).unwrap_or(i64::MAX);
        let until = row.removed_us.map(|removed_us| Time(removed_us.saturating_add(within_us)));
        Copy { place: place.as_str(), nodes: open.copied().collect(), until }
    };
    Place::ALL.into_iter().map(copy).filter(|copy| !copy.nodes.is_empty()).collect()
}
