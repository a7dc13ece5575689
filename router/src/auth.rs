//! From the `Authorization` header to what the caller may do. The tenant comes from here alone.

use crate::api_key::{ApiKey, refused};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, now_us};
use crate::nodes::Nodes;
use crate::shared::Shared;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;
use holdfast_core::access::{Access, ApiKeyRow, Rights};
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
/// How long a key that was valid is believed while the meta group does not answer, so that a change
/// of its leader does not lock everybody out.
const STALE_FOR: Duration = Duration::from_secs(60);
/// How long a key that is believed anyway may wait to be read again.
const REFRESH_MAX: Duration = Duration::from_millis(500);
const KEYS_MAX: u64 = 100_000;

/// The rows of API keys, read through from the meta group.
pub(crate) struct KeyCache {
    fresh: Cache<String, Option<Arc<ApiKeyRow>>>,
    stale: Cache<String, Arc<ApiKeyRow>>,
}

struct Lifetime;

impl Expiry<String, Option<Arc<ApiKeyRow>>> for Lifetime {
    fn expire_after_create(&self, _: &String, row: &Option<Arc<ApiKeyRow>>, _: Instant) -> Option<Duration> {
        Some(if row.is_some() { KNOWN_FOR } else { UNKNOWN_FOR })
    }
}

impl KeyCache {
    pub(crate) fn new() -> Self {
        Self {
            fresh: Cache::builder().max_capacity(KEYS_MAX).expire_after(Lifetime).build(),
            stale: Cache::builder().max_capacity(KEYS_MAX).time_to_live(STALE_FOR).build(),
        }
    }

    /// The row of a key. Requests with the same key that come together read it once.
    async fn row(&self, nodes: &Nodes, id: &str, deadline: Deadline) -> Answer<Option<Arc<ApiKeyRow>>> {
        let known = self.stale.get(id).await;
        let read = async {
            // Who was let in a moment ago does not wait long for the meta group.
            let limit = known.as_ref().map_or(deadline.left(), |_| REFRESH_MAX.min(deadline.left()));
            let read = nodes.read_meta(What::ApiKey(id.to_owned()), Deadline::after(limit));
            let mut rows: Vec<ApiKeyRow> = read.await?;
            Ok::<_, Problem>(rows.pop().map(Arc::new))
        };
        match (self.fresh.try_get_with_by_ref(id, read).await, known) {
            (Ok(Some(row)), _) => {
                self.stale.insert(id.to_owned(), row.clone()).await;
                Ok(Some(row))
            }
            (Ok(None), _) => {
                self.stale.invalidate(id).await;
                Ok(None)
            }
            (Err(_), Some(row)) => {
                tracing::warn!(key = id, "the meta group does not answer; the key is believed as it was");
                // Asked again after a while, not by every request; the bound on its age stays.
                self.fresh.insert(id.to_owned(), Some(row.clone())).await;
                Ok(Some(row))
            }
            (Err(problem), None) => Err(Problem::clone(&problem)),
        }
    }

    /// Forgets a key that was just created or revoked through this router.
    pub(crate) async fn forget(&self, id: &str) {
        self.fresh.invalidate(id).await;
        self.stale.invalidate(id).await;
    }
}

/// A caller whose credential was checked.
pub(crate) struct Caller(pub(crate) Access);

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
        Ok(Self(Access { tenant: row.tenant.clone(), user: row.user.clone(), rights: row.rights }))
    }
}

impl Caller {
    /// The caller's access, if it has these rights at all.
    pub(crate) fn require(self, rights: Rights) -> Answer<Access> {
        self.0.require(rights)?;
        Ok(self.0)
    }
}

/// A caller in the space that the path names: `/v1/users/{user}/…`, or its own under `/v1/me/…`.
pub(crate) struct InSpace {
    access: Access,
    space: SpaceKey,
}

impl FromRequestParts<Arc<Shared>> for InSpace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let Caller(access) = Caller::from_request_parts(parts, shared).await?;
        let user = match path_param(parts, "user").await? {
            Some(user) => user,
            None => access.user.clone().ok_or_else(|| {
                let detail = "/v1/me stands for the user that a key is bound to, and this key is bound to none; \
                              use /v1/users/{user}";
                Error::new(ErrorCode::InvalidArgument, detail)
            })?,
        };
        let space = SpaceKey::user(&access.tenant, &user)?;
        Ok(Self { access, space })
    }
}

impl InSpace {
    /// Access and space, if the caller may do `needed` there.
    pub(crate) fn require(self, needed: Rights) -> Answer<(Access, SpaceKey)> {
        self.access.check(&self.space, needed)?;
        Ok((self.access, self.space))
    }
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

/// One segment of the path, percent-decoded.
pub(crate) async fn path_param(parts: &mut Parts, name: &str) -> Answer<Option<String>> {
    let params = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| {
        Problem::invalid("path", "the path is not valid UTF-8 once its percent escapes are decoded")
    })?;
    Ok(params.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned()))
}
