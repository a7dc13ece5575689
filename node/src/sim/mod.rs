//! A whole cluster in one thread, with chance, time, network and disks under control.
//!
//! Real: openraft and all of `raft` (groups, batcher, reads, acknowledgements, wire format, service,
//! log tail), tonic and HTTP/2, the gate of reads, core's `apply`, tokens and idempotency. Simulated:
//! the network (turmoil), time, the disk under the log, the clocks, the machine's randomness, and the
//! store under the state (a `BTreeMap`). Clients behave as the router does.
//!
//! Everything that happens follows from a seed: [`run`] gives the same [`Report`] for the same
//! [`Plan`] in a process of its own. See `docs/simulation.md`.

mod client;
mod disk;
mod faults;
mod machine;
mod net;
mod node;
mod plan;
mod service;
mod state;
mod tests;
mod trace;
mod workload;
mod world;

use machine::Machine;
use plan::Plan;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::Duration;
use world::{Report, World};

/// The step in which simulated time goes on, and the shortest time that a message takes.
const TICK: Duration = Duration::from_millis(1);
/// After this much simulated time a run is stuck.
const TIME_MAX: Duration = Duration::from_mins(10);

/// Runs a simulation on the present thread, which must have done nothing else before.
fn run(plan: &Plan) -> Report {
    let machine = Machine::take_over(plan.seed);
    let mut chance = StdRng::seed_from_u64(plan.seed);
    let mut sim = turmoil::Builder::new()
        .rng_seed(plan.seed)
        .tick_duration(TICK)
        .min_message_latency(TICK)
        .max_message_latency(plan.latency_max)
        .simulation_duration(TIME_MAX)
        .enable_random_order()
        .tcp_capacity(1 << 16)
        .build();
    let world = World::new(plan.clone());
    node::add_nodes(&mut sim, &world);
    let mut faults = faults::Faults::new(&world, &mut chance);
    client::add_clients(&mut sim, &world, &mut chance);
    while !world.is_over() {
        machine.set_elapsed(sim.elapsed());
        world.set_elapsed(sim.elapsed());
        faults.step(&mut sim, &mut chance);
        if let Err(error) = sim.step() {
            world.fail(format!("the simulation stopped: {error}"));
        }
    }
    // What is looked at now takes real time.
    drop(machine);
    drop(sim);
    world.report()
}
