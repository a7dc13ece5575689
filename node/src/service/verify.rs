//! What this node's replicas hold at a point of the log, for whoever compares them.

use super::gate::Asked;
use super::{NodeService, deadline, refusals};
use crate::integrity::{Extent, Outcome, Standing};
use holdfast_core::apply::STATE_VERSION;
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use holdfast_proto::v1::{Check, CheckState, SpacesExtent};
use holdfast_proto::{Refused, v1};

impl NodeService {
    /// Proposes a point. Changes no row, so that it may be asked for at any time.
    pub(super) async fn make_point(
        &self,
        request: v1::HashPointRequest,
    ) -> Result<v1::HashPointResponse, Refused> {
        let replica = self.replica(request.group)?;
        if !replica.group.status().is_leader {
            return Err(refusals::not_leader(replica.group.status().leader));
        }
        let known = self.inner.versions.all_know_points(&replica.group.voters()).await;
        known.map_err(|why| refusals::no_points(&why))?;
        let command = Command::HashPoint.encode().map_err(|error| refusals::internal(&error))?;
        let proposed = replica.propose(command.into(), deadline(request.deadline_ms)).await;
        let proposed = proposed.map_err(|error| refusals::of_proposal(&error))?;
        Ok(v1::HashPointResponse { index: proposed.position.index })
    }

    pub(super) async fn verify_replica(
        &self,
        request: v1::VerifyRequest,
    ) -> Result<v1::VerifyResponse, Refused> {
        let v1::VerifyRequest { group, point, rows, .. } = request;
        let replica = self.replica(group)?;
        let state = &replica.state;
        let incarnation = self.inner.incarnation;
        let asked = Asked { id: group, group: &replica.group, state: state.as_ref(), incarnation };
        asked.wait_visible(point, deadline(request.deadline_ms)).await?;
        let checks = &self.inner.checks;
        let rows = if rows { checks.rows(group, point).map(check) } else { None };
        let spaces = match request.spaces() {
            SpacesExtent::None => None,
            SpacesExtent::Loaded => checks.index(group, point, Extent::Live).map(check),
            SpacesExtent::All => checks.index(group, point, Extent::All).map(check),
        };
        let suspicion = state.quarantine().suspicion();
        Ok(v1::VerifyResponse {
            hash: state.hash_at(point).map(|hash| hash.0.to_be_bytes().to_vec()),
            visible: state.visible().unwrap_or(0),
            quarantine: suspicion.map_or_else(String::new, |suspicion| suspicion.reason.as_str().into()),
            version: env!("CARGO_PKG_VERSION").into(),
            state_version: STATE_VERSION,
            rows,
            spaces,
        })
    }
}

fn check(standing: Standing) -> Check {
    match standing {
        Standing::Waiting => Check::default(),
        Standing::Running { done, total } => {
            Check { state: CheckState::Running.into(), done, total, ..Check::default() }
        }
        Standing::Ended { outcome, index, done } => {
            let (state, detail) = match outcome {
                Outcome::Equal => (CheckState::Equal, String::new()),
                Outcome::Differs(what) => (CheckState::Differs, what),
                Outcome::Failed(why) => (CheckState::Failed, why),
            };
            Check { state: state.into(), done, total: done, index, detail }
        }
    }
}
