//! Memories of a space: one file per call, and what they share.

pub(crate) mod add;
mod batch;
mod chunks;
pub(crate) mod delete;
pub(crate) mod derive;
pub(crate) mod draft;
pub(crate) mod embedding;
pub(crate) mod get;
mod hints;
pub(crate) mod history;
mod homes;
pub(crate) mod infer;
pub(crate) mod list;
pub(crate) mod locate;
mod parse;
pub(crate) mod patch;
pub(crate) mod view;

pub(crate) use batch::other_model;

use crate::http::problem::{Answer, Problem};
use crate::nodes::Written;
use holdfast_core::outcome::ItemOutcome;
use holdfast_core::{Error, ErrorCode};
use serde::Serialize;

/// What became of one item of a write, as callers see it.
#[derive(Debug, Serialize)]
pub(crate) struct ItemResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    pub(crate) status: &'static str,
    /// Why it was rejected: a sentence, the code and the field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    /// Ids of the memories whose place it took.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) supersedes: Vec<String>,
    /// Ids of the memories that it overrides for a while.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) overrides: Vec<String>,
    /// Ids of the memories that may contradict it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) possible_conflicts: Vec<String>,
}

impl ItemResult {
    /// An item that was not stored.
    pub(crate) fn rejected(id: Option<String>, error: &Error) -> Self {
        Self {
            id,
            version: None,
            status: "rejected",
            reason: Some(error.detail.clone()),
            code: Some(error.code.as_str()),
            field: error.field.clone(),
            supersedes: Vec::new(),
            overrides: Vec::new(),
            possible_conflicts: Vec::new(),
        }
    }
}

impl From<ItemOutcome> for ItemResult {
    fn from(item: ItemOutcome) -> Self {
        let id = Some(item.id).filter(|id| !id.is_empty());
        match &item.reason {
            Some(error) => Self::rejected(id, error),
            None => Self {
                id,
                version: Some(item.version),
                status: item.status.as_str(),
                reason: None,
                code: None,
                field: None,
                supersedes: item.supersedes,
                overrides: item.overrides,
                possible_conflicts: item.possible_conflicts,
            },
        }
    }
}

/// The one item of a write that has one.
pub(crate) fn single(written: &mut Written) -> Answer<ItemOutcome> {
    match (written.items.pop(), written.items.is_empty()) {
        (Some(item), true) => Ok(item),
        _ => Err(Problem::new(ErrorCode::Internal, "a write of one memory was answered for another number")),
    }
}
