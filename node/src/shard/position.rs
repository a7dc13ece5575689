use super::{KindCounts, ShardHash};
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
    /// How many memories there are at this point; `None` if that was not kept and must be counted.
    #[serde(skip)]
    pub(super) kinds: Option<KindCounts>,
}

impl Applied {
    /// The key of the row.
    pub(super) fn key() -> Vec<u8> {
        keys::local("applied")
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let start = vec![Format::V1 as u8];
        let mut bytes = postcard::to_extend(self, start).map_err(|error| malformed(error.to_string()))?;
        // Behind the rest: rows written before these were counted end there, or between them.
        bytes.extend_from_slice(&self.log_bytes.to_le_bytes());
        bytes.extend(self.kinds.into_iter().flat_map(KindCounts::to_bytes));
        Ok(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match bytes.split_first() {
            Some((format, body)) if *format == Format::V1 as u8 => {
                let (mut applied, rest): (Self, _) =
                    postcard::take_from_bytes(body).map_err(|error| malformed(error.to_string()))?;
                (applied.log_bytes, applied.kinds) = match rest.split_first_chunk::<8>() {
                    None if rest.is_empty() => (0, None),
                    Some((log, [])) => (u64::from_le_bytes(*log), None),
                    Some((log, kinds)) if kinds.len() == KindCounts::BYTES => {
                        (u64::from_le_bytes(*log), KindCounts::from_bytes(kinds))
                    }
                    _ => return Err(malformed("its length is not one that is known".into())),
                };
                Ok(applied)
            }
            Some((format, _)) => Err(CodecError::UnknownFormat { what: "Applied", found: *format }),
            None => Err(CodecError::Empty { what: "Applied" }),
        }
    }

    /// Follows the changes of a batch with the numbers of rows and memories.
    pub(super) fn count(&mut self, changes: &Changes) -> Result<(), CodecError> {
        if let Some(kinds) = &mut self.kinds {
            kinds.follow(changes)?;
        }
        for change in changes.rows.iter().filter(|change| keys::is_replicated(&change.key)) {
            match (&change.old, &change.new) {
                (None, Some(_)) => self.rows += 1,
                (Some(_), None) => self.rows = self.rows.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }

    /// The position of an empty state.
    pub(super) fn empty() -> Self {
        Self { kinds: Some(KindCounts::default()), ..Self::default() }
    }

    /// The position of a state that was made from a snapshot file.
    pub(super) fn of_snapshot(header: &Header, kinds: KindCounts) -> Self {
        Self {
            last: Some(header.position),
            partial: None,
            membership: header.membership.clone(),
            hash: header.hash,
            rows: header.rows,
            log_bytes: header.log_bytes,
            kinds: Some(kinds),
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
    fn rows_from_before_things_were_counted_are_read() {
        let last = LogPosition { term: 1, node: 2, index: 3 };
        let applied = Applied { last: Some(last), rows: 9, log_bytes: 1 << 40, ..Applied::empty() };
        let bytes = applied.encode().unwrap();
        assert_eq!(Applied::decode(&bytes).unwrap(), applied);
        let before = &bytes[..bytes.len() - KindCounts::BYTES];
        assert_eq!(Applied::decode(before).unwrap(), Applied { kinds: None, ..applied.clone() });
        let before = &before[..before.len() - 8];
        assert_eq!(Applied::decode(before).unwrap(), Applied { kinds: None, log_bytes: 0, ..applied });
        assert!(Applied::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
