//! Graphs answer as the scan does, near enough, and come and go while recalls and writes go on.

use super::store::{Store, space};
use super::*;
use holdfast_core::filter::Filter;
use holdfast_core::score::Profile;
use holdfast_core::space::SpaceKey;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const DIMS: usize = 32;
const CLUSTERS: usize = 40;
/// From so many vectors on the spaces of these tests have a graph.
const GRAPH_FROM: usize = 600;

pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn with_graphs(budget_bytes: usize) -> Spaces {
    Spaces::with_indices(budget_bytes, IndexSettings { graph_from: GRAPH_FROM, ..IndexSettings::default() })
}

pub(super) fn without_graphs() -> Spaces {
    let settings = IndexSettings { choice: IndexChoice::Exact, ..IndexSettings::default() };
    Spaces::with_indices(usize::MAX, settings)
}

/// Vectors in clusters, as embeddings are; the same for the same number.
pub(super) fn vector(number: u64) -> Vec<f32> {
    let mut centre = StdRng::seed_from_u64(number % CLUSTERS as u64);
    let mut own = StdRng::seed_from_u64(1_000 + number);
    (0..DIMS).map(|_| centre.random_range(-1.0..1.0f32) + 0.6 * own.random_range(-1.0..1.0f32)).collect()
}

pub(super) fn placed(seq: u64) -> IndexRow {
    let mut random = StdRng::seed_from_u64(seq);
    let event_us = -HOUR_US * random.random_range(0..500);
    IndexRow {
        vector: Some(Vector::quantise(&vector(seq)).unwrap()),
        importance: f32::from(random.random_range(0..=10u8)) / 10.0,
        access_count: random.random_range(0..4),
        strength_milli: random.random_range(100..5_000),
        session: Some(format!("s{}", seq / 10)),
        event_us,
        created_us: event_us,
        last_access_us: event_us,
        older: random.random_bool(0.05),
        metadata: format!("{{\"n\":{}}}", seq % 100),
        ..row(&format!("m{seq}"), TEXTS[random.random_range(0..TEXTS.len())])
    }
}

pub(super) fn write(spaces: &Spaces, store: &Store, space: &SpaceKey, seqs: impl IntoIterator<Item = u64>) {
    let changes: Vec<_> = seqs.into_iter().map(|seq| (seq, Some(placed(seq)))).collect();
    let batch = spaces.open_batch();
    batch.deliver(&store.write(space, &changes));
}

pub(super) fn remove(spaces: &Spaces, store: &Store, space: &SpaceKey, seqs: impl IntoIterator<Item = u64>) {
    let changes: Vec<_> = seqs.into_iter().map(|seq| (seq, None)).collect();
    let batch = spaces.open_batch();
    batch.deliver(&store.write(space, &changes));
}

pub(super) fn assert_clean(image: &SharedImage, space: &SpaceKey, store: &Store) {
    let report = verify(&image.read(), space, store).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

pub(super) fn plain(vector: &[f32]) -> Query<'_> {
    Query {
        vector: Some(vector),
        relevance: RelevanceMode::Vector,
        profile: Profile::Relevance,
        include_deprecated: true,
        ..Query::default()
    }
}

/// How many of the best of a scan an index finds, and that it scores what it finds as the scan does.
pub(super) fn compare(index: &str, indexed: &Image, scanned: &Image, query: &Query<'_>) -> (usize, usize) {
    let (got, want) = (indexed.search(query).unwrap(), scanned.search(query).unwrap());
    assert!(want.exact && want.index == "exact");
    assert!(!got.exact && got.bound_met && got.index == index, "{got:?}");
    assert!(got.hits.len() <= want.hits.len() && got.constraints_total == want.constraints_total);
    let scores: BTreeMap<u64, f64> = want.hits.iter().map(|hit| (hit.seq, hit.score)).collect();
    for hit in &got.hits {
        assert!(scores.get(&hit.seq).is_none_or(|score| (score - hit.score).abs() < 1e-9), "{hit:?}");
    }
    (got.hits.iter().filter(|hit| scores.contains_key(&hit.seq)).count(), want.hits.len())
}

#[test]
fn a_graph_finds_what_the_scan_finds() {
    let (graphed, scanned) = (with_graphs(1 << 30), without_graphs());
    let (store, space) = (Store::default(), space("ann"));
    write(&graphed, &store, &space, 1..=4_000);
    let scan = scanned.get(&space, &store, soon()).unwrap();
    let graph = graphed.get(&space, &store, soon()).unwrap();
    graphed.settle_graphs();
    assert_eq!((graphed.usage().graphs, graphed.usage().graphs_built), (1, 1));
    assert_eq!(graphed.usage().bytes, graph.read().bytes());
    assert_clean(&graph, &space, &store);

    finds_what_the_scan_finds("hnsw", &graph.read(), &scan.read());
}

/// Asks in all ways that change what is near enough.
pub(super) fn finds_what_the_scan_finds(index: &str, indexed: &Image, scan: &Image) {
    let filters =
        [json!({}), json!({"metadata.n": {"$lt": 30}}), json!({"metadata.n": 7}), json!({"session": "s9"})];
    let filters = filters.map(|filter| Filter::parse(&filter).unwrap());
    let terms = holdfast_core::text::analyze_query("red bicycle").terms;
    let mut found = BTreeMap::<&str, (usize, usize)>::new();
    for number in 0..24u64 {
        let vector = vector(10_000 + number);
        for profile in Profile::ALL {
            for relevance in [RelevanceMode::Fused, RelevanceMode::Vector] {
                let query = Query {
                    text: "red bicycle",
                    terms: &terms,
                    relevance,
                    profile,
                    filter: filters.get(number as usize % 5),
                    include_deprecated: number % 7 == 0,
                    min_score: (number % 11 == 0).then_some(0.5),
                    top_k: if number % 3 == 0 { 30 } else { 10 },
                    as_of: (number % 6 == 0).then_some(AsOf {
                        valid_us: -20 * HOUR_US,
                        recorded_us: 0,
                        held: held(),
                    }),
                    beside: Beside { constraints: 3, stating: 0 },
                    ..plain(&vector)
                };
                let (hits, all) = compare(index, indexed, scan, &query);
                let sum = found.entry(profile.name()).or_default();
                *sum = (sum.0 + hits, sum.1 + all);
            }
        }
        let (hits, all) = compare(index, indexed, scan, &plain(&vector));
        let sum = found.entry("nearest").or_default();
        *sum = (sum.0 + hits, sum.1 + all);
    }
    for (name, (hits, all)) in found {
        assert!(all > 100 && hits * 100 >= all * 98, "{name}: {hits} of {all}");
    }
}

#[test]
fn the_nearest_alone_are_found_without_a_look_at_the_others() {
    let (spaces, store, space) = (with_graphs(1 << 30), Store::default(), space("ann"));
    write(&spaces, &store, &space, 1..=2_000);
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.settle_graphs();
    let (image, vector) = (image.read(), vector(7));
    let answer = image.search(&plain(&vector)).unwrap();
    assert!(answer.scored < 400 && answer.hits[0].seq == 7, "{answer:?}");
    assert!((answer.hits[0].parts.cosine - 1.0).abs() < 1e-3);
    // Nothing passes: the loop over the rows says so.
    let nobody = Filter::parse(&json!({"agent": "nobody"})).unwrap();
    let none = image.search(&Query { filter: Some(&nobody), ..plain(&vector) }).unwrap();
    assert!(none.hits.is_empty() && none.bound_met);
    // Few pass, far from the query: they are found all the same.
    let few = Filter::parse(&json!({"session": "s90"})).unwrap();
    let few = image.search(&Query { filter: Some(&few), ..plain(&vector) }).unwrap();
    assert_eq!(few.hits.len(), 10);
    // Vectors of another model have no graph, and there are none here.
    let other = image.search(&Query { vector_model: 1, ..plain(&vector) }).unwrap();
    assert!(other.exact && other.index == "exact");
    // A deadline that has passed: what the graph knows, and that it may not be all.
    let late = Query { deadline: Some(Instant::now()), profile: Profile::Ebbinghaus, ..plain(&vector) };
    let late = image.search(&late).unwrap();
    assert!(!late.bound_met && !late.exact && !late.hits.is_empty(), "{late:?}");
}

#[test]
fn spaces_change_their_index_while_writes_and_recalls_go_on() {
    let (spaces, store, space) = (with_graphs(1 << 30), Store::default(), space("ann"));
    let written = AtomicU64::new(300);
    write(&spaces, &store, &space, 1..=300);
    let (mut scans, mut graphs) = (0, 0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for begin in (301..=2_400).step_by(20) {
                write(&spaces, &store, &space, begin..begin + 20);
                written.store(begin + 19, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        while !writing.is_finished() {
            let newest = written.load(Ordering::SeqCst);
            let image = spaces.get(&space, &store, soon()).unwrap();
            let vector = vector(newest);
            let answer = image.read().search(&plain(&vector)).unwrap();
            // What was acknowledged is found, in the graph or behind it.
            assert_eq!(answer.hits[0].seq, newest, "{answer:?}");
            *if answer.exact { &mut scans } else { &mut graphs } += 1;
        }
    });
    assert!(scans > 0, "{scans} {graphs}");
    spaces.settle_graphs();
    let image = spaces.get(&space, &store, soon()).unwrap();
    assert_eq!(image.read().search(&plain(&vector(1))).unwrap().index, "hnsw");
    assert_clean(&image, &space, &store);
}

#[test]
fn what_is_deleted_is_gone_at_once_and_leaves_the_graph_in_time() {
    let (spaces, store, space) = (with_graphs(1 << 30), Store::default(), space("ann"));
    write(&spaces, &store, &space, 1..=2_000);
    let image = spaces.get(&space, &store, soon()).unwrap();
    // While the graph is being built, or just after.
    remove(&spaces, &store, &space, (1..=2_000).filter(|seq| seq % 10 == 0));
    spaces.settle_graphs();
    assert_eq!(spaces.usage().graphs_built, 1);
    let search = |seq: u64| image.read().search(&plain(&vector(seq))).unwrap();
    assert!((10..=500).step_by(10).all(|seq| search(seq).hits.iter().all(|hit| hit.seq % 10 != 0)));
    let before = spaces.usage().graph_bytes;
    // Three in ten now.
    remove(&spaces, &store, &space, (1..=2_000).filter(|seq| matches!(seq % 10, 1..=3)));
    assert!(search(11).hits.iter().all(|hit| !matches!(hit.seq % 10, 0..=3)));
    spaces.settle_graphs();
    let usage = spaces.usage();
    assert_eq!((usage.graphs, usage.graphs_built, usage.worn), (1, 2, 0));
    assert!(usage.graph_bytes < before, "{usage:?} {before}");
    assert_eq!(search(14).hits[0].seq, 14);
    assert_clean(&image, &space, &store);
}

#[test]
fn a_space_that_became_small_is_scanned_again() {
    let (spaces, store, space) = (with_graphs(1 << 30), Store::default(), space("ann"));
    write(&spaces, &store, &space, 1..=600);
    let texts: Vec<_> =
        (1_001..=1_600).map(|seq| (seq, Some(IndexRow { vector: None, ..placed(seq) }))).collect();
    let batch = spaces.open_batch();
    batch.deliver(&store.write(&space, &texts));
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!(image.read().search(&plain(&vector(599))).unwrap().index, "hnsw");
    remove(&spaces, &store, &space, 1..=301);
    spaces.settle_graphs();
    assert_eq!(image.read().search(&plain(&vector(599))).unwrap().index, "exact");
    let usage = spaces.usage();
    assert_eq!((usage.images, usage.worn, usage.graphs), (1, 0, 0));
}

#[test]
fn a_space_may_leave_while_its_graph_is_built() {
    let (spaces, store, space) = (with_graphs(1 << 30), Store::default(), space("ann"));
    write(&spaces, &store, &space, 1..=1_500);
    for round in 0..4 {
        let image = spaces.get(&space, &store, soon()).unwrap();
        if round % 2 == 0 {
            assert!(spaces.evict_oldest());
        } else {
            spaces.forget(|_| true);
        }
        drop(image);
    }
    spaces.settle_graphs();
    assert_eq!((spaces.usage().bytes, spaces.usage().graph_bytes), (0, 0));
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!(spaces.usage().graphs, 1);
    assert_eq!(spaces.usage().bytes, image.read().bytes());
    // Dropped in the midst of a build, its threads end.
    let other = with_graphs(1 << 30);
    other.get(&space, &store, soon()).unwrap();
    drop(other);
}

#[test]
fn without_memory_for_a_graph_the_scan_answers() {
    let (store, space) = (Store::default(), space("ann"));
    write(&without_graphs(), &store, &space, 1..=1_500);
    let bytes = without_graphs().get(&space, &store, soon()).unwrap().read().bytes();
    let spaces = with_graphs(bytes + bytes / 20);
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.settle_graphs();
    let usage = spaces.usage();
    assert_eq!((usage.images, usage.graphs, usage.graphs_built, usage.graphs_refused), (1, 0, 0, 1));
    assert!(image.read().search(&plain(&vector(1))).unwrap().exact);
    // It is not tried again with every write.
    assert!(
        !image.read().wants_upkeep(&IndexSettings { graph_from: GRAPH_FROM, ..IndexSettings::default() })
    );
}

#[test]
fn the_comparison_with_the_store_finds_what_a_graph_lacks() {
    let (store, space) = (Store::default(), space("ann"));
    // Few enough that none is built, and enough that one is kept.
    let settings = IndexSettings { graph_from: 60, ..IndexSettings::default() };
    let spaces = Spaces::with_indices(usize::MAX, settings);
    write(&spaces, &store, &space, 1..=50);
    let image = spaces.get(&space, &store, soon()).unwrap();
    image.write().build_graphs();
    assert_clean(&image, &space, &store);
    write(&spaces, &store, &space, [51]);
    assert_clean(&image, &space, &store);
    // The graph is told that it has the newest row, which it has not.
    image.read().graphs.serving(0).unwrap().add(&[], 51).unwrap();
    let report = verify(&image.read(), &space, &store).unwrap();
    assert_eq!(report.differences, [Difference { seq: 51, what: "graph" }]);
}
