"""Wrong values are refused, with a message that names what is wrong."""

import json
from typing import Any

import pytest

from chart import CHART, refusal, render


def at(path: str, value: Any) -> dict[str, Any]:
    """Values with one key set: at("a.b", 1) is {"a": {"b": 1}}."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


REFUSED = [
    # Membership: a majority of an even number bears no more failures than one node less.
    ("node.replicas", 0, "value must be one of 1, 3, 5, 7"),
    ("node.replicas", 2, "value must be one of 1, 3, 5, 7"),
    ("node.replicas", 4, "value must be one of 1, 3, 5, 7"),
    ("node.replicas", 9, "value must be one of 1, 3, 5, 7"),
    ("node.replicas", "3", "/node/replicas"),
    ("shards", 0, "/shards"),
    ("shards", 257, "got 257, want 256"),
    ("shards", 1.5, "got number, want integer"),
    # Misspelt keys, at every depth.
    ("nodes", {}, "additional properties 'nodes' not allowed"),
    ("node.replica", 3, "additional properties 'replica' not allowed"),
    ("router.autoscaling.max", 3, "additional properties 'max' not allowed"),
    ("config.node.heartbeat", 250, "additional properties 'heartbeat' not allowed"),
    ("config.raft", {}, "additional properties 'raft' not allowed"),
    ("metrics.servicemonitor", {}, "additional properties 'servicemonitor' not allowed"),
    ("node.resources.limit", {}, "additional properties 'limit' not allowed"),
    ("networkPolicy.metricsFrom", [{"podselector": {}}], "additional properties 'podselector' not allowed"),
    # What the chart itself decides cannot be set behind its back.
    ("config.node.listen", "0.0.0.0:1", "additional properties 'listen' not allowed"),
    ("config.node.data", "/tmp", "additional properties 'data' not allowed"),
    ("config.router.drain_delay_ms", 0, "additional properties 'drain_delay_ms' not allowed"),
    ("config.cluster", {"seeds": []}, "additional properties 'cluster' not allowed"),
    # Values that would only fail in the pod.
    ("config.node.heartbeat_ms", 1, "got 1, want 50"),
    ("config.node.spaces_bytes", "1Gi", "got string, want integer"),
    ("config.log.format", "xml", "value must be one of 'text', 'json'"),
    ("image.repository", "", "/image/repository"),
    ("image.repository", "Upper/Case", "does not match pattern"),
    ("image.tag", "latest", "nodes would change version"),
    ("image.tag", "a b", "does not match pattern"),
    ("image.digest", "sha256:12", "does not match pattern"),
    # Whether there is TLS must be said.
    ("tls.mode", "", "tls.mode is not set"),
    ("tls", {}, "tls.mode is not set"),
    ("tls.mode", "on", "value must be one of '', 'secrets', 'certManager', 'off'"),
    ("tls.mode", "certManager", "tls.certManager.issuerRef.name is not set"),
    ("tls.secretName", "x", "additional properties 'secretName' not allowed"),
    ("tls.certManager.duration", "90d", "does not match pattern"),
    ("config.tls.reload_interval_ms", 1, "got 1, want 100"),
    ("config.tls.cert", "/x", "additional properties 'cert' not allowed"),
    ("image.pullPolicy", "Sometimes", "value must be one of 'Always', 'IfNotPresent', 'Never'"),
    ("node.persistence.size", "20 GB", "does not match pattern"),
    ("node.persistence.size", 20, "got number, want string"),
    ("node.spread.machines", "never", "value must be one of 'DoNotSchedule', 'ScheduleAnyway', 'Off'"),
    ("node.terminationGraceSeconds", 5, "got 5, want 20"),
    ("node.podLabels", {"a": "ä"}, "does not match pattern"),
    ("node.extraEnv", [{"value": "x"}], "missing property 'name'"),
    ("router.replicas", 0, "got 0, want 1"),
    ("router.drainDelaySeconds", 61, "got 61, want 60"),
    ("service.type", "ExternalName", "value must be one of"),
    ("service.port", 70000, "got 70,000, want 65,535"),
    ("service.nodePort", 30000, "service.nodePort needs service.type NodePort or LoadBalancer"),
    ("fullnameOverride", "x" * 41, "maxLength: got 41, want 40"),
    ("fullnameOverride", "1st", "does not match pattern"),
    ("fullnameOverride", "记忆", "does not match pattern"),
    ("bindAddress", "localhost", "does not match pattern"),
    ("init.ttlSecondsAfterFinished", 0, "got 0, want 60"),
    ("metrics.serviceMonitor.interval", "15", "does not match pattern"),
    # What two values say together.
    ("metrics.serviceMonitor.enabled", True, "name Prometheus in networkPolicy.metricsFrom"),
    (
        "router.autoscaling",
        {"enabled": True, "minReplicas": 9, "maxReplicas": 2},
        "minReplicas (9) is above maxReplicas (2)",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED, ids=lambda item: str(item)[:40])
def test_wrong_values_are_refused(path: str, value: Any, message: str) -> None:
    said = refusal(at(path, value))
    assert message in said, said


def test_a_parent_chart_may_use_it() -> None:
    render({"global": {"anything": 1}})


def test_a_digest_may_stand_for_a_tag() -> None:
    digest = "sha256:" + "0" * 64
    images = {
        found["image"]
        for pod in render({"image": {"tag": "latest", "digest": digest}}).pods().values()
        for found in pod["spec"]["containers"]
    }
    assert images == {f"holdfast@{digest}"}


def test_no_object_of_the_schema_lets_unknown_keys_pass() -> None:
    """Every object with named properties refuses others."""
    loose = []

    def look(schema: Any, path: str) -> None:
        if isinstance(schema, dict):
            if "properties" in schema and schema.get("additionalProperties") is not False:
                loose.append(path)
            for key, value in schema.items():
                look(value, f"{path}/{key}")

    look(json.loads((CHART / "values.schema.json").read_text(encoding="utf-8")), "")
    assert not loose
