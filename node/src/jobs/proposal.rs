//! What jobs read and propose.

use super::Failure;
use crate::raft::ProposeError;
use crate::service::Replica;
use holdfast_core::ErrorCode;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::outcome::Outcome;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use std::time::{Duration, Instant};

/// Time for one proposal.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What apply made of it; `None` where it was made of an earlier state.
pub(super) async fn propose(
    replica: &Replica,
    space: &SpaceKey,
    write: Write,
) -> Result<Option<Outcome>, Failure> {
    let command = Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency: None, write }));
    command.check()?;
    let proposed = match replica.propose(command.encode()?.into(), Instant::now() + TIMEOUT).await {
        Ok(proposed) => proposed,
        // Another leader goes on; if it was done after all, the next look finds it so.
        Err(ProposeError::NotLeader { .. } | ProposeError::UnknownOutcome) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match Outcome::decode(&proposed.outcome)? {
        Outcome::Failed(error) if error.code == ErrorCode::Conflict => Ok(None),
        Outcome::Failed(error) => Err(error.into()),
        outcome => Ok(Some(outcome)),
    }
}

pub(super) fn read<T: Stored>(reader: &dyn Reader, key: &[u8]) -> Result<Option<T>, Failure> {
    let value = reader.get(key)?;
    Ok(value.map(|value| T::decode(&value)).transpose()?)
}
