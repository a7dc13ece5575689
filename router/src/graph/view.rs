use crate::facts::fact_id;
use crate::http::time::Time;
use holdfast_proto::v1;
use serde::Serialize;

/// One relation. Every field is always there, `null` where there is nothing.
#[derive(Serialize)]
pub(super) struct EdgeView {
    subject: String,
    relation: String,
    object: String,
    fact_id: String,
    memory_id: String,
    confidence: Option<f32>,
    valid_from: Time,
    valid_to: Option<Time>,
    recorded_at: Time,
    retracted_at: Option<Time>,
}

impl From<v1::GraphEdge> for EdgeView {
    fn from(edge: v1::GraphEdge) -> Self {
        Self {
            subject: edge.subject,
            relation: edge.relation,
            object: edge.object,
            fact_id: fact_id(&edge.memory_id, edge.ordinal),
            memory_id: edge.memory_id,
            confidence: edge.confidence,
            valid_from: Time(edge.valid_from_us),
            valid_to: edge.valid_to_us.map(Time),
            recorded_at: Time(edge.recorded_us),
            retracted_at: edge.retracted_us.map(Time),
        }
    }
}

/// An entity that a walk reached.
#[derive(Serialize)]
pub(super) struct ReachedView {
    name: String,
    depth: u32,
}

impl From<v1::GraphEntity> for ReachedView {
    fn from(entity: v1::GraphEntity) -> Self {
        Self { name: entity.name, depth: entity.depth }
    }
}
