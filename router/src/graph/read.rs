//! `GET …/graph/entities/{name}`, `POST …/graph:traverse` and `POST …/graph:path`.

use super::name;
use super::view::{EdgeView, ReachedView};
use crate::auth::{InSpace, PathId};
use crate::http::json::{self, Bounded};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time, now_us};
use crate::http::{Body, answer, query};
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::recall::parse::AsOfBody;
use crate::shared::Shared;
use crate::tokens::{self, Consistency};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::limits::{
    GRAPH_DEPTH_MAX, GRAPH_ENTITIES_MAX, GRAPH_FAN_OUT_MAX, GRAPH_RELATIONS_MAX, LIST_ITEMS_MAX,
};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode, Result};
use holdfast_proto::v1;
use holdfast_proto::v1::graph_request::What;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIMIT_DEFAULT: u32 = 100;
const DEPTH_DEFAULT: u32 = 2;
const PATH_DEPTH_DEFAULT: u32 = 4;
const FAN_OUT_DEFAULT: u32 = 32;
const ENTITIES_DEFAULT: u32 = 100;

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Out,
    In,
    #[default]
    Both,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntityParams {
    direction: Option<Direction>,
    valid: Option<Time>,
    recorded: Option<Time>,
    include_deprecated: Option<bool>,
    limit: Option<u32>,
    token: Option<String>,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
}

/// The body of both walks; a walk around an entity has no `to`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WalkBody {
    from: String,
    to: Option<String>,
    depth: Option<u32>,
    fan_out: Option<u32>,
    entities: Option<u32>,
    direction: Option<Direction>,
    relations: Option<Bounded<String, GRAPH_RELATIONS_MAX>>,
    as_of: Option<AsOfBody>,
    include_deprecated: Option<bool>,
    token: Option<String>,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
}

#[derive(Serialize)]
struct EntityAnswer {
    name: String,
    aliases: Vec<String>,
    edges: Vec<EdgeView>,
    truncated: bool,
    token: String,
}

#[derive(Serialize)]
struct Traversed {
    entities: Vec<ReachedView>,
    edges: Vec<EdgeView>,
    truncated: bool,
    token: String,
}

#[derive(Serialize)]
struct PathAnswer {
    found: bool,
    edges: Vec<EdgeView>,
    truncated: bool,
    token: String,
}

pub(crate) async fn entity(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let params: EntityParams = query::parse(&uri)?;
    let (token, level, age) = (params.token.as_deref(), params.consistency, params.max_staleness_ms);
    let wish = tokens::wish(&access.tenant, token, &headers, level, age)?;
    let past = params.valid.is_some() || params.recorded.is_some();
    let as_of = past.then_some(AsOfBody { valid: params.valid, recorded: params.recorded });
    let limit = bounded("limit", params.limit, LIMIT_DEFAULT, LIST_ITEMS_MAX)?;
    let what = What::Entity(v1::EntityQuery { name: name("name", &id)?, limit });
    let sight = sight(params.direction, Vec::new(), as_of, params.include_deprecated)?;
    let (mut response, seen) = ask(&shared, &access, &space, &wish, what, sight).await?;
    let entity = response.entities.pop().filter(|_| response.found);
    let Some(entity) = entity else {
        let detail = "no fact of this space has this name, as its subject or its object";
        return Err(Problem::from(Error::new(ErrorCode::NotFound, detail).at("name")));
    };
    let view = EntityAnswer {
        name: entity.name,
        aliases: entity.aliases,
        edges: edges(response.edges),
        truncated: response.truncated,
        token: tokens::text(&access.tenant, seen)?,
    };
    answer(StatusCode::OK, &view)
}

pub(crate) async fn traverse(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let body: WalkBody = json::body(&body)?;
    if body.to.is_some() {
        return Err(Problem::invalid(
            "to",
            "a walk around an entity goes nowhere; ask for a path at …/graph:path",
        ));
    }
    let from = name("from", &body.from)?;
    let (depth, fan_out, entities) = body.bounds(DEPTH_DEFAULT)?;
    let what = What::Traverse(v1::TraverseQuery { from, depth, fan_out, entities });
    let (response, seen) = body.ask(&shared, &access, &space, &headers, what).await?;
    let view = Traversed {
        entities: response.entities.into_iter().map(ReachedView::from).collect(),
        edges: edges(response.edges),
        truncated: response.truncated,
        token: tokens::text(&access.tenant, seen)?,
    };
    answer(StatusCode::OK, &view)
}

pub(crate) async fn path(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let body: WalkBody = json::body(&body)?;
    let Some(to) = &body.to else {
        return Err(Problem::invalid("to", "a path leads somewhere; give to"));
    };
    let (from, to) = (name("from", &body.from)?, name("to", to)?);
    let (depth, fan_out, entities) = body.bounds(PATH_DEPTH_DEFAULT)?;
    let what = What::Path(v1::PathQuery { from, to, depth, fan_out, entities });
    let (response, seen) = body.ask(&shared, &access, &space, &headers, what).await?;
    let view = PathAnswer {
        found: response.found,
        edges: edges(response.edges),
        truncated: response.truncated,
        token: tokens::text(&access.tenant, seen)?,
    };
    answer(StatusCode::OK, &view)
}

impl WalkBody {
    fn bounds(&self, depth_default: u32) -> Result<(u32, u32, u32)> {
        Ok((
            bounded("depth", self.depth, depth_default, GRAPH_DEPTH_MAX)?,
            bounded("fan_out", self.fan_out, FAN_OUT_DEFAULT, GRAPH_FAN_OUT_MAX)?,
            bounded("entities", self.entities, ENTITIES_DEFAULT, GRAPH_ENTITIES_MAX)?,
        ))
    }

    async fn ask(
        self,
        shared: &Shared,
        access: &Access,
        space: &SpaceKey,
        headers: &HeaderMap,
        what: What,
    ) -> Answer<(v1::GraphResponse, Option<Seen>)> {
        let token = self.token.as_deref();
        let wish = tokens::wish(&access.tenant, token, headers, self.consistency, self.max_staleness_ms)?;
        let deadline = Deadline::after(shared.config.read_timeout);
        let by = shared.fact_rules.of(&shared.nodes, &access.tenant, deadline).await?;
        let relations = self.relations.map(|relations| relations.0).unwrap_or_default();
        let relations = relations.iter().map(|relation| by.registry.find(relation).name).collect();
        let sight = sight(self.direction, relations, self.as_of, self.include_deprecated)?;
        ask(shared, access, space, &wish, what, sight).await
    }
}

fn bounded(field: &str, given: Option<u32>, default: u32, max: u32) -> Result<u32> {
    let value = given.unwrap_or(default);
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, format!("{field} is {value}; give 1 to {max}")))
}

fn sight(
    direction: Option<Direction>,
    relations: Vec<String>,
    as_of: Option<AsOfBody>,
    include_deprecated: Option<bool>,
) -> Result<v1::GraphSight> {
    let now_us = now_us();
    let direction = match direction.unwrap_or_default() {
        Direction::Both => v1::Direction::Both,
        Direction::Out => v1::Direction::Out,
        Direction::In => v1::Direction::In,
    };
    Ok(v1::GraphSight {
        direction: direction.into(),
        relations,
        now_us,
        as_of: as_of.map(|as_of| as_of.read(now_us)).transpose()?,
        include_deprecated: include_deprecated.unwrap_or(false),
    })
}

async fn ask(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    wish: &ReadWish,
    what: What,
    sight: v1::GraphSight,
) -> Answer<(v1::GraphResponse, Option<Seen>)> {
    let request = v1::GraphRequest {
        access: Some(access.clone().into()),
        space: Some(space.into()),
        read: None,
        what: Some(what),
        sight: Some(sight),
    };
    let deadline = Deadline::after(shared.config.read_timeout);
    let ask = |mut client: Client, read| {
        let request = v1::GraphRequest { read: Some(read), ..request.clone() };
        async move { client.graph(request).await }
    };
    let mut response = shared.nodes.read_space(ReadKind::Point, space, wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen.take());
    Ok((response, seen))
}

fn edges(edges: Vec<v1::GraphEdge>) -> Vec<EdgeView> {
    edges.into_iter().map(EdgeView::from).collect()
}
