//! The file that a converted model is kept in.
//!
//! ```text
//! magic      8 bytes   "HFMODEL\0"
//! version    u32       little-endian, as all numbers here
//! length     u32       of the header
//! header     JSON      model id, dimensions, and name, type and shape of each tensor
//! tensors    bytes     one after the other in the header's order, row-major
//! checksum   16 bytes  XXH3-128 of all before it
//! ```
//!
//! The file is a cache: it can be made again from what it was converted from, so a new version
//! of the format needs no migration.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::error::ModelError;

/// First bytes of every model file; never changes.
const MAGIC: &[u8; 8] = b"HFMODEL\0";
/// Raised with every change of the layout or of the tensors' meaning.
const VERSION: u32 = 1;
const PREFIX_BYTES: u64 = 16;
const CHECKSUM_BYTES: u64 = 16;
/// No header comes near; a larger length is damage and is not allocated.
const HEADER_BYTES_MAX: u32 = 1 << 20;

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dtype {
    /// Unsigned byte.
    U8,
    /// IEEE 754 single precision, little-endian.
    F32,
}

impl Dtype {
    fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F32 => 4,
        }
    }
}

/// What a header says of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorSpec {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
}

impl TensorSpec {
    pub(crate) fn new(name: &str, dtype: Dtype, shape: &[usize]) -> Self {
        Self { name: name.to_owned(), dtype, shape: shape.to_vec() }
    }

    /// Size in the file; `None` if no file could be that large.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.dtype.bytes(), |bytes, n| bytes.checked_mul(*n as u64))
    }
}

/// The JSON header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) model_id: String,
    pub(crate) dims: usize,
    pub(crate) tensors: Vec<TensorSpec>,
}

/// Writes a model file front to back.
pub(crate) struct ModelWriter {
    path: PathBuf,
    file: BufWriter<File>,
    hash: Xxh3,
}

impl ModelWriter {
    /// Starts the file at `path`, replacing what is there.
    pub(crate) fn create(path: &Path, header: &Header) -> Result<Self, ModelError> {
        let json = serde_json::to_vec(header)
            .map_err(std::io::Error::from)
            .map_err(ModelError::io(path, "encode the header of"))?;
        let file = File::create(path).map_err(ModelError::io(path, "create"))?;
        let mut writer =
            Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file), hash: Xxh3::new() };
        writer.write(MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        writer.write(&(json.len() as u32).to_le_bytes())?;
        writer.write(&json)?;
        Ok(writer)
    }

    /// Appends bytes of the tensors, which must come in the header's order.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(ModelError::io(&self.path, "write"))
    }

    /// Adds the checksum and returns once the file is on disk.
    pub(crate) fn finish(mut self) -> Result<(), ModelError> {
        let checksum = self.hash.digest128().to_le_bytes();
        self.file
            .write_all(&checksum)
            .and_then(|()| self.file.flush())
            .map_err(ModelError::io(&self.path, "write"))?;
        self.file.get_ref().sync_all().map_err(ModelError::io(&self.path, "sync"))
    }
}

/// Reads a model file whose size and checksum have been found right.
#[derive(Debug)]
pub(crate) struct ModelReader {
    path: PathBuf,
    file: File,
    header: Header,
    /// Where the first tensor starts.
    tensors_at: u64,
}

impl ModelReader {
    /// Opens and verifies all of the file, in one pass over it.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let file = File::open(path).map_err(ModelError::io(path, "open"))?;
        let size = file.metadata().map_err(ModelError::io(path, "read the size of"))?.len();
        let mut reader = Self {
            path: path.to_owned(),
            file,
            header: Header { model_id: String::new(), dims: 0, tensors: Vec::new() },
            tensors_at: 0,
        };
        let length = reader.read_prefix(size)?;
        // The checksum first: only what is known to be whole is interpreted.
        reader.verify_checksum(size)?;
        let json = reader.read_at(PREFIX_BYTES, u64::from(length))?;
        reader.header =
            serde_json::from_slice(&json).map_err(|error| reader.damaged(&format!("its header: {error}")))?;
        reader.tensors_at = PREFIX_BYTES + u64::from(length);
        let end = reader
            .header
            .tensors
            .iter()
            .try_fold(reader.tensors_at, |at, spec| at.checked_add(spec.bytes()?));
        if end != Some(size - CHECKSUM_BYTES) {
            return Err(reader.damaged("its size is not what its header says"));
        }
        Ok(reader)
    }

    /// The header.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// An error about this file.
    pub(crate) fn damaged(&self, what: &str) -> ModelError {
        ModelError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }

    /// Shape of the tensor `name`.
    pub(crate) fn shape(&self, name: &str) -> Result<Vec<usize>, ModelError> {
        Ok(self.find(name)?.0.shape.clone())
    }

    /// All bytes of a tensor of bytes.
    pub(crate) fn u8s(&mut self, name: &str) -> Result<Vec<u8>, ModelError> {
        self.read_tensor(name, Dtype::U8)
    }

    /// All elements of a tensor of floats; each is finite.
    pub(crate) fn f32s(&mut self, name: &str) -> Result<Vec<f32>, ModelError> {
        let bytes = self.read_tensor(name, Dtype::F32)?;
        let (chunks, _) = bytes.as_chunks::<4>();
        let values: Vec<f32> = chunks.iter().map(|c| f32::from_le_bytes(*c)).collect();
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(self.damaged(&format!("the tensor {name:?} is not all numbers")))
        }
    }

    fn read_tensor(&mut self, name: &str, dtype: Dtype) -> Result<Vec<u8>, ModelError> {
        let (spec, at) = self.find(name)?;
        let bytes = spec.bytes().filter(|_| spec.dtype == dtype);
        let bytes = bytes.ok_or_else(|| self.damaged(&format!("the tensor {name:?} has another type")))?;
        self.read_at(at, bytes)
    }

    /// Description and position of the tensor `name`.
    fn find(&self, name: &str) -> Result<(&TensorSpec, u64), ModelError> {
        let mut at = self.tensors_at;
        for spec in &self.header.tensors {
            if spec.name == name {
                return Ok((spec, at));
            }
            // `open` has checked that the sizes can be added.
            at += spec.bytes().unwrap_or_default();
        }
        Err(self.damaged(&format!("the tensor {name:?} is missing")))
    }

    /// Checks magic and version and returns the length of the header.
    fn read_prefix(&mut self, size: u64) -> Result<u32, ModelError> {
        let mut prefix = [0; PREFIX_BYTES as usize];
        let whole = self.file.read_exact(&mut prefix);
        let path = || self.path.clone();
        if size < PREFIX_BYTES && !MAGIC.starts_with(&prefix[..size.min(8) as usize])
            || size >= PREFIX_BYTES && !prefix.starts_with(MAGIC)
        {
            return Err(ModelError::NotAModel { path: path() });
        }
        if size < PREFIX_BYTES {
            return Err(self.damaged("it is cut short"));
        }
        whole.map_err(ModelError::io(&self.path, "read"))?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte: usize| prefix[at + byte]));
        let (found, length) = (number(8), number(12));
        if found != VERSION {
            return Err(ModelError::Version { path: path(), found, supported: VERSION });
        }
        let least = PREFIX_BYTES + u64::from(length) + CHECKSUM_BYTES;
        if length > HEADER_BYTES_MAX || size < least {
            return Err(self.damaged("it is cut short"));
        }
        Ok(length)
    }

    fn verify_checksum(&mut self, size: u64) -> Result<(), ModelError> {
        let failed = |error| ModelError::io(&self.path, "read")(error);
        (&self.file).seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut hashed = BufReader::with_capacity(1 << 18, &self.file).take(size - CHECKSUM_BYTES);
        let mut hash = Xxh3::new();
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = hashed.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
        }
        let mut checksum = [0; CHECKSUM_BYTES as usize];
        let mut rest = hashed.into_inner();
        rest.read_exact(&mut checksum).map_err(failed)?;
        if hash.digest128().to_le_bytes() == checksum {
            Ok(())
        } else {
            Err(self.damaged("its checksum does not match"))
        }
    }

    /// Reads `bytes` bytes at `at`, which `open` has found to be inside the file.
    fn read_at(&mut self, at: u64, bytes: u64) -> Result<Vec<u8>, ModelError> {
        let mut out = vec![0; bytes as usize];
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_exact(&mut out))
            .map_err(ModelError::io(&self.path, "read"))?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn write(path: &Path) {
        let header = Header {
            model_id: "模型".to_owned(),
            dims: 2,
            tensors: vec![
                TensorSpec::new("bytes", Dtype::U8, &[3]),
                TensorSpec::new("floats", Dtype::F32, &[1, 2]),
                TensorSpec::new("nan", Dtype::F32, &[1]),
            ],
        };
        let mut writer = ModelWriter::create(path, &header).unwrap();
        writer.write(&[7, 8, 9]).unwrap();
        for value in [1.5f32, -2.0, f32::NAN] {
            writer.write(&value.to_le_bytes()).unwrap();
        }
        writer.finish().unwrap();
    }

    #[test]
    fn gives_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        write(&path);
        let mut reader = ModelReader::open(&path).unwrap();
        assert_eq!(reader.header().model_id, "模型");
        assert_eq!(reader.f32s("floats").unwrap(), [1.5, -2.0]);
        assert_eq!(reader.u8s("bytes").unwrap(), [7, 8, 9]);
        assert_eq!(reader.shape("floats").unwrap(), [1, 2]);
        assert!(reader.f32s("bytes").is_err());
        assert!(reader.f32s("nan").is_err());
        assert!(reader.u8s("absent").is_err());
    }

    #[test]
    fn any_flipped_bit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        write(&path);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bad).unwrap();
            let error = ModelReader::open(&path).unwrap_err();
            let expected = match at {
                0..8 => matches!(error, ModelError::NotAModel { .. }),
                8..12 => matches!(error, ModelError::Version { .. }),
                _ => matches!(error, ModelError::Damaged { .. }),
            };
            assert!(expected, "byte {at}: {error}");
        }
    }

    #[test]
    fn any_other_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        write(&path);
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            let error = ModelReader::open(&path).unwrap_err();
            assert!(matches!(error, ModelError::Damaged { .. }), "{length}: {error}");
        }
        std::fs::write(&path, [&good[..], b"x"].concat()).unwrap();
        assert!(ModelReader::open(&path).is_err());
        assert!(matches!(ModelReader::open(&folder.path().join("absent")), Err(ModelError::Io { .. })));
    }
}
