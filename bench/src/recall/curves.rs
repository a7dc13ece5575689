//! How the latency of one space grows with what is asked of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::Scale;
use super::measure::{Asked, one_closed};
use super::result::{Curve, Over, Point};
use super::sets::{Mode, Question, SHARES};
use crate::cluster::Cluster;

/// What is varied, and how far.
struct Steps {
    top_k: &'static [usize],
    per_mille: &'static [usize],
    clients: &'static [usize],
}

impl Steps {
    fn of(scale: Scale) -> Self {
        match scale {
            Scale::Small => Self { top_k: &[1, 100], per_mille: &[SHARES, 10], clients: &[1, 16] },
            Scale::Medium | Scale::Large => Self {
                top_k: &[1, 10, 30, 100],
                per_mille: &[SHARES, 300, 100, 10, 1],
                clients: &[1, 2, 4, 16, 64],
            },
        }
    }
}

/// Asks the same questions with more hits, behind narrower filters and by more clients, each for so long.
pub(super) async fn curves(
    cluster: &Cluster,
    scale: Scale,
    questions: &Arc<Vec<Question>>,
    time: Duration,
) -> Result<Vec<Curve>> {
    let steps = Steps::of(scale);
    let mut curves = Vec::new();
    for mode in Mode::ALL {
        let plain = Asked::new(mode);
        for (over, values) in
            [(Over::TopK, steps.top_k), (Over::PerMille, steps.per_mille), (Over::Clients, steps.clients)]
        {
            let mut points = Vec::with_capacity(values.len());
            for value in values {
                let (asked, clients) = match over {
                    Over::TopK => (Asked { top_k: *value, ..plain }, 1),
                    Over::PerMille => (Asked { per_mille: *value, ..plain }, 1),
                    Over::Clients => (plain, *value),
                };
                let closed = one_closed(cluster, questions, asked, clients, time).await?;
                points.push(Point { at: *value, closed });
            }
            curves.push(Curve { mode, over, points });
        }
    }
    Ok(curves)
}
