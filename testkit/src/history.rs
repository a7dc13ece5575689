//! What clients did and were told, and whether it could have happened in one order.
//!
//! A client records each call before it sends it and its end after the answer came. Afterwards
//! [`History::check`] looks, key by key, for an order of the operations that keeps to real time (what
//! ended before another began comes first) and in which every answer is right: linearizability
//! (Herlihy and Wing, 1990). Keys are checked apart, since linearizability composes.
//!
//! The search is that of Wing and Gong with Lowe's cache, by the crate todc-utils. It may take
//! exponential time, so it has a limit; a history that is not decided by then fails too.

mod cell;
#[cfg(test)]
mod tests;

pub use cell::{Answer, Cell, Change, Operation};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Actions};

/// One operation, from its call to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which client; told in reports only.
    pub client: u64,
    /// What was operated on.
    pub key: String,
    /// What was asked for and answered.
    pub operation: Operation,
    /// The place of the call among all calls and ends.
    pub begin: u64,
    /// The place of the end; `None` if it never came, so that a change may happen at any later time.
    pub end: Option<u64>,
}

/// All operations of a test, in the order in which they began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The operations.
    pub calls: Vec<Call>,
}

/// Why a history is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// No order of the operations on this key explains the answers.
    NotLinearizable {
        /// The key.
        key: String,
        /// The operations on it.
        calls: Vec<Call>,
    },
    /// Whether there is such an order was not found out within the limit.
    Undecided {
        /// The key.
        key: String,
        /// How many operations it has.
        operations: usize,
        /// The limit.
        limit: Duration,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearizable { key, calls } => {
                writeln!(f, "no order of the operations on {key:?} explains the answers:")?;
                for Call { client, operation, begin, end, .. } in calls {
                    let end = end.map_or_else(|| "...".to_owned(), |end| end.to_string());
                    writeln!(f, "  {begin:>6}..{end:<6} client {client}: {operation:?}")?;
                }
                Ok(())
            }
            Self::Undecided { key, operations, limit } => write!(
                f,
                "whether the {operations} operations on {key:?} are linearizable was not found out in {limit:?}"
            ),
        }
    }
}

impl std::error::Error for Violation {}

impl History {
    /// Looks for an order of the operations on each key, for at most `limit` per key.
    ///
    /// # Errors
    /// The first [`Violation`], in the order of the keys.
    pub fn check(&self, limit: Duration) -> Result<(), Violation> {
        let mut keys: BTreeMap<&str, Vec<Call>> = BTreeMap::new();
        for call in &self.calls {
            keys.entry(&call.key).or_default().push(call.clone());
        }
        for (key, calls) in keys {
            match is_linearizable(&calls, limit) {
                Some(true) => {}
                Some(false) => return Err(Violation::NotLinearizable { key: key.to_owned(), calls }),
                None => {
                    return Err(Violation::Undecided { key: key.to_owned(), operations: calls.len(), limit });
                }
            }
        }
        Ok(())
    }

    /// How many operations have a certain answer: a check of a history without them proves nothing.
    pub fn answered(&self) -> usize {
        self.calls.iter().filter(|call| call.operation.is_answered()).count()
    }
}

/// `None` if it takes too long; the thread that searches is then left behind.
fn is_linearizable(calls: &[Call], limit: Duration) -> Option<bool> {
    let actions = actions(calls);
    if actions.is_empty() {
        return Some(true);
    }
    let (found, result) = mpsc::channel();
    thread::spawn(move || {
        let answer = WGLChecker::<cell::Memory>::is_linearizable(Actions::from_actions(actions));
        // Nobody waits any more if it took too long.
        let _ = found.send(answer);
    });
    result.recv_timeout(limit).ok()
}

/// Calls and ends in their order. An operation without an end ends behind all others: it may then be
/// ordered anywhere after its call, also where nobody sees it.
fn actions(calls: &[Call]) -> Vec<(usize, Action<Operation>)> {
    let mut actions = Vec::with_capacity(calls.len() * 2);
    for (at, call) in calls.iter().enumerate() {
        // A read that was not answered says nothing.
        if matches!(call.operation, Operation::Read { found: None }) {
            continue;
        }
        let end = call.end.filter(|_| call.operation.is_answered()).unwrap_or(u64::MAX);
        actions.push((call.begin, at, Action::Call(call.operation.clone())));
        actions.push((end, at, Action::Response(call.operation.clone())));
    }
    actions.sort_by_key(|(place, at, _)| (*place, *at));
    actions.into_iter().map(|(_, at, action)| (at, action)).collect()
}

/// Records what clients do, from any number of threads. Clones share the history.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    places: u64,
    calls: Vec<Call>,
}

/// An operation that was begun. If it is dropped without [`Pending::end`], its outcome is unknown.
#[derive(Debug)]
#[must_use = "tell how the operation ended"]
pub struct Pending {
    recorder: Recorder,
    at: usize,
}

impl Recorder {
    /// To be called before the request is sent. `operation` is what is asked for, as yet unanswered.
    pub fn begin(&self, client: u64, key: &str, operation: Operation) -> Pending {
        let mut recorded = self.lock();
        let begin = recorded.next_place();
        let at = recorded.calls.len();
        recorded.calls.push(Call { client, key: key.to_owned(), operation, begin, end: None });
        drop(recorded);
        Pending { recorder: self.clone(), at }
    }

    /// What was recorded so far. Operations still under way have no end in it.
    pub fn history(&self) -> History {
        History { calls: self.lock().calls.clone() }
    }

    /// A client that panics does not end the others' recording.
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorded {
    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }
}

impl Pending {
    /// To be called after the answer came. `operation` holds the answer; where it is unknown whether
    /// a change was made, say so with [`Answer::Unknown`].
    pub fn end(self, operation: Operation) {
        let mut recorded = self.recorder.lock();
        let place = recorded.next_place();
        if let Some(call) = recorded.calls.get_mut(self.at) {
            call.operation = operation;
            call.end = Some(place);
        }
    }

    /// To be called where it is certain that nothing was done, and nothing was learned.
    pub fn end_without_effect(self) {
        self.end(Operation::Read { found: None });
    }
}
