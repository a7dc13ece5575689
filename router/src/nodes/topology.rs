//! Which nodes there are and who leads which group, as far as this router knows. A wrong guess is
//! corrected by the node that is asked; polling only makes guesses good.

use super::Client;
use super::call::moved_away;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use futures::future::join_all;
use holdfast_core::ErrorCode;
use holdfast_core::shard_map::ShardMap;
use holdfast_core::space::{SHARDS_MAX, Shard, Slot};
use holdfast_proto::{MESSAGE_BYTES_MAX, v1};
use holdfast_transport::{DialError, Quiet, Security, explain, is_final};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tonic::transport::Endpoint;

/// Most nodes that are learned of; a cluster is smaller by far.
const NODES_MAX: usize = 256;
/// The pause before the nodes are asked for a map again; it doubles up to the second.
const MAP_PAUSE_MIN: Duration = Duration::from_millis(20);
const MAP_PAUSE_MAX: Duration = Duration::from_millis(250);
/// How long one node may take to tell what it knows.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// One node.
#[derive(Clone)]
pub(crate) struct NodeView {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) client: Client,
    /// Whether it answered when it was last asked.
    pub(crate) reachable: bool,
    /// Why it takes no part in any group, as it said itself: its disk is an older copy.
    pub(crate) reverted: Option<String>,
    /// The nodes that it refuses, because they lost what they had acknowledged to it.
    pub(crate) refused: Vec<u64>,
}

impl NodeView {
    fn new(id: u64, address: String, client: Client) -> Self {
        Self { id, address, client, reachable: false, reverted: None, refused: Vec::new() }
    }
}

/// One Raft group.
#[derive(Debug, Clone)]
pub(crate) struct GroupView {
    pub(crate) group: Shard,
    /// The leader, if it is known and was reachable.
    pub(crate) leader: Option<u64>,
    pub(crate) term: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Leader {
    node: Option<u64>,
    term: u64,
}

pub(super) struct Topology {
    security: Security,
    quiet: Quiet,
    nodes: RwLock<BTreeMap<u64, NodeView>>,
    /// Nodes whose ids are not known: asked while none of the known ones answers.
    seeds: Vec<(String, Client)>,
    /// The cluster that the first answer came from.
    cluster_id: OnceLock<String>,
    leaders: RwLock<BTreeMap<Shard, Leader>>,
    /// `None` until a node has told.
    map: RwLock<Option<Arc<ShardMap>>>,
}

/// Who owns a slot, by the map of an epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) group: Shard,
    pub(super) epoch: u64,
}

impl Topology {
    pub(super) fn new(
        nodes: &[(u64, String)],
        seeds: &[String],
        security: Security,
    ) -> Result<Self, DialError> {
        let mut known = BTreeMap::new();
        for (id, address) in nodes {
            let client = connect(&security, address)?;
            known.insert(*id, NodeView::new(*id, address.clone(), client));
        }
        let seeds = seeds.iter().map(|address| Ok((address.clone(), connect(&security, address)?)));
        Ok(Self {
            nodes: RwLock::new(known),
            seeds: seeds.collect::<Result<_, DialError>>()?,
            security: security.clone(),
            quiet: Quiet::default(),
            cluster_id: OnceLock::new(),
            leaders: RwLock::default(),
            map: RwLock::default(),
        })
    }

    pub(super) fn nodes(&self) -> Vec<NodeView> {
        self.nodes.read().values().cloned().collect()
    }

    pub(super) fn groups(&self) -> Vec<GroupView> {
        let nodes = self.nodes.read();
        let leaders = self.leaders.read();
        let reachable = |id: &u64| nodes.get(id).is_some_and(|node| node.reachable);
        let view = |(group, leader): (&Shard, &Leader)| GroupView {
            group: *group,
            leader: leader.node.filter(reachable),
            term: leader.term,
        };
        leaders.iter().map(view).collect()
    }

    /// The owner of a slot; waits for the first node to tell how the cluster is laid out.
    pub(super) async fn owner(&self, slot: Slot, deadline: Deadline) -> Answer<Owner> {
        loop {
            let map = self.map.read().clone();
            if let Some(map) = map {
                return Ok(Owner { group: map.owner(slot), epoch: map.epoch() });
            }
            if deadline.left().is_zero() {
                let detail =
                    "no node has told this router how the cluster is laid out yet; retry after a moment";
                return Err(Problem::new(ErrorCode::Unavailable, detail));
            }
            tokio::time::sleep(MAP_PAUSE_MIN.min(deadline.left())).await;
        }
    }

    /// Asks the nodes until one knows a map of this epoch or a later one.
    pub(super) async fn wait_for_map(&self, epoch: u64, deadline: Deadline) -> Answer<()> {
        let mut pause = MAP_PAUSE_MIN;
        while self.map_epoch() < epoch {
            self.refresh().await;
            if self.map_epoch() >= epoch {
                break;
            }
            if deadline.left().is_zero() {
                return Err(moved_away());
            }
            tokio::time::sleep(pause.min(deadline.left())).await;
            pause = (pause * 2).min(MAP_PAUSE_MAX);
        }
        Ok(())
    }

    fn map_epoch(&self) -> u64 {
        self.map.read().as_ref().map_or(0, |map| map.epoch())
    }

    pub(super) fn leader(&self, group: Shard) -> Option<u64> {
        self.leaders.read().get(&group)?.node
    }

    /// A node said who leads, or proved to lead. The term stays unknown: the next poll tells it.
    pub(super) fn set_leader(&self, group: Shard, node: u64) {
        let mut leaders = self.leaders.write();
        leaders.entry(group).or_default().node = Some(node);
    }

    /// `node` turned out not to lead, or not to answer.
    pub(super) fn forget_leader(&self, group: Shard, node: u64) {
        if let Some(leader) = self.leaders.write().get_mut(&group)
            && leader.node == Some(node)
        {
            leader.node = None;
        }
    }

    /// Asks every node what it knows. Answers in how many groups no leader is known and reachable,
    /// `None` if the cluster's layout is unknown.
    pub(super) async fn refresh(&self) -> Option<usize> {
        let asked = self.nodes().into_iter().map(|node| async move {
            let who = format!("node {} at {}", node.id, node.address);
            (node.id, self.ask(node.client, &who).await)
        });
        let mut answers = Vec::new();
        for (id, answer) in join_all(asked).await {
            let answer = answer.filter(|answer| self.is_ours(answer, &format!("node {id}")));
            if let Some(node) = self.nodes.write().get_mut(&id) {
                node.reachable = answer.is_some();
                if let Some(answer) = &answer {
                    node.reverted.clone_from(&answer.reverted);
                    node.refused.clone_from(&answer.refused);
                    node.refused.truncate(NODES_MAX);
                }
            }
            answers.extend(answer);
        }
        if answers.is_empty() {
            let asked = self.seeds.iter().map(|(address, client)| async move {
                self.ask(client.clone(), address).await.filter(|answer| self.is_ours(answer, address))
            });
            answers.extend(join_all(asked).await.into_iter().flatten());
        }
        let mut leaders: BTreeMap<Shard, Leader> = BTreeMap::new();
        for answer in &answers {
            self.learn(answer);
            for group in &answer.groups {
                let Ok(shard) = u16::try_from(group.group) else { continue };
                let known = leaders.entry(Shard(shard)).or_default();
                let newer = (group.term, group.leader.is_some()) > (known.term, known.node.is_some());
                if newer && shard <= SHARDS_MAX {
                    *known = Leader { node: group.leader, term: group.term };
                }
            }
        }
        if !answers.is_empty() {
            *self.leaders.write() = leaders;
        }
        self.leaderless()
    }

    /// What one node knows, if it answers. A node that does not believe this router says so in the
    /// log: no client could act on it.
    async fn ask(&self, mut client: Client, who: &str) -> Option<v1::TopologyResponse> {
        let asking = client.topology(v1::TopologyRequest { known_epoch: self.map_epoch() });
        match tokio::time::timeout(ASK_TIMEOUT, asking).await.ok()? {
            Ok(answer) => Some(answer.into_inner()),
            Err(status) => {
                let told = format!("{who} and this router do not come together: {}", explain(&status));
                if is_final(&status)
                    && let Some(left_out) = self.quiet.tell(&told)
                {
                    tracing::error!(left_out, "{told}");
                }
                None
            }
        }
    }

    /// Whether the answer comes from the cluster that this router serves: the one that answered
    /// first. Nodes of another one would answer for other users' data.
    fn is_ours(&self, answer: &v1::TopologyResponse, who: &str) -> bool {
        let ours = self.cluster_id.get_or_init(|| answer.cluster_id.clone());
        if *ours != answer.cluster_id {
            tracing::error!(
                who,
                ours,
                other = answer.cluster_id,
                "a node of another cluster is among the seeds; it is ignored"
            );
        }
        *ours == answer.cluster_id
    }

    /// In how many groups no leader is known and reachable; `None` if the layout is unknown.
    pub(super) fn leaderless(&self) -> Option<usize> {
        let shards = self.map.read().as_ref().map_or(0, |map| map.shards());
        let with_leader = self.groups().iter().filter(|group| group.leader.is_some()).count();
        // The meta group counts too.
        (shards > 0).then(|| (usize::from(shards) + 1).saturating_sub(with_leader))
    }

    /// Goes by the map of an answer if it is newer.
    fn learn_map(&self, answer: &v1::TopologyResponse) {
        // A node that is not founded yet knows none.
        let Some(told) = answer.map.as_ref().filter(|_| answer.shards > 0) else { return };
        let mut map = self.map.write();
        if map.as_ref().is_some_and(|known| known.epoch() >= told.epoch) {
            return;
        }
        let number = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        let owners = told.owners.iter().map(|owner| Shard(number(*owner))).collect();
        match ShardMap::new(told.epoch, number(answer.shards), owners) {
            Ok(newer) => *map = Some(Arc::new(newer)),
            Err(error) => tracing::error!(%error, "a node told a map of slots that cannot be; it is ignored"),
        }
    }

    fn learn(&self, answer: &v1::TopologyResponse) {
        self.learn_map(answer);
        let mut nodes = self.nodes.write();
        for member in &answer.nodes {
            let is_known = match nodes.get(&member.id) {
                // It has moved, unless the one who says so is wrong.
                Some(known) => known.reachable || known.address == member.address,
                None => nodes.len() >= NODES_MAX,
            };
            if is_known {
                continue;
            }
            match connect(&self.security, &member.address) {
                Ok(client) => {
                    let (id, address) = (member.id, member.address.clone());
                    nodes.insert(id, NodeView::new(id, address, client));
                }
                Err(error) => {
                    tracing::warn!(node = member.id, address = member.address, %error, "a node's address cannot be used")
                }
            }
        }
    }
}

fn connect(security: &Security, address: &str) -> Result<Client, DialError> {
    let timeouts = |endpoint: Endpoint| {
        endpoint
            .connect_timeout(Duration::from_secs(1))
            .http2_keep_alive_interval(Duration::from_secs(5))
            .keep_alive_timeout(Duration::from_secs(3))
            .keep_alive_while_idle(true)
    };
    Ok(Client::new(security.channel(address, timeouts)?)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX))
}
