//! Snapshot files and purged logs under load: every few hundred entries, so that kills, power cuts
//! and lost disks meet them at any moment.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::load::{Load, reboot};
use common::{Model, Server, scratch};
use rand::Rng;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;

const ROUNDS: usize = 14;
/// Of log, between two files of a shard: some hundred small entries.
const LOG_BYTES: &str = "60000";

fn start(data: &Path) -> Server {
    Server::start_with(data, Model::Absent, &["--snapshot-log-bytes", LOG_BYTES])
}

/// The sum of a metric over nodes and groups.
async fn metric(server: &Server, name: &str) -> f64 {
    let text = reqwest::get(format!("{}/metrics", server.admin)).await.unwrap().text().await.unwrap();
    let of_name = |line: &&str| line.split(['{', ' ']).next() == Some(name);
    text.lines().filter(of_name).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_behind_purged_logs() {
    let data = scratch();
    let mut load = Load::default();
    let (mut files, mut installs, mut fetched) = (0.0, 0.0, 0.0);
    for round in 0..ROUNDS {
        match round % 5 {
            // Every state is lost at once: file and log bring it back.
            3 => reboot(data.path()),
            // A node has lost states and files, and has purged its log: the others bring it back.
            4 => fs::remove_dir_all(data.path().join("node-3/shards")).unwrap(),
            _ => {}
        }
        let server = start(data.path());
        let api = server.api();
        installs += metric(&server, "holdfast_snapshot_installs_total").await;
        load.repeat_open(&api).await;
        load.check(&api).await;
        let pause = rand::rng().random_range(300..1_500);
        load.run(&api, Duration::from_millis(pause), || ()).await;
        files += metric(&server, "holdfast_snapshot_written_bytes_total").await;
        fetched += metric(&server, "holdfast_snapshot_received_bytes_total").await;
        let pause = rand::rng().random_range(50..600);
        load.run(&api, Duration::from_millis(pause), || server.kill()).await;
    }
    let server = start(data.path());
    let api = server.api();
    load.repeat_open(&api).await;
    load.check(&api).await;
    server.admin_api().replicas_agree().await;
    assert!(metric(&server, "holdfast_raft_purged_index").await > 1_000.0, "hardly anything was purged");
    assert!(files > 100_000.0 && installs >= 27.0 && fetched > 10_000.0, "{files} {installs} {fetched}");
    assert_eq!(metric(&server, "holdfast_snapshot_damaged_total").await, 0.0);
    assert!(server.terminate(), "a clean stop exits 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_missed_purged_entries_catches_up_by_file() {
    let data = scratch();
    let mut load = Load::default();
    let server = start(data.path());
    let (api, admin) = (server.api(), server.admin_api());
    load.run(&api, Duration::from_millis(500), || ()).await;
    admin.ok("/admin/v1/nodes/3:stop", &json!({})).await;
    let before = metric(&server, "holdfast_raft_purged_index").await;
    for _ in 0..150 {
        load.run(&api, Duration::from_secs(1), || ()).await;
        load.repeat_open(&api).await;
        if metric(&server, "holdfast_raft_purged_index").await > before + 4_000.0 {
            break;
        }
    }
    admin.ok("/admin/v1/nodes/3:start", &json!({})).await;
    admin.replicas_agree().await;
    assert!(metric(&server, "holdfast_snapshot_sent_bytes_total").await > 0.0, "no file was needed");
    load.check(&api).await;
    // The log is bounded although all of this was written.
    let log = metric(&server, "holdfast_log_disk_bytes").await;
    let written = metric(&server, "holdfast_log_written_bytes_total").await;
    println!("log {log} of {written} written");
    assert!(server.terminate(), "a clean stop exits 0");
}
