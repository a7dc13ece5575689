use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Largest file that is read. A bundle of a hundred certificates has less.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the certificates and the key of a process are: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The CAs whose certificates are believed; several while one replaces another.
    pub ca: PathBuf,
    /// The certificate of this process, and what links it to a CA, if anything does.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// One of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// [`TlsFiles::ca`]
    Ca,
    /// [`TlsFiles::cert`]
    Cert,
    /// [`TlsFiles::key`]
    Key,
}

impl Part {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ca => "ca",
            Self::Cert => "cert",
            Self::Key => "key",
        }
    }
}

/// What is wrong with one of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which file.
    pub part: Part,
    /// What is wrong, beginning with the file's path.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls.{}: {}", self.part.name(), self.detail)
    }
}

/// What stood in the files at one moment. Holds a secret: never shown.
pub(crate) struct Contents {
    pub(crate) ca: Vec<u8>,
    pub(crate) cert: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Contents {
    /// Tells whether the files have changed.
    pub(crate) fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        for bytes in [&self.ca, &self.cert, &self.key] {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        hash.digest128()
    }
}

impl TlsFiles {
    /// The path of one of them.
    pub fn path(&self, part: Part) -> &Path {
        match part {
            Part::Ca => &self.ca,
            Part::Cert => &self.cert,
            Part::Key => &self.key,
        }
    }

    pub(crate) fn fault(&self, part: Part, detail: impl fmt::Display) -> Fault {
        Fault { part, detail: format!("{}: {detail}", self.path(part).display()) }
    }

    /// Reads all of them, or says what is wrong with each that cannot be read.
    pub(crate) fn read(&self) -> Result<Contents, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut bytes = |part| {
            read(self.path(part)).unwrap_or_else(|why| {
                faults.push(self.fault(part, why));
                Vec::new()
            })
        };
        let contents = Contents { ca: bytes(Part::Ca), cert: bytes(Part::Cert), key: bytes(Part::Key) };
        if faults.is_empty() { Ok(contents) } else { Err(faults) }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = bytes().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "this process may not read it".to_owned(),
        io::ErrorKind::IsADirectory => "this is a directory; give the file in it".to_owned(),
        _ => error.to_string(),
    })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes; is it a PEM file?"));
    }
    Ok(bytes)
}
