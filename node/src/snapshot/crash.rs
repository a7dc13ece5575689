//! Places at which a test can end the process, as a power switch would. Only test builds have them.

/// What has just been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
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
    /// The log is purged up to it.
    Purged,
    /// A received file is on disk, and nothing of it is installed.
    Received,
    /// The rows of a file are in a new database, which nobody uses yet.
    Loaded,
    /// `current.json` names that database.
    Switched,
    /// The database before it is removed.
    OldStateRemoved,
}

/// The variable that names the step after which a child process of a test aborts.
#[cfg(test)]
pub(crate) const CRASH_AFTER: &str = "HOLDFAST_TEST_CRASH_AFTER";

#[cfg(test)]
pub(crate) fn crash_point(step: Step) {
    if std::env::var(CRASH_AFTER).is_ok_and(|wanted| wanted == format!("{step:?}")) {
        std::process::abort();
    }
}

#[cfg(not(test))]
pub(crate) fn crash_point(_step: Step) {}
