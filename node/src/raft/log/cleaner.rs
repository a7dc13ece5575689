//! The clean-up thread: log files without live entries go, in time or because somebody waits for it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use raft_engine::internals::LogQueue;
use tokio::sync::{mpsc, oneshot};

use super::engine::{CLEANER, LogFiles, Poison, RawEngine, spawn};
use super::writer::Request;
use crate::crash::{Step, crash_point};
use crate::raft::error::LogError;
use crate::raft::types::GroupId;

/// A wish for log files without dead entries, and where it is answered.
pub(super) type Renewal = oneshot::Sender<Result<(), LogError>>;

/// Removes log files without live entries. Its own thread: a rewrite may take long, and appends must
/// not wait for it.
pub(super) struct Cleaner {
    pub(super) raw: Arc<RawEngine>,
    pub(super) poison: Arc<Poison>,
    pub(super) files: LogFiles,
    pub(super) held_back: Arc<Mutex<BTreeSet<GroupId>>>,
    pub(super) requests: mpsc::Sender<Request>,
}

impl Cleaner {
    pub(super) fn spawn(self) -> Result<(std_mpsc::Sender<Renewal>, JoinHandle<()>), LogError> {
        let (renewals, wished) = std_mpsc::channel::<Renewal>();
        let body = move || loop {
            let wish = match wished.recv_timeout(self.files.look_every) {
                Ok(answer) => Some(answer),
                Err(std_mpsc::RecvTimeoutError::Timeout) => None,
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            };
            if self.poison.check().is_err() {
                return;
            }
            match wish {
                Some(answer) => {
                    // Nobody may wait for it any more.
                    let _ = answer.send(self.renew());
                }
                None => self.clean(),
            }
        };
        Ok((renewals, spawn(CLEANER, body)?))
    }

    fn clean(&self) {
        match catch_unwind(AssertUnwindSafe(|| self.raw.purge_expired_files())) {
            Ok(Ok(regions)) => {
                let groups = regions.into_iter().filter_map(|region| GroupId::try_from(region).ok());
                self.held_back.lock().extend(groups);
            }
            Ok(Err(error)) => tracing::error!(%error, "old log files could not be removed"),
            Err(panic) => self.poison.set(&self.raw.describe(panic.as_ref())),
        }
    }

    /// Writes all live entries to new files and removes the old ones.
    ///
    /// raft-engine has this for its own tests, where nobody writes meanwhile: what it does to the list of
    /// files (begin a new one, remove those that nothing points to) would lose an entry that is in a file
    /// and not yet in the index. So that part is done by the log thread, between two batches; the copying,
    /// which is what takes time, is the one of every clean-up, and is done here.
    fn renew(&self) -> Result<(), LogError> {
        self.change_files()?;
        crash_point(Step::LogRenewalBegun);
        let (_, active) = self.raw.file_span(LogQueue::Append);
        let copied = catch_unwind(AssertUnwindSafe(|| {
            self.raw.purge_manager().must_rewrite_append_queue(active.checked_sub(1), Some(2));
        }));
        self.whole(copied)?;
        crash_point(Step::LogLiveCopied);
        // Entries that were copied earlier and are dead by now. That they are dead is written in the old
        // files alone, so those go last: a crash in between must not bring such entries back.
        let copied = catch_unwind(AssertUnwindSafe(|| self.raw.purge_manager().must_rewrite_rewrite_queue()));
        self.whole(copied)?;
        crash_point(Step::LogCopiesCopied);
        self.change_files()?;
        crash_point(Step::LogRenewed);
        Ok(())
    }

    /// Lets the log thread begin a new file and remove those that hold nothing any more.
    fn change_files(&self) -> Result<(), LogError> {
        let (answer, answered) = std_mpsc::channel();
        self.requests.blocking_send(Request::ChangeFiles(answer)).map_err(|_closed| LogError::Closed)?;
        answered.recv().map_err(|_dropped| LogError::Closed)?
    }

    /// A panic leaves the files in an unknown state.
    fn whole(&self, done: std::thread::Result<()>) -> Result<(), LogError> {
        done.map_err(|panic| {
            let cause = self.raw.describe(panic.as_ref());
            self.poison.set(&cause);
            LogError::Poisoned(cause)
        })
    }
}
