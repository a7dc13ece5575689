"""The alert rules. Each has a page in docs/runbooks and cases in grafana/alerts/tests."""

from dataclasses import dataclass

from . import limits

CRITICAL = "critical"  # users are refused or data is in danger: wake somebody
WARNING = "warning"  # it will become critical: look today

GROUP = "namespace, job, group"
NODE = "namespace, job, node"
PLACE = "{{ with $labels.namespace }}{{ . }}/{{ end }}{{ $labels.job }}"


@dataclass(frozen=True)
class Alert:
    """`held` is how long the condition must hold before the alert fires."""

    name: str
    severity: str
    held: str
    expr: str
    summary: str
    description: str


def _requests(more=""):
    return f'holdfast_router_requests_total{{route=~"{limits.CLIENT_ROUTES}"{more}}}'


ERRORS = _requests(f', code=~"{limits.SERVER_CODES}"')
RECALLS = f'holdfast_router_request_seconds_%s{{route=~"{limits.RECALL_ROUTES}"}}'
VOLUMES = f'{{persistentvolumeclaim=~"{limits.VOLUMES}"}}'

AVAILABILITY = (
    Alert(
        "HoldfastGroupWithoutLeader",
        CRITICAL,
        "1m",
        f"sum by ({GROUP}) (holdfast_raft_is_leader) == 0",
        f"No leader in group {{{{ $labels.group }}}} of {PLACE}",
        "No node that can be scraped leads group {{ $labels.group }} for a minute: its users can neither write nor "
        "recall. Group 0 holds keys and tenants.",
    ),
    Alert(
        "HoldfastLeaderWithoutQuorum",
        CRITICAL,
        "1m",
        f"max by ({NODE}) (holdfast_raft_quorum_age_seconds) > {limits.QUORUM_AGE_SECONDS}",
        f"Node {{{{ $labels.node }}}} of {PLACE} leads without a majority",
        "For {{ $value | humanizeDuration }} no majority has confirmed a leadership of node {{ $labels.node }}: what "
        "it leads is not served unless another leader was elected.",
    ),
    Alert(
        "HoldfastRouterSeesNoLeader",
        CRITICAL,
        "1m",
        "holdfast_router_groups_without_leader > 0",
        f"Router {{{{ $labels.instance }}}} of {PLACE} reaches no leader of {{{{ $value }}}} groups",
        "Router {{ $labels.instance }} does not know or cannot reach the leader of {{ $value }} groups for a minute "
        "and answers their requests with unavailable.",
    ),
    Alert(
        "HoldfastGroupFailed",
        CRITICAL,
        "1m",
        f'sum by ({NODE}) (holdfast_raft_groups{{role="failed"}}) > 0',
        f"{{{{ $value }}}} replicas on node {{{{ $labels.node }}}} of {PLACE} have failed",
        "{{ $value }} replicas on node {{ $labels.node }} have stopped for good. The groups go on while a majority "
        "lives; the node needs a restart, and perhaps a new disk.",
    ),
    Alert(
        "HoldfastNodeReverted",
        CRITICAL,
        "1m",
        f"max by ({NODE}) (holdfast_node_reverted) > 0 or max by ({NODE}) (holdfast_raft_refused_peers) > 0",
        f"A node of {PLACE} has lost what it had acknowledged (told by node {{{{ $labels.node }}}})",
        "Node {{ $labels.node }} has noticed that its own disk is an older copy, or refuses another node for that. The "
        "groups go on with the other replicas. Stop the node that was set back and never start it from that copy.",
    ),
    Alert(
        "HoldfastTargetDown",
        WARNING,
        "3m",
        f'up{{job=~"{limits.JOBS}"}} == 0',
        f"{{{{ $labels.instance }}}} of {PLACE} is down",
        "Prometheus has had no answer from {{ $labels.instance }} for three minutes. If it is a node, one failure "
        "fewer is tolerated until it is back.",
    ),
    Alert(
        "HoldfastMetricsAbsent",
        CRITICAL,
        "5m",
        "absent(holdfast_node_info)",
        "No node of Holdfast shows metrics",
        "For five minutes no node of Holdfast has shown metrics: all are down or not founded, or Prometheus no longer "
        "looks for them. No other alert of Holdfast's nodes can fire meanwhile.",
    ),
)

REPLICATION = (
    Alert(
        "HoldfastReplicaLag",
        WARNING,
        "3m",
        # Against the group's position a minute ago: nodes are scraped at different moments, so the
        # present difference is never 0 under load.
        f"max by ({GROUP}) (holdfast_raft_applied_index offset 1m)\n"
        f"  - on ({GROUP}) group_right () holdfast_raft_applied_index > 0",
        f"Node {{{{ $labels.node }}}} of {PLACE} is behind in group {{{{ $labels.group }}}}",
        "Node {{ $labels.node }} has not applied {{ $value }} entries of group {{ $labels.group }} that others had "
        "applied a minute before, and this for three minutes. Until it has caught up it is no help if another fails.",
    ),
    Alert(
        "HoldfastReplicasDiffer",
        CRITICAL,
        "5m",
        f"max by ({GROUP}) (holdfast_state_rows) - min by ({GROUP}) (holdfast_state_rows) > 0\n"
        # All replicas stand now where all of them stood a minute ago: their rows can be compared.
        f"and max by ({GROUP}) (holdfast_raft_applied_index)\n"
        f"  == min by ({GROUP}) (holdfast_raft_applied_index offset 1m)",
        f"Replicas of group {{{{ $labels.group }}}} of {PLACE} hold different rows",
        "The replicas of group {{ $labels.group }} have applied the same log and differ by {{ $value }} rows. That "
        "must never happen; answers depend on who leads.",
    ),
    Alert(
        "HoldfastStateHashMismatch",
        CRITICAL,
        "0m",
        "sum by (namespace, job, node, kind) (increase(holdfast_state_hash_mismatches_total[1h])) > 0",
        f"Node {{{{ $labels.node }}}} of {PLACE} has found wrong rows ({{{{ $labels.kind }}}})",
        "Within the last hour node {{ $labels.node }} has found a state that is not what it must be "
        "({{ $labels.kind }}). A replica that is known to be wrong answers no reads until it is made anew.",
    ),
    Alert(
        "HoldfastReplicaQuarantined",
        CRITICAL,
        "5m",
        f"sum by ({NODE}) (holdfast_quarantined_replicas) > 0",
        f"{{{{ $value }}}} replicas on node {{{{ $labels.node }}}} of {PLACE} are in quarantine",
        "{{ $value }} replicas on node {{ $labels.node }} are known to be wrong and were not made anew within five "
        "minutes. They answer no reads; one failure fewer is tolerated.",
    ),
    Alert(
        "HoldfastIndexDiffers",
        WARNING,
        "0m",
        f'sum by ({NODE}) (increase(holdfast_index_checks_total{{result="differs"}}[1h])) > 0',
        f"An image of a space on node {{{{ $labels.node }}}} of {PLACE} was wrong",
        "Within the last hour node {{ $labels.node }} has found images of spaces in memory that were not what is "
        "stored. They were dropped; recalls before may have been incomplete.",
    ),
    Alert(
        "HoldfastScrubLate",
        WARNING,
        "1h",
        f"max by ({NODE}) (holdfast_scrub_age_seconds) > {limits.SCRUB_AGE_SECONDS}",
        f"Rows on node {{{{ $labels.node }}}} of {PLACE} were not read for more than a day",
        "The rows of a replica on node {{ $labels.node }} were last compared with their hash "
        "{{ $value | humanizeDuration }} ago. Damage on its disk would not be found.",
    ),
    Alert(
        "HoldfastElectionsRepeat",
        WARNING,
        "5m",
        f"max by ({GROUP}) (max_over_time(holdfast_raft_term[15m]) - min_over_time(holdfast_raft_term[15m]))"
        f" >= {limits.ELECTIONS_MAX}",
        f"Group {{{{ $labels.group }}}} of {PLACE} elects again and again",
        "Group {{ $labels.group }} began {{ $value }} terms within 15 minutes. Each interrupts its users for a moment.",
    ),
    Alert(
        "HoldfastVersionsDiffer",
        WARNING,
        "1h",
        "count by (namespace, job) (count by (namespace, job, version) (holdfast_node_info)) > 1",
        f"Nodes of {PLACE} run {{{{ $value }}}} versions",
        "The nodes have run {{ $value }} different versions for an hour: an upgrade has stopped half-way.",
    ),
)

DISKS = (
    Alert(
        "HoldfastSlowLogSync",
        WARNING,
        "10m",
        f"histogram_quantile(0.99, sum by ({NODE}, le) (rate(holdfast_log_sync_seconds_bucket[5m])))"
        f" > {limits.LOG_SYNC_P99_SECONDS}",
        f"The log of node {{{{ $labels.node }}}} of {PLACE} syncs slowly",
        "One in a hundred fsyncs of the log of node {{ $labels.node }} takes {{ $value | humanizeDuration }} or more. "
        "Every write waits for one on a majority.",
    ),
    Alert(
        "HoldfastSnapshotsLate",
        WARNING,
        "30m",
        f"holdfast_snapshot_log_bytes > {limits.SNAPSHOT_LOG_RATIO}"
        f" * clamp_min(holdfast_snapshot_file_bytes, {limits.SNAPSHOT_BYTES_MIN})",
        f"Group {{{{ $labels.group }}}} on node {{{{ $labels.node }}}} of {PLACE} gets no snapshot file",
        "{{ $value | humanize1024 }}B of log of group {{ $labels.group }} have no snapshot file on node "
        "{{ $labels.node }}: the log cannot be removed and fills the disk.",
    ),
    Alert(
        "HoldfastSnapshotDamaged",
        WARNING,
        "1m",
        f"sum by ({NODE}) (holdfast_snapshot_damaged_total) > 0",
        f"Node {{{{ $labels.node }}}} of {PLACE} has found a damaged snapshot file",
        "Node {{ $labels.node }} has set {{ $value }} damaged snapshot files aside since it started. It uses another "
        "copy, but its disk is not to be trusted.",
    ),
    Alert(
        "HoldfastDiskFilling",
        WARNING,
        "1h",
        f"predict_linear(kubelet_volume_stats_available_bytes{VOLUMES}[6h], 3 * 86400) < 0",
        "Volume {{ $labels.namespace }}/{{ $labels.persistentvolumeclaim }} will be full within three days",
        "At the pace of the last six hours volume {{ $labels.persistentvolumeclaim }} will be full within three days. "
        "All nodes hold the same data, so the others will follow.",
    ),
    Alert(
        "HoldfastDiskAlmostFull",
        CRITICAL,
        "5m",
        f"kubelet_volume_stats_available_bytes{VOLUMES}\n"
        f"  / kubelet_volume_stats_capacity_bytes{VOLUMES} < {limits.DISK_FREE_RATIO}",
        "Volume {{ $labels.namespace }}/{{ $labels.persistentvolumeclaim }} is almost full",
        "{{ $value | humanizePercentage }} of volume {{ $labels.persistentvolumeclaim }} are free. A node whose disk "
        "is full fails; the nodes fill alike, so the others follow.",
    ),
)

SERVICE = (
    Alert(
        "HoldfastErrorRate",
        CRITICAL,
        "5m",
        f"sum by (namespace, job) (rate({ERRORS}[5m]))\n"
        f"  / sum by (namespace, job) (rate({_requests()}[5m])) > {limits.ERROR_RATIO}\n"
        f"and sum by (namespace, job) (increase({ERRORS}[5m])) >= {limits.ERRORS_MIN}",
        f"{{{{ $value | humanizePercentage }}}} of the requests to {PLACE} fail",
        "{{ $value | humanizePercentage }} of the client requests of the last five minutes failed for a reason of the "
        "server.",
    ),
    Alert(
        "HoldfastRecallSlow",
        WARNING,
        "10m",
        f"histogram_quantile(0.99, sum by (namespace, job, le) (rate({RECALLS % 'bucket'}[5m])))"
        f" > {limits.RECALL_P99_SECONDS}\n"
        # Fewer than 30 recalls in five minutes have no 99th percentile to speak of.
        f"and sum by (namespace, job) (rate({RECALLS % 'count'}[5m])) > 0.1",
        f"Recalls of {PLACE} are slow",
        "One in a hundred recalls takes {{ $value | humanizeDuration }} or more at the router.",
    ),
    Alert(
        "HoldfastSpacesThrash",
        WARNING,
        "15m",
        f"sum by ({NODE}) (rate(holdfast_spaces_evicted_total[10m]))\n"
        f"  / sum by ({NODE}) (rate(holdfast_recall_seconds_count[10m])) > {limits.EVICTIONS_PER_RECALL}\n"
        f"and sum by ({NODE}) (rate(holdfast_recall_seconds_count[10m])) > 0.5",
        f"Node {{{{ $labels.node }}}} of {PLACE} has too little memory for its active spaces",
        "Node {{ $labels.node }} drops {{ $value | printf \"%.2f\" }} spaces per recall for want of room, and loads them "
        "again for the next: recalls are slower than they need be.",
    ),
    Alert(
        "HoldfastSweepsFail",
        WARNING,
        "5m",
        f'sum by ({NODE}) (increase(holdfast_sweeps_total{{result="failed"}}[30m])) >= 5',
        f"Sweeps fail on node {{{{ $labels.node }}}} of {PLACE}",
        "About {{ $value | humanize }} sweeps of what is due failed on node {{ $labels.node }} within 30 minutes: what "
        "has expired is hidden from readers but stays on disk.",
    ),
)

TLS = (
    Alert(
        "HoldfastCertificateExpires",
        WARNING,
        "1h",
        f"holdfast_tls_certificate_expiry_timestamp_seconds - time() < {limits.CERTIFICATE_SECONDS_MIN}",
        f"A certificate of {{{{ $labels.instance }}}} of {PLACE} expires soon",
        "The certificate ({{ $labels.certificate }}) of {{ $labels.instance }} expires in {{ $value | humanizeDuration "
        "}}. After that it can open no new connection to the other processes, and they none to it.",
    ),
    Alert(
        "HoldfastTlsFilesRefused",
        WARNING,
        "15m",
        "holdfast_tls_files_refused > 0",
        f"{{{{ $labels.instance }}}} of {PLACE} refuses its TLS files",
        "For a quarter of an hour {{ $labels.instance }} has gone on with earlier TLS files, because those on disk cannot "
        "be used. It would not start with them.",
    ),
)

GROUPS = {
    "holdfast-availability": AVAILABILITY,
    "holdfast-replication": REPLICATION,
    "holdfast-disks": DISKS,
    "holdfast-service": SERVICE,
    "holdfast-tls": TLS,
}


def rules(runbook_base):
    """The rule file. Runbooks are found below `runbook_base`."""
    base = runbook_base.rstrip("/")

    def rule(alert):
        return {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.held,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook_url": f"{base}/{alert.name}.md",
            },
        }

    return {"groups": [{"name": name, "rules": [rule(alert) for alert in alerts]} for name, alerts in GROUPS.items()]}


def index():
    """The page that lists all runbooks."""
    lines = [
        "# Runbooks",
        "",
        "One page for each alert: what it means, what it costs, how to find out, what to do, when to call for help.",
        "`grafana/generate.py` writes this page; the rules are in `grafana/alerts/holdfast.rules.yaml`.",
        "",
        "The commands expect a release named `holdfast`, and this first. The key needs the right `cluster`.",
        "",
        "```sh",
        "export NAMESPACE=holdfast HOLDFAST_API_KEY=hf_... ROUTER=http://127.0.0.1:7701",
        "kubectl -n $NAMESPACE port-forward svc/holdfast-router-admin 7701:7701 &",
        "```",
        "",
        "Without Kubernetes, `ROUTER` is the admin address of any router; look at the processes' logs where your system",
        "keeps them. Queries are for Prometheus or for Grafana's *Explore*.",
        "",
        "| alert | severity | fires when this holds for | condition |",
        "| --- | --- | --- | --- |",
    ]
    for alerts in GROUPS.values():
        for alert in alerts:
            # A bar inside a table cell would end it.
            condition = " ".join(alert.expr.split()).replace("|", "\\|")
            lines.append(f"| [{alert.name}]({alert.name}.md) | {alert.severity} | {alert.held} | `{condition}` |")
    return "\n".join(lines) + "\n"
