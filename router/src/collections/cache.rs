//! The rows of shared collections, read through from the meta group.

use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::Nodes;
use holdfast_core::collection::{CollectionRow, CollectionSettings};
use holdfast_core::limits::check_id;
use holdfast_core::space::SpaceKey;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::{CollectionName, IndexWish, read_meta_request::What};
use moka::future::Cache;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// How long a collection is taken to be there without asking: a deletion through another router is
/// noticed within this time.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// How long a collection is gone by while the meta group does not answer.
const STALE_FOR: Duration = Duration::from_secs(600);
/// How long one who has a row to fall back on waits for the meta group.
const REFRESH_MAX: Duration = Duration::from_millis(500);
const COLLECTIONS_MAX: u64 = 100_000;

/// Tenant and name.
type Key = (String, String);

/// A collection, with what of it may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(crate) row: CollectionRow,
    pub(crate) settings: CollectionSettings,
}

impl Deref for Collection {
    type Target = CollectionRow;

    fn deref(&self) -> &CollectionRow {
        &self.row
    }
}

/// The collections that are used through this router. That there is none of a name is not remembered: one
/// that another router has just made would be missed.
///
/// An old row leads to the partitions of its own incarnation and never to those of a later one.
pub(crate) struct CollectionCache {
    fresh: Cache<Key, Arc<Collection>>,
    /// What was last read, for the time in which reading fails.
    stale: Cache<Key, Arc<Collection>>,
}

impl CollectionCache {
    pub(crate) fn new() -> Self {
        Self {
            fresh: Cache::builder().max_capacity(COLLECTIONS_MAX).time_to_live(KNOWN_FOR).build(),
            stale: Cache::builder().max_capacity(COLLECTIONS_MAX).time_to_live(STALE_FOR).build(),
        }
    }

    /// A collection of a tenant. Requests that come together read it once.
    ///
    /// # Errors
    /// `not_found` if there is none of this name.
    pub(crate) async fn of(
        &self,
        nodes: &Nodes,
        tenant: &str,
        name: &str,
        deadline: Deadline,
    ) -> Answer<Arc<Collection>> {
        check_id("collection", name)?;
        let key = (tenant.to_owned(), name.to_owned());
        let known = self.stale.get(&key).await;
        let limit = if known.is_some() { REFRESH_MAX.min(deadline.left()) } else { deadline.left() };
        let ask = async {
            let within = Deadline::after(limit);
            let row = read(nodes, tenant, name, within).await?;
            let Some(row) = row.filter(|row| row.deleted.is_none()) else {
                self.stale.invalidate(&key).await;
                return Err(no_such_collection());
            };
            let settings = read_settings(nodes, &row, within).await?;
            let row = Arc::new(Collection { row, settings });
            self.stale.insert(key.clone(), Arc::clone(&row)).await;
            Ok::<_, Problem>(row)
        };
        match (self.fresh.try_get_with_by_ref(&key, ask).await, known) {
            (Ok(row), _) => Ok(row),
            (Err(problem), Some(known)) if problem.error.code != ErrorCode::NotFound => {
                tracing::warn!(
                    tenant,
                    "the meta group does not answer; a collection is taken to be as it was"
                );
                // Asked again after a while, not by every request.
                Ok(self.fresh.entry_by_ref(&key).or_insert(known).await.into_value())
            }
            (Err(problem), _) => Err(Problem::clone(&problem)),
        }
    }

    /// Which index shall answer recalls over a space, if it is a partition of a collection that is known here.
    pub(crate) async fn index_of(&self, space: &SpaceKey) -> Option<IndexWish> {
        let key = (space.tenant().to_owned(), space.collection()?.to_owned());
        let known = self.stale.get(&key).await?;
        let CollectionSettings { index, version, .. } = known.settings;
        let is_it = known.space(space.partition()).is_ok_and(|known| known == *space);
        (version > 0 && is_it).then(|| IndexWish { kind: index.as_str().to_owned(), version })
    }

    /// Forgets one that was just made or deleted through this router.
    pub(crate) async fn forget(&self, tenant: &str, name: &str) {
        let key = (tenant.to_owned(), name.to_owned());
        self.fresh.invalidate(&key).await;
        self.stale.invalidate(&key).await;
    }
}

/// The one answer to a name that there is no collection of, whether there ever was.
pub(super) fn no_such_collection() -> Problem {
    let detail = "there is no such collection; make it first with PUT /v1/collections/{name}";
    Error::new(ErrorCode::NotFound, detail).at("collection").into()
}

/// The row of a name, that of a deleted collection too.
pub(super) async fn read(
    nodes: &Nodes,
    tenant: &str,
    name: &str,
    deadline: Deadline,
) -> Answer<Option<CollectionRow>> {
    let of = CollectionName { tenant: tenant.to_owned(), name: name.to_owned() };
    let mut rows: Vec<CollectionRow> = nodes.read_meta(What::Collection(of), deadline).await?;
    match (rows.pop(), rows.is_empty()) {
        (row, true) => Ok(row),
        _ => Err(Problem::new(ErrorCode::Internal, "a node answered several rows of one collection")),
    }
}

/// What of a collection may change, as it is now.
pub(super) async fn read_settings(
    nodes: &Nodes,
    row: &CollectionRow,
    deadline: Deadline,
) -> Answer<CollectionSettings> {
    let of = CollectionName { tenant: row.tenant.clone(), name: row.name.clone() };
    let rows: Vec<CollectionSettings> = nodes.read_meta(What::CollectionSettings(of), deadline).await?;
    Ok(of_row(row, rows.into_iter().next()))
}

/// The settings of a collection, by what is stored under its name.
pub(super) fn of_row(row: &CollectionRow, stored: Option<CollectionSettings>) -> CollectionSettings {
    let own = stored.filter(|settings| settings.incarnation == row.incarnation);
    own.unwrap_or_else(|| CollectionSettings {
        tenant: row.tenant.clone(),
        name: row.name.clone(),
        incarnation: row.incarnation,
        ..CollectionSettings::default()
    })
}
