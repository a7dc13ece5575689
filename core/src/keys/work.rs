//! Key: `0xFFFC` for sessions, `0xFFFB` for spaces as a whole, then `time . slot . tenant \0 space \0 partition .
//! kind u8 . id`. Value: the format byte. What a job on the leader has to do, the earliest first: the one place
//! that it looks at, whatever the number of idle spaces. Unlike [`super::due`], apply cannot do it by itself:
//! it needs a model or a library. The command that brings the result takes the row out or moves it.

use super::{UPKEEP_ROWS, WORK_ROWS, prefixed, sortable_time, time_from_sortable};
use crate::codec::Format;
use crate::space::SpaceKey;

/// What is to be worked on. Stored: the numbers never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WorkKind {
    /// A session has turns to be summarised, promoted or condensed; the id is the session's.
    Session = 1,
    /// New memories of a partition are to be looked at; no id.
    Upkeep = 2,
}

/// One row, read back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Work {
    /// From when on, in log time.
    pub at_us: i64,
    /// In which partition.
    pub space: SpaceKey,
    /// What.
    pub kind: WorkKind,
    /// Of which.
    pub id: String,
}

impl WorkKind {
    /// Sessions are waited for, so that their work never stands behind what is done for spaces.
    const fn rows(self) -> u16 {
        match self {
            Self::Session => WORK_ROWS,
            Self::Upkeep => UPKEEP_ROWS,
        }
    }
}

/// The prefix of all rows of a kind.
pub fn prefix(kind: WorkKind) -> Vec<u8> {
    kind.rows().to_be_bytes().to_vec()
}

/// The value of every row.
pub fn value() -> Vec<u8> {
    vec![Format::V1 as u8]
}

impl Work {
    /// The key of this row.
    pub fn key(&self) -> Vec<u8> {
        let mut key = prefixed(self.kind.rows(), &sortable_time(self.at_us));
        key.extend_from_slice(&self.space.slot().0.to_be_bytes());
        key.extend_from_slice(&self.space.path());
        key.push(self.kind as u8);
        key.extend_from_slice(self.id.as_bytes());
        key
    }

    /// Reads a key; `None` if it is damaged.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let (rows, rest) = key.split_first_chunk::<2>()?;
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (_slot, rest) = rest.split_first_chunk::<2>()?;
        let (space, length) = SpaceKey::parse_path(rest)?;
        let (kind, id) = rest[length..].split_first()?;
        let kind = match kind {
            1 => WorkKind::Session,
            2 => WorkKind::Upkeep,
            _ => return None,
        };
        if kind.rows().to_be_bytes() != *rows {
            return None;
        }
        let id = std::str::from_utf8(id).ok()?.to_owned();
        Some(Self { at_us: time_from_sortable(*time), space, kind, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_and_sort_by_time() {
        let space = SpaceKey::user("t", "用户").expect("valid");
        let work = |at_us| Work { at_us, space: space.clone(), kind: WorkKind::Session, id: "会话".into() };
        for at_us in [i64::MIN, -5, 0, 1_800_000_000_000_000] {
            assert_eq!(Work::parse(&work(at_us).key()), Some(work(at_us)));
        }
        let upkeep = Work { kind: WorkKind::Upkeep, id: String::new(), ..work(7) };
        assert_eq!(Work::parse(&upkeep.key()), Some(upkeep));
        assert!(work(-5).key() < work(3).key());
        assert_eq!(Work::parse(b"\xff\xfcshort"), None);
    }
}
