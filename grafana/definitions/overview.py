"""The overview: is the cluster well, what is asked of it, and which part suffers."""

from . import integrity, limits, snapshots, tls, variables
from .panels import Dashboard, Panel, Query, Row, mean, quantile

CLIENT = f'<router>, route=~"{limits.CLIENT_ROUTES}"'
RECALL = f'<router>, route=~"{limits.RECALL_ROUTES}"'
BY_GROUP = "namespace, job, group"
BY_REPLICA = "namespace, job, node, group"

ERRORS = f'holdfast_router_requests_total{{{CLIENT}, code=~"{limits.SERVER_CODES}"}}'
REQUESTS = f"holdfast_router_requests_total{{{CLIENT}}}"
BEHIND = (
    f"(max by ({BY_GROUP}) (holdfast_raft_applied_index{{<group>}})"
    f" - on ({BY_GROUP}) group_right () holdfast_raft_applied_index{{<group>}})"
)


def _stat(title, shows, bad, expr, unit="none", limits_at=(), decimals=None):
    return Panel(
        title, shows, bad, unit, (Query(expr, ""),), kind="stat", width=4, height=4, limits=limits_at, decimals=decimals
    )


HEALTH = Row(
    "Health",
    (
        _stat(
            "Alerts firing",
            "Alerts of Holdfast that fire now.",
            "open Alerting; each alert names its runbook.",
            'count(ALERTS{alertname=~"Holdfast.*", alertstate="firing"}) or vector(0)',
            limits_at=((1, "red"),),
        ),
        _stat(
            "Processes that cannot be scraped",
            "Nodes and routers that do not answer Prometheus.",
            "see which with `up == 0`; runbook HoldfastTargetDown.",
            'count(up{namespace=~"$namespace", job=~"$job"} == 0) or vector(0)',
            limits_at=((1, "red"),),
        ),
        _stat(
            "Groups without a leader",
            "Raft groups that no scraped node leads: their users can neither write nor recall.",
            "a few seconds during an election are normal; beyond that see runbook HoldfastGroupWithoutLeader.",
            f'count(sum by ({BY_GROUP}) (holdfast_raft_is_leader{{namespace=~"$namespace", job=~"$job"}}) == 0)'
            " or vector(0)",
            limits_at=((1, "red"),),
        ),
        _stat(
            "Failed replicas",
            "Replicas that have stopped for good because of a damaged or full disk or a defect.",
            "restart the process; runbook HoldfastGroupFailed.",
            'sum(holdfast_raft_groups{<node>, role="failed"})',
            limits_at=((1, "red"),),
        ),
        _stat(
            "Client errors by the server",
            "Share of client requests that failed for a reason of the server, not of the request.",
            "see Errors by code below; runbook HoldfastErrorRate.",
            f"(sum(rate({ERRORS}[<rate>])) or vector(0)) / sum(rate({REQUESTS}[<rate>]))",
            unit="percentunit",
            limits_at=((limits.ERROR_RATIO / 10, "yellow"), (limits.ERROR_RATIO, "red")),
            decimals=2,
        ),
        _stat(
            "Recall P99",
            "Time from a recall's arrival at a router to its answer; 99 of 100 are faster.",
            "the dashboard Holdfast / Recall shows which step takes the time; runbook HoldfastRecallSlow.",
            quantile(0.99, "holdfast_router_request_seconds", RECALL),
            unit="s",
            limits_at=((limits.RECALL_P99_SECONDS / 2, "yellow"), (limits.RECALL_P99_SECONDS, "red")),
        ),
    ),
)

CLIENTS = Row(
    "Clients",
    (
        Panel(
            "Requests by route",
            "Client requests per second, by route and method.",
            "a fall to nothing while clients run means that they do not reach the routers: look at the Service and at "
            "the routers' /readyz.",
            "reqps",
            (Query(f"sum by (route, method) (rate({REQUESTS}[<rate>]))", "{{method}} {{route}}"),),
        ),
        Panel(
            "Errors by code",
            "Requests per second that were answered with an error. docs/errors has a page for each code.",
            "codes such as invalid_argument are the callers'; unavailable, deadline_exceeded, unknown_outcome, "
            "overloaded, corrupted and internal are the server's: runbook HoldfastErrorRate.",
            "reqps",
            (
                Query(
                    f'sum by (code) (rate(holdfast_router_requests_total{{{CLIENT}, code!="ok"}}[<rate>]))'
                    " or vector(0)",
                    "{{code}}",
                ),
            ),
        ),
        Panel(
            "Latency by route, P99",
            "Time from a request to its answer at the router; 99 of 100 are faster.",
            "writes wait for the log (see Log below), recalls for the model and the search (see Holdfast / Recall).",
            "s",
            (
                Query(
                    quantile(0.99, "holdfast_router_request_seconds", CLIENT, "route, method"), "{{method}} {{route}}"
                ),
            ),
        ),
        Panel(
            "Repeated calls",
            "Calls to nodes per second that a router repeated: transport (no connection), not_leader (the leader "
            "changed), behind (a replica had not seen enough), retry (the node asked for it), wrong_shard (it has moved).",
            "a burst during a restart is normal; a steady rate means an unstable network or leaders that change.",
            "reqps",
            (Query("sum by (reason) (rate(holdfast_router_retries_total{<router>}[<rate>]))", "{{reason}}"),),
        ),
        Panel(
            "Groups that routers cannot reach",
            "Raft groups whose leader a router does not know or cannot reach, per router.",
            "if nodes report leaders (above) but a router does not see them, the network between is at fault: "
            "runbook HoldfastRouterSeesNoLeader.",
            "none",
            (Query("holdfast_router_groups_without_leader{<router>}", "{{instance}}"),),
            limits=((1, "red"),),
        ),
        Panel(
            "Embedding time",
            "Time of one batch in the embedding model, which recalls and writes share.",
            "the model runs on the routers' processors: add routers or give them more cores.",
            "s",
            (
                Query(quantile(0.5, "holdfast_router_embed_seconds", "<router>"), "P50"),
                Query(quantile(0.99, "holdfast_router_embed_seconds", "<router>"), "P99"),
            ),
        ),
    ),
)

RAFT = Row(
    "Raft",
    (
        Panel(
            "Leaders per node",
            "Groups that each node leads. Leaders do all reads and writes of their groups.",
            "one node that leads nearly everything is the bottleneck of the cluster; leaders spread when a node "
            "restarts.",
            "none",
            (Query('sum by (node) (holdfast_raft_groups{<node>, role="leader"})', "node {{node}}"),),
        ),
        Panel(
            "Groups by role",
            "What the nodes are in their groups, all nodes together. A healthy cluster has leaders and followers only.",
            "leaderless lasts seconds in an election; failed does not go away: runbooks HoldfastGroupWithoutLeader, "
            "HoldfastGroupFailed.",
            "none",
            (Query("sum by (role) (holdfast_raft_groups{<node>})", "{{role}}"),),
        ),
        Panel(
            "Elections",
            "New terms per minute that a node has seen, all its groups together.",
            "some at every restart; steady elections mean lost or late heartbeats, mostly from slow disks or starved "
            "processors: runbook HoldfastElectionsRepeat.",
            "none",
            (Query("sum by (node) (rate(holdfast_raft_term_changes_total{<node>}[<rate>])) * 60", "node {{node}}"),),
        ),
        Panel(
            "Replica behind its group",
            "Log entries that the furthest replica of each node is behind the most advanced one of its group. Nodes are "
            "scraped at different moments, so a busy group shows some.",
            "a value that grows and does not fall again means that the node does not keep up: runbook "
            "HoldfastReplicaLag.",
            "none",
            (Query(f"max by (node) ({BEHIND})", "node {{node}}"),),
        ),
        Panel(
            "Entries that wait",
            "Entries in the log that are not known to be committed, and committed ones that are not applied, summed "
            "over each node's groups.",
            "not committed: the other nodes are slow or away; not applied: this node's disk or processor is slow.",
            "none",
            (
                Query("sum by (node) (holdfast_raft_commit_lag_entries{<group>})", "node {{node}}: to commit"),
                Query("sum by (node) (holdfast_raft_apply_lag_entries{<group>})", "node {{node}}: to apply"),
            ),
        ),
        Panel(
            "Time since a majority confirmed",
            "The longest time since one of a node's leaderships was confirmed by a majority.",
            f"above {limits.QUORUM_AGE_SECONDS} s the leader is cut off and answers nothing: runbook "
            "HoldfastLeaderWithoutQuorum.",
            "s",
            (Query("holdfast_raft_quorum_age_seconds{<node>}", "node {{node}}"),),
            limits=((limits.QUORUM_AGE_SECONDS, "red"),),
        ),
        Panel(
            "Disks that went back",
            "Nodes that noticed that their own disk is an older copy, and nodes that others refuse for that.",
            "anything above 0: runbook HoldfastNodeReverted.",
            "none",
            (
                Query("holdfast_node_reverted{<node>}", "node {{node}} was set back"),
                Query("holdfast_raft_refused_peers{<node>}", "refused by node {{node}}"),
            ),
            limits=((1, "red"),),
        ),
        Panel(
            "Time to commit and apply",
            "Time until a proposed command is on the disks of a majority and applied at the leader.",
            "compare with the fsync below, which each command waits for; the rest is network and queueing.",
            "s",
            (
                Query(quantile(0.5, "holdfast_raft_propose_seconds", "<node>"), "P50"),
                Query(quantile(0.99, "holdfast_raft_propose_seconds", "<node>"), "P99"),
            ),
        ),
        Panel(
            "Proposals by result",
            "Commands proposed per second, by what became of them.",
            "overloaded: more writes than the group takes; unavailable or unknown_outcome: a leader lost its majority; "
            "failed: runbook HoldfastGroupFailed.",
            "ops",
            (Query("sum by (result) (rate(holdfast_raft_proposals_total{<node>}[<rate>]))", "{{result}}"),),
        ),
        Panel(
            "Commands per log entry",
            "How many commands share a log entry: batching pays under load.",
            "one command per entry under heavy load means that clients wait for each other.",
            "none",
            (
                Query(
                    "sum by (node) (rate(holdfast_raft_proposed_commands_total{<node>}[<rate>]))"
                    " / sum by (node) (rate(holdfast_raft_proposed_entries_total{<node>}[<rate>]))",
                    "node {{node}}",
                ),
            ),
            decimals=1,
        ),
    ),
)

LOG = Row(
    "Log",
    (
        Panel(
            "Log sync time, P99",
            "Time of one fsync of a node's log; 99 of 100 are faster. Every write waits for one on a majority.",
            "the volume is slow or shared: runbook HoldfastSlowLogSync.",
            "s",
            (Query(quantile(0.99, "holdfast_log_sync_seconds", "<node>", "node"), "node {{node}}"),),
            limits=((limits.LOG_SYNC_P99_SECONDS, "red"),),
        ),
        Panel(
            "Commit time, P99",
            "Time from a leader's append of an entry until a majority has it on disk; 99 of 100 are faster.",
            "well above the log sync time: the network between the nodes, or one slow disk among the majority.",
            "s",
            (Query(quantile(0.99, "holdfast_raft_commit_seconds", "<node>", "node"), "leader {{node}}"),),
        ),
        Panel(
            "Changes per sync",
            "How many changes of the log share one fsync, and how many batches are written per second.",
            "many batches with one change each: there is room for more concurrent writers.",
            "none",
            (
                Query(
                    "sum by (node) (rate(holdfast_log_requests_total{<node>}[<rate>]))"
                    " / sum by (node) (rate(holdfast_log_batches_total{<node>}[<rate>]))",
                    "node {{node}}: changes per batch",
                ),
                Query("sum by (node) (rate(holdfast_log_batches_total{<node>}[<rate>]))", "node {{node}}: batches/s"),
            ),
            decimals=1,
        ),
        Panel(
            "Bytes to the log",
            "Bytes per second given to the log, before compression.",
            "compare with what the volume can take.",
            "Bps",
            (Query("sum by (node) (rate(holdfast_log_written_bytes_total{<node>}[<rate>]))", "node {{node}}"),),
        ),
        Panel(
            "Entries appended",
            "Log entries appended per second. Every node has all groups, so all nodes should look alike.",
            "a node that appends less than the others is behind or cut off.",
            "ops",
            (Query("sum by (node) (rate(holdfast_log_appended_entries_total{<node>}[<rate>]))", "node {{node}}"),),
        ),
        Panel(
            "Disk: log and state",
            "Bytes that the log's files may take, and the state of all groups, per node. Both grow with "
            "what is written.",
            "grow the volumes in time: runbook HoldfastDiskFilling.",
            "bytes",
            (
                Query("sum by (node) (holdfast_log_disk_bytes{<node>})", "node {{node}}: log"),
                Query("sum by (node) (holdfast_state_disk_bytes{<group>})", "node {{node}}: state"),
            ),
        ),
        Panel(
            "State rows",
            "Rows of the state, per node. All nodes hold the same groups, so the lines should lie on each other.",
            "lines that stay apart while nothing is written: runbook HoldfastReplicasDiffer.",
            "short",
            (Query("sum by (node) (holdfast_state_rows{<group>})", "node {{node}}"),),
        ),
    ),
)

APPLY = Row(
    "Apply",
    (
        Panel(
            "Apply time",
            "Time to apply what was committed together, until readers see it.",
            "the disk of the state is slow, or batches are large (right).",
            "s",
            (
                Query(quantile(0.5, "holdfast_apply_seconds", "<node>"), "P50"),
                Query(quantile(0.99, "holdfast_apply_seconds", "<node>"), "P99"),
            ),
        ),
        Panel(
            "Batch sizes",
            "Commands applied together, and rows in one atomic write, on average.",
            "large batches under load are good; they grow when a replica catches up.",
            "none",
            (
                Query(mean("holdfast_apply_batch_commands", "<node>", "node"), "node {{node}}: commands"),
                Query(mean("holdfast_apply_batch_rows", "<node>", "node"), "node {{node}}: rows"),
            ),
            decimals=1,
        ),
        Panel(
            "Versions",
            "Nodes by the version that they run.",
            "more than one version for longer than an upgrade takes: runbook HoldfastVersionsDiffer.",
            "none",
            (Query("count by (version) (holdfast_node_info{<node>})", "{{version}}"),),
        ),
    ),
)

MEMORIES = Row(
    "Memories",
    (
        Panel(
            "Memories stored by kind",
            "Memories in the states of the groups' leaders, so that each counts once, by kind.",
            "a fall without deletions by callers: look at what was swept when due.",
            "none",
            (
                Query(
                    f"sum by (kind) (max by ({BY_REPLICA}, kind) (holdfast_memories{{<node>}})"
                    f" * on ({BY_REPLICA}) group_left () max by ({BY_REPLICA}) (holdfast_raft_is_leader{{<node>}}))",
                    "{{kind}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Memories written by kind",
            "Memories written per second, by kind (semantic, episodic, procedural), whatever became of them.",
            "no writes while users talk: look at Errors by code.",
            "ops",
            (Query("sum by (kind) (rate(holdfast_memories_written_total{<node>}[<rate>]))", "{{kind}}"),),
            stacked=True,
        ),
        Panel(
            "Memories written by outcome",
            "created: new; merged: the same text again; duplicate: the same id again; updated; rejected.",
            "many merged or duplicate memories mean that a client sends the same things again.",
            "ops",
            (Query("sum by (status) (rate(holdfast_memories_written_total{<node>}[<rate>]))", "{{status}}"),),
            stacked=True,
        ),
        Panel(
            "Deleted, and swept when due",
            "Memories deleted by callers, and rows worked off when due (expiry, idempotency, tombstones).",
            "a sudden rise of deletions is a client's doing: the routers count DELETE by route.",
            "ops",
            (
                Query("sum(rate(holdfast_memories_deleted_total{<node>}[<rate>]))", "deleted"),
                Query("sum(rate(holdfast_swept_due_rows_total{<node>}[<rate>]))", "swept rows"),
            ),
        ),
        Panel(
            "Writes beside memories",
            "Turns of sessions, and changes of sessions, tasks, blocks and procedures, per second.",
            "turns that come without memories: compare the jobs, which make memories of them.",
            "ops",
            (Query("sum by (tier) (rate(holdfast_tier_writes_total{<node>}[<rate>]))", "{{tier}}"),),
            stacked=True,
        ),
        Panel(
            "Feedback by verdict",
            "Feedback of agents on recalled memories, per second.",
            "a rising share of useless or harmful: recall does not serve the agents; look at what they ask.",
            "ops",
            (Query("sum by (verdict) (rate(holdfast_feedback_total{<node>}[<rate>]))", "{{verdict}}"),),
            stacked=True,
        ),
        Panel(
            "Contradictions",
            "Memories per second that writes were found to contradict, by what became of them.",
            "possible ones prevail: rules find no fact in them; give facts, or resolve what recall shows as a conflict.",
            "ops",
            (Query("sum by (result) (rate(holdfast_contradictions_total{<node>}[<rate>]))", "{{result}}"),),
            stacked=True,
        ),
        Panel(
            "Protected terms in summaries",
            "Amounts, dates, doses and names per second that summaries of sessions took in, and those that they lost.",
            "many are lost: sessions are long and full of figures; pin the turns that matter.",
            "ops",
            (Query("sum by (event) (rate(holdfast_condensed_terms_total{<node>}[<rate>]))", "{{event}}"),),
        ),
        Panel(
            "Sweeps",
            "Sweeps of what is due, by result.",
            "failed sweeps keep what should be gone: runbook HoldfastSweepsFail.",
            "ops",
            (Query("sum by (result) (rate(holdfast_sweeps_total{<node>}[<rate>]))", "{{result}}"),),
        ),
        Panel(
            "Jobs by result",
            "Steps of jobs that summarise, promote and condense the turns of sessions and merge memories, by job and "
            "result; stale is work whose turns or memories had changed meanwhile.",
            "failed: the log of the node says why; a failed step is tried again later.",
            "ops",
            (Query("sum by (kind, result) (rate(holdfast_jobs_total{<node>}[<rate>]))", "{{kind}} {{result}}"),),
        ),
        Panel(
            "Near-duplicates",
            "New memories per second that were compared with older ones, that were merged into one that says the same, and "
            "that had changed by then.",
            "most are merged: agents store one thing again and again; let them look first.",
            "ops",
            (Query("sum by (event) (rate(holdfast_near_duplicates_total{<node>}[<rate>]))", "{{event}}"),),
        ),
        Panel(
            "Parked work of jobs",
            "Pieces of work that jobs do not try for an hour, by reason: refused breaks a limit, unreadable meets a row that "
            "cannot be read, failing failed eight times.",
            "above 0: the log of the node names session and cause; other work goes on.",
            "short",
            (Query("sum by (reason) (holdfast_jobs_parked{<node>})", "{{reason}}"),),
        ),
        Panel(
            "Time spent in jobs",
            "Seconds per second that the steps of jobs take, from reading what they are based on until they are applied.",
            "above 1: jobs of a node do not keep up; compare the log sync time and the embedding time.",
            "none",
            (Query("sum by (node) (rate(holdfast_job_seconds_sum{<node>}[<rate>]))", "node {{node}}"),),
        ),
        Panel(
            "Calls to nodes by code",
            "Calls of routers to nodes per second, by code; cancelled is a caller that went away.",
            "not_leader or unavailable in bursts follows elections; anything steady is a fault of that node.",
            "reqps",
            (Query("sum by (code) (rate(holdfast_node_calls_total{<node>}[<rate>]))", "{{code}}"),),
        ),
    ),
)

DASHBOARD = Dashboard(
    uid="holdfast-overview",
    title="Holdfast / Overview",
    description="Is the cluster well, what is asked of it, and which part suffers. Every panel says what it shows and "
    "what to do when it looks bad.",
    rows=(HEALTH, CLIENTS, RAFT, LOG, snapshots.ROW, integrity.ROW, APPLY, MEMORIES, tls.ROW),
    variables=(
        variables.datasource(),
        variables.namespace(),
        variables.job(),
        variables.node(),
        variables.group(),
    ),
)
