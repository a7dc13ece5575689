//! The command: arguments, the two arms one after the other, the output.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use holdfast_models::{Embedder, default_model_dir, open_builtin};

use super::flat::{self, FlatRun};
use super::holdfast::{self, HoldfastRun, Options};
use super::params::{Parameters, Scale};
use super::report;
use super::result::{Earlier, Outcome, Setup};
use super::texts::Phrasings;
use super::tokens::TOKENIZER;
use super::workload::Workload;
use crate::client::{Client, ClientOptions};
use crate::dev_server::DevServer;
use crate::load::Machine;

/// How long a server that this command starts may take until it serves.
const START_MAX: Duration = Duration::from_secs(180);

/// Budgets of the curve.
const BUDGETS: [usize; 7] = [500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000];

/// Arguments of `holdfast bench baseline`.
#[derive(Debug, Args)]
pub struct BaselineArgs {
    /// Seed of the workload
    #[arg(long, default_value_t = 21)]
    seed: u64,
    /// Phrasings of the workload: figures are published for those that no rule was written against
    #[arg(long, value_enum, default_value_t = Phrasings::HeldOut)]
    phrasings: Phrasings,
    /// Size of the workload
    #[arg(long, value_enum, default_value_t = Scale::Full)]
    scale: Scale,
    /// Number of users, instead of the scale's
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    users: Option<u16>,
    /// Most tokens of a context of the holdfast arm; the default is the published mean
    #[arg(long, default_value_t = 2_130, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    budget: u32,
    /// Scoring profile of the holdfast arm; the default is the system's own
    #[arg(long, default_value = "ebbinghaus")]
    profile: String,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as Markdown to this file, and its plot beside it (.svg)
    #[arg(long, value_name = "FILE", conflicts_with = "flat_only")]
    report: Option<PathBuf>,
    /// Show the result of an earlier run with another seed in the report (its JSON); repeatable
    #[arg(long, value_name = "FILE", requires = "report", conflicts_with = "flat_only")]
    also: Vec<PathBuf>,
    /// Run the flat arm alone, without a server: the parameters were fixed by this
    #[arg(long)]
    flat_only: bool,
    /// A running server; without it one is started and stopped again
    #[arg(long, env = "HOLDFAST_URL", requires = "key")]
    url: Option<String>,
    /// API key of the running server
    #[arg(long, env = "HOLDFAST_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Prefix of the users; fresh on a server that is kept
    #[arg(long, default_value = "baseline")]
    user: String,
}

impl BaselineArgs {
    pub(super) async fn run(&self) -> Result<()> {
        // Before the work, so that a typing error costs no run.
        let earlier = self.also.iter().map(read_earlier).collect::<Result<Vec<_>>>()?;
        let parameters = Parameters::FIXED;
        let users = self.users.map_or(self.scale.users(), usize::from);
        let workload = Arc::new(Workload::generate(self.seed, users, self.phrasings, &parameters)?);
        let embedder = embedder()?;
        let setup = Setup {
            seed: self.seed,
            phrasings: self.phrasings,
            scale: self.scale,
            users,
            turns: workload.turns(),
            workload_sha256: workload.sha256()?,
            parameters,
            version: env!("CARGO_PKG_VERSION"),
            tokenizer: TOKENIZER,
            embedder: embedder.model_id().to_owned(),
            budget_tokens: self.budget as usize,
            profile: self.profile.clone(),
            own_cluster: self.url.is_none(),
            machine: Machine::this(),
        };
        eprintln!("flat arm: {} users, {} turns", setup.users, setup.turns);
        // One after the other: neither takes the other's processor time.
        let flat = run_flat(Arc::clone(&workload), embedder, parameters.flat_k).await?;
        let holdfast = if self.flat_only {
            None
        } else {
            eprintln!("holdfast arm");
            Some(self.run_holdfast(&workload).await?)
        };
        let outcome = Outcome::new(setup, &flat, holdfast.as_ref());
        print!("{}", report::table(&outcome));
        for off in outcome.flat.off_the_published() {
            eprintln!("the flat arm is further than 15% from the published baseline: {off}");
        }
        if let Some(path) = &self.json {
            let json = serde_json::to_string_pretty(&outcome)? + "\n";
            std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(path) = &self.report {
            report::write(&outcome, &earlier, path)?;
        }
        let leaks = outcome.flat.leaks + outcome.holdfast.as_ref().map_or(0, |arm| arm.leaks);
        ensure!(leaks == 0, "{leaks} memories of other users were answered");
        Ok(())
    }

    async fn run_holdfast(&self, workload: &Workload) -> Result<HoldfastRun> {
        if let (Some(url), Some(key)) = (&self.url, &self.key) {
            return self.measure(workload, url, key).await;
        }
        let server = DevServer::start(START_MAX).await?;
        let run = self.measure(workload, &server.url, &server.key).await;
        if run.is_err() {
            eprintln!("{}", server.log());
        }
        server.stop().await;
        run
    }

    async fn measure(&self, workload: &Workload, url: &str, key: &str) -> Result<HoldfastRun> {
        let client = Client::new(&ClientOptions::new(url, key))?;
        let options = Options {
            profile: self.profile.clone(),
            budget: self.budget as usize,
            budgets: BUDGETS.to_vec(),
            prefix: self.user.clone(),
        };
        holdfast::run(workload, &client, &options).await
    }
}

async fn run_flat(workload: Arc<Workload>, embedder: Arc<dyn Embedder>, k: usize) -> Result<FlatRun> {
    tokio::task::spawn_blocking(move || flat::run(&workload, embedder.as_ref(), k, &BUDGETS)).await?
}

fn embedder() -> Result<Arc<dyn Embedder>> {
    let folder = default_model_dir()?;
    let found = open_builtin(&folder).context("the embedding model cannot be used")?;
    found.with_context(|| {
        format!("there is no embedding model in {}; run scripts/fetch-model.sh", folder.display())
    })
}

fn read_earlier(path: &PathBuf) -> Result<Earlier> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is no result of a whole run of this benchmark", path.display()))
}
