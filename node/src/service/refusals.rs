//! Why this node refuses a call, and what the router should do about it.

use crate::raft::{GroupId, NodeId, ProposeError, ReadError, ReadRefused};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::{Refused, v1::Route};
use std::fmt::Display;

/// When a router should ask again after a change of leader has begun.
const RETRY_MS: u64 = 50;

fn refused(code: ErrorCode, detail: impl Into<String>, route: Route) -> Refused {
    let retry_after_ms = (route != Route::None).then_some(RETRY_MS);
    Refused { error: Error::new(code, detail), route, leader: None, retry_after_ms, map_epoch: None }
}

pub(crate) fn no_such_group(group: GroupId) -> Refused {
    refused(ErrorCode::Unavailable, format!("this node has no replica of group {group}"), Route::Behind)
}

pub(crate) fn not_leader(leader: Option<NodeId>) -> Refused {
    let detail = "another node leads this shard, or none does yet; ask again";
    Refused { leader, ..refused(ErrorCode::Unavailable, detail, Route::NotLeader) }
}

/// The replica does not run on this node; another one may.
pub(super) fn stopped(why: &str) -> Refused {
    tracing::debug!(why, "a read reached a replica that does not run");
    behind("this replica does not run; ask another one")
}

pub(crate) fn unavailable(detail: impl Display) -> Refused {
    refused(
        ErrorCode::Unavailable,
        format!("the shard cannot answer now ({detail}); ask again"),
        Route::Retry,
    )
}

pub(crate) fn behind(detail: &str) -> Refused {
    refused(ErrorCode::Unavailable, detail, Route::Behind)
}

pub(crate) fn no_points(why: &str) -> Refused {
    let detail = format!("the replicas cannot be compared now: {why}; ask again when all nodes answer");
    refused(ErrorCode::Unavailable, detail, Route::None)
}

pub(crate) fn not_known_yet(why: &str) -> Refused {
    let detail = format!("the cluster is being upgraded, and {why}; nothing was done; ask again afterwards");
    refused(ErrorCode::Unavailable, detail, Route::None)
}

pub(crate) fn in_quarantine() -> Refused {
    behind("this replica is in quarantine, because its rows are not to be believed; ask another one")
}

/// Another shard owns the slot. Nothing was done, and repeating it there is safe.
pub(super) fn wrong_shard(epoch: u64) -> Refused {
    let detail = "this part of the data has moved to another shard; ask again";
    Refused { map_epoch: Some(epoch), ..refused(ErrorCode::Unavailable, detail, Route::WrongShard) }
}

/// The router has a newer map than this node, by which another shard is the owner.
pub(super) fn map_not_known() -> Refused {
    behind("this node has not learned yet that this part of the data has moved; ask again")
}

pub(crate) fn overloaded(detail: &str) -> Refused {
    refused(ErrorCode::Overloaded, format!("{detail}; slow down and ask again"), Route::Retry)
}

pub(crate) fn too_late(doing: &str) -> Refused {
    refused(ErrorCode::DeadlineExceeded, format!("the deadline passed while {doing}"), Route::None)
}

pub(crate) fn corrupted(error: &dyn Display) -> Refused {
    refused(ErrorCode::Corrupted, format!("stored data cannot be read: {error}"), Route::Behind)
}

pub(crate) fn internal(error: &dyn Display) -> Refused {
    refused(ErrorCode::Internal, format!("a defect stopped this call: {error}"), Route::None)
}

pub(crate) fn of_proposal(error: &ProposeError) -> Refused {
    match error {
        ProposeError::NotLeader { leader } => not_leader(*leader),
        ProposeError::Overloaded => overloaded("too many writes wait for this shard"),
        ProposeError::TooLarge { bytes, bytes_max } => {
            let detail =
                format!("the write has {bytes} bytes when encoded; the limit is {bytes_max}; split it");
            refused(ErrorCode::TooLarge, detail, Route::None)
        }
        ProposeError::Unavailable(why) => unavailable(why),
        ProposeError::DeadlineExceeded => too_late("the write waited to be proposed; nothing was changed"),
        ProposeError::UnknownOutcome | ProposeError::Fatal(_) => {
            let detail = "the write may or may not have happened; repeat it with the same Idempotency-Key";
            refused(ErrorCode::UnknownOutcome, detail, Route::Retry)
        }
    }
}

pub(crate) fn of_read(error: &ReadError) -> Refused {
    match error {
        ReadError::NotLeader { leader } => not_leader(*leader),
        ReadError::Overloaded => overloaded("too many reads wait for this shard"),
        ReadError::Unavailable(why) => unavailable(why),
        ReadError::DeadlineExceeded => too_late("a majority was asked"),
    }
}

pub(crate) fn of_session_read(refused: &ReadRefused) -> Refused {
    match refused {
        ReadRefused::NotLeader { leader } => not_leader(*leader),
        other => unavailable(other),
    }
}
