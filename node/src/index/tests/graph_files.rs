//! Graphs come back from their files, as far as these are sound and their memories are still there.

use super::graphs::{
    assert_clean, finds_what_the_scan_finds, placed, plain, remove, soon, vector, without_graphs, write,
};
use super::store::{Store, space};
use super::*;
use holdfast_core::space::SpaceKey;
use std::path::{Path, PathBuf};

const GRAPH_FROM: usize = 600;

fn open(dir: &Path) -> Spaces {
    let settings = IndexSettings { graph_from: GRAPH_FROM, lists_from: 0, ..IndexSettings::default() };
    Spaces::open(1 << 30, settings, dir).unwrap()
}

/// All files below a folder.
pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A space whose graph was built and saved, and is not in memory any more.
fn saved(dir: &Path, store: &Store, space: &SpaceKey) -> Spaces {
    let spaces = open(dir);
    write(&spaces, store, space, 1..=1_500);
    spaces.get(space, store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!((spaces.usage().graphs_built, files(dir).len()), (1, 1));
    assert!(spaces.evict_oldest());
    spaces
}

fn loads(spaces: &Spaces, store: &Store, space: &SpaceKey) -> (SharedImage, Usage) {
    let image = spaces.get(space, store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!(image.read().search(&plain(&vector(3))).unwrap().index, "hnsw");
    assert_clean(&image, space, store);
    (image, spaces.usage())
}

#[test]
fn a_graph_comes_back_with_the_changes_that_were_made_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (store, space) = (Store::default(), space("小明"));
    drop(saved(dir.path(), &store, &space));
    // Another process: rows went, came, and have other vectors, so that all are numbered in another way.
    let spaces = open(dir.path());
    remove(&spaces, &store, &space, (1..=200).step_by(2));
    write(&spaces, &store, &space, 1_501..=1_700);
    let moved: Vec<_> = (300..350)
        .map(|seq| (seq, Some(IndexRow { vector: placed(seq + 5_000).vector, ..placed(seq) })))
        .collect();
    let batch = spaces.open_batch();
    batch.deliver(&store.write(&space, &moved));
    let (image, usage) = loads(&spaces, &store, &space);
    assert_eq!((usage.graphs, usage.graphs_loaded, usage.graphs_built), (1, 1, 0), "{usage:?}");
    let scan = without_graphs().get(&space, &store, soon()).unwrap();
    finds_what_the_scan_finds("hnsw", &image.read(), &scan.read());
    let nearest = |number| image.read().search(&plain(&vector(number))).unwrap().hits[0].seq;
    assert_eq!((nearest(1_700), nearest(5_320), nearest(2)), (1_700, 320, 2));
    assert!(nearest(320) != 320 && nearest(1) != 1, "old vectors are gone");
    // What was added since is saved too, once it is much: the next start adds little.
    write(&spaces, &store, &space, 1_701..=2_300);
    spaces.settle_graphs();
    drop(spaces);
    let (image, usage) = loads(&open(dir.path()), &store, &space);
    assert_eq!((usage.graphs_loaded, usage.graphs_built), (1, 0));
    assert_eq!(image.read().search(&plain(&vector(2_300))).unwrap().hits[0].seq, 2_300);
}

#[test]
fn a_file_that_is_damaged_or_of_another_space_is_not_loaded() {
    let (store, space) = (Store::default(), space("ann"));
    let dir = tempfile::tempdir().unwrap();
    drop(saved(dir.path(), &store, &space));
    let path = files(dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    let damaged = [whole.len() / 3, whole.len() - 40, whole.len() - 1].map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    let cut = [whole[..whole.len() / 2].to_vec(), Vec::new()];
    for bytes in damaged.into_iter().chain(cut) {
        std::fs::write(&path, bytes).unwrap();
        let (_, usage) = loads(&open(dir.path()), &store, &space);
        assert_eq!((usage.graphs_loaded, usage.graphs_built, usage.files_failed), (0, 1, 1));
        // It was built anew, and saved.
        let (_, usage) = loads(&open(dir.path()), &store, &space);
        assert_eq!((usage.graphs_loaded, usage.graphs_built, usage.files_failed), (1, 0, 0));
    }
    // The file of another space under this one's name, as if their hashes were the same.
    let other = super::store::space("bob");
    let elsewhere = tempfile::tempdir().unwrap();
    drop(saved(elsewhere.path(), &store, &other));
    std::fs::copy(&files(elsewhere.path())[0], &path).unwrap();
    let (_, usage) = loads(&open(dir.path()), &store, &space);
    assert_eq!((usage.graphs_loaded, usage.graphs_built, usage.files_failed), (0, 1, 1));
}

#[test]
fn a_graph_of_which_much_is_dead_is_built_anew() {
    let (store, space) = (Store::default(), space("ann"));
    let dir = tempfile::tempdir().unwrap();
    let spaces = saved(dir.path(), &store, &space);
    remove(&spaces, &store, &space, 1..=600);
    let (_, usage) = loads(&spaces, &store, &space);
    assert_eq!((usage.graphs, usage.graphs_loaded, usage.graphs_built), (1, 0, 2));
}

#[test]
fn nothing_of_a_space_is_left_once_it_was_erased() {
    let (store, space, other) = (Store::default(), space("ann"), space("bob"));
    let dir = tempfile::tempdir().unwrap();
    let spaces = saved(dir.path(), &store, &space);
    write(&spaces, &store, &other, 1..=700);
    spaces.get(&other, &store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!(files(dir.path()).len(), 2);
    // While its graph is being built again, too.
    let image = spaces.get(&space, &store, soon()).unwrap();
    spaces.erase(&space).unwrap();
    assert_eq!((files(dir.path()).len(), spaces.live()), (1, vec![other.clone()]));
    spaces.settle_graphs();
    assert_eq!(files(dir.path()).len(), 1);
    drop(image);
    // To lose an image is not to lose its files.
    spaces.forget(|_| true);
    assert_eq!(files(dir.path()).len(), 1);
    spaces.erase(&other).unwrap();
    assert!(files(dir.path()).is_empty());
}

/// The rows of a tenant that is gone do not say whose the folders were; those of others do.
#[test]
fn nothing_of_a_tenant_is_left_once_its_rows_are_gone() {
    let (store, ours) = (Store::default(), space("ann"));
    let near = SpaceKey::user("acme2", "ann").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let spaces = saved(dir.path(), &store, &ours);
    write(&spaces, &store, &near, 1..=700);
    spaces.get(&near, &store, soon()).unwrap();
    spaces.settle_graphs();
    assert_eq!(files(dir.path()).len(), 2);
    // The rows go first, and with them what tells which spaces there were.
    let image = spaces.get(&ours, &store, soon()).unwrap();
    remove(&spaces, &store, &ours, 1..=700);
    // One of which rows are there still goes as well: another shard has not come to it.
    let rest = space("rest");
    write(&spaces, &store, &rest, 1..=10);
    spaces.get(&rest, &store, soon()).unwrap();
    assert!(spaces.live().contains(&rest));
    let erase = || spaces.erase_tenants(|tenant| tenant == "acme", &[&store]).unwrap();
    erase();
    assert_eq!((files(dir.path()).len(), spaces.live()), (1, vec![near.clone()]));
    spaces.settle_graphs();
    assert_eq!(files(dir.path()).len(), 1, "nor does one that was being built come back");
    drop(image);
    // A folder that was left behind by a process before goes too, and those of live spaces stay, loaded or not, as does
    // what is no folder of a space.
    let left_behind = dir.path().join("0123456789abcdef".repeat(2));
    std::fs::create_dir(&left_behind).unwrap();
    std::fs::create_dir(dir.path().join("lost+found")).unwrap();
    spaces.forget(|_| true);
    erase();
    assert!(!left_behind.exists());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    assert_eq!(files(dir.path()).len(), 1);
    let (_, usage) = loads(&spaces, &store, &near);
    assert_eq!(usage.graphs_loaded, 1, "the files of the neighbour are whole");
    // Rows of another shard count as well.
    spaces.erase_tenants(|tenant| tenant == "acme", &[&Store::default(), &store]).unwrap();
    assert_eq!(files(dir.path()).len(), 1);
    store.failing.store(1, std::sync::atomic::Ordering::SeqCst);
    assert!(spaces.erase_tenants(|_| false, &[&store]).is_err(), "rows that cannot be read are told");
    assert_eq!(files(dir.path()).len(), 1);
    Spaces::new(1 << 20).erase_tenants(|_| true, &[]).unwrap();
}
