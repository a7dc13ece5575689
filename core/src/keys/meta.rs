//! Rows of the meta group. Key: `0xFFF0 . kind u8 . id`. Values: [`ClusterRow`], [`TenantRow`],
//! [`ApiKeyRow`], [`FactRulesRow`](crate::facts::own::FactRulesRow),
//! [`CollectionRow`](crate::collection::CollectionRow), [`CollectionSettings`](crate::collection::CollectionSettings). Small and few; nothing on the data path writes them.

use super::{META_ROWS, prefixed};
use crate::access::ApiKeyRow;
use crate::codec::{CodecError, Stored};

const CLUSTER: u8 = 1;
const TENANT: u8 = 2;
const API_KEY: u8 = 3;
const FACT_RULES: u8 = 4;
const COLLECTION: u8 = 5;
const COLLECTION_SETTINGS: u8 = 7;
const SCORING: u8 = 9;

fn row(kind: u8, id: &str) -> Vec<u8> {
    let mut key = prefixed(META_ROWS, &[kind]);
    key.extend_from_slice(id.as_bytes());
    key
}

/// The key of the one [`ClusterRow`].
pub fn cluster() -> Vec<u8> {
    row(CLUSTER, "")
}

/// The key of a [`TenantRow`].
pub fn tenant(id: &str) -> Vec<u8> {
    row(TENANT, id)
}

/// The prefix of all tenants.
pub fn tenants() -> Vec<u8> {
    row(TENANT, "")
}

/// The key of an [`ApiKeyRow`], by the public id of the API key.
pub fn api_key(id: &str) -> Vec<u8> {
    row(API_KEY, id)
}

/// The key of a [`FactRulesRow`](crate::facts::own::FactRulesRow), by its tenant.
pub fn fact_rules(tenant: &str) -> Vec<u8> {
    row(FACT_RULES, tenant)
}

/// The key of a [`ScoringRow`](crate::score::own::ScoringRow), by its tenant.
pub fn scoring(tenant: &str) -> Vec<u8> {
    row(SCORING, tenant)
}

/// The prefix of all API keys.
pub fn api_keys() -> Vec<u8> {
    row(API_KEY, "")
}

/// The key of a [`CollectionRow`](crate::collection::CollectionRow): its tenant, `\0`, its name.
pub fn collection(tenant: &str, name: &str) -> Vec<u8> {
    let mut key = collections(tenant);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The prefix of all collections of a tenant. Names hold no `\0`, so no tenant's is another one's.
pub fn collections(tenant: &str) -> Vec<u8> {
    let mut key = row(COLLECTION, tenant);
    key.push(0);
    key
}

/// The key of a [`CollectionSettings`](crate::collection::CollectionSettings): its tenant, `\0`, its name.
pub fn collection_settings(tenant: &str, name: &str) -> Vec<u8> {
    let mut key = settings_of_collections(tenant);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The prefix of the settings of all collections of a tenant.
pub fn settings_of_collections(tenant: &str) -> Vec<u8> {
    let mut key = row(COLLECTION_SETTINGS, tenant);
    key.push(0);
    key
}

/// Whether a row is a tenant's: the tenant's own, or that of a key, of rules or of a collection of it.
///
/// # Errors
/// If it is that of a key and cannot be read.
pub(super) fn is_of(key: &[u8], value: &[u8], tenant: &str) -> Result<bool, CodecError> {
    match key.get(2) {
        Some(&TENANT) => Ok(key == self::tenant(tenant)),
        Some(&API_KEY) => Ok(ApiKeyRow::decode(value)?.tenant == tenant),
        Some(&FACT_RULES) => Ok(key == fact_rules(tenant)),
        Some(&SCORING) => Ok(key == scoring(tenant)),
        Some(&COLLECTION) => Ok(key.starts_with(&collections(tenant))),
        Some(&COLLECTION_SETTINGS) => Ok(key.starts_with(&settings_of_collections(tenant))),
        _ => Ok(false),
    }
}
