"""The row on snapshot files, which stand between the log and its removal."""

from .panels import Panel, Query, Row, quantile

BY_GROUP = "namespace, job, node, group"


def _by_node(title, shows, bad, unit, queries, limits=()):
    """Largest value of the groups, or sum, per node."""
    named = tuple(Query(expr, f"node {{{{node}}}}{': ' + what if what else ''}") for expr, what in queries)
    return Panel(title, shows, bad, unit, named, limits=limits)


ROW = Row(
    "Snapshot files",
    (
        _by_node(
            "Log since the newest file",
            "Bytes of log applied since the newest snapshot file, of the group with the most, and the largest file. A "
            "new file is due when the log is larger than 64 MiB and than the file.",
            "far above both: files cannot be written; runbook HoldfastSnapshotsLate.",
            "bytes",
            (
                ("max by (node) (holdfast_snapshot_log_bytes{<group>})", "log"),
                ("max by (node) (holdfast_snapshot_file_bytes{<group>})", "file"),
            ),
        ),
        Panel(
            "Files begun",
            "Snapshot files begun per hour, by result; given_up is tried again later.",
            "failed: the disk is full or a state is damaged; runbook HoldfastSnapshotsLate.",
            "none",
            (Query("sum by (result) (rate(holdfast_snapshot_builds_total{<node>}[<rate>])) * 3600", "{{result}}"),),
        ),
        Panel(
            "Time to write a file",
            "Time to write, verify and name one snapshot file.",
            "grows with the state; minutes are no fault, but the log grows meanwhile.",
            "s",
            (
                Query(
                    quantile(0.99, "holdfast_snapshot_build_seconds", "<node>", "node"),
                    "node {{node}}: P99",
                    may_be_empty="a group writes a file only once it has 64 MiB of new log",
                ),
            ),
        ),
        _by_node(
            "Entries kept in the log",
            "Entries of the group with the most: applied and not yet covered by a file, and applied and not yet removed.",
            "a leader keeps some for replicas that are behind; growth without end: runbook HoldfastSnapshotsLate.",
            "short",
            (
                (
                    f"max by (node) (holdfast_raft_applied_index{{<group>}} - on ({BY_GROUP})"
                    " holdfast_snapshot_index{<group>})",
                    "without a file",
                ),
                (
                    f"max by (node) (holdfast_raft_applied_index{{<group>}} - on ({BY_GROUP})"
                    " holdfast_raft_purged_index{<group>})",
                    "not removed",
                ),
            ),
        ),
        _by_node(
            "Bytes of files written and moved",
            "Bytes per second of snapshot files written, sent to other nodes and received from them.",
            "much sent for long: a replica cannot catch up by the log; runbook HoldfastReplicaLag.",
            "Bps",
            (
                ("sum by (node) (rate(holdfast_snapshot_written_bytes_total{<node>}[<rate>]))", "written"),
                ("sum by (node) (rate(holdfast_snapshot_sent_bytes_total{<node>}[<rate>]))", "sent"),
                ("sum by (node) (rate(holdfast_snapshot_received_bytes_total{<node>}[<rate>]))", "received"),
            ),
        ),
        _by_node(
            "Installed, and damaged",
            "States replaced by a file, and damaged files set aside, since the process started.",
            "installed after a crash or a long absence is normal; a damaged file is a failing disk: runbook "
            "HoldfastSnapshotDamaged.",
            "none",
            (
                ("sum by (node) (holdfast_snapshot_installs_total{<node>})", "installed"),
                ("sum by (node) (holdfast_snapshot_damaged_total{<node>})", "damaged"),
            ),
            limits=((1, "orange"),),
        ),
    ),
)
