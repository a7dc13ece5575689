"""The row on whether replicas hold what they must."""

from .panels import Panel, Query, Row

ROW = Row(
    "Replicas compared",
    (
        Panel(
            "Wrong states found",
            "States found to be wrong per hour, by how: rows that are not those that were written, replicas that differ "
            "from the majority here or elsewhere, or where no majority agrees.",
            "anything above 0: runbook HoldfastStateHashMismatch.",
            "short",
            (
                Query(
                    "sum by (node, kind) (increase(holdfast_state_hash_mismatches_total{<node>}[1h]))",
                    "node {{node}}: {{kind}}",
                ),
            ),
        ),
        Panel(
            "Replicas in quarantine",
            "Replicas that answer no reads because their rows are not to be believed, and attempts per hour to make "
            "one anew.",
            "anything that stays above 0: runbook HoldfastReplicaQuarantined.",
            "short",
            (
                Query("sum by (node) (holdfast_quarantined_replicas{<node>})", "node {{node}}"),
                Query(
                    "sum by (node, result) (increase(holdfast_replica_rebuilds_total{<node>}[1h]))",
                    "node {{node}}: rebuild {{result}}",
                ),
            ),
        ),
        Panel(
            "Rows read",
            "Bytes of rows read per second to be compared with their hash, and the time since the replica that waits "
            "longest was read.",
            "more than a day: runbook HoldfastScrubLate.",
            "s",
            (
                Query("max by (node) (holdfast_scrub_age_seconds{<node>})", "node {{node}}: age"),
                Query("sum by (node) (rate(holdfast_scrubbed_bytes_total{<node>}[<rate>])) / 1e6", "node {{node}}: MB/s"),
                Query(
                    "sum by (result) (increase(holdfast_scrubs_total{<node>}[1h]))",
                    "replicas per hour: {{result}}",
                ),
            ),
        ),
        Panel(
            "Images compared",
            "Images of active spaces compared with the stored rows, per second, by result.",
            "differs: runbook HoldfastIndexDiffers.",
            "none",
            (
                Query(
                    "sum by (result) (rate(holdfast_index_checks_total{<node>}[<rate>]))",
                    "{{result}}",
                ),
            ),
            decimals=2,
        ),
    ),
)
