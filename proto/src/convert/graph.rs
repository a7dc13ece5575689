//! Questions to the graph and their answers.

use crate::v1;
use crate::v1::graph_request::What;
use holdfast_core::codec::Stored;
use holdfast_core::graph::{Bounds, Direction, Edge, Fault, Graph, When};
use holdfast_core::keys;
use holdfast_core::limits::{
    FACT_NAME_BYTES_MAX, GRAPH_DEPTH_MAX, GRAPH_ENTITIES_MAX, GRAPH_FAN_OUT_MAX, GRAPH_ROWS_MAX,
    LIST_ITEMS_MAX,
};
use holdfast_core::memory::MemoryRow;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use holdfast_core::{Error, Result};
use std::collections::BTreeSet;

/// Checks that the names of a question can be names, whatever the router let through.
///
/// # Errors
/// [`holdfast_core::ErrorCode::InvalidArgument`] that names the field.
pub fn check_graph(what: &What) -> Result<()> {
    let names = match what {
        What::Entity(query) => [Some(("name", &query.name)), None],
        What::Traverse(query) => [Some(("from", &query.from)), None],
        What::Path(query) => [Some(("from", &query.from)), Some(("to", &query.to))],
    };
    for (field, name) in names.into_iter().flatten() {
        if name.is_empty() || name.len() > FACT_NAME_BYTES_MAX || name.contains('\0') {
            let detail = format!("{field} is no name; give 1 to {FACT_NAME_BYTES_MAX} bytes");
            return Err(Error::invalid(field, detail));
        }
    }
    Ok(())
}

/// Answers a question to the graph of a space, within the limits, all but how fresh it is.
///
/// # Errors
/// [`Fault`] if the store cannot be read.
pub fn graph_of(
    store: &dyn Reader,
    space: &SpaceKey,
    what: &What,
    sight: &v1::GraphSight,
) -> std::result::Result<v1::GraphResponse, Fault> {
    let when = When {
        now_us: sight.now_us,
        as_of: sight.as_of.map(|at| (at.valid_us, at.recorded_us)),
        include_deprecated: sight.include_deprecated,
    };
    let mut graph = Graph::new(store, space, when, GRAPH_ROWS_MAX);
    let direction = match sight.direction() {
        v1::Direction::Both => Direction::Both,
        v1::Direction::Out => Direction::Out,
        v1::Direction::In => Direction::In,
    };
    let relations: BTreeSet<&str> = sight.relations.iter().map(String::as_str).collect();
    let wanted = |relation: &str| relations.is_empty() || relations.contains(relation);
    let mut response = v1::GraphResponse::default();
    let edges = match what {
        What::Entity(query) => {
            let entity = graph.entity(&query.name)?;
            response.found = graph.is_known(&entity)?;
            let limit = query.limit.clamp(1, LIST_ITEMS_MAX) as usize;
            let (edges, more) = graph.edges(&entity, direction, &wanted, limit)?;
            response.truncated = more;
            let (name, aliases) = (entity.name, entity.aliases);
            response.entities = vec![v1::GraphEntity { name, aliases, depth: 0 }];
            edges
        }
        What::Traverse(query) => {
            let bounds = bounds(query.depth, query.fan_out, query.entities);
            let walked = graph.traverse(&query.from, direction, &wanted, bounds)?;
            (response.truncated, response.found) = (walked.truncated, true);
            let shown = |(name, depth)| v1::GraphEntity { name, aliases: Vec::new(), depth };
            response.entities = walked.entities.into_iter().map(shown).collect();
            walked.edges
        }
        What::Path(query) => {
            let bounds = bounds(query.depth, query.fan_out, query.entities);
            let path = graph.path(&query.from, &query.to, direction, &wanted, bounds)?;
            (response.truncated, response.found) = (path.truncated, path.found);
            path.edges
        }
    };
    response.edges =
        edges.into_iter().map(|edge| show(store, space, edge)).collect::<std::result::Result<_, _>>()?;
    Ok(response)
}

fn bounds(depth: u32, fan_out: u32, entities: u32) -> Bounds {
    Bounds {
        depth: depth.min(GRAPH_DEPTH_MAX),
        fan_out: fan_out.clamp(1, GRAPH_FAN_OUT_MAX) as usize,
        entities: entities.clamp(1, GRAPH_ENTITIES_MAX) as usize,
    }
}

fn show(store: &dyn Reader, space: &SpaceKey, edge: Edge) -> std::result::Result<v1::GraphEdge, Fault> {
    let Edge { subject, relation, object, fact } = edge;
    // The memory may be deleted meanwhile; then nothing more is known of how sure it was.
    let memory = store.get(&keys::memory::key(space, &fact.id))?;
    let memory = memory.map(|value| MemoryRow::decode(&value)).transpose()?;
    let statement = memory.as_ref().and_then(|memory| memory.statements.get(usize::from(fact.ordinal)));
    Ok(v1::GraphEdge {
        subject,
        relation,
        object,
        memory_id: fact.id,
        ordinal: fact.ordinal.into(),
        valid_from_us: fact.from_us,
        valid_to_us: fact.until_us,
        recorded_us: fact.recorded_us,
        retracted_us: fact.retracted_us,
        confidence: statement.and_then(|statement| statement.fact.confidence),
    })
}
