//! A tenant that is being erased, at whole nodes.

use super::IN_TIME;
use super::harness::{Cluster, GROUP, NODES, access, bounded, read, until, write, write_somewhere};
use holdfast_core::access::{Access, ApiKeyRow, Rights, TenantRow};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, MetaCommand};
use holdfast_core::outcome::Outcome;
use holdfast_core::tenant::{TenantErasureRow, TenantStep};
use holdfast_core::{ErrorCode, erasure::Phase};
use holdfast_proto::v1::read_meta_request::What;
use holdfast_proto::{Refused, v1};
use std::time::{Duration, Instant};

fn operator() -> v1::Access {
    Access { tenant: "operators".into(), user: None, rights: Rights::ALL }.into()
}

/// Proposes a change of the cluster wherever its leader is.
async fn change(cluster: &Cluster, access: v1::Access, command: MetaCommand) -> Result<Outcome, Refused> {
    let command = Command::Meta(Box::new(command)).encode().unwrap();
    let deadline = Instant::now() + IN_TIME;
    loop {
        for id in NODES {
            let access = Some(access.clone());
            let (command, deadline_ms) = (command.clone(), 5_000);
            let request = v1::WriteRequest { access, group: 0, command, deadline_ms, map_epoch: 0 };
            match cluster.service(id).propose(request).await {
                Ok(response) => return Ok(Outcome::decode(&response.outcome).unwrap()),
                Err(refused) if refused.route == v1::Route::None => return Err(refused),
                Err(refused) => assert!(Instant::now() < deadline, "{refused:?}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Rows of the meta group, as its leader has them.
async fn meta_rows(cluster: &Cluster, what: What) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + IN_TIME;
    loop {
        for id in NODES {
            let read = Some(v1::Read { deadline_ms: 5_000, ..v1::Read::default() });
            let request = v1::ReadMetaRequest { read, what: Some(what.clone()) };
            if let Ok(response) = cluster.service(id).read_meta_rows(request).await {
                return response.rows;
            }
        }
        assert!(Instant::now() < deadline, "nobody answers for the meta group");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn api_key(tenant: &str) -> ApiKeyRow {
    ApiKeyRow {
        id: format!("key-of-{tenant}"),
        secret_sha256: [1; 32],
        tenant: tenant.into(),
        user: None,
        rights: Rights::READ,
        name: String::new(),
        created_us: 0,
        expires_us: None,
        revoked_us: None,
        created_by: None,
    }
}

/// How far the erasure has come in a group, as its leader says.
async fn told(cluster: &Cluster, group: u32, tenant: &str) -> Option<(TenantErasureRow, u32)> {
    for id in NODES {
        let request = v1::GetTenantErasureRequest {
            access: Some(operator()),
            read: Some(v1::Read { deadline_ms: 5_000, ..v1::Read::default() }),
            group,
            tenant: tenant.to_owned(),
        };
        if let Ok(told) = cluster.service(id).read_tenant_erasure(request).await {
            let row = TenantErasureRow::decode(&told.row?).unwrap();
            assert_eq!(told.replicas, NODES);
            return Some((row, told.spaces_left));
        }
    }
    None
}

/// Whether every node refuses the tenant's reads, as it should.
async fn all_refuse(cluster: &Cluster) -> bool {
    for id in NODES {
        match read(&cluster.service(id), bounded(IN_TIME)).await {
            Err(refused) if refused.error.code == ErrorCode::NotFound => {
                assert_eq!(
                    (refused.error.field.as_deref(), refused.route),
                    (Some("tenant"), v1::Route::None)
                );
            }
            _ => return false,
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_or_writes_for_a_tenant_that_goes() {
    let cluster = Cluster::start().await;
    let row = |id: &str| TenantRow { id: id.into(), name: id.into(), created_us: 0 };
    for id in ["acme", "acme2", "operators"] {
        assert_eq!(
            change(&cluster, operator(), MetaCommand::CreateTenant(row(id))).await.unwrap(),
            Outcome::Done
        );
    }
    let keys = ["acme", "operators"];
    for id in keys {
        change(&cluster, operator(), MetaCommand::CreateKey(api_key(id))).await.unwrap();
        assert_eq!(meta_rows(&cluster, What::ApiKey(api_key(id).id)).await.len(), 1);
    }
    write_somewhere(&cluster, "first", None).await;
    let all_see_it = || async {
        for id in NODES {
            if read(&cluster.service(id), bounded(IN_TIME)).await.is_err() {
                return false;
            }
        }
        true
    };
    until("all replicas answer", all_see_it).await;

    let erase = || MetaCommand::EraseTenant { tenant: "acme".into(), id: "e".into() };
    let of_tenant =
        change(&cluster, access(), MetaCommand::EraseTenant { tenant: "acme2".into(), id: "x".into() });
    assert_eq!(of_tenant.await.unwrap(), Outcome::Done, "the harness gives it all rights");
    let weak = Access { tenant: "acme".into(), user: None, rights: Rights(7) }.into();
    let refused = change(&cluster, weak, erase()).await.unwrap_err();
    assert_eq!(refused.error.code, ErrorCode::PermissionDenied);
    assert_eq!(change(&cluster, operator(), erase()).await.unwrap(), Outcome::Done);
    // At once, whether the row is there still or not; others go on.
    let opens = keys.map(|id| What::ApiKey(api_key(id).id));
    for (what, left) in opens.into_iter().zip([0, 1]) {
        assert_eq!(meta_rows(&cluster, what).await.len(), left);
    }

    until("all nodes refuse it", || all_refuse(&cluster)).await;
    for id in NODES {
        let refused = write(&cluster.service(id), "late").await.unwrap_err();
        assert_eq!(refused.error.code, ErrorCode::NotFound);
    }
    // No step comes over the wire.
    let step = TenantStep::Rows { tenant: "acme".into(), keys: vec![], ended: true };
    let command = Command::Tenant(Box::new(step)).encode().unwrap();
    let request = v1::WriteRequest {
        access: Some(operator()),
        group: GROUP,
        command,
        deadline_ms: 5_000,
        map_epoch: 0,
    };
    let refused = cluster.service(1).propose(request).await.unwrap_err();
    assert_eq!(refused.error.code, ErrorCode::PermissionDenied);

    let is_removed = || async {
        let told = told(&cluster, GROUP, "acme").await;
        told.is_some_and(|(row, left)| {
            (row.phase, row.spaces, left, row.id.as_str()) == (Phase::Purging, 1, 0, "e")
        })
    };
    until("the rows are gone", is_removed).await;
    until("those of the meta group too", || async {
        told(&cluster, 0, "acme").await.is_some_and(|(row, _)| row.phase == Phase::Purging)
    })
    .await;
    assert_eq!(meta_rows(&cluster, What::TenantsGoing(v1::Empty {})).await.len(), 2);
    assert!(meta_rows(&cluster, What::Tenant("acme".into())).await.is_empty());
    cluster.stop().await;
}
