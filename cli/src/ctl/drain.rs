use crate::client::print;
use anyhow::Result;
use clap::Args;
use holdfast_bench::client::ClientError;
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
    Ok(print("drained\n")?)
}
