//! What the parts of a simulation share: its trace, its disks and clocks, what was observed, and how
//! it goes.

use super::disk::Disk;
use super::plan::Plan;
use super::state::Store;
use super::trace::Trace;
use crate::raft::{GroupId, LogPosition, NodeId};
use holdfast_core::space::SpaceKey;
use holdfast_testkit::history::{Recorder, Violation};
use holdfast_testkit::invariants::{
    AcknowledgedKept, AppliedInOrder, CommittedPrefix, DeletedStaysDeleted, EqualStates, ExactlyOnce, Held,
    LeadersInOrder, LogTime, Stage, TokenFloor,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// Where the trace is written as lines, if it is asked for.
pub(super) const TRACE_FILE: &str = "HOLDFAST_SIM_TRACE";
/// The true time at the begin of a run, microseconds since the Unix epoch.
const BEGIN_US: u64 = 1_800_000_000_000_000;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Things break.
    Faulty,
    /// Nothing breaks any more; clients go on and must be served.
    Calm,
    /// The clients are done.
    Ending,
    /// All is looked at.
    Over,
}

/// What is observed, and must hold.
#[derive(Default)]
pub(super) struct Invariants {
    pub(super) leaders: LeadersInOrder,
    pub(super) prefix: CommittedPrefix,
    pub(super) order: AppliedInOrder,
    pub(super) states: EqualStates,
    pub(super) time: LogTime,
    pub(super) floor: TokenFloor,
    pub(super) once: ExactlyOnce,
    pub(super) kept: AcknowledgedKept,
    pub(super) deleted: DeletedStaysDeleted,
}

/// A node's clocks against the true time.
#[derive(Clone, Copy, Default)]
pub(super) struct Clocks {
    pub(super) offset_us: i64,
    drift_ppm: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Hash of the trace, in hexadecimal digits, and number of its events.
    pub(super) trace: (String, u64),
    /// What is wrong.
    pub(super) failure: Option<String>,
    /// Leaderships, entries applied, answered operations, faults, simulated milliseconds.
    pub(super) counts: [u64; 5],
}

struct Inner {
    elapsed: Duration,
    trace: Trace,
    chance: StdRng,
    phase: Phase,
    clients: u64,
    faults: u64,
    failure: Option<String>,
    clocks: BTreeMap<NodeId, Clocks>,
    invariants: Invariants,
    /// Group, term and node.
    leaderships: BTreeSet<(GroupId, u64, NodeId)>,
    /// The memories that were made, for all clients to choose from.
    memories: Vec<String>,
}

/// See the module.
pub(super) struct World {
    plan: Plan,
    disks: BTreeMap<NodeId, Arc<Disk>>,
    stores: BTreeMap<(NodeId, GroupId), Arc<Mutex<Store>>>,
    history: Recorder,
    inner: Mutex<Inner>,
}

impl World {
    pub(super) fn new(plan: Plan) -> Arc<Self> {
        let mut chance = StdRng::seed_from_u64(plan.seed ^ 0x77_6f72_6c64);
        let nodes = 1..=plan.nodes;
        let clocks = nodes.clone().map(|node| {
            // Not in step from the begin on.
            let offset_us = chance.random_range(-2_000_000..=2_000_000);
            (node, Clocks { offset_us, drift_ppm: chance.random_range(0..=plan.drift_ppm_max) })
        });
        let clocks = clocks.collect();
        let disks = nodes.clone().map(|node| (node, Disk::new(plan.sync))).collect();
        let groups = 1..=GroupId::from(plan.shards);
        let stores = nodes.flat_map(|node| groups.clone().map(move |group| ((node, group), Arc::default())));
        let file = std::env::var_os(TRACE_FILE).map(|path| File::create(path).expect("a trace file"));
        let inner = Inner {
            elapsed: Duration::ZERO,
            trace: Trace::new(file),
            chance,
            phase: Phase::Faulty,
            clients: plan.clients,
            faults: 0,
            failure: None,
            clocks,
            invariants: Invariants::default(),
            leaderships: BTreeSet::new(),
            memories: Vec::new(),
        };
        let stores = stores.collect();
        Arc::new(World { plan, disks, stores, history: Recorder::default(), inner: Mutex::new(inner) })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        1..=self.plan.nodes
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        1..=GroupId::from(self.plan.shards)
    }

    pub(super) fn group_of(&self, space: &SpaceKey) -> GroupId {
        GroupId::from(space.slot().initial_shard(self.plan.shards).0)
    }

    pub(super) fn disk(&self, node: NodeId) -> Arc<Disk> {
        Arc::clone(&self.disks[&node])
    }

    pub(super) fn store(&self, node: NodeId, group: GroupId) -> Arc<Mutex<Store>> {
        Arc::clone(&self.stores[&(node, group)])
    }

    pub(super) fn history(&self) -> &Recorder {
        &self.history
    }

    pub(super) fn set_elapsed(&self, elapsed: Duration) {
        self.inner.lock().elapsed = elapsed;
    }

    /// The true time since the begin.
    pub(super) fn elapsed(&self) -> Duration {
        turmoil::sim_elapsed().unwrap_or_else(|| self.inner.lock().elapsed)
    }

    /// What a node's wall clock shows.
    pub(super) fn wall_us(&self, node: NodeId) -> u64 {
        let offset_us = self.inner.lock().clocks[&node].offset_us;
        (BEGIN_US + self.steady_us(node)).saturating_add_signed(offset_us)
    }

    /// What a node measures as elapsed.
    pub(super) fn steady_us(&self, node: NodeId) -> u64 {
        let true_us = u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX);
        let drift_ppm = self.inner.lock().clocks[&node].drift_ppm;
        true_us + true_us / 1_000_000 * drift_ppm
    }

    /// Moves a node's wall clock.
    pub(super) fn set_clock(&self, node: NodeId, offset_us: i64) {
        if let Some(clocks) = self.inner.lock().clocks.get_mut(&node) {
            clocks.offset_us = offset_us;
        }
    }

    /// Something that the seed decides.
    pub(super) fn chance<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.inner.lock().chance)
    }

    /// Records an event.
    pub(super) fn trace(&self, what: Arguments<'_>) {
        let at = self.elapsed();
        self.inner.lock().trace.event(at, what);
    }

    /// A fault was injected.
    pub(super) fn fault(&self, what: Arguments<'_>) {
        self.trace(format_args!("FAULT {what}"));
        self.inner.lock().faults += 1;
    }

    /// The run has found something wrong; the first thing counts.
    pub(super) fn fail(&self, what: String) {
        self.trace(format_args!("FAILED {what}"));
        self.inner.lock().failure.get_or_insert(what);
    }

    /// Looks at the invariants; one that does not hold is the end of the run.
    pub(super) fn observe(&self, look: impl FnOnce(&mut Invariants) -> Held) {
        let held = look(&mut self.inner.lock().invariants);
        if let Err(broken) = held {
            self.fail(broken.to_string());
        }
    }

    /// Asks what was observed.
    pub(super) fn observed<T>(&self, ask: impl FnOnce(&Invariants) -> T) -> T {
        ask(&self.inner.lock().invariants)
    }

    pub(super) fn phase(&self) -> Phase {
        self.inner.lock().phase
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.trace(format_args!("{phase:?}"));
        self.inner.lock().phase = phase;
    }

    pub(super) fn is_over(&self) -> bool {
        let inner = self.inner.lock();
        inner.failure.is_some() || inner.phase == Phase::Over
    }

    /// A client has done what it wanted.
    pub(super) fn client_is_done(&self) {
        self.inner.lock().clients -= 1;
    }

    pub(super) fn clients(&self) -> u64 {
        self.inner.lock().clients
    }

    /// A memory was made.
    pub(super) fn publish(&self, memory: String) {
        self.inner.lock().memories.push(memory);
    }

    /// The memories that were made.
    pub(super) fn memories(&self) -> Vec<String> {
        self.inner.lock().memories.clone()
    }

    /// A replica's process starts on a state that holds the entries up to `last`.
    pub(super) fn starts(&self, node: NodeId, group: GroupId, last: Option<u64>) {
        self.trace(format_args!("node {node} opens group {group} at {last:?}"));
        self.observe(|invariants| {
            invariants.order.starts(node, group.into(), last);
            Ok(())
        });
    }

    /// A replica leads.
    pub(super) fn leads(&self, node: NodeId, group: GroupId, term: u64) {
        self.trace(format_args!("node {node} leads group {group} in term {term}"));
        self.inner.lock().leaderships.insert((group, term, node));
    }

    /// A replica has applied an entry.
    pub(super) fn applied(
        &self,
        node: NodeId,
        group: GroupId,
        position: LogPosition,
        entry: u128,
        hash: u128,
        time_us: Option<i64>,
    ) {
        self.trace(format_args!(
            "node {node} applies {position} of group {group}: {entry:032x} gives {hash:032x} at {time_us:?}"
        ));
        let (group, index) = (u64::from(group), position.index);
        self.observe(|invariants| {
            invariants.order.applies(node, group, index)?;
            invariants.prefix.applied(node, group, index, entry)?;
            invariants.leaders.wrote(group, index, position.term, position.node)?;
            invariants.time.after(group, index, time_us.unwrap_or(i64::MIN))?;
            invariants.states.state(node, group, index, hash)
        });
    }

    /// Whether all replicas have applied the same entries.
    pub(super) fn has_converged(&self) -> bool {
        self.groups().all(|group| {
            let mut lasts = self.nodes().map(|node| self.store(node, group).lock().last());
            let first = lasts.next().flatten();
            first.is_some() && lasts.all(|last| last == first)
        })
    }

    /// Looks at what every replica holds in the end, and at the history of the clients.
    pub(super) fn look_at_the_end(&self, space_of: impl Fn(&str) -> SpaceKey) {
        for node in self.nodes() {
            let stage = |memory: &str| -> (Stage, u64) {
                let space = space_of(memory);
                let store = self.store(node, self.group_of(&space));
                match store.lock().memory(&space, memory) {
                    Ok(Some((row, index))) => (Stage::Version(row.version), u64::from(index.access_count)),
                    Ok(None) => (Stage::Absent, 0),
                    Err(error) => {
                        self.fail(error.to_string());
                        (Stage::Absent, 0)
                    }
                }
            };
            let deleted = self.observed(|invariants| invariants.deleted.clone());
            for memory in deleted.memories() {
                let found = stage(memory).0 != Stage::Absent;
                self.observe(|_| deleted.read(memory, true, found));
            }
            let kept = self.observed(|invariants| invariants.kept.clone());
            for (memory, _) in kept.memories() {
                // A memory that is missing was deleted, if that was asked for: nobody makes one again.
                let held = match stage(memory).0 {
                    Stage::Absent if deleted.was_asked(memory) => Stage::Deleted,
                    held => held,
                };
                self.observe(|_| kept.holds(node, memory, held));
            }
            let once = self.observed(|invariants| invariants.once.clone());
            for counter in once.counters() {
                let (held, count) = stage(counter);
                if held != Stage::Absent {
                    self.observe(|_| once.counted(counter, count));
                }
            }
        }
    }

    pub(super) fn report(&self) -> Report {
        let history = self.history.history();
        if self.inner.lock().failure.is_none()
            && let Err(violation) = history.check(Duration::from_secs(60))
        {
            let undecided = matches!(violation, Violation::Undecided { .. });
            let name = if undecided { "undecided" } else { "linearizable" };
            self.fail(format!("{name}: {violation}"));
        }
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let millis = u64::try_from(inner.elapsed.as_millis()).unwrap_or(u64::MAX);
        let counts = [
            inner.leaderships.len() as u64,
            inner.invariants.prefix.entries() as u64,
            history.answered() as u64,
            inner.faults,
            millis,
        ];
        let (hash, events) = inner.trace.digest();
        Report { trace: (format!("{hash:032x}"), events), failure: inner.failure.clone(), counts }
    }
}
