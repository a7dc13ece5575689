#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::admin::Probes;
use crate::process::{Event, Process, ProcessError};
use holdfast_core::ErrorCode;
use holdfast_core::access::{ApiKeyRow, Rights, TenantRow};
use holdfast_proto::v1::founding_client::FoundingClient;
use holdfast_proto::{refusal_of, v1};
use holdfast_transport::Security;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A node process in this one.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ProcessError>>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Running {
    async fn start(data: &Path, address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let (data, advertise) = (data.to_owned(), address.to_owned());
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let (tell, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let probes = Probes::default();
            let process = Process {
                data: &data,
                advertise: &advertise,
                moves: &Moves::default(),
                security: &Security::plain(),
                probes: &probes,
                stop: &stopping,
            };
            let tell = |event| {
                // Nobody listens at the end of a test.
                let _ = tell.send(event);
            };
            process.run(listener, |config| config.heartbeat = Duration::from_millis(100), tell).await
        });
        Self { stop, task, events }
    }

    async fn next(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(30), self.events.recv()).await.unwrap().unwrap()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Three nodes that wait.
struct Nodes {
    dir: tempfile::TempDir,
    addresses: Vec<String>,
    running: Vec<Running>,
}

impl Nodes {
    async fn waiting() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut addresses = Vec::new();
        for _ in 0..3 {
            let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(free.local_addr().unwrap().to_string());
        }
        let mut running = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let mut node = Running::start(&dir.path().join(index.to_string()), address).await;
            assert_eq!(node.next().await, Event::Waiting);
            running.push(node);
        }
        Self { dir, addresses, running }
    }

    fn data(&self, index: usize) -> PathBuf {
        self.dir.path().join(index.to_string())
    }

    fn founding(&self, key: &str) -> Founding {
        Founding {
            seeds: self.addresses.clone(),
            shards: 2,
            tenant: TenantRow { id: "t".into(), name: "T".into(), created_us: 0 },
            key: key_row(key),
            moves: Moves::default(),
            security: Security::plain(),
            timeout: Duration::from_secs(60),
        }
    }

    async fn all_ready(&mut self) {
        for (id, node) in (1..).zip(&mut self.running) {
            assert_eq!(node.next().await, Event::Ready(id));
        }
    }

    async fn stop(self) {
        for node in self.running {
            node.stop().await;
        }
    }
}

fn key_row(id: &str) -> ApiKeyRow {
    ApiKeyRow {
        id: id.to_owned(),
        secret_sha256: [id.len() as u8; 32],
        tenant: "t".into(),
        user: None,
        rights: Rights::ALL,
        name: "first".into(),
        created_us: 0,
        expires_us: None,
        revoked_us: None,
        created_by: None,
    }
}

fn a_plan(instances: [&str; 3]) -> Plan {
    let member = |(id, instance): (u64, &&str)| PlanMember {
        id,
        address: format!("node-{id}.例え.test:7800"),
        instance: (*instance).to_owned(),
    };
    Plan { cluster_id: "c".repeat(32), shards: 8, members: (1..).zip(&instances).map(member).collect() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_founded_once_and_survives_a_restart() {
    let mut nodes = Nodes::waiting().await;
    let founded = found(&nodes.founding("first")).await.unwrap();
    assert!(founded.by_this_call && founded.with_this_key);
    assert_eq!(founded.members.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    nodes.all_ready().await;

    // A second founding changes nothing, whoever asks.
    let again = found(&nodes.founding("first")).await.unwrap();
    assert_eq!((again.by_this_call, again.with_this_key), (false, true));
    let other = found(&nodes.founding("second key")).await.unwrap();
    assert_eq!((other.by_this_call, other.with_this_key), (false, false));
    assert_eq!(other.cluster_id, founded.cluster_id);

    // Each comes back under its own id, without being founded again.
    let address = nodes.addresses[1].clone();
    nodes.running.remove(1).stop().await;
    // With a node away a founded cluster is still known to be one.
    let away = found(&nodes.founding("second key")).await.unwrap();
    assert_eq!((away.by_this_call, away.with_this_key), (false, false));
    let mut back = Running::start(&nodes.data(1), &address).await;
    assert_eq!(back.next().await, Event::Ready(2));
    nodes.running.push(back);
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_foundings_at_once_one_cluster_comes() {
    let mut nodes = Nodes::waiting().await;
    let one = nodes.founding("one");
    let mut two = nodes.founding("another");
    two.seeds.reverse();
    let (one, two) = tokio::join!(found(&one), found(&two));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.cluster_id, two.cluster_id);
    assert_eq!(one.members, two.members);
    assert!(one.with_this_key != two.with_this_key, "exactly one key is valid: {one:?} {two:?}");
    for node in &mut nodes.running {
        assert!(matches!(node.next().await, Event::Ready(_)));
    }
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founding_that_was_cut_off_is_carried_on() {
    let mut nodes = Nodes::waiting().await;
    // One that handed its plan to one node, and died.
    let mut instances = Vec::new();
    for address in &nodes.addresses {
        let mut client = FoundingClient::connect(format!("http://{address}")).await.unwrap();
        instances.push(client.describe(v1::DescribeRequest {}).await.unwrap().into_inner().instance);
    }
    let member = |((id, address), instance): ((u64, &String), &String)| PlanMember {
        id,
        address: address.clone(),
        instance: instance.clone(),
    };
    let members = (1..).zip(&nodes.addresses).zip(&instances).map(member).collect();
    let plan = Plan { cluster_id: "7".repeat(32), shards: 3, members };
    let mut client = FoundingClient::connect(format!("http://{}", nodes.addresses[2])).await.unwrap();
    client.adopt(v1::AdoptRequest { plan: Some((&plan).into()) }).await.unwrap();

    // Another plan is refused by it, now and later.
    let mut other = plan.clone();
    other.cluster_id = "8".repeat(32);
    let mut client = FoundingClient::connect(format!("http://{}", nodes.addresses[2])).await.unwrap();
    let status = client.adopt(v1::AdoptRequest { plan: Some((&other).into()) }).await.unwrap_err();
    assert_eq!(refusal_of(&status, false).error.code, ErrorCode::AlreadyExists);

    let founded = found(&nodes.founding("first")).await.unwrap();
    assert_eq!(founded.cluster_id, plan.cluster_id, "the plan that a node holds is carried out");
    assert!(founded.by_this_call && founded.with_this_key);
    nodes.all_ready().await;
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_disk_does_not_come_back_under_the_old_id() {
    let mut nodes = Nodes::waiting().await;
    found(&nodes.founding("first")).await.unwrap();
    nodes.all_ready().await;
    let address = nodes.addresses[0].clone();
    nodes.running.remove(0).stop().await;
    std::fs::remove_dir_all(nodes.data(0)).unwrap();
    let mut empty = Running::start(&nodes.data(0), &address).await;
    assert_eq!(empty.next().await, Event::Waiting, "it is a new node");
    // The founded cluster stays what it is, and the new node stays outside.
    let again = found(&nodes.founding("first")).await.unwrap();
    assert!(!again.by_this_call && again.with_this_key);
    assert!(empty.events.try_recv().is_err());
    empty.stop().await;

    // A node that kept its volume.json but lost its data says so and does not start.
    let address = nodes.addresses[1].clone();
    nodes.running.remove(0).stop().await;
    std::fs::remove_dir_all(nodes.data(1).join("raft")).unwrap();
    let lost = Running::start(&nodes.data(1), &address).await;
    let error = lost.task.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("must not come back under its old id"), "{error}");
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeds_that_do_not_fit_are_refused() {
    let nodes = Nodes::waiting().await;
    let refused = async |change: &dyn Fn(&mut Founding)| {
        let mut founding = nodes.founding("first");
        founding.timeout = Duration::from_secs(2);
        change(&mut founding);
        found(&founding).await.unwrap_err()
    };
    let twice = refused(&|founding| founding.seeds[1] = founding.seeds[0].clone()).await;
    assert!(matches!(&twice, FoundError::Arguments(detail) if detail.contains("twice")), "{twice}");
    let even = refused(&|founding| drop(founding.seeds.pop())).await;
    assert!(even.to_string().contains("1, 3, 5 or 7"), "{even}");
    let shards = refused(&|founding| founding.shards = 0).await;
    assert!(shards.to_string().contains("shards"), "{shards}");
    let text = refused(&|founding| founding.seeds[0] = "not an address".into()).await;
    assert!(text.to_string().contains("host:port"), "{text}");
    // Another name of a node than the one that it advertises.
    let name =
        refused(&|founding| founding.seeds[0] = founding.seeds[0].replace("127.0.0.1", "localhost")).await;
    assert!(name.to_string().contains("node.advertise"), "{name}");
    let silent = refused(&|founding| founding.seeds[2] = "127.0.0.1:1".into()).await;
    assert!(matches!(&silent, FoundError::TimedOut(detail) if detail.contains("127.0.0.1:1")), "{silent}");
    nodes.stop().await;
}

#[test]
fn a_volume_takes_one_plan_in_its_life() {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::open(dir.path()).unwrap();
    let instance = volume.instance();
    let (a, b) = ("a".repeat(32), "b".repeat(32));
    assert!(matches!(Volume::open(dir.path()), Err(VolumeError::InUse(_))), "one process at a time");
    let foreign = volume.adopt(&a_plan([&a, &b, &"d".repeat(32)]));
    assert!(matches!(foreign, Err(AdoptError::NotNamed(_))));
    let plan = a_plan([&a, &instance, &b]);
    volume.adopt(&plan).unwrap();
    volume.adopt(&plan).unwrap();
    let mut other = plan.clone();
    other.shards = 9;
    assert!(matches!(volume.adopt(&other), Err(AdoptError::Taken(_))));
    assert!(!volume.has_started());
    volume.set_started().unwrap();
    drop(volume);
    let again = Volume::open(dir.path()).unwrap();
    assert_eq!((again.instance(), again.plan(), again.has_started()), (instance, Some(plan), true));
}

#[test]
fn a_damaged_volume_is_never_taken_for_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let instance = Volume::open(dir.path()).unwrap().instance();
    let path = dir.path().join("volume.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    for text in ["", "{", "null", "[]", &whole.replace("\"format\": 1", "\"format\": 2")] {
        std::fs::write(&path, text).unwrap();
        assert!(matches!(Volume::open(dir.path()), Err(VolumeError::Damaged { .. })), "{text:?}");
    }
    // The plan of another volume, copied here.
    let mut record: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let foreign = a_plan([&"a".repeat(32), &"b".repeat(32), &"d".repeat(32)]);
    record["plan"] = serde_json::to_value(&foreign).unwrap();
    std::fs::write(&path, record.to_string()).unwrap();
    assert!(matches!(Volume::open(dir.path()), Err(VolumeError::Damaged { .. })));
    // Data without a name.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(dir.path().join("raft")).unwrap();
    assert!(matches!(Volume::open(dir.path()), Err(VolumeError::Unnamed(_))));
    std::fs::remove_dir(dir.path().join("raft")).unwrap();
    assert_ne!(Volume::open(dir.path()).unwrap().instance(), instance);
}

#[test]
fn plans_that_cannot_work_are_refused() {
    let ids = ["a".repeat(32), "b".repeat(32), "d".repeat(32)];
    let plan = a_plan([&ids[0], &ids[1], &ids[2]]);
    plan.check().unwrap();
    assert_eq!(Plan::try_from(v1::Plan::from(&plan)).unwrap(), plan);
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        Plan::try_from(v1::Plan::from(&plan)).unwrap_err().to_string()
    };
    assert!(refused(&|plan| plan.cluster_id = "C".repeat(32)).contains("cluster id"));
    assert!(refused(&|plan| plan.shards = 257).contains("257"));
    assert!(refused(&|plan| drop(plan.members.pop())).contains("1, 3, 5 or 7"));
    assert!(refused(&|plan| plan.members.clear()).contains("1, 3, 5 or 7"));
    assert!(refused(&|plan| plan.members[2].id = 4).contains("numbered"));
    assert!(refused(&|plan| plan.members[2].instance = String::new()).contains("instance"));
    assert!(refused(&|plan| plan.members[1].address = plan.members[0].address.clone()).contains("address"));
    assert!(
        refused(&|plan| plan.members[1].instance = plan.members[0].instance.clone()).contains("one node")
    );
    assert!(refused(&|plan| plan.members[1].address = "长".repeat(200)).contains("usable"));
}
