//! What a benchmark on a data file runs against, and where its report goes.

use crate::dev_server::DevServer;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// How long a server that a benchmark starts may take until it serves.
const START_MAX: Duration = Duration::from_secs(180);

/// Which server is measured.
#[derive(Debug, Clone, Default, Args)]
pub struct TargetArgs {
    /// A running server; without it one is started and stopped again
    #[arg(long, env = "HOLDFAST_URL", requires = "key")]
    pub(crate) url: Option<String>,
    /// API key of the running server
    #[arg(long, env = "HOLDFAST_API_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
}

impl TargetArgs {
    /// Measures the server that is named, or one that runs for as long as the measurement. Where that
    /// fails, the log of the latter is shown.
    ///
    /// # Errors
    /// Those of the measurement, or if no server can be started.
    pub(crate) async fn measure<T>(
        &self,
        measurement: impl AsyncFnOnce(&str, &str) -> Result<T>,
    ) -> Result<T> {
        if let (Some(url), Some(key)) = (&self.url, &self.key) {
            return measurement(url, key).await;
        }
        let server = DevServer::start(START_MAX).await?;
        let measured = measurement(&server.url, &server.key).await;
        if measured.is_err() {
            eprintln!("{}", server.log());
        }
        server.stop().await;
        measured
    }
}

/// Reads a data file.
///
/// # Errors
/// If it cannot be read, naming it.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a report as JSON, where that is asked for.
///
/// # Errors
/// If the file cannot be written, naming it.
pub(crate) fn write_json(path: Option<&Path>, report: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let json = serde_json::to_string_pretty(report)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}
