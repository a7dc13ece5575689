//! The `holdfast` program.

mod client;
mod dev;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A replicated, sharded memory database for AI agents.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole cluster, three nodes and a router, in this process on loopback
    Dev(dev::DevArgs),
    /// Import memories from a JSON Lines or LoCoMo file
    Import(client::import::ImportArgs),
    /// Recall what matters for a question
    Recall(client::recall::RecallArgs),
    /// Measure quality and speed
    Bench(holdfast_bench::BenchArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // openraft reports every failed call to a peer as an error; what matters of it is reported by us.
    let filter = tracing_subscriber::EnvFilter::try_from_env("HOLDFAST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,openraft=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("holdfast: the runtime does not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Dev(args) => dev::run(args).await,
            Command::Import(args) => client::import::run(args).await,
            Command::Recall(args) => client::recall::run(args).await,
            Command::Bench(args) => holdfast_bench::run(args).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::from(client::exit_code(&error))
        }
    }
}
