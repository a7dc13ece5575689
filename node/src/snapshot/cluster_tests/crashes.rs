//! A process that aborts after each step of write, rename, purge and install. What was acknowledged
//! must be there when it starts again, under the same boot as after a kill, and under another as
//! after a power cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::harness::{Cluster, names};
use crate::raft::NodeId;
use crate::shard::BootId;
use crate::snapshot::Step;
use crate::snapshot::crash::CRASH_AFTER;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

const DIR: &str = "HOLDFAST_TEST_CRASH_DIR";
const ACT: &str = "HOLDFAST_TEST_CRASH_ACT";
const SIGABRT: i32 = 6;

/// What a child does before it dies, at the latest at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// One replica: writes, makes a file, purges, writes.
    Purge,
    /// One replica after a power cut: starts.
    Restore,
    /// Three replicas, the third of which needs a file.
    Install,
}

/// Runs one act in a child process that aborts after `step`.
fn run(dir: &Path, act: Act, step: Option<Step>) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "snapshot::cluster_tests::crashes::child", "--ignored", "--nocapture"]);
    child.env(DIR, dir).env(ACT, format!("{act:?}")).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(step) = step {
        child.env(CRASH_AFTER, format!("{step:?}"));
    }
    child.status().unwrap()
}

fn must_crash(dir: &Path, act: Act, step: Step) {
    let status = run(dir, act, Some(step));
    assert_eq!(status.signal(), Some(SIGABRT), "{act:?} never came to {step:?}, or failed: {status:?}");
}

#[test]
#[ignore = "a child process of the tests below, which end it"]
fn child() {
    let (Ok(dir), Ok(act)) = (std::env::var(DIR), std::env::var(ACT)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = Path::new(&dir);
    runtime.block_on(async {
        match act.as_str() {
            "Purge" => purge(dir).await,
            "Restore" => {
                let mut cluster = Cluster::new(dir, 2, &[1]);
                cluster.start(&[1]).await;
            }
            "Install" => install(dir).await,
            other => panic!("unknown act {other}"),
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

fn acknowledged(dir: &Path) -> BTreeSet<String> {
    fs::read_to_string(dir.join("acknowledged")).unwrap().lines().map(str::to_owned).collect()
}

async fn purge(dir: &Path) {
    let round = fs::read_to_string(dir.join("acknowledged")).map_or(0, |ids| ids.lines().count());
    let mut cluster = Cluster::new(dir, 1, &[1]);
    cluster.start(&[1]).await;
    cluster.write(&names(&format!("{round}-before"), 100), note(dir)).await;
    cluster.snapshot(1).await;
    cluster.write(&names(&format!("{round}-after"), 40), note(dir)).await;
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
}

/// Starts what a child has left, and looks for everything that it was told is durable.
fn check(dir: &Path, boot: u32, replicas: &[NodeId]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut cluster = Cluster::new(dir, boot, replicas);
        for id in replicas {
            cluster.try_start(*id).await.unwrap();
        }
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

/// Checks what is left twice: as after a kill, and as after a power cut.
fn check_both(dir: &Path, replicas: &[NodeId]) {
    let copied = tempfile::tempdir().unwrap();
    copy(dir, copied.path());
    check(dir, 1, replicas);
    check(copied.path(), 7, replicas);
}

#[test]
fn a_crash_around_the_first_file_and_purge_loses_nothing() {
    for step in [Step::Written, Step::Synced, Step::Verified, Step::Renamed, Step::Named, Step::Purged] {
        let dir = tempfile::tempdir().unwrap();
        must_crash(dir.path(), Act::Purge, step);
        check_both(dir.path(), &[1]);
    }
}

#[test]
fn a_crash_around_a_later_file_and_purge_loses_nothing() {
    for step in [Step::Written, Step::Renamed, Step::Named, Step::OlderRemoved, Step::Purged] {
        let dir = tempfile::tempdir().unwrap();
        assert!(run(dir.path(), Act::Purge, None).success());
        must_crash(dir.path(), Act::Purge, step);
        check_both(dir.path(), &[1]);
    }
}

#[test]
fn a_crash_while_a_lost_state_is_restored_loses_nothing() {
    for step in [Step::Loaded, Step::Switched, Step::OldStateRemoved] {
        let dir = tempfile::tempdir().unwrap();
        assert!(run(dir.path(), Act::Purge, None).success());
        must_crash(dir.path(), Act::Restore, step);
        if step == Step::Loaded {
            // Nothing is lost either when it happens again and again.
            must_crash(dir.path(), Act::Restore, step);
        }
        check_both(dir.path(), &[1]);
    }
}

#[test]
fn a_crash_while_a_received_file_is_installed_loses_nothing() {
    for step in [Step::Received, Step::Loaded, Step::Switched, Step::OldStateRemoved] {
        let dir = tempfile::tempdir().unwrap();
        must_crash(dir.path(), Act::Install, step);
        check_both(dir.path(), &[1, 2, 3]);
    }
}
