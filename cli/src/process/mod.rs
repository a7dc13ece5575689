//! `holdfast node` and `holdfast router`: the processes of a cluster.

pub(crate) mod embedder;
pub(crate) mod node;
pub(crate) mod router;

use crate::config::{LogFormat, LogSection};
use anyhow::{Context, Result};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Time between two looks whether the process is ready.
const READY_PAUSE: Duration = Duration::from_millis(50);

/// Starts the log of a process.
pub(crate) fn start_log(section: &LogSection) -> Result<()> {
    let mut filter = EnvFilter::try_new(&section.filter).context("the log filter cannot be used")?;
    // Below that the client of embedding services writes out requests, with their key and texts.
    for quiet in ["ureq=info", "ureq_proto=info"] {
        filter = filter.add_directive(quiet.parse().context("a directive of the log filter")?);
    }
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match section.format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("the log does not start: {error}"))
}

/// Cancelled by the first SIGTERM or SIGINT.
fn stop_signal() -> Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stopped.cancel();
    });
    Ok(stop)
}
