use super::{NodeService, refusals};
use crate::erasing::tenants_going;
use crate::raft::GroupId;
use crate::shard::ShardState;
use holdfast_core::Error;
use holdfast_core::access::ApiKeyRow;
use holdfast_core::codec::Stored;
use holdfast_core::keys::{meta, tenant};
use holdfast_core::space::Shard;
use holdfast_core::state::Reader;
use holdfast_proto::v1::read_meta_request::What;
use holdfast_proto::{Refused, v1};
use std::sync::Arc;

/// Rows of the meta group that one answer holds.
const META_ROWS_MAX: usize = 10_000;
/// Rows read from the store in one step.
const PAGE: usize = 512;

impl NodeService {
    /// Rows of the meta group in their stored form. Which of them a client may see is the router's
    /// to decide: this call comes from routers alone.
    pub(super) async fn read_meta_rows(
        &self,
        request: v1::ReadMetaRequest,
    ) -> Result<v1::ReadMetaResponse, Refused> {
        let group = GroupId::from(Shard::META.0);
        let replica = self.replica(group)?;
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let what = request.what.ok_or_else(|| Error::invalid("what", "the call asks for nothing"))?;
        let is_one = matches!(
            what,
            What::ApiKey(_)
                | What::Tenant(_)
                | What::TenantErasure(_)
                | What::Cluster(_)
                | What::FactRules(_)
                | What::Collection(_)
        );
        if is_one {
            return Ok(v1::ReadMetaResponse { rows: rows(&replica.state, &what)? });
        }
        let state = Arc::clone(&replica.state);
        self.on_search_pool(deadline, move || Ok(v1::ReadMetaResponse { rows: rows(&state, &what)? })).await
    }

    /// What this node knows of the cluster.
    pub(super) fn describe(&self, known_epoch: u64) -> v1::TopologyResponse {
        let map = self.map();
        let is_news = map.epoch() != known_epoch;
        let owners = map.owners().iter().filter(|_| is_news).map(|owner| u32::from(owner.0)).collect();
        let reverted = self.inner.raft.reverted();
        // What a node knew whose groups were stopped is no news to anybody.
        let replicas = self.inner.replicas.iter().filter(|_| reverted.is_none());
        let groups = replicas.map(|(id, replica)| {
            let status = replica.group.status();
            let visible = replica.state.visible().unwrap_or(0);
            // One that leads without a majority can do nothing for anybody, nor one that is withdrawn.
            let withdrawn = status.is_leader && replica.group.is_withdrawn();
            let leader = status.leader.filter(|_| !status.lost_quorum && !withdrawn);
            v1::Group { group: *id, leader, term: status.term, visible }
        });
        v1::TopologyResponse {
            cluster_id: self.inner.cluster_id.clone(),
            shards: u32::from(map.shards()),
            nodes: self.inner.members.clone(),
            groups: groups.collect(),
            reverted: reverted.map(|proof| proof.to_string()),
            refused: self.inner.raft.refused_peers().into_keys().collect(),
            map: Some(v1::Map { epoch: map.epoch(), owners }),
        }
    }
}

fn rows(state: &ShardState, what: &What) -> Result<Vec<Vec<u8>>, Refused> {
    let one = |key: Vec<u8>| -> Result<Vec<Vec<u8>>, Refused> {
        let row = state.reader().get(&key).map_err(|error| refusals::corrupted(&error))?;
        Ok(row.into_iter().collect())
    };
    match what {
        What::ApiKey(id) => opening(state, one(meta::api_key(id))?),
        What::Tenant(id) => one(meta::tenant(id)),
        What::TenantErasure(id) => one(tenant::key(id)),
        What::TenantsGoing(_) => {
            let going = tenants_going(state).map_err(|error| refusals::corrupted(&error))?;
            let rows = going.into_values().map(|row| row.encode());
            rows.collect::<Result<_, _>>().map_err(|error| refusals::internal(&error))
        }
        What::Cluster(_) => one(meta::cluster()),
        What::FactRules(tenant) => one(meta::fact_rules(tenant)),
        What::Scoring(tenant) => one(meta::scoring(tenant)),
        What::Collection(of) => one(meta::collection(&of.tenant, &of.name)),
        What::CollectionsOf(tenant) => all(state, &meta::collections(tenant), |_| Ok(true)),
        What::CollectionSettings(of) => one(meta::collection_settings(&of.tenant, &of.name)),
        What::SettingsOfCollections(tenant) => {
            all(state, &meta::settings_of_collections(tenant), |_| Ok(true))
        }
        What::Tenants(_) => all(state, &meta::tenants(), |_| Ok(true)),
        What::KeysOf(v1::KeysOf { tenant }) => all(state, &meta::api_keys(), |row| {
            let Some(tenant) = tenant else { return Ok(true) };
            let key = ApiKeyRow::decode(row).map_err(|error| refusals::corrupted(&error))?;
            Ok(key.tenant == *tenant)
        }),
    }
}

/// The row of a key, unless its tenant was erased: then it opens nothing, be it there still.
fn opening(state: &ShardState, rows: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Refused> {
    let corrupted = |error: &dyn std::fmt::Display| refusals::corrupted(error);
    for row in &rows {
        let key = ApiKeyRow::decode(row).map_err(|error| corrupted(&error))?;
        if state.reader().get(&tenant::key(&key.tenant)).map_err(|error| corrupted(&error))?.is_some() {
            return Ok(Vec::new());
        }
    }
    Ok(rows)
}

/// The rows below a prefix that `wanted` keeps, [`META_ROWS_MAX`] of them at most.
fn all(
    state: &ShardState,
    prefix: &[u8],
    wanted: impl Fn(&[u8]) -> Result<bool, Refused>,
) -> Result<Vec<Vec<u8>>, Refused> {
    let (mut kept, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let page = state.reader().scan(prefix, after.as_deref(), PAGE);
        let page = page.map_err(|error| refusals::corrupted(&error))?;
        let is_last = page.len() < PAGE;
        for (key, row) in page {
            if wanted(&row)? {
                kept.push(row);
            }
            after = Some(key);
        }
        if is_last || kept.len() >= META_ROWS_MAX {
            kept.truncate(META_ROWS_MAX);
            return Ok(kept);
        }
    }
}
