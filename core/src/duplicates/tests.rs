//! Pairs that were written to tell one thing from things that are only alike.

use super::*;

/// Tab-separated: `same` or `other`, and the two texts.
const PAIRS: &str = include_str!("pairs.tsv");

/// The pairs of one sort.
fn pairs(sort: &str) -> Vec<(&'static str, &'static str)> {
    let of_sort = PAIRS.lines().filter_map(|line| line.strip_prefix(sort)?.strip_prefix('\t'));
    of_sort.map(|line| line.split_once('\t').expect("two texts")).collect()
}

fn found(one: &str, other: &str) -> bool {
    Gist::of(one).zip(Gist::of(other)).is_some_and(|(one, other)| one == other)
}

#[test]
fn no_two_things_are_one_and_the_same_words_are() {
    let (same, other) = (pairs("same"), pairs("other"));
    assert!(same.len() >= 15 && other.len() >= 90);
    let wrong: Vec<_> = other.iter().filter(|(one, other)| found(one, other)).collect();
    assert!(wrong.is_empty(), "wrong: {wrong:#?}");
    let missed: Vec<_> = same.iter().filter(|(one, other)| !found(one, other)).collect();
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[test]
fn of_all_texts_only_those_of_one_pair_are_one() {
    let same = pairs("same");
    let texts: Vec<&str> =
        same.iter().chain(&pairs("other")).flat_map(|(one, other)| [*one, *other]).collect();
    for (at, one) in texts.iter().enumerate() {
        for other in &texts[at + 1..] {
            let is_pair = same.contains(&(*one, *other)) || same.contains(&(*other, *one));
            let alike = one.trim_end_matches('.') == other.trim_end_matches('.');
            assert!(!found(one, other) || is_pair || alike, "{one:?} {other:?}");
        }
    }
}

#[test]
fn odd_texts_have_no_gist_or_one_of_their_own() {
    let huge = "a word ".repeat(TEXT_BYTES_MAX);
    for text in ["", " ", "🙂", "hi", "谢谢", "?!…", "\u{0}", "oh, oh, oh", huge.as_str()] {
        assert_eq!(Gist::of(text), None, "{text:?}");
    }
    for (one, other) in
        [("a b c 🙂", "a b c 😡"), ("a\u{301}b c d e f", "ab c d e f"), ("١٢ x y z", "١٣ x y z")]
    {
        assert!(!found(one, other), "{one:?} {other:?}");
    }
}

#[test]
fn what_is_told_of_another_time_is_another_event() {
    const HOUR_US: i64 = 3_600_000_000;
    let one = Gist::of("I have a dentist appointment on Monday").expect("a gist");
    let other = Gist::of("i have a dentist appointment on Monday!").expect("a gist");
    assert!(say_the_same((&one, 0), (&other, 12 * HOUR_US)));
    for apart_us in [12 * HOUR_US + 1, 24 * HOUR_US, i64::MAX, i64::MIN] {
        assert!(!say_the_same((&one, 0), (&other, apart_us)), "{apart_us}");
    }
}
