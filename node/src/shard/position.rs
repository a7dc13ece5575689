use super::ShardHash;
use crate::raft::LogPosition;
use holdfast_core::codec::{CodecError, Format};
use holdfast_core::keys;
use holdfast_core::state::{Changes, StateHash};
use serde::{Deserialize, Serialize};

/// How far a replica has applied its log; written with every batch, and never replicated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Applied {
    /// The last entry that was applied whole.
    pub(super) last: Option<LogPosition>,
    /// Of the next entry: its index and how many of its commands were applied.
    pub(super) partial: Option<(u64, u32)>,
    /// The last membership, as the Raft layer encodes it.
    pub(super) membership: Vec<u8>,
    /// The hash over the replicated rows at this point.
    pub(super) hash: StateHash,
    /// How many replicated rows there are at this point.
    pub(super) rows: u64,
}

impl Applied {
    /// The key of the row.
    pub(super) fn key() -> Vec<u8> {
        keys::local("applied")
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let start = vec![Format::V1 as u8];
        postcard::to_extend(self, start).map_err(|error| malformed(error.to_string()))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match bytes.split_first() {
            Some((format, body)) if *format == Format::V1 as u8 => {
                postcard::from_bytes(body).map_err(|error| malformed(error.to_string()))
            }
            Some((format, _)) => Err(CodecError::UnknownFormat { what: "Applied", found: *format }),
            None => Err(CodecError::Empty { what: "Applied" }),
        }
    }

    /// Follows the changes of a batch with the number of rows.
    pub(super) fn count(&mut self, changes: &Changes) {
        for change in changes.rows.iter().filter(|change| keys::is_replicated(&change.key)) {
            match (&change.old, &change.new) {
                (None, Some(_)) => self.rows += 1,
                (Some(_), None) => self.rows = self.rows.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// The hash with its place in the log.
    pub(super) fn published(&self) -> ShardHash {
        ShardHash { index: self.last.map(|last| last.index), hash: self.hash }
    }

    /// How many commands of the entry at `index` are in the state already.
    pub(super) fn done_of(&self, index: u64) -> usize {
        match self.partial {
            Some((at, done)) if at == index => done as usize,
            _ => 0,
        }
    }
}

fn malformed(reason: String) -> CodecError {
    CodecError::Malformed { what: "Applied", reason }
}
