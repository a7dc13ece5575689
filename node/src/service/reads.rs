use super::gate::Asked;
use super::{NodeService, Replica, refusals};
use crate::raft::GroupId;
use crate::shard::ShardState;
use holdfast_core::Error;
use holdfast_core::access::Rights;
use holdfast_core::apply::last_applied_us;
use holdfast_core::codec::Stored;
use holdfast_core::filter::{Filter, IndexRowView};
use holdfast_core::keys::{self, Family};
use holdfast_core::limits::{self, HISTORY_VERSIONS_MAX, LIST_ITEMS_MAX};
use holdfast_core::memory::{HistoryRow, IndexRow, MemoryRow, SpaceRow, Status, TombstoneRow};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{Reader, Row};
use holdfast_proto::{Refused, View, memory_from_rows, v1};
use std::sync::Arc;
use std::time::Instant;

/// Rows that one page of a list looks at; a filter that few rows pass ends a page early.
const LIST_ROWS_SCANNED_MAX: usize = 20_000;
/// A page ends when it holds this many bytes of text, well below the largest message.
const LIST_BYTES_FULL: usize = 8 << 20;
/// Rows read from the store in one step.
const SCAN_STEP: usize = 256;

impl NodeService {
    /// Waits until this replica may answer.
    pub(super) async fn ready(
        &self,
        id: GroupId,
        replica: &Replica,
        read: Option<&v1::Read>,
    ) -> Result<Instant, Refused> {
        let Replica { group, state, .. } = replica;
        let read = read.copied();
        let asked = Asked { id, group, state: state.as_ref(), incarnation: self.inner.incarnation };
        let admitted = asked.ready(read).await;
        self.inner.metrics.reads.admitted(read.unwrap_or_default().consistency(), admitted.as_ref().err());
        admitted
    }

    pub(super) async fn read_one(&self, request: v1::GetRequest) -> Result<v1::GetResponse, Refused> {
        let read = request.read.as_ref();
        let owner = read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        limits::check_id("id", &request.id)?;
        self.ready(group, replica, read).await?;
        let seen = Some(self.seen(group, &replica.state));
        let memory = Rows::open(&replica.state, space)?.memory(&request.id)?;
        Ok(v1::GetResponse { memory, seen })
    }

    /// Which memories are here. Whoever may write learns as much from the answers to writes.
    pub(super) async fn locate_memories(
        &self,
        request: v1::LocateRequest,
    ) -> Result<v1::LocateResponse, Refused> {
        let read = request.read.as_ref();
        let owner = read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::WRITE, owner)?;
        if request.ids.len() > limits::LOCATE_IDS_MAX {
            let detail = format!("at most {} ids in one look-up", limits::LOCATE_IDS_MAX);
            return Err(Error::too_large("ids", detail).into());
        }
        request.ids.iter().try_for_each(|id| limits::check_id("ids", id))?;
        let deadline = self.ready(group, replica, read).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        self.on_search_pool(deadline, move || {
            let reader = state.reader();
            let row = |key: Vec<u8>| reader.get(&key).map_err(|error| refusals::corrupted(&error));
            let mut found = v1::LocateResponse { seen, ..v1::LocateResponse::default() };
            for (at, id) in (0u32..).zip(&request.ids) {
                if let Some(memory) = row(keys::memory::key(&space, id))? {
                    found.there.push(at);
                    if request.times {
                        found.created_us.push(created_us(&state, &space, &memory)?);
                    }
                } else if let Some(grave) = row(keys::tombstone::key(&space, id))? {
                    found.deleted.push(at);
                    if request.times {
                        let grave =
                            TombstoneRow::decode(&grave).map_err(|error| refusals::corrupted(&error))?;
                        found.deleted_us.push(grave.deleted_us);
                    }
                }
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn read_page(&self, request: v1::ListRequest) -> Result<v1::ListResponse, Refused> {
        let read = request.read.as_ref();
        let owner = read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        let filter = Filter::parse_text(&request.filter)?;
        let deadline = self.ready(group, replica, read).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        let limit = request.limit.clamp(1, LIST_ITEMS_MAX) as usize;
        self.on_search_pool(deadline, move || {
            let rows = Rows::open(&state, space)?;
            let (memories, next_after_seq) = rows.page(&filter, request.after_seq, limit)?;
            Ok(v1::ListResponse { memories, next_after_seq, seen })
        })
        .await
    }

    pub(super) async fn read_history(
        &self,
        request: v1::HistoryRequest,
    ) -> Result<v1::HistoryResponse, Refused> {
        let read = request.read.as_ref();
        let owner = read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        limits::check_id("id", &request.id)?;
        let deadline = self.ready(group, replica, read).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        self.on_search_pool(deadline, move || {
            let versions = Rows::open(&state, space)?.history(&request.id)?;
            Ok(v1::HistoryResponse { versions, seen })
        })
        .await
    }
}

/// The rows of one partition of a space.
pub(super) struct Rows<'a> {
    state: &'a ShardState,
    space: SpaceKey,
    settings: SpaceRow,
    /// Log time, by which memories expire.
    log_now_us: i64,
}

impl<'a> Rows<'a> {
    pub(super) fn open(state: &'a ShardState, space: SpaceKey) -> Result<Self, Refused> {
        let settings = read::<SpaceRow>(state, &keys::space_row::key(&space))?.unwrap_or_default();
        let log_now_us = last_applied_us(&state.reader()).map_err(|error| refusals::corrupted(&error))?;
        Ok(Self { state, space, settings, log_now_us: log_now_us.unwrap_or_default() })
    }

    pub(super) fn state(&self) -> &ShardState {
        self.state
    }

    pub(super) fn space(&self) -> &SpaceKey {
        &self.space
    }

    pub(super) fn settings(&self) -> &SpaceRow {
        &self.settings
    }

    /// A memory as callers see it.
    pub(super) fn memory(&self, id: &str) -> Result<Option<v1::Memory>, Refused> {
        let found = self.rows(id)?.filter(|(_, index)| !self.has_expired(index));
        found.map(|(memory, index)| self.show(&memory, &index)).transpose()
    }

    /// Whether a memory only waits to be swept: nobody is shown it any more.
    fn has_expired(&self, index: &IndexRow) -> bool {
        index.expires_us.is_some_and(|at_us| at_us <= self.log_now_us)
    }

    /// Both rows of a memory. sled reads rows one by one: where a change came in between, the
    /// memory has gone or has new rows, so it is read again.
    pub(super) fn rows(&self, id: &str) -> Result<Option<(MemoryRow, IndexRow)>, Refused> {
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let Some(memory) = read::<MemoryRow>(self.state, &keys::memory::key(&self.space, id))? else {
                return Ok(None);
            };
            if let Some(index) = read(self.state, &keys::index_row::key(&self.space, memory.seq))? {
                return Ok(Some((memory, index)));
            }
        }
        Err(refusals::corrupted(&format!("memory {id} has no columns")))
    }

    pub(super) fn show(&self, memory: &MemoryRow, index: &IndexRow) -> Result<v1::Memory, Refused> {
        let model =
            index.vector.as_ref().and_then(|vector| self.settings.models.get(usize::from(vector.model)));
        let embedding_model = model.map(|model| model.id.as_str());
        let (merged, merged_into) = (self.merged(index)?, self.merged_into(index)?);
        Ok(memory_from_rows(View { space: &self.space, memory, index, embedding_model, merged, merged_into }))
    }

    /// What was merged into a memory. One that was stated once has nothing.
    fn merged(&self, index: &IndexRow) -> Result<Vec<String>, Refused> {
        if index.count < 2 || index.status == Status::Merged {
            return Ok(Vec::new());
        }
        let prefix = keys::merged::prefix(&self.space, &index.id);
        let rows = scan(self.state, &prefix, &[], limits::MERGED_MAX)?;
        let id = |key: &[u8]| keys::merged::merged(&prefix, key).map(str::to_owned);
        Ok(rows.iter().filter_map(|(key, _)| id(key)).collect())
    }

    /// What stands for a merged memory; nothing, if it came to stand by itself while it was read.
    pub(super) fn merged_into(&self, index: &IndexRow) -> Result<Option<String>, Refused> {
        if index.status != Status::Merged {
            return Ok(None);
        }
        let value = self.state.reader().get(&keys::merged::into(&self.space, &index.id));
        let value = value.map_err(|error| refusals::corrupted(&error))?;
        Ok(value.as_deref().and_then(keys::merged::stands).map(str::to_owned))
    }

    /// Memories in record order behind `after_seq`, and where to go on.
    fn page(
        &self,
        filter: &Filter,
        after_seq: u64,
        limit: usize,
    ) -> Result<(Vec<v1::Memory>, Option<u64>), Refused> {
        let prefix = keys::family_prefix(&self.space, Family::IndexRow);
        let mut last_seq = after_seq;
        let (mut found, mut bytes) = (Vec::new(), 0);
        for _ in 0..LIST_ROWS_SCANNED_MAX / SCAN_STEP {
            let after = keys::index_row::key(&self.space, last_seq);
            let rows = scan(self.state, &prefix, &after, SCAN_STEP)?;
            let at_end = rows.len() < SCAN_STEP;
            for (key, value) in rows {
                last_seq = keys::index_row::seq(&key).unwrap_or(last_seq);
                let index = IndexRow::decode(&value).map_err(|error| refusals::corrupted(&error))?;
                if self.has_expired(&index) || !filter.matches(&IndexRowView::new(&index)) {
                    continue;
                }
                // One that was deleted meanwhile is left out.
                let memory: Option<MemoryRow> = read(self.state, &keys::memory::key(&self.space, &index.id))?;
                if let Some(memory) = memory {
                    bytes += memory.content.len() + index.metadata.len();
                    found.push(self.show(&memory, &index)?);
                }
                if found.len() == limit || bytes >= LIST_BYTES_FULL {
                    return Ok((found, Some(last_seq)));
                }
            }
            if at_end {
                return Ok((found, None));
            }
        }
        Ok((found, Some(last_seq)))
    }

    /// The kept versions of a memory, oldest first, the current one last.
    fn history(&self, id: &str) -> Result<Vec<v1::Memory>, Refused> {
        let there = self.rows(id)?.filter(|(_, index)| !self.has_expired(index));
        let Some((memory, index)) = there else { return Ok(Vec::new()) };
        let prefix = keys::history::prefix(&self.space, id);
        let most = usize::try_from(HISTORY_VERSIONS_MAX).unwrap_or(usize::MAX).saturating_add(1);
        let mut versions = Vec::new();
        for (_, value) in scan(self.state, &prefix, &[], most)? {
            let row = HistoryRow::decode(&value).map_err(|error| refusals::corrupted(&error))?;
            // What is merged into it is so today.
            versions.push(v1::Memory { merged: Vec::new(), ..self.show(&row.memory, &row.index)? });
        }
        versions.push(self.show(&memory, &index)?);
        Ok(versions)
    }
}

/// When a memory was recorded.
fn created_us(state: &ShardState, space: &SpaceKey, memory: &[u8]) -> Result<i64, Refused> {
    let memory = MemoryRow::decode(memory).map_err(|error| refusals::corrupted(&error))?;
    let row: Option<IndexRow> = read(state, &keys::index_row::key(space, memory.seq))?;
    // Both go in one batch, and this one may have gone meanwhile.
    Ok(row.map_or(memory.updated_us, |row| row.created_us))
}

pub(super) fn read<T: Stored>(state: &ShardState, key: &[u8]) -> Result<Option<T>, Refused> {
    let value = state.reader().get(key).map_err(|error| refusals::corrupted(&error))?;
    value.map(|value| T::decode(&value)).transpose().map_err(|error| refusals::corrupted(&error))
}

pub(super) fn scan(
    state: &ShardState,
    prefix: &[u8],
    after: &[u8],
    limit: usize,
) -> Result<Vec<Row>, Refused> {
    state.reader().scan(prefix, Some(after), limit).map_err(|error| refusals::corrupted(&error))
}
