//! `holdfast node`: one node of a cluster.

use super::{embedder, start_log, stop_signal};
use crate::client::print;
use crate::config::{Config, ConfigArgs, Role};
use anyhow::{Context, Result};
use clap::Args;
use holdfast_node::admin::{self, Probes};
use holdfast_node::index::{IndexChoice, IndexSettings};
use holdfast_node::process::{Event, Process};
use holdfast_node::raft::LogFiles;
use holdfast_node::{JobEmbedder, NodeConfig};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long open connections to the listener for operators may take to end.
const ADMIN_STOP_MAX: Duration = Duration::from_secs(2);

/// Arguments of `holdfast node`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs until SIGINT or SIGTERM.
pub(crate) async fn run(args: NodeArgs) -> Result<()> {
    let config = args.config.load(Role::Node)?;
    start_log(&config.log)?;
    let security = config.security(Role::Node)?;
    let stop = stop_signal()?;
    let probes = Probes::new(security.registry().cloned());
    // Before the data is opened, so that whoever watches sees it being opened.
    let operators = listen(config.node.admin, "node.admin").await?;
    let listener = listen(config.node.listen, "node.listen").await?;
    let (listen, operators_at) = (listener.local_addr()?, operators.local_addr()?);
    let served = CancellationToken::new();
    let mut admin = tokio::spawn(admin::serve(operators, probes.clone(), served.clone().cancelled_owned()));
    let tell = |event| {
        let line = match event {
            Event::Waiting => format!("waiting for the founding listen={listen} admin={operators_at}\n"),
            Event::Ready(id) => format!("ready node={id} listen={listen} admin={operators_at}\n"),
        };
        if let Err(error) = print(&line) {
            tracing::warn!(%error, "standard output cannot be written");
        }
    };
    let process = Process {
        data: &config.node.data,
        advertise: &config.node.advertise,
        moves: &config.cluster.moves(),
        security: &security,
        probes: &probes,
        stop: &stop,
    };
    let running = process.run(listener, |node| tune(node, &config), tell);
    let ran = tokio::select! {
        ran = running => ran,
        never = security.watch(config.tls.reload_interval()) => match never {},
    };
    served.cancel();
    // Someone who sends half a request must not keep the process alive.
    match tokio::time::timeout(ADMIN_STOP_MAX, &mut admin).await {
        Ok(ended) => {
            ran?;
            Ok(ended?.context("the listener for operators failed")?)
        }
        Err(_) => {
            admin.abort();
            Ok(ran?)
        }
    }
}

fn tune(node: &mut NodeConfig, config: &Config) {
    let section = &config.node;
    node.state_cache_bytes = section.state_cache_bytes;
    node.spaces_bytes = usize::try_from(section.spaces_bytes).unwrap_or(usize::MAX);
    node.index = IndexSettings {
        choice: IndexChoice::Auto,
        graph_from: section.graph_from_vectors,
        lists_from: section.ivf_from_vectors,
        ..IndexSettings::default()
    };
    node.heartbeat = Duration::from_millis(section.heartbeat_ms);
    node.search_threads = section.search_threads;
    node.integrity.compare_every = Duration::from_millis(section.compare_every_ms);
    node.integrity.scrub_bytes_per_second = section.scrub_bytes_per_second;
    node.integrity.verify_bytes_per_second = section.verify_bytes_per_second;
    node.snapshots.log_bytes_min = section.snapshot_log_bytes;
    node.erasure.log_after = Duration::from_millis(section.erase_log_after_ms);
    node.erasure.database_after = Duration::from_millis(section.erase_database_after_ms);
    node.log_files = LogFiles::keeping(section.log_keep_bytes);
    node.embedder = job_embedder(config);
    node.jobs.merge = section.merge_near_duplicates;
}

/// The model for what jobs write, opened when one first needs it. Without it that is found by its words.
fn job_embedder(config: &Config) -> JobEmbedder {
    let section = config.embedder.clone();
    JobEmbedder::opened_by(move || match embedder::open(&section) {
        Ok(None) => {
            tracing::warn!("no embedding model here: what jobs write is found by its words alone");
            None
        }
        Ok(model) => model,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(%error, "the embedding model cannot be used: what jobs write is found by its words alone");
            None
        }
    })
}

async fn listen(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} ({setting})"))
}
