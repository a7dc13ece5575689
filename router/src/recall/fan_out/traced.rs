//! What became of one memory in a recall over several partitions: the one that holds it tells, and all others tell how
//! many of theirs come before it.

use super::{FanOut, SEARCH_SHARE};
use crate::http::problem::{Answer, Problem};
use holdfast_core::ErrorCode;
use holdfast_proto::v1;

/// Keeps the one that says most: an id may be a memory in one partition, and unknown or deleted in others. Where it is one
/// in several, the one that scores higher is meant.
pub(super) fn merge(kept: &mut Option<v1::Traced>, other: Option<v1::Traced>) {
    let Some(mut other) = other else { return };
    // Places among the memories of one partition are none among all of them.
    if let Some(scored) = &mut other.scored {
        scored.ranks = None;
    }
    let says_more = |kept: &v1::Traced| {
        let (old, new) = (weight(kept), weight(&other));
        old.0.cmp(&new.0).then(old.1.total_cmp(&new.1)).is_lt()
    };
    if kept.as_ref().is_none_or(says_more) {
        *kept = Some(other);
    }
}

/// How much is said of a memory, and what it scores.
fn weight(traced: &v1::Traced) -> (u8, f64) {
    let says = match traced.fate() {
        v1::Fate::Unknown => 0,
        v1::Fate::Deleted => 1,
        v1::Fate::Scored => 3,
        _ => 2,
    };
    (says, traced.scored.as_ref().map_or(0.0, |scored| scored.score))
}

impl FanOut<'_> {
    /// Finds the rank of a memory among those of all partitions. Of equal scores none comes before it.
    ///
    /// # Errors
    /// `unavailable` if a node cannot tell; and as [`FanOut::round`].
    pub(super) async fn stand(&mut self, traced: &mut v1::Traced) -> Answer<()> {
        let Some(score) = traced.scored.as_ref().map(|scored| scored.score) else { return Ok(()) };
        let asking = self.asking;
        let deadline = asking.deadline.part(SEARCH_SHARE);
        let request = v1::RecallRequest {
            above: Some(score),
            trace: None,
            beside: None,
            with_vectors: false,
            explain: false,
            top_k: 1,
            ..self.request.clone()
        };
        let (mut above, mut passing, mut all_tell) = (0, 0, true);
        let ask = |space| asking.search(space, request.clone(), deadline);
        let fold = |response: v1::RecallResponse| match response.standing {
            Some(standing) => {
                above += standing.above;
                passing += standing.passing;
            }
            None => all_tell = false,
        };
        self.round(ask, |response| response.seen, fold).await?;
        if !all_tell {
            let detail = "a node of an earlier version cannot tell; update all nodes";
            return Err(Problem::new(ErrorCode::Unavailable, detail));
        }
        (traced.rank, traced.passing) = (above + 1, passing);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_that_holds_the_memory_is_believed() {
        let of = |fate: v1::Fate, score: Option<f64>| v1::Traced {
            fate: fate.into(),
            scored: score.map(|score| v1::Scored { score, ..v1::Scored::default() }),
            ..v1::Traced::default()
        };
        let fates = [
            of(v1::Fate::Unknown, None),
            of(v1::Fate::Deleted, None),
            of(v1::Fate::Superseded, None),
            of(v1::Fate::Scored, Some(f64::NAN)),
            of(v1::Fate::Scored, Some(0.2)),
        ];
        for (at, better) in fates.iter().enumerate().skip(1).filter(|(at, _)| *at != 3) {
            for worse in fates.iter().take(at).filter(|worse| worse.scored.is_none()) {
                for (one, two) in [(better, worse), (worse, better)] {
                    let mut kept = None;
                    merge(&mut kept, Some(one.clone()));
                    merge(&mut kept, None);
                    merge(&mut kept, Some(two.clone()));
                    assert_eq!(kept.as_ref(), Some(better));
                }
            }
        }
    }
}
