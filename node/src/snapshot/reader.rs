use super::format::{
    CHECKSUM, END, FRAME_HEAD, FileId, FrameHead, HEAD_START, HEADER_BYTES_MAX, Header, Kind, MAGIC,
    ROW_HEAD, SnapshotError, Summary, damaged, frame_checksum,
};
use holdfast_core::state::Row;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Reads a file block by block. What it hands out is what was written; whether that is all of it is
/// known only at the end, so nothing may be made of the rows before [`SnapshotReader::next_block`] has
/// answered `None`.
pub struct SnapshotReader<R> {
    from: R,
    path: PathBuf,
    seed: u64,
    header: Header,
    summary: Summary,
    frame: Vec<u8>,
    last_key: Option<Vec<u8>>,
    ended: bool,
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the head. `path` is what errors name.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is not whole.
    pub fn new(mut from: R, path: &Path) -> Result<Self, SnapshotError> {
        let mut head = vec![0; HEAD_START];
        read(&mut from, path, &mut head)?;
        if head[..MAGIC.len()] != MAGIC {
            return Err(damaged("it does not begin as a snapshot file does"));
        }
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        if length > HEADER_BYTES_MAX {
            return Err(damaged("the header has an impossible length"));
        }
        head.resize(HEAD_START + length, 0);
        read(&mut from, path, &mut head[HEAD_START..])?;
        let mut checksum = [0; CHECKSUM];
        read(&mut from, path, &mut checksum)?;
        let seed = u64::from_le_bytes(checksum);
        if xxh3_64(&head) != seed {
            return Err(damaged("the header has the wrong checksum"));
        }
        let header = Header::decode(&head[HEAD_START..])?;
        let summary = Summary { file_bytes: (head.len() + CHECKSUM) as u64, ..Summary::default() };
        let path = path.to_owned();
        Ok(Self { from, path, seed, header, summary, frame: Vec::new(), last_key: None, ended: false })
    }

    /// What the file says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Checks the last bytes of a file of `length` bytes, without what is between them and the head:
    /// a file that was cut off or is not whole in another way is told without reading all of it.
    pub(super) fn check_end(&self, end: &[u8; END], length: u64) -> Result<Summary, SnapshotError> {
        let (frame, checksum) = end.split_at(END - CHECKSUM);
        let right = checksum == frame_checksum(frame, self.seed).to_le_bytes();
        let footer = Summary::decode(&frame[FRAME_HEAD..])?;
        if right && frame[0] == Kind::Footer as u8 && footer.file_bytes + END as u64 == length {
            Ok(footer)
        } else {
            Err(damaged("it does not end as it was written"))
        }
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        FileId { index: self.header.position.index, head: self.seed }
    }

    /// The rows of the next block; `None` once the footer was read and agrees with everything before.
    ///
    /// # Errors
    /// [`SnapshotError`] if the file is not, to its last byte, what was written.
    pub fn next_block(&mut self) -> Result<Option<Vec<Row>>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let head = self.next_frame()?;
        if head.kind == Kind::Footer {
            self.check_footer()?;
            self.ended = true;
            return Ok(None);
        }
        let payload = &self.frame[FRAME_HEAD..];
        let raw = zstd::bulk::decompress(payload, head.raw_length as usize).map_err(damaged)?;
        if raw.len() != head.raw_length as usize {
            return Err(damaged("a block is shorter than it says"));
        }
        let rows = self.rows(&raw, head.rows as usize)?;
        self.summary.blocks += 1;
        self.summary.file_bytes += (self.frame.len() + CHECKSUM) as u64;
        Ok(Some(rows))
    }

    /// Reads all that is left, and what it comes to.
    ///
    /// # Errors
    /// As [`SnapshotReader::next_block`].
    pub fn verify(mut self) -> Result<Summary, SnapshotError> {
        while self.next_block()?.is_some() {}
        Ok(self.summary)
    }

    /// Reads a frame into `self.frame`, without its checksum, which is right.
    fn next_frame(&mut self) -> Result<FrameHead, SnapshotError> {
        let mut start = [0; FRAME_HEAD];
        read(&mut self.from, &self.path, &mut start)?;
        let head = FrameHead::decode(&start)?;
        self.frame.clear();
        self.frame.extend_from_slice(&start);
        self.frame.resize(FRAME_HEAD + head.length as usize, 0);
        read(&mut self.from, &self.path, &mut self.frame[FRAME_HEAD..])?;
        let mut checksum = [0; CHECKSUM];
        read(&mut self.from, &self.path, &mut checksum)?;
        if frame_checksum(&self.frame, self.seed) != u64::from_le_bytes(checksum) {
            return Err(damaged(format!("block {} has the wrong checksum", self.summary.blocks)));
        }
        if head.number != self.summary.blocks {
            let (wanted, found) = (self.summary.blocks, head.number);
            return Err(damaged(format!("block {found} stands where block {wanted} must be")));
        }
        Ok(head)
    }

    fn rows(&mut self, raw: &[u8], count: usize) -> Result<Vec<Row>, SnapshotError> {
        let mut rows = Vec::with_capacity(count.min(raw.len() / ROW_HEAD));
        let mut rest = raw;
        for _ in 0..count {
            let (key, value, after) = split_row(rest).ok_or_else(|| damaged("a block ends within a row"))?;
            if self.last_key.as_deref().is_some_and(|last| last >= key) {
                return Err(damaged("the keys do not rise"));
            }
            self.last_key = Some(key.to_vec());
            self.summary.rows += 1;
            self.summary.raw_bytes += (ROW_HEAD + key.len() + value.len()) as u64;
            self.summary.hash.add(key, value);
            rows.push((key.to_vec(), value.to_vec()));
            rest = after;
        }
        if rest.is_empty() { Ok(rows) } else { Err(damaged("a block has more rows than it says")) }
    }

    fn check_footer(&mut self) -> Result<(), SnapshotError> {
        let footer = Summary::decode(&self.frame[FRAME_HEAD..])?;
        if footer != self.summary || !footer.fits(&self.header) {
            return Err(damaged("the rows are not those that the footer counts"));
        }
        let mut more = [0; 1];
        match self.from.read(&mut more) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged("something follows the footer")),
            Err(error) => Err(SnapshotError::Io { path: self.path.clone(), error }),
        }
    }
}

/// A row and what follows it.
fn split_row(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_length, rest) = bytes.split_first_chunk::<4>()?;
    let (value_length, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_length) as usize)?;
    Some((key, value, rest))
}

fn read(from: &mut impl Read, path: &Path, bytes: &mut [u8]) -> Result<(), SnapshotError> {
    from.read_exact(bytes).map_err(|error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => damaged("it ends too early"),
        _ => SnapshotError::Io { path: path.to_owned(), error },
    })
}
