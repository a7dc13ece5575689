//! What assembling contexts costs and saves.

use super::answer::Took;
use super::choose::Reason;
use super::pack::Packed;
use super::sections::Section;
use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

/// Upper bounds of the time buckets, in seconds.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0];
const STEPS: [&str; 4] = ["embed", "search", "assemble", "total"];

pub(crate) struct ContextMetrics {
    tokens: IntCounterVec,
    seconds: HistogramVec,
    left_out: IntCounterVec,
    items: IntCounterVec,
}

impl ContextMetrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let metrics = Self {
            tokens: IntCounterVec::new(
                Opts::new(
                    "holdfast_router_context_tokens_total",
                    "Tokens of assembled contexts, and those saved: what all candidates in their own words, and all \
                     turns of the session, would have taken beyond that.",
                ),
                &["kind"],
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new(
                    "holdfast_router_context_seconds",
                    "Time of a context by step: embedding the query, searching, assembling, and in total.",
                )
                .buckets(SECONDS.to_vec()),
                &["step"],
            )?,
            left_out: IntCounterVec::new(
                Opts::new(
                    "holdfast_router_context_left_out_total",
                    "Candidates that did not enter a context, by reason.",
                ),
                &["reason"],
            )?,
            items: IntCounterVec::new(
                Opts::new("holdfast_router_context_items_total", "Items that entered a context, by section."),
                &["section"],
            )?,
        };
        for kind in ["assembled", "saved"] {
            metrics.tokens.with_label_values(&[kind]);
        }
        for step in STEPS {
            metrics.seconds.with_label_values(&[step]);
        }
        for section in Section::ALL {
            metrics.items.with_label_values(&[section.name()]);
        }
        for reason in Reason::ALL {
            metrics.left_out.with_label_values(&[reason.name()]);
        }
        Ok(metrics)
    }

    pub(crate) fn collectors(&self) -> [Box<dyn Collector>; 4] {
        [
            Box::new(self.tokens.clone()),
            Box::new(self.seconds.clone()),
            Box::new(self.left_out.clone()),
            Box::new(self.items.clone()),
        ]
    }

    pub(super) fn packed(&self, packed: &Packed) {
        let count = |kind, tokens: usize| self.tokens.with_label_values(&[kind]).inc_by(tokens as u64);
        count("assembled", packed.tokens);
        count("saved", packed.whole_tokens.saturating_sub(packed.tokens));
        for item in &packed.items {
            self.items.with_label_values(&[item.section.name()]).inc();
        }
        for (reason, count) in Reason::ALL.into_iter().zip(packed.left_out.counts) {
            self.left_out.with_label_values(&[reason.name()]).inc_by(count);
        }
    }

    pub(super) fn took(&self, took: &Took) {
        for (step, us) in STEPS.into_iter().zip([took.embed, took.search, took.assemble, took.total]) {
            self.seconds.with_label_values(&[step]).observe(us as f64 / 1e6);
        }
    }
}
