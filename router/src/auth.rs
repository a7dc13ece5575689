//! From the `Authorization` header to what the caller may do. The tenant comes from here alone.

use crate::api_key::{ApiKey, refused};
use crate::collections::cache::Collection;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, now_us};
use crate::nodes::Nodes;
use crate::shared::Shared;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;
use holdfast_core::access::{Access, ApiKeyRow, Rights};
use holdfast_core::collection::CollectionRow;
use holdfast_core::space::SpaceKey;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::read_meta_request::What;
use moka::Expiry;
use moka::future::Cache;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a key that exists is believed without asking: a revocation is noticed within this time.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// How long a key that does not exist is remembered, so that guesses do not reach the meta group.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How long after it was read a key that was valid is believed while the meta group does not answer,
/// so that a change of its leader does not lock everybody out.
const STALE_FOR: Duration = Duration::from_secs(60);
/// How long a key that is believed anyway may wait to be read again.
const REFRESH_MAX: Duration = Duration::from_millis(500);
const KEYS_MAX: u64 = 100_000;

/// The rows of API keys, read through from the meta group.
pub(crate) struct KeyCache {
    /// What is believed without asking, be it that there is no such key.
    fresh: Cache<String, Option<Known>>,
    /// What was last read, for the time in which reading fails.
    stale: Cache<String, Known>,
}

/// A row and the moment at which it was asked for. The two stay together wherever they go, so that
/// nothing but another read makes a row younger.
#[derive(Clone)]
struct Known {
    row: Arc<ApiKeyRow>,
    read_at: Instant,
}

impl Known {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.read_at) < STALE_FOR
    }
}

struct Lifetime;

impl Expiry<String, Option<Known>> for Lifetime {
    fn expire_after_create(&self, _: &String, known: &Option<Known>, _: Instant) -> Option<Duration> {
        Some(if known.is_some() { KNOWN_FOR } else { UNKNOWN_FOR })
    }
}

impl KeyCache {
    pub(crate) fn new() -> Self {
        Self {
            fresh: Cache::builder().max_capacity(KEYS_MAX).expire_after(Lifetime).build(),
            stale: Cache::builder().max_capacity(KEYS_MAX).time_to_live(STALE_FOR).build(),
        }
    }

    /// The row of a key.
    async fn row(&self, nodes: &Nodes, id: &str, deadline: Deadline) -> Answer<Option<Arc<ApiKeyRow>>> {
        let read = |is_known: bool| async move {
            // Who was let in a moment ago does not wait long for the meta group.
            let limit = if is_known { REFRESH_MAX.min(deadline.left()) } else { deadline.left() };
            let mut rows: Vec<ApiKeyRow> =
                nodes.read_meta(What::ApiKey(id.to_owned()), Deadline::after(limit)).await?;
            Ok(rows.pop())
        };
        self.row_at(Instant::now(), id, read).await
    }

    /// The row of a key at `now`. Requests with the same key that come together read it once; `read`
    /// is told whether there is a row to fall back on.
    async fn row_at<F>(
        &self,
        now: Instant,
        id: &str,
        read: impl FnOnce(bool) -> F,
    ) -> Answer<Option<Arc<ApiKeyRow>>>
    where
        F: Future<Output = Answer<Option<ApiKeyRow>>>,
    {
        let known = self.stale.get(id).await.filter(|known| known.holds(now));
        if self.fresh.get(id).await.flatten().is_some_and(|fresh| !fresh.holds(now)) {
            self.fresh.invalidate(id).await;
        }
        let ask = async {
            let known = read(known.is_some()).await?.map(|row| Known { row: Arc::new(row), read_at: now });
            match &known {
                Some(known) => self.stale.insert(id.to_owned(), known.clone()).await,
                None => self.stale.invalidate(id).await,
            }
            Ok::<_, Problem>(known)
        };
        let believed = match (self.fresh.try_get_with_by_ref(id, ask).await, known) {
            (Ok(known), _) => known,
            (Err(_), Some(known)) => {
                tracing::warn!(key = id, "the meta group does not answer; the key is believed as it was");
                // Asked again after a while, not by every request. What another request has read in
                // the meantime is newer and stays.
                self.fresh.entry_by_ref(id).or_insert(Some(known)).await.into_value()
            }
            (Err(problem), None) => return Err(Problem::clone(&problem)),
        };
        Ok(believed.map(|known| known.row))
    }

    /// Forgets the keys of a tenant that is being erased.
    pub(crate) async fn forget_tenant(&self, tenant: &str) {
        let fresh = self.fresh.iter().filter_map(|(id, known)| Some((id, known?)));
        let its = fresh.chain(self.stale.iter()).filter(|(_, known)| known.row.tenant == tenant);
        let ids: Vec<Arc<String>> = its.map(|(id, _)| id).collect();
        for id in ids {
            self.forget(&id).await;
        }
    }

    /// Forgets a key that was just created or revoked through this router.
    pub(crate) async fn forget(&self, id: &str) {
        self.fresh.invalidate(id).await;
        self.stale.invalidate(id).await;
    }
}

/// A caller whose credential was checked.
pub(crate) struct Caller {
    pub(crate) access: Access,
    /// The key that it came with.
    pub(crate) key: Arc<ApiKeyRow>,
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
            let detail = "no credential; send Authorization: Bearer hf_<id>_<secret>";
            return Err(Problem::new(ErrorCode::Unauthenticated, detail));
        };
        let text = value.to_str().unwrap_or_default();
        let (scheme, text) = text.split_once(' ').unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(refused().into());
        }
        let key = ApiKey::parse(text.trim()).ok_or_else(refused)?;
        let deadline = Deadline::after(shared.config.read_timeout);
        let row = shared.keys.row(&shared.nodes, &key.id, deadline).await?;
        let row = row.filter(|row| key.opens(row, now_us())).ok_or_else(refused)?;
        Ok(Self::new(row))
    }
}

impl Caller {
    pub(crate) fn new(key: Arc<ApiKeyRow>) -> Self {
        let access = Access { tenant: key.tenant.clone(), user: key.user.clone(), rights: key.rights };
        Self { access, key }
    }

    /// The caller's access, if it has these rights at all.
    pub(crate) fn require(self, rights: Rights) -> Answer<Access> {
        self.access.require(rights)?;
        Ok(self.access)
    }
}

/// A space as callers name it, with all of its partitions.
#[derive(Clone)]
pub(crate) enum Place {
    User(SpaceKey),
    Collection(Arc<Collection>),
}

impl Place {
    /// The first partition: of a user the only one, of a collection the one that holds facts, entities and
    /// all else that is not cut.
    pub(crate) fn first(&self) -> Answer<SpaceKey> {
        match self {
            Self::User(space) => Ok(space.clone()),
            Self::Collection(row) => Ok(row.space(0)?),
        }
    }

    /// All partitions, in order.
    pub(crate) fn partitions(&self) -> Answer<Vec<SpaceKey>> {
        match self {
            Self::User(space) => Ok(vec![space.clone()]),
            Self::Collection(row) => Ok(row.spaces()?),
        }
    }

    pub(crate) fn collection(&self) -> Option<&CollectionRow> {
        match self {
            Self::User(_) => None,
            Self::Collection(collection) => Some(&collection.row),
        }
    }

    /// How long a new memory lives here for which no end is given, in microseconds.
    pub(crate) fn retention_us(&self) -> Option<i64> {
        let Self::Collection(collection) = self else { return None };
        let ttl_s = collection.settings.retention_s?;
        Some(i64::try_from(ttl_s).unwrap_or(i64::MAX).saturating_mul(1_000_000))
    }
}

/// A caller in the space that the path names: `/v1/users/{user}/…`, its own under `/v1/me/…`, or
/// `/v1/collections/{name}/…`.
pub(crate) struct InSpace {
    access: Access,
    place: Place,
    /// Its first partition.
    space: SpaceKey,
}

impl FromRequestParts<Arc<Shared>> for InSpace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let Caller { access, .. } = Caller::from_request_parts(parts, shared).await?;
        if let Some(name) = path_param(parts, "name").await? {
            let deadline = Deadline::after(shared.config.read_timeout);
            let row = shared.collections.of(&shared.nodes, &access.tenant, &name, deadline).await?;
            let space = row.space(0)?;
            return Ok(Self { access, place: Place::Collection(row), space });
        }
        let user = match path_param(parts, "user").await? {
            Some(user) => user,
            None => access.user.clone().ok_or_else(|| {
                let detail = "/v1/me stands for the user that a key is bound to, and this key is bound to none; \
                              use /v1/users/{user}";
                Error::new(ErrorCode::InvalidArgument, detail)
            })?,
        };
        let space = SpaceKey::user(&access.tenant, &user)?;
        Ok(Self { access, place: Place::User(space.clone()), space })
    }
}

impl InSpace {
    /// As [`InSpace::require`], for a caller that goes on to something else.
    pub(crate) fn check(&self, needed: Rights) -> Answer<(&Access, &SpaceKey)> {
        self.access.check(&self.space, needed)?;
        Ok((&self.access, &self.space))
    }

    /// Access and the whole space, if the caller may do `needed` there.
    pub(crate) fn require_place(self, needed: Rights) -> Answer<(Access, Place)> {
        self.access.check(&self.space, needed)?;
        Ok((self.access, self.place))
    }

    /// Access and the first partition of the space, if the caller may do `needed` there.
    pub(crate) fn require(self, needed: Rights) -> Answer<(Access, SpaceKey)> {
        self.access.check(&self.space, needed)?;
        Ok((self.access, self.space))
    }
}

/// For what a write reads itself in order to be made, and of which its caller is shown nothing: nodes check
/// that who reads may read. The caller's right to write was checked.
pub(crate) fn own_reads(access: &Access) -> Access {
    Access { rights: access.rights.with(Rights::READ), ..access.clone() }
}

/// The last thing that the path names: the id of a memory, a key or a node.
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let id = path_param(parts, "id").await?.unwrap_or_default();
        holdfast_core::limits::check_id("id", &id)?;
        Ok(Self(id))
    }
}

/// The last thing that the path names, with what is to be done to it behind a colon: `human:insert`.
/// The action is empty where there is no colon.
pub(crate) struct PathAction {
    pub(crate) id: String,
    pub(crate) action: String,
}

impl<S: Send + Sync> FromRequestParts<S> for PathAction {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let text = path_param(parts, "id").await?.unwrap_or_default();
        let (id, action) = text.rsplit_once(':').unwrap_or((&text, ""));
        holdfast_core::limits::check_id("id", id)?;
        Ok(Self { id: id.to_owned(), action: action.to_owned() })
    }
}

/// One segment of the path, percent-decoded.
pub(crate) async fn path_param(parts: &mut Parts, name: &str) -> Answer<Option<String>> {
    let params = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| {
        Problem::invalid("path", "the path is not valid UTF-8 once its percent escapes are decoded")
    })?;
    Ok(params.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key() -> ApiKeyRow {
        crate::api_key::new_api_key("acme", None, Rights::READ, "", None).1
    }

    /// What a request gets `seconds` after `start`, when the read answers `read`.
    async fn ask(
        cache: &KeyCache,
        start: Instant,
        seconds: f64,
        read: Answer<Option<ApiKeyRow>>,
    ) -> Answer<Option<Arc<ApiKeyRow>>> {
        cache.row_at(start + Duration::from_secs_f64(seconds), "k", |_| std::future::ready(read)).await
    }

    fn silence() -> Answer<Option<ApiKeyRow>> {
        Err(Problem::new(ErrorCode::Unavailable, "no leader"))
    }

    #[tokio::test]
    async fn failed_reads_do_not_make_a_key_younger() {
        let (cache, start) = (KeyCache::new(), Instant::now());
        assert!(ask(&cache, start, 0.0, Ok(Some(key()))).await.unwrap().is_some());
        for second in 1..60 {
            // Every other time the row that is believed anyway is found, and no read is tried.
            if second % 2 == 0 {
                cache.fresh.invalidate("k").await;
            }
            assert!(ask(&cache, start, f64::from(second), silence()).await.unwrap().is_some(), "{second}");
        }
        for second in [60.0, 60.5, 61.0, 3600.0] {
            let problem = ask(&cache, start, second, silence()).await.unwrap_err();
            assert_eq!(problem.error.code, ErrorCode::Unavailable, "{second}");
        }
        // A read that succeeds begins the time anew.
        assert!(ask(&cache, start, 61.0, Ok(Some(key()))).await.unwrap().is_some());
        cache.fresh.invalidate("k").await;
        assert!(ask(&cache, start, 120.0, silence()).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_key_that_is_gone_is_not_believed() {
        let (cache, start) = (KeyCache::new(), Instant::now());
        assert!(ask(&cache, start, 0.0, Ok(Some(key()))).await.unwrap().is_some());
        cache.fresh.invalidate("k").await;
        assert!(ask(&cache, start, 1.0, Ok(None)).await.unwrap().is_none());
        cache.fresh.invalidate("k").await;
        assert!(ask(&cache, start, 2.0, silence()).await.is_err());
        assert!(ask(&cache, start, 3.0, silence()).await.is_err(), "a failure is not remembered");
    }
}
