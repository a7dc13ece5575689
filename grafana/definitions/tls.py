"""The row on certificates: who may talk to whom, and for how long."""

from .panels import Panel, Query, Row

WITHOUT = "without TLS there is nothing to show"

ROW = Row(
    "Certificates",
    (
        Panel(
            "Time until certificates expire",
            "Time until the first certificate of a process expires, and the first of their CAs.",
            "below seven days: what should renew it does not; runbook HoldfastCertificateExpires.",
            "s",
            (
                Query(
                    "min by (certificate) (holdfast_tls_certificate_expiry_timestamp_seconds{<router>}) - time()",
                    "{{certificate}}",
                    may_be_empty=WITHOUT,
                ),
            ),
        ),
        Panel(
            "Changed files, by what became of them",
            "Changed TLS files per hour: taken, or refused.",
            "refused: what is on disk cannot be used; runbook HoldfastTlsFilesRefused.",
            "none",
            (
                Query(
                    "sum by (result) (increase(holdfast_tls_reloads_total{<router>}[1h]))",
                    "{{result}}",
                    may_be_empty=WITHOUT,
                ),
                Query(
                    "sum(holdfast_tls_files_refused{<router>})",
                    "processes with files that are refused",
                    may_be_empty=WITHOUT,
                ),
            ),
        ),
        Panel(
            "Connections turned away",
            "Connections per second that nodes turned away, by reason: plain (no TLS), certificate (one side does not "
            "believe the other), handshake.",
            "steady: a process is configured for another cluster or not at all; the node's log names its address.",
            "ops",
            (
                Query(
                    "sum by (reason) (rate(holdfast_tls_connections_refused_total{<router>}[<rate>]))",
                    "{{reason}}",
                    may_be_empty=WITHOUT,
                ),
            ),
        ),
    ),
)
