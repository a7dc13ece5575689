//! The runs. Each is a process of its own, so that nothing of an earlier run is left in it.

use super::plan::{Breaks, Plan, Sabotage};
use super::run;
use super::world::{Report, TRACE_FILE};
use holdfast_testkit::invariants::{
    AcknowledgedKept, DeletedStaysDeleted, EqualStates, ExactlyOnce, LeadersInOrder, LogTime, TokenFloor,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const SEED: &str = "HOLDFAST_SIM_SEED";
const SABOTAGE: &str = "HOLDFAST_SIM_SABOTAGE";
/// Set: the faults are those of [`Plan::kill_then_cut`].
const KILL_THEN_CUT: &str = "HOLDFAST_SIM_KILL_THEN_CUT";
const SEEDS: &str = "HOLDFAST_SIM_SEEDS";
/// The seeds of every `make test`, and those in which each sabotage must be found.
const USUAL_SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
/// What a run prints in front of its report.
const REPORT: &str = "simulated: ";

/// The process of one run.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn one_run() {
    let Some(seed) = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()) else {
        println!("{SEED} names no seed: nothing was run");
        return;
    };
    let sabotage = std::env::var(SABOTAGE).ok().map(|name| name.parse().unwrap());
    let plan = match std::env::var_os(KILL_THEN_CUT) {
        None => Plan::new(seed, sabotage),
        Some(_) => Plan::kill_then_cut(seed, sabotage),
    };
    // A thread that has drawn no random number and looked at no clock.
    let report = std::thread::spawn(move || run(&plan)).join().unwrap();
    println!("{REPORT}{}", serde_json::to_string(&report).unwrap());
}

/// Runs a plan in a new process.
fn simulate(seed: u64, sabotage: Option<Sabotage>, trace: Option<&Path>) -> Report {
    simulate_with(seed, sabotage, trace, Breaks::Anything)
}

fn simulate_with(seed: u64, sabotage: Option<Sabotage>, trace: Option<&Path>, breaks: Breaks) -> Report {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sim::tests::one_run", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(SEED, seed.to_string()).env_remove(SABOTAGE).env_remove(TRACE_FILE);
    match breaks {
        Breaks::Anything => command.env_remove(KILL_THEN_CUT),
        Breaks::KillThenCut => command.env(KILL_THEN_CUT, "1"),
    };
    if let Some(sabotage) = sabotage {
        command.env(SABOTAGE, sabotage.name());
    }
    if let Some(trace) = trace {
        command.env(TRACE_FILE, trace);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report = text.lines().find_map(|line| line.split_once(REPORT)).map(|(_, report)| report);
    let Some(report) = report else {
        panic!("seed {seed} ended without a report:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    serde_json::from_str(report).unwrap()
}

/// A run that must find nothing wrong, and must have seen something.
fn holds(seed: u64) {
    let report = simulate(seed, None, None);
    println!("seed {seed}: {report:?}");
    if let Some(failure) = report.failure {
        panic!("seed {seed}: {failure}\nagain, with a trace in target/sim: make sim SEED={seed}");
    }
    let [terms, entries, operations, faults, millis] = report.counts;
    let enough = terms >= 1 && entries >= 30 && operations >= 30 && faults >= 3 && millis >= 20_000;
    assert!(enough, "seed {seed} has seen little: {:?}", report.counts);
}

macro_rules! seeds {
    ($($name:ident = $seed:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                holds($seed);
            }
        )*
    };
}

seeds! {
    seed_01 = 1, seed_02 = 2, seed_03 = 3, seed_04 = 4, seed_05 = 5,
    seed_06 = 6, seed_07 = 7, seed_08 = 8, seed_09 = 9, seed_10 = 10,
    seed_11 = 11, seed_12 = 12, seed_13 = 13, seed_14 = 14, seed_15 = 15,
    seed_16 = 16, seed_17 = 17, seed_18 = 18, seed_19 = 19, seed_20 = 20,
}

/// The first line in which two traces differ.
fn first_difference(one: &Path, two: &Path) -> Option<(usize, String, String)> {
    let (one, two) = (fs::read_to_string(one).unwrap(), fs::read_to_string(two).unwrap());
    let mut lines = (one.lines(), two.lines());
    for number in 1.. {
        match (lines.0.next(), lines.1.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((number, format!("{a:?}"), format!("{b:?}"))),
        }
    }
    None
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    for seed in [4, 11] {
        let first = simulate(seed, None, Some(&one));
        let second = simulate(seed, None, Some(&two));
        assert_eq!(first_difference(&one, &two), None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
        assert!(first.trace.1 > 3_000, "{first:?}");
    }
    let other = simulate(5, None, None);
    assert_ne!(other.trace, simulate(4, None, None).trace, "another seed, another run");
}

#[test]
fn what_does_not_come_from_the_seed_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let first = simulate(4, Some(Sabotage::Chance), Some(&one));
    let second = simulate(4, Some(Sabotage::Chance), Some(&two));
    assert_ne!(first.trace, second.trace);
    assert!(first_difference(&one, &two).is_some());
}

/// The sabotage must break one of the invariants within the usual seeds.
fn is_found(sabotage: Sabotage, expected: &[&str]) {
    is_found_by(Breaks::Anything, sabotage, expected);
}

fn is_found_by(breaks: Breaks, sabotage: Sabotage, expected: &[&str]) {
    for seed in USUAL_SEEDS {
        let report = simulate_with(seed, Some(sabotage), None, breaks);
        if let Some(failure) = report.failure {
            let names = expected.iter().any(|name| failure.starts_with(name));
            println!("seed {seed}: {failure}");
            assert!(names, "seed {seed} found something else: {failure}");
            return;
        }
    }
    panic!("{} was found in none of the seeds {USUAL_SEEDS:?}", sabotage.name());
}

/// What a history says that cannot be put in order.
const LINEARIZABLE: &str = "linearizable";
/// The node itself, or openraft, has noticed that something cannot be.
const ENDED: &str = "a replica ended";
const COMMITTED: &str = holdfast_testkit::invariants::CommittedPrefix::NAME;

#[test]
fn an_acknowledgement_before_the_sync_is_found() {
    is_found(
        Sabotage::AckBeforeSync,
        &[
            AcknowledgedKept::NAME,
            COMMITTED,
            LINEARIZABLE,
            TokenFloor::NAME,
            EqualStates::NAME,
            LeadersInOrder::NAME,
            ENDED,
        ],
    );
}

/// As the log was until the simulation showed it: raft-engine does not sync what it finds at its start.
/// It takes a kill, a power cut before the next sync and the loss of who knows better: too rare for
/// twenty seeds of every kind of fault, so that these are brought about.
#[test]
fn a_log_that_is_trusted_unsynced_is_found() {
    is_found_by(
        Breaks::KillThenCut,
        Sabotage::TrustUnsynced,
        &[LeadersInOrder::NAME, AcknowledgedKept::NAME, COMMITTED, LINEARIZABLE, ENDED],
    );
}

#[test]
fn a_power_cut_soon_after_a_kill_loses_nothing() {
    for seed in 1..=4 {
        let report = simulate_with(seed, None, None, Breaks::KillThenCut);
        assert_eq!(report.failure, None, "seed {seed}: {report:?}");
    }
}

#[test]
fn an_acknowledgement_before_the_quorum_is_found() {
    is_found(
        Sabotage::AckBeforeQuorum,
        &[
            AcknowledgedKept::NAME,
            LINEARIZABLE,
            TokenFloor::NAME,
            ExactlyOnce::NAME,
            DeletedStaysDeleted::NAME,
        ],
    );
}

#[test]
fn a_token_that_is_ignored_is_found() {
    is_found(Sabotage::IgnoreToken, &[TokenFloor::NAME]);
}

#[test]
fn a_linearizable_read_without_a_quorum_is_found() {
    is_found(Sabotage::ReadWithoutQuorum, &[LINEARIZABLE, TokenFloor::NAME, DeletedStaysDeleted::NAME]);
}

#[test]
fn a_forgotten_vote_is_found() {
    is_found(Sabotage::ForgetVote, &[LeadersInOrder::NAME, COMMITTED, ENDED]);
}

#[test]
fn a_repetition_without_its_key_is_found() {
    is_found(Sabotage::RepeatWithoutKey, &[ExactlyOnce::NAME, LINEARIZABLE]);
}

#[test]
fn a_clock_of_its_own_in_apply_is_found() {
    is_found(Sabotage::OwnClockInApply, &[EqualStates::NAME, LogTime::NAME]);
}

#[test]
fn a_deletion_without_a_tombstone_is_found() {
    is_found(Sabotage::NoTombstone, &[DeletedStaysDeleted::NAME, LINEARIZABLE, TokenFloor::NAME]);
}

/// As many seeds as are asked for, on all cores: `make sim SEEDS=n`.
#[test]
#[ignore = "takes as long as it is asked to"]
fn many_seeds() {
    let number = |name: &str, otherwise: u64| -> u64 {
        std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
    };
    let first = number("HOLDFAST_SIM_FROM", 1_000);
    let count = number(SEEDS, 100);
    let next = AtomicU64::new(first);
    let failed = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let report = simulate(seed, None, None);
                    if let Some(failure) = report.failure {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!(
                            "FAILED seed {seed}: {failure}\n  again, with a trace: make sim SEED={seed}"
                        );
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{count} seeds from {first} on, {failed} failed");
    assert_eq!(failed, 0);
}
