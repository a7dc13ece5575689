//! What makes writes to several partitions of a collection one: where a memory of an id belongs, and what a request
//! concerns.

use crate::limits::{CLAIMS_MAX, COLLECTION_PARTITIONS_MAX, KEPT_NUMBERS_MAX, check_id};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Where somebody is about to store a memory of an id that the caller chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The id of the memory.
    pub id: String,
    /// The partition of the collection.
    pub partition: u8,
    /// Whether the memory goes where the answer says. Else the claim of another one is answered and not renewed.
    pub obeys: bool,
}

/// Checks the claims of one command.
///
/// # Errors
/// [`crate::ErrorCode::InvalidArgument`] or [`crate::ErrorCode::TooLarge`], naming the field.
pub(super) fn check(claims: &[Claim], is_in_collection: bool) -> Result<()> {
    if !is_in_collection {
        return Err(Error::invalid("claims", "only the ids of collections are claimed"));
    }
    if claims.is_empty() || claims.len() > CLAIMS_MAX {
        return Err(Error::too_large("claims", format!("1 to {CLAIMS_MAX} claims in one step")));
    }
    claims.iter().try_for_each(|claim| {
        check_id("claims.id", &claim.id)?;
        if claim.partition >= COLLECTION_PARTITIONS_MAX {
            let detail = format!("a collection has at most {COLLECTION_PARTITIONS_MAX} partitions");
            return Err(Error::invalid("claims.partition", detail));
        }
        Ok(())
    })
}

/// Checks what is kept under the key of a request.
///
/// # Errors
/// As [`check`].
pub(super) fn check_kept(numbers: &[u64], has_key: bool) -> Result<()> {
    if !has_key {
        return Err(Error::invalid("idempotency", "what is kept is kept under a key; give one"));
    }
    if numbers.len() > KEPT_NUMBERS_MAX {
        return Err(Error::too_large("numbers", format!("at most {KEPT_NUMBERS_MAX} numbers are kept")));
    }
    Ok(())
}
