use anyhow::{Context, Result, bail};
use holdfast_transport::{Identity, Material, Role, TlsFiles, Wanted};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// One certificate to be made.
pub(super) struct Order {
    pub(super) identity: Identity,
    /// The name of its files, without what ends it.
    pub(super) file: String,
}

impl Order {
    pub(super) fn new(identity: Identity) -> Self {
        let name = match &identity {
            // Colons have a meaning in too many places.
            Identity::Node(address) => format!("{}-{}", address.host().replace(':', "_"), address.port()),
            Identity::Router(name) | Identity::Operator(name) => name.clone(),
        };
        let file = format!("{}-{name}", identity.role());
        Self { identity, file }
    }

    pub(super) fn certificate(&self, out: &Path) -> PathBuf {
        out.join(format!("{}.pem", self.file))
    }

    pub(super) fn key(&self, out: &Path) -> PathBuf {
        out.join(format!("{}.key", self.file))
    }

    /// Reads the files as the process will that is to use them.
    pub(super) fn check(&self, out: &Path) -> Result<()> {
        let ca = super::Authority::certificate(out);
        let files = TlsFiles { ca, cert: self.certificate(out), key: self.key(out) };
        let wanted = match &self.identity {
            Identity::Node(address) => Wanted::Node(address.clone()),
            Identity::Router(_) => Wanted::Role(Role::Router),
            Identity::Operator(_) => Wanted::Role(Role::Operator),
        };
        if let Err(faults) = Material::load(&files, &wanted) {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            bail!("{}", faults.join("; "));
        }
        Ok(())
    }
}

/// Makes a file, whole and on disk. One that is there is never replaced.
pub(super) fn write(file: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    try_write(file, bytes, mode).with_context(|| format!("cannot write {}", file.display()))
}

fn try_write(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    temporary.as_file().sync_all()?;
    temporary.persist_noclobber(file).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}
