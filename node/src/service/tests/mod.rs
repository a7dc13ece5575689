//! Reads at each replica of whole nodes: tokens, bounds, quorums, and parts that moved away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;
mod recheck;
mod tenants;
mod tiers;

use harness::{
    Acknowledged, Cluster, GROUP, HEARTBEAT, bounded, linearizable, read, session, until, write,
    write_somewhere,
};
use holdfast_core::shard_map::ShardMap;
use holdfast_core::space::Shard;
use holdfast_proto::v1::{self, Route};
use std::time::{Duration, Instant};

/// How long what must come may take on a busy machine.
const IN_TIME: Duration = Duration::from_secs(60);

/// A token's true position; one beyond the log; one of another life.
fn positions(seen: v1::Seen) -> (v1::Seen, v1::Seen) {
    (
        v1::Seen { index: seen.index + 1_000_000, ..seen },
        v1::Seen { incarnation: seen.incarnation ^ 1, ..seen },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_on_a_lagging_follower_is_refused_at_once_and_never_older() {
    let cluster = Cluster::start().await;
    let first = write_somewhere(&cluster, "first", None).await;
    let follower = cluster.followers().await[0];
    let service = cluster.service(follower);
    let with_first = || read(&service, session(Some(first), true));
    until("the follower has the first", || async { with_first().await.is_ok() }).await;

    cluster.isolate(follower, true);
    let second = write_somewhere(&cluster, "second", Some(follower)).await;
    let begin = Instant::now();
    let refused = read(&service, session(Some(second), true)).await.unwrap_err();
    assert_eq!(refused.route, Route::Behind);
    assert!(begin.elapsed() < Duration::from_secs(4), "it waits instead of saying so");
    // What it does hold it answers, as old as it is.
    assert_eq!(with_first().await.unwrap().0, ["first"]);
    // Without a position there is nothing to compare with, and without leave only a leader answers.
    assert_eq!(read(&service, session(None, true)).await.unwrap_err().route, Route::Behind);
    assert_eq!(read(&service, session(Some(first), false)).await.unwrap_err().route, Route::NotLeader);

    cluster.isolate(follower, false);
    let with_second = || read(&service, session(Some(second), true));
    until("the follower has caught up", || async { with_second().await.is_ok() }).await;
    assert_eq!(with_second().await.unwrap().0, ["first", "second"]);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_does_not_fit_neither_fails_nor_waits() {
    let cluster = Cluster::start().await;
    let seen = write_somewhere(&cluster, "first", None).await;
    let (beyond, foreign) = positions(seen);
    for position in [beyond, foreign, v1::Seen { shard: seen.shard + 1, ..beyond }] {
        let begin = Instant::now();
        let leader = cluster.leader().await;
        let (found, _) = read(&cluster.service(leader), session(Some(position), false)).await.unwrap();
        assert_eq!(found, ["first"]);
        assert!(begin.elapsed() < Duration::from_secs(4), "it waits for {position:?}");
    }
    // A follower cannot ask a majority: it leaves them to the leader.
    for position in [beyond, foreign] {
        let follower = cluster.service(cluster.followers().await[0]);
        let refused = read(&follower, session(Some(position), true)).await.unwrap_err();
        assert_eq!(refused.route, Route::Behind);
    }
    cluster.stop().await;
}

/// Reads with a bound at a node, for as long as `goes_on`, and checks each answer. Returns how many
/// were answered, and when the last was.
async fn bounded_reads(
    cluster: &Cluster,
    node: u64,
    staleness: Duration,
    acknowledged: &Acknowledged,
    mut goes_on: impl FnMut(usize, Instant) -> bool,
) -> (usize, Instant) {
    let service = cluster.service(node);
    let (mut answered, mut last) = (0, Instant::now());
    while goes_on(answered, last) {
        let begin = Instant::now();
        if let Ok((found, _)) = read(&service, bounded(staleness)).await {
            answered += 1;
            last = begin;
            if let Some(moment) = begin.checked_sub(staleness) {
                acknowledged.check(&found, moment, &format!("node {node}"));
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (answered, last)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_keep_their_bound_and_stop_in_time_when_they_are_cut_off() {
    let cluster = Cluster::start().await;
    let acknowledged = Acknowledged::default();
    let followers = cluster.followers().await;
    let staleness = HEARTBEAT * 8;
    let writing = async {
        for number in 0.. {
            let id = format!("m{number}");
            write_somewhere(&cluster, &id, Some(followers[0])).await;
            acknowledged.note(&id);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reading = async {
        for follower in &followers {
            let begin = Instant::now();
            // Until it has answered for as long as its bound, under load.
            let (answered, last) = bounded_reads(&cluster, *follower, staleness, &acknowledged, |_, last| {
                let is_done = acknowledged.len() >= 50 && last >= begin + staleness;
                !is_done && begin.elapsed() < IN_TIME
            })
            .await;
            let time = last.saturating_duration_since(begin);
            assert!(
                time >= staleness,
                "follower {follower} answered {answered} times, the last after {time:?}"
            );
        }
        cluster.isolate(followers[0], true);
        let cut = Instant::now();
        // Every answer is checked; after the bound there must be none at all.
        let (_, last) = bounded_reads(&cluster, followers[0], staleness, &acknowledged, |_, _| {
            cut.elapsed() < staleness * 3
        })
        .await;
        let after = last.saturating_duration_since(cut);
        assert!(after <= staleness, "it still answers {after:?} after it was cut off");
        let service = cluster.service(followers[0]);
        assert_eq!(read(&service, bounded(staleness)).await.unwrap_err().route, Route::Behind);
        // It comes back by itself.
        cluster.isolate(followers[0], false);
        until("it proves its bound again", || async { read(&service, bounded(staleness)).await.is_ok() })
            .await;
    };
    tokio::select! {
        () = writing => unreachable!("it writes for ever"),
        () = reading => {}
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_off_leader_and_who_still_hears_it_stop_in_time() {
    let cluster = Cluster::start().await;
    write_somewhere(&cluster, "before", None).await;
    let old = cluster.leader().await;
    let followers = cluster.followers().await;
    let staleness = HEARTBEAT * 8;
    let acknowledged = Acknowledged::default();
    // The old leader reaches nobody. One that hears it may, for as long as its bound allows.
    cluster.isolate(old, true);
    let cut = Instant::now();
    let writing = async {
        for number in 0.. {
            let id = format!("m{number}");
            write_somewhere(&cluster, &id, Some(old)).await;
            acknowledged.note(&id);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reading = async {
        let at_old = bounded_reads(&cluster, old, staleness, &acknowledged, |_, _| {
            acknowledged.len() < 20 || cut.elapsed() < staleness * 3
        });
        let at_followers = async {
            for follower in &followers {
                let begin = Instant::now();
                // Until it has answered long after the old leader must be silent.
                let (_, last) =
                    bounded_reads(&cluster, *follower, staleness, &acknowledged, |answered, last| {
                        let is_done = acknowledged.len() >= 20 && answered > 0 && last >= cut + staleness * 2;
                        !is_done && begin.elapsed() < IN_TIME
                    })
                    .await;
                assert!(
                    last >= cut + staleness * 2,
                    "follower {follower} proves no bound under the new leader"
                );
            }
        };
        let ((_, last), ()) = tokio::join!(at_old, at_followers);
        let after = last.saturating_duration_since(cut);
        assert!(after <= staleness, "the old leader still answers {after:?} after it was cut off");
        assert!(read(&cluster.service(old), session(None, false)).await.is_err());
        let refused = read(&cluster.service(old), v1::Read { deadline_ms: 300, ..linearizable() }).await;
        assert!(refused.is_err());
    };
    tokio::select! {
        () = writing => unreachable!("it writes for ever"),
        () = reading => {}
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_bound_is_met_by_the_leader_with_a_majority() {
    let cluster = Cluster::start().await;
    for number in 0..20 {
        let id = format!("m{number}");
        write_somewhere(&cluster, &id, None).await;
        let leader = cluster.leader().await;
        let (found, _) = read(&cluster.service(leader), bounded(Duration::from_millis(1))).await.unwrap();
        assert!(found.contains(&id), "{id}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn linearizable_reads_after_a_failover_see_all_that_was_acknowledged() {
    let mut cluster = Cluster::start().await;
    let mut all = Vec::new();
    for round in 0..3 {
        for number in 0..5 {
            let id = format!("r{round}-{number}");
            write_somewhere(&cluster, &id, None).await;
            all.push(id);
        }
        let old = cluster.leader().await;
        cluster.stop_node(old).await;
        let new = cluster.leader().await;
        let (found, _) = read(&cluster.service(new), linearizable()).await.unwrap();
        assert_eq!(found, all);
        let follower = cluster.followers().await[0];
        let refused = read(&cluster.service(follower), linearizable()).await.unwrap_err();
        assert_eq!((refused.route, refused.leader), (Route::NotLeader, Some(new)));
        cluster.start_node(old).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moved_away_is_refused_with_the_epoch() {
    let cluster = Cluster::start().await;
    write_somewhere(&cluster, "first", None).await;
    let leader = cluster.leader().await;
    let service = cluster.service(leader);
    let asked = |shard, epoch| v1::Read { owner: Some(v1::Owner { shard, epoch }), ..session(None, false) };
    assert!(read(&service, asked(GROUP, 1)).await.is_ok());
    let wrong = read(&service, asked(GROUP + 1, 1)).await.unwrap_err();
    assert_eq!((wrong.route, wrong.map_epoch), (Route::WrongShard, Some(1)));
    // A router that knows more than this node must ask another one.
    assert_eq!(read(&service, asked(GROUP + 1, 2)).await.unwrap_err().route, Route::Behind);

    // The slot moves to a second shard, which this cluster does not have.
    let away = ShardMap::new(5, 2, vec![Shard(2); 4_096]).unwrap();
    cluster.nodes[&leader].set_shard_map(away);
    cluster.nodes[&leader].set_shard_map(ShardMap::initial(1));
    let told = service.describe(1).map.unwrap();
    assert_eq!((told.epoch, told.owners.len()), (5, 4_096), "an older map changes nothing");
    assert!(service.describe(5).map.unwrap().owners.is_empty(), "who knows it is not told again");
    let wrong = read(&service, asked(GROUP, 1)).await.unwrap_err();
    assert_eq!((wrong.route, wrong.map_epoch), (Route::WrongShard, Some(5)));
    let wrong = write(&service, "never").await.unwrap_err();
    assert_eq!((wrong.route, wrong.map_epoch), (Route::WrongShard, Some(5)));
    cluster.stop().await;
}
