//! What `shim.c` has written down.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;

const MAGIC: u32 = 0x4348_4153;
const HEAD: usize = 48;

/// One change to a file system. Files are named by their inode while they are open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Create { path: String, inode: u64 },
    MakeDir { path: String, inode: u64 },
    Rename { from: String, to: String },
    Unlink { path: String },
    RemoveDir { path: String },
    Write { inode: u64, at: u64, data: Vec<u8> },
    Truncate { inode: u64, length: u64 },
    Extend { inode: u64, length: u64 },
    Sync { inode: u64 },
}

/// The changes of some processes, each with its time in nanoseconds of the monotonic clock.
#[derive(Debug, Default)]
pub struct Journal {
    pub changes: Vec<(u64, Change)>,
}

/// The clock that the times of changes are of.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Journal {
    /// Reads the journals of several processes as one. What was being appended to one of them when
    /// its process was killed is left out.
    pub fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut changes = Vec::new();
        for path in paths {
            let bytes = fs::read(path).unwrap();
            let mut rest = bytes.as_slice();
            while let Some((change, left)) = next(rest) {
                changes.push(change);
                rest = left;
            }
        }
        // Stable: changes of one process keep their order.
        changes.sort_by_key(|(time, _)| *time);
        Self { changes }
    }

    /// The time of the first and of the last change.
    pub fn span(&self) -> (u64, u64) {
        let time = |change: Option<&(u64, Change)>| change.map_or(0, |(time, _)| *time);
        (time(self.changes.first()), time(self.changes.last()))
    }
}

fn next(bytes: &[u8]) -> Option<((u64, Change), &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let short = |at: usize| usize::from(u16::from_ne_bytes([head[at], head[at + 1]]));
    let word = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap());
    assert_eq!(u32::from_ne_bytes(head[..4].try_into().unwrap()), MAGIC, "the journal is damaged");
    let (kind, inode, at, length, time) = (word(8), word(16), word(24), word(32), word(40));
    let (path, rest) = rest.split_at_checked(short(4))?;
    let (other, rest) = rest.split_at_checked(short(6))?;
    let (data, rest) = rest.split_at_checked(usize::try_from(length).unwrap())?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let path = text(path);
    let change = match kind {
        1 => Change::Create { path, inode },
        2 => Change::MakeDir { path, inode },
        3 => Change::Rename { from: path, to: text(other) },
        4 => Change::Unlink { path },
        5 => Change::RemoveDir { path },
        6 => Change::Write { inode, at, data: data.to_vec() },
        7 => Change::Truncate { inode, length: at },
        8 => Change::Extend { inode, length: at },
        9 => Change::Sync { inode },
        other => panic!("a change of kind {other}"),
    };
    Some(((time, change), rest))
}
