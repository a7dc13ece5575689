//! `DELETE` and `GET /admin/v1/tenants/{id}`: the erasure of a tenant, and how far it has come in each group of the
//! cluster, the meta group first. An id that was erased is never given again, and so the receipt stays.

use crate::auth::{Caller, PathId};
use crate::http::problem::{Answer, Problem};
use crate::http::query::NoParams;
use crate::http::time::{Deadline, Time};
use crate::http::{NoBody, answer};
use crate::lifecycle::receipt::Receipt;
use crate::nodes::{Client, Safety};
use crate::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, StreamExt};
use holdfast_core::access::{Access, ClusterRow, Rights, TenantRow};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::erasure::{ErasureRow, Phase, SelectionKind};
use holdfast_core::space::Shard;
use holdfast_core::tenant::TenantErasureRow;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::read_meta_request::What;
use holdfast_proto::v1::{self, Empty};
use serde::Serialize;
use std::sync::Arc;
use uuid::Uuid;

/// Groups that are asked at once.
const AT_ONCE: usize = 16;

/// A tenant that is being erased, as far as the meta group says.
#[derive(Serialize)]
pub(super) struct Begun {
    id: String,
    /// Names the erasure.
    erasure: String,
    status: &'static str,
    begun_at: Time,
    /// The log index of the meta group at which it began.
    log_index: u64,
}

impl Begun {
    pub(super) fn is_of(&self, tenant: &str) -> bool {
        self.id == tenant
    }
}

impl From<TenantErasureRow> for Begun {
    fn from(row: TenantErasureRow) -> Self {
        // The meta group may be done with its own rows while shards are not.
        let status = if row.phase == Phase::Done { "done" } else { "removing" };
        let TenantErasureRow { tenant, id, begun_us, begun_index, .. } = row;
        Self { id: tenant, erasure: id, status, begun_at: Time(begun_us), log_index: begun_index }
    }
}

/// How far it has come.
#[derive(Serialize)]
struct Progress {
    id: String,
    erasure: String,
    /// That of the group that is behind all others.
    status: &'static str,
    begun_at: Time,
    done_at: Option<Time>,
    /// Spaces of which rows are left, each partition of a collection by itself; of one shard at most 1,000 are counted.
    spaces_left: u64,
    more_spaces: bool,
    /// Groups of which a replica may still hold something.
    groups_left: usize,
    groups: Vec<OfGroup>,
    /// Shards in which it has not begun yet.
    not_begun: Vec<u16>,
    /// Groups that do not answer now.
    not_answered: Vec<u16>,
}

/// What one group says: 0 is the meta group, with the keys, rules and collections of the tenant.
#[derive(Serialize)]
struct OfGroup {
    group: u16,
    /// Spaces that were taken out so far.
    spaces: u64,
    spaces_left: u32,
    more_spaces: bool,
    #[serde(flatten)]
    receipt: Receipt,
}

#[derive(Serialize)]
struct Active {
    id: String,
    name: String,
    status: &'static str,
    created_at: Time,
}

pub(super) async fn erase(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(id): PathId,
    _: NoBody,
) -> Answer<Response> {
    let access = caller.require(Rights::CLUSTER)?;
    let erasure = Uuid::now_v7().simple().to_string();
    let command = MetaCommand::EraseTenant { tenant: id.clone(), id: erasure };
    let command = Command::Meta(Box::new(command));
    let deadline = Deadline::after(shared.config.write_timeout);
    // One that has begun stays as it is, whoever began it.
    shared.nodes.propose(&access, Shard::META, &command, Safety::Repeatable, deadline).await?;
    shared.keys.forget_tenant(&id).await;
    shared.fact_rules.forget(&id).await;
    let row = erasure_of(&shared, &id, deadline).await?;
    let missing = || Problem::new(ErrorCode::Internal, "the erasure has begun and cannot be read");
    answer(StatusCode::ACCEPTED, &Begun::from(row.ok_or_else(missing)?))
}

/// The tenants that are being erased.
pub(super) async fn going(shared: &Shared, deadline: Deadline) -> Answer<Vec<Begun>> {
    let rows: Vec<TenantErasureRow> = shared.nodes.read_meta(What::TenantsGoing(Empty {}), deadline).await?;
    Ok(rows.into_iter().map(Begun::from).collect())
}

pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(id): PathId,
    _: NoParams,
) -> Answer<Response> {
    let access = caller.require(Rights::CLUSTER)?;
    let deadline = Deadline::after(shared.config.read_timeout);
    if let Some(row) = erasure_of(&shared, &id, deadline).await? {
        return answer(StatusCode::OK, &progress(&shared, &access, row, deadline).await?);
    }
    let mut rows: Vec<TenantRow> = shared.nodes.read_meta(What::Tenant(id), deadline).await?;
    let there_is_none = || Error::new(ErrorCode::NotFound, "there is no tenant with this id").at("id");
    let TenantRow { id, name, created_us } = rows.pop().ok_or_else(there_is_none)?;
    answer(StatusCode::OK, &Active { id, name, status: "active", created_at: Time(created_us) })
}

async fn erasure_of(shared: &Shared, id: &str, deadline: Deadline) -> Answer<Option<TenantErasureRow>> {
    let mut rows = shared.nodes.read_meta(What::TenantErasure(id.to_owned()), deadline).await?;
    Ok(rows.pop())
}

/// Asks all groups. One that does not answer is named, and holds up nothing.
async fn progress(
    shared: &Shared,
    access: &Access,
    row: TenantErasureRow,
    deadline: Deadline,
) -> Answer<Progress> {
    let clusters: Vec<ClusterRow> = shared.nodes.read_meta(What::Cluster(Empty {}), deadline).await?;
    let shards = clusters.first().map_or(0, |cluster| cluster.shards);
    let tenant = row.tenant.as_str();
    let ask = |group: u16| async move { (group, ask(shared, access, group, tenant, deadline).await) };
    let told: Vec<_> = stream::iter((0..=shards).map(ask)).buffered(AT_ONCE).collect().await;
    let (mut groups, mut not_begun, mut not_answered) = (Vec::new(), Vec::new(), Vec::new());
    let (mut spaces_left, mut more_spaces) = (0, false);
    for (group, told) in told {
        let told = match told {
            Ok(told) => told,
            Err(problem) => {
                tracing::debug!(
                    group,
                    code = problem.error.code.as_str(),
                    "a group does not tell of a tenant"
                );
                not_answered.push(group);
                continue;
            }
        };
        spaces_left += u64::from(told.spaces_left);
        more_spaces |= told.more_spaces;
        match told.row.as_deref().map(TenantErasureRow::decode).transpose() {
            Ok(Some(row)) => groups.push(of_group(group, row, &told)),
            Ok(None) => not_begun.push(group),
            Err(error) => {
                return Err(Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}")));
            }
        }
    }
    let unfinished = groups.iter().filter(|group| group.receipt.status != Phase::Done.as_str()).count();
    let is_removing = groups.iter().any(|group| group.receipt.status == Phase::Removing.as_str());
    let status = match row.phase {
        Phase::Done => Phase::Done,
        _ if is_removing || !not_begun.is_empty() || !not_answered.is_empty() => Phase::Removing,
        _ => Phase::Purging,
    };
    Ok(Progress {
        status: status.as_str(),
        begun_at: Time(row.begun_us),
        done_at: row.done_us.map(Time),
        spaces_left,
        more_spaces,
        groups_left: unfinished + not_begun.len() + not_answered.len(),
        groups,
        not_begun,
        not_answered,
        id: row.tenant,
        erasure: row.id,
    })
}

async fn ask(
    shared: &Shared,
    access: &Access,
    group: u16,
    tenant: &str,
    deadline: Deadline,
) -> Answer<v1::GetTenantErasureResponse> {
    let ask = |mut client: Client, deadline_ms| {
        let request = v1::GetTenantErasureRequest {
            access: Some(access.clone().into()),
            read: Some(v1::Read { deadline_ms, ..v1::Read::default() }),
            group: u32::from(group),
            tenant: tenant.to_owned(),
        };
        async move { client.get_tenant_erasure(request).await }
    };
    // Half of the time, so that one that is silent leaves the others theirs.
    shared.nodes.call(Shard(group), Safety::Read, deadline.part(0.5), ask).await
}

/// A tenant in one group is told as everything of a space is.
fn of_group(group: u16, row: TenantErasureRow, told: &v1::GetTenantErasureResponse) -> OfGroup {
    let spaces = row.spaces;
    let row = ErasureRow {
        kind: SelectionKind::All,
        phase: row.phase,
        begun_us: row.begun_us,
        begun_index: row.begun_index,
        erased: row.erased,
        removed_us: row.removed_us,
        removed_index: row.removed_index,
        confirmed: row.confirmed,
        done_us: row.done_us,
        ..ErasureRow::default()
    };
    let v1::GetTenantErasureResponse { log_after_ms, database_after_ms, spaces_left, more_spaces, .. } =
        *told;
    let replicas = v1::GetErasureResponse {
        replicas: told.replicas.clone(),
        log_after_ms,
        database_after_ms,
        ..v1::GetErasureResponse::default()
    };
    OfGroup { group, spaces, spaces_left, more_spaces, receipt: Receipt::new(&row, &replicas) }
}
