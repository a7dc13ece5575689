//! Three whole nodes in one process, whose links to each other can be cut.

use super::super::NodeService;
use crate::config::NodeConfig;
use crate::node::Node;
use crate::raft::{GroupId, NodeId};
use crate::shard::tests::{add, space};
use holdfast_core::access::{Access, Rights};
use holdfast_proto::{Refused, v1};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(super) const NODES: [NodeId; 3] = [1, 2, 3];
/// The group of the space that the tests write to.
pub(super) const GROUP: GroupId = 1;
pub(super) const HEARTBEAT: Duration = Duration::from_millis(150);

/// What one node reaches another by: a relay that can be cut.
struct Link {
    address: String,
    is_cut: watch::Sender<bool>,
}

impl Link {
    async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (is_cut, cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut cut, target) = (cut.clone(), target.clone());
                tokio::spawn(async move {
                    if *cut.borrow_and_update() {
                        return;
                    }
                    let relay = async {
                        let mut far = TcpStream::connect(target).await?;
                        tokio::io::copy_bidirectional(&mut near, &mut far).await
                    };
                    tokio::select! {
                        // A connection that breaks is what the ends are there for.
                        _ = relay => {}
                        _ = cut.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { address, is_cut }
    }
}

pub(super) struct Cluster {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    addresses: BTreeMap<NodeId, String>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    dir: tempfile::TempDir,
}

impl Cluster {
    pub(super) async fn start() -> Self {
        let mut listeners = BTreeMap::new();
        for id in NODES {
            listeners.insert(id, TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let addresses: BTreeMap<_, _> = listeners.iter().map(|(id, at)| (*id, address(at))).collect();
        let mut links = BTreeMap::new();
        for from in NODES {
            for to in NODES {
                links.insert((from, to), Link::to(addresses[&to].clone()).await);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Self { nodes: BTreeMap::new(), addresses, links, dir };
        for (id, listener) in listeners {
            cluster.start_on(id, listener, true).await;
        }
        cluster.nodes[&1].founder().form_groups().await.unwrap();
        for node in cluster.nodes.values() {
            assert!(node.wait_for_leaders(Duration::from_secs(30)).await, "there are no leaders");
        }
        cluster
    }

    pub(super) fn dir(&self, id: NodeId) -> PathBuf {
        self.dir.path().join(id.to_string())
    }

    async fn start_on(&mut self, id: NodeId, listener: TcpListener, founding: bool) {
        let member = |to: NodeId| (to, self.links[&(id, to)].address.clone());
        let mut config = NodeConfig::new(id, "00ff", &self.dir(id), NODES.map(member).to_vec(), 1);
        config.heartbeat = HEARTBEAT;
        config.founding = founding;
        let node = Node::start(config, listener).await.unwrap();
        self.nodes.insert(id, node);
    }

    pub(super) async fn stop_node(&mut self, id: NodeId) {
        self.nodes.remove(&id).unwrap().stop().await;
    }

    pub(super) async fn start_node(&mut self, id: NodeId) {
        let listener = TcpListener::bind(&self.addresses[&id]).await.unwrap();
        self.start_on(id, listener, false).await;
    }

    /// Cuts or mends what is between two nodes, both ways.
    pub(super) fn cut(&self, a: NodeId, b: NodeId, is_cut: bool) {
        for pair in [(a, b), (b, a)] {
            self.links[&pair].is_cut.send_replace(is_cut);
        }
    }

    /// Cuts a node off from all others, or brings it back.
    pub(super) fn isolate(&self, id: NodeId, is_cut: bool) {
        for other in NODES.into_iter().filter(|other| *other != id) {
            self.cut(id, other, is_cut);
        }
    }

    pub(super) fn service(&self, id: NodeId) -> NodeService {
        self.nodes[&id].service()
    }

    /// The node that leads the group and can prove it, other than `not`.
    pub(super) async fn leader_besides(&self, not: Option<NodeId>) -> NodeId {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let leads = |id: &NodeId| {
                let service = self.service(*id);
                let group = &service.replica(GROUP).unwrap().group;
                Some(*id) != not && group.can_serve_session_read().is_ok()
            };
            if let Some(leader) = self.nodes.keys().copied().find(leads) {
                return leader;
            }
            assert!(Instant::now() < deadline, "there is no leader");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) async fn leader(&self) -> NodeId {
        self.leader_besides(None).await
    }

    pub(super) async fn followers(&self) -> Vec<NodeId> {
        let leader = self.leader().await;
        self.nodes.keys().copied().filter(|id| *id != leader).collect()
    }

    pub(super) async fn stop(mut self) {
        for id in NODES.into_iter().filter(|id| self.nodes.contains_key(id)).collect::<Vec<_>>() {
            self.stop_node(id).await;
        }
    }
}

pub(super) fn access() -> v1::Access {
    Access { tenant: "acme".into(), user: None, rights: Rights::ALL }.into()
}

/// Adds a memory at a node that leads.
pub(super) async fn write(service: &NodeService, id: &str) -> Result<v1::Seen, Refused> {
    let request = v1::WriteRequest {
        access: Some(access()),
        group: GROUP,
        command: add(id).to_vec(),
        deadline_ms: 5_000,
        map_epoch: 1,
    };
    service.propose(request).await.map(|response| response.seen.unwrap())
}

/// Adds a memory wherever the leader is, until it is acknowledged.
pub(super) async fn write_somewhere(cluster: &Cluster, id: &str, not: Option<NodeId>) -> v1::Seen {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let leader = cluster.leader_besides(not).await;
        match write(&cluster.service(leader), id).await {
            Ok(seen) => return seen,
            // Adding the same memory again changes nothing.
            Err(refused) => assert!(Instant::now() < deadline, "{refused:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The ids of all memories that a read at this node sees.
pub(super) async fn read(service: &NodeService, read: v1::Read) -> Result<(Vec<String>, v1::Seen), Refused> {
    let request = v1::ListRequest {
        access: Some(access()),
        space: Some((&space()).into()),
        read: Some(read),
        filter: String::new(),
        limit: 1_000,
        after_seq: 0,
    };
    let page = service.read_page(request).await?;
    assert_eq!(page.next_after_seq, None, "all on one page");
    Ok((page.memories.into_iter().map(|memory| memory.id).collect(), page.seen.unwrap()))
}

pub(super) fn session(at_least: Option<v1::Seen>, any_replica: bool) -> v1::Read {
    v1::Read { at_least, any_replica, deadline_ms: 5_000, ..v1::Read::default() }
}

pub(super) fn bounded(max_staleness: Duration) -> v1::Read {
    v1::Read {
        consistency: v1::Consistency::Bounded.into(),
        max_staleness_ms: max_staleness.as_millis().try_into().unwrap(),
        deadline_ms: 1_000,
        any_replica: true,
        ..v1::Read::default()
    }
}

pub(super) fn linearizable() -> v1::Read {
    v1::Read { consistency: v1::Consistency::Linearizable.into(), deadline_ms: 5_000, ..v1::Read::default() }
}

/// Waits until something is so.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What was acknowledged, and when.
#[derive(Clone, Default)]
pub(super) struct Acknowledged(Arc<parking_lot::Mutex<Vec<(String, Instant)>>>);

impl Acknowledged {
    pub(super) fn note(&self, id: &str) {
        self.0.lock().push((id.to_owned(), Instant::now()));
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Fails if `found` lacks something that was acknowledged before `moment`.
    pub(super) fn check(&self, found: &[String], moment: Instant, who: &str) {
        for (id, at) in self.0.lock().iter().filter(|(_, at)| *at < moment) {
            assert!(found.contains(id), "{who} misses {id}, acknowledged {:?} before", moment - *at);
        }
    }
}
