//! A process that aborts after each step that changes what is on disk (`crash.rs` has the list). What was
//! acknowledged must be there when it starts again, under the same boot as after a kill, and under
//! another as after a power cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::harness::{Cluster, long_names, names, until};
use crate::crash::{CRASH_AFTER, CRASH_TRACE, STEPS, Step};
use crate::raft::{LogFiles, NodeId};
use crate::shard::{BootId, Reason, Source, Suspicion};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const DIR: &str = "HOLDFAST_TEST_CRASH_DIR";
const ACT: &str = "HOLDFAST_TEST_CRASH_ACT";
const SIGABRT: i32 = 6;

/// What a child does before it dies, at the latest at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// One replica that has never run: starts, writes, makes a file, purges, writes.
    First,
    /// The same where there is a file already.
    Again,
    /// One replica after a power cut: starts.
    Restore,
    /// The same with a damaged file.
    Damaged,
    /// One replica: writes until log files are removed.
    LogFiles,
    /// One replica that lets go of what was erased: makes its log files and its state anew under load.
    Renew,
    /// One replica: stops in order.
    Stop,
    /// Three replicas, the third of which needs a file.
    Install,
    /// The same where one has a damaged memory of the others: start.
    Forgotten,
    /// One replica whose rows are found to be unreadable.
    Suspect,
    /// The same: starts, and makes its state anew.
    Anew,
}

const ACTS: [Act; 11] = [
    Act::First,
    Act::Again,
    Act::Restore,
    Act::Damaged,
    Act::LogFiles,
    Act::Renew,
    Act::Stop,
    Act::Install,
    Act::Forgotten,
    Act::Suspect,
    Act::Anew,
];

impl Act {
    /// What must have happened before.
    fn prepare(self, dir: &Path) {
        let before = match self {
            Act::Again | Act::Restore | Act::Damaged | Act::Renew | Act::Stop | Act::Suspect => {
                Some(Act::First)
            }
            Act::Anew => Some(Act::Suspect),
            Act::Forgotten => Some(Act::Install),
            Act::First | Act::LogFiles | Act::Install => None,
        };
        if let Some(before) = before {
            before.prepare(dir);
            assert!(run(dir, before, &[]).success());
        }
        if self == Act::Forgotten {
            damage(&witness(dir, 1));
        }
        if self == Act::Damaged {
            damage_newest_file(&dir.join("1/shard/snapshots"));
        }
    }

    /// The boot under which it runs.
    fn boot(self) -> u32 {
        if self == Act::Restore { 2 } else { 1 }
    }

    fn replicas(self) -> &'static [NodeId] {
        if matches!(self, Act::Install | Act::Forgotten) { &[1, 2, 3] } else { &[1] }
    }
}

/// Makes the file unusable for whoever opens it.
fn damage_newest_file(dir: &Path) {
    let is_file = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "snap");
    let path = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).find(is_file).unwrap();
    damage(&path);
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// What a replica remembers of the others.
fn witness(dir: &Path, id: NodeId) -> PathBuf {
    dir.join(id.to_string()).join("raft/witness")
}

/// Runs one act in a child process.
fn run(dir: &Path, act: Act, variables: &[(&str, &str)]) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "snapshot::cluster_tests::crashes::child", "--ignored", "--nocapture"]);
    child.env(DIR, dir).env(ACT, format!("{act:?}")).stdout(Stdio::null()).stderr(Stdio::null());
    child.envs(variables.iter().copied()).status().unwrap()
}

fn must_crash(dir: &Path, act: Act, step: Step) {
    let status = run(dir, act, &[(CRASH_AFTER, &format!("{step:?}"))]);
    assert_eq!(status.signal(), Some(SIGABRT), "{act:?} never came to {step:?}, or failed: {status:?}");
}

#[test]
#[ignore = "a child process of the tests below, which end it"]
fn child() {
    let (Ok(dir), Ok(act)) = (std::env::var(DIR), std::env::var(ACT)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = Path::new(&dir);
    runtime.block_on(async {
        match ACTS.iter().find(|known| format!("{known:?}") == act).unwrap() {
            Act::First | Act::Again => purge(dir).await,
            act @ (Act::Restore | Act::Damaged | Act::Anew | Act::Forgotten) => {
                let mut cluster = Cluster::new(dir, act.boot(), act.replicas());
                cluster.start(act.replicas()).await;
            }
            Act::Suspect => suspect(dir).await,
            Act::LogFiles => remove_log_files(dir).await,
            Act::Renew => renew(dir).await,
            Act::Stop => stop(dir).await,
            Act::Install => install(dir).await,
        }
    });
    // Not a clean stop: as if killed.
    std::process::exit(0);
}

/// Notes what was acknowledged, where the parent finds it.
fn note(dir: &Path) -> impl FnMut(&str) {
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join("acknowledged")).unwrap();
    move |id| file.write_all(format!("{id}\n").as_bytes()).unwrap()
}

/// A child that crashed at its very start has noted nothing.
fn acknowledged(dir: &Path) -> BTreeSet<String> {
    match fs::read_to_string(dir.join("acknowledged")) {
        Ok(ids) => ids.lines().map(str::to_owned).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => panic!("{error}"),
    }
}

async fn purge(dir: &Path) {
    let round = fs::read_to_string(dir.join("acknowledged")).map_or(0, |ids| ids.lines().count());
    let mut cluster = Cluster::new(dir, 1, &[1]);
    cluster.start(&[1]).await;
    cluster.write(&names(&format!("{round}-before"), 100), note(dir)).await;
    cluster.snapshot(1).await;
    cluster.write(&names(&format!("{round}-after"), 40), note(dir)).await;
}

async fn remove_log_files(dir: &Path) {
    let mut cluster = Cluster::new(dir, 1, &[1]);
    let files =
        LogFiles { file_bytes: 64 << 10, keep_bytes: 128 << 10, look_every: Duration::from_millis(20) };
    cluster.log_files = files;
    cluster.start(&[1]).await;
    for round in 0..6 {
        cluster.write(&long_names(&format!("long-{round}"), 200), note(dir)).await;
        cluster.snapshot(1).await;
    }
    let node = &cluster.nodes[&1];
    until("log files are removed", || node.raft.log_stats().disk_bytes <= 4 * files.file_bytes).await;
}

/// What an erasure asks of a replica, while others write. Twice, so that what was copied is copied again.
async fn renew(dir: &Path) {
    let mut cluster = Cluster::new(dir, 1, &[1]);
    cluster.start(&[1]).await;
    let node = &cluster.nodes[&1];
    for round in 0..2 {
        cluster.write(&names(&format!("{round}-purged"), 40), note(dir)).await;
        cluster.snapshot(1).await;
        let more = names(&format!("{round}-meanwhile"), 60);
        let ((), renewed) = tokio::join!(cluster.write(&more, note(dir)), node.raft.renew_log_files());
        renewed.unwrap();
        let (group, state) = (node.group().clone(), Arc::clone(&node.state));
        let runtime = tokio::runtime::Handle::current();
        let made = tokio::task::spawn_blocking(move || {
            let entries = |first: u64, end: u64| {
                let read = group.applied_entries(first, end, 1 << 20);
                runtime.block_on(read).map_err(|error| error.to_string())
            };
            let (file, stop) = (state.snapshots().newest(), AtomicBool::new(false));
            state.rebuild(&Source {
                file: file.as_deref(),
                must: None,
                entries: &entries,
                stop: &stop,
                keep: false,
            })
        });
        made.await.unwrap().unwrap();
    }
}

async fn stop(dir: &Path) {
    let mut cluster = Cluster::new(dir, 1, &[1]);
    cluster.start(&[1]).await;
    cluster.write(&names("before-the-end", 40), note(dir)).await;
    let state = cluster.nodes[&1].state.clone();
    cluster.stop(1).await;
    state.close().unwrap();
}

async fn install(dir: &Path) {
    let mut cluster = Cluster::new(dir, 1, &[1, 2, 3]);
    cluster.start(&[1, 2]).await;
    cluster.write(&names("m", 150), note(dir)).await;
    for id in [1, 2] {
        cluster.snapshot(id).await;
    }
    cluster.start(&[3]).await;
    cluster.converge(&acknowledged(dir)).await;
    until("all remember the others", || [1, 2, 3].iter().all(|id| witness(dir, *id).exists())).await;
}

async fn suspect(dir: &Path) {
    let mut cluster = Cluster::new(dir, 1, &[1]);
    cluster.start(&[1]).await;
    cluster.write(&names("before-the-suspicion", 20), note(dir)).await;
    let suspicion =
        Suspicion { reason: Reason::Unreadable, detail: "读不出".into(), index: 1, since_us: 1 };
    assert!(cluster.nodes[&1].state.quarantine().begin(suspicion).unwrap());
}

/// Starts what a child has left, and looks for everything that it was told is durable.
fn check(dir: &Path, boot: u32, replicas: &[NodeId]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut cluster = Cluster::new(dir, boot, replicas);
        cluster.start(replicas).await;
        let mut ids = acknowledged(dir);
        cluster.converge(&ids).await;
        // And it goes on: writes, files, purges.
        let more = names(&format!("boot-{boot}"), 20);
        cluster.write(&more, |_| ()).await;
        ids.extend(more);
        let newest = *replicas.last().unwrap();
        cluster.snapshot(newest).await;
        cluster.converge(&ids).await;
        cluster.stop_all().await;
        cluster.boot = BootId(format!("{boot}-again"));
        for id in replicas {
            cluster.try_start(*id).await.unwrap();
        }
        cluster.converge(&ids).await;
        cluster.stop_all().await;
    });
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The steps that an act comes to, in the order in which it first does.
fn steps_of(act: Act) -> Vec<Step> {
    let dir = tempfile::tempdir().unwrap();
    act.prepare(dir.path());
    let trace = dir.path().join("trace");
    assert!(run(dir.path(), act, &[(CRASH_TRACE, trace.to_str().unwrap())]).success(), "{act:?} failed");
    let mut steps: Vec<Step> = Vec::new();
    for line in fs::read_to_string(trace).unwrap().lines() {
        let step = *STEPS.iter().find(|step| format!("{step:?}") == line).unwrap();
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

/// Every step of the list, each with an act that comes to it; in the long version with every such act.
fn plan() -> Vec<(Act, Step)> {
    let mut plan: Vec<(Act, Step)> = Vec::new();
    for act in ACTS {
        for step in steps_of(act) {
            if is_long() || !plan.iter().any(|(_, planned)| *planned == step) {
                plan.push((act, step));
            }
        }
    }
    let is_planned = |step: &&Step| plan.iter().any(|(_, planned)| planned == *step);
    let missing: Vec<_> = STEPS.iter().filter(|step| !is_planned(step)).collect();
    assert!(missing.is_empty(), "no act comes to {missing:?}");
    plan
}

fn is_long() -> bool {
    std::env::var("HOLDFAST_TEST_LONG").is_ok_and(|value| value == "1")
}

/// Crashes after each step of the plan whose number leaves this rest, so that several tests share it.
fn crash_after_each(rest: usize, of: usize) {
    for (number, (act, step)) in plan().into_iter().enumerate().filter(|(number, _)| number % of == rest) {
        let dir = tempfile::tempdir().unwrap();
        act.prepare(dir.path());
        must_crash(dir.path(), act, step);
        if step == Step::Loaded {
            // Nothing is lost either when it happens again.
            must_crash(dir.path(), act, step);
        }
        // What is left is checked as after a kill and as after a power cut; in turns, to be short. A
        // damaged file and a power cut on the only replica are more than anybody can bear.
        let (kill, power_cut) = ((number / of).is_multiple_of(2), act != Act::Damaged);
        if is_long() || kill || !power_cut {
            let copied = tempfile::tempdir().unwrap();
            copy(dir.path(), copied.path());
            check(copied.path(), act.boot(), act.replicas());
        }
        if power_cut && (is_long() || !kill) {
            check(dir.path(), 7, act.replicas());
        }
    }
}

#[test]
fn a_crash_after_any_step_loses_nothing_odd_steps() {
    crash_after_each(1, 2);
}

#[test]
fn a_crash_after_any_step_loses_nothing_even_steps() {
    crash_after_each(0, 2);
}
