//! What all requests share.

use crate::auth::KeyCache;
use crate::collections::cache::CollectionCache;
use crate::config::RouterConfig;
use crate::drain::Drain;
use crate::fact_rules::FactRulesCache;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::scoring::ScoringCache;
use crate::work::{Embedding, WorkPool};
use std::sync::Arc;
use tokio::sync::Semaphore;

pub(crate) struct Shared {
    pub(crate) config: RouterConfig,
    pub(crate) nodes: Nodes,
    pub(crate) drain: Drain,
    pub(crate) keys: KeyCache,
    pub(crate) fact_rules: FactRulesCache,
    pub(crate) scoring: ScoringCache,
    pub(crate) collections: Arc<CollectionCache>,
    pub(crate) work: Arc<WorkPool>,
    pub(crate) embedding: Option<Embedding>,
    pub(crate) metrics: Arc<Metrics>,
    /// Places for requests.
    pub(crate) in_flight: Arc<Semaphore>,
    /// Memory for their bodies, in pieces of [`crate::http::slot::BODY_PIECE_BYTES`].
    pub(crate) bodies: Arc<Semaphore>,
    /// Places for exports and imports, which may take long.
    pub(crate) streams: Arc<Semaphore>,
}

impl Shared {
    /// Whether every group has a leader that can be reached, and the router is not being stopped.
    pub(crate) fn is_ready(&self) -> bool {
        self.nodes.is_ready() && !self.drain.has_begun()
    }
}
