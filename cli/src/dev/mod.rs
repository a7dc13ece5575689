//! `holdfast dev`: the embedded default. The same nodes and router as in production, in one
//! process on loopback. Its model can be another one: the settings `[embedder]` are read from the environment.

mod cluster;
mod data;

use crate::config::SourceArgs;
use crate::process::embedder;
use anyhow::{Context, Result};
use clap::Args;
use cluster::{Nodes, TENANT};
use data::{Cluster, DataDir};
use holdfast_bench::client::ClientError;
use holdfast_core::access::{ApiKeyRow, Rights};
use holdfast_models::Embedder;
use holdfast_router::{Router, RouterConfig};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Shards of a development cluster.
const SHARDS: u16 = 8;
/// Nodes of a new cluster, if nothing else is said.
const NODES_DEFAULT: u64 = 3;
/// Most nodes: they share this machine.
const NODES_MAX: u64 = 7;

/// Time between two looks whether the router is ready.
const READY_PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `holdfast dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Folder for the data, which survives restarts
    #[arg(long, default_value = "data/dev", value_name = "DIR")]
    data: PathBuf,
    /// Number of nodes: 1, 3, 5 or 7; fixed at the first start in a folder, where 3 is the default
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,
    /// Address for clients
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "ADDR")]
    http: SocketAddr,
    /// Address for operators: metrics and administration
    #[arg(long, default_value = "127.0.0.1:7701", value_name = "ADDR")]
    admin: SocketAddr,
    /// The first API key, as hf_<id>_<64 hex digits>; one is made where none is given
    #[arg(long, value_name = "KEY", env = "HOLDFAST_DEV_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Keep the data in a temporary folder that is removed at the end
    #[arg(long, conflicts_with = "data")]
    ephemeral: bool,
    /// Write a snapshot file after so many bytes of log, and keep few log files: for tests
    #[arg(long, hide = true, value_name = "BYTES")]
    snapshot_log_bytes: Option<u64>,
    /// Let go of copies of what was erased so many milliseconds after its rows: for tests
    #[arg(long, hide = true, value_name = "MS")]
    erase_after_ms: Option<u64>,
    /// Put the vectors of a space into lists in a file from so many on: for tests
    #[arg(long, hide = true, value_name = "N")]
    ivf_from_vectors: Option<usize>,
    /// Merge memories that are said twice in the same words: for tests
    #[arg(long, hide = true)]
    merge_near_duplicates: bool,
}

/// What tests want otherwise than it is.
#[derive(Debug, Clone, Copy, Default)]
struct Tuning {
    /// After how much log a snapshot file is written.
    snapshot_log_bytes: Option<u64>,
    /// After which time copies of what was erased go.
    erase_after: Option<Duration>,
    /// From how many vectors on a space has them in a file.
    lists_from: Option<usize>,
    /// Whether near-duplicates are merged.
    merges: bool,
}

impl Tuning {
    fn of(args: &DevArgs) -> Self {
        let erase_after = args.erase_after_ms.map(Duration::from_millis);
        let lists_from = args.ivf_from_vectors;
        let merges = args.merge_near_duplicates;
        Self { snapshot_log_bytes: args.snapshot_log_bytes, erase_after, lists_from, merges }
    }
}

/// Runs until SIGINT or SIGTERM.
pub(crate) async fn run(args: DevArgs) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let temporary =
        args.ephemeral.then(|| tempfile::Builder::new().prefix("holdfast-dev-").tempdir()).transpose()?;
    let path = temporary.as_ref().map_or(args.data.as_path(), |dir| dir.path());
    let section = SourceArgs::default().load_embedder()?;
    let dirs = Arc::new(DataDir::take(path)?);
    let cluster = the_cluster(&dirs, &args)?;
    let embedder = tokio::task::spawn_blocking(move || embedder::open(&section)).await??;
    let key_row = key_row(&cluster.key)?;

    let tuning = Tuning::of(&args);
    let nodes = Nodes::start(cluster.clone(), Arc::clone(&dirs), key_row, tuning, embedder.clone()).await?;
    let mut config = RouterConfig::new(args.http, args.admin, nodes.members().to_vec());
    config.dev = Some(nodes.clone());
    config.registries = nodes.registries();
    let router = match Router::bind(config, embedder.clone()).await {
        Ok(router) => router,
        Err(error) => {
            nodes.stop_all().await;
            return Err(error)
                .context("the router does not start; are the addresses free? see --http and --admin");
        }
    };
    let where_data = if args.ephemeral { "a temporary folder".into() } else { path.display().to_string() };
    let (http, admin) = (router.http_addr(), router.admin_addr());
    let serving = router.serve(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    tokio::pin!(serving);
    let served = tokio::select! {
        ended = &mut serving => ended,
        () = until_ready(http) => {
            print_banner(http, admin, &cluster, embedder.as_deref(), &where_data);
            serving.await
        }
    };
    nodes.stop_all().await;
    if let Some(dir) = temporary {
        dir.close().context("the temporary folder cannot be removed")?;
    }
    Ok(served?)
}

/// Asks the router itself until it is ready, so that what the banner shows works at once.
async fn until_ready(http: SocketAddr) {
    let client = reqwest::Client::new();
    loop {
        let answer = client.get(format!("http://{http}/readyz")).timeout(READY_PAUSE * 10).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return;
        }
        tokio::time::sleep(READY_PAUSE).await;
    }
}

/// The call was wrong.
fn usage<T>(detail: impl Into<String>) -> Result<T> {
    Err(ClientError::Usage(detail.into()).into())
}

/// The row of the first key.
fn key_row(key: &str) -> Result<ApiKeyRow> {
    Ok(holdfast_router::api_key_row(key, TENANT, None, Rights::ALL, "first key of holdfast dev", None)?)
}

/// What the folder holds, or a new cluster in it.
fn the_cluster(dirs: &DataDir, args: &DevArgs) -> Result<Cluster> {
    if let Some(cluster) = dirs.cluster()? {
        if args.key.as_ref().is_some_and(|key| *key != cluster.key) {
            return usage(
                "this folder has another first key; make new keys with POST /admin/v1/keys, or use a new folder",
            );
        }
        if args.nodes.is_some_and(|nodes| nodes != cluster.nodes) {
            let held = cluster.nodes;
            return usage(format!(
                "this folder holds a cluster of {held} nodes; that is fixed at the first start"
            ));
        }
        return Ok(cluster);
    }
    let nodes = args.nodes.unwrap_or(NODES_DEFAULT);
    if nodes == 0 || nodes > NODES_MAX || nodes.is_multiple_of(2) {
        return usage("--nodes takes 1, 3, 5 or 7: one more than an odd number tolerates no more failures");
    }
    let key = match &args.key {
        Some(key) => {
            // Before anything is written: a wrong key must not become the folder's.
            key_row(key).or_else(|error| usage(format!("--key: {error}")))?;
            key.clone()
        }
        None => holdfast_router::new_api_key(TENANT, None, Rights::ALL, "first key of holdfast dev", None).0,
    };
    let cluster = Cluster {
        cluster_id: format!("{:032x}", rand::random::<u128>()),
        nodes,
        shards: SHARDS,
        founded: false,
        key,
    };
    dirs.write(&cluster)?;
    Ok(cluster)
}

fn print_banner(
    http: SocketAddr,
    admin: SocketAddr,
    cluster: &Cluster,
    embedder: Option<&dyn Embedder>,
    data: &str,
) {
    let key = &cluster.key;
    let model = embedder.map_or_else(
        || "absent: recall works by keywords alone (run scripts/fetch-model.sh and start again)".to_owned(),
        |embedder| format!("{}, {} dimensions", embedder.model_id(), embedder.dims()),
    );
    println!(
        "Holdfast development cluster: {} nodes, {} shards, one router, in this process\n  \
         data       {data}\n  \
         embedder   {model}\n  \
         clients    http://{http}   (REST; /healthz, /readyz)\n  \
         operators  http://{admin}   (/metrics, /admin/v1)\n\n\
         Try it:\n  \
         curl -s http://{http}/v1/users/ann/memories -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{{\"memories\":[{{\"content\":\"I am allergic to peanuts.\"}},{{\"content\":\"我不吃辣\"}}]}}'\n  \
         curl -s http://{http}/v1/users/ann/recall -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{{\"query\":\"What can the user not eat?\",\"top_k\":3}}'\n  \
         curl -s http://{http}/v1/users/ann/memories -H 'Authorization: Bearer {key}'\n\n\
         Stop with Ctrl-C.\n\
         ready http://{http} key={key}",
        cluster.nodes, cluster.shards,
    );
}
