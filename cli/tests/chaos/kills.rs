//! Nodes that are killed, or stand still, at random moments under load.

use crate::disk::Word;
use crate::rig::Rig;
use crate::settings::{choices, rounds, seed};
use rand::Rng;
use rand::seq::SliceRandom;
use std::time::Duration;

/// Rounds between two checks.
const CHECK_EVERY: usize = 5;
/// How long it may take until a node has made so many changes that it dies; else it is killed.
const CHANGE_MAX: Duration = Duration::from_secs(5);

/// Kills some nodes, mostly a minority, now and then all of them, and starts them again.
async fn kill_at_random(nodes: usize, rounds: usize) {
    let seed = seed();
    let mut rng = choices(seed);
    let mut rig = Rig::start(nodes, 6, rng.random());
    rig.start_load();
    rig.wait_progress(20).await;
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..900))).await;
        let minority = (nodes - 1) / 2;
        let count = if rng.random_ratio(1, 5) { nodes } else { rng.random_range(1..=minority) };
        let mut all: Vec<usize> = (0..nodes).collect();
        all.shuffle(&mut rng);
        let victims = &all[..count];
        println!("round {round}: kill -9 of {victims:?} after {} operations", rig.load.acknowledged());
        let at_a_change = rng.random_ratio(1, 2);
        for victim in victims {
            if at_a_change {
                let shim = &rig.shims[*victim];
                shim.set(Word::DieAt, shim.get(Word::Changes) + rng.random_range(1..300));
            } else {
                rig.signal(*victim, "-KILL");
            }
        }
        if at_a_change {
            rig.wait_ended(victims, CHANGE_MAX).await;
        }
        for victim in victims {
            rig.kill(*victim);
            rig.shims[*victim].set(Word::DieAt, 0);
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..1_200))).await;
        // One disk is slow, another one each time.
        for (index, shim) in rig.shims.iter().enumerate() {
            shim.set(Word::SyncDelayUs, if index == round % nodes { rng.random_range(0..15_000) } else { 0 });
        }
        rig.cluster.start_nodes();
        if round % CHECK_EVERY == CHECK_EVERY - 1 || round + 1 == rounds {
            rig.wait_progress(20).await;
            rig.check().await;
            rig.start_load();
        }
    }
    rig.stop_load().await;
    println!("{} operations, the slowest took {:?}", rig.load.acknowledged(), rig.load.slowest());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_any_of_three_nodes_loses_nothing() {
    kill_at_random(3, rounds(3, 50)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_any_two_of_five_nodes_loses_nothing() {
    kill_at_random(5, rounds(2, 50)).await;
}

/// A process that stands still and goes on believes that no time has passed: a leader must not
/// answer or acknowledge as if it still led.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stood_still_does_no_harm() {
    let seed = seed();
    let mut rng = choices(seed);
    let mut rig = Rig::start(3, 6, rng.random());
    rig.start_load();
    rig.wait_progress(20).await;
    let rounds = rounds(2, 40);
    for round in 0..rounds {
        let victim = rng.random_range(0..3);
        let pause = Duration::from_millis(rng.random_range(300..3_500));
        println!("round {round}: node {} stands still for {pause:?}", victim + 1);
        rig.signal(victim, "-STOP");
        tokio::time::sleep(pause).await;
        rig.signal(victim, "-CONT");
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..600))).await;
        if round % CHECK_EVERY == CHECK_EVERY - 1 || round + 1 == rounds {
            rig.wait_progress(20).await;
            rig.check().await;
            rig.start_load();
        }
    }
    rig.stop_load().await;
}
