//! The tiers beside memories as they are stored: all of one tier, or one thing with its parts. What
//! they mean is the router's to tell.

use super::reads::scan;
use super::{NodeService, refusals};
use crate::shard::ShardState;
use holdfast_core::access::Rights;
use holdfast_core::codec::Stored;
use holdfast_core::keys::{block, procedure, task};
use holdfast_core::limits::{
    self, BLOCK_VERSIONS_MAX, BLOCKS_MAX, PROCEDURE_VERSIONS_MAX, PROCEDURES_MAX, TASK_STEPS_MAX, TASKS_MAX,
};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use holdfast_core::tiers::procedure::ProcedureRow;
use holdfast_proto::{Refused, v1};
use std::sync::Arc;

impl NodeService {
    pub(super) async fn read_tier_rows(
        &self,
        request: v1::ReadTierRequest,
    ) -> Result<v1::ReadTierResponse, Refused> {
        let read = request.read.as_ref();
        let owner = read.and_then(|read| read.owner);
        let access = (request.access.clone(), request.space.clone());
        let (space, group, replica) = self.enter(access.0, access.1, Rights::READ, owner)?;
        if !request.id.is_empty() {
            limits::check_id("id", &request.id)?;
        }
        let deadline = self.ready(group, replica, read).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        self.on_search_pool(deadline, move || {
            let rows = Rows { state: &state, space: &space };
            let entries = match request.tier() {
                v1::Tier::Block => rows.blocks(&request.id, request.parts)?,
                v1::Tier::Task => rows.tasks(&request.id, request.parts)?,
                v1::Tier::Procedure => rows.procedures(&request.id, request.parts)?,
            };
            Ok(v1::ReadTierResponse { entries, seen })
        })
        .await
    }
}

struct Rows<'a> {
    state: &'a ShardState,
    space: &'a SpaceKey,
}

impl Rows<'_> {
    fn blocks(&self, label: &str, versions: bool) -> Result<Vec<v1::TierEntry>, Refused> {
        if label.is_empty() {
            return self.named(&block::prefix(self.space), BLOCKS_MAX as usize);
        }
        let key = block::key(self.space, label);
        let most = usize::try_from(BLOCK_VERSIONS_MAX).unwrap_or(usize::MAX);
        self.whole(label, &key, versions.then(|| block::versions_of(self.space, label)), most)
    }

    fn tasks(&self, id: &str, steps: bool) -> Result<Vec<v1::TierEntry>, Refused> {
        if id.is_empty() {
            return self.named(&task::prefix(self.space), TASKS_MAX as usize);
        }
        let most = usize::try_from(TASK_STEPS_MAX).unwrap_or(usize::MAX);
        self.whole(id, &task::key(self.space, id), steps.then(|| task::steps_of(self.space, id)), most)
    }

    fn procedures(&self, name: &str, versions: bool) -> Result<Vec<v1::TierEntry>, Refused> {
        if !name.is_empty() {
            let parts = versions.then(|| procedure::versions_of(self.space, name));
            return self.whole(name, &procedure::key(self.space, name), parts, PROCEDURE_VERSIONS_MAX);
        }
        let all = self.named(&procedure::prefix(self.space), PROCEDURES_MAX as usize)?;
        if !versions {
            return Ok(all);
        }
        let mut entries = Vec::with_capacity(2 * all.len());
        for entry in all {
            let row = ProcedureRow::decode(&entry.row).map_err(|error| refusals::corrupted(&error))?;
            let name = entry.id.clone();
            entries.push(entry);
            if let Some(active) = row.active {
                let part = self.one(&name, &procedure::version(self.space, &name, active))?;
                entries.extend(part.map(|part| v1::TierEntry { part: Some(active), ..part }));
            }
        }
        Ok(entries)
    }

    /// One thing, with its parts if their prefix is given. It is read first: of parts that come or go
    /// while they are read it is known then.
    fn whole(
        &self,
        id: &str,
        key: &[u8],
        parts: Option<Vec<u8>>,
        most: usize,
    ) -> Result<Vec<v1::TierEntry>, Refused> {
        let Some(thing) = self.one(id, key)? else { return Ok(Vec::new()) };
        let mut entries = vec![thing];
        for (key, row) in parts.map_or(Ok(Vec::new()), |prefix| scan(self.state, &prefix, &[], most))? {
            let number = key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
            entries.push(v1::TierEntry { id: id.to_owned(), row, part: number });
        }
        Ok(entries)
    }

    fn one(&self, id: &str, key: &[u8]) -> Result<Option<v1::TierEntry>, Refused> {
        let row = self.state.reader().get(key).map_err(|error| refusals::corrupted(&error))?;
        Ok(row.map(|row| v1::TierEntry { id: id.to_owned(), row, part: None }))
    }

    /// The rows below a prefix, behind which their names stand.
    fn named(&self, prefix: &[u8], most: usize) -> Result<Vec<v1::TierEntry>, Refused> {
        let mut entries = Vec::new();
        for (key, row) in scan(self.state, prefix, &[], most)? {
            let id = std::str::from_utf8(key.get(prefix.len()..).unwrap_or_default())
                .map_err(|error| refusals::corrupted(&error))?;
            entries.push(v1::TierEntry { id: id.to_owned(), row, part: None });
        }
        Ok(entries)
    }
}
