"""What keeps data and service safe: quorum, shutdown, privileges, versions."""

import re

import pytest
import tomllib

from chart import CI_VALUES, Objects, ci_values, container, render


@pytest.fixture(params=CI_VALUES)
def objects(request: pytest.FixtureRequest) -> Objects:
    return render(ci_values(request.param))


@pytest.mark.parametrize("replicas", [1, 3, 5, 7])
def test_evictions_leave_a_majority(replicas: int) -> None:
    objects = render({"node": {"replicas": replicas}})
    budgets = [item for item in objects.of("PodDisruptionBudget") if item["metadata"]["name"].endswith("-node")]
    if replicas == 1:
        # There is no majority to keep, and a budget of none would only block maintenance.
        assert not budgets
        return
    (budget,) = budgets
    lost = budget["spec"]["maxUnavailable"]
    assert isinstance(lost, int) and 1 <= lost <= (replicas - 1) // 2
    assert "minAvailable" not in budget["spec"]
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"


def test_nodes_start_together_and_are_updated_one_by_one(objects: Objects) -> None:
    spec = objects.nodes["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "RollingUpdate"}
    assert spec["minReadySeconds"] > 0


def test_volumes_outlive_everything(objects: Objects) -> None:
    policy = objects.nodes["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    for secret in objects.of("Secret"):
        assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_liveness_never_asks_about_the_quorum(objects: Objects) -> None:
    """Restarts because of a lost quorum would take the nodes that are left."""
    for component in ("node", "router"):
        probe = container(objects.pods()[component])["livenessProbe"]
        assert probe["httpGet"]["path"] == "/healthz"
        assert probe["failureThreshold"] * probe["periodSeconds"] >= 30


def test_a_node_has_time_to_drain_and_to_stop(objects: Objects) -> None:
    spec = objects.pods()["node"]["spec"]
    (hook,) = container(objects.pods()["node"])["lifecycle"]["preStop"].values()
    command = hook["command"]
    # A program and not a shell: it works in an image without one.
    assert command[:3] == ["/usr/local/bin/holdfast", "ctl", "drain"]
    assert "--admin=http://127.0.0.1:7801" in command
    (timeout,) = [int(found[1]) for word in command if (found := re.fullmatch(r"--timeout=(\d+)", word))]
    # The hook's time counts as part of the grace period: what is left is for the stop.
    assert 10 <= timeout <= spec["terminationGracePeriodSeconds"] - 10


def test_a_router_has_time_to_drain_and_to_answer(objects: Objects) -> None:
    config = tomllib.loads(objects.config)["router"]
    needed_ms = config["drain_delay_ms"] + config["shutdown_grace_ms"]
    assert objects.pods()["router"]["spec"]["terminationGracePeriodSeconds"] * 1000 >= needed_ms + 5_000


def test_a_draining_router_is_known_as_such_before_it_closes() -> None:
    """By default: the delay is longer than readiness takes to fail."""
    objects = render()
    probe = container(objects.pods()["router"])["readinessProbe"]
    noticed_ms = 1000 * probe["periodSeconds"] * probe["failureThreshold"]
    assert tomllib.loads(objects.config)["router"]["drain_delay_ms"] >= noticed_ms


def test_routers_are_replaced_without_a_gap(objects: Objects) -> None:
    assert objects.routers["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_slow_starts_are_waited_for() -> None:
    for values, seconds in (({}, 600), ({"node": {"startupSeconds": 11}}, 11)):
        probe = container(render(values).pods()["node"])["startupProbe"]
        allowed = probe["periodSeconds"] * probe["failureThreshold"]
        assert seconds <= allowed < seconds + probe["periodSeconds"]


def test_no_pod_may_more_than_it_needs(objects: Objects) -> None:
    pods = objects.pods()
    assert set(pods) == {"node", "router", "init", "test"}
    for component, pod in pods.items():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, component
        assert spec["enableServiceLinks"] is False, component
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] == security["fsGroup"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        own = container(pod)["securityContext"]
        assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
            assert forbidden not in spec
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume]


def test_every_image_has_a_version(objects: Objects) -> None:
    for pod in objects.pods().values():
        image = container(pod)["image"]
        assert re.search(r"(:[^/:]+|@sha256:[0-9a-f]{64})$", image) and not image.endswith(":latest"), image


def test_init_is_no_hook_and_gives_up() -> None:
    """As a hook it would deadlock with --wait: nodes are ready only after it."""
    job = render().init
    assert not [key for key in job["metadata"].get("annotations", {}) if key.startswith("helm.sh/hook")]
    assert "--if-needed" in container({"spec": job["spec"]["template"]["spec"]})["args"]
    assert job["spec"]["backoffLimit"] and job["spec"]["activeDeadlineSeconds"]
    assert "ttlSecondsAfterFinished" not in job["spec"]
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [2]
    # A Job with such a policy must not restart its containers.
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_a_changed_init_job_is_another_one() -> None:
    """Kubernetes refuses to change a Job's pod."""

    def job(values: dict[str, object]) -> tuple[str, object]:
        found = render(values).init
        return found["metadata"]["name"], found["spec"]

    name, spec = job({})
    assert (name, spec) == job({"router": {"replicas": 5}}), "unchanged, it stays"
    for values in (
        {"image": {"tag": "0.2.0"}},
        {"init": {"backoffLimit": 1}},
        {"node": {"replicas": 5}},
        {"firstKey": {"existingSecret": "other"}},
    ):
        assert job(values)[0] != name, values


def test_settings_restart_only_those_who_read_them() -> None:
    def checksums(values: dict[str, object]) -> list[str]:
        pods = render(values).pods()
        return [pods[component]["metadata"]["annotations"]["checksum/config"] for component in ("node", "router")]

    node, router = checksums({})
    assert checksums({"router": {"replicas": 3}}) == [node, router]
    changed = checksums({"config": {"node": {"heartbeat_ms": 300}}})
    assert changed[0] != node and changed[1] == router
    changed = checksums({"router": {"drainDelaySeconds": 3}})
    assert changed[0] == node and changed[1] != router
    changed = checksums({"config": {"log": {"format": "text"}}})
    assert changed[0] != node and changed[1] != router


def test_spread_is_as_strict_as_asked() -> None:
    def rules(values: dict[str, object]) -> dict[str, str]:
        found = render(values).pods()["node"]["spec"].get("topologySpreadConstraints", [])
        return {rule["topologyKey"]: rule["whenUnsatisfiable"] for rule in found}

    machine, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    assert rules({}) == {machine: "DoNotSchedule", zone: "ScheduleAnyway"}
    assert rules({"node": {"spread": {"machines": "Off"}}}) == {zone: "ScheduleAnyway"}
    assert rules({"node": {"spread": {"machines": "Off", "zones": "Off"}}}) == {}
