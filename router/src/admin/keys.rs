//! `POST` and `GET /admin/v1/keys`, `DELETE /admin/v1/keys/{id}`.
//!
//! A key with the right `admin` manages the keys of its own tenant, one with the right `cluster`
//! those of every tenant. Neither gives a right that it does not have itself.

use crate::api_key::new_api_key;
use crate::auth::{Caller, PathId};
use crate::http::json::Bounded;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::http::{Body, answer, json, query};
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
    let access = manager(caller)?;
    let (text, row) = wanted(&access, json::body(&body)?)?;
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

/// The key that is asked for, if the caller may give it.
fn wanted(access: &Access, body: KeyBody) -> Answer<(String, ApiKeyRow)> {
    let mut rights = Rights::default();
    let names = body.rights.map_or_else(|| vec!["read".to_owned(), "write".to_owned()], |names| names.0);
    for (at, name) in names.iter().enumerate() {
        let right = Rights::from_wire(name).ok_or_else(|| {
            Error::invalid(format!("rights[{at}]"), "a right is read, write, admin or cluster")
        })?;
        rights = rights.with(right);
    }
    if rights == Rights::default() {
        return Err(Problem::invalid("rights", "rights is empty; a key without rights opens nothing"));
    }
    let denied = |detail: &str| Problem::from(Error::new(ErrorCode::PermissionDenied, detail));
    let is_cluster = access.rights.allows(Rights::CLUSTER);
    if !access.rights.allows(rights) {
        return Err(denied("a key can only give rights that it has itself"));
    }
    let tenant = body.tenant.unwrap_or_else(|| access.tenant.clone());
    check_id("tenant", &tenant)?;
    if !is_cluster && tenant != access.tenant {
        return Err(denied("a key of another tenant needs the right cluster"));
    }
    if let Some(user) = &body.user {
        check_id("user", user)?;
    }
    if access.user.is_some() && access.user != body.user {
        return Err(denied("a key that is bound to a user can only make keys of that user"));
    }
    let name = body.name.unwrap_or_default();
    if !name.is_empty() {
        check_id("name", &name)?;
    }
    Ok(new_api_key(&tenant, body.user.as_deref(), rights, &name, body.expires_at.map(|time| time.0)))
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
    let visible = rows.into_iter().filter(|row| access.user.is_none() || row.user == access.user);
    answer(StatusCode::OK, &Keys { keys: visible.map(|row| KeyView::new(row, None)).collect() })
}

pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(id): PathId,
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
    let command = Command::Meta(Box::new(MetaCommand::RevokeKey { id: id.clone(), tenant }));
    // Revoking twice is revoking once.
    shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await?;
    shared.keys.forget(&id).await;
    answer(StatusCode::OK, &Revoked { id, status: "revoked" })
}

/// A caller that manages keys, of its tenant or of all.
fn manager(Caller(access): Caller) -> Answer<Access> {
    if access.rights.allows(Rights::CLUSTER) {
        return Ok(access);
    }
    Caller(access).require(Rights::ADMIN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn code(rights: Rights, user: Option<&str>, body: Value) -> Option<ErrorCode> {
        let access = Access { tenant: "acme".into(), user: user.map(Into::into), rights };
        wanted(&access, json::body(body.to_string().as_bytes()).unwrap())
            .err()
            .map(|problem| problem.error.code)
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
}
