use super::{NodeService, deadline, refusals};
use crate::raft::GroupId;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::collection::CollectionChange;
use holdfast_core::command::{Command, MetaCommand, Write};
use holdfast_core::limits::ATOMIC_BYTES_MAX;
use holdfast_core::outcome::Outcome;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::{Refused, v1};

impl NodeService {
    pub(super) async fn propose(&self, request: v1::WriteRequest) -> Result<v1::WriteResponse, Refused> {
        let access = self.admitted(request.access)?;
        if request.command.len() > ATOMIC_BYTES_MAX {
            let (n, max) = (request.command.len(), ATOMIC_BYTES_MAX);
            let detail = format!("the write has {n} bytes when encoded; the limit is {max}; split it");
            return Err(Error::new(ErrorCode::TooLarge, detail).into());
        }
        let command = Command::decode(&request.command)
            .map_err(|error| Error::new(ErrorCode::InvalidArgument, error.to_string()))?;
        command.check()?;
        if let Err(why) = self.inner.versions.none_is_older(command.known_since()) {
            return Err(refusals::not_known_yet(&why));
        }
        self.admit(&access, &command, v1::Owner { shard: request.group, epoch: request.map_epoch })?;

        let replica = self.replica(request.group)?;
        let proposed = replica.propose(request.command.into(), deadline(request.deadline_ms)).await;
        let proposed = proposed.map_err(|error| refusals::of_proposal(&error))?;
        if let Command::Space(command) = &command {
            let outcome = Outcome::decode(&proposed.outcome).map_err(|error| refusals::internal(&error))?;
            self.inner.metrics.writes.written(command, &outcome);
        }
        let index = proposed.position.index;
        let seen = v1::Seen { shard: request.group, incarnation: self.inner.incarnation, index };
        Ok(v1::WriteResponse { outcome: proposed.outcome.into(), seen: Some(seen) })
    }

    /// Whether this access may propose this command to this group.
    fn admit(&self, access: &Access, command: &Command, asked: v1::Owner) -> Result<(), Refused> {
        match command {
            Command::Space(command) if is_a_leaders(&command.write) => Err(only_leaders()),
            Command::Space(command) => {
                access.check(&command.space, Rights::WRITE)?;
                if command.claims_admin() {
                    access.require(Rights::ADMIN)?;
                }
                self.owner(&command.space, Some(asked)).map(drop)
            }
            Command::Meta(command) => {
                may_manage(access, command)?;
                if asked.shard == GroupId::from(Shard::META.0) {
                    return Ok(());
                }
                Err(Error::new(ErrorCode::Internal, "a change of the cluster was sent to a shard").into())
            }
            Command::Sweep { .. } | Command::HashPoint | Command::Tenant(_) => Err(only_leaders()),
        }
    }
}

/// Whether nobody but a leader proposes this write.
fn is_a_leaders(write: &Write) -> bool {
    match write {
        Write::Digest(_) | Write::Relink { .. } | Write::Upkeep(_) => true,
        Write::Erase(step) => !step.is_beginning(),
        _ => false,
    }
}

fn only_leaders() -> Refused {
    Error::new(ErrorCode::PermissionDenied, "only a leader itself proposes this").into()
}

fn may_manage(access: &Access, command: &MetaCommand) -> Result<(), Error> {
    let of_tenant = |tenant: Option<&str>| {
        let own = tenant == Some(access.tenant.as_str());
        access.require(if own { Rights::ADMIN } else { Rights::CLUSTER })
    };
    match command {
        MetaCommand::InitCluster { .. } | MetaCommand::CreateTenant(_) | MetaCommand::EraseTenant { .. } => {
            access.require(Rights::CLUSTER)
        }
        MetaCommand::CreateKey(key) => {
            of_tenant(Some(&key.tenant))?;
            // A key never gives more than the key that makes it.
            access.require(key.rights)
        }
        MetaCommand::RevokeKey { tenant, .. } => of_tenant(tenant.as_deref()),
        MetaCommand::SetFactRules { rules, .. } => of_tenant(Some(&rules.tenant)),
        MetaCommand::SetScoring { scoring, .. } => of_tenant(Some(&scoring.tenant)),
        // As for what is in them: who may write to all users of the tenant.
        MetaCommand::PutCollection(row) => access.check(&row.space(0)?, Rights::WRITE),
        MetaCommand::SetCollection(CollectionChange { tenant, name, .. })
        | MetaCommand::DeleteCollection { tenant, name, .. } => {
            access.check(&SpaceKey::shared(tenant, name, 0)?, Rights::WRITE)
        }
    }
}
