use super::{NodeService, refusals};
use crate::raft::GroupId;
use holdfast_core::access::ApiKeyRow;
use holdfast_core::codec::Stored;
use holdfast_core::keys::meta;
use holdfast_core::space::Shard;
use holdfast_core::state::Reader;
use holdfast_proto::v1::read_meta_request::What;
use holdfast_proto::{Refused, v1};
use std::sync::Arc;

/// Rows of the meta group that one answer holds.
const META_ROWS_MAX: usize = 10_000;

impl NodeService {
    /// Rows of the meta group in their stored form. Which of them a client may see is the router's
    /// to decide: this call comes from routers alone.
    pub(super) async fn read_meta_rows(
        &self,
        request: v1::ReadMetaRequest,
    ) -> Result<v1::ReadMetaResponse, Refused> {
        let group = GroupId::from(Shard::META.0);
        let replica = self.replica(group)?;
        self.ready(group, replica, request.read).await?;
        let what =
            request.what.ok_or_else(|| holdfast_core::Error::invalid("what", "the call asks for nothing"))?;
        let reader = replica.state.reader();
        let one = |key: Vec<u8>| Ok(reader.get(&key)?.into_iter().collect());
        let all = |prefix: Vec<u8>| {
            let rows = reader.scan(&prefix, None, META_ROWS_MAX)?;
            Ok(rows.into_iter().map(|(_, value)| value).collect())
        };
        let rows: Result<Vec<Vec<u8>>, holdfast_core::state::StateError> = match &what {
            What::ApiKey(id) => one(meta::api_key(id)),
            What::Tenant(id) => one(meta::tenant(id)),
            What::Cluster(_) => one(meta::cluster()),
            What::Tenants(_) => all(meta::tenants()),
            What::KeysOf(_) => all(meta::api_keys()),
        };
        let mut rows = rows.map_err(|error| refusals::corrupted(&error))?;
        if let What::KeysOf(v1::KeysOf { tenant: Some(tenant) }) = what {
            let mut kept = Vec::new();
            for row in rows {
                let key = ApiKeyRow::decode(&row).map_err(|error| refusals::corrupted(&error))?;
                if key.tenant == tenant {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        Ok(v1::ReadMetaResponse { rows })
    }

    /// What this node knows of the cluster.
    pub(super) fn describe(&self) -> v1::TopologyResponse {
        let groups = self.inner.replicas.iter().map(|(id, replica)| {
            let status = replica.group.status();
            let visible = replica.state.visible().unwrap_or(0);
            v1::Group { group: *id, leader: status.leader, term: status.term, visible }
        });
        v1::TopologyResponse {
            cluster_id: self.inner.cluster_id.clone(),
            shards: u32::from(self.inner.shards),
            nodes: self.inner.members.clone(),
            groups: groups.collect(),
        }
    }

    pub(super) async fn hash_state(
        &self,
        request: v1::StateHashRequest,
    ) -> Result<v1::StateHashResponse, Refused> {
        let state = Arc::clone(&self.replica(request.group)?.state);
        let hash = if request.recompute {
            // Reads every row: for checks, with a deadline of its own.
            let deadline = std::time::Instant::now() + super::DEADLINE_MAX;
            self.on_search_pool(deadline, move || Ok(state.recompute_hash()?)).await?
        } else {
            state.hash()
        };
        let index = hash.index.unwrap_or(0);
        Ok(v1::StateHashResponse { index, hash: hash.hash.0.to_be_bytes().to_vec() })
    }
}
