//! What breaks, and when it is mended.

use super::net::host;
use super::plan::{Breaks, Sabotage};
use super::world::{Phase, World};
use crate::raft::NodeId;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Before this nothing breaks, so that groups can be founded.
const FOUNDING: Duration = Duration::from_millis(800);
/// Faults that may be there at once, beside nodes that are down.
const AT_ONCE_MAX: usize = 2;
/// How long replicas may take to agree once nobody asks for anything.
const CONVERGING_MAX: Duration = Duration::from_secs(90);
/// How long they must then stay as they are.
const STEADY: Duration = Duration::from_secs(1);

/// A fault that ends.
#[derive(Debug)]
enum Fault {
    /// Nothing passes between the two sides, in the first direction or in both.
    Cut { from: BTreeSet<String>, to: BTreeSet<String>, both: bool },
    /// What is sent between the two sides comes when the fault ends.
    Hold { from: BTreeSet<String>, to: BTreeSet<String> },
    /// Messages between the two sides take long.
    SlowLink { from: BTreeSet<String>, to: BTreeSet<String> },
    /// Now and then messages between the two sides are lost.
    LossyLink { from: BTreeSet<String>, to: BTreeSet<String> },
    /// Syncs take long.
    SlowDisk(NodeId),
}

struct Active {
    fault: Fault,
    until: Duration,
}

/// The steps of [`Breaks::KillThenCut`], with the nodes that they are about.
#[derive(Clone, Copy, Debug)]
enum Script {
    /// One node is cut off, so that what the others acknowledge is on their disks alone.
    Alone,
    /// The one that syncs slowly is killed and comes back.
    Kill { stays: NodeId, slow: NodeId },
    /// It loses its power, and the one that stayed is gone.
    Cut { stays: NodeId, slow: NodeId },
}

/// How long the syncs of the slow node take.
const SLOW_SYNC: Duration = Duration::from_millis(600);
/// How long the node that knows more is away: longer than the others wait for what it remembers.
const AWAY: Duration = Duration::from_secs(6);

/// Decides over faults, and over the phases of a run.
pub(super) struct Faults {
    world: Arc<World>,
    hosts: Vec<String>,
    next: Duration,
    active: Vec<Active>,
    /// Nodes that are down, and until when.
    down: BTreeMap<NodeId, Duration>,
    /// What comes next of [`Breaks::KillThenCut`].
    script: Script,
    /// Since when the phase lasts, and since when replicas agree.
    phase_since: Duration,
    equal_since: Option<Duration>,
}

fn millis(chance: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(chance.random_range(from..=to))
}

impl Faults {
    pub(super) fn new(world: &Arc<World>, chance: &mut StdRng) -> Self {
        let clients = (1..=world.plan().clients).map(super::client::host);
        let hosts = world.nodes().map(host).chain(clients).collect();
        Faults {
            world: Arc::clone(world),
            hosts,
            next: FOUNDING + millis(chance, 0, 2_000),
            active: Vec::new(),
            down: BTreeMap::new(),
            script: Script::Alone,
            phase_since: Duration::ZERO,
            equal_since: None,
        }
    }

    /// To be called before each step of the simulation.
    pub(super) fn step(&mut self, sim: &mut turmoil::Sim<'_>, chance: &mut StdRng) {
        let now = sim.elapsed();
        match self.world.phase() {
            Phase::Faulty if now >= self.world.plan().faulty => {
                self.mend_all(sim);
                self.enter(Phase::Calm, now);
            }
            Phase::Faulty => {
                self.mend(sim, now);
                if now >= self.next {
                    match self.world.plan().breaks {
                        Breaks::Anything => {
                            self.next = now + millis(chance, 200, 2_500);
                            self.break_something(sim, now, chance);
                        }
                        Breaks::KillThenCut => self.go_on(sim, now, chance),
                    }
                }
            }
            Phase::Calm if self.world.clients() == 0 => self.enter(Phase::Ending, now),
            Phase::Calm | Phase::Over => {}
            Phase::Ending => self.wait_for_the_end(now),
        }
    }

    fn enter(&mut self, phase: Phase, now: Duration) {
        self.phase_since = now;
        self.world.enter(phase);
    }

    fn wait_for_the_end(&mut self, now: Duration) {
        if !self.world.has_converged() {
            self.equal_since = None;
            if now > self.phase_since + CONVERGING_MAX {
                self.world.fail("the replicas did not come to the same index".into());
            }
            return;
        }
        let since = *self.equal_since.get_or_insert(now);
        if now >= since + STEADY {
            self.world.look_at_the_end(super::workload::space_of);
            self.enter(Phase::Over, now);
        }
    }

    /// Ends what is over.
    fn mend(&mut self, sim: &mut turmoil::Sim<'_>, now: Duration) {
        let (over, active) =
            std::mem::take(&mut self.active).into_iter().partition(|a: &Active| a.until <= now);
        self.active = active;
        for Active { fault, .. } in over {
            self.undo(sim, fault);
        }
        let up: Vec<NodeId> =
            self.down.iter().filter(|(_, until)| **until <= now).map(|(node, _)| *node).collect();
        for node in up {
            self.restart(sim, node);
        }
    }

    fn mend_all(&mut self, sim: &mut turmoil::Sim<'_>) {
        for Active { fault, .. } in std::mem::take(&mut self.active) {
            self.undo(sim, fault);
        }
        for node in self.world.nodes() {
            self.world.set_clock(node, 0);
            if self.down.contains_key(&node) {
                self.restart(sim, node);
            }
        }
    }

    fn restart(&mut self, sim: &mut turmoil::Sim<'_>, node: NodeId) {
        self.down.remove(&node);
        if self.world.plan().is(Sabotage::ForgetVote) {
            self.world.disk(node).forget_votes();
        }
        self.world.trace(format_args!("node {node} comes back"));
        for other in self.hosts.iter().filter(|other| **other != host(node)) {
            sim.repair(host(node).as_str(), other.as_str());
        }
        sim.bounce(host(node).as_str());
    }

    fn undo(&self, sim: &mut turmoil::Sim<'_>, fault: Fault) {
        match fault {
            Fault::Cut { from, to, both } => {
                pairs(&from, &to, |a, b| if both { sim.repair(a, b) } else { sim.repair_oneway(a, b) })
            }
            Fault::Hold { from, to } => pairs(&from, &to, |a, b| sim.release(a, b)),
            Fault::SlowLink { from, to } => {
                let usual = self.world.plan().latency_max;
                pairs(&from, &to, |a, b| sim.set_link_max_message_latency(a, b, usual));
            }
            Fault::LossyLink { from, to } => pairs(&from, &to, |a, b| {
                sim.set_link_fail_rate(a, b, 0.0);
                sim.repair(a, b);
            }),
            Fault::SlowDisk(node) => self.world.disk(node).set_sync(self.world.plan().sync),
        }
    }

    fn break_something(&mut self, sim: &mut turmoil::Sim<'_>, now: Duration, chance: &mut StdRng) {
        if self.world.plan().is(Sabotage::Chance) {
            // What no seed decides.
            let mut byte = [0];
            let read = std::fs::File::open("/dev/urandom")
                .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut byte));
            self.world.trace(format_args!("by chance {byte:?} {}", read.is_ok()));
        }
        let nodes: Vec<NodeId> = self.world.nodes().collect();
        let Some(&node) = nodes.choose(chance) else { return };
        match chance.random_range(0..100) {
            0..28 => self.take_down(sim, &[node], now, chance),
            28..33 => {
                let count = chance.random_range(2..=nodes.len());
                let some: Vec<NodeId> = nodes.choose_multiple(chance, count).copied().collect();
                self.take_down(sim, &some, now, chance);
            }
            33..41 => self.jump(node, chance),
            _ if self.active.len() >= AT_ONCE_MAX => {}
            41..55 => {
                let sync = millis(chance, 40, 700);
                self.world.disk(node).set_sync(sync);
                self.world.fault(format_args!("syncs of node {node} take {sync:?}"));
                self.until(Fault::SlowDisk(node), now, chance);
            }
            kind => {
                let (from, to) = self.sides(node, chance);
                self.break_links(sim, kind, from, to, now, chance);
            }
        }
    }

    /// Two sides: one node and all others, or two halves. Clients are on either, or reach both.
    fn sides(&self, node: NodeId, chance: &mut StdRng) -> (BTreeSet<String>, BTreeSet<String>) {
        if chance.random_bool(0.4) {
            let nodes = self.world.nodes();
            return nodes.map(host).partition(|name| *name == host(node));
        }
        let alone = chance.random_bool(0.7);
        let (from, to): (BTreeSet<String>, BTreeSet<String>) = self.hosts.iter().cloned().partition(|name| {
            let is_node = name.starts_with("node-");
            if alone && is_node { *name == host(node) } else { chance.random_bool(0.5) }
        });
        if chance.random_bool(0.5) { (from, to) } else { (to, from) }
    }

    fn break_links(
        &mut self,
        sim: &mut turmoil::Sim<'_>,
        kind: u32,
        from: BTreeSet<String>,
        to: BTreeSet<String>,
        now: Duration,
        chance: &mut StdRng,
    ) {
        let fault = match kind {
            55..80 => {
                let both = chance.random_bool(0.6);
                pairs(&from, &to, |a, b| if both { sim.partition(a, b) } else { sim.partition_oneway(a, b) });
                Fault::Cut { from, to, both }
            }
            80..88 => {
                pairs(&from, &to, |a, b| sim.hold(a, b));
                Fault::Hold { from, to }
            }
            88..94 => {
                let latency = millis(chance, 50, 400);
                pairs(&from, &to, |a, b| sim.set_link_max_message_latency(a, b, latency));
                Fault::SlowLink { from, to }
            }
            _ => {
                let rate = chance.random_range(0.001..0.02);
                pairs(&from, &to, |a, b| sim.set_link_fail_rate(a, b, rate));
                Fault::LossyLink { from, to }
            }
        };
        self.world.fault(format_args!("{fault:?}"));
        self.until(fault, now, chance);
    }

    fn until(&mut self, fault: Fault, now: Duration, chance: &mut StdRng) {
        self.active.push(Active { fault, until: now + millis(chance, 200, 4_000) });
    }

    /// Kills processes, or cuts the power of machines.
    fn take_down(
        &mut self,
        sim: &mut turmoil::Sim<'_>,
        nodes: &[NodeId],
        now: Duration,
        chance: &mut StdRng,
    ) {
        let power = chance.random_bool(0.5);
        for &node in nodes.iter().filter(|node| !self.down.contains_key(node)).collect::<Vec<_>>() {
            self.end(sim, node, power, chance);
            let soon = chance.random_bool(0.5);
            let down = if soon { millis(chance, 50, 300) } else { millis(chance, 300, 2_500) };
            self.down.insert(node, now + down);
        }
    }

    /// Ends the process of a node, or its machine.
    fn end(&self, sim: &mut turmoil::Sim<'_>, node: NodeId, power: bool, chance: &mut StdRng) {
        if power {
            // Nobody is told.
            for other in self.hosts.iter().filter(|other| **other != host(node)) {
                sim.partition(host(node).as_str(), other.as_str());
            }
        }
        sim.crash(host(node).as_str());
        for group in self.world.groups() {
            let store = self.world.store(node, group);
            if power { store.lock().cut_power() } else { store.lock().kill(chance) }
        }
        if power {
            self.world.disk(node).cut_power(chance);
        }
        let how = if power { "loses its power" } else { "is killed" };
        self.world.fault(format_args!("node {node} {how}"));
    }

    /// The next step of [`Breaks::KillThenCut`].
    fn go_on(&mut self, sim: &mut turmoil::Sim<'_>, now: Duration, chance: &mut StdRng) {
        match self.script {
            Script::Alone => {
                let mut nodes: Vec<NodeId> = self.world.nodes().collect();
                nodes.shuffle(chance);
                let [stays, slow, alone] = nodes[..] else { return };
                let others = self.hosts.iter().filter(|name| **name != host(alone)).cloned().collect();
                let cut = Fault::Cut { from: BTreeSet::from([host(alone)]), to: others, both: true };
                if let Fault::Cut { from, to, .. } = &cut {
                    pairs(from, to, |a, b| sim.partition(a, b));
                }
                self.world.disk(slow).set_sync(SLOW_SYNC);
                self.world.fault(format_args!("node {alone} is cut off, syncs of node {slow} are slow"));
                self.next = now + millis(chance, 2_000, 3_500);
                // Until the steps are through.
                let until = self.next + Duration::from_secs(1);
                self.active.push(Active { fault: cut, until });
                self.active.push(Active { fault: Fault::SlowDisk(slow), until });
                self.script = Script::Kill { stays, slow };
            }
            Script::Kill { stays, slow } => {
                self.end(sim, slow, false, chance);
                let down = Duration::from_millis(50);
                self.down.insert(slow, now + down);
                self.next = now + down + millis(chance, 100, 700);
                self.script = Script::Cut { stays, slow };
            }
            Script::Cut { stays, slow } => {
                self.end(sim, slow, true, chance);
                self.down.insert(slow, now + Duration::from_millis(200));
                self.end(sim, stays, false, chance);
                self.down.insert(stays, now + AWAY);
                self.next = now + AWAY + millis(chance, 1_000, 2_000);
                self.script = Script::Alone;
            }
        }
    }

    /// Moves a wall clock: by hours, or so far that it is not to be followed.
    fn jump(&self, node: NodeId, chance: &mut StdRng) {
        const SECOND_US: i64 = 1_000_000;
        let by_us = match chance.random_range(0..3) {
            0 => chance.random_range(-7_200 * SECOND_US..=7_200 * SECOND_US),
            1 => chance.random_range(-60 * SECOND_US..=60 * SECOND_US),
            _ => chance.random_range(-3 * SECOND_US..=3 * SECOND_US),
        };
        self.world.set_clock(node, by_us);
        self.world.fault(format_args!("the clock of node {node} is off by {by_us} us"));
    }
}

fn pairs(from: &BTreeSet<String>, to: &BTreeSet<String>, mut each: impl FnMut(&str, &str)) {
    for a in from {
        for b in to {
            each(a, b);
        }
    }
}
