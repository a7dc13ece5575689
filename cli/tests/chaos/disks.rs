//! Disks that fail or are full: the node that has one says so and ends; the others go on.

use crate::common::Api;
use crate::common::cluster::Process;
use crate::disk::{EIO, ENOSPC, ONLY_RAFT, ONLY_SHARDS, ONLY_SNAPSHOTS, ONLY_STATES, Word};
use crate::own::{self, Own};
use crate::rig::Rig;
use crate::settings::{choices, rounds, seed};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a node may take to notice that its disk is of no use.
const NOTICE_MAX: Duration = Duration::from_secs(30);

/// Waits until a node has ended by itself, and returns what it said.
async fn wait_end(node: &mut Process) -> String {
    let deadline = Instant::now() + NOTICE_MAX;
    loop {
        let ended = node.ended();
        let said = node.said();
        // Its last words may still be on their way.
        if let Some(status) = ended.filter(|_| said.contains("holdfast: ")) {
            assert_eq!(status.code(), Some(1), "it ends with an error and not by a signal");
            return said;
        }
        assert!(Instant::now() < deadline, "it goes on with a disk that failed, or says nothing: {said}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The last line is for whoever looks why it ended: what was wrong, where, and what to do.
fn assert_clear(said: &str, cause: &str, advice: &str) {
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    for part in ["holdfast: ", cause, advice, "nodes/node-"] {
        assert!(last.contains(part), "no {part:?} in the last line of {said}");
    }
}

/// What an interrupted write leaves behind, which nobody would ever remove.
fn leftovers(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // A directory that was replaced meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => panic!("{}: {error}", dir.display()),
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(leftovers(&path));
        } else if path.extension().is_some_and(|extension| extension == "tmp" || extension == "part") {
            found.push(path);
        }
    }
    found
}

/// Waits until there is nothing of the kind. What is just being written goes within moments.
async fn wait_no_leftovers(dir: &Path) {
    let deadline = Instant::now() + NOTICE_MAX;
    loop {
        let found = leftovers(dir);
        if found.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "nobody removes {found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn fail_one_disk(rounds: usize, word: Word, error: u64, only: u64, cause: &str, advice: &str) {
    let seed = seed();
    let mut rng = choices(seed);
    let mut rig = Rig::start(3, 4, rng.random());
    let first = rng.random_range(0..3);
    for round in 0..rounds {
        let victim = (first + round) % 3;
        rig.start_load();
        rig.wait_progress(20).await;
        println!("round {round}: {word:?} of node {}", victim + 1);
        rig.shims[victim].set(Word::Only, only);
        rig.shims[victim].set(word, error);
        let said = wait_end(rig.cluster.nodes[victim].as_mut().unwrap()).await;
        assert_clear(&said, cause, advice);
        rig.wait_progress(20).await;
        // Before it is cured it does not come up, and says why.
        rig.kill(victim);
        rig.cluster.nodes[victim] = Some(rig.cluster.plan.start_node(victim));
        let said = wait_end(rig.cluster.nodes[victim].as_mut().unwrap()).await;
        assert_clear(&said, cause, "");
        rig.kill(victim);
        rig.shims[victim].set(word, 0);
        rig.cluster.start_nodes();
        rig.wait_progress(20).await;
        rig.check().await;
        wait_no_leftovers(&rig.cluster.plan.data(victim)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_log_cannot_be_synced_ends_and_says_why() {
    fail_one_disk(rounds(1, 10), Word::FailSync, EIO, ONLY_RAFT, "Input/output error", "replace the disk")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_log_has_no_room_ends_and_says_why() {
    fail_one_disk(rounds(1, 10), Word::FailWrite, ENOSPC, ONLY_RAFT, "No space left on device", "make room")
        .await;
}

/// The log still takes what comes, and is of no use to a state that cannot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_states_have_no_room_ends_and_says_why() {
    fail_one_disk(
        rounds(1, 10),
        Word::FailWrite,
        ENOSPC,
        ONLY_STATES,
        "No space left on device",
        "make room",
    )
    .await;
}

/// The state is not believed afterwards: the node makes it anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_states_cannot_be_written_ends_and_says_why() {
    // Each node makes its states anew twice a day at most; a third time somebody must look.
    let rounds = rounds(1, 6).min(6);
    fail_one_disk(rounds, Word::FailWrite, EIO, ONLY_STATES, "Input/output error", "replace the disk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_every_disk_fails_nothing_is_acknowledged_and_nothing_is_lost() {
    let seed = seed();
    let mut rng = choices(seed);
    let mut rig = Rig::start(3, 4, rng.random());
    for _ in 0..rounds(1, 10) {
        rig.start_load();
        rig.wait_progress(40).await;
        rig.shims.iter().for_each(|shim| shim.set(Word::FailSync, EIO));
        for index in 0..3 {
            let deadline = Instant::now() + NOTICE_MAX;
            while rig.cluster.nodes[index].as_mut().unwrap().ended().is_none() {
                assert!(Instant::now() < deadline, "node {} goes on without a disk", index + 1);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let before = rig.load.acknowledged();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(rig.load.acknowledged(), before, "acknowledged without a disk");
        // The load goes on meanwhile: what is open then is answered by the nodes that come back.
        (0..3).for_each(|index| rig.kill(index));
        rig.shims.iter().for_each(|shim| shim.set(Word::FailSync, 0));
        rig.cluster.start_nodes();
        rig.wait_progress(20).await;
        rig.check().await;
    }
}

/// A snapshot file that cannot be written costs nothing but the room of the log before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_files_that_cannot_be_written_are_tried_again_and_leave_nothing() {
    let mut rig = Rig::start(3, 4, seed());
    rig.start_load();
    for (word, error, cause) in
        [(Word::FailSync, EIO, "Input/output error"), (Word::FailWrite, ENOSPC, "No space left on device")]
    {
        let failed = metric(&rig, 0, "holdfast_snapshot_builds_total result=\"failed\"").await;
        rig.shims[0].set(Word::Only, ONLY_SNAPSHOTS);
        rig.shims[0].set(word, error);
        wait_above(&rig, "holdfast_snapshot_builds_total result=\"failed\"", failed).await;
        wait_no_leftovers(&rig.cluster.plan.data(0)).await;
        assert_eq!(rig.cluster.nodes[0].as_ref().unwrap().probe("/healthz").await.0, 200);
        // With a disk that takes nothing of a shard at all it does not come up.
        rig.kill(0);
        rig.shims[0].set(Word::Only, ONLY_SHARDS);
        rig.cluster.nodes[0] = Some(rig.cluster.plan.start_node(0));
        let said = wait_end(rig.cluster.nodes[0].as_mut().unwrap()).await;
        assert_clear(&said, cause, "");
        rig.kill(0);
        rig.shims[0].set(word, 0);
        rig.cluster.start_nodes();
        wait_above(&rig, "holdfast_snapshot_written_bytes_total", 0.0).await;
    }
    rig.check().await;
}

/// Waits until a metric of the first node is above a value.
async fn wait_above(rig: &Rig, name: &str, value: f64) {
    let deadline = Instant::now() + NOTICE_MAX;
    while metric(rig, 0, name).await <= value {
        assert!(Instant::now() < deadline, "{name} stays at {value}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The sum of a metric of a node.
async fn metric(rig: &Rig, index: usize, name: &str) -> f64 {
    let (_, text) = rig.cluster.nodes[index].as_ref().unwrap().probe("/metrics").await;
    let (name, label) = name.split_once(' ').unwrap_or((name, ""));
    let is_it = |line: &&str| line.split(['{', ' ']).next() == Some(name) && line.contains(label);
    text.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// A file system of its own, which is unmounted when this is dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(path: &Path, megabytes: usize) -> Self {
        fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(path);
        assert!(mount.status().unwrap().success());
        Self(path.to_owned())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // What is left goes with the table of mounts, which is this test's own.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// No shim: a file system that is really full, and room that is really made.
#[test]
fn a_node_on_a_full_disk_ends_and_comes_back_when_there_is_room() {
    own::run("disks::a_node_on_a_full_disk_ends_and_comes_back_when_there_is_room", Own::Mounts, full_disk());
}

async fn full_disk() {
    let plan = Rig::plan(3);
    let data = plan.data(2);
    // What each round writes stays, in log, state and snapshot files; and a state that is made from a
    // snapshot file lies beside the old one for a while, with some megabytes that sled takes beforehand.
    let rounds = rounds(1, 10);
    let tmpfs = Tmpfs::mount(&data, 64 + 16 * rounds);
    let seed = seed();
    let mut rig = Rig::of(plan, 4, seed);
    rig.start_load();
    for _ in 0..rounds {
        rig.wait_progress(20).await;
        let ballast = data.join("ballast");
        fill(&ballast);
        write_much(&rig.cluster.api(), &mut choices(seed)).await;
        let said = wait_end(rig.cluster.nodes[2].as_mut().unwrap()).await;
        assert_clear(&said, "No space left on device", "make room");
        rig.wait_progress(20).await;
        rig.kill(2);
        fs::remove_file(ballast).unwrap();
        rig.cluster.start_nodes();
        rig.wait_progress(20).await;
    }
    rig.check().await;
    wait_no_leftovers(&data).await;
    rig.cluster.stop_nodes();
    drop(tmpfs);
}

/// More than the room that the log has reserved beforehand.
async fn write_much(api: &Api, rng: &mut StdRng) {
    for _ in 0..90 {
        let text: String = (0..2_500).map(|_| format!("{:016x}", rng.random::<u64>())).collect();
        api.ok("/v1/users/much/memories", &json!({ "memories": [{ "content": text }] })).await;
    }
}

/// Writes to a file for as long as there is room.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let error = loop {
        if let Err(error) = file.write_all(&[7; 4_096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
}
