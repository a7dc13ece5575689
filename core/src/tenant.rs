//! The erasure of a tenant: of everything that the cluster holds of a customer.
//!
//! It begins in the meta group ([`crate::command::MetaCommand::EraseTenant`]), and from there in every shard, each of
//! which marks the tenant in its own log. From that index on nothing of the tenant is stored there; the leader takes
//! the rows out in bounded steps, and then waits until no replica holds a copy. The mark stays for good: it is what
//! an id that was erased is known by, and it keeps out whatever comes late.

use crate::codec::stored;
use crate::erasure::{CONFIRMATIONS_MAX, Confirmation, ERASE_ROWS_MAX, Erased, Phase, Place};
use crate::limits::check_id;
use crate::space::SLOTS;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most tenants that are being erased at once.
pub const TENANTS_GOING_MAX: usize = 64;
/// Most rows outside of spaces that one step takes out.
pub const TENANT_ROWS_MAX: usize = 64;
/// Longest key of a row outside of spaces, in bytes: names and ids of at most
/// [`ID_BYTES_MAX`](crate::limits::ID_BYTES_MAX) each, and what a deletion wrote down.
pub const TENANT_KEY_BYTES_MAX: usize = 4 * 1024;

/// A step of the erasure of a tenant in one group. Only leaders themselves propose them. Since state version 7.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantStep {
    /// Marks the tenant in a shard: nothing of it is stored there any more.
    Begin {
        /// Which.
        tenant: String,
        /// The id of the erasure, which the meta group has made known.
        id: String,
    },
    /// Takes rows of spaces out.
    Drop {
        /// Which.
        tenant: String,
        /// In which slot. The leader found nothing in those between the last step's and this one.
        slot: u16,
        /// Most rows, 1 to [`ERASE_ROWS_MAX`].
        limit: u16,
    },
    /// Takes rows out that stand outside of spaces and name the tenant: what is due, what waits for jobs, and in
    /// the meta group its keys, collections, rules and its own row. Behind the rows of spaces.
    Rows {
        /// Which.
        tenant: String,
        /// Their keys, at most [`TENANT_ROWS_MAX`]. What does not name the tenant stays.
        keys: Vec<Vec<u8>>,
        /// Whether nothing else is left, in spaces neither.
        ended: bool,
    },
    /// What replicas say that they hold no more.
    Confirm {
        /// Which.
        tenant: String,
        /// What was said since the last time.
        confirmations: Vec<Confirmation>,
        /// Whether nothing is left to be said.
        done: bool,
    },
}

impl TenantStep {
    /// Which tenant.
    pub fn tenant(&self) -> &str {
        match self {
            Self::Begin { tenant, .. }
            | Self::Drop { tenant, .. }
            | Self::Rows { tenant, .. }
            | Self::Confirm { tenant, .. } => tenant,
        }
    }

    /// Checks a step before it is proposed.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`], naming the field.
    pub fn check(&self) -> Result<()> {
        check_id("tenant", self.tenant())?;
        match self {
            Self::Begin { id, .. } => check_id("id", id),
            Self::Drop { slot, .. } if *slot >= SLOTS => {
                Err(Error::invalid("slot", format!("slots end before {SLOTS}")))
            }
            Self::Drop { limit, .. } if !(1..=ERASE_ROWS_MAX).contains(limit) => {
                Err(Error::invalid("limit", format!("1 to {ERASE_ROWS_MAX} rows")))
            }
            Self::Rows { keys, .. } if keys.len() > TENANT_ROWS_MAX => {
                Err(Error::invalid("keys", format!("at most {TENANT_ROWS_MAX} rows")))
            }
            Self::Rows { keys, .. } if keys.iter().any(|key| key.len() > TENANT_KEY_BYTES_MAX) => {
                Err(Error::invalid("keys", format!("a key has at most {TENANT_KEY_BYTES_MAX} bytes")))
            }
            Self::Confirm { confirmations, .. } if confirmations.len() > CONFIRMATIONS_MAX => {
                Err(Error::invalid("confirmations", format!("at most {CONFIRMATIONS_MAX}")))
            }
            Self::Drop { .. } | Self::Rows { .. } | Self::Confirm { .. } => Ok(()),
        }
    }
}

/// How far the erasure of a tenant has come in one group, and in the end its receipt there. It holds nothing of the
/// tenant but its id, and stays. Key: see [`crate::keys::tenant`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantErasureRow {
    /// The id of the tenant.
    pub tenant: String,
    /// The id of the erasure, the same in all groups.
    pub id: String,
    /// How far it has come.
    pub phase: Phase,
    /// When it began here, in log time.
    pub begun_us: i64,
    /// The log index from which on nothing of the tenant is stored.
    pub begun_index: u64,
    /// The first slot that may hold something.
    pub slot: u16,
    /// Spaces that were taken out so far, each partition by itself.
    pub spaces: u64,
    /// What was taken out so far.
    pub erased: Erased,
    /// When the last row went, in log time.
    pub removed_us: Option<i64>,
    /// The log index at which the last row went.
    pub removed_index: Option<u64>,
    /// What replicas said.
    pub confirmed: Vec<Confirmation>,
    /// When no copy was left.
    pub done_us: Option<i64>,
}

impl TenantErasureRow {
    /// Whether a replica said this.
    pub fn is_confirmed(&self, node: u64, place: Place) -> bool {
        self.confirmed.iter().any(|said| (said.node, said.place) == (node, place))
    }
}

stored!(TenantErasureRow);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_bounded() {
        let tenant = || "租户".to_owned();
        let rows = |keys| TenantStep::Rows { tenant: tenant(), keys, ended: false };
        let slots = |slot, limit| TenantStep::Drop { tenant: tenant(), slot, limit };
        let good = [
            rows(vec![vec![0; TENANT_KEY_BYTES_MAX]; TENANT_ROWS_MAX]),
            rows(vec![]),
            slots(SLOTS - 1, ERASE_ROWS_MAX),
            TenantStep::Begin { tenant: tenant(), id: "e".into() },
        ];
        for step in good {
            assert_eq!(step.check(), Ok(()), "{step:?}");
        }
        let said = Confirmation { node: 1, place: Place::Log, at_us: 0 };
        let bad = [
            rows(vec![vec![0]; TENANT_ROWS_MAX + 1]),
            rows(vec![vec![0; TENANT_KEY_BYTES_MAX + 1]]),
            slots(SLOTS, 1),
            slots(0, 0),
            slots(0, ERASE_ROWS_MAX + 1),
            TenantStep::Begin { tenant: String::new(), id: "e".into() },
            TenantStep::Begin { tenant: "a\0b".into(), id: "e".into() },
            TenantStep::Begin { tenant: tenant(), id: String::new() },
            TenantStep::Confirm {
                tenant: tenant(),
                confirmations: vec![said; CONFIRMATIONS_MAX + 1],
                done: true,
            },
        ];
        for step in bad {
            assert!(step.check().is_err(), "{step:?}");
        }
    }
}
