//! A recall over several partitions and spaces.
//!
//! Scores of different partitions can be compared only if they are made with the same constants. So
//! every partition is asked three times: for its counts of words, which add; with the sum of those for
//! the sums that means and deviations are made of, which add too; and with the constants made of those
//! for its best memories, which are then merged by score alone. Each round has a part of the
//! time, so that a shard that does not answer costs its own memories and not the whole answer.

mod traced;

use super::parse::Query;
use super::request;
use crate::auth::Place;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::{Client, ReadKind, ReadWish};
use crate::shared::Shared;
use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use holdfast_core::access::{Access, Rights};
use holdfast_core::score::{Constants, CorpusStats, Prior, Stats};
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_models::ModelProfile;
use holdfast_proto::v1;
use std::collections::BTreeSet;
use std::future::Future;

/// Most partitions that one recall asks.
pub(crate) const PARTITIONS_MAX: usize = 128;
/// What each round may take of the time that is left when it begins.
const COUNTS_SHARE: f64 = 0.4;
const SUMS_SHARE: f64 = 0.5;
const SEARCH_SHARE: f64 = 0.95;

/// Who asks, where, and how fresh the answer must be.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) access: &'a Access,
    /// All partitions of all spaces, each once.
    pub(crate) spaces: &'a [SpaceKey],
    pub(crate) wish: &'a ReadWish,
    pub(crate) deadline: Deadline,
}

/// What was found, of all partitions together.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) response: v1::RecallResponse,
    pub(crate) seen: Vec<Seen>,
    /// The shards that did not answer in time, in order.
    pub(crate) missing: Vec<u16>,
}

/// All partitions of a space and of the collections that are named beside it.
pub(crate) async fn spaces(
    shared: &Shared,
    access: &Access,
    place: &Place,
    collections: &[String],
    deadline: Deadline,
) -> Answer<Vec<SpaceKey>> {
    let mut spaces = place.partitions()?;
    let rows = collections.iter().enumerate().map(|(at, name)| async move {
        let row = shared.collections.of(&shared.nodes, &access.tenant, name, deadline).await;
        row.map_err(|problem| problem.at(&format!("collections[{at}]")))
    });
    for row in try_join_all(rows).await? {
        access.check(&row.space(0)?, Rights::READ)?;
        for space in row.spaces()? {
            if !spaces.contains(&space) {
                spaces.push(space);
            }
        }
    }
    if spaces.len() > PARTITIONS_MAX {
        let detail = format!(
            "these collections have {} partitions together; one recall asks at most {PARTITIONS_MAX}; name fewer",
            spaces.len()
        );
        return Err(Error::too_large("collections", detail).into());
    }
    Ok(spaces)
}

/// Searches all partitions together.
///
/// # Errors
/// What a partition refuses for good; and what kept a shard from answering, if none answered or the
/// caller wants all.
pub(crate) async fn find(asking: Asking<'_>, query: &Query, model: Option<ModelProfile>) -> Answer<Found> {
    let request = request(asking.access, query, model);
    if let [space] = asking.spaces {
        let response = asking.search(space, request, asking.deadline).await?;
        let seen = asking.shared.nodes.observe(response.seen);
        return Ok(Found { response, seen: seen.into_iter().collect(), missing: Vec::new() });
    }
    let mut fan_out = FanOut::new(asking, request).await?;
    if query.text.is_some() || query.vector.is_some() {
        fan_out.pool(query.relevance == v1::Relevance::Fused, prior(model)).await?;
    }
    let deadline = asking.deadline.part(SEARCH_SHARE);
    let request = fan_out.request.clone();
    let ask = |space| asking.search(space, request.clone(), deadline);
    let mut merged = Merged::new(query.top_k, query.beside.unwrap_or_default());
    fan_out.round(ask, |response| response.seen, |response| merged.take(response)).await?;
    if let Some(traced) = merged.response.traced.as_mut().filter(|traced| traced.scored.is_some()) {
        fan_out.stand(traced).await?;
    }
    fan_out.end(query, merged)
}

/// What is believed of the vectors of a model, as nodes believe it.
fn prior(model: Option<ModelProfile>) -> Prior {
    model.map_or(Prior::USE, |model| Prior {
        mean_c: f64::from(model.cos_mean_prior),
        dev_c: f64::from(model.cos_dev_prior),
        ..Prior::USE
    })
}

impl Asking<'_> {
    async fn search(
        &self,
        space: &SpaceKey,
        request: v1::RecallRequest,
        deadline: Deadline,
    ) -> Answer<v1::RecallResponse> {
        let index = self.shared.collections.index_of(space).await;
        let request = v1::RecallRequest { space: Some(space.into()), index, ..request };
        let ask = |mut client: Client, read| {
            let request = v1::RecallRequest { read: Some(read), ..request.clone() };
            async move { client.recall(request).await }
        };
        self.shared.nodes.read_space(ReadKind::Scan, space, self.wish, deadline, ask).await
    }

    async fn stats(
        &self,
        space: &SpaceKey,
        request: v1::RecallRequest,
        deadline: Deadline,
    ) -> Answer<v1::RecallStatsResponse> {
        let index = self.shared.collections.index_of(space).await;
        let request = v1::RecallRequest { space: Some(space.into()), index, ..request };
        let ask = |mut client: Client, read| {
            let recall = v1::RecallRequest { read: Some(read), ..request.clone() };
            async move { client.recall_stats(v1::RecallStatsRequest { recall: Some(recall) }).await }
        };
        self.shared.nodes.read_space(ReadKind::Scan, space, self.wish, deadline, ask).await
    }
}

/// A recall on its way through its rounds.
struct FanOut<'a> {
    asking: Asking<'a>,
    request: v1::RecallRequest,
    /// The partitions that have answered so far, with their shards.
    left: Vec<(&'a SpaceKey, Shard)>,
    missing: BTreeSet<u16>,
    /// Why the first shard is missing.
    problem: Option<Problem>,
    seen: Vec<Seen>,
}

impl<'a> FanOut<'a> {
    async fn new(asking: Asking<'a>, request: v1::RecallRequest) -> Answer<Self> {
        let mut left = Vec::with_capacity(asking.spaces.len());
        for space in asking.spaces {
            left.push((space, asking.shared.nodes.shard_of(space, asking.deadline).await?));
        }
        Ok(Self { asking, request, left, missing: BTreeSet::new(), problem: None, seen: Vec::new() })
    }

    /// Asks all partitions that are left at once, and does `fold` with each answer as it comes, so that no more
    /// is held than must be. Those that do not answer leave.
    async fn round<R, F>(
        &mut self,
        ask: impl Fn(&'a SpaceKey) -> F,
        seen: impl Fn(&R) -> Option<v1::Seen>,
        mut fold: impl FnMut(R),
    ) -> Answer<()>
    where
        F: Future<Output = Answer<R>>,
    {
        let mut asked: FuturesUnordered<_> = std::mem::take(&mut self.left)
            .into_iter()
            .map(|at| {
                let asking = ask(at.0);
                async move { (at, asking.await) }
            })
            .collect();
        while let Some((at, answer)) = asked.next().await {
            match answer {
                Ok(answer) => {
                    self.seen.extend(self.asking.shared.nodes.observe(seen(&answer)));
                    self.left.push(at);
                    fold(answer);
                }
                Err(problem) if is_silence(problem.error.code) => {
                    self.missing.insert(at.1.0);
                    self.problem.get_or_insert(problem);
                }
                Err(problem) => return Err(problem),
            }
        }
        match self.problem.take() {
            Some(problem) if self.left.is_empty() => Err(problem),
            problem => {
                self.problem = problem;
                Ok(())
            }
        }
    }

    /// Finds out what the partitions have in common, and puts it into the request.
    async fn pool(&mut self, fused: bool, prior: Prior) -> Answer<()> {
        let asking = self.asking;
        let (request, deadline) = (self.request.clone(), asking.deadline.part(COUNTS_SHARE));
        let mut corpus = CorpusStats::default();
        let mut speakers = BTreeSet::new();
        let ask = |space| asking.stats(space, request.clone(), deadline);
        let fold = |response: v1::RecallStatsResponse| {
            corpus.merge(&response.corpus.unwrap_or_default().into());
            speakers.extend(response.speakers);
        };
        self.round(ask, |response| response.seen, fold).await?;
        let mut pool = v1::Pool {
            corpus: Some(corpus.clone().into()),
            speakers: speakers.into_iter().collect(),
            constants: None,
        };
        self.request.pool = Some(pool.clone());
        if !fused {
            return Ok(());
        }
        let (request, deadline) = (self.request.clone(), asking.deadline.part(SUMS_SHARE));
        let mut stats = Stats::default();
        let ask = |space| asking.stats(space, request.clone(), deadline);
        let fold = |response: v1::RecallStatsResponse| stats.merge(&response.sums.unwrap_or_default().into());
        self.round(ask, |response| response.seen, fold).await?;
        pool.constants = Some(Constants::from_stats(&stats, &prior, corpus.query_weight()).into());
        self.request.pool = Some(pool);
        Ok(())
    }

    /// The answer of all together.
    fn end(self, query: &Query, merged: Merged) -> Answer<Found> {
        if let Some(problem) = self.problem.filter(|_| query.require_all) {
            let shards: Vec<String> = self.missing.iter().map(u16::to_string).collect();
            let detail = format!(
                "the shards {} did not answer in time ({}); retry, allow more time, or leave require_all out to \
                 get what the others have",
                shards.join(", "),
                problem.error.detail
            );
            let retry_after_ms = problem.retry_after_ms;
            return Err(Problem { retry_after_ms, ..Problem::new(problem.error.code, detail) });
        }
        Ok(Found { response: merged.end(), seen: self.seen, missing: self.missing.into_iter().collect() })
    }
}

/// Whether a shard did not answer, rather than that it refused the question.
fn is_silence(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Unavailable | ErrorCode::DeadlineExceeded | ErrorCode::Overloaded | ErrorCode::RateLimited
    )
}

/// One answer of those of all partitions. It never holds more than twice what is wanted, and what one
/// partition answers.
struct Merged {
    response: v1::RecallResponse,
    top_k: u32,
    beside: v1::Beside,
}

impl Merged {
    fn new(top_k: u32, beside: v1::Beside) -> Self {
        let response = v1::RecallResponse { exact: true, bound_met: true, ..v1::RecallResponse::default() };
        Self { response, top_k, beside }
    }

    fn take(&mut self, answer: v1::RecallResponse) {
        let merged = &mut self.response;
        merged.exact &= answer.exact;
        merged.bound_met &= answer.bound_met;
        merged.scored = merged.scored.saturating_add(answer.scored);
        merged.search_us = merged.search_us.max(answer.search_us);
        merged.constraints_total = merged.constraints_total.saturating_add(answer.constraints_total);
        if merged.index.is_empty() {
            merged.index = answer.index;
        } else if merged.index != answer.index {
            "mixed".clone_into(&mut merged.index);
        }
        // Places among the memories of one partition are none among all of them.
        merged.results.extend(answer.results.into_iter().map(|scored| v1::Scored { ranks: None, ..scored }));
        traced::merge(&mut merged.traced, answer.traced);
        merged.constraints.extend(answer.constraints);
        merged.stating.extend(answer.stating);
        for (all, k) in [
            (&mut merged.results, self.top_k),
            (&mut merged.constraints, self.beside.constraints),
            (&mut merged.stating, self.beside.stating),
        ] {
            if all.len() > k as usize {
                best(all, k);
            }
        }
    }

    fn end(mut self) -> v1::RecallResponse {
        best(&mut self.response.results, self.top_k);
        best(&mut self.response.constraints, self.beside.constraints);
        best(&mut self.response.stating, self.beside.stating);
        self.response
    }
}

/// The best `k`, the best first. Of equal scores the newer is first, as within a partition; ids decide what
/// is of one moment, so that the order of answers does not.
fn best(all: &mut Vec<v1::Scored>, k: u32) {
    let key = |scored: &v1::Scored| {
        let memory = scored.memory.as_ref();
        memory.map(|memory| (std::cmp::Reverse(memory.created_us), memory.id.clone()))
    };
    all.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| key(a).cmp(&key(b))));
    all.truncate(k as usize);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn scored(id: &str, score: f64, created_us: i64) -> v1::Scored {
        let memory = v1::Memory { id: id.into(), created_us, ..v1::Memory::default() };
        v1::Scored { memory: Some(memory), score, ..v1::Scored::default() }
    }

    fn answer(index: &str, exact: bool, results: Vec<v1::Scored>) -> v1::RecallResponse {
        v1::RecallResponse {
            index: index.into(),
            exact,
            bound_met: true,
            scored: results.len() as u64,
            constraints: results.clone(),
            constraints_total: 7,
            results,
            ..v1::RecallResponse::default()
        }
    }

    fn merge(answers: Vec<v1::RecallResponse>, top_k: u32, beside: v1::Beside) -> v1::RecallResponse {
        let mut merged = Merged::new(top_k, beside);
        answers.into_iter().for_each(|answer| merged.take(answer));
        merged.end()
    }

    #[test]
    fn the_best_of_all_come_first_whatever_the_order_of_answers() {
        let a = answer("exact", true, vec![scored("a", 0.9, 1), scored("c", 0.5, 1), scored("d", 0.5, 2)]);
        let b = answer("exact", true, vec![scored("b", 0.7, 1), scored("e", 0.5, 2)]);
        let ids = |merged: &v1::RecallResponse| -> Vec<String> {
            merged.results.iter().map(|scored| scored.memory.clone().unwrap().id).collect()
        };
        let beside = v1::Beside { constraints: 2, stating: 0 };
        let merged = merge(vec![a.clone(), b.clone()], 4, beside);
        assert_eq!(ids(&merged), ["a", "b", "d", "e"]);
        assert_eq!((merged.scored, merged.constraints_total, merged.constraints.len()), (5, 14, 2));
        assert_eq!((merged.exact, merged.index.as_str()), (true, "exact"));
        assert_eq!(ids(&merge(vec![b.clone(), a], 4, beside)), ids(&merged));
        let mixed = merge(vec![b, answer("hnsw", false, vec![scored("x", f64::NAN, 0)])], 9, beside);
        assert_eq!((mixed.exact, mixed.index.as_str()), (false, "mixed"));
        assert_eq!(mixed.results.len(), 3, "what is no number is no end of the sorting");
        assert_eq!(merge(Vec::new(), 5, beside).scored, 0);
    }

    #[test]
    fn what_is_refused_is_no_silence() {
        for code in [
            ErrorCode::InvalidArgument,
            ErrorCode::PermissionDenied,
            ErrorCode::Corrupted,
            ErrorCode::Internal,
        ] {
            assert!(!is_silence(code), "{code}");
        }
        assert!(is_silence(ErrorCode::Unavailable) && is_silence(ErrorCode::DeadlineExceeded));
    }
}
