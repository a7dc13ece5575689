use super::Network;
use crate::own::{self, Own};
use crate::rig::Rig;
use crate::settings::{choices, rounds, seed};
use rand::Rng;
use rand::rngs::StdRng;
use std::time::Duration;

/// Rounds between two checks.
const CHECK_EVERY: usize = 5;
/// The kind of cut in which a node is cut off from the router alone.
const FROM_ROUTER: u32 = 4;
/// The router and the test.
const OUTSIDE: usize = 0;

/// A network that is cut.
struct Cut {
    /// In words.
    how: String,
    /// Whether writes go on meanwhile. They do if the nodes can notice: two of them reach each other, and the
    /// router reaches both. A leader that the router alone does not reach goes on leading, and what is
    /// sent to its shards waits for the end of the cut, or for another router.
    goes_on: bool,
}

/// Cuts a network in one of the ways in which networks are cut.
fn cut(network: &mut Network, nodes: usize, rng: &mut StdRng) -> Cut {
    let one = rng.random_range(1..=nodes);
    let others: Vec<usize> = (1..=nodes).filter(|node| *node != one).collect();
    let kind = rng.random_range(0..6);
    let how = match kind {
        0 => {
            others.iter().chain([&OUTSIDE]).for_each(|other| network.between(one, *other, "cut=1"));
            format!("node {one} is cut off from everything")
        }
        1 => {
            others.iter().for_each(|other| network.between(one, *other, "cut=1"));
            format!("node {one} is cut off from the other nodes, and not from the router")
        }
        2 => {
            others.iter().for_each(|other| network.link(one, *other, "cut=1"));
            format!("nothing that node {one} says reaches the other nodes")
        }
        3 => {
            others.iter().for_each(|other| network.link(*other, one, "cut=1"));
            format!("nothing reaches node {one} from the other nodes")
        }
        FROM_ROUTER => {
            network.between(one, OUTSIDE, "cut=1");
            format!("node {one} is cut off from the router alone")
        }
        _ => {
            network.between(one, others[0], "cut=1");
            format!("nodes {one} and {} do not reach each other", others[0])
        }
    };
    Cut { how, goes_on: kind != FROM_ROUTER }
}

#[test]
fn a_cut_network_loses_nothing_and_a_majority_goes_on() {
    let name = "net::partitions::a_cut_network_loses_nothing_and_a_majority_goes_on";
    own::run(name, Own::Network, cut_network());
}

async fn cut_network() {
    let seed = seed();
    let mut rng = choices(seed);
    let mut network = Network::new(3);
    let mut rig = Rig::on(&network, 3, 6, rng.random());
    rig.start_load();
    rig.wait_progress(20).await;
    let rounds = rounds(3, 40);
    for round in 0..rounds {
        let cut = cut(&mut network, 3, &mut rng);
        println!("round {round}: {}", cut.how);
        if cut.goes_on {
            rig.wait_progress(30).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..1_500))).await;
        network.heal();
        if round % CHECK_EVERY == CHECK_EVERY - 1 || round + 1 == rounds {
            rig.wait_progress(20).await;
            rig.check().await;
            rig.start_load();
        }
    }
    rig.stop_load().await;
    println!("{} operations, the slowest took {:?}", rig.load.acknowledged(), rig.load.slowest());
}

#[test]
fn a_slow_and_lossy_network_loses_nothing() {
    let name = "net::partitions::a_slow_and_lossy_network_loses_nothing";
    own::run(name, Own::Network, lossy_network());
}

async fn lossy_network() {
    let seed = seed();
    let mut rng = choices(seed);
    let mut network = Network::new(3);
    let mut rig = Rig::on(&network, 3, 6, rng.random());
    let rounds = rounds(1, 20);
    for round in 0..rounds {
        for (from, to) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            let (delay, jitter) = (rng.random_range(0..30), rng.random_range(0..30));
            let (loss, repeat) = (rng.random_range(0.0..0.06), rng.random_range(0.0..0.1));
            let rule = format!("delay_ms={delay} jitter_ms={jitter} loss={loss:.3} repeat={repeat:.3}");
            network.between(from, to, &rule);
        }
        println!("round {round}: slow and lossy");
        rig.start_load();
        rig.wait_progress(60).await;
        network.heal();
        rig.wait_progress(20).await;
        rig.check().await;
    }
}
