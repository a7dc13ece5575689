//! `POST …/recall:why-not`: why a memory is not among the results of a recall, or that it is.

use super::diverse::Diverse;
use super::fan_out::{self, Asking, Found, find};
use super::parse::{Call, Query, recall_body};
use super::view::{Parts, Ranks, hit, to_nine_places};
use super::{cap, embed};
use crate::auth::InSpace;
use crate::http::json;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::http::{Body, answer};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use holdfast_core::limits::check_id;
use holdfast_proto::v1;
use serde::Serialize;
use std::sync::Arc;
use tokio::time::Instant;

recall_body!(WhyNotBody {
    /// The memory that was expected.
    id: String,
});

/// What became of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Returned,
    BelowTopK,
    /// Its rank would do, but others differ more from those before them.
    LessDiverse,
    /// It would be among the results, were there room on a small screen.
    Capped,
    BelowMinScore,
    Filtered,
    Unknown,
    Deleted,
    Expired,
    Chunked,
    Archived,
    Merged,
    Superseded,
    Retracted,
    Over,
    HiddenByNewer,
    NotThen,
}

#[derive(Serialize)]
struct WhyNot {
    id: String,
    verdict: Verdict,
    /// The same as a sentence, with what to do about it.
    detail: String,
    /// Its place among the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmet: Vec<Unmet>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    scored: Option<Scored>,
    /// What the last of the results scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Last>,
    results: usize,
    exact: bool,
    index: String,
    token: String,
}

#[derive(Serialize)]
struct Unmet {
    condition: String,
    found: Option<String>,
}

/// How the memory was scored.
#[derive(Serialize)]
struct Scored {
    rank: u64,
    of: u64,
    #[serde(serialize_with = "to_nine_places")]
    score: f64,
    parts: Parts,
    ranks: Option<Ranks>,
    why: Vec<String>,
}

#[derive(Serialize)]
struct Last {
    id: String,
    #[serde(serialize_with = "to_nine_places")]
    score: f64,
}

pub(crate) async fn why_not(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer<Response> {
    let started = Instant::now();
    let (access, place) = caller.require_place(Rights::READ)?;
    let body: WhyNotBody = json::body(&body)?;
    let (id, recall) = body.split();
    check_id("id", &id)?;
    let mut query = Query::of(recall, Call::RECALL)?;
    query.trace = Some(id.clone());
    // Whoever does not answer may be the one that holds it.
    query.require_all = true;
    let wish = tokens::wish(
        &access.tenant,
        query.token.as_deref(),
        &headers,
        query.consistency,
        query.max_staleness_ms,
    )?;
    let deadline = Deadline::of(started, query.deadline.unwrap_or(shared.config.read_timeout));
    let spaces = fan_out::spaces(&shared, &access, &place, &query.collections, deadline).await?;
    let scoring = shared.scoring.of(&shared.nodes, &access.tenant, deadline).await;
    query.fill(&scoring);
    let model = embed(&shared, &mut query, deadline).await?;
    let top_k = query.top_k;
    let diverse = Diverse::of(&mut query);
    let asking = Asking { shared: &shared, access: &access, spaces: &spaces, wish: &wish, deadline };
    let Found { mut response, seen, .. } = find(asking, &query, model).await?;
    let token = tokens::text(&access.tenant, seen)?;
    if let Some(diverse) = diverse {
        response.results = diverse.choose(&shared, response.results, false, deadline).await?;
        query.top_k = top_k;
    }
    let is_among = |found: &[v1::Scored]| {
        found.iter().any(|found| found.memory.as_ref().is_some_and(|memory| memory.id == id))
    };
    let was_among = is_among(&response.results);
    if query.situation.is_mobile {
        cap(&mut response.results);
    }
    let capped = was_among && !is_among(&response.results);
    answer(StatusCode::OK, &told(id, &query, response, capped, token)?)
}

fn told(
    id: String,
    query: &Query,
    response: v1::RecallResponse,
    capped: bool,
    token: String,
) -> Answer<WhyNot> {
    let v1::RecallResponse { results, traced, exact, index, .. } = response;
    let traced = traced.ok_or_else(|| {
        Problem::new(ErrorCode::Unavailable, "a node of an earlier version cannot tell; update all nodes")
    })?;
    let is_it = |found: &v1::Scored| found.memory.as_ref().is_some_and(|memory| memory.id == id);
    let place = results.iter().position(is_it).map(|at| at as u64 + 1);
    let count = results.len();
    let last = results.last().and_then(|found| {
        found.memory.as_ref().map(|memory| Last { id: memory.id.clone(), score: found.score })
    });
    let verdict = if capped { Verdict::Capped } else { verdict(place, query, &traced) };
    let detail = detail(verdict, place, query, &traced);
    let (rank, of) = (traced.rank, traced.passing);
    let scored = traced.scored.map(hit).transpose()?.map(|hit| Scored {
        rank,
        of,
        score: hit.score,
        parts: hit.parts,
        ranks: hit.ranks,
        why: hit.why,
    });
    Ok(WhyNot {
        id,
        verdict,
        detail,
        place,
        at: traced.at_us.map(Time),
        by: traced.by,
        unmet: traced
            .unmet
            .into_iter()
            .map(|v1::Unmet { condition, found }| Unmet { condition, found })
            .collect(),
        scored,
        last,
        results: count,
        exact,
        index,
        token,
    })
}

fn verdict(place: Option<u64>, query: &Query, traced: &v1::Traced) -> Verdict {
    if place.is_some() {
        return Verdict::Returned;
    }
    match traced.fate() {
        v1::Fate::Unknown => Verdict::Unknown,
        v1::Fate::Deleted => Verdict::Deleted,
        v1::Fate::Expired => Verdict::Expired,
        v1::Fate::Chunked => Verdict::Chunked,
        v1::Fate::Archived => Verdict::Archived,
        v1::Fate::Merged => Verdict::Merged,
        v1::Fate::Superseded => Verdict::Superseded,
        v1::Fate::Retracted => Verdict::Retracted,
        v1::Fate::Over => Verdict::Over,
        v1::Fate::Older => Verdict::HiddenByNewer,
        v1::Fate::NotThen => Verdict::NotThen,
        v1::Fate::Scored if !traced.unmet.is_empty() => Verdict::Filtered,
        v1::Fate::Scored if scores_too_low(query, traced) => Verdict::BelowMinScore,
        v1::Fate::Scored if is_diverse(query) && traced.rank <= u64::from(query.top_k) => {
            Verdict::LessDiverse
        }
        v1::Fate::Scored => Verdict::BelowTopK,
    }
}

fn is_diverse(query: &Query) -> bool {
    query.diversity.is_some_and(|diversity| diversity > 0.0)
}

fn scores_too_low(query: &Query, traced: &v1::Traced) -> bool {
    let score = traced.scored.as_ref().map_or(0.0, |scored| scored.score);
    query.min_score.is_some_and(|min_score| score < min_score)
}

fn detail(verdict: Verdict, place: Option<u64>, query: &Query, traced: &v1::Traced) -> String {
    let by = || match traced.by.as_slice() {
        [] => String::new(),
        ids => format!(" ({})", ids.join(", ")),
    };
    let at = || traced.at_us.map(|us| format!(" at {}", Time(us))).unwrap_or_default();
    let score = traced.scored.as_ref().map_or(0.0, |scored| scored.score);
    match verdict {
        Verdict::Returned => format!("it is returned, at place {}", place.unwrap_or_default()),
        Verdict::BelowTopK => format!(
            "it ranks {} of {} with a score of {score:.6}, and top_k is {}; ask for more, or see from parts and \
             ranks what it lacks",
            traced.rank, traced.passing, query.top_k
        ),
        Verdict::LessDiverse => format!(
            "it ranks {} of {} with a score of {score:.6}, but diversity prefers others, which are less like those \
             before them; lower diversity",
            traced.rank, traced.passing
        ),
        Verdict::Capped => format!(
            "it ranks {} of {} with a score of {score:.6}, but those before it are long enough for a mobile device; \
             leave situation.device out",
            traced.rank, traced.passing
        ),
        Verdict::BelowMinScore => format!(
            "it scores {score:.6}, below the min_score of {}; it ranks {} of {}",
            query.min_score.unwrap_or_default(),
            traced.rank,
            traced.passing
        ),
        Verdict::Filtered => {
            let conditions: Vec<&str> = traced.unmet.iter().map(|unmet| unmet.condition.as_str()).collect();
            format!("the filter leaves it out: it does not meet {}", conditions.join(" and "))
        }
        Verdict::Unknown => {
            "there is no memory with this id in this space; it was never stored here, or it was \
                             deleted so long ago that this is not remembered"
                .to_owned()
        }
        Verdict::Deleted => format!("it was deleted{}", at()),
        Verdict::Expired => format!("it expired{}", at()),
        Verdict::Chunked => {
            format!(
                "its text is long, so that its chunks are searched in its place{}; ask for one of them",
                by()
            )
        }
        Verdict::Archived => "it is archived; include_deprecated shows it".to_owned(),
        Verdict::Merged => {
            format!("another memory says the same and stands for it{}; include_deprecated shows it", by())
        }
        Verdict::Superseded => {
            format!("another memory has taken its place{}; include_deprecated shows it", by())
        }
        Verdict::Retracted => format!("it was taken back{}; include_deprecated shows it", at()),
        Verdict::Over => format!("what it states ended{}; include_deprecated shows it", at()),
        Verdict::HiddenByNewer => format!(
            "a newer memory may say otherwise{}; conflicts: \"mark\" shows both, and facts:resolve decides",
            by()
        ),
        Verdict::NotThen => {
            "it did not hold at the time that as_of names, happened later, or was not known then; leave as_of out for \
             now"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn scored(id: &str, score: f64) -> v1::Scored {
        let memory = v1::Memory { id: id.into(), ..v1::Memory::default() };
        v1::Scored { memory: Some(memory), score, parts: Some(v1::Parts::default()), ..v1::Scored::default() }
    }

    fn ask(body: Value, traced: v1::Traced) -> Value {
        let query = Query::read(body.to_string().as_bytes()).unwrap();
        let results = vec![scored("a", 0.9), scored("b", 0.7)];
        let response = v1::RecallResponse {
            results,
            traced: Some(traced),
            exact: true,
            ..v1::RecallResponse::default()
        };
        serde_json::to_value(told("记忆".into(), &query, response, false, "t".into()).unwrap()).unwrap()
    }

    fn fate(fate: v1::Fate) -> v1::Traced {
        v1::Traced { fate: fate.into(), ..v1::Traced::default() }
    }

    fn low() -> v1::Traced {
        v1::Traced { scored: Some(scored("记忆", 0.25)), rank: 7, passing: 9, ..fate(v1::Fate::Scored) }
    }

    #[test]
    fn every_fate_has_a_verdict_and_says_what_to_do() {
        let at_us = Some(1_683_554_160_000_000);
        let by = vec!["newer".to_owned()];
        for (traced, verdict, words) in [
            (fate(v1::Fate::Unknown), "unknown", "no memory with this id in this space"),
            (v1::Traced { at_us, ..fate(v1::Fate::Deleted) }, "deleted", "at 2023-05-08T13:56:00.000000Z"),
            (v1::Traced { at_us, ..fate(v1::Fate::Expired) }, "expired", "2023-05-08"),
            (v1::Traced { by: by.clone(), ..fate(v1::Fate::Chunked) }, "chunked", "(newer)"),
            (fate(v1::Fate::Archived), "archived", "include_deprecated"),
            (v1::Traced { by: by.clone(), ..fate(v1::Fate::Superseded) }, "superseded", "(newer)"),
            (v1::Traced { by: by.clone(), ..fate(v1::Fate::Merged) }, "merged", "stands for it (newer)"),
            (fate(v1::Fate::Retracted), "retracted", "include_deprecated"),
            (v1::Traced { at_us, ..fate(v1::Fate::Over) }, "over", "ended at 2023"),
            (v1::Traced { by, ..fate(v1::Fate::Older) }, "hidden_by_newer", "(newer)"),
            (fate(v1::Fate::NotThen), "not_then", "as_of"),
        ] {
            let told = ask(json!({"query": "茶"}), traced);
            assert_eq!(told["verdict"], verdict);
            assert!(told["detail"].as_str().unwrap().contains(words), "{told}");
            assert!(told.get("score").is_none() && told.get("place").is_none(), "{told}");
            assert_eq!((&told["id"], &told["last"]), (&json!("记忆"), &json!({"id": "b", "score": 0.7})));
        }
    }

    #[test]
    fn what_was_scored_is_told_with_its_rank() {
        let told = ask(json!({"query": "tea", "top_k": 2}), low());
        assert_eq!(
            (&told["verdict"], &told["rank"], &told["of"]),
            (&json!("below_top_k"), &json!(7), &json!(9))
        );
        assert_eq!(told["score"], 0.25);
        let told = ask(json!({"query": "tea", "min_score": 0.5}), low());
        assert_eq!(told["verdict"], "below_min_score");
        // What chooses first is told first; the rest is there too.
        let unmet = v1::Unmet {
            condition: r#"{"kind":{"$eq":"semantic"}}"#.into(),
            found: Some("\"episodic\"".into()),
        };
        let filtered = v1::Traced { unmet: vec![unmet], ..low() };
        let told = ask(json!({"query": "tea", "min_score": 0.5, "kinds": ["semantic"]}), filtered);
        assert_eq!((&told["verdict"], &told["rank"]), (&json!("filtered"), &json!(7)));
        assert_eq!(told["unmet"][0]["found"], "\"episodic\"");
        assert!(told["detail"].as_str().unwrap().contains("kind"), "{told}");
        let query = Query::read(br#"{"query": "x"}"#).unwrap();
        let response = v1::RecallResponse {
            results: vec![scored("a", 0.9), scored("b", 0.8)],
            traced: Some(v1::Traced { rank: 2, ..low() }),
            ..v1::RecallResponse::default()
        };
        let found = super::told("b".into(), &query, response, false, "t".into()).unwrap();
        assert_eq!((found.verdict, found.place), (Verdict::Returned, Some(2)));
    }

    #[test]
    fn what_diversity_leaves_out_is_told() {
        let traced = v1::Traced { rank: 2, ..low() };
        assert_eq!(ask(json!({"query": "tea", "diversity": 0.9}), traced.clone())["verdict"], "less_diverse");
        let query = Query::read(br#"{"query": "tea", "diversity": 0.9}"#).unwrap();
        let response = v1::RecallResponse { traced: Some(traced), ..v1::RecallResponse::default() };
        let capped = super::told("b".into(), &query, response, true, "t".into()).unwrap();
        assert_eq!(capped.verdict, Verdict::Capped);
    }

    #[test]
    fn a_node_that_cannot_tell_is_said() {
        let query = Query::read(br#"{"query": "x"}"#).unwrap();
        let problem =
            told("b".into(), &query, v1::RecallResponse::default(), false, "t".into()).err().unwrap();
        assert_eq!(problem.error.code, ErrorCode::Unavailable);
    }
}
