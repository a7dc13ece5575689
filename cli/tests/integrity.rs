//! Replicas that are wrong, in a cluster of processes: found, taken out of service, made anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::cluster::{Cluster, Plan, program};
use common::load::{Load, WRITERS};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// How long a busy machine may take to find and mend something.
const SOON: Duration = Duration::from_secs(120);

/// A cluster that compares its replicas several times a second.
fn start(shards: u16) -> Cluster {
    let plan = Plan::new(shards);
    let mut config = std::fs::OpenOptions::new().append(true).open(plan.config()).unwrap();
    config.write_all(b"\n[node]\ncompare_every_ms = 300\n").unwrap();
    let mut nodes: Vec<_> = (0..3).map(|index| plan.start_node(index)).collect();
    for node in &mut nodes {
        node.wait_line("waiting for the founding ");
    }
    let key = plan.found();
    for (id, node) in (1..).zip(&mut nodes) {
        node.wait_line(&format!("ready node={id} "));
    }
    let (router, url) = plan.start_router(&[]);
    Cluster { plan, nodes: nodes.into_iter().map(Some).collect(), router, url, key }
}

/// `holdfast ctl verify` with further arguments.
fn verify(cluster: &Cluster, args: &[&str]) -> Output {
    let mut command = program();
    command.args(["ctl", "verify", "--admin", &cluster.router.admin, "--key", &cluster.key]).args(args);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until everything is equal, and says what it is not.
async fn equal(cluster: &Cluster, args: &[&str]) -> Value {
    let deadline = Instant::now() + SOON;
    loop {
        let output = verify(cluster, &[&["--json"], args].concat());
        if output.status.code() == Some(0) {
            return serde_json::from_slice(&output.stdout).unwrap();
        }
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(Instant::now() < deadline, "{:?}\n{out}\n{err}", output.status);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// The sum of a metric of a node, of the lines that contain `label`.
async fn metric(cluster: &Cluster, index: usize, name: &str, label: &str) -> f64 {
    let (_, metrics) = cluster.nodes[index].as_ref().unwrap().probe("/metrics").await;
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn wait_metric(cluster: &Cluster, index: usize, name: &str, label: &str) {
    let deadline = Instant::now() + SOON;
    while metric(cluster, index, name, label).await < 1.0 {
        assert!(Instant::now() < deadline, "{name} {label} of node {} stays 0", index + 1);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Changes the last byte of a memory's row in the store of a node that does not run.
fn flip_a_byte(shard: &Path) {
    let current: Value = serde_json::from_slice(&std::fs::read(shard.join("current.json")).unwrap()).unwrap();
    let db = sled::open(shard.join(format!("sled-{}", current["generation"]))).unwrap();
    let is_text = |value: &sled::IVec| value.windows(10).any(|part| part == b"a flipped ");
    let (key, value) =
        db.iter().map(Result::unwrap).find(|(_, value)| is_text(value)).expect("a memory's row");
    let mut changed = value.to_vec();
    let at = changed.windows(10).position(|part| part == b"a flipped ").unwrap();
    changed[at] = b'A';
    db.insert(key, changed).unwrap();
    db.flush().unwrap();
}

fn kept(shard: &Path) -> usize {
    let entries = std::fs::read_dir(shard).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("lost-")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_on_disk_is_found_and_mended() {
    let mut cluster = start(1);
    let api = cluster.api();
    api.add("mei", &["a flipped byte 一", "我不吃辣", "My flight is CN-A10293. ✈️"]).await;
    let before = equal(&cluster, &[]).await;
    assert_eq!((before["equal"].as_bool(), before["done"].as_bool()), (Some(true), Some(true)));
    assert_eq!(before["groups"].as_array().unwrap().len(), 2, "the meta group and a shard");
    for replica in before["groups"][1]["replicas"].as_array().unwrap() {
        assert_eq!(replica["rows"]["state"], "equal");
        assert_eq!(replica["spaces"]["state"], "equal");
    }

    // Node 2 with a damaged row, and node 3 away: nobody can say who is right, so nothing is mended.
    // Node 2 stops in order, so that all of its rows are in the database.
    assert!(cluster.nodes[1].take().unwrap().terminate().success());
    cluster.nodes[2].take().unwrap().kill();
    let shard = cluster.plan.data(1).join("shards/1");
    flip_a_byte(&shard);
    cluster.restart_node(1);
    wait_metric(&cluster, 1, "holdfast_state_hash_mismatches_total", "rows").await;
    wait_metric(&cluster, 1, "holdfast_quarantined_replicas", "").await;
    wait_metric(&cluster, 1, "holdfast_replica_rebuilds_total", "refused").await;
    // Reads go to node 1, and find the row as it was written.
    let deadline = Instant::now() + SOON;
    loop {
        let found = api.recall("mei", &json!({ "query": "flipped byte", "top_k": 1 })).await;
        if found == ["a flipped byte 一"] {
            break;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let output = verify(&cluster, &["--shard", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (told["equal"].as_bool(), &told["groups"][0]["replicas"][1]["quarantine"]),
        (Some(false), &json!("rows_differ"))
    );
    let output = verify(&cluster, &["--shard", "1"]);
    assert!(text(&output.stdout).contains("in quarantine (rows_differ)"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("docs/runbooks/"), "{}", text(&output.stderr));

    // With node 3 back the other two agree: node 2 is made anew, and its old state kept.
    cluster.restart_node(2);
    wait_metric(&cluster, 1, "holdfast_replica_rebuilds_total", "done").await;
    equal(&cluster, &["--all-spaces"]).await;
    assert_eq!(kept(&shard), 1);
    assert_eq!(api.list("mei").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_random_load_and_kills_all_replicas_are_equal() {
    let mut cluster = start(2);
    let api = cluster.api();
    let mut load = Load::default();
    for round in 0..6 {
        let victim = round % 3;
        let node = cluster.nodes[victim].take().unwrap();
        load.run(&api, Duration::from_millis(700), move || node.kill()).await;
        cluster.restart_node(victim);
        load.repeat_open(&api).await;
    }
    let verified = equal(&cluster, &["--all-spaces"]).await;
    assert_eq!(verified["groups"].as_array().unwrap().len(), 3);
    load.check(&api).await;
    assert!(load.next.iter().sum::<u64>() > WRITERS as u64);
    for index in 0..3 {
        let wrong = metric(&cluster, index, "holdfast_state_hash_mismatches_total", "").await;
        assert!(wrong < 0.5, "node {} has found {wrong} mismatches", index + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_says_what_it_could_not_do() {
    let usage = |args: &[&str]| program().args(["ctl", "verify"]).args(args).output().unwrap();
    let code = |output: &Output| output.status.code();
    let no_key = usage(&[]);
    assert_eq!(code(&no_key), Some(2));
    assert!(text(&no_key.stderr).contains("HOLDFAST_API_KEY"), "{}", text(&no_key.stderr));
    assert_eq!(code(&usage(&["--key", "hf_x_y", "--admin", "nowhere"])), Some(2));
    assert_eq!(code(&usage(&["--key", "hf_x_y", "--quick", "--all-spaces"])), Some(2));
    let silent = common::free_address();
    assert_eq!(code(&usage(&["--key", "hf_x_y", "--admin", &format!("http://{silent}")])), Some(3));

    let mut cluster = start(1);
    let wrong_key = usage(&["--admin", &cluster.router.admin, "--key", "hf_x_y"]);
    assert_eq!(code(&wrong_key), Some(1));
    assert!(text(&wrong_key.stderr).contains("unauthenticated"), "{}", text(&wrong_key.stderr));
    let unknown = verify(&cluster, &["--shard", "7"]);
    assert_eq!(code(&unknown), Some(1));
    assert!(text(&unknown.stderr).contains("not_found"), "{}", text(&unknown.stderr));
    let quick = equal(&cluster, &["--quick"]).await;
    assert!(quick["groups"][0]["replicas"][0]["rows"].is_null());
    // With a node away not everything can be compared, which is told from a difference.
    cluster.nodes[2].take().unwrap().kill();
    let output = verify(&cluster, &["--shard", "1", "--timeout", "20"]);
    assert_eq!(code(&output), Some(3), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("shard 1: not compared"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("node 3: no answer"), "{}", text(&output.stdout));
}
