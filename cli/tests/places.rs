//! Folders and addresses of nodes: one process for one folder at one address.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::cluster::{Cluster, Plan};
use common::free_address;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn set(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_on_copies_of_one_folder_one_counts() {
    for plan in [Plan::new(2), Plan::with_tls(2)] {
        let mut cluster = Cluster::start_plan(plan);
        let api = cluster.api();
        api.add("ann", &["before the copy"]).await;
        cluster.nodes[1].take().unwrap().kill();
        let copied = cluster.plan.folder("copy of node-1");
        copy(&cluster.plan.data(1), &copied);
        cluster.restart_node(1);
        cluster.admin_api().replicas_agree().await;
        api.add("ann", &["only the node itself has this"]).await;

        // The copy says that it is node 2, and nobody reaches it: its word must not count.
        let (listen, admin) = (free_address(), free_address());
        let mut over = cluster.plan.tls(&common::tls::Certs::of_node(&cluster.plan.seeds[1]));
        over.extend([
            set("HOLDFAST_NODE__DATA", copied.to_str().unwrap()),
            set("HOLDFAST_NODE__LISTEN", &listen),
            set("HOLDFAST_NODE__ADMIN", &admin),
        ]);
        let mut twin = cluster.plan.start_node_with(1, &over);
        twin.admin = format!("http://{admin}");
        // The others refuse it; or it finds first that the node has promised more than the copy has.
        twin.wait_log_of(&[
            "another process runs as node 2 and is the one at its address",
            "this node has lost what it had promised to keep",
        ]);
        // It may still believe that it leads, for as long as an election would take.
        twin.wait_probe("/readyz", 503).await;
        for n in 0..20 {
            api.add("ann", &[&format!("while the copy runs: {n}")]).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        cluster.admin_api().replicas_agree().await;
        assert_eq!(api.list("ann").await.len(), 22);
        twin.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_stays_with_its_address_unless_the_node_has_moved() {
    let mut cluster = Cluster::start_plan(Plan::with_tls(1));
    let api = cluster.api();
    api.add("ann", &["before the move"]).await;
    cluster.nodes[2].take().unwrap().kill();

    // The folder of the third node under the address of another one, here a new one.
    let (before, after) = (cluster.plan.seeds[2].clone(), free_address());
    let certs = cluster.plan.certs.clone().unwrap();
    assert!(certs.ctl(&["--node", &after]).status.success());
    let seeds = [&cluster.plan.seeds[0], &cluster.plan.seeds[1], &after].map(|seed| format!("{seed:?}"));
    let seeds = set("HOLDFAST_CLUSTER__SEEDS", &format!("[{}]", seeds.join(",")));
    let mut over = certs.variables(&common::tls::Certs::of_node(&after));
    let own = [set("HOLDFAST_NODE__ADVERTISE", &after), set("HOLDFAST_NODE__LISTEN", &after)];
    over.extend(own.into_iter().chain([seeds.clone()]));
    let refused = cluster.plan.start_node_with(2, &over);
    refused.wait_log(&format!("which the others reach at {before}, but node.advertise is {after}"));
    refused.wait_log(&format!("cluster.moved = [\"{before}={after}\"]"));
    assert_eq!(refused.wait_end().code(), Some(1));

    // Moved, and everybody is told.
    let moved = [seeds, set("HOLDFAST_CLUSTER__MOVED", &format!("{before}={after}"))];
    over.extend(moved.clone());
    let mut third = cluster.plan.start_node_with(2, &over);
    for index in [0, 1] {
        assert!(cluster.nodes[index].take().unwrap().terminate().success());
        let name = common::tls::Certs::of_node(&cluster.plan.seeds[index]);
        let over = [cluster.plan.tls(&name), moved.to_vec()].concat();
        let mut node = cluster.plan.start_node_with(index, &over);
        node.wait_line(&format!("ready node={} ", index + 1));
        cluster.nodes[index] = Some(node);
    }
    third.wait_line("ready node=3 ");
    cluster.router.wait_probe("/readyz", 200).await;
    // A router that knows the new address alone.
    assert!(cluster.nodes[0].take().unwrap().terminate().success());
    let only = format!("cluster.seeds={after}");
    let (_router, url) = cluster.plan.start_router(&[&only]);
    assert_eq!(common::Api::new(&url, &cluster.key).list("ann").await.len(), 1);
    common::Api::new(&url, &cluster.key).add("ann", &["after the move"]).await;
}
