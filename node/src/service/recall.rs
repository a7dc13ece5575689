use super::reads::Rows;
use super::{NodeService, facts, refusals, stated, why_not};
use crate::index::{
    Answer, AsOf, Beside, Conflicts, Hit, Image, IndexChoice, LoadError, Preference, Query, RelevanceMode,
    SharedImage,
};
use crate::metrics::{RecallMetrics, Step};
use crate::shard::ShardState;
use holdfast_core::access::Rights;
use holdfast_core::apply::last_applied_us;
use holdfast_core::collection::IndexKind;
use holdfast_core::filter::Filter;
use holdfast_core::intent::Intent;
use holdfast_core::limits::TOP_K_MAX;
use holdfast_core::memory::SpaceRow;
use holdfast_core::score::{Constants, CorpusStats, Prior, Profile, Recipe, Stats, Weights};
use holdfast_core::situation::Situation;
use holdfast_core::space::SpaceKey;
use holdfast_core::text::analyze_query;
use holdfast_core::when::{TIMES_MAX, When};
use holdfast_core::{Error, ErrorCode, limits};
use holdfast_proto::{Refused, v1};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks whether a space is still being read.
const HELD_PAUSE: Duration = Duration::from_millis(1);

impl NodeService {
    pub(super) async fn search(&self, request: v1::RecallRequest) -> Result<v1::RecallResponse, Refused> {
        let asked = Instant::now();
        let read = request.read;
        let owner = read.and_then(|read| read.owner);
        let (space, group, replica) =
            self.enter(request.access.clone(), request.space.clone(), Rights::READ, owner)?;
        check(&request)?;
        let filter = Filter::parse_text(&request.filter)?;
        let deadline = self.ready(group, replica, read.as_ref()).await?;
        // Before the image is fetched, which then holds at least this much.
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        let metrics = self.inner.metrics.recalls.clone();
        free(&state, &space, deadline).await;
        self.on_search_pool(deadline, move || {
            metrics.step(Step::Wait, asked);
            let begin = Instant::now();
            let rows = Rows::open(&state, space.clone())?;
            // Before the image is fetched, which then knows what is known here, or what came of it.
            let traced = request.trace.as_deref().map(|id| why_not::Traced::find(&rows, id)).transpose()?;
            let trace = traced.as_ref().and_then(why_not::Traced::seq);
            let search = Search { rows: &rows, request: &request, trace, deadline, metrics: &metrics };
            let answer = search.on_image(&filter, |image, query| {
                let scanning = Instant::now();
                let answer = found(image, query, request.pool.as_ref())?;
                metrics.step(Step::Scan, scanning);
                Ok(answer)
            })?;
            let showing = Instant::now();
            let shown = |hits: &[Hit]| match &request.beside {
                Some(_) => stated::show(&rows, hits, &request),
                None => show(&rows, hits, request.with_vectors),
            };
            let (results, constraints, stating) =
                (shown(&answer.hits)?, shown(&answer.constraints)?, shown(&answer.stating)?);
            let traced = traced.map(|traced| traced.tell(&rows, &answer)).transpose()?;
            metrics.step(Step::Show, showing);
            metrics.answered(answer.index, answer.scored, asked);
            Ok(v1::RecallResponse {
                results,
                exact: answer.exact,
                bound_met: answer.bound_met,
                index: answer.index.to_owned(),
                scored: answer.scored,
                search_us: u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX),
                seen,
                constraints,
                constraints_total: answer.constraints_total,
                stating,
                traced,
                standing: answer
                    .standing
                    .map(|standing| v1::Standing { above: standing.above, passing: standing.passing }),
            })
        })
        .await
    }
}

impl NodeService {
    /// What one partition adds to what the recall must know of all of them.
    pub(super) async fn recall_statistics(
        &self,
        request: v1::RecallStatsRequest,
    ) -> Result<v1::RecallStatsResponse, Refused> {
        let request = request.recall.ok_or_else(|| Error::invalid("recall", "the call names no recall"))?;
        let read = request.read;
        let owner = read.and_then(|read| read.owner);
        let (space, group, replica) =
            self.enter(request.access.clone(), request.space.clone(), Rights::READ, owner)?;
        check(&request)?;
        let deadline = self.ready(group, replica, read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        let metrics = self.inner.metrics.recalls.clone();
        free(&state, &space, deadline).await;
        self.on_search_pool(deadline, move || {
            let rows = Rows::open(&state, space.clone())?;
            let search = Search { rows: &rows, request: &request, trace: None, deadline, metrics: &metrics };
            // The filter chooses among scored rows and changes no statistics.
            search.on_image(&Filter::default(), |image, query| match &request.pool {
                None => Ok(v1::RecallStatsResponse {
                    corpus: Some(image.corpus(query)?.into()),
                    speakers: image.named(query),
                    sums: None,
                    seen,
                }),
                Some(pool) => {
                    let sums = image.stats(query, &pooled(query, pool)?)?;
                    Ok(v1::RecallStatsResponse { sums: Some(sums.into()), seen, ..Default::default() })
                }
            })
        })
        .await
    }
}

/// Waits, on no thread, while somebody reads the space from the disk and it has changed meanwhile.
async fn free(state: &ShardState, space: &SpaceKey, deadline: Instant) {
    while state.spaces().is_held(space) && Instant::now() < deadline {
        tokio::time::sleep(HELD_PAUSE).await;
    }
}

fn check(request: &v1::RecallRequest) -> Result<(), Error> {
    if request.top_k == 0 || request.top_k > TOP_K_MAX {
        return Err(Error::invalid("top_k", format!("top_k is a number from 1 to {TOP_K_MAX}")));
    }
    if request.query.len() > limits::QUERY_BYTES_MAX {
        let max = limits::QUERY_BYTES_MAX;
        return Err(Error::too_large("query", format!("the query is longer than {max} bytes; shorten it")));
    }
    if let Some(id) = &request.trace {
        limits::check_id("id", id)?;
    }
    Ok(())
}

/// One look at the image of a space.
struct Search<'a> {
    rows: &'a Rows<'a>,
    request: &'a v1::RecallRequest,
    /// The memory, by seq, that is asked about.
    trace: Option<u64>,
    deadline: Instant,
    metrics: &'a RecallMetrics,
}

impl Search<'_> {
    /// Makes the query that the request asks, and does `work` with it on the image.
    fn on_image<T>(
        &self,
        filter: &Filter,
        work: impl Fn(&Image, &Query<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let Self { rows, request, trace, deadline, .. } = *self;
        let (state, space, settings) = (rows.state(), rows.space(), rows.settings());
        let vector_model = model_number(settings, request)?;
        let terms = analyze_query(&request.query).terms;
        let log_now_us = last_applied_us(&state.reader()).map_err(|error| refusals::corrupted(&error))?;
        let relevance = match request.relevance() {
            v1::Relevance::Fused => RelevanceMode::Fused,
            v1::Relevance::Vector => RelevanceMode::Vector,
            v1::Relevance::Keyword => RelevanceMode::Keyword,
        };
        let past = request.as_of.map(|at| facts::held(state, space, at, deadline)).transpose()?;
        let (recipe, prior) = constants(request.relevance_model.as_ref());
        let times: Vec<When> = request.times.iter().take(TIMES_MAX).map(time).collect();
        let situation = request
            .situation
            .as_ref()
            .map(|told| Situation::new(&told.place, &told.device, &told.time_of_day));
        let query = Query {
            text: &request.query,
            terms: &terms,
            vector: vector_model.map(|_| request.vector.as_slice()),
            vector_model: vector_model.unwrap_or_default(),
            relevance,
            profile: profile(&request.profile)?,
            weights: request.weights.as_ref().map(weights).transpose()?,
            tau_hours: request.tau_hours,
            recipe,
            prior,
            filter: (!filter.is_all()).then_some(filter),
            now_us: request.now_us,
            log_now_us: log_now_us.unwrap_or_default(),
            top_k: request.top_k as usize,
            min_score: request.min_score,
            include_deprecated: request.include_deprecated,
            conflicts: match request.conflicts() {
                v1::Conflicts::Latest => Conflicts::Latest,
                v1::Conflicts::Mark => Conflicts::Mark,
                v1::Conflicts::All => Conflicts::All,
            },
            as_of: request.as_of.zip(past.as_ref()).map(|(at, held)| AsOf {
                valid_us: at.valid_us,
                recorded_us: at.recorded_us,
                held,
            }),
            explain: request.explain,
            beside: request.beside.map_or(Beside::default(), |beside| Beside {
                constraints: beside.constraints.min(TOP_K_MAX) as usize,
                stating: beside.stating.min(TOP_K_MAX) as usize,
            }),
            times: &times,
            intent: intent(request),
            situation: situation.as_ref(),
            trace,
            above: request.above,
            deadline: Some(deadline),
            speakers: request.pool.as_ref().map(|pool| pool.speakers.as_slice()),
            ..Query::default()
        };
        self.look(&query, work)
    }

    /// Loads the image of the space if it has to be, and does `work` with a query on it.
    fn look<T>(
        &self,
        query: &Query<'_>,
        work: impl Fn(&Image, &Query<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let Self { rows, request, deadline, metrics, .. } = *self;
        let (state, space) = (rows.state(), rows.space());
        if let Some(wish) = &request.index {
            state.spaces().choose(space, index_choice(&wish.kind)?, wish.version);
        }
        let loading = Instant::now();
        let load = || state.spaces().get(space, &state.reader(), deadline).map_err(not_loaded);
        let image = load()?;
        metrics.step(Step::Load, loading);
        let read = |image: &SharedImage| match image.read_until(deadline) {
            Some(image) => Ok((work(&image, query), image.is_damaged())),
            None => Err(refusals::too_late("waiting for the space")),
        };
        let (answer, is_damaged) = read(&image)?;
        if answer.is_ok() || !is_damaged {
            return answer;
        }
        // The next image is loaded without the file that could not be read.
        drop(image);
        read(&load()?)?.0
    }
}

/// Searches by the statistics of the space, or by those of the whole recall.
fn found(image: &Image, query: &Query<'_>, pool: Option<&v1::Pool>) -> Result<Answer, Refused> {
    let Some(pool) = pool else { return Ok(image.search(query)?) };
    let corpus = pooled(query, pool)?;
    // A query without constants is one whose score needs none.
    let constants = pool.constants.map_or_else(
        || Constants::from_stats(&Stats::default(), &query.prior, corpus.query_weight()),
        Constants::from,
    );
    Ok(image.search_with(query, &corpus, &constants)?)
}

/// The counts of the whole recall, which must be of the same terms as here.
fn pooled(query: &Query<'_>, pool: &v1::Pool) -> Result<CorpusStats, Refused> {
    let corpus = CorpusStats::from(pool.corpus.clone().unwrap_or_default());
    if corpus.df.len() == query.terms.len() {
        return Ok(corpus);
    }
    let detail = "the nodes of this recall take the query for different words, as nodes of two versions do; ask \
                  again once all run the same";
    Err(Error::new(ErrorCode::Unavailable, detail).into())
}

fn time(range: &v1::TimeRange) -> When {
    When { from_us: range.from_us, until_us: range.until_us, words: range.words.clone() }
}

fn intent(request: &v1::RecallRequest) -> Option<Preference> {
    let intent = match request.intent() {
        v1::Intent::None => return None,
        v1::Intent::Factual => Intent::Factual,
        v1::Intent::Experiential => Intent::Experiential,
        v1::Intent::Procedural => Intent::Procedural,
    };
    Some(Preference { intent, guessed: request.intent_guessed })
}

/// Which of the space's models the query's vector belongs to; `None` if there is no vector, or one
/// that the router made by a model that this space does not use.
fn model_number(settings: &SpaceRow, request: &v1::RecallRequest) -> Result<Option<u8>, Error> {
    let Some(model) = request.model.as_ref().filter(|_| !request.vector.is_empty()) else { return Ok(None) };
    // A space without vectors has no model: every row goes without a cosine, whatever the query's.
    let Some(current) = settings.models.last() else { return Ok(None) };
    if current.id == model.id && u32::from(current.dims) == model.dims {
        return Ok(u8::try_from(settings.models.len() - 1).ok());
    }
    if !request.vector_given {
        return Ok(None);
    }
    let detail = format!(
        "this space holds vectors of {} with {} dimensions; the query's is of {} with {}; \
         send a matching vector, or the text alone",
        current.id, current.dims, model.id, model.dims
    );
    Err(Error::invalid("embedding", detail))
}

fn index_choice(kind: &str) -> Result<IndexChoice, Error> {
    match IndexKind::from_wire(kind) {
        Some(IndexKind::Auto) => Ok(IndexChoice::Auto),
        Some(IndexKind::Exact) => Ok(IndexChoice::Exact),
        Some(IndexKind::Hnsw) => Ok(IndexChoice::Graph),
        Some(IndexKind::Ivf) => Ok(IndexChoice::Lists),
        None => Err(Error::invalid("index", "index is one of auto, exact, hnsw and ivf")),
    }
}

fn profile(name: &str) -> Result<Profile, Error> {
    if name.is_empty() {
        return Ok(Profile::default());
    }
    let known = || Profile::ALL.map(Profile::name).join(", ");
    Profile::from_name(name)
        .ok_or_else(|| Error::invalid("profile", format!("profile is one of {}", known())))
}

fn weights(weights: &v1::Weights) -> Result<Weights, Error> {
    let parts = [weights.relevance, weights.recency, weights.importance, weights.frequency].map(f64::from);
    let [s, r, i, f] = parts;
    Weights::new(s, r, i, f).map_err(|error| Error::invalid("weights", error.to_string()))
}

/// The constants of fused relevance for the model of the query's vector.
fn constants(model: Option<&v1::RelevanceModel>) -> (Recipe, Prior) {
    let Some(model) = model else { return (Recipe::USE, Prior::USE) };
    let recipe = Recipe { vector: f64::from(model.wd), midpoint: f64::from(model.z0), ..Recipe::USE };
    let prior = Prior {
        mean_c: f64::from(model.cos_mean_prior),
        dev_c: f64::from(model.cos_dev_prior),
        ..Prior::USE
    };
    (recipe, prior)
}

fn not_loaded(error: LoadError) -> Refused {
    let again = matches!(error, LoadError::Cancelled | LoadError::Memory { .. } | LoadError::Overrun);
    let route = if again { v1::Route::Retry } else { v1::Route::None };
    Refused { route, ..Error::from(error).into() }
}

/// The hits with their texts. One that was deleted since the scan is left out.
fn show(rows: &Rows<'_>, hits: &[Hit], with_vectors: bool) -> Result<Vec<v1::Scored>, Refused> {
    let mut results = Vec::with_capacity(hits.len());
    for hit in hits {
        let Some((memory, index)) = rows.rows(&hit.id)? else { continue };
        let shown = rows.show(&memory, &index)?;
        let vector = index.vector.filter(|_| with_vectors).map(|vector| vector.halves);
        results.push(v1::Scored { vector: vector.unwrap_or_default(), ..scored(hit, shown) });
    }
    Ok(results)
}

/// A hit with its memory.
pub(super) fn scored(hit: &Hit, memory: v1::Memory) -> v1::Scored {
    let has_vector = memory.embedding_model.is_some();
    // The parts are for reading: single precision shows an importance of .8 as .8.
    #[allow(clippy::cast_possible_truncation)]
    let shown = |part: f64| part as f32;
    let parts = v1::Parts {
        relevance: shown(hit.parts.relevance),
        cosine: has_vector.then(|| shown(hit.parts.cosine)),
        keyword: shown(hit.parts.keyword),
        recency: shown(hit.parts.recency),
        importance: shown(hit.parts.importance),
        frequency: shown(hit.parts.frequency),
        boost: shown(hit.parts.boost),
    };
    v1::Scored {
        memory: Some(memory),
        score: hit.score,
        parts: Some(parts),
        why: hit.why.clone(),
        ranks: hit.ranks.map(|ranks| v1::Ranks { cosine: ranks.cosine, keyword: ranks.keyword }),
        ..v1::Scored::default()
    }
}
