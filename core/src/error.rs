//! The short list of error codes that a caller can meet, and their mapping to HTTP and gRPC.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong, in one word. The wire name of each code never changes its meaning; each has a
/// page under `docs/errors/` that says whether to retry, fix the request or give up.
///
/// The declaration order is the storage format (codes travel inside outcomes): append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ErrorCode {
    /// The request is malformed or breaks a rule; the same request will fail again.
    InvalidArgument,
    /// No credential, or one that is unknown, expired or revoked.
    Unauthenticated,
    /// The credential is valid but does not allow this.
    PermissionDenied,
    /// The named thing does not exist (or is not visible to this credential).
    NotFound,
    /// The version named by the caller is not the current one, or an idempotency key was reused.
    Conflict,
    /// A thing with this id exists already, with other content.
    AlreadyExists,
    /// A documented size limit is exceeded.
    TooLarge,
    /// The tenant or space has used up what it may store.
    QuotaExceeded,
    /// Too many requests; retry after the given time.
    RateLimited,
    /// A bounded queue is full; retry after a moment.
    Overloaded,
    /// No leader, no quorum or no connection right now; nothing was done; retry.
    Unavailable,
    /// The deadline passed before an answer was there.
    DeadlineExceeded,
    /// The write may or may not have happened; repeat it with the same idempotency key.
    UnknownOutcome,
    /// Stored bytes failed a check; an operator must look.
    Corrupted,
    /// A defect of Holdfast; please report it with the request id.
    Internal,
}

impl ErrorCode {
    /// Every code, for tests and documentation.
    pub const ALL: [Self; 15] = [
        Self::InvalidArgument,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::NotFound,
        Self::Conflict,
        Self::AlreadyExists,
        Self::TooLarge,
        Self::QuotaExceeded,
        Self::RateLimited,
        Self::Overloaded,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::UnknownOutcome,
        Self::Corrupted,
        Self::Internal,
    ];

    /// The wire name, HTTP status (RFC 9110) and gRPC status number of the code: the one place
    /// where the three are tied together.
    const fn mapping(self) -> (&'static str, u16, i32) {
        match self {
            Self::InvalidArgument => ("invalid_argument", 400, 3),
            Self::Unauthenticated => ("unauthenticated", 401, 16),
            Self::PermissionDenied => ("permission_denied", 403, 7),
            Self::NotFound => ("not_found", 404, 5),
            Self::Conflict => ("conflict", 409, 10),
            Self::AlreadyExists => ("already_exists", 409, 6),
            Self::TooLarge => ("too_large", 413, 11),
            Self::QuotaExceeded => ("quota_exceeded", 403, 9),
            Self::RateLimited => ("rate_limited", 429, 8),
            Self::Overloaded => ("overloaded", 503, 8),
            Self::Unavailable => ("unavailable", 503, 14),
            Self::DeadlineExceeded => ("deadline_exceeded", 504, 4),
            Self::UnknownOutcome => ("unknown_outcome", 504, 2),
            Self::Corrupted => ("corrupted", 500, 15),
            Self::Internal => ("internal", 500, 13),
        }
    }

    /// The stable wire name, for example `invalid_argument`.
    pub const fn as_str(self) -> &'static str {
        self.mapping().0
    }

    /// The HTTP status of an answer with this code.
    pub const fn http_status(self) -> u16 {
        self.mapping().1
    }

    /// The number of the gRPC status of an answer with this code.
    pub const fn grpc_code(self) -> i32 {
        self.mapping().2
    }

    /// Finds a code by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error that is meant for a caller: a code, a sentence that says what was wrong and what to
/// do, and where it applies the field that is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Error {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// What was wrong and what to do, for a person.
    pub detail: String,
    /// The field of the request that is at fault, as a path such as `memories[3].content`.
    pub field: Option<String>,
}

/// A result whose error is meant for a caller.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with a code and a sentence.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field: None }
    }

    /// An [`ErrorCode::InvalidArgument`] for the named field.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, detail).at(field)
    }

    /// An [`ErrorCode::TooLarge`] for the named field.
    pub fn too_large(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::TooLarge, detail).at(field)
    }

    /// The same error with the field named.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_are_unique_and_round_trip() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(code.as_str()), Some(code));
            assert!(code.http_status() >= 400);
        }
        assert_eq!(ErrorCode::from_wire("nonsense"), None);
    }
}
