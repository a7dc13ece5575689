//! A restart of every node, one after the other, while clients write and read: the upgrade of a
//! running cluster. Nobody notices.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Api;
use common::cluster::{Cluster, Process, program};
use common::load::{Attempt, Load, WRITERS};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Writes until told to stop. Every write must be acknowledged at the first try: the router alone
/// finds the leader.
async fn write(api: Api, writer: usize, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let attempt = Attempt { writer, number };
        assert!(attempt.send(&api).await, "not acknowledged: {}", attempt.content());
        done.fetch_add(1, Ordering::Relaxed);
        number += 1;
    }
    number
}

/// Reads until told to stop, and never gets an error nor less than before.
async fn read(api: Api, stop: Arc<AtomicBool>) {
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        for consistency in ["session", "linearizable"] {
            let ask = json!({ "query": "statement", "top_k": 1_000, "consistency": consistency });
            let answer = api.ok("/v1/users/user-0/recall", &ask).await;
            let found = answer["results"].as_array().unwrap().len();
            assert!(answer["partial"] == false && found >= most, "{found} after {most}");
            most = found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until so many more writes were acknowledged.
async fn more_writes(done: &AtomicU64, count: u64) {
    let goal = done.load(Ordering::Relaxed) + count;
    for _ in 0..1_200 {
        if done.load(Ordering::Relaxed) >= goal {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the writes stand still");
}

async fn terminate(node: Process) {
    let ended = tokio::task::spawn_blocking(move || node.terminate()).await.unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_nothing() {
    let mut cluster = Cluster::start(8);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(cluster.api(), writer, stop.clone(), done.clone())))
        .collect();
    let reader = tokio::spawn(read(cluster.api(), stop.clone()));
    more_writes(&done, 50).await;
    for index in 0..3 {
        terminate(cluster.nodes[index].take().unwrap()).await;
        more_writes(&done, 50).await;
        let plan = &cluster.plan;
        let mut node = plan.start_node(index);
        // Waiting blocks this thread alone: the others serve the clients.
        tokio::task::block_in_place(|| node.wait_line("ready "));
        cluster.nodes[index] = Some(node);
        // The next one may go when all replicas hold all rows, as `kubectl` waits for readiness.
        more_writes(&done, 50).await;
    }
    stop.store(true, Ordering::Relaxed);
    reader.await.unwrap();
    let mut load = Load::default();
    for (writer, task) in writers.into_iter().enumerate() {
        load.next[writer] = task.await.unwrap();
    }
    load.check(&cluster.api()).await;
    cluster.admin_api().replicas_agree().await;
}

/// Groups that the router sees led by each node.
async fn led(api: &Api) -> Vec<usize> {
    let (_, answer) = api.get("/admin/v1/nodes").await;
    let nodes = answer["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["leads"].as_array().unwrap().len()).collect()
}

/// Waits until the drained nodes lead nothing, and one node all 65 groups if it is the last.
async fn wait_led(api: &Api, drained: usize) {
    for _ in 0..600 {
        let led = led(api).await;
        if led[..=drained].iter().all(|groups| *groups == 0) && led.iter().sum::<usize>() == 65 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the drained nodes still lead: {:?}", led(api).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_leads_nothing_and_takes_nothing_back() {
    let cluster = Cluster::start(64);
    let admin = cluster.admin_api();
    for drained in 0..2 {
        let node = cluster.nodes[drained].as_ref().unwrap();
        // With the promise as its limit: 10 s for 64 shards.
        let done =
            program().args(["ctl", "drain", "--timeout", "10", "--admin", &node.admin]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        wait_led(&admin, drained).await;
    }
    cluster.api().add("ann", &["after the drains"]).await;
    // There is nobody left who takes over, and it says so.
    let last = cluster.nodes[2].as_ref().unwrap();
    let drained = program().args(["ctl", "drain", "--admin", &last.admin]).output().unwrap();
    assert_eq!(drained.status.code(), Some(1));
    let told = String::from_utf8_lossy(&drained.stderr);
    assert!(told.contains("still leads 65 groups"), "{told}");
    let (_, body) = last.probe("/readyz").await;
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["draining"], true);
    cluster.api().add("ann", &["and it goes on leading"]).await;
}

/// Waits until a process takes connections of operators, which it does before it opens its data.
async fn wait_listening(node: &Process) {
    let address = node.admin.trim_start_matches("http://");
    for _ in 0..6_000 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{address} does not listen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_opens_its_data_can_be_stopped() {
    let mut cluster = Cluster::start(32);
    cluster.api().add("ann", &["kept"]).await;
    for _ in 0..3 {
        cluster.nodes[0].take().unwrap().kill();
        // At whatever it is doing then: the end is in order, and the next start finds everything.
        let node = cluster.plan.start_node(0);
        wait_listening(&node).await;
        terminate(node).await;
        cluster.restart_node(0);
    }
    assert_eq!(cluster.api().list("ann").await.len(), 1);
    cluster.admin_api().replicas_agree().await;
}
