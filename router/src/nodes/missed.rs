//! How one replica that was asked once gave no answer.

use super::call::Ended;
use crate::http::problem::Problem;
use holdfast_proto::v1;
use tonic::Status;

/// Why a replica that was asked once gave no answer.
pub(super) enum Missed {
    /// It is behind what was asked.
    Behind,
    /// It did not answer.
    Silent,
    /// It cannot answer now.
    Refused,
    /// Nobody could answer better.
    Ended(Ended),
}

impl Missed {
    pub(super) fn of(status: &Status) -> Self {
        if status.details().is_empty() {
            return Self::Silent;
        }
        let refused = holdfast_proto::refusal_of(status, false);
        match refused.route {
            v1::Route::Behind => Self::Behind,
            v1::Route::WrongShard => Self::Ended(Ended::WrongShard(refused.map_epoch)),
            // The time of one attempt is shorter than that of the read.
            v1::Route::None if refused.error.code == holdfast_core::ErrorCode::DeadlineExceeded => {
                Self::Refused
            }
            v1::Route::None => Self::Ended(Ended::Problem(Problem::from(refused.error))),
            v1::Route::NotLeader | v1::Route::Retry => Self::Refused,
        }
    }

    /// As the metric of hedges names it.
    pub(super) fn hedge(&self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Silent | Self::Refused | Self::Ended(_) => "failed",
        }
    }
}
