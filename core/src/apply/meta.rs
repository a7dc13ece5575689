//! Changes of the cluster's own data.

use super::{ApplyError, Context, Step, tenant as erasing};
use crate::access::{ApiKeyRow, ClusterRow, Rights, TenantRow};
use crate::codec::Stored;
use crate::collection::{CollectionChange, CollectionRow, CollectionSettings, Deletion, Former};
use crate::command::MetaCommand;
use crate::facts::own::FactRulesRow;
use crate::keys::meta;
use crate::limits::{COLLECTION_KEEP_US, COLLECTIONS_MAX, IDEMPOTENCY_KEEP_US};
use crate::outcome::Outcome;
use crate::score::own::ScoringRow;
use crate::space::SHARDS_MAX;
use crate::state::State;
use crate::tenant::TENANTS_GOING_MAX;
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(context: &mut Context<'_, S>, command: &MetaCommand) -> Step<Outcome> {
    match command {
        MetaCommand::InitCluster { cluster_id, shards, tenant, key } => {
            if context.rows.read::<ClusterRow>(&meta::cluster())?.is_some() {
                return refuse(
                    ErrorCode::AlreadyExists,
                    "the cluster is initialised already; this happens once",
                );
            }
            if *shards == 0 || *shards > SHARDS_MAX {
                return refuse(ErrorCode::InvalidArgument, "a cluster has 1 to 256 shards");
            }
            let row = ClusterRow { cluster_id: *cluster_id, shards: *shards, created_us: context.now_us };
            context.rows.write(meta::cluster(), &row)?;
            create_tenant(context, tenant)?;
            create_key(context, key)
        }
        MetaCommand::CreateTenant(tenant) => create_tenant(context, tenant),
        MetaCommand::CreateKey(key) => create_key(context, key),
        MetaCommand::RevokeKey { id, tenant, by } => revoke_key(context, id, tenant.as_deref(), *by),
        MetaCommand::SetFactRules { rules, if_version } => set_fact_rules(context, rules, *if_version),
        MetaCommand::PutCollection(row) => put_collection(context, row),
        MetaCommand::DeleteCollection { tenant, name, incarnation, key_hash } => {
            delete_collection(context, &meta::collection(tenant, name), *incarnation, *key_hash)
        }
        MetaCommand::EraseTenant { tenant, id } => erase_tenant(context, tenant, id),
        MetaCommand::SetCollection(change) => set_collection(context, change),
        MetaCommand::SetScoring { scoring, if_version } => set_scoring(context, scoring, *if_version),
    }
}

fn refuse<T>(code: ErrorCode, detail: &str) -> Step<T> {
    Err(Error::new(code, detail).into())
}

fn create_tenant<S: State>(context: &mut Context<'_, S>, tenant: &TenantRow) -> Step<Outcome> {
    if erasing::is_erased(context, &tenant.id)? {
        let detail =
            "a tenant with this id was erased, or is being, and its id is not given again; choose another";
        return Err(Error::new(ErrorCode::Conflict, detail).at("id").into());
    }
    let key = meta::tenant(&tenant.id);
    if context.rows.read::<TenantRow>(&key)?.is_some() {
        return refuse(ErrorCode::AlreadyExists, "a tenant with this id exists");
    }
    context.rows.write(key, &TenantRow { created_us: context.now_us, ..tenant.clone() })?;
    Ok(Outcome::Done)
}

/// Whether there is such a tenant, to which something may be added.
fn check_tenant<S: State>(context: &Context<'_, S>, tenant: &str) -> Step<()> {
    if erasing::is_erased(context, tenant)? {
        return Err(erasing::gone().into());
    }
    if !context.rows.exists(&meta::tenant(tenant))? {
        return refuse(ErrorCode::NotFound, "there is no such tenant; create it first");
    }
    Ok(())
}

/// Begins the erasure of a tenant. Once more is the same.
fn erase_tenant<S: State>(context: &mut Context<'_, S>, tenant: &str, id: &str) -> Step<Outcome> {
    if erasing::is_erased(context, tenant)? {
        return Ok(Outcome::Done);
    }
    if !context.rows.exists(&meta::tenant(tenant))? {
        return Err(Error::new(ErrorCode::NotFound, "there is no tenant with this id").at("id").into());
    }
    if erasing::are_too_many(context)? {
        let detail = format!(
            "{TENANTS_GOING_MAX} tenants are being erased, the most at once; repeat it when one is gone"
        );
        return refuse(ErrorCode::Unavailable, &detail);
    }
    let cluster_keys = |of_it: bool| move |row: &ApiKeyRow| (row.tenant == tenant) == of_it;
    if is_cluster_key(context, cluster_keys(true))? && !is_cluster_key(context, cluster_keys(false))? {
        return refuse(
            ErrorCode::Conflict,
            "the last key that manages the cluster is this tenant's; make another one for another tenant first",
        );
    }
    erasing::begin(context, tenant, id)?;
    Ok(Outcome::Done)
}

fn set_fact_rules<S: State>(
    context: &mut Context<'_, S>,
    rules: &FactRulesRow,
    if_version: Option<u64>,
) -> Step<Outcome> {
    check_tenant(context, &rules.tenant)?;
    let key = meta::fact_rules(&rules.tenant);
    let version = context.rows.read::<FactRulesRow>(&key)?.map_or(0, |before| before.version);
    if let Some(expected) = if_version.filter(|expected| *expected != version) {
        let detail = format!(
            "the rules have version {version}, not {expected}; read them again and repeat the change"
        );
        return Err(Error::new(ErrorCode::Conflict, detail).at("version").into());
    }
    let row = FactRulesRow { version: version + 1, updated_us: context.now_us, ..rules.clone() };
    context.rows.write(key, &row)?;
    Ok(Outcome::Done)
}

fn set_scoring<S: State>(
    context: &mut Context<'_, S>,
    scoring: &ScoringRow,
    if_version: Option<u64>,
) -> Step<Outcome> {
    check_tenant(context, &scoring.tenant)?;
    let key = meta::scoring(&scoring.tenant);
    let version = context.rows.read::<ScoringRow>(&key)?.map_or(0, |before| before.version);
    if let Some(expected) = if_version.filter(|expected| *expected != version) {
        let detail = format!(
            "the settings have version {version}, not {expected}; read them again and repeat the change"
        );
        return Err(Error::new(ErrorCode::Conflict, detail).at("version").into());
    }
    let row = ScoringRow { version: version + 1, updated_us: context.now_us, ..scoring.clone() };
    context.rows.write(key, &row)?;
    Ok(Outcome::Done)
}

fn create_key<S: State>(context: &mut Context<'_, S>, row: &ApiKeyRow) -> Step<Outcome> {
    check_tenant(context, &row.tenant)?;
    let key = meta::api_key(&row.id);
    if context.rows.read::<ApiKeyRow>(&key)?.is_some() {
        return refuse(ErrorCode::AlreadyExists, "a key with this id exists");
    }
    context.rows.write(key, &ApiKeyRow { created_us: context.now_us, revoked_us: None, ..row.clone() })?;
    Ok(Outcome::Done)
}

fn revoke_key<S: State>(
    context: &mut Context<'_, S>,
    id: &str,
    tenant: Option<&str>,
    by: Rights,
) -> Step<Outcome> {
    let key = meta::api_key(id);
    let row = context.rows.read::<ApiKeyRow>(&key)?;
    // A key of another tenant is answered like one that does not exist: no oracle.
    let Some(row) = row.filter(|row| tenant.is_none_or(|tenant| tenant == row.tenant)) else {
        return refuse(ErrorCode::NotFound, "there is no key with this id");
    };
    if !by.allows(row.rights) {
        return refuse(ErrorCode::PermissionDenied, "this key can do more than the one that would revoke it");
    }
    let is_living_cluster_key = row.revoked_us.is_none() && row.rights.allows(Rights::CLUSTER);
    if is_living_cluster_key && !is_cluster_key(context, |other| other.id != id)? {
        return refuse(
            ErrorCode::Conflict,
            "this is the last key that manages the cluster; make another one first",
        );
    }
    let revoked_us = row.revoked_us.or(Some(context.now_us));
    context.rows.write(key, &ApiKeyRow { revoked_us, ..row })?;
    Ok(Outcome::Done)
}

/// Whether a key that lives and lasts manages the cluster, among those that are `wanted`.
fn is_cluster_key<S: State>(context: &Context<'_, S>, wanted: impl Fn(&ApiKeyRow) -> bool) -> Step<bool> {
    const PAGE: usize = 256;
    let mut after: Option<Vec<u8>> = None;
    loop {
        let rows = context.rows.scan(&meta::api_keys(), after.as_deref(), PAGE)?;
        for (_, value) in &rows {
            let row = ApiKeyRow::decode(value).map_err(ApplyError::from)?;
            let lasts = row.revoked_us.is_none() && row.expires_us.is_none();
            let is_wanted = lasts && row.rights.allows(Rights::CLUSTER) && wanted(&row);
            // Those of a tenant that goes open nothing, be they there still.
            if is_wanted && !erasing::is_erased(context, &row.tenant)? {
                return Ok(true);
            }
        }
        if rows.len() < PAGE {
            return Ok(false);
        }
        after = rows.into_iter().next_back().map(|(key, _)| key);
    }
}

fn put_collection<S: State>(context: &mut Context<'_, S>, row: &CollectionRow) -> Step<Outcome> {
    check_tenant(context, &row.tenant)?;
    let key = meta::collection(&row.tenant, &row.name);
    let former = match context.rows.read::<CollectionRow>(&key)? {
        Some(known) => match known.deleted {
            None => return same_collection(&known, row),
            // The name of one that was deleted takes the same row. Keys of requests are remembered for a day.
            Some(Deletion { key_hash, at_us }) => {
                let is_known = context.now_us.saturating_sub(at_us) < IDEMPOTENCY_KEEP_US;
                let CollectionRow { incarnation, partitions, .. } = known;
                is_known.then_some(Former { incarnation, partitions, key_hash })
            }
        },
        None => {
            make_room_for_collection(context, &row.tenant)?;
            None
        }
    };
    let row = CollectionRow {
        created_us: context.now_us,
        incarnation: context.log_index,
        deleted: None,
        former,
        ..row.clone()
    };
    context.rows.write(key, &row)?;
    Ok(Outcome::Done)
}

/// Answers the wish for a collection that there is.
fn same_collection(known: &CollectionRow, wanted: &CollectionRow) -> Step<Outcome> {
    let changed = |field: &str, detail: String| Err(Error::new(ErrorCode::Conflict, detail).at(field).into());
    if known.partitions != wanted.partitions {
        let detail = format!(
            "this collection has {} partitions, which never change; leave partitions as they are, or make \
             another collection and import an export of this one there",
            known.partitions
        );
        return changed("partitions", detail);
    }
    if known.model != wanted.model {
        let held = known.model.as_ref().map_or("no vectors".to_owned(), |model| {
            format!("vectors of {} with {} dimensions", model.id, model.dims)
        });
        return changed("embedding_model", format!("this collection holds {held}, which never changes"));
    }
    Ok(Outcome::Done)
}

/// Forgets the name that was deleted first, where a tenant has as many rows as it may have.
fn make_room_for_collection<S: State>(context: &mut Context<'_, S>, tenant: &str) -> Step<()> {
    let rows = context.rows.scan(&meta::collections(tenant), None, COLLECTIONS_MAX)?;
    if rows.len() < COLLECTIONS_MAX {
        return Ok(());
    }
    let mut oldest: Option<(i64, Vec<u8>)> = None;
    for (key, value) in rows {
        let row = CollectionRow::decode(&value).map_err(ApplyError::from)?;
        let Some(Deletion { at_us, .. }) = row.deleted else { continue };
        let is_over = at_us.saturating_add(COLLECTION_KEEP_US) <= context.now_us;
        if is_over && oldest.as_ref().is_none_or(|(known_us, _)| at_us < *known_us) {
            oldest = Some((at_us, key));
        }
    }
    let Some((_, key)) = oldest else {
        let detail = format!(
            "this tenant has {COLLECTIONS_MAX} collections, the most there can be (those deleted within the last \
             hour count); delete one that is not needed"
        );
        return refuse(ErrorCode::QuotaExceeded, &detail);
    };
    context.rows.delete(&key)?;
    Ok(())
}

/// Changes what of a collection may change. Once more is the same, and makes no new version.
fn set_collection<S: State>(context: &mut Context<'_, S>, change: &CollectionChange) -> Step<Outcome> {
    check_tenant(context, &change.tenant)?;
    let row = context.rows.read::<CollectionRow>(&meta::collection(&change.tenant, &change.name))?;
    match row.filter(|row| row.deleted.is_none()) {
        None => return refuse(ErrorCode::NotFound, "there is no such collection"),
        Some(row) if row.incarnation != change.incarnation => {
            return refuse(
                ErrorCode::Conflict,
                "another collection has the name by now, and nothing of it was changed; read it, and decide again",
            );
        }
        Some(_) => {}
    }
    let key = meta::collection_settings(&change.tenant, &change.name);
    let known = context.rows.read::<CollectionSettings>(&key)?;
    let known = known.filter(|known| known.incarnation == change.incarnation).unwrap_or_default();
    let settings = CollectionSettings {
        tenant: change.tenant.clone(),
        name: change.name.clone(),
        incarnation: change.incarnation,
        index: change.index.unwrap_or(known.index),
        retention_s: change.retention_s.unwrap_or(known.retention_s),
        version: known.version,
    };
    if settings != known {
        context.rows.write(key, &CollectionSettings { version: context.log_index, ..settings })?;
    }
    Ok(Outcome::Done)
}

fn delete_collection<S: State>(
    context: &mut Context<'_, S>,
    key: &[u8],
    incarnation: u64,
    key_hash: u128,
) -> Step<Outcome> {
    match context.rows.read::<CollectionRow>(key)? {
        None => refuse(ErrorCode::NotFound, "there is no such collection"),
        Some(row) if row.incarnation != incarnation => refuse(
            ErrorCode::Conflict,
            "another collection has the name by now, and nothing of it was deleted; read it, and decide again",
        ),
        // Once more is the same.
        Some(row) if row.deleted.is_some() => Ok(Outcome::Done),
        Some(row) => {
            let deleted = Some(Deletion { at_us: context.now_us, key_hash });
            context.rows.delete(&meta::collection_settings(&row.tenant, &row.name))?;
            context.rows.write(key.to_vec(), &CollectionRow { deleted, ..row })?;
            Ok(Outcome::Done)
        }
    }
}
