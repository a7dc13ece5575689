//! The `holdfast` program.

mod client;
mod config;
mod ctl;
mod dev;
mod process;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;

/// A write allocates and frees many small pieces on several threads; the system's allocator took a
/// sixth of a node's time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long work that nobody waits for any more may take to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

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
    /// Run one node of a cluster
    Node(process::node::NodeArgs),
    /// Run one router of a cluster
    Router(process::router::RouterArgs),
    /// Found a cluster, verify it, drain a node or router, make keys and certificates
    #[command(subcommand)]
    Ctl(ctl::CtlCommand),
    /// Export everything that a user's space holds, as JSON Lines
    Export(client::export::ExportArgs),
    /// Import memories from an export, a JSON Lines or a LoCoMo file
    Import(client::import::ImportArgs),
    /// Recall what matters for a question
    Recall(client::recall::RecallArgs),
    /// Assemble a prompt of what matters, within a token budget
    Context(client::context::ContextArgs),
    /// Check the configuration of nodes and routers, or print its reference
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Measure quality and speed
    Bench(holdfast_bench::BenchArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "sabotage")]
    if let Ok(fault) = std::env::var("HOLDFAST_SABOTAGE") {
        match holdfast_core::sabotage::choose(&fault) {
            Ok(()) => eprintln!("holdfast: sabotaged: {fault}"),
            Err(error) => {
                eprintln!("holdfast: HOLDFAST_SABOTAGE: {error}");
                return ExitCode::from(2);
            }
        }
    }
    // Nodes and routers start theirs when they have read their configuration.
    if !matches!(cli.command, Command::Node(_) | Command::Router(_)) {
        let mut log = config::LogSection::default();
        log.filter = std::env::var("HOLDFAST_LOG").unwrap_or(log.filter);
        if let Err(error) = process::start_log(&log) {
            eprintln!("holdfast: HOLDFAST_LOG: {error:#}");
            return ExitCode::from(2);
        }
    }
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
            Command::Node(args) => process::node::run(args).await,
            Command::Router(args) => process::router::run(args).await,
            Command::Ctl(command) => ctl::run(command).await,
            Command::Export(args) => client::export::run(args).await,
            Command::Import(args) => client::import::run(args).await,
            Command::Recall(args) => client::recall::run(args).await,
            Command::Context(args) => client::context::run(args).await,
            Command::Config(command) => config::run(&command),
            Command::Bench(args) => holdfast_bench::run(args).await,
        }
    });
    // What still waits for a disk that does not answer must not keep the process alive.
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::from(client::exit_code(&error))
        }
    }
}
