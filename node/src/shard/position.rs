use super::ShardHash;
use crate::raft::LogPosition;
use crate::snapshot::Header;
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
    /// Bytes of all entries applied so far; the same on every replica.
    #[serde(skip)]
    pub(super) log_bytes: u64,
}

impl Applied {
    /// The key of the row.
    pub(super) fn key() -> Vec<u8> {
        keys::local("applied")
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let start = vec![Format::V1 as u8];
        let mut bytes = postcard::to_extend(self, start).map_err(|error| malformed(error.to_string()))?;
        // Behind the rest: rows written before it was counted end there.
        bytes.extend_from_slice(&self.log_bytes.to_le_bytes());
        Ok(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match bytes.split_first() {
            Some((format, body)) if *format == Format::V1 as u8 => {
                let (mut applied, rest): (Self, _) =
                    postcard::take_from_bytes(body).map_err(|error| malformed(error.to_string()))?;
                applied.log_bytes = match (rest.is_empty(), <[u8; 8]>::try_from(rest)) {
                    (true, _) => 0,
                    (false, Ok(bytes)) => u64::from_le_bytes(bytes),
                    (false, Err(_)) => return Err(malformed("it is longer than it says".into())),
                };
                Ok(applied)
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

    /// The position of a state that was made from a snapshot file.
    pub(super) fn of_snapshot(header: &Header) -> Self {
        Self {
            last: Some(header.position),
            partial: None,
            membership: header.membership.clone(),
            hash: header.hash,
            rows: header.rows,
            log_bytes: header.log_bytes,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_from_before_the_log_was_counted_are_read() {
        let last = LogPosition { term: 1, node: 2, index: 3 };
        let applied = Applied { last: Some(last), rows: 9, log_bytes: 1 << 40, ..Applied::default() };
        let bytes = applied.encode().unwrap();
        assert_eq!(Applied::decode(&bytes).unwrap(), applied);
        let before = &bytes[..bytes.len() - 8];
        assert_eq!(Applied::decode(before).unwrap(), Applied { log_bytes: 0, ..applied });
        assert!(Applied::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
