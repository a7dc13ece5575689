//! `[tls]`: how the processes of a cluster know each other.

use super::Role;
use super::checks::Checks;
use anyhow::anyhow;
use holdfast_transport::{HostPort, Material, Role as CertificateRole, Security, TlsFiles, Wanted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How nodes, routers and operators know each other: by certificates of one CA, the cluster's own.
/// The files are PEM. A certificate names who has it by a URI among its alternative names:
/// `holdfast-node://host:port` (the node's `advertise`), `holdfast-router://name` or
/// `holdfast-operator://name`; that of a node covers its host as well. `holdfast ctl certs` makes
/// such certificates. Changed files are taken while the process runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsSection {
    /// `on`: every connection between nodes, routers and `holdfast ctl init` is encrypted, and both
    /// ends prove who they are. `off`: neither; whoever reaches a node's port can read and change
    /// everything.
    pub(crate) mode: TlsMode,
    /// The certificates of the CA that everybody's certificate must come from. Several while one CA
    /// takes the place of another.
    #[schemars(with = "String", extend("x-range" = "needed unless `tls.mode` is `off`"))]
    pub(crate) ca: PathBuf,
    /// The certificate of this process, followed by intermediate ones if there are any.
    #[schemars(with = "String", extend("x-range" = "needed unless `tls.mode` is `off`"))]
    pub(crate) cert: PathBuf,
    /// The private key of that certificate. Nobody else should be able to read it.
    #[schemars(with = "String", extend("x-range" = "needed unless `tls.mode` is `off`"))]
    pub(crate) key: PathBuf,
    /// How often the files are looked at. Changed ones are taken at the second look; connections that
    /// exist go on.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub(crate) reload_interval_ms: u64,
}

/// Whether there is TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum TlsMode {
    On,
    Off,
}

impl Default for TlsSection {
    fn default() -> Self {
        let (ca, cert, key) = Default::default();
        Self { mode: TlsMode::On, ca, cert, key, reload_interval_ms: 10_000 }
    }
}

impl TlsSection {
    fn files(&self) -> TlsFiles {
        TlsFiles { ca: self.ca.clone(), cert: self.cert.clone(), key: self.key.clone() }
    }

    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        if self.mode == TlsMode::Off || checks.role() == Role::Nobody {
            return;
        }
        let mut is_complete = true;
        for (path, file) in [("tls.ca", &self.ca), ("tls.cert", &self.cert), ("tls.key", &self.key)] {
            if file.as_os_str().is_empty() {
                is_complete = false;
                let variable = path.replace('.', "__").to_uppercase();
                let message = format!(
                    "must be set: a PEM file (file: {path}, environment: HOLDFAST_{variable}); `holdfast ctl \
                     certs` makes certificates; tls.mode = \"off\" does without them on a network that nobody \
                     else reaches"
                );
                checks.fail(&[path, "tls.mode"], message);
            }
        }
        if !is_complete || !checks.knows(&["tls.mode", "tls.ca", "tls.cert", "tls.key"]) {
            return;
        }
        let wanted = checks.config.wanted(checks.role());
        for fault in Material::load(&self.files(), &wanted).err().unwrap_or_default() {
            checks.fail(&[&format!("tls.{}", fault.part.name())], fault.detail);
        }
    }

    /// How often to look for changed files.
    pub(crate) fn reload_interval(&self) -> Duration {
        Duration::from_millis(self.reload_interval_ms)
    }
}

impl super::Config {
    /// Whom the certificate of such a process must name.
    fn wanted(&self, role: Role) -> Wanted {
        match role {
            Role::Node => match self.node.advertise.parse::<HostPort>() {
                Ok(address) => Wanted::Node(address),
                // That it is none is told elsewhere.
                Err(_) => Wanted::Role(CertificateRole::Node),
            },
            Role::Router => Wanted::Role(CertificateRole::Router),
            Role::Operator => Wanted::Role(CertificateRole::Operator),
            Role::All | Role::Nobody => Wanted::Anybody,
        }
    }

    /// How such a process talks to the others.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub(crate) fn security(&self, role: Role) -> anyhow::Result<Security> {
        if self.tls.mode == TlsMode::Off {
            tracing::warn!(
                "tls.mode is off: whoever reaches the port of a node can read and change everything"
            );
            return Ok(Security::plain());
        }
        Security::tls(self.tls.files(), self.wanted(role)).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            anyhow!("the TLS files cannot be used: {}", faults.join("; "))
        })
    }
}
