//! What the tiers beside memories share: how their rows are read, and how a change of one is written.

use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::{WriteIdentity, etag};
use crate::http::{answer, query};
use crate::nodes::{Client, ReadKind, ReadWish, Written};
use crate::shared::Shared;
use crate::tokens::{self, Consistency};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::outcome::{ItemOutcome, ItemStatus};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};

/// What every read takes in its query string.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadParams {
    token: Option<String>,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
}

/// A read of a caller.
pub(crate) struct Reading {
    pub(crate) access: Access,
    pub(crate) space: SpaceKey,
    pub(crate) wish: ReadWish,
}

impl Reading {
    /// What the request asks for, if the caller may read in the space.
    pub(crate) fn of(caller: InSpace, uri: &Uri, headers: &HeaderMap) -> Answer<Self> {
        let (access, space) = caller.require(Rights::READ)?;
        let params: ReadParams = query::parse(uri)?;
        let token = params.token.as_deref();
        let wish = tokens::wish(&access.tenant, token, headers, params.consistency, params.max_staleness_ms)?;
        Ok(Self { access, space, wish })
    }

    /// Reads rows within the time of a read.
    pub(crate) async fn rows(
        &self,
        shared: &Shared,
        tier: v1::Tier,
        id: &str,
        parts: bool,
    ) -> Answer<(Vec<v1::TierEntry>, Option<Seen>)> {
        let deadline = Deadline::after(shared.config.read_timeout);
        let what = What { tier, id, parts };
        rows(shared, &self.access, &self.space, &self.wish, deadline, what).await
    }

    /// The answer to a read of one thing.
    pub(crate) fn one(&self, body: &impl Serialize, version: u64, seen: Option<Seen>) -> Answer<Response> {
        let mut response = answer(StatusCode::OK, body)?;
        set_headers(&mut response, version, &self.access, seen)?;
        Ok(response)
    }
}

/// Rows of a tier: all things of it if `id` is empty, else one, with its parts if those are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct What<'a> {
    pub(crate) tier: v1::Tier,
    pub(crate) id: &'a str,
    pub(crate) parts: bool,
}

/// Reads rows of a tier in their stored form.
pub(crate) async fn rows(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    wish: &ReadWish,
    deadline: Deadline,
    what: What<'_>,
) -> Answer<(Vec<v1::TierEntry>, Option<Seen>)> {
    let ask = |mut client: Client, read| {
        let request = v1::ReadTierRequest {
            access: Some(access.clone().into()),
            space: Some(space.into()),
            read: Some(read),
            tier: what.tier.into(),
            id: what.id.to_owned(),
            parts: what.parts,
        };
        async move { client.read_tier(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Point, space, wish, deadline, ask).await?;
    Ok((response.entries, shared.nodes.observe(response.seen)))
}

/// Reads a row of a node.
pub(crate) fn decode<T: Stored>(entry: &v1::TierEntry) -> Answer<T> {
    let unreadable = |error| Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}"));
    T::decode(&entry.row).map_err(unreadable)
}

/// Writes one change.
pub(crate) async fn write(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    identity: &WriteIdentity,
    write: Write,
    deadline: Deadline,
) -> Answer<Written> {
    let idempotency = Some(identity.whole());
    let command = Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency, write }));
    command.check()?;
    let written = shared.nodes.write(access, space, &command, deadline).await;
    written.map_err(|problem| problem.with_idempotency_key(&identity.key))
}

/// Whether a write that is made again on what is there lost against another one.
pub(crate) fn lost_the_race(identity: &WriteIdentity, error: &Error) -> bool {
    identity.if_version.is_none()
        && error.code == ErrorCode::Conflict
        && error.field.as_deref() == Some("version")
}

/// The item of a write that every one of this kind has first.
pub(crate) fn first(written: &Written) -> Answer<&ItemOutcome> {
    let missing = || Problem::new(ErrorCode::Internal, "a write was answered for nothing");
    written.items.first().ok_or_else(missing)
}

/// 201 for what is new.
pub(crate) fn status(item: &ItemOutcome) -> StatusCode {
    if item.status == ItemStatus::Created { StatusCode::CREATED } else { StatusCode::OK }
}

/// Version and position of an answer.
pub(crate) fn set_headers(
    response: &mut Response,
    version: u64,
    access: &Access,
    seen: Option<Seen>,
) -> Answer<()> {
    let token = tokens::text(&access.tenant, seen)?;
    let headers = response.headers_mut();
    if let (Ok(token), Ok(etag)) = (HeaderValue::from_str(&token), HeaderValue::from_str(&etag(version))) {
        headers.insert(tokens::HEADER, token);
        headers.insert(header::ETAG, etag);
    }
    Ok(())
}
