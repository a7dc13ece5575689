//! `holdfast router`: one stateless router.

use super::{READY_PAUSE, embedder, start_log, stop_signal};
use crate::client::print;
use crate::config::{ConfigArgs, Role};
use anyhow::{Context, Result};
use clap::Args;
use holdfast_router::Router;

/// Arguments of `holdfast router`.
#[derive(Debug, Args)]
pub(crate) struct RouterArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs until SIGINT or SIGTERM.
pub(crate) async fn run(args: RouterArgs) -> Result<()> {
    let config = args.config.load(Role::Router)?;
    start_log(&config.log)?;
    let stop = stop_signal()?;
    let for_model = config.embedder.clone();
    let embedder = tokio::task::spawn_blocking(move || embedder::open_required(&for_model)).await??;
    let mut settings = config.router_config(Vec::new());
    settings.seeds = config.cluster.seeds.clone();
    let security = config.security(Role::Router)?;
    settings.security = security.clone();
    if let Some(registry) = security.registry() {
        settings.registries.insert("tls", registry.clone());
    }
    let router = Router::bind(settings, embedder).await.context("the router does not start")?;
    let (http, admin, readiness) = (router.http_addr(), router.admin_addr(), router.readiness());
    let serving = router.serve(stop.cancelled_owned());
    tokio::pin!(serving);
    let ready = async {
        while !readiness.is_ready() {
            tokio::time::sleep(READY_PAUSE).await;
        }
    };
    let watching = security.watch(config.tls.reload_interval());
    tokio::pin!(watching);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        never = &mut watching => match never {},
        () = ready => {}
    }
    if let Err(error) = print(&format!("ready http://{http} admin={admin}\n")) {
        tracing::warn!(%error, "nobody reads the ready line");
    }
    tokio::select! {
        ended = serving => Ok(ended?),
        never = watching => match never {},
    }
}
