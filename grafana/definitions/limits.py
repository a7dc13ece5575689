"""Limits that alerts and dashboards share: a panel turns red where its alert begins to count."""

# Time from a recall's arrival at a router to its answer, 99th percentile, in seconds.
# A bound of the histogram's buckets, so that no interpolation decides.
RECALL_P99_SECONDS = 0.2
# Share of client requests that fail for a reason of the server.
ERROR_RATIO = 0.01
# Server errors within five minutes below which the share says nothing.
ERRORS_MIN = 5
# Time of one fsync of the log, 99th percentile, in seconds. Every write waits for one on a majority.
LOG_SYNC_P99_SECONDS = 0.1
# Time since a majority confirmed a leadership, in seconds. Healthy leaders hear of it every 250 ms.
QUORUM_AGE_SECONDS = 10
# New terms of one group within 15 minutes. One restart costs one or two.
ELECTIONS_MAX = 4
# Spaces dropped for want of room, per recall.
EVICTIONS_PER_RECALL = 0.2
# Part of a volume that is free.
DISK_FREE_RATIO = 0.1

# Time before a certificate expires in which somebody should look, in seconds.
CERTIFICATE_SECONDS_MIN = 7 * 86400

# A snapshot file is due when the log since the last one exceeds the file and this many bytes;
# it is late when it exceeds them several times.
SNAPSHOT_BYTES_MIN = 64 * 1024 * 1024
SNAPSHOT_LOG_RATIO = 4

# Time since the rows of a replica were last compared with their hash: each is read daily, with two hours of grace.
SCRUB_AGE_SECONDS = 26 * 3600

# Codes that blame the server; the others blame the request (docs/errors).
SERVER_CODES = "internal|corrupted|unavailable|deadline_exceeded|unknown_outcome|overloaded"
# What clients call. Probes and scrapes are no measure of the service.
CLIENT_ROUTES = "/v1/.*"
RECALL_ROUTES = "/v1/.*/recall"
# Scrape jobs are recognised by their name: with the chart it contains the name of the release.
JOBS = ".*holdfast.*"
# Volumes of the nodes, as the chart names them.
VOLUMES = ".*holdfast.*"

# Metrics that are not Holdfast's own, and who shows them.
FOREIGN_METRICS = {
    "up": "Prometheus itself, for each target",
    "ALERTS": "Prometheus itself, for each alert",
    "kubelet_volume_stats_available_bytes": "the kubelet, in Kubernetes only",
    "kubelet_volume_stats_capacity_bytes": "the kubelet, in Kubernetes only",
}
