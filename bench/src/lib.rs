//! Load runner, quality benchmarks, and what they share with the command line: the REST client,
//! the readers of import files and the importer.

use anyhow::Result;
use clap::{Args, Subcommand};

pub mod baseline;
pub mod client;
pub mod cluster;
pub mod dev_server;
pub mod factconsolidation;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod fake;
pub mod import;
pub mod load;
pub mod locomo;
pub mod precisionmem;
pub mod recall;
pub mod target;

/// Arguments of `holdfast bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare with a flat store on a generated workload, beside the published figures
    Baseline(baseline::BaselineArgs),
    /// Measure durable writes and failovers of a cluster of processes, beside etcd
    Cluster(cluster::ClusterArgs),
    /// Measure the processor time of a cluster that does nothing
    Idle(cluster::idle::IdleArgs),
    /// Measure on a FactConsolidation file whether current facts come first and stale ones stay away
    #[command(name = "factconsolidation")]
    FactConsolidation(factconsolidation::FactConsolidationArgs),
    /// Put a running server under load
    Load(load::LoadArgs),
    /// Measure evidence recall on a LoCoMo file
    Locomo(locomo::LocomoArgs),
    /// Print some questions of a LoCoMo file as JSON Lines
    LocomoQuestions(locomo::QuestionsArgs),
    /// Measure on PrecisionMemBench whether the right belief comes, and that one alone
    #[command(name = "precisionmem")]
    PrecisionMem(precisionmem::PrecisionMemArgs),
    /// Measure recalls of a cluster of processes: throughput, latency, processor time, true recall
    Recall(recall::RecallArgs),
}

/// Runs the benchmark that the arguments name.
///
/// # Errors
/// What the benchmark reports; a [`client::ClientError`] in the chain tells the exit code.
pub async fn run(args: BenchArgs) -> Result<()> {
    match args.command {
        BenchCommand::Baseline(args) => baseline::run(&args).await,
        BenchCommand::Cluster(args) => cluster::run(&args).await,
        BenchCommand::Idle(args) => cluster::idle::run(&args).await,
        BenchCommand::FactConsolidation(args) => factconsolidation::run(&args).await,
        BenchCommand::Load(args) => load::run_command(&args).await,
        BenchCommand::Locomo(args) => locomo::run(&args).await,
        BenchCommand::LocomoQuestions(args) => args.run(),
        BenchCommand::PrecisionMem(args) => precisionmem::run(&args).await,
        BenchCommand::Recall(args) => recall::run(&args).await,
    }
}
