//! The bytes of a snapshot file.
//!
//! ```text
//! head    magic (8) . header length u32 . header . checksum u64
//! block   kind 1 u8 . number u32 . rows u32 . raw length u32 . length u32 . zstd bytes . checksum u64
//! …
//! footer  kind 2 u8 . number u32 . 0 u32 . 0 u32 . length u32 . footer (fixed size) . checksum u64
//! ```
//! Numbers are little-endian. A block decompresses to rows, `key length u32 . value length u32 . key .
//! value`, whose keys rise through the whole file. Every byte is under one checksum (xxh3-64), and the
//! checksums behind the head are seeded with the head's, so that a block of another file does not pass.
//! The number counts the frames: none can be left out, doubled or moved. Nothing follows the footer.

use crate::raft::{GroupId, LogPosition};
use holdfast_core::state::StateHash;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The first bytes of every file. The last two are the version of everything around the header.
pub(super) const MAGIC: [u8; 8] = *b"HFSNAP01";
/// Format of [`Header`] that this version writes. Persisted: never reuse a number.
pub(super) const HEADER_FORMAT: u8 = 1;
/// A block is closed once its rows take this much.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// The largest key and value together.
pub(super) const ROW_BYTES_MAX: usize = 16 << 20;
/// The most that the rows of a block can take.
pub(super) const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + ROW_BYTES_MAX + ROW_HEAD;
/// Room for a membership of many nodes and long names.
pub(super) const HEADER_BYTES_MAX: usize = 64 << 10;
/// Lengths in front of a key and value.
pub(super) const ROW_HEAD: usize = 8;
/// Magic and header length.
pub(super) const HEAD_START: usize = 12;
/// Kind, number, rows, raw length and length.
pub(super) const FRAME_HEAD: usize = 17;
pub(super) const CHECKSUM: usize = 8;
/// The footer's frame: the last bytes of every file.
pub(super) const END: usize = FRAME_HEAD + FOOTER_BYTES + CHECKSUM;
/// A footer is a few numbers: its place is known from the length of the file.
pub(super) const FOOTER_BYTES: usize = 44;

/// What a file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`Header`]'s own format.
    pub format: u8,
    /// The cluster that the state belongs to.
    pub cluster: String,
    /// The shard.
    pub group: GroupId,
    /// The entry up to which the log is applied in it.
    pub position: LogPosition,
    /// The membership at that entry, as the Raft layer encodes it.
    pub membership: Vec<u8>,
    /// Hash of the rows.
    pub hash: StateHash,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of all entries applied so far: how much log there was up to here.
    pub log_bytes: u64,
    /// Drawn for each file, so that two files of one state are two files: their blocks never mix.
    pub nonce: u64,
}

impl Header {
    /// The header of a new file; `state` is the hash and number of the rows, and the bytes of log.
    pub fn new(
        cluster: &str,
        group: GroupId,
        position: LogPosition,
        membership: Vec<u8>,
        state: (StateHash, u64, u64),
    ) -> Self {
        let (hash, rows, log_bytes) = state;
        let cluster = cluster.to_owned();
        // The standard library's hasher is seeded by the system: a random number without a crate.
        let nonce = RandomState::new().hash_one(position);
        Self { format: HEADER_FORMAT, cluster, group, position, membership, hash, rows, log_bytes, nonce }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, SnapshotError> {
        let bytes = postcard::to_allocvec(self).map_err(|error| SnapshotError::Row(error.to_string()))?;
        if bytes.len() > HEADER_BYTES_MAX {
            return Err(SnapshotError::Row(format!("a header of {} bytes is too long", bytes.len())));
        }
        let length = u32::try_from(bytes.len()).map_err(|error| SnapshotError::Row(error.to_string()))?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&bytes);
        let checksum = xxh3_64(&head);
        head.extend_from_slice(&checksum.to_le_bytes());
        Ok(head)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        if let Some(format) = bytes.first()
            && *format != HEADER_FORMAT
        {
            return Err(SnapshotError::Format(*format));
        }
        let (header, rest) = postcard::take_from_bytes::<Self>(bytes).map_err(damaged)?;
        if rest.is_empty() { Ok(header) } else { Err(damaged("the header is longer than it says")) }
    }
}

/// Tells files apart: where they stand in the log, and which of several for that place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// The log index of the state.
    pub index: u64,
    /// The checksum of the head, which holds the file's nonce.
    pub head: u64,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:016x}", self.index, self.head)
    }
}

/// What is known of a file's rows once it is read or written to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of blocks.
    pub blocks: u32,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the rows, before compression.
    pub raw_bytes: u64,
    /// Hash of the rows.
    pub hash: StateHash,
    /// Bytes of the file before its footer.
    pub file_bytes: u64,
}

impl Summary {
    pub(super) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..4].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.rows.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[20..36].copy_from_slice(&self.hash.0.to_le_bytes());
        bytes[36..].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let decode = |bytes: &[u8]| {
            let (blocks, rest) = bytes.split_first_chunk()?;
            let (rows, rest) = rest.split_first_chunk()?;
            let (raw_bytes, rest) = rest.split_first_chunk()?;
            let (hash, rest) = rest.split_first_chunk()?;
            let (file_bytes, rest) = rest.split_first_chunk()?;
            rest.is_empty().then_some(Self {
                blocks: u32::from_le_bytes(*blocks),
                rows: u64::from_le_bytes(*rows),
                raw_bytes: u64::from_le_bytes(*raw_bytes),
                hash: StateHash(u128::from_le_bytes(*hash)),
                file_bytes: u64::from_le_bytes(*file_bytes),
            })
        };
        decode(bytes).ok_or_else(|| damaged("the footer has the wrong size"))
    }

    /// Whether these are the rows that the header announces.
    pub(super) fn fits(&self, header: &Header) -> bool {
        (self.rows, self.hash) == (header.rows, header.hash)
    }
}

/// Why a snapshot file is not written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The system refused.
    #[error("{path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// The bytes are not those that were written.
    #[error("the snapshot file is damaged: {0}")]
    Damaged(String),
    /// A newer version wrote it.
    #[error("the snapshot file is of format {0}, which this version does not know")]
    Format(u8),
    /// It is the file of another cluster or shard.
    #[error("the snapshot file belongs to {found}, not to {wanted}")]
    Foreign {
        /// Whose it is.
        found: String,
        /// Whose it must be.
        wanted: String,
    },
    /// The rows are not those that the header announces: the state itself is damaged.
    #[error("the rows of the state do not have the hash that was kept: {0}")]
    Rows(String),
    /// A row or header that no file can hold.
    #[error("a snapshot file cannot hold this: {0}")]
    Row(String),
}

pub(super) fn damaged(cause: impl fmt::Display) -> SnapshotError {
    SnapshotError::Damaged(cause.to_string())
}

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Block = 1,
    Footer = 2,
}

/// The start of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) kind: Kind,
    pub(super) number: u32,
    pub(super) rows: u32,
    pub(super) raw_length: u32,
    pub(super) length: u32,
}

impl FrameHead {
    pub(super) fn encode(self) -> [u8; FRAME_HEAD] {
        let mut bytes = [0; FRAME_HEAD];
        bytes[0] = self.kind as u8;
        bytes[1..5].copy_from_slice(&self.number.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.rows.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.raw_length.to_le_bytes());
        bytes[13..17].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Checks what is read next against what can be there, before anything is allocated for it.
    pub(super) fn decode(bytes: &[u8; FRAME_HEAD]) -> Result<Self, SnapshotError> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = match bytes[0] {
            1 => Kind::Block,
            2 => Kind::Footer,
            other => return Err(damaged(format!("there is no frame of kind {other}"))),
        };
        let head =
            Self { kind, number: number(1), rows: number(5), raw_length: number(9), length: number(13) };
        let (raw, length) = (head.raw_length as usize, head.length as usize);
        let fits = match kind {
            Kind::Block => raw <= BLOCK_BYTES_MAX && length <= zstd::zstd_safe::compress_bound(raw),
            Kind::Footer => raw == 0 && head.rows == 0 && length == FOOTER_BYTES,
        };
        if fits { Ok(head) } else { Err(damaged("a frame has an impossible length")) }
    }
}

/// The checksum of a frame: its head and payload, seeded with the head of the file.
pub(super) fn frame_checksum(frame: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(frame, seed)
}
