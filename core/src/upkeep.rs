//! What jobs keep of a space as a whole: how far its memories were looked at, and which of them say what
//! another one says.

use crate::codec::stored;
use serde::{Deserialize, Serialize};

/// How far the jobs of one partition of a space have come. Key: see [`crate::keys::upkeep`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpkeepRow {
    /// Up to which `seq` near-duplicates were looked for.
    pub looked: u64,
    /// The time of the row in [`crate::keys::work`], as long as there is anything to do.
    pub work_us: Option<i64>,
}

/// That a memory was merged into another one. Key: see [`crate::keys::merged`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedRow {
    /// When, in log time.
    pub merged_us: i64,
    /// How often the merged one was stated: this is part of the count of the one that stands.
    pub count: u32,
    /// The cosine of their vectors in thousandths, where both had one.
    pub cosine_milli: Option<u16>,
}

stored!(UpkeepRow, MergedRow);
