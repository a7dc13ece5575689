//! Clocks that jump, of single nodes and of all of them.

use crate::common::Api;
use crate::rig::Rig;
use crate::settings::{choices, rounds, seed};
use rand::Rng;
use serde_json::json;
use std::time::{Duration, SystemTime};

const HOUR: i64 = 3_600;
const USERS: usize = 8;
/// Sweeps run at least every second.
const SWEEPS: Duration = Duration::from_secs(3);

/// What expires in an hour is there in each space, whatever the clocks say.
async fn assert_not_expired(api: &Api) {
    for user in 0..USERS {
        assert_eq!(api.list(&format!("expiring-{user}")).await.len(), 1, "user {user}: it expired too early");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_jump_lose_nothing_and_expire_nothing_early() {
    let seed = seed();
    let mut rng = choices(seed);
    let mut rig = Rig::start(3, 4, rng.random());
    let api = rig.cluster.api();
    let in_an_hour = jiff::Timestamp::try_from(SystemTime::now() + Duration::from_secs(3_600)).unwrap();
    for user in 0..USERS {
        let body =
            json!({ "memories": [{ "content": "until later", "expires_at": in_an_hour.to_string() }] });
        api.ok(&format!("/v1/users/expiring-{user}/memories"), &body).await;
    }
    rig.start_load();
    for round in 0..rounds(1, 20) {
        // Forwards and backwards, by hours and days; now and then all nodes alike.
        let jumps = [-30 * 24 * HOUR, -HOUR, -2, 2 * HOUR, 24 * HOUR, 400 * 24 * HOUR];
        let mut jump = || jumps[rng.random_range(0..jumps.len())];
        let first = jump();
        let all_alike = round % 2 == 1;
        let shifts: Vec<i64> = (0..3).map(|_| if all_alike { first } else { jump() }).collect();
        println!("round {round}: clocks jump by {shifts:?} s");
        for (shim, shift) in rig.shims.iter().zip(&shifts) {
            shim.shift_clock(*shift);
        }
        rig.wait_progress(20).await;
        tokio::time::sleep(SWEEPS).await;
        assert_not_expired(&api).await;
        rig.shims.iter().for_each(|shim| shim.shift_clock(0));
        rig.wait_progress(20).await;
    }
    assert_not_expired(&api).await;
    rig.check().await;
}
