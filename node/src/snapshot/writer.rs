use super::format::{
    BLOCK_BYTES, CHECKSUM, FRAME_HEAD, FrameHead, Header, Kind, ROW_BYTES_MAX, ROW_HEAD, SnapshotError,
    Summary, frame_checksum,
};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Fast rather than small: a file is rewritten each time the log has grown by its size.
const LEVEL: i32 = 1;

/// Writes the rows of a state, in the order of their keys, block by block.
pub struct SnapshotWriter<W> {
    to: W,
    path: PathBuf,
    seed: u64,
    header: Header,
    summary: Summary,
    /// The rows of the block that is being filled.
    raw: Vec<u8>,
    rows: u32,
    last_key: Option<Vec<u8>>,
}

impl<W: Write> SnapshotWriter<W> {
    /// Writes the head. `path` is what errors name.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn new(mut to: W, path: &Path, header: Header) -> Result<Self, SnapshotError> {
        let head = header.encode()?;
        let seed = checksum_at_end(&head);
        to.write_all(&head).map_err(|error| io_error(path, error))?;
        let path = path.to_owned();
        let raw = Vec::with_capacity(BLOCK_BYTES + (64 << 10));
        let summary = Summary { file_bytes: head.len() as u64, ..Summary::default() };
        Ok(Self { to, path, seed, header, summary, raw, rows: 0, last_key: None })
    }

    /// The checksum of the head, which tells this file from others.
    pub fn head_checksum(&self) -> u64 {
        self.seed
    }

    /// The log index of the state.
    pub fn index(&self) -> u64 {
        self.header.position.index
    }

    /// Adds a row, which must sort behind the one before.
    ///
    /// # Errors
    /// [`SnapshotError`]; the file is useless then.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), SnapshotError> {
        if self.last_key.as_deref().is_some_and(|last| last >= key) {
            return Err(SnapshotError::Rows("the keys do not rise".into()));
        }
        if key.len() + value.len() > ROW_BYTES_MAX {
            let bytes = key.len() + value.len();
            return Err(SnapshotError::Row(format!("a row of {bytes} bytes")));
        }
        let length =
            |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|error| SnapshotError::Row(error.to_string()));
        self.raw.extend_from_slice(&length(key)?.to_le_bytes());
        self.raw.extend_from_slice(&length(value)?.to_le_bytes());
        self.raw.extend_from_slice(key);
        self.raw.extend_from_slice(value);
        self.rows += 1;
        self.summary.rows += 1;
        self.summary.raw_bytes += (ROW_HEAD + key.len() + value.len()) as u64;
        self.summary.hash.add(key, value);
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        if self.raw.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    /// Writes the footer and returns what was written to, unsynced.
    ///
    /// # Errors
    /// [`SnapshotError::Rows`] if the rows are not those that the header announces.
    pub fn finish(mut self) -> Result<(W, Summary), SnapshotError> {
        if !self.raw.is_empty() {
            self.close_block()?;
        }
        let summary = self.summary;
        if !summary.fits(&self.header) {
            let Header { rows, hash, .. } = self.header;
            let found = (summary.rows, summary.hash);
            return Err(SnapshotError::Rows(format!("{found:?} where {:?} was expected", (rows, hash))));
        }
        self.write_frame(Kind::Footer, 0, &summary.encode())?;
        Ok((self.to, summary))
    }

    fn close_block(&mut self) -> Result<(), SnapshotError> {
        let compressed =
            zstd::bulk::compress(&self.raw, LEVEL).map_err(|error| io_error(&self.path, error))?;
        self.write_frame(Kind::Block, self.raw.len(), &compressed)?;
        self.summary.blocks += 1;
        self.raw.clear();
        self.rows = 0;
        Ok(())
    }

    fn write_frame(&mut self, kind: Kind, raw_length: usize, payload: &[u8]) -> Result<(), SnapshotError> {
        let length =
            |length: usize| u32::try_from(length).map_err(|error| SnapshotError::Row(error.to_string()));
        let head = FrameHead {
            kind,
            number: self.summary.blocks,
            rows: self.rows,
            raw_length: length(raw_length)?,
            length: length(payload.len())?,
        };
        let mut frame = Vec::with_capacity(FRAME_HEAD + payload.len() + CHECKSUM);
        frame.extend_from_slice(&head.encode());
        frame.extend_from_slice(payload);
        let checksum = frame_checksum(&frame, self.seed);
        frame.extend_from_slice(&checksum.to_le_bytes());
        self.summary.file_bytes += frame.len() as u64;
        self.to.write_all(&frame).map_err(|error| io_error(&self.path, error))
    }
}

fn checksum_at_end(head: &[u8]) -> u64 {
    head.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn io_error(path: &Path, error: io::Error) -> SnapshotError {
    SnapshotError::Io { path: path.to_owned(), error }
}
