//! Inverted lists (IVF): the vectors of an image in a file, by what they are near to.
//!
//! A space of very many vectors takes most of its memory for them. Here they are in a file, each in the list
//! of its nearest centroid: one after the other as i8 codes, which are read list by list, and behind them in
//! f16, which are read one by one. In memory stay the centroids, and of each vector its hash and two numbers
//! that say how it lies to its centroid: some twenty bytes in place of two a dimension.
//!
//! What is read is checked: each list of codes by its hash, each vector by its own. A file that fails is not
//! an empty one: the search fails, the image goes, and the next one is loaded without the file.
//!
//! # Format
//! For each list its codes (one byte a dimension and vector), then scale and code error of each (two f32),
//! then the vectors in f16; all little-endian. Behind all lists a [`Footer`], sealed.

mod build;
mod listed;
mod train;
mod writer;

use super::files::{FileError, unseal};
pub(super) use build::{Built, Site, build};
use holdfast_core::space::SpaceKey;
pub(super) use listed::{Listed, Spilling};
use numkong::f16;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
pub(super) use writer::{Entry, Shape, Writer};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The extension of the files.
pub(super) const EXTENSION: &str = "lists";
const MARK: [u8; 8] = *b"HFLISTS1";
/// Vectors of one list at the most, so that a read is bounded: a larger list is several of one centroid.
pub(super) const LIST_ROWS_MAX: usize = 4_096;
/// Scale and code error of a vector, in bytes.
const NUMBERS: usize = 8;

/// The end of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Footer {
    space: SpaceKey,
    model: u8,
    dims: u32,
    probes: u32,
    spread: f32,
    /// For each list its number of vectors and the hash of its codes.
    lists: Vec<(u32, u64)>,
    /// In f16, one behind the other; none where the lists are in no order yet.
    centroids: Vec<u16>,
    rows: Vec<RowNote>,
}

/// What is known of a vector without reading it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RowNote {
    /// Of its memory.
    pub(super) seq: u64,
    /// [`print`] of the vector.
    pub(super) print: u64,
    /// Its part along the centroid of its list, and the length of the rest.
    pub(super) along: f32,
    pub(super) beside: f32,
}

/// Lists in a file.
#[derive(Debug)]
pub(super) struct Lists {
    file: File,
    pub(super) model: u8,
    pub(super) dims: usize,
    /// Lists that a query looks into at least, as measured in training.
    pub(super) probes: usize,
    /// What the parts of a query and of a vector beside the centroid have in common at the most, as measured
    /// in training; 1 is the most that there can be.
    pub(super) spread: f32,
    lists: Vec<Extent>,
    centroids: Vec<f16>,
    prints: Vec<u64>,
    along: Vec<f32>,
    beside: Vec<f32>,
}

/// Where a list is.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Its first vector, by number in the file.
    start: u32,
    rows: u32,
    offset: u64,
    hash: u64,
}

/// The codes of a list.
#[derive(Debug, Default)]
pub(super) struct Codes {
    codes: Vec<i8>,
    numbers: Vec<(f32, f32)>,
}

/// The hash of a vector in f16, as bytes, and of the model that made it. It tells whether a file has the vector
/// that a row has, and whether what was read is what was written: one in 2^64 is taken for another.
pub(super) fn print(model: u8, halves: &[u8]) -> u64 {
    xxh3_64_with_seed(halves, u64::from(model))
}

/// The bytes of a vector, as they are stored.
pub(super) fn halves(values: &[f16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.0.to_le_bytes()).collect()
}

/// The vector of such bytes.
fn values(halves: &[u8]) -> Vec<f16> {
    let (pairs, _) = halves.as_chunks::<2>();
    pairs.iter().map(|pair| f16(u16::from_le_bytes(*pair))).collect()
}

/// The name of the file for a model and a length.
pub(super) fn file_name(model: u8, dims: usize) -> String {
    format!("{model}-{dims}.{EXTENSION}")
}

/// About how many bytes such a file has.
pub(super) fn file_bytes(vectors: usize, dims: usize) -> u64 {
    vectors as u64 * (3 * dims as u64 + (NUMBERS + size_of::<RowNote>()) as u64)
}

impl Lists {
    /// Opens a file; answers the seqs of its vectors, too, in their order.
    ///
    /// # Errors
    /// [`FileError`]; the file is of no use then.
    pub(super) fn open(path: &Path, space: &SpaceKey) -> Result<(Arc<Self>, Vec<u64>), FileError> {
        let file = File::open(path)?;
        let (footer, end): (Footer, u64) = unseal(&file, MARK)?;
        if footer.space != *space {
            return Err(FileError::Foreign);
        }
        let dims = footer.dims as usize;
        let (mut start, mut offset, mut lists) = (0u32, 0u64, Vec::with_capacity(footer.lists.len()));
        for (rows, hash) in footer.lists {
            lists.push(Extent { start, rows, offset, hash });
            start = start.checked_add(rows).ok_or(FileError::Damaged("lists"))?;
            offset += u64::from(rows) * (3 * dims + NUMBERS) as u64;
        }
        let fits = lists.iter().all(|list| list.rows as usize <= LIST_ROWS_MAX)
            && offset == end
            && start as usize == footer.rows.len()
            && (footer.centroids.is_empty() || footer.centroids.len() == lists.len() * dims);
        if !fits {
            return Err(FileError::Damaged("lists"));
        }
        let this = Self {
            file,
            model: footer.model,
            dims,
            probes: footer.probes as usize,
            spread: footer.spread,
            lists,
            centroids: footer.centroids.into_iter().map(f16).collect(),
            prints: footer.rows.iter().map(|row| row.print).collect(),
            along: footer.rows.iter().map(|row| row.along).collect(),
            beside: footer.rows.iter().map(|row| row.beside).collect(),
        };
        Ok((Arc::new(this), footer.rows.iter().map(|row| row.seq).collect()))
    }

    /// Vectors in the file.
    pub(super) fn len(&self) -> usize {
        self.prints.len()
    }

    /// Lists in the file.
    pub(super) fn count(&self) -> usize {
        self.lists.len()
    }

    /// Whether the vectors are in no order: every list may have anything then.
    pub(super) fn is_plain(&self) -> bool {
        self.centroids.is_empty()
    }

    /// The centroid of a list.
    pub(super) fn centroid(&self, list: usize) -> Option<&[f16]> {
        self.centroids.get(list * self.dims..(list + 1) * self.dims)
    }

    /// The numbers of the vectors of a list.
    pub(super) fn range(&self, list: usize) -> std::ops::Range<u32> {
        self.lists.get(list).map_or(0..0, |list| list.start..list.start + list.rows)
    }

    /// The hash of a vector.
    pub(super) fn print(&self, slot: u32) -> Option<u64> {
        self.prints.get(slot as usize).copied()
    }

    /// How a vector lies to its centroid: its part along it, and the length of the rest.
    #[inline]
    pub(super) fn lie(&self, slot: u32) -> (f32, f32) {
        let at = slot as usize;
        (self.along.get(at).copied().unwrap_or(1.0), self.beside.get(at).copied().unwrap_or(1.0))
    }

    /// Reads a vector.
    pub(super) fn vector(&self, slot: u32) -> Result<Vec<f16>, FileError> {
        let after = self.lists.partition_point(|list| list.start <= slot);
        let list = after.checked_sub(1).and_then(|list| self.lists.get(list));
        let list = list.filter(|list| slot - list.start < list.rows).ok_or(FileError::Damaged("number"))?;
        let behind = u64::from(list.rows) * (self.dims + NUMBERS) as u64;
        let mut bytes = vec![0; 2 * self.dims];
        let at = list.offset + behind + u64::from(slot - list.start) * bytes.len() as u64;
        self.file.read_exact_at(&mut bytes, at)?;
        self.checked(slot, &bytes)
    }

    /// Reads all vectors of a list.
    pub(super) fn vectors(&self, list: usize) -> Result<Vec<Vec<f16>>, FileError> {
        let Some(extent) = self.lists.get(list) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; extent.rows as usize * 2 * self.dims];
        let behind = u64::from(extent.rows) * (self.dims + NUMBERS) as u64;
        self.file.read_exact_at(&mut bytes, extent.offset + behind)?;
        let vectors = self.range(list).zip(bytes.chunks_exact((2 * self.dims).max(1)));
        vectors.map(|(slot, bytes)| self.checked(slot, bytes)).collect()
    }

    /// Reads the codes of a list.
    pub(super) fn codes(&self, list: usize, out: &mut Codes) -> Result<(), FileError> {
        out.codes.clear();
        out.numbers.clear();
        let Some(extent) = self.lists.get(list) else { return Ok(()) };
        let rows = extent.rows as usize;
        let mut bytes = vec![0; rows * (self.dims + NUMBERS)];
        self.file.read_exact_at(&mut bytes, extent.offset)?;
        if xxh3_64(&bytes) != extent.hash {
            return Err(FileError::Damaged("codes"));
        }
        let (codes, numbers) = bytes.split_at(rows * self.dims);
        out.codes.extend(codes.iter().map(|code| code.cast_signed()));
        let (numbers, _) = numbers.as_chunks::<NUMBERS>();
        out.numbers.extend(numbers.iter().map(|[a, b, c, d, e, f, g, h]| {
            (f32::from_le_bytes([*a, *b, *c, *d]), f32::from_le_bytes([*e, *f, *g, *h]))
        }));
        Ok(())
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.lists.capacity() * size_of::<Extent>()
            + self.centroids.capacity() * size_of::<f16>()
            + self.prints.capacity() * size_of::<u64>()
            + (self.along.capacity() + self.beside.capacity()) * size_of::<f32>()
    }

    fn checked(&self, slot: u32, bytes: &[u8]) -> Result<Vec<f16>, FileError> {
        if self.print(slot) == Some(print(self.model, bytes)) {
            Ok(values(bytes))
        } else {
            Err(FileError::Damaged("vector"))
        }
    }
}

impl Codes {
    /// The code of each vector of the list, its scale and its error.
    pub(super) fn iter(&self, dims: usize) -> impl Iterator<Item = (&[i8], f32, f32)> {
        let codes = self.codes.chunks_exact(dims.max(1));
        codes.zip(&self.numbers).map(|(code, (scale, error))| (code, *scale, *error))
    }
}
