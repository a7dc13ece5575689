//! The configuration of `holdfast node` and `holdfast router`: a TOML file, the environment, flags.

mod address;
mod catalogue;
mod checks;
mod cluster;
mod embedder;
mod environment;
mod file;
mod flags;
mod layer;
mod log;
mod node;
mod print;
mod problems;
mod reference;
mod router;
#[cfg(test)]
mod tests;
mod tls;
mod unknown;
mod value;

pub(crate) use cluster::ClusterSection;
pub(crate) use embedder::EmbedderSection;
pub(crate) use log::{LogFormat, LogSection};
pub(crate) use node::NodeSection;
pub(crate) use router::RouterSection;
pub(crate) use tls::TlsSection;

use clap::{Args, Subcommand, ValueEnum};
use figment::Figment;
use figment::providers::Serialized;
use holdfast_bench::client::ClientError;
use problems::Problems;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// All settings. A node and a router may share one file: each reads its sections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) cluster: ClusterSection,
    pub(crate) node: NodeSection,
    pub(crate) router: RouterSection,
    pub(crate) embedder: EmbedderSection,
    pub(crate) tls: TlsSection,
    pub(crate) log: LogSection,
}

/// Which process a configuration is for: it decides which settings must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// `holdfast node`
    Node,
    /// `holdfast router`
    Router,
    /// `holdfast ctl init`
    Operator,
    /// Nodes and routers
    All,
    /// No process: nothing must be set
    #[value(skip)]
    Nobody,
}

/// Where settings come from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SourceArgs {
    /// Configuration file (TOML); `holdfast config reference` lists the settings
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set one value, over file and environment: section.key=value; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl SourceArgs {
    /// Reads file, environment and flags, and checks the result for `role`.
    ///
    /// # Errors
    /// [`ClientError::Usage`] with everything that is wrong.
    pub(crate) fn load(&self, role: Role) -> anyhow::Result<Config> {
        Ok(self.read(role, std::env::vars_os())?.0)
    }

    /// What the processes of the cluster must agree on, whoever reads it: the settings of no process
    /// in particular are asked for.
    ///
    /// # Errors
    /// [`ClientError::Usage`] with everything that is wrong.
    pub(crate) fn load_cluster(&self) -> anyhow::Result<ClusterSection> {
        Ok(self.read(Role::Nobody, std::env::vars_os())?.0.cluster)
    }

    /// The model that texts are embedded with, for a process that has no role of the others: settings of other
    /// sections in the environment are none of its business.
    ///
    /// # Errors
    /// [`ClientError::Usage`] with everything that is wrong.
    pub(crate) fn load_embedder(&self) -> anyhow::Result<EmbedderSection> {
        let ours = |name: &OsString| name.to_string_lossy().starts_with("HOLDFAST_EMBEDDER__");
        Ok(self.read(Role::Nobody, std::env::vars_os().filter(|(name, _)| ours(name)))?.0.embedder)
    }

    /// The configuration, and where its values come from.
    fn read(
        &self,
        role: Role,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(Config, Figment), ClientError> {
        let mut problems = Problems::default();
        let mut figment = Figment::from(Serialized::defaults(Config::default()));
        if let Some(path) = &self.config {
            figment = figment.merge(file::read(path, &mut problems));
        }
        let variables: Vec<_> = variables.collect();
        let log = variables.iter().find(|(name, _)| name == environment::LOG).map(|(_, text)| text.clone());
        figment = figment.merge(environment::read(variables.into_iter(), &mut problems));
        figment = figment.merge(flags::read(&self.set, &mut problems));
        figment = figment.merge(environment::read_log(log, &mut problems));
        // What is left fits the types: each value was checked against its setting.
        let config = figment.extract().map_err(|error| ClientError::Usage(error.to_string()))?;
        checks::run(&config, role, &figment, &mut problems);
        if problems.is_empty() { Ok((config, figment)) } else { Err(problems.into()) }
    }
}

/// The flags of `holdfast node` and `holdfast router` about the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    /// Print the settings in effect, and where each comes from, and exit
    #[arg(long)]
    pub(crate) print_config: bool,
}

impl ConfigArgs {
    /// Reads file, environment and flags, and checks the result for `role`. With `--print-config`
    /// prints it and ends the process, as `--help` does: nothing is open yet.
    ///
    /// # Errors
    /// [`ClientError::Usage`] with everything that is wrong; or standard output does not take it.
    pub(crate) fn load(&self, role: Role) -> anyhow::Result<Config> {
        let (config, figment) = self.sources.read(role, std::env::vars_os())?;
        if self.print_config {
            crate::client::print(&print::to_toml(&config, &figment)?)?;
            std::process::exit(0);
        }
        Ok(config)
    }
}

/// `holdfast config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration as `holdfast node` or `holdfast router` would
    Check {
        #[command(flatten)]
        sources: SourceArgs,
        /// Which process the configuration is for
        #[arg(long, value_enum)]
        role: Role,
    },
    /// Print the reference of all settings as Markdown
    Reference,
}

/// Runs `holdfast config`.
///
/// # Errors
/// [`ClientError::Usage`] with everything that is wrong with the configuration.
pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Check { sources, role } => {
            sources.load(*role)?;
            crate::client::print("ok\n")?;
        }
        ConfigCommand::Reference => crate::client::print(&reference::markdown())?,
    }
    Ok(())
}
