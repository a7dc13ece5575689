//! Nodes and routers as processes of their own: founding, ids, probes, drain.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::cluster::{Cluster, Plan, program};
use common::{Api, free_address};
use reqwest::StatusCode;
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_founded_once_and_serves() {
    let cluster = Cluster::start(3);
    let api = cluster.api();
    api.add("mei", &["我不吃辣", "My flight is CN-A10293. ✈️"]).await;
    assert_eq!(api.recall("mei", &json!({ "query": "CN-A10293", "top_k": 1 })).await.len(), 1);
    cluster.admin_api().replicas_agree().await;
    let mode = std::fs::metadata(cluster.plan.key_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the key is for its owner alone");

    // Not a second time, and what exists stays as it is.
    let again = cluster.plan.init(&[]);
    assert_eq!(code(&again), 1, "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("already_exists"), "{}", text(&again.stderr));
    let useless = text(&again.stdout);
    let useless = useless.lines().find_map(|line| line.strip_prefix("key=")).unwrap();
    let (status, _) = Api::new(&cluster.url, useless).get("/v1/users/mei/memories").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "the key of a refused founding is worth nothing");
    let needed = cluster.plan.init(&["--if-needed", "--key-file", cluster.plan.key_file().to_str().unwrap()]);
    assert_eq!(code(&needed), 0);
    assert!(text(&needed.stdout).contains("this key is valid there"), "{}", text(&needed.stdout));
    assert_eq!(api.list("mei").await.len(), 2);

    for (id, node) in (1..).zip(cluster.nodes.iter().flatten()) {
        for probe in ["/startupz", "/healthz", "/readyz"] {
            assert_eq!(node.probe(probe).await.0, 200, "{probe}");
        }
        let (_, metrics) = node.probe("/metrics").await;
        let groups = metrics.lines().find(|line| line.starts_with("holdfast_raft_groups{")).unwrap();
        assert!(groups.contains(&format!("node=\"{id}\"")), "{groups}");
    }
    let (status, metrics) = cluster.router.probe("/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("holdfast_router_requests_total") && !metrics.contains("node=\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_keeps_its_id_and_what_was_acknowledged() {
    let mut cluster = Cluster::start(3);
    let api = cluster.api();
    let users: Vec<String> = (0..12).map(|n| format!("user-{n}")).collect();
    for (round, index) in [0, 1, 2].into_iter().enumerate() {
        cluster.nodes[index].take().unwrap().kill();
        for user in &users {
            api.add(user, &[&format!("written in round {round}")]).await;
        }
        cluster.restart_node(index);
        cluster.admin_api().replicas_agree().await;
    }
    for user in &users {
        assert_eq!(api.list(user).await.len(), 3);
    }
    // Another router knows nothing but the seeds, one of which is away.
    cluster.nodes[0].take().unwrap().kill();
    let (second, url) = cluster.plan.start_router(&[]);
    assert_eq!(Api::new(&url, &cluster.key).list(&users[0]).await.len(), 3);
    assert!(second.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_tell_loss_of_quorum_from_death() {
    let mut cluster = Cluster::start(2);
    cluster.nodes[1].take().unwrap().kill();
    cluster.nodes[2].take().unwrap().kill();
    let left = cluster.nodes[0].as_ref().unwrap();
    let body = left.wait_probe("/readyz", 503).await;
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["phase"], "running", "{body}");
    assert!(answer["groups_without_leader"].as_u64().unwrap() > 0, "{body}");
    assert_eq!(left.probe("/healthz").await.0, 200, "a restart would not bring the others back");
    assert_eq!(left.probe("/startupz").await.0, 200);
    cluster.router.wait_probe("/readyz", 503).await;
    assert_eq!(cluster.router.probe("/healthz").await.0, 200);
    cluster.restart_node(1);
    cluster.router.wait_probe("/readyz", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_shows_before_it_refuses() {
    let mut cluster = Cluster::start(1);
    let (router, url) = cluster.plan.start_router(&["router.drain_delay_ms=1500"]);
    let api = Api::new(&url, &cluster.key);
    api.add("ann", &["before"]).await;
    router.signal("-TERM");
    router.wait_probe("/readyz", 503).await;
    // Not ready any more, but whoever still comes is served.
    api.add("ann", &["while it drains"]).await;
    assert!(router.terminate().success());
    assert!(reqwest::get(format!("{url}/healthz")).await.is_err());

    // The hook of a supervisor asks for the drain first.
    let node = cluster.nodes[2].take().unwrap();
    let drained = program().args(["ctl", "drain", "--admin", &node.admin]).output().unwrap();
    assert_eq!((code(&drained), text(&drained.stdout).as_str()), (0, "drained\n"));
    let (status, body) = node.probe("/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("\"draining\":true"), "{body}");
    assert_eq!(node.probe("/healthz").await.0, 200);
    assert!(node.terminate().success(), "SIGTERM is an orderly end");
    let drained = program().args(["ctl", "drain", "--admin", &cluster.router.admin]).output().unwrap();
    assert_eq!(code(&drained), 0, "{}", text(&drained.stderr));
    assert_eq!(cluster.router.probe("/readyz").await.0, 503);
    assert_eq!(cluster.api().list("ann").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_founded_says_why() {
    let plan = Plan::new(1);
    let silent = plan.init(&["--timeout", "1"]);
    assert_eq!(code(&silent), 3, "{}", text(&silent.stderr));
    assert!(text(&silent.stderr).contains(&plan.seeds[0]), "{}", text(&silent.stderr));
    let mut nodes: Vec<_> = (0..3).map(|index| plan.start_node(index)).collect();
    for node in &mut nodes {
        node.wait_line("waiting for the founding ");
        assert_eq!(node.probe("/startupz").await.0, 200);
        assert_eq!(node.probe("/healthz").await.0, 200);
        let (status, body) = node.probe("/readyz").await;
        assert_eq!((status, body.contains("waiting for the founding")), (503, true), "{body}");
        assert_eq!(node.probe("/metrics").await.0, 200);
    }
    for tenant in ["", "a\nb", &"长".repeat(100)] {
        let odd = plan.init(&["--tenant", tenant]);
        assert_eq!(code(&odd), 2, "a tenant that no call could name: {}", text(&odd.stdout));
        assert!(text(&odd.stderr).contains("tenant"), "{}", text(&odd.stderr));
    }
    std::fs::write(plan.key_file(), "hf_short_123\n").unwrap();
    let bad_key = plan.init(&["--key-file", plan.key_file().to_str().unwrap()]);
    assert_eq!(code(&bad_key), 2);
    assert!(text(&bad_key.stderr).contains("first.key"), "{}", text(&bad_key.stderr));
    let made = program().args(["ctl", "new-key"]).output().unwrap();
    std::fs::write(plan.key_file(), &made.stdout).unwrap();
    assert_eq!(plan.found(), text(&made.stdout).trim(), "the key in the file is taken");
    for node in nodes {
        node.wait_probe("/readyz", 200).await;
        assert!(node.terminate().success());
    }
    // A node that is stopped while it waits ends in order too, and a second process is refused.
    let other = Plan::new(1);
    let mut first = other.start_node(0);
    first.wait_line("waiting for the founding ");
    let mut half = TcpStream::connect(first.admin.trim_start_matches("http://")).unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    let data = format!("node.data={}", other.data(0).display());
    let (listen, admin) =
        (format!("node.listen={}", free_address()), format!("node.admin={}", free_address()));
    let advertise = format!("node.advertise={}", other.seeds[0]);
    let mut second = program();
    second.args(["node", "--config"]).arg(other.config());
    let second = second.args(["--set", &data, "--set", &listen, "--set", &admin, "--set", &advertise]);
    let second = second.output().unwrap();
    assert_eq!(code(&second), 1);
    assert!(text(&second.stderr).contains("another holdfast uses"), "{}", text(&second.stderr));
    assert!(first.terminate().success(), "half a request keeps nobody");
    drop(half);
}
