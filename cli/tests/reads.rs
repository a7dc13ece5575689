//! Many clients read what they know while nodes are killed: whatever answers, at whatever level, it
//! is never older than a client's token.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Api;
use common::cluster::Cluster;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;
const KILLS: usize = 6;

/// The levels that a client reads at, in turn.
const LEVELS: [&str; 4] =
    ["", "&consistency=linearizable", "&consistency=bounded&max_staleness_ms=60000", ""];

/// One user's agent, which talks to two routers in turn.
struct Client {
    number: usize,
    routers: [Api; 2],
    token: Option<String>,
    /// Numbers of the statements that the token has seen.
    seen: u64,
    reads: usize,
}

impl Client {
    fn user(&self) -> String {
        format!("client-{}", self.number)
    }

    fn content(&self, statement: u64) -> String {
        format!("statement {statement} 第{statement}句 of client {}", self.number)
    }

    fn router(&self, round: usize) -> &Api {
        &self.routers[(self.number + round) % 2]
    }

    /// Writes the next statement until it is acknowledged; the same key every time.
    async fn write(&mut self, round: usize) {
        let path = format!("/v1/users/{}/memories", self.user());
        let body = json!({ "memories": [{ "content": self.content(self.seen) }] });
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let api = self.router(round);
            let request = api.request(Method::POST, &path).json(&body);
            let request = request.header("Idempotency-Key", format!("{}-{}", self.number, self.seen));
            match api.send(request).await {
                Ok((StatusCode::CREATED, answer)) => {
                    self.token = Some(answer["token"].as_str().unwrap().to_owned());
                    self.seen += 1;
                    return;
                }
                Ok((status, answer)) => assert!(status.is_server_error(), "{status} {answer}"),
                Err(_cut_off) => {}
            }
            assert!(Instant::now() < deadline, "client {} cannot write", self.number);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reads with the token; what answers must hold every statement that it names.
    async fn read(&mut self, round: usize) {
        let (token, level) = (self.token.clone().unwrap(), LEVELS[round % LEVELS.len()]);
        let path = format!("/v1/users/{}/memories?limit=1000&token={token}{level}", self.user());
        let api = self.router(round + 1);
        let Ok((status, answer)) = api.send(api.request(Method::GET, &path)).await else { return };
        if status != StatusCode::OK {
            assert!(status.is_server_error(), "{status} {answer}");
            return;
        }
        let found: Vec<&str> = memories(&answer);
        for statement in 0..self.seen {
            let content = self.content(statement);
            assert!(
                found.contains(&content.as_str()),
                "client {} read {level:?} in round {round} and misses {content:?} of {} statements",
                self.number,
                self.seen
            );
        }
        self.token = Some(answer["token"].as_str().unwrap().to_owned());
        self.reads += 1;
    }

    /// As [`Client::read`], by a recall.
    async fn recall(&mut self, round: usize) {
        let newest = self.seen - 1;
        let body = json!({ "query": self.content(newest), "top_k": 1000, "token": self.token });
        let api = self.router(round);
        let path = format!("/v1/users/{}/recall", self.user());
        let Ok((status, answer)) = api.send(api.request(Method::POST, &path).json(&body)).await else {
            return;
        };
        if status != StatusCode::OK {
            assert!(status.is_server_error(), "{status} {answer}");
            return;
        }
        assert_eq!(answer["results"].as_array().unwrap().len() as u64, self.seen, "client {}", self.number);
        self.reads += 1;
    }
}

fn memories(answer: &Value) -> Vec<&str> {
    answer["memories"].as_array().unwrap().iter().map(|memory| memory["content"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_ever_sees_less_than_its_token_names() {
    let mut cluster = Cluster::start(3);
    let (_second, url) = cluster.plan.start_router(&[]);
    let second = Api::new(&url, &cluster.key);
    let stop = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let routers = [cluster.api(), second.clone()];
            let mut client = Client { number, routers, token: None, seen: 0, reads: 0 };
            let (stop, reads) = (stop.clone(), reads.clone());
            tokio::spawn(async move {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) || client.seen == 900 {
                        break;
                    }
                    client.write(round).await;
                    client.read(round).await;
                    client.recall(round).await;
                    reads.store(reads.load(Ordering::Relaxed).max(client.reads), Ordering::Relaxed);
                }
                client
            })
        })
        .collect();
    for _ in 0..KILLS {
        let index = rand::random_range(0..3);
        tokio::time::sleep(Duration::from_millis(rand::random_range(300..1_500))).await;
        cluster.nodes[index].take().unwrap().kill();
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..2_000))).await;
        cluster.restart_node(index);
    }
    let before = reads.load(Ordering::Relaxed);
    let deadline = Instant::now() + Duration::from_secs(90);
    while reads.load(Ordering::Relaxed) < before + 4 {
        assert!(
            Instant::now() < deadline && clients.iter().any(|client| !client.is_finished()),
            "nobody reads"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let client = client.await.unwrap();
        println!("client {}: {} statements, {} reads", client.number, client.seen, client.reads);
        assert!(client.seen > 0 && client.reads > 0);
    }
    cluster.admin_api().replicas_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounded_reads_go_on_without_a_leader_for_as_long_as_they_may() {
    let mut cluster = Cluster::start(1);
    let api = cluster.api();
    api.add("ann", &["我不吃辣"]).await;
    let read = |ms: u32| {
        let (api, path) =
            (api.clone(), format!("/v1/users/ann/memories?consistency=bounded&max_staleness_ms={ms}"));
        async move { api.get(&path).await }
    };
    cluster.admin_api().replicas_agree().await;
    // Until the node that will be left has proved itself.
    let answered = "holdfast_node_reads_total{consistency=\"bounded\",outcome=\"answered\",node=\"3\"} ";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert_eq!(memories(&read(60_000).await.1), ["我不吃辣"]);
        let (_, metrics) = cluster.nodes[2].as_ref().unwrap().probe("/metrics").await;
        let count = metrics.lines().find_map(|line| line.strip_prefix(answered)).unwrap();
        if count != "0" {
            break;
        }
        assert!(Instant::now() < deadline, "node 3 proves nothing");
    }
    cluster.nodes[0].take().unwrap().kill();
    cluster.nodes[1].take().unwrap().kill();
    // One of three is left: nobody can be asked, but what it was told is fresh enough for a while.
    let (status, answer) = read(600_000).await;
    assert_eq!((status, memories(&answer)), (StatusCode::OK, vec!["我不吃辣"]));
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (status, answer) = read(2_000).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            break;
        }
        assert!(Instant::now() < deadline, "it answers for ever: {status} {answer}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cluster.restart_node(0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while read(2_000).await.0 != StatusCode::OK {
        assert!(Instant::now() < deadline, "it does not come back");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
