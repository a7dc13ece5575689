//! A space as a whole: its export, its numbers, the receipts of its erasures; and how far that of a tenant has come.

use super::reads::read;
use super::{NodeService, refusals};
use crate::erasing::spaces_left;
use crate::raft::GroupId;
use holdfast_core::access::Rights;
use holdfast_core::apply::last_applied_us;
use holdfast_core::codec::Stored;
use holdfast_core::erasure::Phase;
use holdfast_core::keys;
use holdfast_core::limits;
use holdfast_core::state::Reader;
use holdfast_core::tenant::TenantErasureRow;
use holdfast_core::transfer::{self, Cursor};
use holdfast_proto::{Refused, v1};
use std::sync::Arc;
use std::time::Duration;

/// A piece of an export ends when it holds this many bytes, well below the largest message.
const EXPORT_BYTES_FULL: usize = 2 << 20;
/// Most spaces that are counted of what is left of a tenant.
const SPACES_TOLD_MAX: u32 = 1_000;

impl NodeService {
    pub(super) async fn export_piece(
        &self,
        request: v1::ExportRequest,
    ) -> Result<v1::ExportResponse, Refused> {
        let asked = request.read.as_ref();
        let owner = asked.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        let deadline = self.ready(group, replica, asked).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        let cursor = request.cursor.unwrap_or_default();
        let v1::ExportCursor { links, after_seq, part, after, until_us } = cursor;
        let cursor = Cursor { links, after_seq, part, after, until_us };
        self.on_search_pool(deadline, move || {
            let reader = state.reader();
            let corrupted = |error: transfer::ReadError| refusals::corrupted(&error);
            if cursor == Cursor::default() {
                transfer::check_families(&reader, &space).map_err(corrupted)?;
            }
            let page = transfer::page(&reader, &space, cursor, EXPORT_BYTES_FULL).map_err(corrupted)?;
            let items = page.items.iter().map(Stored::encode).collect::<Result<_, _>>();
            let items = items.map_err(|error| refusals::internal(&error))?;
            let next = page.next.map(|next| {
                let Cursor { links, after_seq, part, after, until_us } = next;
                v1::ExportCursor { links, after_seq, part, after, until_us }
            });
            Ok(v1::ExportResponse { items, next, seen, beside: true })
        })
        .await
    }

    pub(super) async fn read_stats(
        &self,
        request: v1::SpaceStatsRequest,
    ) -> Result<v1::SpaceStatsResponse, Refused> {
        let asked = request.read.as_ref();
        let owner = asked.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        self.ready(group, replica, asked).await?;
        let seen = Some(self.seen(group, &replica.state));
        let row = |key: Vec<u8>| {
            let value = replica.state.reader().get(&key).map_err(|error| refusals::corrupted(&error))?;
            Ok::<_, Refused>(value.unwrap_or_default())
        };
        let (counters, settings) = (row(keys::counters::key(&space))?, row(keys::space_row::key(&space))?);
        Ok(v1::SpaceStatsResponse { counters, settings, seen })
    }

    pub(super) async fn read_erasure(
        &self,
        request: v1::GetErasureRequest,
    ) -> Result<v1::GetErasureResponse, Refused> {
        let asked = request.read.as_ref();
        let owner = asked.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        limits::check_id("id", &request.id)?;
        self.ready(group, replica, asked).await?;
        let seen = Some(self.seen(group, &replica.state));
        let row = read::<holdfast_core::erasure::ErasureRow>(
            &replica.state,
            &keys::erasure::key(&space, &request.id),
        )?;
        let row = row.map(|row| row.encode()).transpose().map_err(|error| refusals::internal(&error))?;
        let log_time =
            last_applied_us(&replica.state.reader()).map_err(|error| refusals::corrupted(&error))?;
        Ok(v1::GetErasureResponse {
            row,
            replicas: replica.group.voters().into_iter().collect(),
            log_after_ms: ms(self.inner.erasure.log_after),
            database_after_ms: ms(self.inner.erasure.database_after),
            log_time_us: log_time.unwrap_or_default(),
            seen,
        })
    }

    pub(super) async fn read_tenant_erasure(
        &self,
        request: v1::GetTenantErasureRequest,
    ) -> Result<v1::GetTenantErasureResponse, Refused> {
        self.admitted(request.access)?.require(Rights::CLUSTER)?;
        limits::check_id("tenant", &request.tenant)?;
        let group = GroupId::from(request.group);
        let replica = self.replica(group)?;
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let (state, tenant) = (Arc::clone(&replica.state), request.tenant);
        let look = move || {
            let row: Option<TenantErasureRow> = read(&state, &keys::tenant::key(&tenant))?;
            let is_gone = row.as_ref().is_some_and(|row| row.phase != Phase::Removing);
            let slot = row.as_ref().map_or(0, |row| row.slot);
            let spaces_left = match is_gone {
                true => 0,
                false => spaces_left(&state.reader(), &tenant, slot, SPACES_TOLD_MAX + 1)
                    .map_err(|error| refusals::corrupted(&error))?,
            };
            Ok((row, spaces_left))
        };
        let (row, spaces_left) = self.on_search_pool(deadline, look).await?;
        let row = row.map(|row| row.encode()).transpose().map_err(|error| refusals::internal(&error))?;
        Ok(v1::GetTenantErasureResponse {
            row,
            replicas: replica.group.voters().into_iter().collect(),
            log_after_ms: ms(self.inner.erasure.log_after),
            database_after_ms: ms(self.inner.erasure.database_after),
            spaces_left: spaces_left.min(SPACES_TOLD_MAX),
            more_spaces: spaces_left > SPACES_TOLD_MAX,
            seen,
        })
    }
}

fn ms(after: Duration) -> u64 {
    u64::try_from(after.as_millis()).unwrap_or(u64::MAX)
}
