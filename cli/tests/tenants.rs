//! A tenant is erased on real processes, of which one is killed in the middle: nothing of it is left in any file of any
//! node, and its neighbours have all of theirs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::cluster::{Cluster, Plan};
use common::files::holding;
use common::{Api, free_address};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SHARDS: u16 = 2;
/// The first goes. Each is the beginning of another one, or looks like it.
const TENANTS: [&str; 4] = ["租", "租户", "租\u{301}", "a"];
/// What every name and every text of a tenant holds.
const MARKS: [&str; 4] = ["Kx0q-绝密", "Kx1q-绝密", "Kx2q-绝密", "Kx3q-绝密"];
/// Users of the first one.
const USERS: usize = 400;
/// How long a part of it may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const SETTINGS: &str = "\n[node]\nerase_log_after_ms = 0\nerase_database_after_ms = 0\nsnapshot_log_bytes = 60000\n\
                        ivf_from_vectors = 1\n";

fn start() -> Cluster {
    let addresses = || (0..3).map(|_| free_address()).collect();
    Cluster::start_plan(Plan::at(SHARDS, addresses(), addresses(), SETTINGS))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn path(tenant: &str) -> String {
    format!("/admin/v1/tenants/{}", encoded(tenant))
}

fn users(mark: &str, name: &str) -> String {
    format!("/v1/users/{}", encoded(&format!("{mark}-{name}")))
}

/// A vector, and its bytes as files of an index have them.
fn vector() -> ([f32; 8], Vec<u8>) {
    let embedding = [0.31f32, -0.47, 0.11, 0.73, -0.29, 0.17, 0.05, -0.13];
    let halves = holdfast_core::vector::Vector::quantise(&embedding).unwrap().halves;
    (embedding, halves)
}

/// Makes a tenant with something of everything; answers a key of it.
async fn fill(cluster: &Cluster, at: usize, count: usize) -> String {
    let (operator, mark) = (cluster.admin_api(), MARKS[at]);
    operator.ok("/admin/v1/tenants", &json!({"id": TENANTS[at], "name": format!("{mark} Ltd")})).await;
    let wanted =
        json!({"tenant": TENANTS[at], "name": format!("{mark} key"), "rights": ["read", "write", "admin"]});
    let key = operator.ok("/admin/v1/keys", &wanted).await["key"].as_str().unwrap().to_owned();
    let rules = json!({"predicates": [{"name": format!("{mark} likes"), "cardinality": "many"}]});
    put(&operator, &format!("{}/fact-rules", path(TENANTS[at])), &rules).await;
    let api = Api::new(&cluster.url, &key);
    for n in 0..count {
        let memories =
            json!({"memories": [{"content": format!("{mark} memory {n}"), "metadata": {"m": mark}}]});
        api.ok(&format!("{}/memories", users(mark, &n.to_string())), &memories).await;
    }
    let user = users(mark, "0");
    let turns = json!({"turns": [{"role": "user", "content": format!("{mark} said")}]});
    api.ok(&format!("{user}/sessions/{}/turns", encoded(&format!("{mark}-s"))), &turns).await;
    put(&api, &format!("{user}/blocks/{}", encoded(mark)), &json!({"value": format!("{mark} block")})).await;
    let fact = json!({"subject": mark, "predicate": "lives in", "object": format!("{mark} town")});
    api.ok(&format!("{user}/facts"), &json!({"facts": [fact]})).await;
    let name = encoded(&format!("{mark}-docs"));
    put(&api, &format!("/v1/collections/{name}"), &json!({"partitions": 4})).await;
    let shared: Vec<Value> = (0..40).map(|n| json!({"content": format!("{mark} shared {n}")})).collect();
    api.ok(&format!("/v1/collections/{name}/memories"), &json!({"memories": shared})).await;
    key
}

async fn put(api: &Api, path: &str, body: &Value) {
    let (status, answer) = api.send(api.request(Method::PUT, path).json(body)).await.unwrap();
    assert!(status.is_success(), "{path}: {status} {answer}");
}

/// The progress of an erasure, once it says so.
async fn wait_for(operator: &Api, what: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A node that was killed may have been asked.
        let request = operator.request(Method::GET, &path(TENANTS[0]));
        if let Ok((status, told)) = operator.send(request).await {
            if status.is_success() && is_there(&told) {
                return told;
            }
            assert!(Instant::now() < deadline, "not {what}: {status} {told}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What became of writes that go on all the time.
#[derive(Default)]
struct Writing {
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
    ended: AtomicBool,
}

/// Writes for the tenant that goes, through a router that may know its key still.
async fn write_on(api: Api, writing: Arc<Writing>) {
    let mut n = 0;
    while !writing.ended.load(Ordering::SeqCst) {
        n += 1;
        let body = json!({"memories": [{"content": format!("{} late {n}", MARKS[0])}]});
        let path = format!("{}/memories", users(MARKS[0], &format!("late-{n}")));
        match api.send(api.request(Method::POST, &path).json(&body)).await {
            Ok((status, _)) if status.is_success() => {
                writing.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Ok((status, answer)) if status.is_client_error() => {
                assert!(matches!(status.as_u16(), 401 | 404), "{status} {answer}");
                writing.refused.fetch_add(1, Ordering::SeqCst);
            }
            // Of a node that was killed.
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until so many have come to this end.
async fn reaches(count: &AtomicUsize, least: usize) {
    let deadline = Instant::now() + PATIENCE;
    while count.load(Ordering::SeqCst) < least {
        assert!(Instant::now() < deadline, "never {least}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What the neighbours have is what they had.
async fn neighbours_are_whole(cluster: &Cluster, keys: &[String]) {
    for at in 1..TENANTS.len() {
        let (api, mark) = (Api::new(&cluster.url, &keys[at]), MARKS[at]);
        for n in 0..10 {
            let listed = api.list(&encoded(&format!("{mark}-{n}"))).await;
            assert!(!listed.is_empty(), "{mark} {n}");
        }
        let (status, session) =
            api.get(&format!("{}/sessions/{}", users(mark, "0"), encoded(&format!("{mark}-s")))).await;
        assert!(status.is_success(), "{session}");
        let found = json!({"query": "shared 7", "top_k": 40});
        let found =
            api.ok(&format!("/v1/collections/{}/recall", encoded(&format!("{mark}-docs"))), &found).await;
        assert_eq!(found["results"].as_array().unwrap().len(), 40, "{mark}");
        let (status, rules) = cluster.admin_api().get(&format!("{}/fact-rules", path(TENANTS[at]))).await;
        assert!(status.is_success() && rules["predicates"].as_array().unwrap().len() == 1, "{rules}");
    }
}

/// Recalls until the vector of the first tenant is in a file of the index.
async fn index_a_vector(cluster: &Cluster, key: &str) {
    let api = Api::new(&cluster.url, key);
    let (embedding, halves) = vector();
    let user = users(MARKS[0], "vector");
    let memory = json!({"content": format!("{} vector", MARKS[0]), "embedding": embedding});
    api.ok(&format!("{user}/memories"), &json!({"memories": [memory]})).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let recall = json!({"query": "vector", "embedding": embedding, "relevance": "vector"});
        api.ok(&format!("{user}/recall"), &recall).await;
        if holding(&cluster.plan.nodes(), &halves).iter().any(|file| file.contains("indices")) {
            return;
        }
        assert!(Instant::now() < deadline, "the vector is in no file of the index");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An erasure that matches nothing makes new files of a shard, with what the tenant has in them.
async fn fill_files(api: &Api, nodes: &Path) {
    let user = users(MARKS[0], "1");
    let begun = api.ok(&format!("{user}/erasures"), &json!({"session": "none"})).await;
    let receipt = format!("{user}/erasures/{}", begun["id"].as_str().unwrap());
    let deadline = Instant::now() + PATIENCE;
    while api.get(&receipt).await.1["status"] != "done" {
        assert!(Instant::now() < deadline, "the erasure of nothing does not end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let places = holding(nodes, MARKS[0].as_bytes());
    for place in ["raft", "sled-", "snapshots"] {
        assert!(places.iter().any(|path| path.contains(place)), "the test is about {place}: {places:?}");
    }
}

/// Kills the leader of a shard that has taken something out; answers its place. What remains is done by whoever
/// leads then.
async fn kill_in_the_middle(cluster: &mut Cluster) -> usize {
    let operator = cluster.admin_api();
    let leader = leader_of(&operator, 1).await;
    let has_begun = |told: &Value| {
        let mut groups = told["groups"].as_array().unwrap().iter();
        groups.any(|one| one["group"] == 1 && one["spaces"].as_u64() > Some(0))
    };
    let told = wait_for(&operator, "begun in the shard", has_begun).await;
    cluster.nodes[leader].take().unwrap().kill();
    println!("killed node {} with {} spaces left", leader + 1, told["spaces_left"]);
    leader
}

/// The place of the node that leads a group among the processes.
async fn leader_of(operator: &Api, group: u64) -> usize {
    let (_, told) = operator.get("/admin/v1/cluster").await;
    let groups = told["groups"].as_array().unwrap();
    let leader = groups.iter().find(|one| one["group"] == group).unwrap()["leader"].as_u64().unwrap();
    usize::try_from(leader).unwrap() - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_tenant_though_a_leader_is_killed_in_the_middle() {
    let mut cluster = start();
    let mut keys = Vec::new();
    for at in 0..TENANTS.len() {
        keys.push(fill(&cluster, at, if at == 0 { USERS } else { 10 }).await);
    }
    index_a_vector(&cluster, &keys[0]).await;
    let (operator, nodes) = (cluster.admin_api(), cluster.plan.nodes());
    fill_files(&Api::new(&cluster.url, &keys[0]), &nodes).await;
    let api = Api::new(&cluster.url, &keys[0]);
    let (second, url) = cluster.plan.start_router(&[]);
    let writing = Arc::new(Writing::default());
    let writer = tokio::spawn(write_on(Api::new(&url, &keys[0]), Arc::clone(&writing)));
    reaches(&writing.acknowledged, 5).await;

    let (status, begun) = operator.delete(&path(TENANTS[0])).await;
    assert_eq!(status.as_u16(), 202, "{begun}");
    let killed = kill_in_the_middle(&mut cluster).await;
    wait_for(&operator, "removed", |told| told["status"] == "purging").await;
    let (status, again) = operator.delete(&path(TENANTS[0])).await;
    assert_eq!((status.as_u16(), &again["erasure"]), (202, &begun["erasure"]), "{again}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waiting = operator.get(&path(TENANTS[0])).await.1;
    assert_eq!(waiting["status"], "purging", "the node that is down has its files: {waiting}");
    reaches(&writing.refused, 5).await;
    writing.ended.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    cluster.restart_node(killed);
    let done = wait_for(&operator, "done", |told| told["status"] == "done").await;
    assert_eq!(done["groups"].as_array().unwrap().len(), usize::from(SHARDS) + 1, "{done}");
    for group in done["groups"].as_array().unwrap() {
        for replica in group["replicas"].as_array().unwrap() {
            assert!(replica["log"].is_string() && replica["database"].is_string(), "{done}");
        }
    }
    let erased: u64 =
        done["groups"].as_array().unwrap().iter().map(|one| one["spaces"].as_u64().unwrap()).sum();
    let acknowledged = writing.acknowledged.load(Ordering::SeqCst) as u64;
    assert!(erased >= USERS as u64 + 4 + acknowledged, "{done}");

    assert_eq!(holding(&nodes, MARKS[0].as_bytes()), Vec::<String>::new());
    assert_eq!(holding(&nodes, &vector().1), Vec::<String>::new(), "nor its vector");
    for mark in &MARKS[1..] {
        assert!(!holding(&nodes, mark.as_bytes()).is_empty(), "the search finds what is there");
    }
    let (status, problem) = api.get(&format!("{}/memories", users(MARKS[0], "0"))).await;
    assert_eq!(status.as_u16(), 401, "{problem}");
    let (status, problem) = operator.post("/admin/v1/tenants", &json!({"id": TENANTS[0]})).await;
    assert_eq!(status.as_u16(), 409, "{problem}");
    neighbours_are_whole(&cluster, &keys).await;

    // Nothing comes back after the loss of all processes.
    cluster.kill_nodes();
    cluster.start_nodes();
    operator.replicas_agree().await;
    neighbours_are_whole(&cluster, &keys).await;
    assert_eq!(holding(&nodes, MARKS[0].as_bytes()), Vec::<String>::new());
    assert_eq!(operator.get(&path(TENANTS[0])).await.1["status"], "done");
    assert!(second.terminate().success());
    cluster.stop_nodes();
}
