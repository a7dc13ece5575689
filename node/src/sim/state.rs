//! A group's state over a `BTreeMap`: core's apply, as a shard uses it.

use super::plan::Sabotage;
use super::world::World;
use crate::raft::{
    AppliedState, Applier, ApplierError, CommittedBody, CommittedEntry, EntryPayload, GroupId, LogPosition,
    NodeId, Outcomes,
};
use crate::service::gate::Visible;
use bytes::Bytes;
use holdfast_core::apply::{self, Position};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, Write};
use holdfast_core::keys;
use holdfast_core::memory::{IndexRow, MemoryRow};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{BTreeState, Overlay, Reader, State, StateError, StateHash};
use parking_lot::Mutex;
use rand::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use xxhash_rust::xxh3::Xxh3Default;

/// Earlier states that a kill may fall back to, as a store's own buffers are lost.
const EARLIER_MAX: usize = 3;

/// A state as it lies on disk.
#[derive(Clone, Default)]
struct Rows {
    rows: BTreeState,
    hash: StateHash,
    applied: AppliedState,
}

/// What of a replica's state outlives its process.
#[derive(Default)]
pub(super) struct Store {
    now: Rows,
    earlier: VecDeque<Rows>,
}

impl Store {
    /// The process was killed: the newest batches may be gone.
    pub(super) fn kill(&mut self, chance: &mut impl Rng) {
        let back = chance.random_range(0..=self.earlier.len());
        if back > 0 {
            self.earlier.truncate(self.earlier.len() - back + 1);
            self.now = self.earlier.pop_back().unwrap_or_default();
        }
    }

    /// The power was cut: what is there cannot be trusted.
    pub(super) fn cut_power(&mut self) {
        *self = Store::default();
    }

    /// The index up to which entries are applied.
    pub(super) fn last(&self) -> Option<u64> {
        self.now.applied.last.map(|last| last.index)
    }

    /// The stored rows of a memory.
    ///
    /// # Errors
    /// If they cannot be decoded or do not fit together.
    pub(super) fn memory(
        &self,
        space: &SpaceKey,
        id: &str,
    ) -> Result<Option<(MemoryRow, IndexRow)>, StateError> {
        let damaged = |error: String| StateError(format!("{space} {id}: {error}"));
        let Some(memory) = self.now.rows.get(&keys::memory::key(space, id))? else { return Ok(None) };
        let memory = MemoryRow::decode(&memory).map_err(|error| damaged(error.to_string()))?;
        let index = self.now.rows.get(&keys::index_row::key(space, memory.seq))?;
        let index = index.ok_or_else(|| damaged("it has no columns".into()))?;
        let index = IndexRow::decode(&index).map_err(|error| damaged(error.to_string()))?;
        Ok(Some((memory, index)))
    }
}

/// A replica's state in a running process.
pub(super) struct SimState {
    node: NodeId,
    group: GroupId,
    world: Arc<World>,
    store: Arc<Mutex<Store>>,
    visible: watch::Sender<Option<u64>>,
}

impl SimState {
    pub(super) fn open(world: &Arc<World>, node: NodeId, group: GroupId) -> Arc<Self> {
        let store = world.store(node, group);
        let last = store.lock().last();
        world.starts(node, group, last);
        let visible = watch::channel(last).0;
        Arc::new(SimState { node, group, world: Arc::clone(world), store, visible })
    }

    /// The log index up to which readers see everything.
    pub(super) fn visible(&self) -> Option<u64> {
        *self.visible.borrow()
    }

    /// As [`Store::memory`].
    pub(super) fn memory(
        &self,
        space: &SpaceKey,
        id: &str,
    ) -> Result<Option<(MemoryRow, IndexRow)>, StateError> {
        self.store.lock().memory(space, id)
    }

    fn apply_payload(
        &self,
        overlay: &mut Overlay<&BTreeState>,
        position: LogPosition,
        payload: &EntryPayload,
    ) -> Result<Outcomes, ApplierError> {
        let mut stamp_us = payload.stamp_us;
        if self.world.plan().is(Sabotage::OwnClockInApply) && position.index % 32 == 7 {
            stamp_us += self.node;
        }
        let at =
            Position { log_index: position.index, stamp_us: i64::try_from(stamp_us).unwrap_or(i64::MAX) };
        let mut outcomes = Vec::with_capacity(payload.commands.len());
        for bytes in &payload.commands {
            let command = Command::decode(bytes).map_err(failed)?;
            let done = apply::apply(overlay, at, &command).map_err(failed)?;
            if self.world.plan().is(Sabotage::NoTombstone)
                && let Command::Space(command) = &command
                && let Write::Delete { id, .. } = &command.write
            {
                overlay.delete(&keys::tombstone::key(&command.space, id)).map_err(failed)?;
            }
            outcomes.push(Bytes::from(done.outcome.encode().map_err(failed)?));
        }
        Ok(outcomes)
    }

    fn apply_entry(&self, now: &mut Rows, entry: CommittedEntry) -> Result<Outcomes, ApplierError> {
        let fingerprint = fingerprint(&entry);
        let CommittedEntry { position, body } = entry;
        let outcomes = match body {
            CommittedBody::Blank => Outcomes::new(),
            CommittedBody::Membership(bytes) => {
                now.applied.membership = bytes;
                Outcomes::new()
            }
            CommittedBody::Normal(payload) => {
                let mut overlay = Overlay::new(&now.rows);
                let outcomes = self.apply_payload(&mut overlay, position, &payload)?;
                let changes = overlay.into_changes().map_err(failed)?;
                now.hash.follow(&changes);
                now.rows.commit(changes);
                outcomes
            }
        };
        now.applied.last = Some(position);
        let time_us = apply::last_applied_us(&now.rows).map_err(failed)?;
        self.world.applied(self.node, self.group, position, fingerprint, now.hash.0, time_us);
        Ok(outcomes)
    }
}

/// A fingerprint of an entry with its position.
fn fingerprint(entry: &CommittedEntry) -> u128 {
    let mut hash = Xxh3Default::new();
    let LogPosition { term, node, index } = entry.position;
    for number in [term, node, index] {
        hash.update(&number.to_le_bytes());
    }
    match &entry.body {
        CommittedBody::Blank => hash.update(b"blank"),
        CommittedBody::Membership(bytes) => hash.update(bytes),
        CommittedBody::Normal(payload) => {
            hash.update(&payload.stamp_us.to_le_bytes());
            for command in &payload.commands {
                hash.update(&(command.len() as u64).to_le_bytes());
                hash.update(command);
            }
        }
    }
    hash.digest128()
}

fn failed(error: impl std::fmt::Display) -> ApplierError {
    ApplierError(error.to_string())
}

impl Applier for SimState {
    fn applied(&self) -> Result<AppliedState, ApplierError> {
        Ok(self.store.lock().now.applied.clone())
    }

    fn apply(&self, entries: Vec<CommittedEntry>) -> Result<Vec<Outcomes>, ApplierError> {
        let mut store = self.store.lock();
        if self.world.chance(|chance| chance.random_bool(0.1)) {
            let now = store.now.clone();
            store.earlier.push_back(now);
            if store.earlier.len() > EARLIER_MAX {
                store.earlier.pop_front();
            }
        }
        let mut answers = Vec::with_capacity(entries.len());
        for entry in entries {
            answers.push(self.apply_entry(&mut store.now, entry).inspect_err(|error| {
                self.world.fail(format!("node {} could not apply an entry: {error}", self.node));
            })?);
        }
        self.visible.send_replace(store.last());
        Ok(answers)
    }

    fn pause(&self) -> Duration {
        Duration::from_micros(self.world.chance(|chance| chance.random_range(0..1_500)))
    }
}

impl Visible for SimState {
    fn watch_visible(&self) -> watch::Receiver<Option<u64>> {
        self.visible.subscribe()
    }
}
