//! What `/admin/v1/verify` answers; printed again with `--json`.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verified {
    pub(super) equal: Option<bool>,
    pub(super) done: bool,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) group: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) point: Option<u64>,
    pub(super) equal: Option<bool>,
    pub(super) done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) replicas: Vec<Replica>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replica {
    pub(super) node: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quarantine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<Check>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spaces: Option<Check>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Check {
    pub(super) state: String,
    pub(super) done: u64,
    pub(super) total: u64,
    pub(super) index: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
}

impl Verified {
    /// The answers for single groups as one.
    pub(super) fn of(groups: Vec<Group>) -> Self {
        let equal = match () {
            () if groups.iter().any(|group| group.equal == Some(false)) => Some(false),
            () if groups.is_empty() || groups.iter().any(|group| group.equal.is_none()) => None,
            () => Some(true),
        };
        Self { equal, done: groups.iter().all(|group| group.done), groups }
    }
}

impl Group {
    /// The hash of most replicas, if there is a majority.
    pub(super) fn majority(&self) -> Option<&str> {
        let hashes = || self.replicas.iter().filter_map(|replica| replica.hash.as_deref());
        let count = |hash: &str| hashes().filter(|other| *other == hash).count();
        hashes().find(|hash| count(hash) > self.replicas.len() / 2)
    }
}
