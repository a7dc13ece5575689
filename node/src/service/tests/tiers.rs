//! What is kept beside memories, at real nodes: who may change it, and how it is read.

use super::harness::{Cluster, GROUP, HEARTBEAT, session};
use crate::shard::tests::space;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::outcome::Outcome;
use holdfast_core::tiers::block::{BlockChange, BlockRow, BlockWrite};
use holdfast_core::tiers::procedure::{Body, ProcedureChange, ProcedureRow, ProcedureWrite, VersionRow};
use holdfast_core::tiers::task::{Step, StepKind, StepRow, TaskChange, TaskWrite};
use holdfast_proto::Refused;
use holdfast_proto::v1::{self, Route, Tier};

const AGENT: Rights = Rights::READ.with(Rights::WRITE);

fn access(tenant: &str, rights: Rights) -> Option<v1::Access> {
    Some(Access { tenant: tenant.into(), user: None, rights }.into())
}

/// Writes where the leader is.
async fn write(cluster: &Cluster, rights: Rights, write: Write) -> Result<Outcome, Refused> {
    let command = SpaceCommand { space: space(), idempotency: None, write };
    let command = Command::Space(Box::new(command)).encode().unwrap();
    // Leaders change, but not for ever.
    for _ in 0..400 {
        let service = cluster.service(cluster.leader().await);
        let access = access("acme", rights);
        let (command, deadline_ms) = (command.clone(), 5_000);
        let request = v1::WriteRequest { access, group: GROUP, command, deadline_ms, map_epoch: 1 };
        match service.propose(request).await {
            Err(refused) if refused.route != Route::None => tokio::time::sleep(HEARTBEAT).await,
            end => return end.map(|response| Outcome::decode(&response.outcome).unwrap()),
        }
    }
    panic!("no leader takes a write")
}

fn block(by_admin: bool, change: BlockChange) -> Write {
    Write::Block(Box::new(BlockWrite { label: "rules".into(), if_version: None, by_admin, change }))
}

async fn read(cluster: &Cluster, tenant: &str, tier: Tier, id: &str) -> Result<Vec<v1::TierEntry>, Refused> {
    let request = v1::ReadTierRequest {
        access: access(tenant, AGENT),
        space: Some((&space()).into()),
        read: Some(session(None, false)),
        tier: tier.into(),
        id: id.into(),
        parts: true,
    };
    let service = cluster.service(cluster.leader().await);
    service.read_tier_rows(request).await.map(|response| response.entries)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_to_administrate_is_checked_by_the_node() {
    let cluster = Cluster::start().await;
    let locked = |by_admin| {
        let (value, read_only) = (Some("be kind".into()), Some(true));
        block(by_admin, BlockChange::Put { value, description: None, limit_chars: None, read_only })
    };
    // A router that errs, or lies, about what a credential may do.
    let refused = write(&cluster, AGENT, locked(true)).await.unwrap_err();
    assert_eq!(refused.error.code, ErrorCode::PermissionDenied);
    let denied =
        |outcome| matches!(outcome, Outcome::Failed(error) if error.code == ErrorCode::PermissionDenied);
    assert!(denied(write(&cluster, AGENT, locked(false)).await.unwrap()));
    assert!(!denied(write(&cluster, Rights::ALL, locked(true)).await.unwrap()));
    assert!(denied(write(&cluster, AGENT, block(false, BlockChange::Delete)).await.unwrap()));
    let rethink = BlockChange::Rethink { value: "be kind and brief".into() };
    write(&cluster, Rights::ALL, block(true, rethink)).await.unwrap();

    let found = read(&cluster, "acme", Tier::Block, "rules").await.unwrap();
    let values: Vec<String> = found.iter().map(|entry| BlockRow::decode(&entry.row).unwrap().value).collect();
    assert_eq!(values, ["be kind and brief", "be kind"], "the thing, then its parts");
    assert_eq!((found[0].part, found[1].part), (None, Some(1)));
    assert_eq!(read(&cluster, "acme", Tier::Block, "").await.unwrap(), found[..1]);
    assert_eq!(read(&cluster, "acme", Tier::Block, "none").await.unwrap(), []);
    let foreign = read(&cluster, "acm", Tier::Block, "rules").await.unwrap_err();
    assert_eq!(foreign.error.code, ErrorCode::PermissionDenied);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_and_procedures_are_read_with_what_belongs_to_them() {
    let cluster = Cluster::start().await;
    let task =
        |id: &str, change| Write::Task(Box::new(TaskWrite { id: id.into(), if_version: None, change }));
    let step =
        |content: &str| Step { kind: StepKind::Tool, tool: None, content: content.into(), success: None };
    // Names of which one begins like the other.
    for id in ["t", "tt"] {
        let put = TaskChange::Put { goal: None, session: None, agent: None, plan: None, ttl_s: None };
        write(&cluster, AGENT, task(id, put)).await.unwrap();
        let steps = TaskChange::Steps { steps: vec![step(id), step("二")], plan: Vec::new() };
        write(&cluster, AGENT, task(id, steps)).await.unwrap();
    }
    let found = read(&cluster, "acme", Tier::Task, "t").await.unwrap();
    let steps =
        found[1..].iter().map(|entry| (entry.part, StepRow::decode(&entry.row).unwrap().step.content));
    assert_eq!(steps.collect::<Vec<_>>(), [(Some(1), "t".to_owned()), (Some(2), "二".to_owned())]);
    let ids = |entries: &[v1::TierEntry]| entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&read(&cluster, "acme", Tier::Task, "").await.unwrap()), ["t", "tt"]);

    let procedure = |name: &str, change| {
        Write::Procedure(Box::new(ProcedureWrite { name: name.into(), if_version: None, change }))
    };
    for (name, text) in [("a", "one"), ("a", "two"), ("b", "three")] {
        let body = Body::Template { text: text.into() };
        let put = ProcedureChange::Put { body, description: String::new(), placeholders: Vec::new() };
        write(&cluster, AGENT, procedure(name, put)).await.unwrap();
    }
    for change in [ProcedureChange::Verify { version: 1 }, ProcedureChange::Activate { version: None }] {
        write(&cluster, AGENT, procedure("a", change)).await.unwrap();
    }
    let found = read(&cluster, "acme", Tier::Procedure, "a").await.unwrap();
    assert_eq!(found.iter().map(|entry| entry.part).collect::<Vec<_>>(), [None, Some(1), Some(2)]);
    // In a list: of the versions the one that is used.
    let found = read(&cluster, "acme", Tier::Procedure, "").await.unwrap();
    assert_eq!(ids(&found), ["a", "a", "b"]);
    assert_eq!(ProcedureRow::decode(&found[0].row).unwrap().active, Some(1));
    let active = VersionRow::decode(&found[1].row).unwrap();
    assert_eq!((active.version, active.body), (1, Body::Template { text: "one".into() }));
    cluster.stop().await;
}
