//! Entries of the log on their way into a database, several to a batch.

use super::applier::{ShardState, fatal};
use super::points::Point;
use super::position::Applied;
use super::sled_reader::Rows;
use super::store::Store;
use super::view::Views;
use crate::raft::{ApplierError, CommittedBody, CommittedEntry, LogPosition, Outcomes};
use bytes::Bytes;
use holdfast_core::apply::{self, Position};
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use holdfast_core::event::Event;
use holdfast_core::limits::BATCH_ROWS_MAX;
use holdfast_core::outcome::Outcome;
use holdfast_core::state::Overlay;
use holdfast_core::{Error, ErrorCode};

/// A batch is written when it holds this many rows, so that a usual next command still fits into
/// [`BATCH_ROWS_MAX`]; sled holds a process-wide lock while it takes a batch.
const BATCH_ROWS_FULL: usize = BATCH_ROWS_MAX * 3 / 4;

/// Commands that were applied and are not in the store yet.
struct Batch<'a> {
    store: &'a Store,
    overlay: Overlay<Rows<'a>>,
    applied: Applied,
    events: Vec<Event>,
    points: Vec<Point>,
    views: Option<&'a mut Views>,
    /// Whose readers are to see it; none for a database that is being rebuilt.
    live: Option<&'a ShardState>,
}

/// Where entries are applied to.
pub(super) struct Target<'a> {
    pub(super) store: &'a Store,
    pub(super) views: Option<&'a mut Views>,
    pub(super) live: Option<&'a ShardState>,
}

/// What applying entries came to.
pub(super) struct Done {
    pub(super) applied: Applied,
    pub(super) answers: Vec<Outcomes>,
    pub(super) points: Vec<Point>,
}

/// Applies entries to a database that holds everything up to `before`.
pub(super) fn apply_entries(
    target: Target<'_>,
    before: Applied,
    entries: Vec<CommittedEntry>,
) -> Result<Done, ApplierError> {
    let Target { store, views, live } = target;
    let overlay = Overlay::remembering(Rows { store, live });
    let (events, points) = (Vec::new(), Vec::new());
    let mut batch = Batch { store, overlay, applied: before, events, points, views, live };
    let mut answers = Vec::with_capacity(entries.len());
    for entry in entries {
        batch.applied.log_bytes += entry.log_bytes();
        let mut has_point = false;
        let outcomes = match entry.body {
            CommittedBody::Blank => Vec::new(),
            CommittedBody::Membership(bytes) => {
                batch.applied.membership = bytes;
                Vec::new()
            }
            CommittedBody::Normal(payload) => {
                batch.apply(entry.position, payload.stamp_us, &payload.commands, &mut has_point)?
            }
        };
        batch.applied.last = Some(entry.position);
        batch.applied.partial = None;
        answers.push(outcomes);
        if has_point {
            // The hash is that of whole batches: one ends here, on every replica.
            batch.commit()?;
            batch.points.push(Point { index: entry.position.index, hash: batch.applied.hash });
        }
    }
    batch.commit()?;
    Ok(Done { applied: batch.applied, answers, points: batch.points })
}

impl Batch<'_> {
    /// Applies the commands of one entry but for those that are applied already.
    fn apply(
        &mut self,
        position: LogPosition,
        stamp_us: u64,
        commands: &[Bytes],
        has_point: &mut bool,
    ) -> Result<Outcomes, ApplierError> {
        let stamp_us = i64::try_from(stamp_us).unwrap_or(i64::MAX);
        let done = self.applied.done_of(position.index);
        let mut outcomes = Vec::with_capacity(commands.len());
        for (ordinal, bytes) in commands.iter().enumerate() {
            if ordinal < done {
                // Applied before this process started: nobody waits for the answer any more.
                outcomes.push(encoded(&Outcome::Failed(answered_before()))?);
                continue;
            }
            if self.overlay.len() >= BATCH_ROWS_FULL {
                let ordinal = u32::try_from(ordinal).map_err(|error| fatal(&error))?;
                self.applied.partial = Some((position.index, ordinal));
                self.commit()?;
            }
            let command = Command::decode(bytes).map_err(|error| fatal(&error))?;
            *has_point |= matches!(command, Command::HashPoint);
            let at = Position { log_index: position.index, stamp_us };
            let done = apply::apply(&mut self.overlay, at, &command);
            let done = done.map_err(|error| self.rows_failed(&error))?;
            self.events.extend(done.events);
            outcomes.push(encoded(&done.outcome)?);
        }
        Ok(outcomes)
    }

    /// A row that was read is not one that was written.
    fn rows_failed(&self, error: &dyn std::error::Error) -> ApplierError {
        if let Some(live) = self.live {
            live.suspect_rows(self.applied.last.map_or(0, |last| last.index), &error.to_string());
        }
        fatal(error)
    }

    /// Writes the batch in one atomic step and shows it to the live images.
    fn commit(&mut self) -> Result<(), ApplierError> {
        let rows = Rows { store: self.store, live: self.live };
        let overlay = std::mem::replace(&mut self.overlay, Overlay::remembering(rows));
        let changes = overlay.into_changes().map_err(|error| fatal(&error))?;
        if let Some(views) = &mut self.views {
            views.keep(&changes.rows);
        }
        self.applied.hash.follow(&changes);
        self.applied.count(&changes).map_err(|error| self.rows_failed(&error))?;
        if let Some(metrics) = self.live.and_then(|live| live.metrics.as_ref()) {
            metrics.written(changes.rows.len());
        }
        let applied = (Applied::key(), self.applied.encode().map_err(|error| fatal(&error))?);
        let announced = self.live.map(|live| live.spaces.open_batch());
        self.store.commit(changes.rows, applied).map_err(|error| {
            if let Some(live) = self.live {
                live.sled_failed(&error);
            }
            fatal(&error)
        })?;
        if let Some(announced) = announced {
            announced.deliver(&self.events);
        }
        self.events.clear();
        Ok(())
    }
}

fn answered_before() -> Error {
    Error::new(
        ErrorCode::UnknownOutcome,
        "this command was applied before a restart; repeat it to learn its outcome",
    )
}

fn encoded(outcome: &Outcome) -> Result<Bytes, ApplierError> {
    outcome.encode().map(Bytes::from).map_err(|error| fatal(&error))
}
