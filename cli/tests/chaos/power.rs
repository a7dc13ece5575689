//! The power of the whole cluster fails at a random moment, and every disk forgets what was not synced.

use crate::disk::{Disk, Journal, Luck, Shim, now_ns, tree};
use crate::load::Load;
use crate::rig::Rig;
use crate::settings::{choices, rounds, seed};
use rand::Rng;
use std::time::Duration;

const NODES: usize = 3;
const WRITERS: usize = 6;
/// Operations without which a cut would show little.
const ENOUGH: usize = 100;

/// Everything that the nodes have done to their disks since the last watched start.
fn journal(rig: &Rig) -> Journal {
    let paths: Vec<_> = rig.shims.iter().map(Shim::journal).collect();
    Journal::read(paths.iter().map(|path| path.as_path()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_of_the_whole_cluster_loses_nothing_acknowledged() {
    let seed = seed();
    let mut rng = choices(seed);
    let mut rig = Rig::start(NODES, WRITERS, 0);
    // What was written in earlier rounds, and until when it counts.
    let mut loads: Vec<(Load, u64)> = Vec::new();
    for round in 0..rounds(1, 10) {
        // Half of the rounds begin with states that were left in order, and are opened.
        if round.is_multiple_of(2) {
            rig.cluster.stop_nodes();
        } else {
            rig.cluster.kill_nodes();
        }
        let base = Disk::scan(&rig.cluster.plan.nodes());
        rig.watch(true);
        rig.boot();
        let mut load = Load::new(&format!("round-{round}"), WRITERS, rng.random());
        load.start(&rig.cluster.api());
        tokio::time::sleep(Duration::from_millis(rng.random_range(2_000..5_000))).await;
        rig.wait_acknowledged(&load, ENOUGH).await;
        rig.cluster.kill_nodes();
        load.stop().await;
        let end = now_ns();

        rig.watch(false);
        let journal = journal(&rig);
        let (first, last) = journal.span();
        // The last one is the state that the next round goes on with.
        let mut cuts: Vec<u64> = (0..rounds(1, 5)).map(|_| rng.random_range(first..last)).collect();
        cuts.push(end);
        for (number, cut) in cuts.into_iter().enumerate() {
            rig.cluster.kill_nodes();
            let mut disk = base.clone();
            disk.follow(&journal, cut);
            let luck = if number.is_multiple_of(2) { Luck::None } else { Luck::Some(rng.random()) };
            disk.cut(luck);
            let after = Duration::from_nanos(cut.saturating_sub(first));
            println!("round {round}: {} changes, cut after {after:?}, {luck:?}", journal.changes.len());
            rig.boot();
            let api = rig.cluster.api();
            for (earlier, until) in &loads {
                earlier.check(&api, *until).await;
            }
            load.check(&api, cut).await;
            rig.replicas_agree().await;
        }
        loads.push((load, end));
    }
}

/// The proof that nothing escapes the journal: what it says is there is what is there, byte by byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_explains_every_byte_on_disk() {
    let mut rig = Rig::start(NODES, WRITERS, 0);
    rig.cluster.stop_nodes();
    let root = rig.cluster.plan.nodes();
    let mut disk = Disk::scan(&root);
    rig.watch(true);
    rig.boot();
    let mut load = Load::new("bytes", WRITERS, seed());
    load.start(&rig.cluster.api());
    tokio::time::sleep(Duration::from_secs(2)).await;
    load.stop().await;
    rig.cluster.stop_nodes();
    let is_there = tree(&root);
    disk.follow(&journal(&rig), u64::MAX);
    disk.cut(Luck::All);
    let explained = tree(&root);
    let names =
        |tree: &std::collections::BTreeMap<std::path::PathBuf, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&is_there), names(&explained));
    for (name, content) in &is_there {
        assert!(explained[name] == *content, "{name:?} differs");
    }
}
