//! Lists answer as the scan does, near enough, from a file that is not believed blindly.

use super::graph_files::files;
use super::graphs::{
    DIMS, assert_clean, finds_what_the_scan_finds, placed, plain, remove, soon, vector, without_graphs, write,
};
use super::oracle::Stored;
use super::store::{Store, space};
use super::*;
use crate::index::files::Files;
use crate::index::lists::{Site, build};
use holdfast_core::ErrorCode;
use holdfast_core::filter::Filter;
use holdfast_core::score::Profile;
use holdfast_core::space::SpaceKey;
use holdfast_core::vector::Vector;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LISTS_FROM: usize = 600;

fn open(dir: &Path) -> Spaces {
    let settings = IndexSettings { graph_from: 300, lists_from: LISTS_FROM, ..IndexSettings::default() };
    Spaces::open(1 << 30, settings, dir).unwrap()
}

pub(super) fn index(image: &SharedImage) -> &'static str {
    let vector = vector(3);
    image.read().search(&Query { profile: Profile::Ebbinghaus, ..plain(&vector) }).unwrap().index
}

fn listed(spaces: &Spaces, store: &Store, space: &SpaceKey) -> SharedImage {
    let image = spaces.get(space, store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!(index(&image), "ivf");
    assert_clean(&image, space, store);
    image
}

/// What lists take in memory: some twenty bytes a vector, however many numbers it has, and the vectors of the sample.
fn most_bytes(vectors: usize) -> usize {
    24 * vectors + 2_048 * (2 * DIMS + 32) + (16 << 10)
}

#[test]
fn lists_find_what_the_scan_finds_and_take_less_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    write(&spaces, &store, &space, 1..=4_000);
    let image = listed(&spaces, &store, &space);
    let usage = spaces.usage();
    assert_eq!((usage.lists, usage.lists_built, usage.graphs), (1, 1, 0));
    assert_eq!(usage.bytes, image.read().bytes());
    assert!(usage.list_bytes <= most_bytes(4_000) && image.read().vectors.tail(0) == 0, "{usage:?}");
    // What changed since is in memory, and found.
    write(&spaces, &store, &space, 4_001..=4_100);
    remove(&spaces, &store, &space, (1..=500).step_by(3));
    let moved: Vec<_> = (600..650)
        .map(|seq| (seq, Some(IndexRow { vector: placed(seq + 9_000).vector, ..placed(seq) })))
        .collect();
    spaces.open_batch().deliver(&store.write(&space, &moved));
    let scan = without_graphs().get(&space, &store, soon()).unwrap();
    assert_clean(&image, &space, &store);
    finds_what_the_scan_finds("ivf", &image.read(), &scan.read());
    let nearest = |number| image.read().search(&plain(&vector(number))).unwrap().hits[0].seq;
    assert_eq!((nearest(9_620), nearest(4_100)), (620, 4_100));
    assert!(nearest(620) != 620 && nearest(1) != 1);
}

#[test]
fn vectors_go_to_the_file_while_a_space_is_loaded_and_come_back_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    write(&without_graphs(), &store, &space, 1..=5_000);
    let bytes = without_graphs().get(&space, &store, soon()).unwrap().read().bytes();
    let settings = IndexSettings { graph_from: 0, lists_from: LISTS_FROM, ..IndexSettings::default() };
    let reopen = || Spaces::open(1 << 30, settings, dir.path()).unwrap();
    let spaces = reopen();
    let image = spaces.get(&space, &store, soon()).unwrap();
    assert!(image.read().bytes() < bytes && image.read().vectors.tail(0) == 0);
    assert!(spaces.usage().list_bytes <= most_bytes(5_000), "{:?}", spaces.usage());
    // Before they are in any order, they are found all the same.
    assert_eq!(image.read().search(&plain(&vector(77))).unwrap().hits[0].seq, 77);
    assert_eq!(index(&image), "ivf");
    let image = listed(&spaces, &store, &space);
    assert_eq!((spaces.usage().lists_built, files(dir.path()).len()), (1, 1));
    drop((image, spaces));

    // Another process takes them from there, as far as they are the same.
    write(&without_graphs(), &store, &space, 5_001..=5_100);
    remove(&without_graphs(), &store, &space, 1..=50);
    let moved: Vec<_> = (600..650)
        .map(|seq| (seq, Some(IndexRow { vector: placed(seq + 20_000).vector, ..placed(seq) })))
        .collect();
    without_graphs().open_batch().deliver(&store.write(&space, &moved));
    let spaces = reopen();
    let image = listed(&spaces, &store, &space);
    assert_eq!((spaces.usage().lists_built, spaces.usage().files_failed), (0, 0));
    let scan = without_graphs().get(&space, &store, soon()).unwrap();
    finds_what_the_scan_finds("ivf", &image.read(), &scan.read());
    let nearest = |number| image.read().search(&plain(&vector(number))).unwrap().hits[0].seq;
    assert_eq!((nearest(20_620), nearest(5_100), nearest(51)), (620, 5_100, 51));
    // Explained, every row is compared, and the answer is exact.
    let explained = image.read().search(&Query { explain: true, ..plain(&vector(51)) }).unwrap();
    assert!(explained.exact && explained.index == "exact" && explained.hits[0].seq == 51);
}

/// A memory whose vector takes so many times two bytes.
fn wide(seq: u64, dims: u64) -> IndexRow {
    let values: Vec<f32> = (0..dims).map(|at| ((seq * 7_919 + at * 104_729) as f32).sin()).collect();
    IndexRow { vector: Some(Vector::quantise(&values).unwrap()), ..placed(seq) }
}

#[test]
fn a_space_whose_vectors_do_not_fit_into_the_memory_has_them_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let rows: Vec<_> = (1..=9_000).map(|seq| (seq, Some(wide(seq, 512)))).collect();
    store.write(&space, &rows);
    let budget = 8 << 20;
    // Fewer than the setting; and where it is off, there is no answer.
    let settings = IndexSettings::default();
    let off = IndexSettings { lists_from: 0, ..settings };
    let error = Spaces::open(budget, off, dir.path()).unwrap().get(&space, &store, soon()).unwrap_err();
    assert!(matches!(error, LoadError::Memory { .. }), "{error}");
    for _ in 0..2 {
        let spaces = Spaces::open(budget, settings, dir.path()).unwrap();
        let image = spaces.get(&space, &store, soon()).unwrap();
        spaces.settle_graphs();
        let usage = spaces.usage();
        assert_eq!((usage.lists, usage.graphs, usage.files_failed), (1, 0, 0), "{usage:?}");
        assert!(usage.bytes < budget && spaces.peek(&space).is_some());
        for seq in [1, 4_096, 4_097, 9_000] {
            let vector = wide(seq, 512).vector.unwrap();
            let vector: Vec<f32> = vector.to_halves().map(half::f16::to_f32).collect();
            assert_eq!(image.read().search(&plain(&vector)).unwrap().hits[0].seq, seq);
        }
    }
}

#[test]
fn a_space_that_fits_into_the_memory_only_without_its_vectors_is_loaded() {
    // Vectors below half of the memory, which with the other columns, or by what growing allocates ahead, are too
    // much all the same: of one model, and of two.
    for (dims, models) in [(200, 1), (240, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let (store, space) = (Store::default(), space("ann"));
        let row = |seq| {
            let mut row = wide(seq, dims);
            row.metadata = json!({"note": "x".repeat(800)}).to_string();
            if let Some(vector) = row.vector.as_mut() {
                vector.model = u8::try_from(seq % models).unwrap();
            }
            row
        };
        let rows: Vec<_> = (1..=6_000).map(|seq| (seq, Some(row(seq)))).collect();
        store.write(&space, &rows);
        let whole = without_graphs().get(&space, &store, soon()).unwrap().read().bytes();
        let vectors = 6_000 * dims as usize * 2 / models as usize;
        let budget = whole / 100 * 93;
        assert!(vectors < budget / 2, "not by the size of the vectors alone");
        let spaces = Spaces::open(budget, IndexSettings::default(), dir.path()).unwrap();
        let image = spaces.get(&space, &store, soon()).unwrap();
        assert!(spaces.usage().bytes <= budget && spaces.usage().lists >= 1, "{:?}", spaces.usage());
        assert_eq!(image.read().len(), 6_000);
        let vector: Vec<f32> = row(2_000).vector.unwrap().to_halves().map(half::f16::to_f32).collect();
        let query = Query { vector_model: u8::try_from(2_000 % models).unwrap(), ..plain(&vector) };
        assert_eq!(image.read().search(&query).unwrap().hits[0].seq, 2_000);
    }
}

#[test]
fn writes_do_not_wait_for_a_recall_and_the_next_one_sees_them() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    write(&spaces, &store, &space, 1..=1_000);
    let image = listed(&spaces, &store, &space);
    let bytes = spaces.usage().bytes;
    let looking = image.read();
    // This thread looks and writes: if writing waited, it would wait for ever.
    write(&spaces, &store, &space, 1_001..=1_020);
    remove(&spaces, &store, &space, 7..=9);
    assert_eq!(looking.len(), 1_000);
    // Who asks now waits no longer than its own deadline.
    let hurried = spaces.get(&space, &store, Instant::now() + Duration::from_millis(10));
    assert_eq!(hurried.unwrap_err(), LoadError::Deadline);
    assert!(spaces.is_held(&space));
    assert_eq!(spaces.get(&space, &store, soon()).unwrap_err(), LoadError::Held, "nor long on a thread");
    drop(looking);
    let image = spaces.get(&space, &store, soon()).unwrap();
    assert_eq!(image.read().len(), 1_017);
    assert!(spaces.usage().bytes > bytes && spaces.usage().bytes == image.read().bytes());
    assert_clean(&image, &space, &store);
    assert_eq!(image.read().search(&plain(&vector(1_013))).unwrap().hits[0].seq, 1_013);
}

#[test]
fn few_rows_that_pass_a_filter_are_compared_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    write(&spaces, &store, &space, 1..=3_000);
    let image = listed(&spaces, &store, &space);
    let scan = without_graphs().get(&space, &store, soon()).unwrap();
    for (filter, hits) in
        [(json!({"session": "s90"}), 10), (json!({"agent": "nobody"}), 0), (json!({"metadata.n": 7}), 10)]
    {
        let filter = Filter::parse(&filter).unwrap();
        for profile in Profile::ALL {
            for number in 0..5 {
                let vector = vector(40_000 + number);
                let query = Query { filter: Some(&filter), profile, ..plain(&vector) };
                let (got, want) = (image.read().search(&query).unwrap(), scan.read().search(&query).unwrap());
                let seqs = |answer: &Answer| answer.hits.iter().map(|hit| hit.seq).collect::<Vec<_>>();
                assert_eq!(seqs(&got), seqs(&want), "{filter:?} {profile:?}");
                assert_eq!(got.hits.len(), hits);
                assert!(got.bound_met && !got.exact);
            }
        }
    }
    // A deadline that has passed: what the lists know, and that it may not be all.
    let vector = vector(7);
    let late = Query { deadline: Some(Instant::now()), profile: Profile::Ebbinghaus, ..plain(&vector) };
    let late = image.read().search(&late).unwrap();
    assert!(!late.bound_met && !late.exact && !late.hits.is_empty(), "{late:?}");
    // One that explains reads no more of the file then, and says so; with time it compares all.
    let explained = |deadline| {
        let query = Query { explain: true, deadline, profile: Profile::Ebbinghaus, ..plain(&vector) };
        image.read().search(&query).unwrap()
    };
    let late = explained(Some(Instant::now()));
    assert!(!late.bound_met && !late.exact && late.index == "ivf" && !late.hits.is_empty(), "{late:?}");
    let whole = explained(Some(soon()));
    assert!(whole.bound_met && whole.exact && whole.index == "exact" && !whole.hits.is_empty());
}

#[test]
fn a_space_gets_lists_and_new_ones_while_writes_and_recalls_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    let written = AtomicU64::new(300);
    write(&spaces, &store, &space, 1..=300);
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
            let answer = image.read().search(&plain(&vector(newest))).unwrap();
            // What was acknowledged is found, in memory or in the file.
            assert_eq!(answer.hits[0].seq, newest, "{answer:?}");
        }
    });
    let image = listed(&spaces, &store, &space);
    assert_eq!(spaces.usage().graphs, 0);
    // More than a fifth are deleted: they leave the file.
    let (built, before) =
        (spaces.usage().lists_built, std::fs::metadata(&files(dir.path())[0]).unwrap().len());
    remove(&spaces, &store, &space, (1..=2_400).filter(|seq| seq % 4 == 0));
    let search = |seq: u64| image.read().search(&plain(&vector(seq))).unwrap();
    assert!((4..=400).step_by(4).all(|seq| search(seq).hits.iter().all(|hit| hit.seq % 4 != 0)));
    spaces.settle_graphs();
    assert_clean(&image, &space, &store);
    assert!(spaces.usage().lists_built > built);
    assert!(
        std::fs::metadata(
            files(dir.path()).iter().find(|path| path.extension().is_some_and(|e| e == "lists")).unwrap()
        )
        .unwrap()
        .len()
            < before
    );
    assert!(search(14).hits[0].seq == 14);
}

#[test]
fn a_space_that_became_small_has_its_vectors_in_memory_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    write(&spaces, &store, &space, 1..=1_000);
    listed(&spaces, &store, &space);
    spaces.forget(|_| true);
    remove(&spaces, &store, &space, 1..=750);
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!((index(&image), spaces.usage().lists), ("exact", 0));
    assert_clean(&image, &space, &store);
}

/// Flips a byte of the file.
fn damage(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn a_damaged_file_is_never_read_as_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    write(&spaces, &store, &space, 1..=1_500);
    let image = listed(&spaces, &store, &space);
    let path = files(dir.path()).remove(0);
    let len = std::fs::metadata(&path).unwrap().len();
    // While it is in use, everywhere: codes and vectors.
    for at in (0..1_500 * (3 * DIMS as u64 + 8)).step_by(40) {
        damage(&path, at);
    }
    let vector_1 = vector(1);
    for query in [plain(&vector_1), Query { profile: Profile::Ebbinghaus, ..plain(&vector_1) }] {
        let error = image.read().search(&query).unwrap_err();
        assert_eq!(error.code, ErrorCode::Unavailable);
    }
    assert!(image.read().is_damaged());
    // The next look gets another image, from the rows.
    let again = spaces.get(&space, &store, soon()).unwrap();
    assert!(!Arc::ptr_eq(&image, &again));
    assert_eq!(again.read().search(&plain(&vector_1)).unwrap().hits[0].seq, 1);
    listed(&spaces, &store, &space);
    // While nobody looks: the end of the file is found when it is opened.
    for at in [len - 1, len - 40, 0] {
        spaces.forget(|_| true);
        if at == 0 {
            std::fs::write(&path, b"").unwrap()
        } else {
            damage(&path, std::fs::metadata(&path).unwrap().len() - (len - at))
        }
        let failed = spaces.usage().files_failed;
        listed(&spaces, &store, &space);
        assert_eq!(spaces.usage().files_failed, failed + 1);
    }
}

#[test]
fn nothing_of_a_space_is_left_in_files_once_it_was_erased() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("ann"));
    let spaces = open(dir.path());
    write(&spaces, &store, &space, 1..=1_500);
    let image = listed(&spaces, &store, &space);
    spaces.erase(&space).unwrap();
    assert!(files(dir.path()).is_empty() && spaces.live().is_empty());
    // Who still looks may look on.
    assert_eq!(image.read().search(&plain(&vector(5))).unwrap().hits[0].seq, 5);
    // In the midst of making lists: they do not come back.
    let building = spaces.get(&space, &store, soon()).unwrap();
    spaces.erase(&space).unwrap();
    spaces.settle_graphs();
    assert!(files(dir.path()).is_empty());
    drop(building);
}

#[test]
fn without_files_the_other_indices_answer() {
    let (store, space) = (Store::default(), space("ann"));
    let settings = IndexSettings { graph_from: 300, lists_from: LISTS_FROM, ..IndexSettings::default() };
    let spaces = Spaces::with_indices(1 << 30, settings);
    write(&spaces, &store, &space, 1..=1_000);
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!((index(&image), spaces.usage().lists_refused), ("hnsw", 1));
    assert!(!image.read().wants_upkeep(&settings), "it is not tried again with every write");
}

/// An image with lists on the spot, of which a query looks into so many.
pub(super) fn with_lists(image: Image, dir: &Path, probes: usize) -> SharedImage {
    let (files, space) = (Files::at(dir).unwrap(), space("ann"));
    let arenas = image.vectors.arenas();
    let image: SharedImage = Arc::new(LiveImage::new(image));
    for arena in 0..arenas {
        let site = Site { files: &files, space: &space, image: &image, is_wanted: &|| true };
        let mut built = build(&site, arena).unwrap();
        Arc::get_mut(&mut built.lists).unwrap().probes = probes;
        assert!(image.write().adopt(arena, built).is_some());
    }
    image
}

proptest! {
    // Each case writes and syncs files.
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// With so few vectors nothing is guessed, so that lists that are not looked into leave nothing out either.
    #[test]
    fn lists_leave_nothing_out(
        changes in super::history::changes(),
        asked in prop::collection::vec(queries(), 1..6),
        probes in 0..4usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut stored, mut image): (Stored, Image) = (BTreeMap::new(), Image::new());
        let (before, after) = changes.split_at(changes.len() / 2);
        before.iter().for_each(|change| { super::history::apply(&mut stored, &mut image, change); });
        let image = with_lists(image, dir.path(), probes);
        after.iter().for_each(|change| { super::history::apply(&mut stored, &mut image.write(), change); });
        for asked in &asked {
            let terms = asked.terms();
            let query = asked.query(&terms);
            super::history::check(&image.read().search(&query).unwrap(), &stored, asked)?;
            let quick = image.read().search(&Query { explain: false, ..query }).unwrap();
            super::history::check(&quick, &stored, asked)?;
        }
    }
}
