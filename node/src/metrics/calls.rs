use super::{CALL_SECONDS, Maker};
use prometheus::{HistogramVec, IntCounterVec};
use std::time::Instant;

/// The calls of the service: one label value for each.
const METHODS: [&str; 21] = [
    "write",
    "get",
    "list",
    "history",
    "recall",
    "recall_stats",
    "list_facts",
    "graph",
    "read_tier",
    "get_session",
    "list_sessions",
    "list_turns",
    "read_meta",
    "topology",
    "hash_point",
    "verify",
    "export",
    "space_stats",
    "get_erasure",
    "get_tenant_erasure",
    "locate",
];

/// Calls that routers make.
#[derive(Clone)]
pub(crate) struct CallMetrics {
    calls: IntCounterVec,
    seconds: HistogramVec,
}

impl CallMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let calls = maker.counters(
            "holdfast_node_calls_total",
            "Calls of routers by method and error code; `ok` is success, `cancelled` a caller that went away.",
            &["method", "code"],
        )?;
        for method in METHODS {
            calls.with_label_values(&[method, "ok"]);
        }
        let seconds = maker.histograms(
            "holdfast_node_call_seconds",
            "Time from a call of a router to its answer.",
            &CALL_SECONDS,
            "method",
        )?;
        Ok(Self { calls, seconds })
    }

    /// Begins a call, which is counted when the guard is dropped.
    pub(crate) fn begin(&self, method: &'static str) -> Call<'_> {
        debug_assert!(METHODS.contains(&method), "{method} is not in the list of methods");
        Call { metrics: self, method, started: Instant::now(), code: "cancelled" }
    }
}

/// A call that is being answered.
pub(crate) struct Call<'a> {
    metrics: &'a CallMetrics,
    method: &'static str,
    started: Instant,
    code: &'static str,
}

impl Call<'_> {
    /// Ends the call with an error code, or `ok`.
    pub(crate) fn end(mut self, code: &'static str) {
        self.code = code;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.metrics.calls.with_label_values(&[self.method, self.code]).inc();
        self.metrics.seconds.with_label_values(&[self.method]).observe(self.started.elapsed().as_secs_f64());
    }
}
