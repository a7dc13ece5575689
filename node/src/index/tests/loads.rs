//! Loads that race with writes, removals and eviction.

use super::store::{Store, space};
use super::*;
use holdfast_core::ErrorCode;
use holdfast_core::keys::index_row;
use holdfast_core::space::SpaceKey;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn numbered(seq: u64, version: u32) -> IndexRow {
    // The text changes with every third version: some changes are made in place, some are not.
    IndexRow {
        access_count: version,
        session: Some(format!("s{}", seq % 5)),
        ..row(&format!("m{seq}"), TEXTS[(version as usize / 3) % TEXTS.len()])
    }
}

/// The version that an image has of a row.
fn version(image: &Image, seq: u64) -> Option<u32> {
    image.row(seq).map(|row| image.columns.access_count[row as usize])
}

fn write(spaces: &Spaces, store: &Store, space: &SpaceKey, changes: &[(u64, Option<IndexRow>)]) {
    let batch = spaces.open_batch();
    let events = store.write(space, changes);
    batch.deliver(&events);
}

#[test]
fn a_space_is_loaded_once_and_kept_up_to_date() {
    let (spaces, store, space) = (Spaces::new(1 << 20), Store::default(), space("ann"));
    write(&spaces, &store, &space, &[(1, Some(numbered(1, 1)))]);
    assert_eq!(spaces.usage(), Usage::default());
    let image = spaces.get(&space, &store, soon()).unwrap();
    write(&spaces, &store, &space, &[(2, Some(numbered(2, 1))), (1, None)]);
    assert_eq!((version(&image.read(), 1), version(&image.read(), 2)), (None, Some(1)));
    let scans = store.scans.load(Ordering::SeqCst);
    let again = spaces.get(&space, &store, soon()).unwrap();
    assert!(std::sync::Arc::ptr_eq(&image, &again));
    assert_eq!(store.scans.load(Ordering::SeqCst), scans);
    let usage = spaces.usage();
    assert_eq!((usage.images, usage.bytes), (1, image.read().bytes()));
    // A space without rows is an image without rows; its neighbour in the key order is not in it.
    let empty = spaces.get(&super::store::space("an"), &store, soon()).unwrap();
    assert!(empty.read().is_empty());
}

#[test]
fn errors_are_answered_and_not_remembered() {
    let (spaces, store, space) = (Spaces::new(1 << 20), Store::default(), space("ann"));
    write(&spaces, &store, &space, &[(1, Some(numbered(1, 1)))]);
    store.failing.store(1, Ordering::SeqCst);
    let error = spaces.get(&space, &store, soon()).unwrap_err();
    assert!(matches!(error, LoadError::State(_)));
    assert_eq!(holdfast_core::Error::from(error).code, ErrorCode::Corrupted);
    assert_eq!(spaces.usage(), Usage::default());
    assert_eq!(spaces.get(&space, &store, soon()).unwrap().read().len(), 1);

    for (key, value) in [(index_row::key(&space, 2), vec![1, 2]), (index_row::key(&space, 2), vec![9])] {
        spaces.forget(|_| true);
        store.put_raw(key, value);
        assert!(matches!(spaces.get(&space, &store, soon()), Err(LoadError::Codec(_))));
    }
}

#[test]
fn memory_is_bounded_and_the_least_recently_used_goes() {
    let store = Store::default();
    let names = ["a", "b", "c", "d"].map(space);
    let unbounded = Spaces::new(usize::MAX);
    for space in &names {
        let rows: Vec<_> = (1..=100).map(|seq| (seq, Some(numbered(seq, 1)))).collect();
        write(&unbounded, &store, space, &rows);
    }
    let one = unbounded.get(&names[0], &store, soon()).unwrap().read().bytes();

    let spaces = Spaces::new(one * 5 / 2);
    let get = |at: usize| spaces.get(&names[at], &store, soon()).unwrap();
    let (first, _) = (get(0), get(1));
    get(0);
    get(2);
    let usage = spaces.usage();
    assert_eq!((usage.images, usage.evicted), (2, 1));
    assert!(usage.bytes <= one * 5 / 2);
    // b went, since a was used after it.
    let scans = store.scans.load(Ordering::SeqCst);
    assert!(std::sync::Arc::ptr_eq(&first, &get(0)));
    assert_eq!(store.scans.load(Ordering::SeqCst), scans);
    get(1);
    assert!(store.scans.load(Ordering::SeqCst) > scans);

    let small = Spaces::new(one / 2);
    let error = small.get(&names[0], &store, soon()).unwrap_err();
    assert!(matches!(error, LoadError::Memory { .. }));
    assert_eq!(holdfast_core::Error::from(error).code, ErrorCode::Overloaded);
    assert_eq!(small.usage(), Usage::default());

    // An image that grows by writes is held to the budget too.
    let spaces = Spaces::new(one * 3 / 2);
    spaces.get(&names[0], &store, soon()).unwrap();
    let rows: Vec<_> = (101..=300).map(|seq| (seq, Some(numbered(seq, 1)))).collect();
    write(&spaces, &store, &names[0], &rows);
    assert_eq!((spaces.usage().images, spaces.usage().bytes), (0, 0));
}

#[test]
fn a_worn_image_is_loaded_anew() {
    let (spaces, store, space) = (Spaces::new(1 << 30), Store::default(), space("ann"));
    write(&spaces, &store, &space, &(1..=600).map(|seq| (seq, Some(numbered(seq, 0)))).collect::<Vec<_>>());
    let before = spaces.get(&space, &store, soon()).unwrap();
    write(&spaces, &store, &space, &(1..=400).map(|seq| (seq, None)).collect::<Vec<_>>());
    let usage = spaces.usage();
    assert_eq!((usage.images, usage.bytes, usage.worn), (0, 0, 1));
    let after = spaces.get(&space, &store, soon()).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&before, &after));
    assert_eq!((after.read().len(), after.read().columns.len()), (200, 200));
}

#[test]
fn a_load_waits_for_batches_on_their_way() {
    let (spaces, store, space) = (Spaces::new(1 << 20), Store::default(), space("ann"));
    let batch = spaces.open_batch();
    let events = store.write(&space, &[(1, Some(numbered(1, 1)))]);
    let deadline = Instant::now() + Duration::from_millis(50);
    assert_eq!(spaces.get(&space, &store, deadline).unwrap_err(), LoadError::Deadline);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| spaces.get(&space, &store, soon()));
        while spaces.usage().loading == 0 && !loading.is_finished() {
            std::thread::yield_now();
        }
        // Others wait for the load, as long as they can.
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(spaces.get(&space, &store, deadline).unwrap_err(), LoadError::Deadline);
        let waiting = scope.spawn(|| spaces.get(&space, &store, soon()));
        batch.deliver(&events);
        let loaded = loading.join().unwrap().unwrap();
        assert!(std::sync::Arc::ptr_eq(&loaded, &waiting.join().unwrap().unwrap()));
        assert_eq!(version(&loaded.read(), 1), Some(1));
    });
}

#[test]
fn a_space_that_leaves_takes_its_loads_with_it() {
    let (spaces, store, space) = (Spaces::new(1 << 20), Store::default(), space("ann"));
    let batch = spaces.open_batch();
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| spaces.get(&space, &store, soon()));
        while spaces.usage().loading == 0 && !loading.is_finished() {
            std::thread::yield_now();
        }
        spaces.forget(|gone| *gone == space);
        drop(batch);
        assert_eq!(loading.join().unwrap().unwrap_err(), LoadError::Cancelled);
    });
    assert_eq!(spaces.usage(), Usage::default());
    assert!(spaces.get(&space, &store, soon()).is_ok());
    spaces.forget(|_| false);
    assert_eq!(spaces.usage().images, 1);
    spaces.forget(|_| true);
    assert_eq!(spaces.usage(), Usage::default());
}

/// A store that panics while it is read: whoever waits must be told.
#[test]
fn a_load_that_panics_is_given_up() {
    struct Panics;
    impl holdfast_core::state::Reader for Panics {
        fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, holdfast_core::state::StateError> {
            panic!("a defect")
        }
        fn scan(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            _: usize,
        ) -> Result<Vec<holdfast_core::state::Row>, holdfast_core::state::StateError> {
            panic!("a defect")
        }
    }
    let (spaces, store, space) = (Spaces::new(1 << 20), Store::default(), space("ann"));
    std::thread::scope(|scope| {
        assert!(scope.spawn(|| spaces.get(&space, &Panics, soon())).join().is_err());
    });
    assert_eq!(spaces.usage(), Usage::default());
    assert!(spaces.get(&space, &store, soon()).is_ok());
}

/// Rows of one space that is large enough for several pages of a scan.
const ROWS: u64 = 1_200;

/// What a writer has had acknowledged in one space.
#[derive(Default)]
struct Acknowledged {
    version: AtomicU64,
}

/// Each batch gives the first and the last row, which lie pages apart, the same version, and
/// removes or puts one in between.
fn writer(spaces: &Spaces, store: &Store, space: &SpaceKey, acknowledged: &Acknowledged, until: Instant) {
    let mut version = 1;
    while Instant::now() < until {
        version += 1;
        let middle = 2 + u64::from(version) * 7 % (ROWS - 2);
        let changed = if version % 3 == 0 { None } else { Some(numbered(middle, version)) };
        let changes =
            [(1, Some(numbered(1, version))), (middle, changed), (ROWS, Some(numbered(ROWS, version)))];
        write(spaces, store, space, &changes);
        acknowledged.version.store(u64::from(version), Ordering::SeqCst);
        if version % 8 == 0 {
            std::thread::yield_now();
        }
    }
}

fn reader(
    spaces: &Spaces,
    store: &Store,
    all: &[(SpaceKey, Acknowledged)],
    start: usize,
    until: Instant,
) -> u64 {
    let mut reads = 0;
    let terms = holdfast_core::text::analyze_query("red bicycle").terms;
    while Instant::now() < until {
        let (space, acknowledged) = &all[(start + reads as usize) % all.len()];
        let floor = acknowledged.version.load(Ordering::SeqCst);
        let image = match spaces.get(space, store, soon()) {
            Ok(image) => image,
            // Two loads at once may be more than the budget.
            Err(LoadError::Memory { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let image = image.read();
        let (first, last) = (version(&image, 1), version(&image, ROWS));
        assert_eq!(first, last, "a part of a batch was seen");
        assert!(first.is_some_and(|seen| u64::from(seen) >= floor), "{first:?} is older than {floor}");
        let answer = image.search(&Query { text: "red bicycle", terms: &terms, ..Query::default() }).unwrap();
        assert_eq!(answer.scored, image.len() as u64);
        reads += 1;
    }
    reads
}

#[test]
fn races_of_loads_writes_and_eviction_end_in_the_stored_state() {
    let store = Store::default();
    let all: Vec<(SpaceKey, Acknowledged)> =
        ["a", "b", "c"].map(|user| (space(user), Acknowledged::default())).into();
    let rows: Vec<_> = (1..=ROWS).map(|seq| (seq, Some(numbered(seq, 1)))).collect();
    let measure = Spaces::new(usize::MAX);
    all.iter().for_each(|(space, _)| write(&measure, &store, space, &rows));
    let one = measure.get(&all[0].0, &store, soon()).unwrap().read().bytes();

    // Two of three images fit, with room to grow.
    let spaces = Spaces::new(one * 3);
    let until = Instant::now() + Duration::from_secs(3);
    let reads: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = all
            .iter()
            .map(|(space, acknowledged)| {
                let (spaces, store) = (&spaces, &store);
                scope.spawn(move || writer(spaces, store, space, acknowledged, until))
            })
            .collect();
        let readers: Vec<_> = (0..4)
            .map(|at| {
                let (spaces, store, all) = (&spaces, &store, &all);
                scope.spawn(move || reader(spaces, store, all, at, until))
            })
            .collect();
        // Whatever is live goes now and then, and is loaded again in the midst of the writes.
        scope.spawn(|| {
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
                spaces.evict_oldest();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(reads > 10, "{reads}");
    for (space, _) in &all {
        let image = spaces.get(space, &store, soon()).unwrap();
        let report = verify(&image.read(), space, &store).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
    let usage = spaces.usage();
    assert!(usage.bytes <= one * 3 && usage.loading == 0, "{usage:?}");
}
