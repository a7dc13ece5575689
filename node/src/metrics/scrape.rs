//! What is read when somebody asks: states that the parts of the node know, and counts that they
//! keep anyway. Nothing of it costs anything on the path of a call.

use super::indices;
use crate::raft::{Group, GroupId, GroupStatus, LogStats, RaftNode, TIME_BOUNDS_US, TimeCounts};
use crate::shard::ShardState;
use holdfast_core::memory::Kind;
use parking_lot::RwLock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A metric of this kind: name, help, labels and type.
pub(super) struct Def(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static [&'static str],
    pub(super) MetricType,
);

pub(super) const C: MetricType = MetricType::COUNTER;
pub(super) const G: MetricType = MetricType::GAUGE;
const GROUP: &[&str] = &["group"];

const GROUPS: Def = Def(
    "holdfast_raft_groups",
    "Raft groups of this node by what it is in them: leader, follower, without a known leader, or failed.",
    &["role"],
    G,
);
const IS_LEADER: Def = Def("holdfast_raft_is_leader", "Whether this node leads the group.", GROUP, G);
const TERM: Def = Def("holdfast_raft_term", "The current term of the group.", GROUP, G);
const TERM_CHANGES: Def = Def(
    "holdfast_raft_term_changes_total",
    "New terms since the node started, of all groups: elections that were begun.",
    &[],
    C,
);
const APPLIED_INDEX: Def =
    Def("holdfast_raft_applied_index", "Log index up to which the group's state is applied.", GROUP, G);
const COMMIT_LAG: Def = Def(
    "holdfast_raft_commit_lag_entries",
    "Entries in this node's log that it does not know to be committed.",
    GROUP,
    G,
);
const APPLY_LAG: Def =
    Def("holdfast_raft_apply_lag_entries", "Committed entries that this node has not applied.", GROUP, G);
const QUORUM_AGE: Def = Def(
    "holdfast_raft_quorum_age_seconds",
    "Longest time since a majority confirmed one of this node's leaderships; 0 if it leads nothing.",
    &[],
    G,
);
const REVERTED: Def = Def(
    "holdfast_node_reverted",
    "Whether this node has stopped its groups because its disk is an older copy.",
    &[],
    G,
);
const REFUSED_PEERS: Def = Def(
    "holdfast_raft_refused_peers",
    "Nodes that lost log entries or votes which they had acknowledged to this one.",
    &[],
    G,
);
const ENTRIES: Def =
    Def("holdfast_raft_proposed_entries_total", "Log entries that this node proposed.", &[], C);
const COMMANDS: Def =
    Def("holdfast_raft_proposed_commands_total", "Commands in the entries that it proposed.", &[], C);
const LOG_BATCHES: Def =
    Def("holdfast_log_batches_total", "Batches written to the log, of all groups together.", &[], C);
const LOG_REQUESTS: Def = Def("holdfast_log_requests_total", "Changes of the log in those batches.", &[], C);
const LOG_ENTRIES: Def = Def("holdfast_log_appended_entries_total", "Entries appended to the log.", &[], C);
const LOG_BYTES: Def =
    Def("holdfast_log_written_bytes_total", "Bytes given to the log, before compression.", &[], C);
const LOG_DISK: Def =
    Def("holdfast_log_disk_bytes", "Bytes that the files of the log may take on disk.", &[], G);
const LOG_SYNC: Def =
    Def("holdfast_log_sync_seconds", "Time of one fsync of the log.", &[], MetricType::HISTOGRAM);
const COMMIT: Def = Def(
    "holdfast_raft_commit_seconds",
    "Time from a leader's append of an entry until a majority has it on disk.",
    &[],
    MetricType::HISTOGRAM,
);
const MEMORIES: Def = Def(
    "holdfast_memories",
    "Memories in the states of this node by kind. Every replica has them: a sum over nodes counts each once for each replica.",
    &["group", "kind"],
    G,
);
const STATE_ROWS: Def = Def("holdfast_state_rows", "Rows of the group's state.", GROUP, G);
const STATE_DISK: Def =
    Def("holdfast_state_disk_bytes", "Bytes that the group's state takes on disk.", GROUP, G);
const PURGED: Def = Def(
    "holdfast_raft_purged_index",
    "Log index up to which the entries of the group are removed from this node's log.",
    GROUP,
    G,
);
const SNAPSHOT_INDEX: Def =
    Def("holdfast_snapshot_index", "Log index of the group's newest snapshot file.", GROUP, G);
const SNAPSHOT_FILE: Def =
    Def("holdfast_snapshot_file_bytes", "Size of the group's newest snapshot file.", GROUP, G);
const SNAPSHOT_LOG: Def = Def(
    "holdfast_snapshot_log_bytes",
    "Bytes of log applied since the group's newest snapshot file.",
    GROUP,
    G,
);
const SNAPSHOT_INSTALLS: Def = Def(
    "holdfast_snapshot_installs_total",
    "States that were replaced by a snapshot file since the node started, at the start included.",
    &[],
    C,
);
const SNAPSHOT_DAMAGED: Def =
    Def("holdfast_snapshot_damaged_total", "Snapshot files that were set aside as damaged.", &[], C);
const SNAPSHOT_SENT: Def =
    Def("holdfast_snapshot_sent_bytes_total", "Bytes of snapshot files sent to other nodes.", &[], C);
const SNAPSHOT_RECEIVED: Def = Def(
    "holdfast_snapshot_received_bytes_total",
    "Bytes of snapshot files received from other nodes.",
    &[],
    C,
);
const SPACES_LIVE: Def = Def("holdfast_spaces_live", "Spaces in memory.", &[], G);
const SPACES_LOADING: Def = Def("holdfast_spaces_loading", "Spaces being loaded into memory.", &[], G);
const SPACES_BYTES: Def = Def("holdfast_spaces_bytes", "Memory of the spaces in memory.", &[], G);
const SPACES_BUDGET: Def =
    Def("holdfast_spaces_budget_bytes", "Memory that the spaces may take together.", &[], G);
const SPACES_EVICTED: Def =
    Def("holdfast_spaces_evicted_total", "Spaces dropped from memory for want of room.", &[], C);
const SPACES_WORN: Def = Def(
    "holdfast_spaces_worn_total",
    "Spaces dropped from memory because too many of their rows were dead.",
    &[],
    C,
);

const ALL: [&Def; 36] = [
    &GROUPS,
    &IS_LEADER,
    &TERM,
    &TERM_CHANGES,
    &APPLIED_INDEX,
    &COMMIT_LAG,
    &APPLY_LAG,
    &QUORUM_AGE,
    &REVERTED,
    &REFUSED_PEERS,
    &ENTRIES,
    &COMMANDS,
    &LOG_BATCHES,
    &LOG_REQUESTS,
    &LOG_ENTRIES,
    &LOG_BYTES,
    &LOG_DISK,
    &LOG_SYNC,
    &COMMIT,
    &MEMORIES,
    &STATE_ROWS,
    &STATE_DISK,
    &PURGED,
    &SNAPSHOT_INDEX,
    &SNAPSHOT_FILE,
    &SNAPSHOT_LOG,
    &SNAPSHOT_INSTALLS,
    &SNAPSHOT_DAMAGED,
    &SNAPSHOT_SENT,
    &SNAPSHOT_RECEIVED,
    &SPACES_LIVE,
    &SPACES_LOADING,
    &SPACES_BYTES,
    &SPACES_BUDGET,
    &SPACES_EVICTED,
    &SPACES_WORN,
];

/// Where the values come from.
pub(crate) struct Sources {
    raft: Arc<RaftNode>,
    groups: Vec<(Group, Arc<ShardState>)>,
    /// The terms that the groups had at the start.
    first_terms: BTreeMap<GroupId, u64>,
    spaces_budget: usize,
}

impl Sources {
    /// `spaces_budget`: memory that the spaces of the node may take, in bytes.
    pub(crate) fn new(
        raft: Arc<RaftNode>,
        groups: Vec<(Group, Arc<ShardState>)>,
        spaces_budget: usize,
    ) -> Self {
        let first_terms = groups.iter().map(|(group, _)| (group.id(), group.status().term)).collect();
        Self { raft, groups, first_terms, spaces_budget }
    }
}

/// Reads the values while there is something to read from: a node that stops takes it away first,
/// so that no scrape keeps its files open.
#[derive(Clone)]
pub(crate) struct Scraper {
    sources: Arc<RwLock<Option<Sources>>>,
    descs: Arc<Vec<Desc>>,
}

impl Scraper {
    pub(super) fn new() -> prometheus::Result<Self> {
        let desc = |Def(name, help, labels, _): &Def| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Desc::new((*name).to_owned(), (*help).to_owned(), labels, HashMap::new())
        };
        let descs =
            ALL.into_iter().chain(indices::ALL).map(desc).collect::<prometheus::Result<Vec<Desc>>>()?;
        Ok(Self { sources: Arc::default(), descs: Arc::new(descs) })
    }

    pub(crate) fn attach(&self, sources: Sources) {
        *self.sources.write() = Some(sources);
    }

    /// Waits for a scrape that is under way: blocks for as long as that takes.
    pub(crate) fn detach(&self) {
        *self.sources.write() = None;
    }
}

impl Collector for Scraper {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let sources = self.sources.read();
        let Some(sources) = sources.as_ref() else { return Vec::new() };
        let mut families = Families::default();
        sources.raft(&mut families);
        log(&mut families, &sources.raft.log_stats());
        sources.states(&mut families);
        sources.snapshots(&mut families);
        families.0.into_values().collect()
    }
}

impl Sources {
    fn raft(&self, families: &mut Families) {
        let mut roles = BTreeMap::from([("leader", 0), ("follower", 0), ("leaderless", 0), ("failed", 0)]);
        let (mut term_changes, mut quorum_age_ms, mut entries, mut commands) = (0, 0, 0, 0);
        for (group, _) in &self.groups {
            let status = group.status();
            *roles.entry(role(&status)).or_insert(0) += 1;
            let first_term = self.first_terms.get(&status.group).copied().unwrap_or(status.term);
            term_changes += status.term.saturating_sub(first_term);
            quorum_age_ms = quorum_age_ms.max(status.millis_since_quorum_ack.unwrap_or(0));
            let batches = group.batch_stats();
            entries += batches.entries;
            commands += batches.commands;

            // Positions start at index 0, so that an empty log ends one before it.
            let ends = |index: Option<u64>| index.map_or(0, |index| index + 1);
            let last = ends(status.last_log);
            let committed = ends(status.committed.map(|position| position.index));
            let applied = ends(status.applied.map(|position| position.index));
            let label = [status.group.to_string()];
            families.add(&IS_LEADER, &label, f64::from(u8::from(status.is_leader)));
            families.add(&TERM, &label, status.term as f64);
            families.add(&APPLIED_INDEX, &label, applied.saturating_sub(1) as f64);
            families.add(&COMMIT_LAG, &label, last.saturating_sub(committed) as f64);
            families.add(&APPLY_LAG, &label, committed.saturating_sub(applied) as f64);
        }
        for (role, groups) in roles {
            families.add(&GROUPS, &[role.to_owned()], f64::from(groups));
        }
        families.add(&TERM_CHANGES, &[], term_changes as f64);
        families.add(&QUORUM_AGE, &[], quorum_age_ms as f64 / 1e3);
        families.add(&REVERTED, &[], f64::from(u8::from(self.raft.reverted().is_some())));
        families.add(&REFUSED_PEERS, &[], self.raft.refused_peers().len() as f64);
        families.add(&ENTRIES, &[], entries as f64);
        families.add(&COMMANDS, &[], commands as f64);
    }

    fn snapshots(&self, families: &mut Families) {
        let (mut installs, mut damaged) = (0, 0);
        for (group, state) in &self.groups {
            let label = [group.id().to_string()];
            let newest = state.snapshots().newest();
            let (index, bytes) = newest.map_or((0, 0), |file| (file.id().index, file.bytes()));
            families.add(&PURGED, &label, group.purged().unwrap_or(0) as f64);
            families.add(&SNAPSHOT_INDEX, &label, index as f64);
            families.add(&SNAPSHOT_FILE, &label, bytes as f64);
            families.add(&SNAPSHOT_LOG, &label, state.log_bytes_since_snapshot() as f64);
            installs += state.installs();
            damaged += state.snapshots().damaged();
        }
        let (sent, received) = self.raft.snapshot_bytes_moved();
        families.add(&SNAPSHOT_INSTALLS, &[], installs as f64);
        families.add(&SNAPSHOT_DAMAGED, &[], damaged as f64);
        families.add(&SNAPSHOT_SENT, &[], sent as f64);
        families.add(&SNAPSHOT_RECEIVED, &[], received as f64);
    }

    fn states(&self, families: &mut Families) {
        for (group, state) in &self.groups {
            let label = [group.id().to_string()];
            families.add(&STATE_ROWS, &label, state.rows() as f64);
            let memories = state.memories();
            for kind in Kind::ALL {
                let labels = [group.id().to_string(), kind.as_str().to_owned()];
                families.add(&MEMORIES, &labels, memories.of(kind) as f64);
            }
            match state.disk_bytes() {
                Ok(bytes) => families.add(&STATE_DISK, &label, bytes as f64),
                Err(error) => tracing::warn!(group = group.id(), %error, "the size of a state is not known"),
            }
        }
        // All states of a node share the spaces.
        let usage = self.groups.first().map(|(_, state)| state.spaces().usage()).unwrap_or_default();
        families.add(&SPACES_LIVE, &[], usage.images as f64);
        families.add(&SPACES_LOADING, &[], usage.loading as f64);
        families.add(&SPACES_BYTES, &[], usage.bytes as f64);
        families.add(&SPACES_BUDGET, &[], self.spaces_budget as f64);
        families.add(&SPACES_EVICTED, &[], usage.evicted as f64);
        families.add(&SPACES_WORN, &[], usage.worn as f64);
        indices::add(families, &usage);
    }
}

fn role(status: &GroupStatus) -> &'static str {
    match status {
        GroupStatus { failure: Some(_), .. } => "failed",
        GroupStatus { is_leader: true, .. } => "leader",
        GroupStatus { leader: Some(_), .. } => "follower",
        GroupStatus { leader: None, .. } => "leaderless",
    }
}

fn log(families: &mut Families, stats: &LogStats) {
    families.add(&LOG_BATCHES, &[], stats.batches as f64);
    families.add(&LOG_REQUESTS, &[], stats.requests as f64);
    families.add(&LOG_ENTRIES, &[], stats.entries as f64);
    families.add(&LOG_BYTES, &[], stats.bytes as f64);
    families.add(&LOG_DISK, &[], stats.disk_bytes as f64);
    for (def, times) in [(&LOG_SYNC, &stats.sync_times), (&COMMIT, &stats.commit_times)] {
        let mut metric = Metric::default();
        metric.set_histogram(histogram(times));
        families.push(def, metric);
    }
}

/// Buckets of the text format count all that is at most their bound.
fn histogram(times: &TimeCounts) -> Histogram {
    let mut so_far = 0;
    let mut buckets = Vec::with_capacity(TIME_BOUNDS_US.len());
    for (bound_us, count) in TIME_BOUNDS_US.iter().zip(times.counts) {
        so_far += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound_us as f64 / 1e6);
        bucket.set_cumulative_count(so_far);
        buckets.push(bucket);
    }
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(times.counts.iter().sum());
    histogram.set_sample_sum(times.total.as_secs_f64());
    histogram
}

/// Families by name.
#[derive(Default)]
pub(super) struct Families(BTreeMap<&'static str, MetricFamily>);

impl Families {
    pub(super) fn add(&mut self, def: &Def, labels: &[String], value: f64) {
        let pair = |(name, value): (&&str, &String)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(value.clone());
            pair
        };
        let mut metric = Metric::from_label(def.2.iter().zip(labels).map(pair).collect());
        if def.3 == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.push(def, metric);
    }

    fn push(&mut self, def: &Def, metric: Metric) {
        let Def(name, help, _, kind) = def;
        let family = self.0.entry(name).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name((*name).to_owned());
            family.set_help((*help).to_owned());
            family.set_field_type(*kind);
            family
        });
        family.mut_metric().push(metric);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn buckets_are_cumulative_and_the_slowest_are_in_the_count_alone() {
        let mut times = TimeCounts { total: Duration::from_millis(2_500), ..TimeCounts::default() };
        times.counts[0] = 3;
        times.counts[2] = 4;
        times.counts[TIME_BOUNDS_US.len()] = 1;
        let histogram = histogram(&times);
        let counts: Vec<u64> = histogram.get_bucket().iter().map(Bucket::cumulative_count).collect();
        assert_eq!(counts[..4], [3, 3, 7, 7]);
        assert_eq!(counts.len(), TIME_BOUNDS_US.len());
        assert_eq!(histogram.get_sample_count(), 8);
        assert!((histogram.get_sample_sum() - 2.5).abs() < 1e-9);
        assert!((histogram.get_bucket()[0].upper_bound() - 0.0001).abs() < 1e-12);
    }

    #[test]
    fn without_a_node_there_is_nothing_to_tell() {
        let scraper = Scraper::new().expect("the definitions are valid");
        assert_eq!(scraper.desc().len(), ALL.len() + indices::ALL.len());
        assert!(scraper.collect().is_empty());
    }
}
