use crate::material::Material;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// What the TLS of a process measures, for Prometheus.
pub(crate) struct TlsMetrics {
    pub(crate) registry: Registry,
    expiry: IntGaugeVec,
    reloads: IntCounterVec,
    refused_files: IntGauge,
    refused_connections: IntCounterVec,
}

/// Why a listener turned a connection away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It does not speak TLS.
    Plain,
    /// Its certificate is not believed, or it believes ours not.
    Certificate,
    /// Anything else.
    Handshake,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Certificate => "certificate",
            Self::Handshake => "handshake",
        }
    }
}

impl TlsMetrics {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let metrics = Self {
            registry: Registry::new(),
            expiry: IntGaugeVec::new(
                Opts::new(
                    "holdfast_tls_certificate_expiry_timestamp_seconds",
                    "When the certificate of this process and its CA expire, in seconds since 1970.",
                ),
                &["certificate"],
            )?,
            reloads: IntCounterVec::new(
                Opts::new("holdfast_tls_reloads_total", "Changed files, by what became of them."),
                &["result"],
            )?,
            refused_files: IntGauge::new(
                "holdfast_tls_files_refused",
                "1 while the files on disk cannot be used and earlier ones are in use, else 0.",
            )?,
            refused_connections: IntCounterVec::new(
                Opts::new("holdfast_tls_connections_refused_total", "Connections turned away, by reason."),
                &["reason"],
            )?,
        };
        for result in ["taken", "refused"] {
            metrics.reloads.with_label_values(&[result]);
        }
        for reason in [Reason::Plain, Reason::Certificate, Reason::Handshake] {
            metrics.refused_connections.with_label_values(&[reason.name()]);
        }
        metrics.registry.register(Box::new(metrics.expiry.clone()))?;
        metrics.registry.register(Box::new(metrics.reloads.clone()))?;
        metrics.registry.register(Box::new(metrics.refused_files.clone()))?;
        metrics.registry.register(Box::new(metrics.refused_connections.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn in_use(&self, material: &Material) {
        self.expiry.with_label_values(&["own"]).set(material.expires_s());
        self.expiry.with_label_values(&["ca"]).set(material.ca_expires_s());
        self.refused_files.set(0);
    }

    pub(crate) fn taken(&self) {
        self.reloads.with_label_values(&["taken"]).inc();
    }

    pub(crate) fn refused_files(&self) {
        self.reloads.with_label_values(&["refused"]).inc();
        self.refused_files.set(1);
    }

    pub(crate) fn refused_connection(&self, reason: Reason) {
        self.refused_connections.with_label_values(&[reason.name()]).inc();
    }
}
