"""The objects of the chart fit each other: Services, pods, ports, probes, policies, monitors."""

from typing import Any

import pytest
import tomllib

from chart import CI_VALUES, Manifest, Objects, ci_values, container, render, selects


@pytest.fixture(params=CI_VALUES)
def objects(request: pytest.FixtureRequest) -> Objects:
    return render(ci_values(request.param))


def labels(pod: Manifest) -> Manifest:
    return pod["metadata"]["labels"]


def chosen(objects: Objects, selector: Manifest) -> list[str]:
    """The components whose pods a selector takes."""
    return [name for name, pod in objects.pods().items() if selects(selector, labels(pod))]


def ports(pod: Manifest) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container(pod).get("ports", [])}


def test_every_service_leads_to_one_kind_of_pod_and_an_open_port(objects: Objects) -> None:
    for service in objects.of("Service"):
        name = service["metadata"]["name"]
        (component,) = chosen(objects, service["spec"]["selector"])
        assert service["metadata"]["labels"]["app.kubernetes.io/component"] == component, name
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports(objects.pods()[component]), name


def test_the_nodes_service_gives_the_seeds_their_names(objects: Objects) -> None:
    nodes, service = objects.nodes, objects.one("Service", "-node")
    config = tomllib.loads(objects.config)
    assert nodes["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    (port,) = service["spec"]["ports"]
    # A headless Service does not translate ports: what is asked for must be what the pod listens on.
    assert port["port"] == ports(objects.pods()["node"])[port["targetPort"]]
    host = f"{nodes['metadata']['name']}-%d.{service['metadata']['name']}.prod.svc."
    seeds = config["cluster"]["seeds"]
    assert len(seeds) == nodes["spec"]["replicas"]
    for number, seed in enumerate(seeds):
        assert seed.startswith(host % number) and seed.endswith(f":{port['port']}"), seed


def test_every_node_advertises_one_of_the_seeds(objects: Objects) -> None:
    env = {item["name"]: item for item in container(objects.pods()["node"])["env"]}
    assert env["POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    names = list(env)
    # Kubernetes puts in only what was defined before.
    assert names.index("POD_NAME") < names.index("HOLDFAST_NODE__ADVERTISE")
    pods = [f"{objects.nodes['metadata']['name']}-{i}" for i in range(objects.nodes["spec"]["replicas"])]
    advertised = [env["HOLDFAST_NODE__ADVERTISE"]["value"].replace("$(POD_NAME)", pod) for pod in pods]
    assert advertised == tomllib.loads(objects.config)["cluster"]["seeds"]


def test_the_processes_listen_where_the_pods_say(objects: Objects) -> None:
    config = tomllib.loads(objects.config)

    def port(address: str) -> int:
        host, _, number = address.rpartition(":")
        assert host in ("0.0.0.0", "[::]")
        return int(number)

    pods = objects.pods()
    assert ports(pods["node"]) == {"peer": port(config["node"]["listen"]), "admin": port(config["node"]["admin"])}
    assert ports(pods["router"]) == {"http": port(config["router"]["http"]), "admin": port(config["router"]["admin"])}


def test_each_probe_asks_the_admin_port(objects: Objects) -> None:
    wanted = {
        "node": {"startupProbe": "/startupz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"},
        "router": {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"},
    }
    for component, probes in wanted.items():
        pod = objects.pods()[component]
        for probe, path in probes.items():
            asked = container(pod)[probe]["httpGet"]
            assert (asked["path"], asked["port"]) == (path, "admin")


def test_the_pods_find_the_configuration_they_are_given(objects: Objects) -> None:
    name = objects.one("ConfigMap", "-config")["metadata"]["name"]
    for component in ("node", "router", "init"):
        pod = objects.pods()[component]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in container(pod)["volumeMounts"]}
        assert volumes[mounts["/etc/holdfast"]]["configMap"]["name"] == name
        assert "/etc/holdfast/holdfast.toml" in " ".join(container(pod)["args"])


def test_the_data_is_on_the_volume(objects: Objects) -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in container(objects.pods()["node"])["volumeMounts"]}
    (claim,) = objects.nodes["spec"]["volumeClaimTemplates"]
    folder = tomllib.loads(objects.config)["node"]["data"]
    assert folder.startswith(mounts[claim["metadata"]["name"]] + "/")


def test_init_and_test_use_a_key_that_is_there(objects: Objects) -> None:
    pods = objects.pods()
    (volume,) = [volume for volume in pods["init"]["spec"]["volumes"] if "secret" in volume]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(pods["init"])["volumeMounts"]}
    (item,) = volume["secret"]["items"]
    assert f"--key-file={mounts[volume['name']]}/{item['path']}" in container(pods["init"])["args"]
    made = {secret["metadata"]["name"]: secret["data"] for secret in objects.of("Secret")}
    if made:
        assert item["key"] in made[volume["secret"]["secretName"]]
    else:
        assert volume["secret"]["secretName"] == "holdfast-admin-key"


def test_the_test_asks_the_clients_service(objects: Objects) -> None:
    service = objects.one("Service", objects.routers["metadata"]["name"].removesuffix("-router"))
    (port,) = service["spec"]["ports"]
    env = {item["name"]: item.get("value") for item in container(objects.pods()["test"])["env"]}
    assert env["HOLDFAST_URL"].startswith(f"http://{service['metadata']['name']}.prod.svc.")
    assert env["HOLDFAST_URL"].endswith(f":{port['port']}")


def test_controllers_take_their_own_pods_only(objects: Objects) -> None:
    for item, component in ((objects.nodes, "node"), (objects.routers, "router")):
        assert chosen(objects, item["spec"]["selector"]["matchLabels"]) == [component]
    for budget in objects.of("PodDisruptionBudget"):
        (component,) = chosen(objects, budget["spec"]["selector"]["matchLabels"])
        assert budget["metadata"]["name"].endswith(f"-{component}")
    for component in ("node", "router"):
        for rule in objects.pods()[component]["spec"].get("topologySpreadConstraints", []):
            assert chosen(objects, rule["labelSelector"]["matchLabels"]) == [component]


def test_the_autoscaler_has_the_routers_number_to_itself() -> None:
    objects = render(ci_values("production-3"))
    scaler = objects.one("HorizontalPodAutoscaler")["spec"]
    target = objects.routers
    assert scaler["scaleTargetRef"] == {
        "apiVersion": target["apiVersion"],
        "kind": target["kind"],
        "name": target["metadata"]["name"],
    }
    assert "replicas" not in target["spec"]
    # Utilisation is measured against the request.
    assert container(objects.pods()["router"])["resources"]["requests"]["cpu"]
    assert render().routers["spec"]["replicas"] == 2


def admits(policy: Manifest, port: int, peer: Manifest) -> bool:
    """Whether a pod of the release with these labels may reach the port."""

    def matches(selector: Manifest) -> bool:
        wanted = all(
            rule["operator"] == "In" and peer.get(rule["key"]) in rule["values"]
            for rule in selector.get("matchExpressions", [])
        )
        return wanted and selects(selector.get("matchLabels", {}), peer)

    for rule in policy["spec"]["ingress"]:
        if port not in [item["port"] for item in rule["ports"]]:
            continue
        sources: list[Any] = rule.get("from", [])
        if not sources or any(matches(item["podSelector"]) for item in sources if set(item) == {"podSelector"}):
            return True
    return False


@pytest.mark.parametrize("name", [name for name in CI_VALUES if name != "single-node"])
def test_only_the_cluster_reaches_nodes(name: str) -> None:
    objects = render(ci_values(name))
    pods = {component: labels(pod) for component, pod in objects.pods().items()}
    node, router = objects.one("NetworkPolicy", "-node"), objects.one("NetworkPolicy", "-router")
    assert chosen(objects, node["spec"]["podSelector"]["matchLabels"]) == ["node"]
    assert chosen(objects, router["spec"]["podSelector"]["matchLabels"]) == ["router"]
    for component, expected in {"node": True, "router": True, "init": True, "test": False}.items():
        assert admits(node, 7800, pods[component]) is expected, component
    assert not admits(node, 7800, {**pods["router"], "app.kubernetes.io/instance": "other"})
    assert not admits(node, 7800, {})
    for component, peer in pods.items():
        assert not admits(node, 7801, peer) and not admits(router, 7701, peer), component
    assert admits(router, 7700, pods["test"])
    assert admits(router, 7700, {"app": "agent"})
    assert admits(router, 7700, {"app": "other"}) is (name != "everything")


def test_monitors_find_every_process_and_name_its_job() -> None:
    for name in ("production-3", "everything"):
        objects = render(ci_values(name))
        monitors = objects.of("ServiceMonitor")
        assert len(monitors) == 2
        for monitor in monitors:
            component = monitor["metadata"]["labels"]["app.kubernetes.io/component"]
            (endpoint,) = monitor["spec"]["endpoints"]
            found = [
                service
                for service in objects.of("Service")
                if selects(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
                and endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
            ]
            (service,) = found
            assert chosen(objects, service["spec"]["selector"]) == [component]
            # Nodes that are not ready are those whose metrics matter.
            assert service["spec"]["publishNotReadyAddresses"] is True
            (job,) = [rule for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
            # The alerts and dashboards look for jobs with this word.
            assert "holdfast" in job["replacement"] and job["replacement"].endswith(f"-{component}")
            policy = objects.one("NetworkPolicy", f"-{component}")
            (number,) = [port["port"] for port in service["spec"]["ports"]]
            opened = [rule for rule in policy["spec"]["ingress"] if number in [port["port"] for port in rule["ports"]]]
            assert opened and opened[0]["from"]
