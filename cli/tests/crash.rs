//! Acknowledged means durable: kill -9 of the whole process at random moments under load.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::load::{Load, reboot};
use common::{Model, Server, scratch};
use rand::Rng;
use std::time::Duration;

const ROUNDS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_write_survives_kill_9_once() {
    let data = scratch();
    let mut load = Load::default();
    for round in 0..ROUNDS {
        if round % 7 == 6 {
            reboot(data.path());
        }
        let server = Server::start(data.path(), Model::Absent);
        let api = server.api();
        load.repeat_open(&api).await;
        load.check(&api).await;
        if round == ROUNDS / 2 {
            server.admin_api().replicas_agree().await;
        }
        let pause = rand::rng().random_range(50..900);
        load.run(&api, Duration::from_millis(pause), || server.kill()).await;
    }
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    load.repeat_open(&api).await;
    load.check(&api).await;
    let written: u64 = load.next.iter().sum();
    assert!(written > 200, "the load wrote too little to mean anything: {written}");
    server.admin_api().replicas_agree().await;
    assert!(server.terminate(), "a clean stop exits 0");
}
