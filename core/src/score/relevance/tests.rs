#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::{Bm25, CorpusStats, NONE, NeighbourWeights, Neighbours, Prior, Stats, lift, sample};
use super::*;

/// One row as a test writes it: session, flags, speaker, term frequencies, length, cosine.
#[derive(Debug, Clone)]
struct Row {
    session: u32,
    flags: u8,
    speaker: u32,
    tf: [u32; 2],
    len: u32,
    cosine: f32,
}

/// A partition with its rows laid out as columns.
struct Partition {
    rows: Vec<(usize, Row)>,
    flags: Vec<u8>,
    speaker: Vec<u32>,
    lens: Vec<u32>,
    cosines: Vec<f32>,
    links: Neighbours,
}

impl Partition {
    fn new(rows: Vec<(usize, Row)>) -> Self {
        let session: Vec<u32> = rows.iter().map(|(_, r)| r.session).collect();
        let order: Vec<(i64, u64)> = rows.iter().map(|(n, _)| (*n as i64, 0)).collect();
        Self {
            flags: rows.iter().map(|(_, r)| r.flags).collect(),
            speaker: rows.iter().map(|(_, r)| r.speaker).collect(),
            lens: rows.iter().map(|(_, r)| r.len).collect(),
            cosines: rows.iter().map(|(_, r)| r.cosine).collect(),
            links: Neighbours::build(&session, &order),
            rows,
        }
    }

    fn view(&self) -> Rows<'_> {
        Rows::new(&self.flags, self.links.prev(), self.links.next(), &self.speaker).unwrap()
    }

    fn postings(&self, term: usize) -> Vec<(u32, u32)> {
        (0..)
            .zip(&self.rows)
            .filter(|(_, (_, r))| r.tf[term] > 0 && r.flags & flag::LIVE != 0)
            .map(|(row, (_, r))| (row, r.tf[term]))
            .collect()
    }

    fn corpus(&self) -> CorpusStats {
        let live = || self.rows.iter().filter(|(_, r)| r.flags & flag::LIVE != 0);
        CorpusStats {
            rows: live().count() as u64,
            total_len: live().map(|(_, r)| u64::from(r.len)).sum(),
            df: (0..2).map(|term| self.postings(term).len() as u64).collect(),
        }
    }

    fn lifted(&self, corpus: &CorpusStats) -> Vec<f32> {
        let mut bm25 = vec![0.0; self.rows.len()];
        for (term, idf) in corpus.idf().into_iter().enumerate() {
            Bm25::default().accumulate(idf, self.postings(term), &self.lens, corpus.average_len(), &mut bm25);
        }
        let mut out = Vec::new();
        lift(&self.view(), &bm25, &NeighbourWeights::default(), &mut out);
        out
    }
}

/// S of every row of a set split over `count` partitions by whole sessions.
fn scores(rows: &[Row], count: usize) -> Vec<f64> {
    let mut parts: Vec<Vec<(usize, Row)>> = vec![Vec::new(); count];
    for (n, row) in rows.iter().enumerate() {
        let home = if row.session == NONE { n } else { row.session as usize };
        parts[home % count].push((n, row.clone()));
    }
    let parts: Vec<Partition> = parts.into_iter().map(Partition::new).collect();
    let mut corpus = CorpusStats::default();
    for part in &parts {
        corpus.merge(&part.corpus());
    }
    let mut stats = Stats::default();
    for part in &parts {
        let view = part.view();
        let hashes: Vec<u64> = part.rows.iter().map(|(n, _)| *n as u64).collect();
        let mut own = Stats::default();
        own.add_lifted(&view, &part.lifted(&corpus));
        own.add_cosines(sample(&view, &hashes).into_iter().map(|row| part.cosines[row as usize]));
        stats.merge(&own);
    }
    let constants = Constants::from_stats(&stats, &Prior::USE, corpus.query_weight());
    let relevance = Relevance::new(&constants, &Recipe::USE, Addressed::Speaker(1));
    let mut out = vec![0.0; rows.len()];
    for part in &parts {
        let mut s = Vec::new();
        relevance.of_rows(&part.view(), &part.lifted(&corpus), Some(&part.cosines), &mut s);
        for ((n, _), s) in part.rows.iter().zip(s) {
            out[*n] = s;
        }
    }
    out
}

fn row() -> impl Strategy<Value = Row> {
    let session = prop_oneof![4 => 0u32..6, 1 => Just(NONE)];
    let bits = prop::sample::select(vec![9u8, 9, 9, 11, 13, 1, 8, 0]);
    (session, bits, 0u32..3, [0u32..3, 0u32..2], 1u32..40, -1.0f32..1.0).prop_map(
        |(session, flags, speaker, tf, len, cosine)| Row { session, flags, speaker, tf, len, cosine },
    )
}

proptest! {
    #[test]
    fn a_split_set_scores_as_the_whole(rows in prop::collection::vec(row(), 0..60)) {
        let whole = scores(&rows, 1);
        for count in [2, 8] {
            for (a, b) in whole.iter().zip(scores(&rows, count)) {
                prop_assert!((a - b).abs() < 1e-6, "{} and {} in {} partitions", a, b, count);
            }
        }
    }

    #[test]
    fn dead_rows_change_nothing(rows in prop::collection::vec(row(), 0..60)) {
        let live = |r: &&Row| r.flags & flag::LIVE != 0;
        let all = scores(&rows, 1);
        let alive: Vec<Row> = rows.iter().filter(live).cloned().collect();
        let mut expected = scores(&alive, 1).into_iter();
        for (row, s) in rows.iter().zip(all) {
            let want = if live(&row) { expected.next().unwrap() } else { 0.0 };
            prop_assert_eq!(s, want);
        }
    }

    #[test]
    fn monotone_in_cosine_and_lift_and_always_finite(
        c in any::<f32>(), more_c in 0.0f32..2.0,
        l in 0.0f32..50.0, more_l in 0.0f32..50.0,
        m in 0.0..3.0f64, n in 0u64..1_000_000,
    ) {
        let stats = Stats { n, sum_l: n as f64, sumsq_l: 4.0 * n as f64, ..Stats::default() };
        let constants = Constants::from_stats(&stats, &Prior::USE, 9.0);
        let relevance = Relevance::new(&constants, &Recipe::USE, Addressed::Nobody);
        let of = |c, l| relevance.of(Some(c), l, m);
        prop_assert!((0.0..=1.0).contains(&of(c, l)));
        prop_assert!((0.0..=1.0).contains(&of(c, f32::from_bits(l.to_bits() << 1))));
        prop_assert!(of(c, l + more_l) >= of(c, l));
        if c.is_finite() {
            prop_assert!(of(c + more_c, l) >= of(c, l));
        }
    }
}

fn small_space() -> Relevance {
    Relevance::new(
        &Constants::from_stats(&Stats::default(), &Prior::USE, 3.0),
        &Recipe::USE,
        Addressed::Nobody,
    )
}

/// S of the rows of a small space for a query of three terms: how many of them each row has, and
/// its cosine.
fn in_small_space(rows: &[(u32, f32)]) -> Vec<f64> {
    let n = rows.len() as u64;
    let has = |term: u32| rows.iter().filter(|(terms, _)| *terms > term).count() as u64;
    let corpus = CorpusStats { rows: n, total_len: 6 * n, df: (0..3).map(has).collect() };
    let idf = corpus.idf();
    let bm25 = |terms: u32| -> f32 {
        let part = Bm25::default().tf(1, 6, corpus.average_len());
        idf.iter().take(terms as usize).map(|idf| idf * part).sum()
    };
    let flags = vec![flag::LIVE | flag::VECTOR; rows.len()];
    let none = vec![NONE; rows.len()];
    let view = Rows::new(&flags, &none, &none, &none).unwrap();
    let lifted: Vec<f32> = rows.iter().map(|(terms, _)| bm25(*terms)).collect();
    let cosines: Vec<f32> = rows.iter().map(|(_, cosine)| *cosine).collect();
    let mut stats = Stats::default();
    stats.add_lifted(&view, &lifted);
    stats.add_cosines(cosines.iter().copied());
    let constants = Constants::from_stats(&stats, &Prior::USE, corpus.query_weight());
    let mut out = Vec::new();
    Relevance::new(&constants, &Recipe::USE, Addressed::Nobody).of_rows(
        &view,
        &lifted,
        Some(&cosines),
        &mut out,
    );
    out
}

#[test]
fn in_a_space_of_one_or_three_a_match_is_high_and_garbage_low() {
    let alone = in_small_space(&[(3, 0.7)]);
    assert!(alone[0] > 0.8, "{alone:?}");
    let garbage = in_small_space(&[(0, 0.1)]);
    assert!(garbage[0] < 0.05, "{garbage:?}");
    let three = in_small_space(&[(0, 0.1), (3, 0.7), (1, 0.2)]);
    assert!(three[1] > 0.9, "{three:?}");
    assert!(three[0] < 0.05 && three[2] < 0.5, "{three:?}");
    assert!(in_small_space(&[]).is_empty());
}

#[test]
fn odd_numbers_are_average_or_nothing() {
    let s = small_space();
    let average = s.of(None, 0.0, 0.0);
    assert_eq!(s.of(Some(f32::NAN), 0.0, 0.0), average);
    assert_eq!(s.of(Some(f32::INFINITY), f32::NAN, 0.0), average);
    assert_eq!(s.of(None, -5.0, 0.0), average);
    assert!(s.of(Some(2.0), f32::INFINITY, 0.0) <= 1.0);
    assert_eq!(s.of(Some(7.0), 0.0, 0.0), s.of(Some(1.0), 0.0, 0.0));
}

#[test]
fn the_speaker_match_needs_the_right_row() {
    let flags = [flag::LIVE, flag::LIVE | flag::USER];
    let none = [NONE; 2];
    let rows = Rows::new(&flags, &none, &none, &[5, NONE]).unwrap();
    let constants = Constants::from_stats(&Stats::default(), &Prior::USE, 3.0);
    let of = |addressed, row| Relevance::new(&constants, &Recipe::USE, addressed).speaker_match(&rows, row);
    assert_eq!(of(Addressed::Speaker(5), 0), 2.0);
    assert_eq!(of(Addressed::Speaker(5), 1), 0.0);
    assert_eq!(of(Addressed::Asker, 1), 3.0);
    assert_eq!(of(Addressed::Asker, 0), 0.0);
    assert_eq!(of(Addressed::Nobody, 1), 0.0);
}

#[test]
fn without_vectors_the_term_drops_out() {
    let flags = [flag::LIVE, flag::LIVE | flag::VECTOR];
    let none = [NONE; 2];
    let rows = Rows::new(&flags, &none, &none, &none).unwrap();
    let s = small_space();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    s.of_rows(&rows, &[1.0, 1.0], Some(&[0.9, 0.9]), &mut with);
    s.of_rows(&rows, &[1.0, 1.0], None, &mut without);
    assert_eq!(without[0], without[1]);
    assert_eq!(with[0], without[0], "a row without a vector is not judged by one");
    assert!(with[1] > with[0]);
}

#[test]
fn vector_and_keyword_alone() {
    assert_eq!(vector_relevance(Some(0.5)), 0.5);
    assert_eq!(vector_relevance(Some(-0.5)), 0.0);
    assert_eq!(vector_relevance(Some(f32::NAN)), 0.0);
    assert_eq!(vector_relevance(Some(f32::INFINITY)), 1.0);
    assert_eq!(vector_relevance(None), 0.0);
    assert_eq!(keyword_relevance(1.0, 4.0), 0.25);
    for (bm25, sum) in [(f32::NAN, 1.0), (1.0, f32::NAN), (1.0, 0.0), (-1.0, 1.0)] {
        assert_eq!(keyword_relevance(bm25, sum), 0.0);
    }
    assert_eq!(keyword_relevance(9.0, 4.0), 1.0);
}
