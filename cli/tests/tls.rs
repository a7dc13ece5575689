//! Certificates between nodes, routers and operators: who is let in, who is not, and that the others
//! do not notice.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::cluster::{Cluster, Plan, Process, program};
use common::free_address;
use common::load::Load;
use common::tls::{Certs, joined, replace};
use holdfast_proto::v1::founding_client::FoundingClient;
use holdfast_proto::v1::node_client::NodeClient;
use holdfast_proto::v1::raft_client::RaftClient;
use holdfast_proto::v1::{self, RaftKind, RaftRequest};
use holdfast_transport::{Security, TlsFiles, Wanted};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};
use tonic::Code;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn failed(output: &Output, code: i32, words: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "no {words:?} in {said}");
}

/// A value of a metric of one process.
async fn metric(process: &Process, series: &str) -> i64 {
    let (_, metrics) = process.probe("/metrics").await;
    let line = metrics.lines().find(|line| line.starts_with(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in {metrics}")).rsplit(' ').next().unwrap();
    value.parse::<f64>().unwrap() as i64
}

async fn wait_metric(process: &Process, series: &str, at_least: i64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while metric(process, series).await < at_least {
        assert!(Instant::now() < deadline, "{series} stays below {at_least}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_certificates_writes_and_recalls() {
    let mut cluster = Cluster::start_plan(Plan::with_tls(2));
    let api = cluster.api();
    api.add("mei", &["我不吃辣", "My flight is CN-A10293. ✈️"]).await;
    assert_eq!(api.recall("mei", &json!({ "query": "CN-A10293", "top_k": 1 })).await.len(), 1);
    // A node that comes back is let in again, and gets what it missed.
    cluster.nodes[1].take().unwrap().kill();
    api.add("mei", &["while a node was away"]).await;
    cluster.restart_node(1);
    cluster.admin_api().replicas_agree().await;
    let year_s = 365 * 24 * 3600;
    let now_s = jiff::Timestamp::now().as_second();
    for process in cluster.nodes.iter().flatten().chain([&cluster.router]) {
        let expiry = "holdfast_tls_certificate_expiry_timestamp_seconds{certificate=";
        let own = metric(process, &format!("{expiry}\"own\"}}")).await;
        assert!((own - now_s - year_s).abs() < 3600, "{own}");
        assert!(metric(process, &format!("{expiry}\"ca\"}}")).await > own);
        assert_eq!(metric(process, "holdfast_tls_files_refused").await, 0);
        for result in ["taken", "refused"] {
            assert_eq!(
                metric(process, &format!("holdfast_tls_reloads_total{{result=\"{result}\"}}")).await,
                0
            );
        }
    }
    let page = fs::read_to_string(common::repository().join("docs/metrics.md")).unwrap();
    let documented = page.lines().filter_map(|line| line.strip_prefix("| `holdfast_tls_")?.split('`').next());
    let documented: BTreeSet<String> = documented.map(|name| format!("holdfast_tls_{name}")).collect();
    let (_, shown) = cluster.router.probe("/metrics").await;
    let shown = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let shown: BTreeSet<String> =
        shown.filter(|name| name.starts_with("holdfast_tls_")).map(str::to_owned).collect();
    assert_eq!(shown, documented, "shown and documented");
    let again = cluster.plan.init(&["--if-needed"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
}

/// Starts a router that must not come in; what it logs is waited for.
fn stranger(plan: &Plan, variables: &[(String, String)]) -> Process {
    let (http, admin) = (free_address(), free_address());
    let (http, operators) = (format!("router.http={http}"), format!("router.admin={admin}"));
    Process::start(&["router", "--set", &http, "--set", &operators], &plan.config(), variables, &admin)
}

fn off() -> Vec<(String, String)> {
    vec![("HOLDFAST_TLS__MODE".into(), "off".into())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_of_the_cluster_stays_outside() {
    let cluster = Cluster::start_plan(Plan::with_tls(1));
    let (plan, node) = (&cluster.plan, cluster.nodes[0].as_ref().unwrap());
    let certs = plan.certs.as_ref().unwrap();
    let foreign = Certs::make(&plan.folder("foreign"), &plan.seeds);

    // Another CA: neither believes the other.
    let router = stranger(plan, &foreign.variables("router-1"));
    router.wait_log("the certificate was not issued by a CA of tls.ca");
    node.wait_log("127.0.0.1 was turned away: the other side refused the certificate of this process");
    assert_eq!(router.probe("/readyz").await.0, 503);
    // It believes this cluster, but the cluster does not believe it.
    let both = plan.folder("both.pem");
    fs::write(&both, joined(&certs.ca(), &foreign.ca())).unwrap();
    let router = stranger(plan, &foreign.variables_with_ca("router-1", &both));
    router.wait_log("the other side refused the certificate of this process: it was not issued by a CA");
    node.wait_log("was turned away: the certificate was not issued by a CA of tls.ca");
    assert_eq!(router.probe("/readyz").await.0, 503);
    // No TLS at all.
    let router = stranger(plan, &off());
    router.wait_log("this node speaks TLS only: set [tls] of the caller");
    node.wait_log("was turned away: it does not speak TLS, and this node speaks nothing else");
    assert_eq!(router.probe("/readyz").await.0, 503);
    assert!(metric(node, "holdfast_tls_connections_refused_total{reason=\"plain\"}").await > 0);
    assert!(metric(node, "holdfast_tls_connections_refused_total{reason=\"certificate\"}").await > 0);

    // Founding is for operators, and says at once what is wrong.
    let init = |variables: &[(String, String)]| {
        let mut command = program();
        command.envs(variables.iter().cloned()).args(["ctl", "init", "--config"]).arg(plan.config());
        command.output().unwrap()
    };
    failed(&init(&off()), 1, "this node speaks TLS only");
    failed(&init(&foreign.variables("operator-1")), 1, "was not issued by a CA of tls.ca");
    failed(
        &init(&foreign.variables_with_ca("operator-1", &both)),
        1,
        "the other side refused the certificate of this process",
    );
    failed(
        &init(&certs.variables("router-1")),
        2,
        "it names the router \"1\", but the role of this process is operator",
    );

    // Nothing of this did any harm.
    let api = cluster.api();
    api.add("ann", &["all is well"]).await;
    assert_eq!(api.list("ann").await.len(), 1);
    cluster.admin_api().replicas_agree().await;
}

#[test]
fn a_process_does_not_start_with_a_certificate_that_is_not_its_own() {
    let plan = Plan::with_tls(1);
    let certs = plan.certs.as_ref().unwrap();
    let (own, other) = (Certs::of_node(&plan.seeds[0]), Certs::of_node(&plan.seeds[1]));
    let run = |args: &[&str], variables: &[(String, String)]| {
        let mut command = program();
        command.envs(plan.of_node(0)).envs(variables.iter().cloned()).args(args).arg("--config");
        command.arg(plan.config()).output().unwrap()
    };
    let check = ["config", "check", "--role", "node"];
    let fine = run(&check, &certs.variables(&own));
    assert!(fine.status.success(), "{}", text(&fine.stderr));
    for (args, name, words) in [
        (
            &["node"][..],
            other.as_str(),
            "to the cluster; it needs the alternative name (URI) holdfast-node://",
        ),
        (&check, other.as_str(), "it names the node"),
        (&["node"], "router-1", "it names the router \"1\", but the role of this process is node"),
        (&["router"], own.as_str(), "but the role of this process is router"),
        (&["config", "check", "--role", "router"], "operator-1", "but the role of this process is router"),
        (&["config", "check", "--role", "operator"], "router-1", "but the role of this process is operator"),
        (&["node"], "nobody", "nobody.pem: there is no such file"),
    ] {
        failed(&run(args, &certs.variables(name)), 2, words);
    }
    let mut mixed = certs.variables(&own);
    mixed[3].1 = certs.key(&other).to_str().unwrap().to_owned();
    let done = run(&check, &mixed);
    failed(&done, 2, "environment variable HOLDFAST_TLS__KEY: ");
    failed(&done, 2, "does not fit the certificate in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_against_a_plain_cluster_says_so() {
    let cluster = Cluster::start(1);
    let certs = Certs::make(&cluster.plan.folder("certs"), &cluster.plan.seeds);
    let router = stranger(&cluster.plan, &certs.variables("router-1"));
    router.wait_log("it does not speak TLS; its tls.mode is off");
    cluster.nodes[0]
        .as_ref()
        .unwrap()
        .wait_log("was turned away: it speaks TLS, and tls.mode of this node is off");
    assert_eq!(router.probe("/readyz").await.0, 503);
    cluster.api().add("ann", &["all is well"]).await;
}

/// What a process with this certificate would call with.
fn security(certs: &Certs, name: &str) -> Security {
    let files = TlsFiles { ca: certs.ca(), cert: certs.cert(name), key: certs.key(name) };
    Security::tls(files, Wanted::Anybody).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_count_only_from_whom_they_say_they_are() {
    let cluster = Cluster::start_plan(Plan::with_tls(1));
    let plan = &cluster.plan;
    let certs = plan.certs.as_ref().unwrap();
    let (of_second, of_third) = (Certs::of_node(&plan.seeds[1]), Certs::of_node(&plan.seeds[2]));
    let cluster_id = {
        let found = plan.init(&["--if-needed", "--key-file", plan.key_file().to_str().unwrap()]);
        text(&found.stdout).split_whitespace().nth(1).unwrap().to_owned()
    };
    let hello = |name: &str, from, to, cluster: &str| {
        let channel = security(certs, name).channel(&plan.seeds[0], |endpoint| endpoint).unwrap();
        let cluster_id = cluster.to_owned();
        let kind = RaftKind::Hello.into();
        let request = RaftRequest { group: 0, from, to, cluster_id, kind, payload: Vec::new(), run: 1 };
        async move { RaftClient::new(channel).call(request).await }
    };
    let answer = hello(&of_second, 2, 1, &cluster_id).await.unwrap();
    assert_ne!(answer.get_ref().run, 0);
    for (name, from, to, cluster, code, words) in [
        (&of_third, 2, 1, cluster_id.as_str(), Code::FailedPrecondition, "by its certificate"),
        (&of_second, 3, 1, &cluster_id, Code::FailedPrecondition, "by its certificate"),
        (&of_second, 4, 1, &cluster_id, Code::FailedPrecondition, "there is no node 4 here"),
        (&of_second, 1, 1, &cluster_id, Code::FailedPrecondition, "two nodes have the id 1"),
        (&of_second, 2, 3, &cluster_id, Code::FailedPrecondition, "this is node 1, not node 3"),
        (&of_second, 2, 1, "another", Code::FailedPrecondition, "this node belongs to cluster"),
        (&"router-1".to_owned(), 2, 1, &cluster_id, Code::PermissionDenied, "is for the role node"),
        (&"operator-1".to_owned(), 2, 1, &cluster_id, Code::PermissionDenied, "is for the role node"),
    ] {
        let status = hello(name, from, to, cluster).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(words), "{words}: {status}");
    }

    // And every other call is for its callers alone.
    let channel = |name| security(certs, name).channel(&plan.seeds[0], |endpoint| endpoint).unwrap();
    for name in [of_second.as_str(), "operator-1"] {
        let write = NodeClient::new(channel(name)).write(v1::WriteRequest::default()).await;
        assert_eq!(write.unwrap_err().code(), Code::PermissionDenied, "{name}");
    }
    for name in [of_second.as_str(), "router-1"] {
        let founding = FoundingClient::new(channel(name)).describe(v1::DescribeRequest {}).await;
        assert_eq!(founding.unwrap_err().code(), Code::PermissionDenied, "{name}");
    }
    for name in ["router-1", "operator-1"] {
        assert!(
            NodeClient::new(channel(name)).topology(v1::TopologyRequest::default()).await.is_ok(),
            "{name}"
        );
    }
    cluster.api().add("ann", &["all is well"]).await;
}

const TAKEN: &str = "holdfast_tls_reloads_total{result=\"taken\"}";

/// How often each process has taken changed files.
async fn taken(cluster: &Cluster) -> Vec<i64> {
    let mut taken = Vec::new();
    for process in cluster.nodes.iter().flatten().chain([&cluster.router]) {
        taken.push(metric(process, TAKEN).await);
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_ca_takes_the_place_of_another_under_load() {
    let mut cluster = Cluster::start_plan(Plan::with_tls(4));
    let certs = cluster.plan.certs.clone().unwrap();
    let next = Certs::make(&cluster.plan.folder("next"), &cluster.plan.seeds);
    let mut names: Vec<String> = cluster.plan.seeds.iter().map(|seed| Certs::of_node(seed)).collect();
    names.extend(["router-1".to_owned(), "operator-1".to_owned()]);
    let api = cluster.api();
    let mut load = Load::default();
    for step in 1..=3 {
        let before = taken(&cluster).await;
        match step {
            // Both CAs are believed everywhere before the first certificate of the new one is shown.
            1 => replace(&certs.ca(), &joined(&certs.ca(), &next.ca())),
            2 => {
                for name in &names {
                    replace(&certs.key(name), &fs::read(next.key(name)).unwrap());
                    replace(&certs.cert(name), &fs::read(next.cert(name)).unwrap());
                }
            }
            _ => replace(&certs.ca(), &fs::read(next.ca()).unwrap()),
        }
        let written = load.next;
        load.run(&api, Duration::from_secs(2), || ()).await;
        assert!(load.is_whole(), "a write was not acknowledged in step {step}");
        assert_ne!(load.next, written);
        for (process, before) in cluster.nodes.iter().flatten().chain([&cluster.router]).zip(before) {
            wait_metric(process, TAKEN, before + 1).await;
        }
        // Whoever comes back is known by the new files.
        let index = step - 1;
        cluster.nodes[index].take().unwrap().kill();
        cluster.restart_node(index);
        cluster.router.wait_probe("/readyz", 200).await;
        cluster.admin_api().replicas_agree().await;
    }
    let (second, url) = cluster.plan.start_router(&[]);
    load.check(&common::Api::new(&url, &cluster.key)).await;
    assert!(second.terminate().success());

    // A broken file is told of and not taken; who has it already goes on with the old one.
    let name = &names[1];
    let good = fs::read(certs.cert(name)).unwrap();
    replace(&certs.cert(name), b"-----BEGIN CERTIFICATE-----\nbroken");
    let node = cluster.nodes[1].as_ref().unwrap();
    wait_metric(node, "holdfast_tls_reloads_total{result=\"refused\"}", 1).await;
    node.wait_log("the changed TLS files are refused, the old ones stay in use: tls.cert:");
    assert_eq!(metric(node, "holdfast_tls_files_refused").await, 1);
    load.run(&api, Duration::from_millis(500), || ()).await;
    assert!(load.is_whole());
    replace(&certs.cert(name), &good);
    let deadline = Instant::now() + Duration::from_secs(60);
    while metric(node, "holdfast_tls_files_refused").await == 1 {
        assert!(Instant::now() < deadline, "the old file was put back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    load.check(&api).await;
}
