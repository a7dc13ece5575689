//! Results that are not all alike: maximal marginal relevance over more candidates than are answered.

use super::parse::Query;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::shared::Shared;
use half::f16;
use holdfast_core::score::{diversify, overlap, words};
use holdfast_proto::v1;

/// How many candidates there are for each result,
const DEPTH: u32 = 4;
/// at least,
const DEPTH_MIN: u32 = 40;
/// and at most: with contents of 64 KiB, metadata of 16 KiB and vectors of 4,096 dimensions they still
/// fit into one message.
const DEPTH_MAX: u32 = 160;
/// Most results that can be made to differ.
pub(super) const DIVERSE_TOP_K_MAX: u32 = 100;
/// Lanes of a dot product.
const LANES: usize = 8;

/// A recall whose results shall differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Diverse {
    diversity: f64,
    /// How many results are wanted.
    top_k: u32,
}

impl Diverse {
    /// Makes a query ask for candidates, if its results shall differ.
    pub(super) fn of(query: &mut Query) -> Option<Self> {
        let diversity = query.diversity.filter(|diversity| *diversity > 0.0)?;
        let top_k = query.top_k;
        query.top_k = top_k.saturating_mul(DEPTH).clamp(DEPTH_MIN, DEPTH_MAX);
        query.with_vectors = true;
        Some(Self { diversity, top_k })
    }

    /// Chooses the results among candidates that are ordered by their score. Off the threads that
    /// serve: it compares each result with each candidate.
    pub(super) async fn choose(
        self,
        shared: &Shared,
        candidates: Vec<v1::Scored>,
        explain: bool,
        deadline: Deadline,
    ) -> Answer<Vec<v1::Scored>> {
        shared.work.run(deadline, move || self.chosen(candidates, explain)).await
    }

    fn chosen(self, candidates: Vec<v1::Scored>, explain: bool) -> Vec<v1::Scored> {
        let scores: Vec<f64> = candidates.iter().map(|candidate| candidate.score).collect();
        let said: Vec<Said> = candidates.iter().map(Said::of).collect();
        let like = |one: usize, other: usize| said[one].likeness(&said[other]);
        let order = diversify(&scores, self.diversity, self.top_k as usize, like);
        let mut why: Vec<Option<String>> = Vec::new();
        if explain {
            why = (0..order.len()).map(|at| reason(&candidates, &order[..=at], like)).collect();
        }
        let mut rest: Vec<Option<v1::Scored>> = candidates.into_iter().map(Some).collect();
        let mut results: Vec<v1::Scored> =
            order.iter().filter_map(|at| rest.get_mut(*at).and_then(Option::take)).collect();
        for (result, why) in results.iter_mut().zip(why) {
            result.why.extend(why);
        }
        results
    }
}

/// Why the last one of an order stands there.
fn reason(candidates: &[v1::Scored], order: &[usize], like: impl Fn(usize, usize) -> f64) -> Option<String> {
    let (last, before) = order.split_last()?;
    let rank = last + 1;
    let nearest =
        before.iter().map(|at| (*at, like(*at, *last))).max_by(|one, other| one.1.total_cmp(&other.1));
    let (at, likeness) = nearest?;
    let id = candidates[at].memory.as_ref().map_or("", |memory| memory.id.as_str());
    Some(format!(
        "diversity: it ranks {rank} by score; of those before it, it is most like {id} ({likeness:.2})"
    ))
}

/// What is compared of a memory.
struct Said {
    /// The model and the vector, where there is one.
    vector: Option<(String, Vec<f32>)>,
    words: Vec<u64>,
}

impl Said {
    fn of(scored: &v1::Scored) -> Self {
        let memory = scored.memory.as_ref();
        let model = memory.and_then(|memory| memory.embedding_model.clone());
        let (halves, _) = scored.vector.as_chunks::<2>();
        let values: Vec<f32> = halves.iter().map(|half| f16::from_le_bytes(*half).to_f32()).collect();
        Self {
            vector: model.map(|model| (model, values)).filter(|(_, values)| !values.is_empty()),
            words: memory.map(|memory| words(&memory.content)).unwrap_or_default(),
        }
    }

    /// The cosine of two vectors of one model, at least 0; else the share of common words.
    fn likeness(&self, other: &Self) -> f64 {
        match (&self.vector, &other.vector) {
            (Some((model, one)), Some((its, two))) if model == its && one.len() == two.len() => {
                f64::from(dot(one, two)).clamp(0.0, 1.0)
            }
            _ => overlap(&self.words, &other.words),
        }
    }
}

/// Sums in lanes, which the compiler can do side by side.
fn dot(one: &[f32], two: &[f32]) -> f32 {
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (two, two_rest) = two.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for (a, b) in one.iter().zip(two) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    let rest: f32 = one_rest.iter().zip(two_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn query(body: Value) -> Query {
        Query::read(body.to_string().as_bytes()).unwrap()
    }

    fn candidate(id: &str, content: &str, score: f64, vector: &[f32]) -> v1::Scored {
        let memory = v1::Memory {
            id: id.into(),
            content: content.into(),
            embedding_model: (!vector.is_empty()).then(|| "m".into()),
            ..v1::Memory::default()
        };
        let vector = vector.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
        v1::Scored { memory: Some(memory), score, vector, ..v1::Scored::default() }
    }

    fn ids(results: &[v1::Scored]) -> Vec<&str> {
        results.iter().map(|result| result.memory.as_ref().unwrap().id.as_str()).collect()
    }

    #[test]
    fn without_diversity_nothing_changes() {
        for body in [json!({"query": "q"}), json!({"query": "q", "diversity": 0})] {
            let mut query = query(body);
            assert_eq!(Diverse::of(&mut query), None);
            assert_eq!((query.top_k, query.with_vectors), (10, false));
        }
    }

    #[test]
    fn the_candidates_are_bounded() {
        for (top_k, depth) in [(1, 40), (10, 40), (30, 120), (50, 160), (100, 160)] {
            let mut query = query(json!({"query": "q", "diversity": 0.5, "top_k": top_k}));
            let diverse = Diverse::of(&mut query).unwrap();
            assert_eq!((diverse.top_k, query.top_k, query.with_vectors), (top_k, depth, true));
        }
    }

    #[test]
    fn a_dot_product_has_every_dimension() {
        for dims in [0, 1, 7, 8, 9, 16, 19] {
            let one: Vec<f32> = (0..dims).map(|at| at as f32).collect();
            let sum: f32 = one.iter().map(|value| value * value).sum();
            assert_eq!(dot(&one, &one), sum, "{dims}");
        }
    }

    #[test]
    fn what_is_alike_comes_later() {
        let diverse = Diverse { diversity: 0.5, top_k: 2 };
        let by_vector = vec![
            candidate("a", "x", 0.9, &[1.0, 0.0]),
            candidate("b", "y", 0.8, &[1.0, 0.0]),
            candidate("c", "z", 0.5, &[0.0, 1.0]),
        ];
        let chosen = diverse.chosen(by_vector, true);
        assert_eq!(ids(&chosen), ["a", "c"]);
        assert!(chosen[0].why.is_empty());
        assert!(chosen[1].why[0].contains("ranks 3 by score") && chosen[1].why[0].contains("like a (0.00)"));
        let by_words = vec![
            candidate("甲", "我喜欢喝绿茶", 0.9, &[]),
            candidate("乙", "我喜欢喝绿茶。", 0.8, &[1.0]),
            candidate("丙", "明天去北京", 0.5, &[]),
        ];
        assert_eq!(ids(&diverse.chosen(by_words, false)), ["甲", "丙"]);
        assert!(diverse.chosen(Vec::new(), true).is_empty());
        // Opposite and odd vectors are unlike, and no trouble.
        let odd = vec![
            candidate("a", "", f64::NAN, &[f32::NAN]),
            candidate("b", "", 0.8, &[-1.0]),
            candidate("c", "", 0.5, &[1.0]),
        ];
        assert_eq!(ids(&Diverse { diversity: 1.0, top_k: 3 }.chosen(odd, true)).len(), 3);
    }
}
