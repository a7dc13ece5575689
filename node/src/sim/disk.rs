//! A node's disk, as far as its log is concerned, and the log device on it.
//!
//! What is written lies in the page cache, in the order of the writes, until a sync ends. A kill of
//! the process leaves the page cache as it is; a power cut leaves some first part of it. A sync takes
//! time, and what the groups ask for meanwhile makes the next write, as in `raft::log::writer`.

use super::plan::Sabotage;
use super::world::World;
use crate::raft::sim::{Change, Done, LogDevice, LogError, LogStats, RaftEntry, decode_entries, key};
use crate::raft::{GroupId, NodeId};
use parking_lot::Mutex;
use protobuf::well_known_types::BytesValue;
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Requests that may wait for a sync.
const QUEUE_REQUESTS_MAX: usize = 4_096;
/// The most requests that share one sync.
const BATCH_REQUESTS_MAX: usize = 1_024;

/// One group's part of the log.
#[derive(Clone, Default)]
struct Region {
    entries: BTreeMap<u64, Vec<u8>>,
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
}

type Image = BTreeMap<GroupId, Region>;

/// A change as it lies in the page cache.
#[derive(Clone)]
enum Written {
    Append { first: u64, records: Vec<Vec<u8>> },
    Truncate { end: u64 },
    Purge { first: u64, clear: bool, purged: Vec<u8> },
    Key { key: &'static [u8], value: Vec<u8> },
}

impl From<Change> for Written {
    fn from(change: Change) -> Self {
        match change {
            Change::Append { first, records } => {
                let records = records.into_iter().map(|record| record.value).collect();
                Written::Append { first, records }
            }
            Change::Truncate { end } => Written::Truncate { end },
            Change::Purge { first, clear, purged } => Written::Purge { first, clear, purged },
            Change::Vote(value) => Written::Key { key: key::VOTE, value },
            Change::Committed(value) => Written::Key { key: key::COMMITTED, value },
        }
    }
}

impl Region {
    fn span(&self) -> Option<(u64, u64)> {
        let (first, _) = self.entries.first_key_value()?;
        let (last, _) = self.entries.last_key_value()?;
        Some((*first, *last))
    }

    fn apply(&mut self, written: Written) {
        match written {
            Written::Append { first, records } => {
                self.entries.split_off(&first);
                self.entries.extend((first..).zip(records));
                self.keys.remove(key::END);
            }
            Written::Truncate { end } => {
                self.keys.insert(key::END.to_vec(), end.to_be_bytes().to_vec());
            }
            Written::Purge { first, clear, purged } => {
                self.keys.insert(key::PURGED.to_vec(), purged);
                if clear {
                    self.entries.clear();
                    self.keys.remove(key::END);
                } else {
                    self.entries = self.entries.split_off(&first);
                }
            }
            Written::Key { key, value } => {
                self.keys.insert(key.to_vec(), value);
            }
        }
    }

    /// As the log thread refuses it.
    fn check(&self, group: GroupId, change: &Change) -> Result<(), LogError> {
        if let (Change::Append { first, .. }, Some((start, last))) = (change, self.span())
            && (*first < start || *first > last + 1)
        {
            return Err(LogError::Hole { group, expected: last + 1, got: *first });
        }
        Ok(())
    }
}

/// What outlives the process.
#[derive(Default)]
struct Plates {
    /// What a power cut leaves in any case.
    synced: Image,
    /// Writes since, each a batch that is there as a whole or not at all.
    cached: Vec<Vec<(GroupId, Written)>>,
    /// What a reader sees: both together.
    seen: Image,
    sync: Duration,
}

/// A node's disk.
pub(super) struct Disk(Mutex<Plates>);

impl Disk {
    pub(super) fn new(sync: Duration) -> Arc<Self> {
        Arc::new(Disk(Mutex::new(Plates { sync, ..Plates::default() })))
    }

    /// How long a sync takes from now on.
    pub(super) fn set_sync(&self, sync: Duration) {
        self.0.lock().sync = sync;
    }

    /// The power is cut: of what was not synced some first part may have reached the disk.
    pub(super) fn cut_power(&self, chance: &mut impl Rng) {
        let mut plates = self.0.lock();
        let left = chance.random_range(0..=plates.cached.len());
        let cached = std::mem::take(&mut plates.cached);
        for batch in cached.into_iter().take(left) {
            write(&mut plates.synced, batch);
        }
        plates.seen = plates.synced.clone();
    }

    /// Takes the votes away, which no disk does.
    pub(super) fn forget_votes(&self) {
        let mut plates = self.0.lock();
        let Plates { synced, seen, .. } = &mut *plates;
        for region in synced.values_mut().chain(seen.values_mut()) {
            region.keys.remove(key::VOTE);
        }
    }
}

fn write(image: &mut Image, batch: Vec<(GroupId, Written)>) {
    for (group, written) in batch {
        image.entry(group).or_default().apply(written);
    }
}

struct Request {
    group: GroupId,
    change: Change,
    done: Option<Done>,
}

/// The log device of a process on a node's disk.
pub(super) struct DiskLog {
    disk: Arc<Disk>,
    requests: mpsc::Sender<Request>,
}

impl DiskLog {
    /// Opens the disk, and syncs what an earlier process has left in the page cache, as the log of a
    /// machine does.
    pub(super) async fn open(disk: Arc<Disk>, node: NodeId, world: Arc<World>) -> Arc<Self> {
        let (requests, queue) = mpsc::channel(QUEUE_REQUESTS_MAX);
        if !world.plan().is(Sabotage::TrustUnsynced) {
            sync(&disk).await;
        }
        tokio::spawn(write_all(disk.clone(), queue, node, world));
        Arc::new(DiskLog { disk, requests })
    }
}

async fn sync(disk: &Disk) {
    let (batches, time) = {
        let plates = disk.0.lock();
        (plates.cached.len(), plates.sync)
    };
    tokio::time::sleep(time).await;
    let mut plates = disk.0.lock();
    for batch in plates.cached.drain(..batches).collect::<Vec<_>>() {
        write(&mut plates.synced, batch);
    }
}

/// Writes what waits as one batch with one sync, and reports it done.
async fn write_all(disk: Arc<Disk>, mut queue: mpsc::Receiver<Request>, node: NodeId, world: Arc<World>) {
    let mut taken = Vec::new();
    while queue.recv_many(&mut taken, BATCH_REQUESTS_MAX).await > 0 {
        let mut batch = Vec::new();
        let mut waiting = Vec::new();
        let mut must_sync = false;
        {
            let mut plates = disk.0.lock();
            for Request { group, change, done } in taken.drain(..) {
                let region = plates.seen.entry(group).or_default();
                if let Err(error) = region.check(group, &change) {
                    world.fail(format!("node {node} wrote a log with a hole: {error}"));
                    continue;
                }
                must_sync |= !matches!(change, Change::Committed(_));
                let written = Written::from(change);
                region.apply(written.clone());
                batch.push((group, written));
                waiting.extend(done);
            }
            world.trace(format_args!("node {node} writes {} changes", batch.len()));
            plates.cached.push(batch);
        }
        if world.plan().is(Sabotage::AckBeforeSync) {
            waiting.drain(..).for_each(|done| done(Ok(())));
        }
        if must_sync {
            sync(&disk).await;
            world.trace(format_args!("node {node} has synced"));
        }
        waiting.into_iter().for_each(|done| done(Ok(())));
    }
}

#[tonic::async_trait]
impl LogDevice for DiskLog {
    fn get(&self, group: GroupId, key: &[u8]) -> Result<Option<Vec<u8>>, LogError> {
        let plates = self.disk.0.lock();
        Ok(plates.seen.get(&group).and_then(|region| region.keys.get(key).cloned()))
    }

    fn span(&self, group: GroupId) -> Result<Option<(u64, u64)>, LogError> {
        Ok(self.disk.0.lock().seen.get(&group).and_then(Region::span))
    }

    async fn submit(&self, group: GroupId, change: Change, done: Option<Done>) -> Result<(), LogError> {
        self.requests.send(Request { group, change, done }).await.map_err(|_closed| LogError::Closed)
    }

    async fn read(
        &self,
        group: GroupId,
        start: u64,
        end: u64,
        bytes_max: usize,
    ) -> Result<Vec<RaftEntry>, LogError> {
        let mut records = Vec::new();
        let mut bytes = 0usize;
        {
            let plates = self.disk.0.lock();
            let region = plates.seen.get(&group);
            for (_, value) in region.into_iter().flat_map(|region| region.entries.range(start..end)) {
                bytes = bytes.saturating_add(value.len());
                if !records.is_empty() && bytes > bytes_max {
                    break;
                }
                let mut record = BytesValue::new();
                record.value.clone_from(value);
                records.push(record);
            }
        }
        decode_entries(group, start, &records)
    }

    fn stats(&self) -> LogStats {
        LogStats::default()
    }

    fn take_held_back(&self) -> BTreeSet<GroupId> {
        BTreeSet::new()
    }

    async fn close(self: Arc<Self>) -> Result<(), LogError> {
        Ok(())
    }
}
