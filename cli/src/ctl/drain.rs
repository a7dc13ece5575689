use crate::client::print;
use anyhow::{Context, Result};
use clap::Args;
use holdfast_bench::client::ClientError;
use serde::Deserialize;
use std::time::Duration;

/// Arguments of `holdfast ctl drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Address for operators of the node or router, which must run on this machine
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7801")]
    admin: String,
    /// Longest time to wait, in seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// The answer of a node or router.
#[derive(Deserialize)]
struct Drained {
    drained: bool,
    /// Raft groups that a node could hand over to nobody.
    #[serde(default)]
    groups_still_led: usize,
    #[serde(default)]
    still_led: Vec<Kept>,
}

#[derive(Deserialize)]
struct Kept {
    group: u32,
    reason: String,
}

/// Asks for the drain and waits until it is done.
pub(super) async fn run(args: DrainArgs) -> Result<()> {
    let url = format!("{}/admin/v1/drain", args.admin.trim_end_matches('/'));
    let url = reqwest::Url::parse(&url)
        .map_err(|error| ClientError::Usage(format!("--admin {:?} is no URL: {error}", args.admin)))?;
    let client = reqwest::Client::builder().timeout(Duration::from_secs(args.timeout)).build()?;
    let answer = client
        .post(url)
        .send()
        .await
        .map_err(|transport| ClientError::Unreachable { url: args.admin.clone(), transport })?;
    let status = answer.status();
    if !status.is_success() {
        let text = answer.text().await.unwrap_or_default();
        anyhow::bail!("{} refused to drain ({status}): {}", args.admin, text.trim());
    }
    let drained: Drained = answer.json().await.context("the answer is not that of a drain")?;
    if drained.drained {
        return Ok(print("drained\n")?);
    }
    let reason = drained.still_led.first().map(|kept| format!("; group {}: {}", kept.group, kept.reason));
    anyhow::bail!(
        "{} takes no new traffic, but still leads {} groups{}",
        args.admin,
        drained.groups_still_led,
        reason.unwrap_or_default()
    )
}
