#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::format::HEADER_FORMAT;
use super::{Header, SnapshotError, SnapshotFiles, SnapshotReader, SnapshotWriter};
use crate::raft::LogPosition;
use holdfast_core::state::{Row, StateHash};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const CLUSTER: &str = "00ff";
const GROUP: u32 = 3;

pub(crate) fn header(index: u64, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Header {
    let mut hash = StateHash::default();
    rows.iter().for_each(|(key, value)| hash.add(key, value));
    Header {
        format: HEADER_FORMAT,
        cluster: CLUSTER.into(),
        group: GROUP,
        position: LogPosition { term: 2, node: 1, index },
        membership: vec![1, 2, 3],
        hash,
        rows: rows.len() as u64,
        log_bytes: 77,
        nonce: index ^ 0x5eed,
    }
}

fn write(index: u64, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut writer = SnapshotWriter::new(Vec::new(), Path::new("memory"), header(index, rows)).unwrap();
    for (key, value) in rows {
        writer.push(key, value).unwrap();
    }
    writer.finish().unwrap().0
}

/// The rows up to the first error, and whether there was none.
fn read(bytes: &[u8]) -> (Vec<Row>, Result<Header, SnapshotError>) {
    let mut rows = Vec::new();
    let mut reader = match SnapshotReader::new(bytes, Path::new("memory")) {
        Ok(reader) => reader,
        Err(error) => return (rows, Err(error)),
    };
    loop {
        match reader.next_block() {
            Ok(Some(block)) => rows.extend(block),
            Ok(None) => return (rows, Ok(reader.header().clone())),
            Err(error) => return (rows, Err(error)),
        }
    }
}

fn rows_of(seed: u64, count: usize, value_bytes: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let row = |n: usize| {
        // Half of each value repeats and half does not, as text and vectors.
        let mut value = vec![b'a'; value_bytes / 2];
        let mut state = seed.wrapping_add(n as u64);
        while value.len() < value_bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            value.push((state >> 56) as u8);
        }
        (format!("键-{seed}-{n:06}").into_bytes(), value)
    };
    (0..count).map(row).collect()
}

fn any_rows() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
    let key = prop::collection::vec(any::<u8>(), 0..12);
    let value = prop::collection::vec(any::<u8>(), 0..300);
    prop::collection::btree_map(key, value, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_is_read(rows in any_rows()) {
        let (back, header_back) = read(&write(9, &rows));
        prop_assert_eq!(back, rows.clone().into_iter().collect::<Vec<Row>>());
        prop_assert_eq!(header_back.unwrap(), header(9, &rows));
    }

    /// One flipped bit anywhere is an error, and no row before it is another than was written.
    #[test]
    fn a_flipped_bit_is_found(rows in any_rows(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = write(9, &rows);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let (back, result) = read(&bytes);
        prop_assert!(result.is_err(), "byte {} of {}", at, bytes.len());
        prop_assert!(rows.into_iter().zip(back).all(|(written, read)| written == read));
    }

    #[test]
    fn a_cut_is_found(rows in any_rows(), at in any::<prop::sample::Index>()) {
        let bytes = write(9, &rows);
        let (_, result) = read(&bytes[..at.index(bytes.len())]);
        prop_assert!(matches!(result, Err(SnapshotError::Damaged(_))));
    }

    #[test]
    fn what_follows_the_end_is_found(rows in any_rows(), more in prop::collection::vec(any::<u8>(), 1..40)) {
        let bytes = [write(9, &rows), more].concat();
        prop_assert!(read(&bytes).1.is_err());
    }

    #[test]
    fn garbage_is_no_file(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read(&bytes).1.is_err());
    }
}

/// Several blocks: the places between them too, each byte of every frame's head.
#[test]
fn damage_between_blocks_is_found() {
    let rows = rows_of(1, 3_000, 1_200);
    let bytes = write(9, &rows);
    let (back, header) = read(&bytes);
    assert_eq!((back.len(), header.unwrap().rows), (3_000, 3_000));
    let starts = frame_starts(&bytes);
    assert!(starts.len() > 3, "{starts:?}");
    for start in &starts {
        for offset in (0..17).chain([20, 40]) {
            for bit in [0, 3, 7] {
                let mut damaged = bytes.clone();
                damaged[start + offset] ^= 1 << bit;
                assert!(read(&damaged).1.is_err(), "{start} + {offset}, bit {bit}");
            }
        }
        assert!(read(&bytes[..*start]).1.is_err(), "cut at {start}");
    }
    // A block left out, doubled, moved.
    let frame = |n: usize| &bytes[starts[n]..starts[n + 1]];
    let head = &bytes[..starts[0]];
    let rest = &bytes[starts[2]..];
    assert!(read(&[head, frame(1), rest].concat()).1.is_err());
    assert!(read(&[head, frame(0), frame(0), frame(1), rest].concat()).1.is_err());
    assert!(read(&[head, frame(1), frame(0), rest].concat()).1.is_err());
    assert!(read(&[head, frame(0), frame(1), rest].concat()).1.is_ok());
    // The same block of another file.
    let other = write(10, &rows);
    let there = frame_starts(&other);
    assert!(read(&[head, &other[there[0]..there[1]], frame(1), rest].concat()).1.is_err());
}

fn frame_starts(bytes: &[u8]) -> Vec<usize> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut starts = vec![12 + number(8) + 8];
    loop {
        let start = *starts.last().unwrap();
        if bytes[start] == 2 {
            return starts;
        }
        starts.push(start + 17 + number(start + 13) + 8);
    }
}

#[test]
fn rows_that_are_not_those_of_the_header_are_refused() {
    let rows = rows_of(1, 10, 100);
    let start = || SnapshotWriter::new(Vec::new(), Path::new("memory"), header(1, &rows)).unwrap();
    let mut lost = start();
    rows.iter().skip(1).for_each(|(key, value)| lost.push(key, value).unwrap());
    assert!(matches!(lost.finish(), Err(SnapshotError::Rows(_))));
    let mut changed = start();
    for (n, (key, value)) in rows.iter().enumerate() {
        changed.push(key, if n == 4 { b"else" } else { value }).unwrap();
    }
    assert!(matches!(changed.finish(), Err(SnapshotError::Rows(_))));
    let mut unsorted = start();
    unsorted.push(b"b", b"").unwrap();
    assert!(matches!(unsorted.push(b"b", b""), Err(SnapshotError::Rows(_))));
    assert!(matches!(unsorted.push(b"a", b""), Err(SnapshotError::Rows(_))));
}

fn open(dir: &Path) -> Arc<SnapshotFiles> {
    SnapshotFiles::open(dir, CLUSTER, GROUP).unwrap()
}

fn publish(files: &Arc<SnapshotFiles>, index: u64, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    let mut draft = files.draft(header(index, rows)).unwrap();
    rows.iter().for_each(|(key, value)| draft.push(key, value).unwrap());
    draft.publish().unwrap().id().index
}

fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn only_the_newest_file_stays_and_older_ones_can_be_read_to_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (rows_of(1, 4_000, 600), rows_of(2, 10, 60));
    let files = open(dir.path());
    assert_eq!(files.newest_index(), None);
    assert_eq!(publish(&files, 5, &first), 5);
    let lent = files.newest().unwrap();
    assert_eq!(publish(&files, 8, &second), 8);
    assert_eq!(publish(&files, 7, &first), 8, "an older one is not taken");
    assert_eq!(names(dir.path()).len(), 1);
    assert_eq!(lent.reader().unwrap().verify().unwrap().rows, 4_000);
    assert_eq!(files.by_id(lent.id()).unwrap().read_at(0, 8).unwrap(), b"HFSNAP01");
    let id = lent.id();
    drop(lent);
    assert!(files.by_id(id).is_none());
    let again = open(dir.path());
    assert_eq!(again.newest().unwrap().header(), &header(8, &second));
    assert_eq!(again.newest().unwrap().reader().unwrap().verify().unwrap().rows, 10);
}

#[test]
fn unfinished_and_damaged_files_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows_of(1, 100, 200);
    let files = open(dir.path());
    publish(&files, 5, &rows);
    let mut draft = files.draft(header(6, &rows)).unwrap();
    draft.push(b"a", b"b").unwrap();
    drop(draft);
    assert_eq!(names(dir.path()).len(), 1);
    let path = files.newest().unwrap().path().to_owned();
    let whole = fs::read(&path).unwrap();
    // A crash leaves a temporary file, and one that is newer in name only.
    fs::write(dir.path().join("00000000000000000009.tmp"), &whole[..40]).unwrap();
    fs::write(dir.path().join("00000000000000000009-00.snap"), &whole[..whole.len() - 1]).unwrap();
    let files = open(dir.path());
    assert_eq!((files.newest_index(), files.damaged()), (Some(5), 1));
    assert_eq!(names(dir.path()).last().unwrap(), "snapshot.damaged");
    assert_eq!(names(dir.path()).len(), 2);
    // Damage in the middle is found when the rows are used.
    let mut bytes = whole.clone();
    bytes[whole.len() / 2] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let files = open(dir.path());
    let newest = files.newest().unwrap();
    let error = newest.reader().unwrap().verify().unwrap_err();
    files.give_up(&newest, &error).unwrap();
    assert_eq!((files.newest_index(), files.damaged()), (None, 1));
    assert_eq!(open(dir.path()).newest_index(), None);
    // The file of another shard, whatever its name.
    fs::write(&path, &whole).unwrap();
    assert_eq!(open(dir.path()).newest_index(), Some(5));
    let other = SnapshotFiles::open(dir.path(), CLUSTER, GROUP + 1).unwrap();
    assert_eq!((other.newest_index(), other.damaged()), (None, 1));
}

#[test]
fn a_file_is_received_piece_by_piece() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rows = rows_of(1, 2_000, 500);
    let sender = open(there.path());
    publish(&sender, 5, &rows);
    let file = sender.newest().unwrap();
    let receiver = open(here.path());
    let mut incoming = receiver.receive(file.id(), file.bytes()).unwrap();
    incoming.append(&file.read_at(0, 100_000).unwrap()).unwrap();
    drop(incoming);
    // Another connection, another process: it goes on where it was.
    let receiver = open(here.path());
    let mut incoming = receiver.receive(file.id(), file.bytes()).unwrap();
    assert_eq!(incoming.at(), 100_000);
    while !incoming.is_complete() {
        incoming.append(&file.read_at(incoming.at(), 70_000).unwrap()).unwrap();
    }
    assert!(matches!(incoming.append(b"x"), Err(SnapshotError::Damaged(_))));
    assert_eq!(incoming.publish().unwrap().header(), file.header());
    assert_eq!(receiver.newest_index(), Some(5));
    assert_eq!(names(here.path()), names(there.path()));

    // A damaged piece: the file comes anew, from its beginning.
    publish(&sender, 6, &rows);
    let file = sender.newest().unwrap();
    let mut incoming = receiver.receive(file.id(), file.bytes()).unwrap();
    let mut bytes = file.read_at(0, usize::MAX).unwrap();
    bytes[200_000] ^= 4;
    incoming.append(&bytes).unwrap();
    assert!(matches!(incoming.publish(), Err(SnapshotError::Damaged(_))));
    assert_eq!(receiver.newest_index(), Some(5));
    assert_eq!(receiver.receive(file.id(), file.bytes()).unwrap().at(), 0);
}
