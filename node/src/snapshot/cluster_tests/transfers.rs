//! Files between replicas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::harness::{Cluster, GROUP, long_names, names, until, within};
use crate::raft::OpenError;
use crate::shard::BootId;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

fn set(ids: &[&[String]]) -> BTreeSet<String> {
    ids.iter().flat_map(|ids| ids.iter().cloned()).collect()
}

/// Three nodes, of which the third has missed what the others have purged.
async fn third_is_behind(dir: &std::path::Path) -> (Cluster, BTreeSet<String>) {
    let mut cluster = Cluster::new(dir, 1, &[1, 2, 3]);
    cluster.start(&[1, 2, 3]).await;
    let (before, after) = (names("before", 60), names("after", 200));
    cluster.write(&before, |_| ()).await;
    cluster.converge(&set(&[&before])).await;
    cluster.stop(3).await;
    cluster.write(&after, |_| ()).await;
    for id in [1, 2] {
        cluster.snapshot(id).await;
    }
    (cluster, set(&[&before, &after]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_far_behind_gets_the_file_and_then_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut cluster, mut ids) = third_is_behind(dir.path()).await;
    cluster.start(&[3]).await;
    cluster.converge(&ids).await;
    let third = &cluster.nodes[&3];
    assert_eq!((third.state.installs(), third.raft.snapshot_bytes_moved().0), (1, 0));
    assert!(third.raft.snapshot_bytes_moved().1 > 0);
    assert_eq!(third.group().purged(), third.state.snapshots().newest_index());
    let more = names("more", 40);
    cluster.write(&more, |_| ()).await;
    ids.extend(more);
    cluster.converge(&ids).await;
    // It is a full replica now: it can lead, and make files.
    cluster.stop(1).await;
    cluster.snapshot(3).await;
    let last = names("last", 20);
    cluster.write(&last, |_| ()).await;
    ids.extend(last);
    cluster.converge(&ids).await;
    // And everything starts again from file and log, after a power cut.
    cluster.stop_all().await;
    cluster.boot = BootId("another".into());
    cluster.start(&[1, 2, 3]).await;
    cluster.converge(&ids).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_begins_with_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1, 2, 3]);
    cluster.start(&[1, 2]).await;
    let ids = names("m", 150);
    cluster.write(&ids, |_| ()).await;
    for id in [1, 2] {
        cluster.snapshot(id).await;
    }
    cluster.start(&[3]).await;
    cluster.converge(&set(&[&ids])).await;
    assert_eq!(cluster.nodes[&3].state.installs(), 1);
    cluster.stop_all().await;
}

/// State and file are both gone or damaged, and the log begins behind what they held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_behind_its_own_purge_point_fetches_a_file_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1, 2, 3]);
    cluster.start(&[1, 2, 3]).await;
    let mut ids = set(&[&names("m", 150)]);
    cluster.write(&names("m", 150), |_| ()).await;
    cluster.converge(&ids).await;
    for id in [1, 2] {
        cluster.snapshot(id).await;
    }
    cluster.write(&names("later", 20), |_| ()).await;
    ids.extend(names("later", 20));
    cluster.converge(&ids).await;
    // The others' files end before this one's log begins: one of them has to write another.
    let purged = cluster.snapshot(3).await;
    assert!(cluster.nodes[&1].state.snapshots().newest_index() < Some(purged));
    cluster.stop(3).await;
    fs::remove_dir_all(cluster.shard_dir(3)).unwrap();
    cluster.start(&[3]).await;
    cluster.converge(&ids).await;
    assert_eq!(cluster.nodes[&3].state.installs(), 1);

    cluster.stop(3).await;
    let file = snapshot_file(&cluster, 3);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    cluster.boot = BootId("another".into());
    cluster.start(&[3]).await;
    cluster.converge(&ids).await;
    let third = &cluster.nodes[&3];
    assert_eq!((third.state.installs(), third.state.snapshots().damaged()), (1, 1));
    cluster.stop_all().await;

    // Nobody there to ask: it must not start with an empty state.
    fs::remove_dir_all(cluster.shard_dir(3)).unwrap();
    cluster.fetch_wait = Duration::from_millis(300);
    let error = cluster.try_start(3).await.unwrap_err();
    assert!(matches!(error, OpenError::StateBehindLog { group: GROUP, applied: None, .. }), "{error}");
    assert!(error.to_string().contains("start the other nodes first"), "{error}");
    // The refusal has done no harm.
    cluster.start(&[1, 2]).await;
    cluster.fetch_wait = Duration::from_secs(20);
    cluster.start(&[3]).await;
    cluster.converge(&ids).await;
    cluster.stop_all().await;
}

fn snapshot_file(cluster: &Cluster, id: u64) -> PathBuf {
    let dir = fs::read_dir(cluster.shard_dir(id).join("snapshots")).unwrap();
    let mut files = dir.map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "snap")).unwrap()
}

/// The state is sound and the file is gone: openraft needs one at the start, so it is written then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_file_of_a_sound_state_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1]);
    cluster.start(&[1]).await;
    cluster.write(&names("m", 100), |_| ()).await;
    let index = cluster.snapshot(1).await;
    cluster.nodes[&1].state.close().unwrap();
    cluster.stop(1).await;
    fs::remove_file(snapshot_file(&cluster, 1)).unwrap();
    cluster.start(&[1]).await;
    assert!(cluster.nodes[&1].state.snapshots().newest_index() >= Some(index));
    cluster.converge(&set(&[&names("m", 100)])).await;
    cluster.stop_all().await;
}

/// The leader goes away in the middle of a slow transfer; the next one finishes what is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_survives_the_loss_of_the_leader() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1, 2, 3]);
    cluster.start(&[1, 2, 3]).await;
    cluster.stop(3).await;
    // Texts that do not compress, so that the file has several pieces.
    let ids = long_names("m", 400);
    cluster.write(&ids, |_| ()).await;
    for id in [1, 2] {
        cluster.snapshot(id).await;
    }
    // A piece a second or so: the transfer is under way for a while.
    cluster.fetch_bytes_per_second = 200 << 10;
    cluster.start(&[3]).await;
    until("some of the file has come", || cluster.nodes[&3].raft.snapshot_bytes_moved().1 > 0).await;
    let leader = cluster.leader().await;
    cluster.stop(leader).await;
    cluster.start(&[leader]).await;
    cluster.write(&names("last", 5), |_| ()).await;
    let mut all = set(&[&ids]);
    all.extend(names("last", 5));
    cluster.converge(&all).await;
    cluster.stop_all().await;
}

/// Nothing but a file that is there lets entries go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_file_the_log_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(dir.path(), 1, &[1]);
    cluster.start(&[1]).await;
    cluster.write(&names("m", 60), |_| ()).await;
    let node = &cluster.nodes[&1];
    node.group().purge_log(2).await.unwrap();
    cluster.write(&names("n", 5), |_| ()).await;
    assert_eq!(cluster.nodes[&1].group().purged(), None);
    let index = cluster.snapshot(1).await;
    node.group().purge_log(index + 100).await.unwrap();
    cluster.write(&names("o", 5), |_| ()).await;
    assert_eq!(cluster.nodes[&1].group().purged(), Some(index));
    assert!(node.group().linearizable(within(10)).await.is_ok());
    cluster.stop_all().await;
}
