//! What the partitions of a collection agree on, since each knows only of itself: where new memories of an id go, and
//! what a request with a key of its caller's concerns.

use crate::auth::Place;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::WriteIdentity;
use crate::shared::Shared;
use futures::stream::{self, StreamExt, TryStreamExt};
use holdfast_core::ErrorCode;
use holdfast_core::access::Access;
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::{Claim, Command, SpaceCommand, Write};
use holdfast_core::limits::CLAIMS_MAX;
use std::collections::{BTreeMap, HashMap};

/// Steps that are stored at once.
const AT_ONCE: usize = 16;

/// The partition where it is settled where memories of an id go. One that has nothing else to go by lies there itself.
pub(crate) fn home_of(collection: &CollectionRow, id: &str) -> u8 {
    collection.partition_of(id.as_bytes())
}

/// Claims ids for the partitions in which their memories are about to be stored. Answers where each belongs, which is
/// another partition where somebody else was first. Repeating it does no more.
///
/// # Errors
/// If a partition does not answer.
pub(crate) async fn claim(
    shared: &Shared,
    access: &Access,
    collection: &CollectionRow,
    wanted: Vec<Claim>,
    deadline: Deadline,
) -> Answer<HashMap<String, u8>> {
    let mut by_home: BTreeMap<u8, Vec<Claim>> = BTreeMap::new();
    for claim in wanted {
        by_home.entry(home_of(collection, &claim.id)).or_default().push(claim);
    }
    let in_steps = |(home, claims): (u8, Vec<Claim>)| {
        claims.chunks(CLAIMS_MAX).map(|step| (home, step.to_vec())).collect::<Vec<_>>()
    };
    let steps = by_home.into_iter().flat_map(in_steps);
    let settle = |(home, claims): (u8, Vec<Claim>)| async move {
        let space = collection.space(home)?;
        let count = claims.len();
        let write = Write::Claim(claims);
        let command =
            Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency: None, write }));
        let written = shared.nodes.write(access, &space, &command, deadline).await?;
        if written.items.len() == count {
            return Ok(written.items);
        }
        let detail = "claims were answered for another number of ids than were claimed";
        Err(Problem::new(ErrorCode::Internal, detail))
    };
    let settled: Vec<_> = stream::iter(steps.map(settle)).buffer_unordered(AT_ONCE).try_collect().await?;
    let mut belongs = HashMap::new();
    for item in settled.into_iter().flatten() {
        // What is no partition is refused where the space of it is made.
        belongs.insert(item.id, u8::try_from(item.version).unwrap_or(u8::MAX));
    }
    Ok(belongs)
}

/// What a request concerns, as numbers that mean something to the caller of this: those that were found when its key was
/// used for the first time, or else these. Without a key of the caller's the request is the only one of its kind.
///
/// A space of one partition keeps keys by itself.
///
/// # Errors
/// `conflict` if the key was used for another request, whichever partitions that one concerned.
pub(crate) async fn keep(
    shared: &Shared,
    access: &Access,
    place: &Place,
    identity: &WriteIdentity,
    found: Vec<u64>,
    deadline: Deadline,
) -> Answer<Vec<u64>> {
    let Some(collection) = place.collection().filter(|_| identity.is_given) else { return Ok(found) };
    let space = collection.space(collection.partition_of(identity.key.as_bytes()))?;
    let command = Command::Space(Box::new(SpaceCommand {
        space: space.clone(),
        idempotency: Some(identity.kept()),
        write: Write::Keep { numbers: found },
    }));
    let written = shared.nodes.write(access, &space, &command, deadline).await?;
    Ok(written.items.into_iter().map(|item| item.version).collect())
}
