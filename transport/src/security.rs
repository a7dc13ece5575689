use crate::files::{Fault, TlsFiles};
use crate::identity::Identity;
use crate::material::{Material, Wanted};
use crate::metrics::TlsMetrics;
use crate::quiet::Quiet;
use parking_lot::RwLock;
use prometheus::Registry;
use std::fmt;
use std::sync::Arc;

/// How a process talks to the others of its cluster. Cheap to clone.
#[derive(Clone, Default)]
pub struct Security {
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) quiet: Arc<Quiet>,
}

pub(crate) struct Tls {
    pub(crate) files: TlsFiles,
    pub(crate) wanted: Wanted,
    pub(crate) metrics: TlsMetrics,
    current: RwLock<Arc<Material>>,
}

impl Security {
    /// Without encryption, and with nobody's word proved.
    pub fn plain() -> Self {
        Self::default()
    }

    /// With the certificates and the key in these files, which must name who is wanted.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn tls(files: TlsFiles, wanted: Wanted) -> Result<Self, Vec<Fault>> {
        let material = Material::load(&files, &wanted)?;
        let metrics = TlsMetrics::new().map_err(|error| {
            vec![files.fault(crate::files::Part::Cert, format!("its metrics are defined wrongly: {error}"))]
        })?;
        metrics.in_use(&material);
        let current = RwLock::new(Arc::new(material));
        Ok(Self { tls: Some(Arc::new(Tls { files, wanted, metrics, current })), quiet: Arc::default() })
    }

    /// Whether nothing is encrypted and nobody proves who he is.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Whom the certificate in use names; nobody without TLS.
    pub fn identity(&self) -> Option<Identity> {
        self.tls.as_ref().map(|tls| tls.current().identity().clone())
    }

    /// What TLS measures; nothing without it.
    pub fn registry(&self) -> Option<&Registry> {
        self.tls.as_ref().map(|tls| &tls.metrics.registry)
    }

    /// Logs a warning unless it was logged just now.
    pub(crate) fn warn(&self, message: &str) {
        if let Some(left_out) = self.quiet.tell(message) {
            tracing::warn!(left_out, "{message}");
        }
    }
}

impl Tls {
    pub(crate) fn current(&self) -> Arc<Material> {
        Arc::clone(&self.current.read())
    }

    pub(crate) fn replace(&self, material: Material) {
        self.metrics.in_use(&material);
        self.metrics.taken();
        *self.current.write() = Arc::new(material);
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tls {
            Some(tls) => write!(f, "Security({:?})", tls.files),
            None => f.write_str("Security(plain)"),
        }
    }
}
