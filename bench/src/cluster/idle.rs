//! `holdfast bench idle`: what a cluster costs that does nothing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::holdfast::Cluster;
use crate::load::Machine;

/// Arguments of `holdfast bench idle`.
#[derive(Debug, Args)]
pub struct IdleArgs {
    /// Raft groups of each node, the meta group among them
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(2..=257))]
    groups: u16,
    /// Measured seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Seconds before, in which the groups come to rest
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=600))]
    settle_seconds: u32,
    /// Folder for the data of the nodes; made if it is missing, and what is made in it is removed
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Idle {
    version: &'static str,
    groups: u16,
    seconds: f64,
    /// Processor time of the three nodes together, in per cent of one core.
    core_percent: f64,
    machine: Machine,
}

/// Starts three nodes without a router, lets them rest, and measures their processor time.
///
/// # Errors
/// A node that cannot be started, or a file that cannot be written.
pub async fn run(args: &IdleArgs) -> Result<()> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    let folder = tempfile::Builder::new().prefix("holdfast-bench-").tempdir_in(&args.folder)?;
    let cluster = Cluster::start(folder.path(), args.groups - 1, false).await?;
    tokio::time::sleep(Duration::from_secs(args.settle_seconds.into())).await;
    let (before, begin) = (cluster.cpu()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(args.seconds.into())).await;
    let (spent, elapsed) = (cluster.cpu()?.saturating_sub(before), begin.elapsed());
    cluster.stop().await;
    let idle = Idle {
        version: env!("CARGO_PKG_VERSION"),
        groups: args.groups,
        seconds: elapsed.as_secs_f64(),
        core_percent: 100.0 * spent.as_secs_f64() / elapsed.as_secs_f64(),
        machine: Machine::this(),
    };
    println!(
        "{} idle groups on each of three nodes: {:.2}% of one core together, over {:.0} s",
        idle.groups, idle.core_percent, idle.seconds
    );
    if idle.machine.debug_build {
        println!("built with debug assertions: not for comparison");
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&idle)? + "\n";
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
