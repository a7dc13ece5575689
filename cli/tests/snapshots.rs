//! Snapshot files and purged logs under load: every few hundred entries, so that kills, power cuts
//! and lost disks meet them at any moment. And what is erased leaves all of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::files::holding;
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

/// Waits until the receipt of an erasure says that no copy is left, and returns it.
async fn receipt(api: &common::Api, user: &str, id: &str) -> serde_json::Value {
    for _ in 0..600 {
        let (status, receipt) = api.get(&format!("/v1/users/{user}/erasures/{id}")).await;
        assert!(status.is_success(), "{receipt}");
        if receipt["status"] == "done" {
            return receipt;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("copies remain: {}", api.get(&format!("/v1/users/{user}/erasures/{id}")).await.1);
}

/// Recalls until the vector of bob's memory is in a file of the index; answers the file.
async fn indexed(api: &common::Api, data: &Path, embedding: &[f32], halves: &[u8]) -> String {
    for _ in 0..600 {
        let recall = json!({"query": "bob", "embedding": embedding, "relevance": "vector"});
        let answer = api.ok("/v1/users/bob/recall", &recall).await;
        assert_eq!(answer["results"].as_array().map(Vec::len), Some(1), "{answer}");
        let files = holding(data, halves);
        let file = files.into_iter().find(|path| path.contains("indices"));
        if let Some(file) = file.filter(|_| answer["index"] == "ivf") {
            return file;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the vector is in no file of the index");
}

/// The proof is a search of every file of every node for the very bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_what_was_erased_once_the_receipt_says_so() {
    const TEXT: &str = "Zq7-绝密-xK9vQ2-🙂-erasable";
    const SESSION: &str = "session-to-be-forgotten-8842";
    const KEPT: &str = "Wm3-kept-Jx5-留下";
    let data = scratch();
    let arguments = ["--snapshot-log-bytes", LOG_BYTES, "--erase-after-ms", "0", "--ivf-from-vectors", "1"];
    let server = Server::start_with(data.path(), Model::Absent, &arguments);
    let api = server.api();
    let mut load = Load::default();
    let memory =
        |n: usize| json!({"content": format!("{TEXT} {n}"), "session": SESSION, "id": format!("gone-{n}")});
    let memories: Vec<_> = (0..40).map(memory).collect();
    api.ok("/v1/users/ann/memories", &json!({ "memories": memories })).await;
    api.add("ann", &[KEPT]).await;
    // Bob's memory has a vector, which goes into a file of the index once somebody recalls.
    let embedding = [0.31f32, -0.47, 0.11, 0.73, -0.29, 0.17, 0.05, -0.13];
    let halves = holdfast_core::vector::Vector::quantise(&embedding).unwrap().halves;
    let of_bob = json!({"content": format!("{TEXT} of bob"), "embedding": embedding});
    api.ok("/v1/users/bob/memories", &json!({ "memories": [of_bob] })).await;
    load.run(&api, Duration::from_secs(1), || ()).await;
    load.repeat_open(&api).await;
    // An erasure that matches nothing makes new snapshot files and databases, with the text in them.
    let begun = api.ok("/v1/users/ann/erasures", &json!({ "session": "none" })).await;
    let of_none = receipt(&api, "ann", begun["id"].as_str().unwrap()).await;
    assert_eq!(of_none["erased"]["memories"], 0);
    // Earlier versions hold it as well, and the log once more.
    for n in 0..5 {
        let body = json!({"content": format!("{TEXT} changed {n}")});
        let request = api.request(reqwest::Method::PATCH, &format!("/v1/users/ann/memories/gone-{n}"));
        assert!(api.send(request.json(&body)).await.unwrap().0.is_success());
    }
    let file = indexed(&api, data.path(), &embedding, &halves).await;
    // A file that goes bad under a running node costs no recall its answer.
    let mut bytes = fs::read(&file).unwrap();
    bytes[..40].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&file, bytes).unwrap();
    indexed(&api, data.path(), &embedding, &halves).await;
    let places = holding(data.path(), TEXT.as_bytes());
    for place in ["raft", "sled-", "snapshots"] {
        assert!(places.iter().any(|path| path.contains(place)), "the test is about {place}: {places:?}");
    }

    let begun = api.ok("/v1/users/ann/erasures", &json!({ "session": SESSION })).await;
    let of_ann = receipt(&api, "ann", begun["id"].as_str().unwrap()).await;
    assert_eq!((&of_ann["erased"]["memories"], &of_ann["erased"]["versions"]), (&json!(40), &json!(5)));
    for replica in of_ann["replicas"].as_array().unwrap() {
        assert!(replica["log"].is_string() && replica["database"].is_string(), "{of_ann}");
    }
    assert!(holding(data.path(), SESSION.as_bytes()).is_empty(), "nor of the request itself");
    assert!(!holding(data.path(), TEXT.as_bytes()).is_empty(), "bob's is still there");
    let (status, begun) = api.delete("/v1/users/bob").await;
    assert_eq!(status.as_u16(), 202, "{begun}");
    let of_bob = receipt(&api, "bob", begun["id"].as_str().unwrap()).await;
    assert_eq!(of_bob["erased"]["memories"], 1);
    assert_eq!(holding(data.path(), TEXT.as_bytes()), Vec::<String>::new());
    assert_eq!(holding(data.path(), &halves), Vec::<String>::new(), "nor its vector");
    assert!(!holding(data.path(), KEPT.as_bytes()).is_empty(), "the search finds what is there");

    // Nothing comes back: after a kill, a lost state, a lost node, and with the log that was kept.
    load.check(&api).await;
    server.kill();
    reboot(data.path());
    fs::remove_dir_all(data.path().join("node-3/shards")).unwrap();
    let server = Server::start_with(data.path(), Model::Absent, &arguments);
    let api = server.api();
    assert_eq!(api.list("ann").await.len(), 1);
    assert!(api.list("bob").await.is_empty());
    load.check(&api).await;
    server.admin_api().replicas_agree().await;
    assert_eq!(holding(data.path(), TEXT.as_bytes()), Vec::<String>::new());
    assert_eq!(api.add("bob", &[&format!("{TEXT} of bob")]).await.len(), 1, "he may say it again");
    assert!(server.terminate(), "a clean stop exits 0");
}

/// After a power cut every node sets its databases aside and restores them from files: what is kept of them
/// for whoever wants to look goes as well, before the receipt says that nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_were_set_aside_keep_nothing_of_what_is_erased_afterwards() {
    const TEXT: &str = "Rk4-搁置-pL8-🗝-aside";
    let data = scratch();
    let arguments = ["--snapshot-log-bytes", LOG_BYTES, "--erase-after-ms", "0"];
    let server = Server::start_with(data.path(), Model::Absent, &arguments);
    let api = server.api();
    api.add("ann", &[&format!("{TEXT} one"), &format!("{TEXT} two")]).await;
    let mut load = Load::default();
    load.run(&api, Duration::from_secs(1), || ()).await;
    // An erasure makes snapshot files, from which the databases are restored.
    let begun = api.ok("/v1/users/ann/erasures", &json!({ "session": "none" })).await;
    receipt(&api, "ann", begun["id"].as_str().unwrap()).await;
    server.kill();
    reboot(data.path());
    let server = Server::start_with(data.path(), Model::Absent, &arguments);
    let api = server.api();
    assert_eq!(api.list("ann").await.len(), 2);
    let aside = |places: &[String]| places.iter().filter(|path| path.contains("lost-")).count();
    assert!(aside(&holding(data.path(), TEXT.as_bytes())) >= 3, "the test is about databases set aside");

    let (status, begun) = api.delete("/v1/users/ann").await;
    assert_eq!(status.as_u16(), 202, "{begun}");
    receipt(&api, "ann", begun["id"].as_str().unwrap()).await;
    assert_eq!(holding(data.path(), TEXT.as_bytes()), Vec::<String>::new());
    load.check(&api).await;
    assert!(server.terminate(), "a clean stop exits 0");
}

/// Copies go after half an hour and more here, so every erasure stays open; the last one has its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erasure_does_not_wait_for_those_before_it() {
    let data = scratch();
    let server = Server::start_with(data.path(), Model::Absent, &[]);
    let api = server.api();
    for n in 0..150 {
        api.ok("/v1/users/ann/erasures", &json!({ "session": format!("none-{n}") })).await;
    }
    let memories: Vec<_> =
        (0..20).map(|n| json!({"content": format!("text {n} 文"), "session": "last"})).collect();
    api.ok("/v1/users/ann/memories", &json!({ "memories": memories })).await;
    api.ok("/v1/users/ann/erasures", &json!({ "session": "last" })).await;
    for _ in 0..300 {
        if api.list("ann").await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(api.list("ann").await.is_empty(), "an erasure behind 150 others takes nothing out");
    assert!(server.terminate(), "a clean stop exits 0");
}
