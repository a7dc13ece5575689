use crate::v1;
use holdfast_core::{Error, ErrorCode};
use prost::Message;
use tonic::{Code, Status};

/// Why a node refused a call: the error for the caller, and what a router should do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What the caller is told if the router cannot help.
    pub error: Error,
    /// What the router should do.
    pub route: v1::Route,
    /// With [`v1::Route::NotLeader`]: the leader, if it is known.
    pub leader: Option<u64>,
    /// When to try again.
    pub retry_after_ms: Option<u64>,
    /// With [`v1::Route::WrongShard`]: the epoch of the map by which another shard is the owner.
    pub map_epoch: Option<u64>,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, route: v1::Route::None, leader: None, retry_after_ms: None, map_epoch: None }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let refusal = v1::Refusal {
            code: refused.error.code.as_str().to_owned(),
            detail: refused.error.detail.clone(),
            field: refused.error.field,
            route: refused.route.into(),
            leader: refused.leader,
            retry_after_ms: refused.retry_after_ms,
            map_epoch: refused.map_epoch,
        };
        let code = Code::from(refused.error.code.grpc_code());
        Self::with_details(code, refused.error.detail, refusal.encode_to_vec().into())
    }
}

/// Reads the refusal in a gRPC status. One without details comes from the transport: the call may
/// or may not have reached the node, and `is_write` decides what that means.
pub fn refusal_of(status: &Status, is_write: bool) -> Refused {
    if !status.details().is_empty()
        && let Ok(refusal) = v1::Refusal::decode(status.details())
    {
        let code = ErrorCode::from_wire(&refusal.code).unwrap_or(ErrorCode::Internal);
        let error = Error { code, detail: refusal.detail.clone(), field: refusal.field.clone() };
        let (route, leader) = (refusal.route(), refusal.leader);
        let (retry_after_ms, map_epoch) = (refusal.retry_after_ms, refusal.map_epoch);
        return Refused { error, route, leader, retry_after_ms, map_epoch };
    }
    let code = match (status.code(), is_write) {
        (Code::DeadlineExceeded | Code::Cancelled, false) => ErrorCode::DeadlineExceeded,
        (Code::OutOfRange | Code::ResourceExhausted, _) => ErrorCode::TooLarge,
        (_, true) => ErrorCode::UnknownOutcome,
        (_, false) => ErrorCode::Unavailable,
    };
    let error = Error::new(code, format!("a node did not answer: {}", status.message()));
    Refused { error, route: v1::Route::Retry, leader: None, retry_after_ms: None, map_epoch: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_travel_in_a_status() {
        let refused = Refused {
            error: Error::invalid("memories[3].embedding", "维度不对"),
            route: v1::Route::NotLeader,
            leader: Some(3),
            retry_after_ms: Some(20),
            map_epoch: Some(4),
        };
        assert_eq!(refusal_of(&Status::from(refused.clone()), true), refused);
    }

    #[test]
    fn a_lost_write_is_unknown_and_a_lost_read_is_not() {
        let lost = Status::unavailable("connection reset");
        assert_eq!(refusal_of(&lost, true).error.code, ErrorCode::UnknownOutcome);
        assert_eq!(refusal_of(&lost, false).error.code, ErrorCode::Unavailable);
    }
}
