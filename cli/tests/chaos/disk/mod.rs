//! The disk under tested processes: every change written down, faults injected, power cuts worked out.

mod journal;
mod model;

pub use journal::{Journal, now_ns};
pub use model::{Disk, Luck, tree};

use crate::common::cluster::Around;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What can be injected while a process runs: words of its control file, as `shim.c` numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    ClockOffsetNs = 0,
    FailSync = 1,
    FailWrite = 2,
    SyncDelayUs = 3,
    DieAt = 4,
    Changes = 5,
    Only = 6,
}

const WORDS: usize = 7;

/// The value of [`Word::Only`]: which files faults meet.
pub const ONLY_RAFT: u64 = 1;
/// As [`ONLY_RAFT`].
pub const ONLY_SHARDS: u64 = 2;
/// As [`ONLY_RAFT`]: sled's files.
pub const ONLY_STATES: u64 = 3;
/// As [`ONLY_RAFT`].
pub const ONLY_SNAPSHOTS: u64 = 4;

/// The errors of the kernel that are injected.
pub const EIO: u64 = 5;
pub const ENOSPC: u64 = 28;

/// What stands between one process and the system.
pub struct Shim {
    folder: PathBuf,
    control: File,
    starts: std::cell::Cell<u32>,
}

impl Shim {
    /// Keeps its files in `folder`, which must not be below what is watched.
    pub fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join("control");
        let control = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        control.write_all_at(&[0; WORDS * 8], 0).unwrap();
        Self { folder: folder.to_owned(), control, starts: std::cell::Cell::new(0) }
    }

    pub fn set(&self, word: Word, value: u64) {
        self.control.write_all_at(&value.to_ne_bytes(), word as u64 * 8).unwrap();
    }

    pub fn get(&self, word: Word) -> u64 {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, word as u64 * 8).unwrap();
        u64::from_ne_bytes(bytes)
    }

    /// The clock of the process differs by so many seconds from now on.
    pub fn shift_clock(&self, seconds: i64) {
        self.set(Word::ClockOffsetNs, (seconds * 1_000_000_000).cast_unsigned());
    }

    /// Puts the next start of a process behind it. `root` is what is watched; with `journal` every
    /// change is written down, to a new file.
    pub fn around(&self, around: &mut Around, root: &Path, journal: bool) {
        let root = fs::canonicalize(root).unwrap();
        let mut set = |name: &str, value: &Path| {
            around.variables.retain(|(known, _)| known != name);
            around.variables.push((name.to_owned(), value.to_str().unwrap().to_owned()));
        };
        set("LD_PRELOAD", library());
        set("CHAOS_ROOT", &root);
        set("CHAOS_CONTROL", &self.folder.join("control"));
        if journal {
            self.starts.set(self.starts.get() + 1);
            set("CHAOS_JOURNAL", &self.journal());
        } else {
            around.variables.retain(|(known, _)| known != "CHAOS_JOURNAL");
        }
    }

    /// The journal of the newest start that has one.
    pub fn journal(&self) -> PathBuf {
        self.folder.join(format!("journal-{}", self.starts.get()))
    }

    /// The boot id that the next start of a process reads.
    pub fn boot(&self, around: &mut Around, id: &str) {
        let file = self.folder.join("boot_id");
        fs::write(&file, id).unwrap();
        around.variables.retain(|(known, _)| known != "CHAOS_BOOT");
        around.variables.push(("CHAOS_BOOT".into(), file.to_str().unwrap().to_owned()));
    }
}

/// The library, built at the first use.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let target = folder.join("chaos-shim.so");
        // Every test is a process of its own: each builds it beside the others and renames.
        let own = folder.join(format!("chaos-shim-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/disk/shim.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&own);
        let output = compiler.arg(source).args(["-ldl", "-lpthread"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::rename(&own, &target).unwrap();
        target
    })
}
