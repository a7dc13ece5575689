//! What all requests share.

use crate::auth::KeyCache;
use crate::config::RouterConfig;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::work::{Embedding, WorkPool};
use std::sync::Arc;
use tokio::sync::Semaphore;

pub(crate) struct Shared {
    pub(crate) config: RouterConfig,
    pub(crate) nodes: Nodes,
    pub(crate) keys: KeyCache,
    pub(crate) work: Arc<WorkPool>,
    pub(crate) embedding: Option<Embedding>,
    pub(crate) metrics: Arc<Metrics>,
    /// Places for requests.
    pub(crate) in_flight: Arc<Semaphore>,
    /// Memory for their bodies, in pieces of [`crate::http::slot::BODY_PIECE_BYTES`].
    pub(crate) bodies: Arc<Semaphore>,
}
