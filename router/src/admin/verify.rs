//! `GET /admin/v1/verify`: whether all replicas of every group hold the same rows.

use crate::api_key::hex;
use crate::auth::Caller;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::{answer, query};
use crate::nodes::NodeView;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use futures::future::join_all;
use holdfast_core::access::Rights;
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How often a group is asked again while writes keep its replicas at different places.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// Recompute the hashes from the rows, which reads all of them.
    recompute: Option<bool>,
}

#[derive(Serialize)]
struct Verified {
    /// `true` if every group is equal on all nodes, `false` if one differs, `null` if some could
    /// not be compared.
    equal: Option<bool>,
    groups: Vec<GroupVerified>,
}

#[derive(Serialize)]
struct GroupVerified {
    group: u16,
    equal: Option<bool>,
    replicas: Vec<Replica>,
}

#[derive(Serialize)]
struct Replica {
    node: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn verify(State(shared): State<Arc<Shared>>, caller: Caller, uri: Uri) -> Answer<Response> {
    caller.require(Rights::CLUSTER)?;
    let params: Params = query::parse(&uri)?;
    let recompute = params.recompute.unwrap_or(false);
    let deadline = Deadline::after(shared.config.write_timeout);
    let mut groups = Vec::new();
    for group in shared.nodes.groups() {
        groups.push(compare(&shared, group.group.0, recompute, deadline).await);
    }
    let equal = match () {
        () if groups.iter().any(|group| group.equal == Some(false)) => Some(false),
        () if groups.is_empty() || groups.iter().any(|group| group.equal.is_none()) => None,
        () => Some(true),
    };
    answer(StatusCode::OK, &Verified { equal, groups })
}

async fn compare(shared: &Shared, group: u16, recompute: bool, deadline: Deadline) -> GroupVerified {
    let mut attempt = 0;
    loop {
        let asked = shared.nodes.nodes().into_iter().map(|node| ask(node, group, recompute, deadline));
        let replicas = join_all(asked).await;
        let equal = verdict(&replicas);
        attempt += 1;
        if equal.is_some() || attempt == ATTEMPTS || deadline.left() < PAUSE {
            return GroupVerified { group, equal, replicas };
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(mut node: NodeView, group: u16, recompute: bool, deadline: Deadline) -> Replica {
    let request = v1::StateHashRequest { group: u32::from(group), recompute };
    let asked = tokio::time::timeout_at(deadline.at(), node.client.state_hash(request)).await;
    let failed = |error: String| Replica { node: node.id, index: None, hash: None, error: Some(error) };
    match asked {
        Ok(Ok(response)) => {
            let response = response.into_inner();
            Replica {
                node: node.id,
                index: Some(response.index),
                hash: Some(hex(&response.hash)),
                error: None,
            }
        }
        Ok(Err(status)) => failed(status.message().to_owned()),
        Err(_) => failed("no answer in time".to_owned()),
    }
}

/// Replicas can be compared where they stand at the same index: two that differ there are proof,
/// whatever the others say.
fn verdict(replicas: &[Replica]) -> Option<bool> {
    let known: Vec<(u64, &String)> =
        replicas.iter().filter_map(|replica| replica.index.zip(replica.hash.as_ref())).collect();
    let differ = known.iter().any(|(index, hash)| known.iter().any(|(i, h)| i == index && h != hash));
    let same_index = known.windows(2).all(|pair| pair[0].0 == pair[1].0);
    match (differ, same_index && known.len() == replicas.len() && !known.is_empty()) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_places_are_compared() {
        let at = |index: u64, hash: &str| Replica {
            node: index,
            index: Some(index),
            hash: Some(hash.into()),
            error: None,
        };
        let down = || Replica { node: 9, index: None, hash: None, error: Some("down".into()) };
        assert_eq!(verdict(&[at(5, "a"), at(5, "a"), at(5, "a")]), Some(true));
        assert_eq!(verdict(&[at(5, "a"), at(5, "b"), at(6, "c")]), Some(false));
        assert_eq!(verdict(&[at(5, "a"), at(6, "b")]), None);
        assert_eq!(verdict(&[at(5, "a"), down()]), None);
        assert_eq!(verdict(&[down()]), None);
        assert_eq!(verdict(&[]), None);
    }
}
