//! How the memories of a tenant are scored where a call says nothing else, read through from the meta group.

use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::Nodes;
use holdfast_core::ErrorCode;
use holdfast_core::score::own::ScoringRow;
use holdfast_proto::v1::read_meta_request::What;
use moka::future::Cache;
use std::sync::Arc;
use std::time::Duration;

/// How long settings are taken for current without asking: a change made through another router is noticed within
/// this time.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long settings are gone by while the meta group does not answer.
const STALE_FOR: Duration = Duration::from_secs(3_600);
/// How long one who has settings to fall back on waits for the meta group.
const REFRESH_MAX: Duration = Duration::from_millis(500);
const TENANTS_MAX: u64 = 10_000;

/// The settings of the tenants that recall through this router.
pub(crate) struct ScoringCache {
    fresh: Cache<String, Arc<ScoringRow>>,
    /// What was last read, for the time in which reading fails.
    stale: Cache<String, Arc<ScoringRow>>,
}

impl ScoringCache {
    pub(crate) fn new() -> Self {
        let cache = |keep| Cache::builder().max_capacity(TENANTS_MAX).time_to_live(keep).build();
        Self { fresh: cache(KNOWN_FOR), stale: cache(STALE_FOR) }
    }

    /// The settings of a tenant. Requests that come together read them once. While the meta group does not answer they are
    /// those that were read last, or the built-in ones: recalls go on without it.
    pub(crate) async fn of(&self, nodes: &Nodes, tenant: &str, deadline: Deadline) -> Arc<ScoringRow> {
        let ask = async {
            // The recall itself needs the rest of its time.
            let limit = REFRESH_MAX.min(deadline.left() / 4);
            let row = Arc::new(read(nodes, tenant, Deadline::after(limit)).await?);
            self.stale.insert(tenant.to_owned(), Arc::clone(&row)).await;
            Ok::<_, Problem>(row)
        };
        match self.fresh.try_get_with_by_ref(tenant, ask).await {
            Ok(row) => row,
            Err(problem) => {
                let known = self.stale.get(tenant).await;
                let by = if known.is_some() { "those of before" } else { "the built-in ones" };
                let why = &problem.error;
                tracing::warn!(tenant, %why, "the settings of scores cannot be read; it is gone by {by}");
                let known = known.unwrap_or_default();
                // Asked again after a while, not by every request.
                self.fresh.insert(tenant.to_owned(), Arc::clone(&known)).await;
                known
            }
        }
    }

    /// Forgets settings that were just changed through this router.
    pub(crate) async fn forget(&self, tenant: &str) {
        self.fresh.invalidate(tenant).await;
        self.stale.invalidate(tenant).await;
    }
}

/// The settings of a tenant; empty ones for a tenant that has set none.
pub(crate) async fn read(nodes: &Nodes, tenant: &str, deadline: Deadline) -> Answer<ScoringRow> {
    let mut rows: Vec<ScoringRow> = nodes.read_meta(What::Scoring(tenant.to_owned()), deadline).await?;
    match (rows.pop(), rows.is_empty()) {
        (row, true) => {
            Ok(row.unwrap_or_else(|| ScoringRow { tenant: tenant.to_owned(), ..ScoringRow::default() }))
        }
        _ => Err(Problem::new(ErrorCode::Internal, "a node answered several rows of one tenant")),
    }
}
