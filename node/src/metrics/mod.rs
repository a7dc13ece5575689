//! What a node measures, for Prometheus. Listed for operators in `docs/metrics.md`; a test compares
//! that list with what a cluster under load shows.
//!
//! Events and times are recorded where they happen ([`CallMetrics`] and the others, cheap to
//! clone). What the parts of the node count or know anyway is read when somebody asks: [`scrape`].
//! Labels are bounded: methods, codes, kinds and groups, never tenants, spaces or users.

mod applies;
mod calls;
mod indices;
mod integrity;
mod jobs;
mod reads;
mod recalls;
mod scrape;
mod snapshots;
mod writes;

pub(crate) use applies::ApplyMetrics;
pub(crate) use calls::CallMetrics;
pub(crate) use integrity::{IntegrityMetrics, Mismatch};
pub(crate) use jobs::JobMetrics;
pub(crate) use reads::ReadMetrics;
pub(crate) use recalls::{RecallMetrics, Step};
pub(crate) use scrape::{Scraper, Sources};
pub(crate) use snapshots::SnapshotMetrics;
pub(crate) use writes::{ProposalMetrics, SweepMetrics, WriteMetrics};

use crate::raft::NodeId;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use std::collections::HashMap;

/// Upper bounds for the times of whole calls, in seconds.
const CALL_SECONDS: [f64; 14] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 15.0];
/// Upper bounds for the times of steps inside a call, in seconds.
const STEP_SECONDS: [f64; 14] =
    [0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Upper bounds for the numbers of commands or rows in one batch.
const BATCH_SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// All metrics of one node. Each node has a registry of its own, so that several of them can live
/// in one process; every metric bears the node's id as the label `node`.
pub(crate) struct NodeMetrics {
    pub(crate) registry: Registry,
    pub(crate) calls: CallMetrics,
    pub(crate) proposals: ProposalMetrics,
    pub(crate) writes: WriteMetrics,
    pub(crate) sweeps: SweepMetrics,
    pub(crate) applies: ApplyMetrics,
    pub(crate) reads: ReadMetrics,
    pub(crate) recalls: RecallMetrics,
    pub(crate) snapshots: SnapshotMetrics,
    pub(crate) jobs: JobMetrics,
    pub(crate) integrity: IntegrityMetrics,
    pub(crate) scraper: Scraper,
}

impl NodeMetrics {
    pub(crate) fn new(node: NodeId) -> prometheus::Result<Self> {
        let labels = HashMap::from([("node".to_owned(), node.to_string())]);
        let registry = Registry::new_custom(None, Some(labels))?;
        let maker = Maker(&registry);
        let info = IntGaugeVec::new(
            Opts::new("holdfast_node_info", "The version that the node runs."),
            &["version"],
        )?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        maker.register(info)?;
        let scraper = Scraper::new()?;
        maker.register(scraper.clone())?;
        Ok(Self {
            calls: CallMetrics::new(&maker)?,
            proposals: ProposalMetrics::new(&maker)?,
            writes: WriteMetrics::new(&maker)?,
            sweeps: SweepMetrics::new(&maker)?,
            applies: ApplyMetrics::new(&maker)?,
            reads: ReadMetrics::new(&maker)?,
            recalls: RecallMetrics::new(&maker)?,
            snapshots: SnapshotMetrics::new(&maker)?,
            jobs: JobMetrics::new(&maker)?,
            integrity: IntegrityMetrics::new(&maker)?,
            scraper,
            registry,
        })
    }
}

/// Makes metrics and registers them.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn register<C: Collector + Clone + 'static>(&self, collector: C) -> prometheus::Result<C> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::new(name, help)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> prometheus::Result<Histogram> {
        self.register(Histogram::with_opts(HistogramOpts::new(name, help).buckets(bounds.to_vec()))?)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        bounds: &[f64],
        label: &str,
    ) -> prometheus::Result<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        self.register(HistogramVec::new(options, &[label])?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn two_nodes_live_in_one_process() {
        let nodes =
            [NodeMetrics::new(1).unwrap(), NodeMetrics::new(2).unwrap(), NodeMetrics::new(2).unwrap()];
        for (node, id) in nodes.iter().zip(["1", "2", "2"]) {
            let families = node.registry.gather();
            assert!(families.len() > 10);
            for metric in families.iter().flat_map(|family| family.get_metric()) {
                let label = metric.get_label().iter().find(|label| label.name() == "node").unwrap();
                assert_eq!(label.value(), id);
            }
        }
    }
}
