//! Spaces for which an index was chosen.

use super::graphs::{assert_clean, soon, write};
use super::lists::index;
use super::store::{Store, space};
use super::*;
use crate::index::CHOSEN_FROM;

#[test]
fn a_chosen_index_answers_and_the_later_choice_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (store, chosen, other) = (Store::default(), space("ann"), space("bob"));
    let spaces = Spaces::open(1 << 30, IndexSettings::default(), dir.path()).unwrap();
    let many = CHOSEN_FROM as u64 + 200;
    write(&spaces, &store, &chosen, 1..=many);
    write(&spaces, &store, &other, 1..=many);
    let answers = |space| {
        let image = spaces.get(space, &store, soon()).unwrap();
        spaces.settle_graphs();
        assert_clean(&image, space, &store);
        index(&image)
    };
    assert_eq!(answers(&chosen), "exact");
    let choices = [
        (IndexChoice::Graph, "hnsw"),
        (IndexChoice::Lists, "ivf"),
        (IndexChoice::Exact, "exact"),
        (IndexChoice::Lists, "ivf"),
        (IndexChoice::Graph, "hnsw"),
        (IndexChoice::Auto, "exact"),
    ];
    for (version, (choice, wanted)) in (1..).zip(choices) {
        spaces.choose(&chosen, choice, version);
        assert_eq!(answers(&chosen), wanted, "{choice:?}");
        // Somebody has not heard of it.
        spaces.choose(&chosen, IndexChoice::Exact, version - 1);
        assert_eq!(answers(&chosen), wanted, "{choice:?}");
        assert_eq!(answers(&other), "exact");
    }
}

#[test]
fn few_vectors_are_scanned_whatever_was_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let (store, few) = (Store::default(), space("few"));
    let spaces = Spaces::open(1 << 30, IndexSettings::default(), dir.path()).unwrap();
    write(&spaces, &store, &few, 1..CHOSEN_FROM as u64);
    for (version, choice) in (1..).zip([IndexChoice::Graph, IndexChoice::Lists]) {
        spaces.choose(&few, choice, version);
        let image = spaces.get(&few, &store, soon()).unwrap();
        spaces.settle_graphs();
        assert_eq!(index(&image), "exact");
    }
}
