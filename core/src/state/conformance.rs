//! The suite that every store runs: what [`apply`](mod@crate::apply) relies on.

// A failed check of a suite is meant to end the test that runs it.
#![allow(clippy::panic, clippy::expect_used)]

use super::{Changes, Overlay, Reader, Row, State};

/// Runs the suite. `make` opens an empty store, `commit` gives it the changes of a batch.
///
/// # Panics
/// If the store breaks a rule.
pub fn run<S: Reader>(make: impl Fn() -> S, commit: impl Fn(&mut S, Changes)) {
    let write = |store: &mut S, rows: &[(&[u8], Option<&[u8]>)]| {
        let changes = {
            let mut overlay = Overlay::new(&*store);
            for (key, value) in rows {
                match value {
                    Some(value) => overlay.put(key.to_vec(), value.to_vec()),
                    None => overlay.delete(key),
                }
                .expect("an overlay takes writes");
            }
            overlay.into_changes().expect("the store can be read")
        };
        commit(store, changes);
    };
    let mut store = make();
    assert_eq!(store.get(b"nothing"), Ok(None), "an empty store has no value");
    assert_eq!(store.scan(b"", None, 10), Ok(vec![]), "an empty store has no rows");

    let rows: [(&[u8], &[u8]); 6] = [
        (b"a", b""),
        (b"a\0", b"1"),
        (b"a\xff", b"2"),
        (b"a\xff\xff", b"3"),
        (b"b", b"4"),
        (b"\xff\xff", b"5"),
    ];
    write(&mut store, &rows.map(|(key, value)| (key, Some(value))));
    let all: Vec<Row> = rows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(store.scan(b"", None, 10), Ok(all.clone()), "rows sort by bytes");
    assert_eq!(store.get(b"a"), Ok(Some(vec![])), "an empty value is a value");
    assert_eq!(store.scan(b"a", None, 10), Ok(all[..4].to_vec()), "a prefix holds what starts with it");
    assert_eq!(store.scan(b"a\xff", None, 10), Ok(all[2..4].to_vec()), "a prefix may end in 0xff");
    assert_eq!(store.scan(b"\xff", None, 10), Ok(all[5..].to_vec()), "the last prefix has no successor");
    assert_eq!(store.scan(b"a", Some(b"a\0"), 1), Ok(all[2..3].to_vec()), "a scan goes on behind `after`");
    assert_eq!(
        store.scan(b"b", Some(b"a"), 9),
        Ok(all[4..5].to_vec()),
        "`after` before the prefix is its start"
    );
    assert_eq!(store.scan(b"a", Some(b"b"), 9), Ok(vec![]), "`after` behind the prefix leaves nothing");
    assert_eq!(store.scan(b"", None, 0), Ok(vec![]), "no row where none is asked for");

    write(&mut store, &[(b"a", None), (b"nothing", None), (b"b", Some(b"new"))]);
    assert_eq!(store.get(b"a"), Ok(None), "a deleted row is gone");
    assert_eq!(store.get(b"b"), Ok(Some(b"new".to_vec())), "a row is overwritten");
    let large = vec![7u8; 200_000];
    write(&mut store, &[(b"large", Some(&large))]);
    assert_eq!(store.get(b"large"), Ok(Some(large)), "a large value comes back whole");
}
