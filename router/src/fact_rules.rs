//! The rules by which facts are found in a tenant's texts, read through from the meta group.

use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::Nodes;
use holdfast_core::ErrorCode;
use holdfast_core::facts::extract::Rules;
use holdfast_core::facts::own::FactRulesRow;
use holdfast_core::facts::registry::Registry;
use holdfast_proto::v1::read_meta_request::What;
use moka::future::Cache;
use std::sync::Arc;
use std::time::Duration;

/// How long rules are taken for current without asking: a change made through another router is
/// noticed within this time.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long rules are gone by while the meta group does not answer.
const STALE_FOR: Duration = Duration::from_secs(3_600);
/// How long one who has rules to fall back on waits for the meta group.
const REFRESH_MAX: Duration = Duration::from_millis(500);
const TENANTS_MAX: u64 = 10_000;

/// Rules that were read, ready for use.
#[derive(Debug)]
pub(crate) struct FactRules {
    pub(crate) rules: Rules,
    pub(crate) registry: Registry,
}

impl FactRules {
    /// Those of a tenant that has none of its own.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(crate) fn built_in() -> Self {
        Self::new(&FactRulesRow::default()).unwrap()
    }

    /// # Errors
    /// If the row was written by a version with other bounds.
    pub(crate) fn new(row: &FactRulesRow) -> Result<Self, holdfast_core::Error> {
        let (rules, registry) = row.compile()?;
        Ok(Self { rules, registry })
    }
}

/// The rules of the tenants that write through this router.
pub(crate) struct FactRulesCache {
    fresh: Cache<String, Arc<FactRules>>,
    /// What was last read, for the time in which reading fails.
    stale: Cache<String, Arc<FactRules>>,
}

impl FactRulesCache {
    pub(crate) fn new() -> Self {
        let cache = |keep| Cache::builder().max_capacity(TENANTS_MAX).time_to_live(keep).build();
        Self { fresh: cache(KNOWN_FOR), stale: cache(STALE_FOR) }
    }

    /// The rules of a tenant. Requests that come together read them once.
    pub(crate) async fn of(&self, nodes: &Nodes, tenant: &str, deadline: Deadline) -> Answer<Arc<FactRules>> {
        let known = self.stale.get(tenant).await;
        let limit = if known.is_some() { REFRESH_MAX.min(deadline.left()) } else { deadline.left() };
        let ask = async {
            let row = read(nodes, tenant, Deadline::after(limit)).await?;
            let rules = Arc::new(FactRules::new(&row)?);
            self.stale.insert(tenant.to_owned(), Arc::clone(&rules)).await;
            Ok::<_, Problem>(rules)
        };
        match (self.fresh.try_get_with_by_ref(tenant, ask).await, known) {
            (Ok(rules), _) => Ok(rules),
            (Err(_), Some(known)) => {
                tracing::warn!(
                    tenant,
                    "the meta group does not answer; facts are found by the rules of before"
                );
                // Asked again after a while, not by every request.
                self.fresh.insert(tenant.to_owned(), Arc::clone(&known)).await;
                Ok(known)
            }
            (Err(problem), None) => Err(Problem::clone(&problem)),
        }
    }

    /// Forgets rules that were just changed through this router.
    pub(crate) async fn forget(&self, tenant: &str) {
        self.fresh.invalidate(tenant).await;
        self.stale.invalidate(tenant).await;
    }
}

/// The row of a tenant's rules; an empty one for a tenant that has set none.
pub(crate) async fn read(nodes: &Nodes, tenant: &str, deadline: Deadline) -> Answer<FactRulesRow> {
    let mut rows: Vec<FactRulesRow> = nodes.read_meta(What::FactRules(tenant.to_owned()), deadline).await?;
    match (rows.pop(), rows.is_empty()) {
        (row, true) => {
            Ok(row.unwrap_or_else(|| FactRulesRow { tenant: tenant.to_owned(), ..FactRulesRow::default() }))
        }
        _ => Err(Problem::new(ErrorCode::Internal, "a node answered several rows of one tenant")),
    }
}
