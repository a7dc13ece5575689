//! What the router counts. All labels are bounded: route templates, methods and error codes.

use crate::context::metrics::ContextMetrics;
use crate::registries::Registries;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// Upper bounds of the time buckets, in seconds.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0];

/// Why a call to a node is repeated.
const RETRY_REASONS: [&str; 5] = ["transport", "not_leader", "behind", "retry", "wrong_shard"];
/// How fresh a read asks its answer to be, and who gave it.
const CONSISTENCIES: [&str; 3] = ["session", "linearizable", "bounded"];
const READ_OUTCOMES: [&str; 4] = ["leader", "replica", "hedge", "failed"];
/// What became of a hedge.
const HEDGE_OUTCOMES: [&str; 4] = ["won", "lost", "behind", "failed"];

pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    embed_seconds: Histogram,
    embedded_texts: prometheus::IntCounter,
    retries: IntCounterVec,
    reads: IntCounterVec,
    hedges: IntCounterVec,
    leaderless: IntGauge,
    pub(crate) context: ContextMetrics,
}

fn reads() -> Result<IntCounterVec, prometheus::Error> {
    let options = Opts::new(
        "holdfast_router_reads_total",
        "Reads of spaces by consistency and by who answered: the leader, another replica that proved its \
         freshness, a hedge, or nobody.",
    );
    let reads = IntCounterVec::new(options, &["consistency", "outcome"])?;
    for consistency in CONSISTENCIES {
        for outcome in READ_OUTCOMES {
            reads.with_label_values(&[consistency, outcome]);
        }
    }
    Ok(reads)
}

fn hedges() -> Result<IntCounterVec, prometheus::Error> {
    let options = Opts::new(
        "holdfast_router_hedges_total",
        "Reads that were also asked of a follower because the leader was slow, by what became of that.",
    );
    let hedges = IntCounterVec::new(options, &["outcome"])?;
    for outcome in HEDGE_OUTCOMES {
        hedges.with_label_values(&[outcome]);
    }
    Ok(hedges)
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let seconds = |name: &str, help: &str| HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        let metrics = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(
                Opts::new(
                    "holdfast_router_requests_total",
                    "Requests by route template, method and error code.",
                ),
                &["route", "method", "code"],
            )?,
            request_seconds: HistogramVec::new(
                seconds("holdfast_router_request_seconds", "Time from a request to its answer."),
                &["route", "method"],
            )?,
            embed_seconds: Histogram::with_opts(seconds(
                "holdfast_router_embed_seconds",
                "Time of one batch in the embedding model.",
            ))?,
            embedded_texts: prometheus::IntCounter::new(
                "holdfast_router_embedded_texts_total",
                "Texts embedded.",
            )?,
            retries: IntCounterVec::new(
                Opts::new("holdfast_router_retries_total", "Calls to nodes that were repeated, by reason."),
                &["reason"],
            )?,
            reads: reads()?,
            hedges: hedges()?,
            leaderless: IntGauge::new(
                "holdfast_router_groups_without_leader",
                "Raft groups whose leader this router does not know or cannot reach.",
            )?,
            context: ContextMetrics::new()?,
        };
        for reason in RETRY_REASONS {
            metrics.retries.with_label_values(&[reason]);
        }
        let collectors: [Box<dyn prometheus::core::Collector>; 8] = [
            Box::new(metrics.requests.clone()),
            Box::new(metrics.request_seconds.clone()),
            Box::new(metrics.embed_seconds.clone()),
            Box::new(metrics.embedded_texts.clone()),
            Box::new(metrics.retries.clone()),
            Box::new(metrics.reads.clone()),
            Box::new(metrics.hedges.clone()),
            Box::new(metrics.leaderless.clone()),
        ];
        for collector in collectors.into_iter().chain(metrics.context.collectors()) {
            metrics.registry.register(collector)?;
        }
        Ok(metrics)
    }

    pub(crate) fn observe_request(&self, route: &str, method: &str, code: &str, took: Duration) {
        self.requests.with_label_values(&[route, method, code]).inc();
        self.request_seconds.with_label_values(&[route, method]).observe(took.as_secs_f64());
    }

    pub(crate) fn observe_embed(&self, texts: usize, took: Duration) {
        self.embedded_texts.inc_by(texts as u64);
        self.embed_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn count_retry(&self, reason: &'static str) {
        self.retries.with_label_values(&[reason]).inc();
    }

    pub(crate) fn count_read(&self, consistency: &'static str, outcome: &'static str) {
        self.reads.with_label_values(&[consistency, outcome]).inc();
    }

    pub(crate) fn count_hedge(&self, outcome: &'static str) {
        self.hedges.with_label_values(&[outcome]).inc();
    }

    pub(crate) fn set_leaderless(&self, groups: usize) {
        self.leaderless.set(i64::try_from(groups).unwrap_or(i64::MAX));
    }

    /// Everything in the text format of Prometheus, other registries of the process behind it.
    ///
    /// Several nodes have metrics of one name; the format wants all values of a name in one place.
    pub(crate) fn render(&self, others: &Registries) -> Result<Vec<u8>, prometheus::Error> {
        let mut by_name: BTreeMap<String, MetricFamily> = BTreeMap::new();
        for mut family in self.registry.gather().into_iter().chain(others.gather()) {
            match by_name.entry(family.name().to_owned()) {
                Entry::Vacant(entry) => {
                    entry.insert(family);
                }
                Entry::Occupied(mut entry) => entry.get_mut().mut_metric().append(family.mut_metric()),
            }
        }
        let families: Vec<MetricFamily> = by_name.into_values().collect();
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::HashMap;

    fn of_node(id: &str) -> Registry {
        let labels = HashMap::from([("node".to_owned(), id.to_owned())]);
        let registry = Registry::new_custom(None, Some(labels)).unwrap();
        let gauge = IntGauge::new("holdfast_state_rows", "Rows.").unwrap();
        registry.register(Box::new(gauge)).unwrap();
        registry
    }

    #[test]
    fn metrics_of_one_name_stand_together_and_come_and_go() {
        let metrics = Metrics::new().unwrap();
        let registries = Registries::default();
        let shared = registries.clone();
        shared.insert("node-1", of_node("1"));
        shared.insert("node-2", of_node("2"));
        shared.insert("node-2", of_node("2"));
        let text = || String::from_utf8(metrics.render(&registries).unwrap()).unwrap();
        let both = text();
        assert_eq!(both.matches("# TYPE holdfast_state_rows gauge").count(), 1, "{both}");
        for node in ["1", "2"] {
            assert_eq!(
                both.matches(&format!("holdfast_state_rows{{node=\"{node}\"}} 0")).count(),
                1,
                "{both}"
            );
        }
        shared.remove("node-1");
        shared.remove("never there");
        assert!(!text().contains("node=\"1\""));
        assert!(text().contains("node=\"2\""));
        shared.insert("node-1", of_node("1"));
        assert!(text().contains("node=\"1\""));
    }
}
