//! What must hold whatever happens, one invariant a file. Each is told what was observed, and says
//! at once when that cannot be. Property tests, the simulation and tests of clusters share them.
//!
//! Groups, nodes and indices are plain numbers and what is compared is a fingerprint, so that an
//! invariant knows nothing of the code that it is about.

mod acknowledged_kept;
mod applied_in_order;
mod committed_prefix;
mod deleted_stays_deleted;
mod equal_states;
mod exactly_once;
mod leaders_in_order;
mod log_time;
mod token_floor;

pub use acknowledged_kept::AcknowledgedKept;
pub use applied_in_order::AppliedInOrder;
pub use committed_prefix::CommittedPrefix;
pub use deleted_stays_deleted::DeletedStaysDeleted;
pub use equal_states::EqualStates;
pub use exactly_once::ExactlyOnce;
pub use leaders_in_order::LeadersInOrder;
pub use log_time::LogTime;
pub use token_floor::TokenFloor;

use std::fmt;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub invariant: &'static str,
    /// What was observed.
    pub observed: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.observed)
    }
}

impl std::error::Error for Broken {}

/// `Ok` if the invariant holds as far as was observed.
pub type Held = Result<(), Broken>;

fn broken(invariant: &'static str, observed: String) -> Held {
    Err(Broken { invariant, observed })
}

/// How far the life of one memory has come. A memory that is made, changed and deleted once, and
/// never made again, goes through these in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It was not made yet.
    #[default]
    Absent,
    /// It has this version.
    Version(u64),
    /// It was deleted.
    Deleted,
}
