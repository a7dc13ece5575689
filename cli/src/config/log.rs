//! `[log]`: what the process says on standard error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the process says on standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSection {
    /// What to log: a level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or levels by module,
    /// joined by commas. The variable `HOLDFAST_LOG`, where it is set, wins over file, environment
    /// and flags.
    #[schemars(extend("format" = "log-filter"))]
    pub(crate) filter: String,
    /// How a line looks: `text` for people, `json` for machines.
    pub(crate) format: LogFormat,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Default for LogSection {
    fn default() -> Self {
        // openraft reports every failed call to a peer as an error; what matters is reported by us.
        Self { filter: "warn,openraft=off".to_owned(), format: LogFormat::Text }
    }
}
