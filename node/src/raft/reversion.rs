//! Noticing that this node's disk went back: that it has forgotten what it told others.
//!
//! Three things together keep a node that runs on an older copy of its disk from doing harm:
//! - It asks all others, when it starts, what they remember of it. Until they have answered or are
//!   silent for too long it neither votes nor asks for votes, nor leads: with its stale log it could
//!   help a candidate that lacks acknowledged entries, or write others over them.
//! - Every leader and candidate sends with its messages what it remembers, and the first message of
//!   each is compared before openraft sees it.
//! - A leader never shows openraft that a follower lacks what it acknowledged (`network`).
//!
//! Once noticed, it is written down: the node stops all groups and never starts from this copy again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::LogError;
use super::log::GroupLog;
use super::network::Peers;
use super::types::{GroupId, NodeId};
use super::witness::{Kept, Mark};
use crate::durable::replace_file;

/// The file in the log's directory that says that the log must not be used any more.
const FILE: &str = "REVERTED";
/// How long a node may take to say what it remembers. It may first ask at this node's address which
/// process runs there.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before silent nodes are asked again, while elections wait for them and afterwards.
const ASK_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The proof that this node's disk went back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "this node has lost what it had promised to keep: node {witness} remembers of its replica of group {group} \
     a vote in term {} and a log up to {:?} (committed up to {:?}), but here are term {kept_term:?} and a log up \
     to {kept_last:?}. An older copy of its disk was brought back, or the disk broke its word. The node takes no \
     part in any group. Stop it; if its newest disk still exists, bring that back; else remove this data and go \
     on without this node (docs/runbooks/HoldfastNodeReverted.md). Never start it from this copy again",
    remembered.term, remembered.acknowledged, remembered.committed
)]
pub struct Reverted {
    /// The group in which it was noticed first.
    pub group: GroupId,
    /// The node that remembers more.
    pub witness: NodeId,
    /// What it remembers.
    pub remembered: Mark,
    /// The term of the vote that is here.
    pub kept_term: Option<u64>,
    /// The last index of the log that is here.
    pub kept_last: Option<u64>,
}

/// Why a message was not let through.
#[derive(Debug)]
pub(crate) enum Stop {
    /// This node's disk went back.
    Reverted(Box<Reverted>),
    /// The log could not be read.
    Log(LogError),
}

/// Compares what others remember with what is here.
pub(crate) struct Reversion {
    /// `None` where there is no disk.
    path: Option<PathBuf>,
    logs: RwLock<HashMap<GroupId, GroupLog>>,
    /// Who has been compared since this process started: a disk goes back between two runs only.
    compared: Mutex<HashSet<(GroupId, NodeId)>>,
    part: watch::Sender<bool>,
    found: watch::Sender<Option<Reverted>>,
}

impl Reversion {
    /// # Errors
    /// When the proof that an earlier run left cannot be read.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.is_dir().then(|| dir.join(FILE));
        let found = match path.as_ref().map(std::fs::read) {
            Some(Ok(bytes)) => Some(serde_json::from_slice(&bytes)?),
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Some(Err(_)) | None => None,
        };
        Ok(Reversion {
            path,
            logs: RwLock::default(),
            compared: Mutex::default(),
            part: watch::Sender::new(false),
            found: watch::Sender::new(found),
        })
    }

    /// A group whose log is to be compared.
    pub(crate) fn add(&self, group: GroupId, log: GroupLog) {
        self.logs.write().insert(group, log);
    }

    /// The proof, if there is one.
    pub(crate) fn found(&self) -> Option<Reverted> {
        self.found.borrow().clone()
    }

    /// Waits for the proof.
    pub(crate) async fn wait_found(&self) {
        let mut found = self.found.subscribe();
        // It lives as long as its sender, which is in `self`.
        let _ = found.wait_for(Option::is_some).await;
    }

    /// Whether this node may vote, ask for votes and lead: the others have said what they remember, or
    /// are silent for too long.
    pub(crate) fn takes_part(&self) -> bool {
        *self.part.borrow() && self.found.borrow().is_none()
    }

    /// Waits until the others have said what they remember, or are silent for too long.
    pub(crate) async fn wait_part(&self) {
        let mut part = self.part.subscribe();
        // It lives as long as its sender, which is in `self`.
        let _ = part.wait_for(|part| *part).await;
    }

    /// Lets a message of `from` through unless it shows that this disk went back.
    pub(crate) fn admit(&self, group: GroupId, from: NodeId, remembered: Option<Mark>) -> Result<(), Stop> {
        if let Some(found) = self.found() {
            return Err(Stop::Reverted(Box::new(found)));
        }
        if self.compared.lock().contains(&(group, from)) {
            return Ok(());
        }
        if let Some(mark) = remembered {
            self.compare(group, from, mark)?;
        }
        self.compared.lock().insert((group, from));
        Ok(())
    }

    fn compare(&self, group: GroupId, witness: NodeId, remembered: Mark) -> Result<(), Stop> {
        let log = self.logs.read().get(&group).cloned();
        // A group that this node has no replica of answers for itself.
        let Some(log) = log else { return Ok(()) };
        // In this order: a later leader's vote is saved before it removes anything from the log.
        let last = log.last().map(|position| position.index);
        let term = log.voted_term().map_err(Stop::Log)?;
        if remembered.allows(Kept { term, last }) {
            return Ok(());
        }
        let proof = Reverted { group, witness, remembered, kept_term: term, kept_last: last };
        let is_first = self.found.send_if_modified(|found| {
            let is_first = found.is_none();
            found.get_or_insert_with(|| proof.clone());
            is_first
        });
        if is_first {
            tracing::error!(group, witness, "{proof}");
        }
        Err(Stop::Reverted(Box::new(proof)))
    }

    /// Writes the proof down, so that no later run starts from this copy. Blocks.
    pub(crate) fn write_down(&self) -> io::Result<()> {
        let (Some(found), Some(path)) = (self.found(), &self.path) else { return Ok(()) };
        replace_file(path, &serde_json::to_vec_pretty(&found)?, 0o644)
    }

    /// Asks the others what they remember: until elections may begin for at most `patience`, and
    /// then until the last has answered.
    pub(crate) async fn recollect(
        self: Arc<Self>,
        peers: Arc<Peers>,
        others: BTreeSet<NodeId>,
        patience: Duration,
    ) {
        let deadline = Instant::now() + patience;
        let mut silent = others;
        loop {
            let asked = silent.iter().map(|node| {
                let peers = Arc::clone(&peers);
                let node = *node;
                async move { (node, tokio::time::timeout(ASK_TIMEOUT, peers.recollect(node)).await) }
            });
            for (node, answer) in futures::future::join_all(asked).await {
                match answer {
                    Ok(Ok(marks)) => {
                        if self.compare_all(node, marks) {
                            silent.remove(&node);
                        }
                    }
                    Ok(Err(error)) => tracing::debug!(node, %error, "a node does not say what it remembers"),
                    Err(_) => tracing::debug!(node, "a node does not say in time what it remembers"),
                }
            }
            if silent.is_empty() {
                self.part.send_replace(true);
                return;
            }
            let late = Instant::now() >= deadline;
            if late && !self.part.send_replace(true) {
                tracing::warn!(
                    ?silent,
                    "these nodes have not said what they remember of this one; it votes all the same"
                );
            }
            tokio::time::sleep(if late { ASK_PAUSE.1 } else { ASK_PAUSE.0 }).await;
        }
    }

    /// Whether all could be compared.
    fn compare_all(&self, node: NodeId, marks: Vec<(GroupId, Mark)>) -> bool {
        for (group, mark) in marks {
            match self.compare(group, node, mark) {
                Ok(()) | Err(Stop::Reverted(_)) => {}
                Err(Stop::Log(error)) => {
                    tracing::error!(group, %error, "the log could not be compared with what others remember");
                    return false;
                }
            }
        }
        true
    }
}
