use super::Maker;
use holdfast_proto::Refused;
use holdfast_proto::v1::{Consistency, Route};
use prometheus::IntCounterVec;

const CONSISTENCIES: [&str; 3] = ["session", "linearizable", "bounded"];
const OUTCOMES: [&str; 4] = ["answered", "behind", "not_leader", "unavailable"];

/// Reads of one replica, by what they asked for and whether it might answer.
#[derive(Clone)]
pub(crate) struct ReadMetrics {
    reads: IntCounterVec,
}

impl ReadMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let reads = maker.counters(
            "holdfast_node_reads_total",
            "Reads that routers asked of this node's replicas, by consistency and by what the replica said.",
            &["consistency", "outcome"],
        )?;
        for consistency in CONSISTENCIES {
            for outcome in OUTCOMES {
                reads.with_label_values(&[consistency, outcome]);
            }
        }
        Ok(Self { reads })
    }

    /// A replica might answer, or refused.
    pub(crate) fn admitted(&self, consistency: Consistency, refused: Option<&Refused>) {
        let outcome = match refused.map(|refused| refused.route) {
            None => "answered",
            Some(Route::Behind) => "behind",
            Some(Route::NotLeader) => "not_leader",
            Some(Route::Retry | Route::None | Route::WrongShard) => "unavailable",
        };
        let consistency = match consistency {
            Consistency::Session => "session",
            Consistency::Linearizable => "linearizable",
            Consistency::Bounded => "bounded",
        };
        self.reads.with_label_values(&[consistency, outcome]).inc();
    }
}
