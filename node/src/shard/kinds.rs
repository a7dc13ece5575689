use holdfast_core::codec::CodecError;
use holdfast_core::keys::{self, Family};
use holdfast_core::memory::{IndexRow, Kind};
use holdfast_core::state::Changes;

/// How many memories of each kind a state holds: one index row is one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindCounts([u64; Kind::ALL.len()]);

impl KindCounts {
    pub(super) const BYTES: usize = 8 * Kind::ALL.len();

    /// Memories of this kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Counts the memories of a state that was written before their number was kept.
    pub(super) fn of_rows(db: &sled::Db) -> Result<Self, String> {
        let mut kinds = Self::default();
        for row in db.iter() {
            let (key, value) = row.map_err(|error| format!("sled: {error}"))?;
            kinds.add(&key, &value).map_err(|error| error.to_string())?;
        }
        Ok(kinds)
    }

    /// Counts a row that is there, if it is one of a memory.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), CodecError> {
        if is_memory(key) {
            self.0[IndexRow::kind_of(value)? as usize] += 1;
        }
        Ok(())
    }

    /// Follows the changes of a batch.
    pub(super) fn follow(&mut self, changes: &Changes) -> Result<(), CodecError> {
        for change in changes.rows.iter().filter(|change| is_memory(&change.key)) {
            if let Some(old) = &change.old {
                let count = &mut self.0[IndexRow::kind_of(old)? as usize];
                *count = count.saturating_sub(1);
            }
            if let Some(new) = &change.new {
                self.0[IndexRow::kind_of(new)? as usize] += 1;
            }
        }
        Ok(())
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        self.0.iter().flat_map(|count| count.to_le_bytes()).collect()
    }

    /// `None` if the length is not [`KindCounts::BYTES`].
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (counts, _) = bytes.as_chunks::<8>();
        Some(Self(std::array::from_fn(|at| u64::from_le_bytes(counts[at]))))
    }
}

fn is_memory(key: &[u8]) -> bool {
    keys::family(key) == Some(Family::IndexRow as u8)
}
