//! What an applied command tells the parts that follow the state: images, metrics, jobs.

use crate::memory::IndexRow;
use crate::space::SpaceKey;

/// One change. Events carry the whole row and are idempotent: applying one twice, or one that a
/// freshly loaded image holds already, changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The columns of a memory are now these.
    Put {
        /// In which partition.
        space: SpaceKey,
        /// Record order: the image's row.
        seq: u64,
        /// The columns.
        row: Box<IndexRow>,
    },
    /// A memory is gone.
    Remove {
        /// In which partition.
        space: SpaceKey,
        /// The image's row.
        seq: u64,
    },
}

impl Event {
    /// The partition that changed.
    pub fn space(&self) -> &SpaceKey {
        match self {
            Self::Put { space, .. } | Self::Remove { space, .. } => space,
        }
    }
}
