//! Whether a replica may be believed.
//!
//! A replica whose rows are known to be wrong goes on taking part in its group: its log and its vote
//! are sound, and the group needs them. But it answers no reader, leads nobody and gives its rows to no
//! other replica, until they were made anew. The mark is on disk: a restart changes nothing about the
//! rows. So are the times of the last rebuilds, which are limited.

use super::files::OpenError;
use crate::crash::Step;
use crate::durable::{Steps, remove_temporary, replace_file_in};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = "integrity.json";
const FORMAT: u8 = 1;
const STEPS: Steps =
    Steps { synced: Step::QuarantineSynced, renamed: Step::QuarantineRenamed, named: Step::QuarantineNamed };
/// Rebuilds whose times are kept.
const REBUILDS_KEPT: usize = 8;

/// How often a state whose rows cannot be read is made anew within a day.
const REBUILDS_A_DAY_MAX: usize = 2;
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// Why a replica is in quarantine. The names are stored: they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its rows do not have the hash that it kept over them: damage on this machine.
    RowsDiffer,
    /// A majority of the replicas has another hash at the same point of the log.
    Outvoted,
    /// A row cannot be read, or rows that belong together do not fit.
    Unreadable,
}

impl Reason {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RowsDiffer => "rows_differ",
            Self::Outvoted => "outvoted",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What a replica is suspected of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspicion {
    /// Why.
    pub reason: Reason,
    /// What was seen, for whoever reads the log.
    pub detail: String,
    /// The log index at which it was seen.
    pub index: u64,
    /// When, in microseconds since 1970.
    pub since_us: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Stored {
    format: u8,
    suspicion: Option<Suspicion>,
    /// When the state was rebuilt because of a suspicion, oldest first.
    rebuilt_us: Vec<i64>,
}

/// The mark of one replica.
#[derive(Debug)]
pub struct Quarantine {
    path: PathBuf,
    /// What every reader asks.
    holds: AtomicBool,
    stored: Mutex<Stored>,
}

impl Quarantine {
    /// Reads the mark in the directory of a shard.
    ///
    /// # Errors
    /// [`OpenError::Io`] if the file is there and cannot be read: then nobody knows.
    pub(super) fn open(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(FILE);
        let failed = |error| OpenError::Io { path: path.clone(), error };
        remove_temporary(&path).map_err(failed)?;
        let stored: Stored = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Stored::default(),
            Err(error) => return Err(failed(error)),
        };
        let holds = AtomicBool::new(stored.suspicion.is_some());
        Ok(Self { path, holds, stored: Mutex::new(stored) })
    }

    /// Whether the replica must not be believed.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// What it is suspected of.
    pub fn suspicion(&self) -> Option<Suspicion> {
        self.stored.lock().suspicion.clone()
    }

    /// Why the rows could not be read, if that is what is wrong and the state may be made anew for it: that
    /// needs no other replica, for nothing can be done with it as it is.
    pub(super) fn is_unreadable(&self, now_us: i64) -> Option<String> {
        let suspicion = self.suspicion().filter(|suspicion| suspicion.reason == Reason::Unreadable)?;
        (self.rebuilds_since(now_us.saturating_sub(DAY_US)) < REBUILDS_A_DAY_MAX).then_some(suspicion.detail)
    }

    /// Puts the replica in quarantine; the first suspicion stays. Answers whether it is new.
    ///
    /// # Errors
    /// If the mark cannot be written. It holds nevertheless, for as long as the process runs.
    pub fn begin(&self, suspicion: Suspicion) -> io::Result<bool> {
        let mut stored = self.stored.lock();
        if stored.suspicion.is_some() {
            return Ok(false);
        }
        stored.suspicion = Some(suspicion);
        self.holds.store(true, Ordering::Release);
        self.write(&stored).map(|()| true)
    }

    /// Ends the quarantine, at `now_us`: the state was made anew.
    ///
    /// # Errors
    /// If the mark cannot be removed. The quarantine holds then, and the rebuild counts.
    pub fn end(&self, now_us: i64) -> io::Result<()> {
        let mut stored = self.stored.lock();
        let mut after = stored.clone();
        after.suspicion = None;
        after.rebuilt_us.push(now_us);
        let surplus = after.rebuilt_us.len().saturating_sub(REBUILDS_KEPT);
        after.rebuilt_us.drain(..surplus);
        if let Err(error) = self.write(&after) {
            stored.rebuilt_us = after.rebuilt_us;
            return Err(error);
        }
        *stored = after;
        self.holds.store(false, Ordering::Release);
        Ok(())
    }

    /// Rebuilds since `from_us`. One that a clock dates into the future counts, so that no clock that
    /// goes back lets a replica be rebuilt for ever.
    pub fn rebuilds_since(&self, from_us: i64) -> usize {
        self.stored.lock().rebuilt_us.iter().filter(|at_us| **at_us >= from_us).count()
    }

    fn write(&self, stored: &Stored) -> io::Result<()> {
        let stored = Stored { format: FORMAT, ..stored.clone() };
        replace_file_in(STEPS, &self.path, &serde_json::to_vec(&stored)?, 0o644)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn suspicion(detail: &str) -> Suspicion {
        Suspicion { reason: Reason::RowsDiffer, detail: detail.into(), index: 7, since_us: 1 }
    }

    #[test]
    fn a_restart_does_not_end_it_and_a_rebuild_does() {
        let dir = tempfile::tempdir().unwrap();
        let temporary = dir.path().join("integrity.json.tmp");
        fs::write(&temporary, b"half of a ma").unwrap();
        let quarantine = Quarantine::open(dir.path()).unwrap();
        assert!(!quarantine.holds() && !temporary.exists());
        assert!(quarantine.begin(suspicion("第一 🙂")).unwrap());
        assert!(!quarantine.begin(suspicion("second")).unwrap(), "the first one stays");
        let again = Quarantine::open(dir.path()).unwrap();
        assert!(again.holds());
        assert_eq!(again.suspicion(), Some(suspicion("第一 🙂")));
        again.end(1_000).unwrap();
        assert!(!again.holds());
        let after = Quarantine::open(dir.path()).unwrap();
        assert_eq!((after.holds(), after.suspicion()), (false, None));
        assert_eq!((after.rebuilds_since(1_000), after.rebuilds_since(1_001)), (1, 0));
    }

    #[test]
    fn rebuilds_are_counted_and_their_list_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let quarantine = Quarantine::open(dir.path()).unwrap();
        for at in 0..100 {
            quarantine.begin(suspicion("x")).unwrap();
            quarantine.end(at).unwrap();
        }
        assert_eq!(quarantine.rebuilds_since(0), REBUILDS_KEPT);
        assert_eq!(quarantine.rebuilds_since(99), 1);
        assert_eq!(quarantine.rebuilds_since(50), REBUILDS_KEPT, "a clock that went back does not forget");
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_an_error_and_one_that_cannot_be_written_holds() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), b"{").unwrap();
        assert!(Quarantine::open(dir.path()).is_err());
        let gone = dir.path().join("gone");
        let quarantine = Quarantine::open(&gone).unwrap();
        assert!(quarantine.begin(suspicion("x")).is_err(), "there is no directory to write to");
        assert!(quarantine.holds());
        assert!(quarantine.end(5).is_err());
        assert!(quarantine.holds());
        assert_eq!(quarantine.rebuilds_since(0), 1);
    }
}
