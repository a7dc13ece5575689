//! A durable append: a Raft group of one node, so that an answer means one fsync of the log, with
//! a state that does nothing. The folder is on the disk of the system's temporary folder.

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use futures::future::join_all;
use holdfast_node::raft::{
    AppliedState, Applier, ApplierError, CommittedBody, CommittedEntry, Group, GroupSpec, Outcomes, RaftNode,
    RaftNodeConfig, StaticAddresses, SystemClock,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Bytes of one command: a memory with its vector.
const COMMAND_BYTES: usize = 2_048;

/// A state that forgets everything.
struct Nothing;

impl Applier for Nothing {
    fn applied(&self) -> Result<AppliedState, ApplierError> {
        Ok(AppliedState { last: None, membership: Vec::new() })
    }

    fn apply(&self, entries: Vec<CommittedEntry>) -> Result<Vec<Outcomes>, ApplierError> {
        let outcomes = |entry: CommittedEntry| match entry.body {
            CommittedBody::Normal(payload) => vec![Bytes::new(); payload.commands.len()],
            CommittedBody::Blank | CommittedBody::Membership(_) => Vec::new(),
        };
        Ok(entries.into_iter().map(outcomes).collect())
    }
}

async fn start(dir: &std::path::Path) -> (RaftNode, Group) {
    let spec = GroupSpec { id: 1, replicas: vec![1], applier: Arc::new(Nothing) };
    let config = RaftNodeConfig::new(1, "bench", dir);
    let addresses = Arc::new(StaticAddresses::default());
    let node = RaftNode::open(config, vec![spec], addresses, Arc::new(SystemClock)).await.unwrap();
    node.initialize(1, &[1]).await.unwrap();
    let group = node.group(1).unwrap().clone();
    while !group.status().leader_applied_own_term {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (node, group)
}

pub fn benches(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (node, group) = runtime.block_on(start(dir.path()));
    let command = Bytes::from(vec![7; COMMAND_BYTES]);
    let mut benches = criterion.benchmark_group("log_append");
    for writers in [1usize, 16, 64] {
        benches.throughput(Throughput::Elements(writers as u64));
        benches.bench_function(BenchmarkId::new("writers", writers), |bencher| {
            bencher.iter(|| {
                let deadline = Instant::now() + Duration::from_secs(30);
                let all = (0..writers).map(|_| group.propose(command.clone(), deadline));
                for answer in runtime.block_on(join_all(all)) {
                    answer.unwrap();
                }
            });
        });
    }
    benches.finish();
    let stats = node.log_stats();
    println!(
        "log_append: {} syncs of {:?} on average",
        stats.syncs,
        stats.sync_times.total / stats.syncs.max(1) as u32
    );
    runtime.block_on(node.shutdown());
}
