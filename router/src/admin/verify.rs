//! `GET /admin/v1/verify`: whether all replicas of every group hold the same rows, and whether what
//! they hold is what they wrote.
//!
//! Replicas are compared at one point of the log, which the leader proposes: so they can be compared
//! under any load. Reading all rows takes long; it runs on the nodes, which are asked for how far they
//! are as often as somebody calls again with the same point.

use crate::api_key::hex;
use crate::auth::Caller;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::{answer, query};
use crate::nodes::{NodeView, Safety};
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use futures::future::join_all;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::space::Shard;
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How often a group is asked again with a new point because a replica did not keep the hash at the
/// one before.
const ATTEMPTS: u32 = 3;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// One group alone: 0 is the meta group, 1..n are the shards.
    shard: Option<u16>,
    /// Read all rows and compare them with the hash that was kept.
    rows: Option<bool>,
    /// Compare images of spaces with the rows.
    index: Option<Images>,
    /// With `shard`: a point of an earlier answer, to hear how far its checks are.
    point: Option<u64>,
}

/// Which images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Images {
    #[default]
    None,
    /// Those that are in memory.
    Loaded,
    /// All, one after the other.
    All,
}

#[derive(Serialize)]
struct Verified {
    /// `true` if every group is equal on all nodes, `false` if one differs, `null` if some could
    /// not be compared.
    equal: Option<bool>,
    /// Whether every check that was asked for has ended.
    done: bool,
    groups: Vec<GroupVerified>,
}

#[derive(Serialize)]
struct GroupVerified {
    group: u16,
    /// The log index at which the replicas were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    point: Option<u64>,
    equal: Option<bool>,
    done: bool,
    /// Why there is no point.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    replicas: Vec<Replica>,
}

#[derive(Serialize)]
struct Replica {
    node: u64,
    /// How far it has applied its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    /// The hash at the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Why it is in quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spaces: Option<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Check {
    /// `waiting`, `running`, `equal`, `differs` or `failed`.
    state: &'static str,
    done: u64,
    total: u64,
    /// The log index to which it applies.
    index: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

impl From<v1::Check> for Check {
    fn from(check: v1::Check) -> Self {
        let state = match check.state() {
            v1::CheckState::Waiting => "waiting",
            v1::CheckState::Running => "running",
            v1::CheckState::Equal => "equal",
            v1::CheckState::Differs => "differs",
            v1::CheckState::Failed => "failed",
        };
        let v1::Check { done, total, index, detail, .. } = check;
        Self { state, done, total, index, detail }
    }
}

impl Check {
    fn has_ended(&self) -> bool {
        !matches!(self.state, "waiting" | "running")
    }
}

pub(super) async fn verify(State(shared): State<Arc<Shared>>, caller: Caller, uri: Uri) -> Answer<Response> {
    caller.require(Rights::CLUSTER)?;
    let params: Params = query::parse(&uri)?;
    if params.point.is_some() && params.shard.is_none() {
        return Err(Problem::invalid("point", "a point belongs to one group: name it with `shard`"));
    }
    let mut groups: Vec<Shard> = shared.nodes.groups().iter().map(|group| group.group).collect();
    if let Some(shard) = params.shard {
        groups.retain(|group| group.0 == shard);
        if groups.is_empty() {
            return Err(Problem::new(ErrorCode::NotFound, "there is no group with this number"));
        }
    }
    let deadline = Deadline::after(shared.config.write_timeout);
    let mut verified = Vec::new();
    for group in groups {
        verified.push(compare(&shared, group, params, deadline).await);
    }
    let equal = match () {
        () if verified.iter().any(|group| group.equal == Some(false)) => Some(false),
        () if verified.is_empty() || verified.iter().any(|group| group.equal.is_none()) => None,
        () => Some(true),
    };
    let done = verified.iter().all(|group| group.done);
    answer(StatusCode::OK, &Verified { equal, done, groups: verified })
}

async fn compare(shared: &Shared, group: Shard, params: Params, deadline: Deadline) -> GroupVerified {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let (point, error) = match params.point {
            Some(point) => (Some(point), None),
            None => match new_point(shared, group, deadline).await {
                Ok(point) => (Some(point), None),
                Err(problem) => (None, Some(problem.error.detail)),
            },
        };
        let rows = params.rows.unwrap_or(false);
        let spaces = match params.index.unwrap_or_default() {
            Images::None => v1::SpacesExtent::None,
            Images::Loaded => v1::SpacesExtent::Loaded,
            Images::All => v1::SpacesExtent::All,
        };
        let request = |deadline_ms| v1::VerifyRequest {
            group: u32::from(group.0),
            point: point.unwrap_or(0),
            rows,
            spaces: spaces.into(),
            deadline_ms,
        };
        let nodes = shared.nodes.nodes();
        let replicas: Vec<Replica> =
            join_all(nodes.into_iter().map(|node| ask(node, &request, deadline))).await;
        // One that answered without a hash has lost it: another point tells.
        let forgot = replicas.iter().any(|replica| replica.index.is_some() && replica.hash.is_none());
        if forgot && point.is_some() && params.point.is_none() && attempt < ATTEMPTS {
            continue;
        }
        let (equal, done) = verdict(&replicas);
        return GroupVerified { group: group.0, point, equal, done, error, replicas };
    }
}

/// Asking again only makes another point, which changes nothing.
async fn new_point(shared: &Shared, group: Shard, deadline: Deadline) -> Answer<u64> {
    let ask = |mut client: crate::nodes::Client, deadline_ms| async move {
        client.hash_point(v1::HashPointRequest { group: u32::from(group.0), deadline_ms }).await
    };
    Ok(shared.nodes.call(group, Safety::Read, deadline, ask).await?.index)
}

async fn ask(mut node: NodeView, request: &impl Fn(u32) -> v1::VerifyRequest, deadline: Deadline) -> Replica {
    let request = request(crate::http::time::millis(deadline.left()));
    let asked = tokio::time::timeout_at(deadline.at(), node.client.verify(request)).await;
    let mut replica = Replica {
        node: node.id,
        index: None,
        hash: None,
        version: None,
        quarantine: None,
        rows: None,
        spaces: None,
        error: None,
    };
    match asked {
        Ok(Ok(response)) => {
            let response = response.into_inner();
            replica.index = Some(response.visible);
            replica.hash = response.hash.map(|hash| hex(&hash));
            replica.version = Some(response.version);
            replica.quarantine = Some(response.quarantine).filter(|reason| !reason.is_empty());
            replica.rows = response.rows.map(Check::from);
            replica.spaces = response.spaces.map(Check::from);
        }
        Ok(Err(status)) => replica.error = Some(status.message().to_owned()),
        Err(_) => replica.error = Some("no answer in time".to_owned()),
    }
    replica
}

/// Two hashes that differ at one point are proof, whatever the others say; and so are rows that are
/// not those that were written. Equal are only replicas that were all compared. And whether all checks
/// have ended.
fn verdict(replicas: &[Replica]) -> (Option<bool>, bool) {
    let mut hashes = replicas.iter().filter_map(|replica| replica.hash.as_deref());
    let first = hashes.next();
    let differ = hashes.any(|hash| Some(hash) != first);
    let checks = || replicas.iter().flat_map(|replica| replica.rows.iter().chain(&replica.spaces));
    let damaged = checks().any(|check| check.state == "differs")
        || replicas.iter().any(|replica| replica.quarantine.is_some());
    let all_compared = !replicas.is_empty() && replicas.iter().all(|replica| replica.hash.is_some());
    let equal = match () {
        () if differ || damaged => Some(false),
        () if all_compared && checks().all(|check| check.state == "equal") => Some(true),
        () => None,
    };
    (equal, checks().all(Check::has_ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(hash: Option<&str>) -> Replica {
        Replica {
            node: 1,
            index: hash.map(|_| 5),
            hash: hash.map(str::to_owned),
            version: None,
            quarantine: None,
            rows: None,
            spaces: None,
            error: None,
        }
    }

    fn with_rows(state: &'static str) -> Replica {
        let check = Check { state, done: 0, total: 0, index: 0, detail: String::new() };
        Replica { rows: Some(check), ..replica(Some("a")) }
    }

    #[test]
    fn equal_is_only_what_was_compared_whole() {
        let at = |hashes: &[Option<&str>]| {
            verdict(&hashes.iter().map(|hash| replica(*hash)).collect::<Vec<_>>()).0
        };
        assert_eq!(at(&[Some("a"), Some("a"), Some("a")]), Some(true));
        assert_eq!(at(&[Some("a"), Some("a"), Some("b")]), Some(false));
        assert_eq!(at(&[Some("a"), None, Some("b")]), Some(false), "two that differ are proof");
        assert_eq!(at(&[Some("a"), Some("a"), None]), None);
        assert_eq!(at(&[None]), None);
        assert_eq!(at(&[]), None);
        let quarantined = Replica { quarantine: Some("rows_differ".into()), ..replica(Some("a")) };
        assert_eq!(verdict(&[replica(Some("a")), quarantined]).0, Some(false));
    }

    #[test]
    fn checks_count_once_they_have_ended() {
        let of = |states: [&'static str; 2]| verdict(&states.map(with_rows));
        assert_eq!(of(["equal", "equal"]), (Some(true), true));
        assert_eq!(of(["equal", "running"]), (None, false));
        assert_eq!(of(["waiting", "differs"]), (Some(false), false));
        assert_eq!(of(["equal", "failed"]), (None, true));
    }
}
