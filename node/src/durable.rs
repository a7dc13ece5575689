//! Small files that must be there, whole, after a power cut.

use crate::crash::{Step, crash_point};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a test can end the process while a file is replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    pub(crate) synced: Step,
    pub(crate) renamed: Step,
    pub(crate) named: Step,
}

const FILE: Steps = Steps { synced: Step::FileSynced, renamed: Step::FileRenamed, named: Step::FileNamed };

/// Replaces a file by `bytes`, so that after a crash at any point either the old or the new content
/// is there: written beside it, synced, renamed over it, and the directory synced. `mode` are the
/// permissions of a new file.
///
/// # Errors
/// What the system said. The old content is still there unless the last step failed: then either is.
pub fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace_file_in(FILE, path, bytes, mode)
}

/// The same for a file whose steps are tested apart from those of others.
pub(crate) fn replace_file_in(steps: Steps, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = temporary_beside(path);
    // What a crash left there may have other permissions.
    remove_temporary(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    let mut replace = || {
        file.write_all(bytes)?;
        file.sync_all()?;
        crash_point(steps.synced);
        fs::rename(&temporary, path)
    };
    if let Err(error) = replace() {
        // On a disk without room for it there is none to waste. The error that matters is the first.
        let _ = remove_temporary(path);
        return Err(error);
    }
    crash_point(steps.renamed);
    File::open(parent)?.sync_all()?;
    crash_point(steps.named);
    Ok(())
}

/// Removes what an interrupted [`replace_file`] of this file has left.
///
/// # Errors
/// What the system said.
pub(crate) fn remove_temporary(path: &Path) -> io::Result<()> {
    match fs::remove_file(temporary_beside(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("记录.json");
        replace_file(&path, b"first", 0o600).unwrap();
        // What a crash before the rename leaves behind is in nobody's way.
        fs::write(temporary_beside(&path), b"half of a much longer con").unwrap();
        replace_file(&path, b"second", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(replace_file(&dir.path().join("no/such/folder"), b"x", 0o600).is_err());
        // A folder cannot be replaced by a file: nothing is left of the attempt.
        fs::create_dir_all(dir.path().join("folder/full")).unwrap();
        assert!(replace_file(&dir.path().join("folder"), b"x", 0o600).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
