//! `POST` and `GET /admin/v1/keys`, `DELETE /admin/v1/keys/{id}`.
//!
//! A key with the right `admin` manages the keys of its own tenant, one with the right `cluster`
//! those of every tenant. None gives what it does not have itself: not a right, not more time than
//! it has left (`invalid_argument` at `expires_at`, since another time is all that it takes), and,
//! if it is bound to a user, no key of anybody else. Nor does one revoke a key that can do more.

use crate::api_key::new_api_key;
use crate::auth::{Caller, PathId};
use crate::http::json::Bounded;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::http::{Body, NoBody, answer, json, query};
use crate::nodes::Safety;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use holdfast_core::access::{Access, ApiKeyRow, Rights};
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::limits::check_id;
use holdfast_core::space::Shard;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::KeysOf;
use holdfast_proto::v1::read_meta_request::What;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    /// The caller's own, if missing.
    tenant: Option<String>,
    user: Option<String>,
    /// Read and write, if missing.
    rights: Option<Bounded<String, 8>>,
    name: Option<String>,
    expires_at: Option<Time>,
}

#[derive(Serialize)]
struct KeyView {
    id: String,
    tenant: String,
    user: Option<String>,
    rights: Vec<&'static str>,
    name: String,
    created_at: Option<Time>,
    /// The id of the key that made it; `null` for the first of the cluster.
    created_by: Option<String>,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    /// The whole key, in the one answer that ever shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyView {
    fn new(row: ApiKeyRow, key: Option<String>) -> Self {
        Self {
            id: row.id,
            tenant: row.tenant,
            user: row.user,
            rights: row.rights.names(),
            name: row.name,
            created_at: Some(row.created_us).filter(|us| *us != 0).map(Time),
            created_by: row.created_by,
            expires_at: row.expires_us.map(Time),
            revoked_at: row.revoked_us.map(Time),
            key,
        }
    }
}

#[derive(Serialize)]
struct Keys {
    keys: Vec<KeyView>,
}

#[derive(Serialize)]
struct Revoked {
    id: String,
    status: &'static str,
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Body(body): Body,
) -> Answer<Response> {
    let key = caller.key.clone();
    let access = manager(caller)?;
    let (text, row) = wanted(&access, &key, json::body(&body)?)?;
    let command = Command::Meta(Box::new(MetaCommand::CreateKey(row.clone())));
    let deadline = Deadline::after(shared.config.write_timeout);
    match shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await {
        Ok(_) => {}
        // The id is 64 random bits: if it exists, an earlier attempt of this very call made it.
        Err(problem) if problem.error.code == ErrorCode::AlreadyExists => {}
        Err(problem) => return Err(problem),
    }
    shared.keys.forget(&row.id).await;
    answer(StatusCode::CREATED, &KeyView::new(row, Some(text)))
}

/// The key that is asked for, if the caller with the key `creator` may give it.
fn wanted(access: &Access, creator: &ApiKeyRow, body: KeyBody) -> Answer<(String, ApiKeyRow)> {
    let rights = wanted_rights(access, body.rights)?;
    let denied = |detail: &str| Problem::from(Error::new(ErrorCode::PermissionDenied, detail));
    let tenant = body.tenant.unwrap_or_else(|| access.tenant.clone());
    check_id("tenant", &tenant)?;
    if !access.rights.allows(Rights::CLUSTER) && tenant != access.tenant {
        return Err(denied("a key of another tenant needs the right cluster"));
    }
    if let Some(user) = &body.user {
        check_id("user", user)?;
    }
    // A user of the same name in another tenant is somebody else.
    if access.user.is_some() && (access.user != body.user || access.tenant != tenant) {
        return Err(denied("a key that is bound to a user can only make keys of that user"));
    }
    let name = body.name.unwrap_or_default();
    if !name.is_empty() {
        check_id("name", &name)?;
    }
    let expires_us = body.expires_at.map(|time| time.0);
    check_expiry(creator.expires_us, expires_us)?;
    let (text, row) = new_api_key(&tenant, body.user.as_deref(), rights, &name, expires_us);
    Ok((text, ApiKeyRow { created_by: Some(creator.id.clone()), ..row }))
}

/// Refuses a key that would outlive the one that makes it.
fn check_expiry(creator_us: Option<i64>, wanted_us: Option<i64>) -> Answer<()> {
    let Some(limit_us) = creator_us else { return Ok(()) };
    if wanted_us.is_some_and(|wanted_us| wanted_us <= limit_us) {
        return Ok(());
    }
    let limit = Time(limit_us);
    let detail =
        format!("the key that makes this one expires at {limit}; give expires_at, not later than that");
    Err(Problem::invalid("expires_at", detail))
}

fn wanted_rights(access: &Access, names: Option<Bounded<String, 8>>) -> Answer<Rights> {
    let mut rights = Rights::default();
    let names = names.map_or_else(|| vec!["read".to_owned(), "write".to_owned()], |names| names.0);
    for (at, name) in names.iter().enumerate() {
        let right = Rights::from_wire(name).ok_or_else(|| {
            Error::invalid(format!("rights[{at}]"), "a right is read, write, admin or cluster")
        })?;
        rights = rights.with(right);
    }
    if rights == Rights::default() {
        return Err(Problem::invalid("rights", "rights is empty; a key without rights opens nothing"));
    }
    if !access.rights.allows(rights) {
        let detail = "a key can only give rights that it has itself";
        return Err(Problem::new(ErrorCode::PermissionDenied, detail));
    }
    Ok(rights)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    tenant: Option<String>,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, caller: Caller, uri: Uri) -> Answer<Response> {
    let access = manager(caller)?;
    let params: ListParams = query::parse(&uri)?;
    let tenant = match params.tenant {
        None if access.rights.allows(Rights::CLUSTER) => None,
        None => Some(access.tenant.clone()),
        Some(tenant) if access.rights.allows(Rights::CLUSTER) || tenant == access.tenant => Some(tenant),
        Some(_) => {
            let detail = "the keys of another tenant need the right cluster";
            return Err(Problem::new(ErrorCode::PermissionDenied, detail));
        }
    };
    let deadline = Deadline::after(shared.config.read_timeout);
    let rows: Vec<ApiKeyRow> = shared.nodes.read_meta(What::KeysOf(KeysOf { tenant }), deadline).await?;
    let is_own = |row: &ApiKeyRow| row.user == access.user && row.tenant == access.tenant;
    let visible = rows.into_iter().filter(|row| access.user.is_none() || is_own(row));
    answer(StatusCode::OK, &Keys { keys: visible.map(|row| KeyView::new(row, None)).collect() })
}

pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(id): PathId,
    _: NoBody,
) -> Answer<Response> {
    let access = manager(caller)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    if access.user.is_some() {
        let rows: Vec<ApiKeyRow> = shared.nodes.read_meta(What::ApiKey(id.clone()), deadline).await?;
        if !rows.iter().any(|row| row.user == access.user && row.tenant == access.tenant) {
            return Err(Problem::new(ErrorCode::NotFound, "there is no key with this id"));
        }
    }
    let tenant = (!access.rights.allows(Rights::CLUSTER)).then(|| access.tenant.clone());
    let command =
        Command::Meta(Box::new(MetaCommand::RevokeKey { id: id.clone(), tenant, by: access.rights }));
    // Revoking twice is revoking once.
    shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await?;
    shared.keys.forget(&id).await;
    answer(StatusCode::OK, &Revoked { id, status: "revoked" })
}

/// A caller that manages keys, of its tenant or of all.
fn manager(caller: Caller) -> Answer<Access> {
    let is_cluster = caller.access.rights.allows(Rights::CLUSTER);
    caller.require(if is_cluster { Rights::CLUSTER } else { Rights::ADMIN })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    /// What a key with these rights, user and expiry gets when it asks for `body`.
    fn ask(rights: Rights, user: Option<&str>, expires_us: Option<i64>, body: Value) -> Answer<ApiKeyRow> {
        let (_, creator) = new_api_key("acme", user, rights, "", expires_us);
        let caller = Caller::new(Arc::new(creator.clone()));
        let body = json::body(body.to_string().as_bytes()).unwrap();
        let (_, row) = wanted(&caller.access, &creator, body)?;
        assert_eq!(row.created_by.as_deref(), Some(creator.id.as_str()));
        Ok(row)
    }

    fn code(rights: Rights, user: Option<&str>, body: Value) -> Option<ErrorCode> {
        ask(rights, user, None, body).err().map(|problem| problem.error.code)
    }

    #[test]
    fn nobody_gives_more_than_they_have() {
        let admin = Rights::READ.with(Rights::ADMIN);
        let denied = Some(ErrorCode::PermissionDenied);
        let invalid = Some(ErrorCode::InvalidArgument);
        assert_eq!(code(admin, None, json!({"rights": ["read"]})), None);
        assert_eq!(code(admin, None, json!({"rights": ["read", "write"]})), denied);
        assert_eq!(code(admin, None, json!({"rights": ["cluster"]})), denied);
        assert_eq!(code(admin, None, json!({"rights": ["read"], "tenant": "other"})), denied);
        assert_eq!(code(admin, Some("ann"), json!({"rights": ["read"]})), denied);
        assert_eq!(code(admin, Some("ann"), json!({"rights": ["read"], "user": "ann"})), None);
        assert_eq!(code(Rights::ALL, None, json!({"tenant": "other", "rights": ["cluster"]})), None);
        assert_eq!(code(Rights::CLUSTER, None, json!({"tenant": "other", "rights": ["read"]})), denied);
        assert_eq!(code(Rights::ALL, None, json!({"rights": []})), invalid);
        assert_eq!(code(Rights::ALL, None, json!({"rights": ["root"]})), invalid);
        assert_eq!(code(Rights::ALL, None, json!({"user": "a\n"})), invalid);
    }

    #[test]
    fn a_bound_key_makes_keys_of_its_own_user_alone() {
        let denied = Some(ErrorCode::PermissionDenied);
        for body in [
            json!({}),
            json!({"user": "bob"}),
            json!({"user": "Ann"}),
            json!({"user": null}),
            json!({"user": "ann", "tenant": "other"}),
        ] {
            assert_eq!(code(Rights::ALL, Some("ann"), body.clone()), denied, "{body}");
        }
        assert_eq!(code(Rights::ALL, Some("ann"), json!({"user": "ann", "tenant": "acme"})), None);
    }

    #[test]
    fn no_key_outlives_the_one_that_made_it() {
        let limit = Time::parse("2030-01-01T00:00:00Z").unwrap().0;
        for body in [
            json!({}),
            json!({"expires_at": null}),
            json!({"expires_at": "2030-01-01T00:00:00.000001Z"}),
            json!({"expires_at": "2029-12-31T23:59:59-08:00"}),
            json!({"expires_at": "9999-01-01T00:00:00Z"}),
        ] {
            let error = ask(Rights::ALL, None, Some(limit), body.clone()).unwrap_err().error;
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{body}");
            assert_eq!(error.field.as_deref(), Some("expires_at"), "{body}");
            assert!(error.detail.contains("2030-01-01T00:00:00.000000Z"), "{}", error.detail);
        }
        for time in ["2030-01-01T00:00:00Z", "2029-06-01T00:00:00+08:00"] {
            let row = ask(Rights::ALL, None, Some(limit), json!({"expires_at": time})).unwrap();
            assert_eq!(row.expires_us, Some(Time::parse(time).unwrap().0));
        }
        assert_eq!(ask(Rights::ALL, None, None, json!({})).unwrap().expires_us, None);
    }
}
