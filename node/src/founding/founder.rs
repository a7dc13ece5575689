use crate::raft::{GroupId, InitializeError, NodeId, ProposeError, RaftNode};
use crate::service::Replica;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::outcome::Outcome;
use holdfast_core::space::Shard;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a cluster is not initialised.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A group did not take its first members.
    #[error("group {group}: {error}")]
    Group {
        /// Which.
        group: GroupId,
        /// What it said.
        error: InitializeError,
    },
    /// The meta group did not take the first rows.
    #[error("the cluster could not be named: {0}")]
    Propose(ProposeError),
    /// The meta group refused the first rows.
    #[error(transparent)]
    Refused(holdfast_core::Error),
    /// The answer of the meta group makes no sense.
    #[error("the meta group answered {0}")]
    Answer(String),
}

/// A running node's part in the founding of its cluster. Cheap to clone.
#[derive(Clone)]
pub struct Founder {
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    members: Vec<NodeId>,
}

impl Founder {
    pub(crate) fn new(
        raft: Arc<RaftNode>,
        replicas: BTreeMap<GroupId, Replica>,
        members: Vec<NodeId>,
    ) -> Self {
        Self { raft, replicas, members }
    }

    /// Gives every group its first members. To be called on one node at the cluster's start;
    /// calling again does nothing.
    ///
    /// # Errors
    /// [`InitError::Group`] names the group that refused.
    pub async fn form_groups(&self) -> Result<(), InitError> {
        for group in self.replicas.keys().copied() {
            let formed = self.raft.initialize(group, &self.members).await;
            formed.map_err(|error| InitError::Group { group, error })?;
        }
        Ok(())
    }

    /// Proposes the first rows of the cluster if this node leads the meta group. `Ok(false)`: it
    /// does not lead; ask another node. Happens once: a second time is
    /// [`holdfast_core::ErrorCode::AlreadyExists`].
    ///
    /// # Errors
    /// [`InitError`] if the proposal failed or was refused.
    pub async fn name_cluster(&self, command: MetaCommand, timeout: Duration) -> Result<bool, InitError> {
        let Some(meta) = self.replicas.get(&GroupId::from(Shard::META.0)) else { return Ok(false) };
        let command = Command::Meta(Box::new(command));
        let bytes = command.encode().map_err(|error| InitError::Answer(error.to_string()))?;
        let proposed = match meta.propose(bytes.into(), Instant::now() + timeout).await {
            Ok(proposed) => proposed,
            Err(ProposeError::NotLeader { .. }) => return Ok(false),
            Err(error) => return Err(InitError::Propose(error)),
        };
        match Outcome::decode(&proposed.outcome) {
            Ok(Outcome::Done) => Ok(true),
            Ok(Outcome::Failed(error)) => Err(InitError::Refused(error)),
            Ok(other) => Err(InitError::Answer(format!("{other:?}"))),
            Err(error) => Err(InitError::Answer(error.to_string())),
        }
    }
}
