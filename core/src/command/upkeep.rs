//! What jobs propose for a space as a whole.

use super::Hint;
use crate::limits::{self, check_id};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The works. Each names what it is based on, and is dropped where that has changed. Append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Upkeep {
    /// New memories were looked at, whether they say what an older one says.
    Duplicates {
        /// Up to which `seq` that was done before.
        base: u64,
        /// Up to which it is done with this.
        through: u64,
        /// What was found, at most [`limits::UPKEEP_MERGES_MAX`].
        merges: Vec<Merge>,
    },
}

/// Two memories that say the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// The older one, which stands.
    pub stands: Hint,
    /// The newer one, which is counted on it.
    pub merged: Hint,
    /// The cosine of their vectors in thousandths, where both have one.
    pub cosine_milli: Option<u16>,
}

impl Upkeep {
    pub(crate) fn check(&self) -> Result<()> {
        let Self::Duplicates { base, through, merges } = self;
        if through < base {
            return Err(Error::invalid("through", "it goes on from where the last one ended"));
        }
        if merges.len() > limits::UPKEEP_MERGES_MAX {
            let detail = format!("at most {} merges in one step", limits::UPKEEP_MERGES_MAX);
            return Err(Error::too_large("merges", detail));
        }
        merges.iter().try_for_each(|merge| {
            check_id("merges.stands", &merge.stands.id)?;
            check_id("merges.merged", &merge.merged.id)
        })
    }
}
