//! `holdfast ctl`: what operators do to a cluster.

mod certs;
mod drain;
mod init;
mod tune;
mod verify;

use crate::client::print;
use anyhow::Result;
use clap::Subcommand;
use holdfast_core::access::Rights;

pub(crate) use verify::VerifyError;

/// The tenant that a cluster starts with.
const TENANT: &str = "default";

/// `holdfast ctl`
#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Found a cluster from new nodes: once, and never a second time
    Init(init::InitArgs),
    /// Take a node or router out of service before it is stopped
    Drain(drain::DrainArgs),
    /// Compare all replicas with each other, their rows with the hash kept over them, and the index with the rows
    Verify(verify::VerifyArgs),
    /// Find weights of the score that suit your own questions, by the memories that answer them
    Tune(tune::TuneArgs),
    /// Make a CA and certificates for nodes, routers and operators; asks no server
    Certs(certs::CertsArgs),
    /// Print a new random API key, to be used with `ctl init --key-file`; asks no server
    NewKey,
}

/// Runs the command.
pub(crate) async fn run(command: CtlCommand) -> Result<()> {
    match command {
        CtlCommand::Init(args) => init::run(args).await,
        CtlCommand::Drain(args) => drain::run(args).await,
        CtlCommand::Verify(args) => verify::run(args).await,
        CtlCommand::Tune(args) => tune::run(args).await,
        CtlCommand::Certs(args) => certs::run(&args),
        CtlCommand::NewKey => {
            let (key, _) = holdfast_router::new_api_key(TENANT, None, Rights::ALL, "", None);
            Ok(print(&format!("{key}\n"))?)
        }
    }
}
