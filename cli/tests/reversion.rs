//! A node whose disk is replaced by an older copy of itself: it has forgotten what it acknowledged.
//! It must be noticed and refused, and must not take anybody with it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::cluster::{Cluster, Process, program};
use common::{Api, free_address};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const USERS: usize = 12;
/// The node that is set back; the third, whose id is 3.
const BACK: usize = 2;

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

/// Writes one memory for each user, and notes what was acknowledged.
async fn write_round(api: &Api, round: usize, acknowledged: &mut Vec<(String, String)>) {
    for user in (0..USERS).map(|number| format!("user-{number}")) {
        let ids = api.add(&user, &[&format!("round {round}, 第{round}轮 of {user}")]).await;
        acknowledged.extend(ids.into_iter().map(|id| (user.clone(), id)));
    }
}

async fn nothing_is_lost(api: &Api, acknowledged: &[(String, String)]) {
    for (user, id) in acknowledged {
        let path = format!("/v1/users/{user}/memories/{id}?consistency=linearizable");
        let (status, answer) = api.get(&path).await;
        assert!(status.is_success(), "{user} {id}: {status} {answer}");
    }
}

/// Copies the data of the running node, as a snapshot of its volume would.
fn copy_running(node: &Process, data: &Path, to: &Path) {
    node.signal("-STOP");
    copy(data, to);
    node.signal("-CONT");
}

/// Sets the stopped node back to `old`; the newest data are kept at the path that is returned.
fn set_back(data: &Path, old: &Path) -> std::path::PathBuf {
    let newest = data.with_extension("newest");
    std::fs::rename(data, &newest).unwrap();
    copy(old, data);
    newest
}

async fn alarms(cluster: &Cluster) -> Vec<Value> {
    let (status, answer) = cluster.admin_api().get("/admin/v1/cluster").await;
    assert!(status.is_success(), "{answer}");
    answer["alarms"].as_array().unwrap().clone()
}

/// Waits until the router tells an alarm about the node, or none about anybody.
async fn wait_alarm(cluster: &Cluster, expected: bool) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let alarms = alarms(cluster).await;
        let found = alarms.iter().any(|alarm| alarm["alarm"] == "node_reverted" && alarm["node"] == 3);
        if found == expected && (found || alarms.is_empty()) {
            return alarms;
        }
        assert!(Instant::now() < deadline, "{alarms:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a start of the node from its data ends with.
fn start_and_fail(cluster: &Cluster) -> String {
    let (data, seed) = (cluster.plan.data(BACK), &cluster.plan.seeds[BACK]);
    let set = |name: &str, value: &str| format!("node.{name}={value}");
    let settings = [
        set("data", data.to_str().unwrap()),
        set("listen", seed),
        set("advertise", seed),
        set("admin", &free_address()),
    ];
    let mut command = program();
    command.args(["node", "--config"]).arg(cluster.plan.config());
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// The two nodes that did nothing wrong run, and every group has a leader among them.
async fn the_others_are_well(cluster: &Cluster) {
    for index in (0..3).filter(|index| *index != BACK) {
        let node = cluster.nodes[index].as_ref().unwrap();
        node.wait_probe("/readyz", 200).await;
        assert_eq!(node.probe("/healthz").await.0, 200, "a group of node {} has failed", index + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_a_disk_is_refused_and_harms_nobody() {
    let mut cluster = Cluster::start(3);
    let api = cluster.api();
    let mut acknowledged = Vec::new();
    write_round(&api, 0, &mut acknowledged).await;
    let data = cluster.plan.data(BACK);
    let old = data.with_extension("old");
    copy_running(cluster.nodes[BACK].as_ref().unwrap(), &data, &old);
    for round in 1..4 {
        write_round(&api, round, &mut acknowledged).await;
    }
    cluster.admin_api().replicas_agree().await;
    cluster.nodes[BACK].take().unwrap().kill();
    let newest = set_back(&data, &old);

    let back = cluster.plan.start_node(BACK);
    let body = wait_body(&back, "/readyz", "reverted").await;
    assert!(body.contains("older copy") && body.contains("HoldfastNodeReverted"), "{body}");
    assert_eq!(back.probe("/healthz").await.0, 200, "a restart would not mend it");
    let (_, metrics) = back.probe("/metrics").await;
    assert!(metrics.contains("holdfast_node_reverted{node=\"3\"} 1"), "it is an alarm on the node");
    let alarm = wait_alarm(&cluster, true).await;
    assert!(alarm[0]["detail"].as_str().unwrap().contains("older copy"), "{alarm:?}");

    the_others_are_well(&cluster).await;
    for round in 4..6 {
        write_round(&api, round, &mut acknowledged).await;
    }
    nothing_is_lost(&api, &acknowledged).await;
    the_others_are_well(&cluster).await;
    let refusing = cluster.nodes.iter().flatten();
    let mut refused = false;
    for node in refusing {
        refused |= node.probe("/metrics").await.1.contains("holdfast_raft_refused_peers{node=\"1\"} 1")
            || node.probe("/metrics").await.1.contains("holdfast_raft_refused_peers{node=\"2\"} 1");
    }
    assert!(refused, "those who refuse it say so too");

    // It never starts from that copy again, and from its newest disk it does.
    back.kill();
    let why = start_and_fail(&cluster);
    assert!(why.contains("older copy") && why.contains("Never start it from this copy again"), "{why}");
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(newest, &data).unwrap();
    cluster.restart_node(BACK);
    wait_alarm(&cluster, false).await;
    cluster.admin_api().replicas_agree().await;
    nothing_is_lost(&api, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_noticed_after_a_restart_of_all() {
    let mut cluster = Cluster::start(2);
    let api = cluster.api();
    let mut acknowledged = Vec::new();
    write_round(&api, 0, &mut acknowledged).await;
    let data = cluster.plan.data(BACK);
    let old = data.with_extension("old");
    copy_running(cluster.nodes[BACK].as_ref().unwrap(), &data, &old);
    for round in 1..3 {
        write_round(&api, round, &mut acknowledged).await;
    }
    cluster.admin_api().replicas_agree().await;
    wait_witnesses(&cluster).await;
    for node in &mut cluster.nodes {
        node.take().unwrap().kill();
    }
    set_back(&data, &old);
    // The one that forgot is there first, and wants to vote.
    let back = cluster.plan.start_node(BACK);
    // Together: neither is ready alone if the one that forgot is found out at once.
    let others: Vec<Process> = (0..BACK).map(|index| cluster.plan.start_node(index)).collect();
    for (index, mut node) in others.into_iter().enumerate() {
        node.wait_line(&format!("ready node={} ", index + 1));
        cluster.nodes[index] = Some(node);
    }
    let body = wait_body(&back, "/readyz", "reverted").await;
    assert!(body.contains("older copy"), "{body}");
    the_others_are_well(&cluster).await;
    write_round(&api, 3, &mut acknowledged).await;
    nothing_is_lost(&api, &acknowledged).await;
}

/// What leaders remember is on disk a second after the last acknowledgement.
async fn wait_witnesses(cluster: &Cluster) {
    let newest = || {
        let files = (0..3).filter(|index| *index != BACK);
        let files = files.map(|index| cluster.plan.data(index).join("raft").join("witness"));
        files.filter_map(|file| std::fs::metadata(file).and_then(|found| found.modified()).ok()).max()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut before, mut same) = (newest(), 0);
    while same < 30 {
        assert!(Instant::now() < deadline, "they go on writing");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = newest();
        same = if now.is_some() && now == before { same + 1 } else { 0 };
        before = now;
    }
}

/// Waits until the answer of a probe holds a word.
async fn wait_body(node: &Process, path: &str, word: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        // It does not listen yet, at first.
        if let Ok(answer) = reqwest::get(format!("{}{path}", node.admin)).await {
            let body = answer.text().await.unwrap();
            if body.contains(word) {
                return body;
            }
            assert!(Instant::now() < deadline, "{path}: {body}");
        }
        assert!(Instant::now() < deadline, "{path} does not answer");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
