//! Whatever history made an image, it answers as the oracle says and as a fresh image does.

use super::oracle::{self, Stored};
use super::store::{Store, space};
use super::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) enum Change {
    Put(u64, Box<IndexRow>),
    /// The same text with other numbers, as feedback makes it.
    Touch(u64, u32),
    /// Another text, and all else the same.
    Rephrase(u64, &'static str),
    Remove(u64),
}

pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let seq = 1..14u64;
    let change = prop_oneof![
        5 => (seq.clone(), rows()).prop_map(|(seq, row)| Change::Put(seq, Box::new(row))),
        1 => (seq.clone(), 0..50u32).prop_map(|(seq, count)| Change::Touch(seq, count)),
        1 => (seq.clone(), prop::sample::select(vec!["red bicycle", "sunrise lake", "bicycle 北京"]))
            .prop_map(|(seq, text)| Change::Rephrase(seq, text)),
        2 => seq.prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 0..40)
}

pub(super) fn apply(stored: &mut Stored, image: &mut Image, change: &Change) -> (u64, Option<IndexRow>) {
    let (seq, row) = match change {
        Change::Put(seq, row) => (*seq, Some(IndexRow { id: format!("m{seq}"), ..IndexRow::clone(row) })),
        Change::Touch(seq, count) => {
            let touched =
                |row: &IndexRow| IndexRow { access_count: *count, pinned: !row.pinned, ..row.clone() };
            (*seq, stored.get(seq).map(touched))
        }
        Change::Rephrase(seq, text) => {
            let IndexRow { terms, terms_len, .. } = super::row("", text);
            (*seq, stored.get(seq).map(|row| IndexRow { terms, terms_len, ..row.clone() }))
        }
        Change::Remove(seq) => (*seq, None),
    };
    match &row {
        Some(row) => {
            stored.insert(seq, row.clone());
            image.put(seq, row);
            // Events may come twice.
            image.put(seq, row);
        }
        None => {
            stored.remove(&seq);
            image.remove(seq);
        }
    }
    (seq, row)
}

/// Scores of the image are f32 in places; those of the oracle are not.
const CLOSE: f64 = 1e-4;

pub(super) fn check(answer: &Answer, stored: &Stored, asked: &Asked) -> Result<(), TestCaseError> {
    let scores = oracle::scores(stored, asked);
    prop_assert!(answer.bound_met);
    let visible = scores.len() as u64;
    prop_assert!(
        answer.scored == visible || !answer.exact && answer.scored < visible,
        "{} {}",
        answer.scored,
        visible
    );
    let min_score = asked.min_score.unwrap_or(f64::NEG_INFINITY);
    let mut allowed: Vec<f64> = scores
        .iter()
        .filter(|(seq, score)| oracle::passes(&stored[seq], asked) && **score >= min_score - CLOSE)
        .map(|(_, score)| *score)
        .collect();
    allowed.sort_by(|a, b| b.total_cmp(a));
    let certain = allowed.iter().filter(|score| **score >= min_score + CLOSE).count();
    prop_assert!(
        answer.hits.len() >= certain.min(asked.top_k) && answer.hits.len() <= allowed.len().min(asked.top_k)
    );
    for (at, hit) in answer.hits.iter().enumerate() {
        let row = &stored[&hit.seq];
        prop_assert_eq!(&hit.id, &row.id);
        prop_assert!(oracle::passes(row, asked));
        prop_assert!(
            (hit.score - scores[&hit.seq]).abs() < CLOSE,
            "{} is not {}",
            hit.score,
            scores[&hit.seq]
        );
        prop_assert!(
            (hit.score - allowed[at]).abs() < CLOSE,
            "place {at}: {} is not {}",
            hit.score,
            allowed[at]
        );
        let part = |part: f64| (0.0..=1.0).contains(&part);
        let parts = hit.parts;
        prop_assert!(
            part(parts.relevance) && part(parts.cosine) && part(parts.keyword) && part(parts.recency)
        );
    }
    for pair in answer.hits.windows(2) {
        prop_assert!((pair[0].score, pair[0].seq) > (pair[1].score, pair[1].seq));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_image_is_the_state(changes in changes(), asked in prop::collection::vec(queries(), 1..6)) {
        let (store, space) = (Store::default(), space("ann"));
        let (mut stored, mut image) = (BTreeMap::new(), Image::new());
        for change in &changes {
            let change = apply(&mut stored, &mut image, change);
            store.write(&space, &[change]);
        }
        let mut fresh = Image::new();
        stored.iter().for_each(|(seq, row)| fresh.put(*seq, row));
        fresh.shrink();
        for image in [&image, &fresh] {
            let report = verify(image, &space, &store).unwrap();
            prop_assert!(report.is_clean(), "{:?}", report);
            prop_assert_eq!(image.len(), stored.len());
        }
        // A graph that has all of them leaves nothing out.
        let mut graphed = Image::new();
        stored.iter().for_each(|(seq, row)| graphed.put(*seq, row));
        graphed.build_graphs();
        for asked in &asked {
            let terms = asked.terms();
            let query = asked.query(&terms);
            let answer = image.search(&query).unwrap();
            prop_assert!(answer.exact);
            check(&answer, &stored, asked)?;
            check(&graphed.search(&query).unwrap(), &stored, asked)?;
            check(&graphed.search(&Query { explain: false, ..query }).unwrap(), &stored, asked)?;
            let again = fresh.search(&query).unwrap();
            prop_assert_eq!(answer.hits.len(), again.hits.len());
            for (a, b) in answer.hits.iter().zip(&again.hits) {
                prop_assert!((a.score - b.score).abs() < 1e-9, "{:?} {:?}", a, b);
            }
        }
    }

    /// What is forgotten in an image is found by the comparison with the store.
    #[test]
    fn a_missed_event_is_found(changes in changes(), missed in (1..14u64, rows())) {
        let (store, space) = (Store::default(), space("ann"));
        let (mut stored, mut image) = (BTreeMap::new(), Image::new());
        for change in &changes {
            let change = apply(&mut stored, &mut image, change);
            store.write(&space, &[change]);
        }
        let row = IndexRow { id: format!("m{}", missed.0), ..missed.1 };
        let same = stored.get(&missed.0) == Some(&row);
        store.write(&space, &[(missed.0, Some(row))]);
        prop_assert_eq!(verify(&image, &space, &store).unwrap().is_clean(), same);
    }

    /// Partitions that share counts, speakers and constants answer as one: each memory with the score that it
    /// has in the whole, however it is cut.
    #[test]
    fn partitions_answer_as_one(rows in prop::collection::vec(rows(), 0..30), asked in queries(), cut in 1..9u64) {
        let asked = Asked { min_score: None, top_k: 50, ..asked };
        let mut parts: Vec<Image> = (0..cut).map(|_| Image::new()).collect();
        let mut whole = Image::new();
        for (seq, row) in (1u64..).zip(rows) {
            let row = IndexRow { id: format!("m{seq}"), ..row };
            // Sessions stay whole.
            let home = row.session.as_ref().map_or(seq, |session| u64::from(session.as_bytes()[1]));
            parts[(home % cut) as usize].put(seq, &row);
            whole.put(seq, &row);
        }
        let terms = asked.terms();
        let query = asked.query(&terms);
        let mut corpus = holdfast_core::score::CorpusStats::default();
        parts.iter().for_each(|part| corpus.merge(&part.corpus(&query).unwrap()));
        let speakers: std::collections::BTreeSet<String> = parts.iter().flat_map(|part| part.named(&query)).collect();
        let speakers: Vec<String> = speakers.into_iter().collect();
        let mut stats = holdfast_core::score::Stats::default();
        parts.iter().for_each(|part| stats.merge(&part.stats(&query, &corpus).unwrap()));
        let constants = holdfast_core::score::Constants::from_stats(&stats, &query.prior, corpus.query_weight());
        let query = Query { speakers: Some(&speakers), ..query };
        let hits: HashMap<String, f64> = parts.iter()
            .flat_map(|part| part.search_with(&query, &corpus, &constants).unwrap().hits)
            .map(|hit| (hit.id, hit.score))
            .collect();
        let want = whole.search(&Query { speakers: None, ..query }).unwrap().hits;
        prop_assert_eq!(hits.len(), want.len());
        for hit in &want {
            let score = hits.get(&hit.id).copied().unwrap_or(f64::NAN);
            prop_assert!((score - hit.score).abs() < 1e-6, "{:?} {}", hit, score);
        }
    }
}
