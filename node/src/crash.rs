//! Places at which a test can end the process, as a power switch would: behind every step that
//! changes what is on disk. Only test builds have them.
//!
//! A new step is a new line in the list below and a call where it is done. The tests go through the
//! list, so that it is tested without being named there, and fail if nothing comes to it.

macro_rules! steps {
    ($($(#[$text:meta])* $name:ident,)*) => {
        /// What has just been done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Step {
            $($(#[$text])* $name,)*
        }

        /// Every step.
        #[cfg(test)]
        pub(crate) const STEPS: &[Step] = &[$(Step::$name),*];
    };
}

steps! {
    // Small files that are replaced whole (`durable.rs`).
    /// The new content is written beside the old, and synced.
    FileSynced,
    /// It has the name of the old.
    FileRenamed,
    /// That name is synced.
    FileNamed,
    // The same for what a node remembers of its peers (`raft/witness.rs`).
    /// The new memory is written beside the old, and synced.
    WitnessSynced,
    /// It has the name of the old.
    WitnessRenamed,
    /// That name is synced.
    WitnessNamed,
    /// A damaged memory is set aside.
    WitnessAside,
    // And for the mark of a replica that must not be believed (`shard/quarantine.rs`).
    /// The new mark is written beside the old, and synced.
    QuarantineSynced,
    /// It has the name of the old.
    QuarantineRenamed,
    /// That name is synced.
    QuarantineNamed,

    // The log: every call of raft-engine on a file (`raft/log/files.rs`), and our own steps.
    /// A log file was created.
    LogFileCreated,
    /// Bytes were written to a log file.
    LogWritten,
    /// A log file was synced.
    LogSynced,
    /// A log file was removed.
    LogFileRemoved,
    /// A new log names its owner inside.
    LogOwned,
    /// A batch is written, and synced if it must be; nobody was told.
    LogBatchWritten,
    /// The log is purged up to a snapshot file.
    Purged,
    /// The log files are to be made anew: nothing is written to the old ones any more.
    LogRenewalBegun,
    /// What is live in them is copied.
    LogLiveCopied,
    /// So is what is live of earlier copies.
    LogCopiesCopied,
    /// The old files are removed.
    LogRenewed,

    // Snapshot files.
    /// The temporary file is there and holds all rows.
    Written,
    /// It is synced.
    Synced,
    /// It was read back and is right.
    Verified,
    /// It has its final name.
    Renamed,
    /// That name is synced.
    Named,
    /// The files before it are removed.
    OlderRemoved,
    /// A piece of a file that is being received is written.
    PieceWritten,
    /// All of it is synced.
    IncomingSynced,
    /// A received file is on disk, and nothing of it is installed.
    Received,
    /// A damaged file is set aside.
    DamagedAside,

    // The state of a shard.
    /// A new, empty database is open.
    StateCreated,
    /// An existing database is open.
    StateOpened,
    /// A batch of rows is in the database.
    RowsApplied,
    /// The database was flushed behind a snapshot file.
    StateFlushed,
    /// `current.json.tmp` is synced.
    CurrentSynced,
    /// It is `current.json`.
    CurrentRenamed,
    /// That name is synced.
    CurrentNamed,
    /// A database that must not be used is set aside.
    StateAside,
    /// The rows of a file are in a new database, which nobody uses yet.
    Loaded,
    /// `current.json` names that database.
    Switched,
    /// The database before it is removed.
    OldStateRemoved,
    /// So are those that were kept, and their names are gone for good.
    OthersRemoved,
    /// All files of a database are synced at an orderly end.
    StateSynced,
    /// And that is noted.
    MarkedClean,
}

/// The variable that names the step after which a child process of a test aborts.
#[cfg(test)]
pub(crate) const CRASH_AFTER: &str = "HOLDFAST_TEST_CRASH_AFTER";
/// The variable that names the file to which the steps are appended that a child process comes to.
#[cfg(test)]
pub(crate) const CRASH_TRACE: &str = "HOLDFAST_TEST_CRASH_TRACE";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn crash_point(step: Step) {
    use std::io::Write;
    if std::env::var(CRASH_AFTER).is_ok_and(|wanted| wanted == format!("{step:?}")) {
        std::process::abort();
    }
    if let Some(path) = std::env::var_os(CRASH_TRACE) {
        let mut trace = std::fs::File::options().create(true).append(true).open(path).unwrap();
        trace.write_all(format!("{step:?}\n").as_bytes()).unwrap();
    }
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) fn crash_point(_step: Step) {}
