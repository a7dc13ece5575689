//! What is written: proposals, the memories and feedback in them, and sweeps.

use super::{CALL_SECONDS, Maker};
use crate::raft::ProposeError;
use holdfast_core::command::{SpaceCommand, Verdict, Write};
use holdfast_core::memory::Kind;
use holdfast_core::outcome::{ItemOutcome, ItemStatus, Outcome};
use holdfast_core::tiers::task::TaskChange;
use holdfast_core::transfer::Item;
use prometheus::{Histogram, IntCounter, IntCounterVec};
use std::time::Duration;

const KINDS: [Kind; 3] = [Kind::Semantic, Kind::Episodic, Kind::Procedural];
/// What may become of a memory that is written.
const STATUSES: [ItemStatus; 5] = [
    ItemStatus::Created,
    ItemStatus::Merged,
    ItemStatus::Duplicate,
    ItemStatus::Rejected,
    ItemStatus::Updated,
];
/// What is written beside memories.
const TIERS: [&str; 5] = ["turn", "session", "task", "block", "procedure"];
/// What may become of a contradiction.
const CONTRADICTIONS: [&str; 4] = ["superseded", "overridden", "resolved", "possible"];
const VERDICTS: [Verdict; 3] = [Verdict::Adopted, Verdict::Useless, Verdict::Harmful];
const RESULTS: [&str; 8] = [
    "applied",
    "not_leader",
    "overloaded",
    "too_large",
    "unavailable",
    "deadline_exceeded",
    "unknown_outcome",
    "failed",
];

/// Proposals of this node to its groups.
#[derive(Clone)]
pub(crate) struct ProposalMetrics {
    results: IntCounterVec,
    seconds: Histogram,
}

impl ProposalMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let results = maker.counters(
            "holdfast_raft_proposals_total",
            "Commands proposed on this node, by what became of them.",
            &["result"],
        )?;
        for result in RESULTS {
            results.with_label_values(&[result]);
        }
        let seconds = maker.histogram(
            "holdfast_raft_propose_seconds",
            "Time from the proposal of a command until a majority has it on disk and it is applied here.",
            &CALL_SECONDS,
        )?;
        Ok(Self { results, seconds })
    }

    /// Records what became of a proposal.
    pub(crate) fn proposed<T>(&self, result: &Result<T, ProposeError>, took: Duration) {
        let name = match result {
            Ok(_) => "applied",
            Err(ProposeError::NotLeader { .. }) => "not_leader",
            Err(ProposeError::Overloaded) => "overloaded",
            Err(ProposeError::TooLarge { .. }) => "too_large",
            Err(ProposeError::Unavailable(_)) => "unavailable",
            Err(ProposeError::DeadlineExceeded) => "deadline_exceeded",
            Err(ProposeError::UnknownOutcome) => "unknown_outcome",
            Err(ProposeError::Fatal(_)) => "failed",
        };
        self.results.with_label_values(&[name]).inc();
        if result.is_ok() {
            self.seconds.observe(took.as_secs_f64());
        }
    }
}

/// What the answered writes of clients did. The leader counts them when it answers, so sums over
/// nodes count each write once; a write whose answer is lost is not counted.
#[derive(Clone)]
pub(crate) struct WriteMetrics {
    memories: IntCounterVec,
    deleted: IntCounter,
    feedback: IntCounterVec,
    tiers: IntCounterVec,
    contradictions: IntCounterVec,
}

impl WriteMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let memories = maker.counters(
            "holdfast_memories_written_total",
            "Memories written through this leader, by kind and by what became of them.",
            &["kind", "status"],
        )?;
        for kind in KINDS {
            for status in STATUSES {
                memories.with_label_values(&[kind.as_str(), status.as_str()]);
            }
        }
        let deleted = maker
            .counter("holdfast_memories_deleted_total", "Memories deleted through this leader by callers.")?;
        let feedback = maker.counters(
            "holdfast_feedback_total",
            "Feedback recorded through this leader, by verdict.",
            &["verdict"],
        )?;
        for verdict in VERDICTS {
            feedback.with_label_values(&[verdict_name(verdict)]);
        }
        let tiers = maker.counters(
            "holdfast_tier_writes_total",
            "Writes beside memories through this leader, by what they changed; of turns, how many.",
            &["tier"],
        )?;
        for tier in TIERS {
            tiers.with_label_values(&[tier]);
        }
        let contradictions = maker.counters(
            "holdfast_contradictions_total",
            "Memories that a write through this leader was found to contradict, by what became of them.",
            &["result"],
        )?;
        for result in CONTRADICTIONS {
            contradictions.with_label_values(&[result]);
        }
        Ok(Self { memories, deleted, feedback, tiers, contradictions })
    }

    /// Counts what a write did. One that is only answered again did nothing.
    pub(crate) fn written(&self, command: &SpaceCommand, outcome: &Outcome) {
        let Outcome::Items { items, replayed: false, .. } = outcome else { return };
        self.contradicted(command, items);
        match &command.write {
            Write::Add(add) => {
                for (memory, item) in add.items.iter().zip(items) {
                    self.memory(memory.index.kind, item.status);
                }
            }
            Write::Update(update) => {
                items.iter().for_each(|item| self.memory(update.memory.index.kind, item.status));
            }
            Write::Delete { .. } => {
                let deleted = items.iter().filter(|item| item.status == ItemStatus::Deleted);
                self.deleted.inc_by(deleted.count() as u64);
            }
            // Behind a task that ended comes the memory of it, if it became one.
            Write::Task(write) => {
                self.tier("task", 1);
                if let TaskChange::End { episode: Some(add) } = &write.change {
                    for (memory, item) in add.items.iter().zip(items.iter().skip(1)) {
                        self.memory(memory.index.kind, item.status);
                    }
                }
            }
            // They change what stored memories say of each other, or something else, and write none.
            Write::Retract { .. }
            | Write::Resolve { .. }
            | Write::MergeEntities { .. }
            | Write::SplitEntities { .. }
            | Write::Relink { .. }
            | Write::Erase(_)
            | Write::Claim(_)
            | Write::Keep { .. } => {}
            Write::Block(_) => self.tier("block", 1),
            Write::Procedure(_) => self.tier("procedure", 1),
            Write::Turns(_) => self.tier("turn", items.len() as u64),
            Write::Dialogue(_) | Write::EndSession { .. } | Write::DeleteSession { .. } => {
                self.tier("session", 1);
            }
            // What jobs make of sessions is counted where they run.
            Write::Digest(_) | Write::Upkeep(_) => {}
            Write::Import(imported) => {
                for (item, answer) in imported.iter().zip(items) {
                    if let Item::Memory(memory) = item {
                        self.memory(memory.memory.index.kind, answer.status);
                    }
                }
            }
            Write::Feedback { items: given } => {
                let recorded =
                    given.iter().zip(items).filter(|(_, item)| item.status == ItemStatus::Recorded);
                for (given, _) in recorded {
                    self.feedback.with_label_values(&[verdict_name(given.verdict)]).inc();
                }
            }
        }
    }

    fn contradicted(&self, command: &SpaceCommand, items: &[ItemOutcome]) {
        let count = |result, count: usize| {
            self.contradictions.with_label_values(&[result]).inc_by(count as u64);
        };
        for item in items {
            count("superseded", item.supersedes.len());
            count("overridden", item.overrides.len());
            count("possible", item.possible_conflicts.len());
        }
        if matches!(command.write, Write::Resolve { .. }) {
            // The first is the one that is kept.
            let retired = items.iter().filter(|item| item.status == ItemStatus::Retracted);
            count("resolved", retired.count());
        }
    }

    fn tier(&self, tier: &str, count: u64) {
        self.tiers.with_label_values(&[tier]).inc_by(count);
    }

    fn memory(&self, kind: Kind, status: ItemStatus) {
        self.memories.with_label_values(&[kind.as_str(), status.as_str()]).inc();
    }
}

const fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Adopted => "adopted",
        Verdict::Useless => "useless",
        Verdict::Harmful => "harmful",
    }
}

/// Sweeps of what is due.
#[derive(Clone)]
pub(crate) struct SweepMetrics {
    sweeps: IntCounterVec,
    rows: IntCounter,
}

impl SweepMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let sweeps = maker.counters(
            "holdfast_sweeps_total",
            "Sweeps of what is due in the groups that this node leads, by result.",
            &["result"],
        )?;
        for result in ["done", "failed"] {
            sweeps.with_label_values(&[result]);
        }
        let rows = maker.counter(
            "holdfast_swept_due_rows_total",
            "Rows of what is due (expiry, idempotency, tombstones) that sweeps worked off.",
        )?;
        Ok(Self { sweeps, rows })
    }

    pub(crate) fn swept(&self, rows: u32) {
        self.sweeps.with_label_values(&["done"]).inc();
        self.rows.inc_by(u64::from(rows));
    }

    pub(crate) fn failed(&self) {
        self.sweeps.with_label_values(&["failed"]).inc();
    }
}
