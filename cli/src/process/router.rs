//! `holdfast router`: one stateless router.

use super::{READY_PAUSE, start_log, stop_signal};
use crate::client::print;
use crate::config::{Config, ConfigArgs, Role};
use anyhow::{Context, Result, bail};
use clap::Args;
use holdfast_models::{Embedder, default_model_dir, open_builtin};
use holdfast_router::Router;
use std::sync::Arc;

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
    let for_model = config.clone();
    let embedder = tokio::task::spawn_blocking(move || open_embedder(&for_model)).await??;
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

/// The built-in model. Running without meaning must be asked for: it would be a silent loss.
fn open_embedder(config: &Config) -> Result<Option<Arc<dyn Embedder>>> {
    let section = &config.embedder;
    let folder = match section.model_dir() {
        Some(folder) => folder.to_owned(),
        None => default_model_dir()?,
    };
    let embedder = open_builtin(&folder)
        .with_context(|| format!("the embedding model in {} cannot be used", folder.display()))?;
    if embedder.is_none() && section.required {
        bail!(
            "no embedding model in {}: fetch it with scripts/fetch-model.sh, set embedder.model_dir, or set \
             embedder.required = false to recall by keywords alone",
            folder.display()
        );
    }
    Ok(embedder)
}
