"""Certificates of the pods: each process finds its own, and they are what the program takes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tomllib

from chart import CI_VALUES, Manifest, Objects, ci_values, container, render

Run = Callable[..., subprocess.CompletedProcess[str]]
WITH_TLS = [name for name in CI_VALUES if ci_values(name)["tls"]["mode"] != "off"]
ROLES = {"node": "node", "router": "router", "init": "operator"}


def pod_names(objects: Objects, component: str) -> list[str]:
    if component != "node":
        return [component]
    return [f"{objects.nodes['metadata']['name']}-{i}" for i in range(objects.nodes["spec"]["replicas"])]


def environment(pod: Manifest, name: str) -> dict[str, str]:
    """The plain variables of a pod of this name."""
    given = container(pod).get("env", [])
    return {item["name"]: str(item["value"]).replace("$(POD_NAME)", name) for item in given if "value" in item}


def tls_files(pod: Manifest) -> dict[str, str]:
    """Each path in the TLS volume, and the Secret that it comes from."""
    (volume,) = [item for item in pod["spec"]["volumes"] if item["name"] == "tls"]
    (mount,) = [item for item in container(pod)["volumeMounts"] if item["name"] == "tls"]
    assert mount["readOnly"] is True
    # A subPath would never see a renewed Secret.
    assert "subPath" not in mount and "subPathExpr" not in mount
    assert volume["projected"]["defaultMode"] == 0o440
    return {
        f"{mount['mountPath']}/{item['path']}": source["secret"]["name"]
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }


@pytest.mark.parametrize("name", WITH_TLS)
def test_every_process_finds_its_own_files(name: str) -> None:
    objects = render(ci_values(name))
    assert tomllib.loads(objects.config)["tls"]["mode"] == "on"
    for component in ROLES:
        pod = objects.pods()[component]
        files = tls_files(pod)
        for number, pod_name in enumerate(pod_names(objects, component)):
            variables = environment(pod, pod_name)
            secrets = {files[variables[f"HOLDFAST_TLS__{part}"]] for part in ("CA", "CERT", "KEY")}
            (secret,) = secrets
            who = f"node-{number}" if component == "node" else ROLES[component]
            assert secret.endswith(f"-{who}"), secret
        # Kubernetes puts in only what was defined before.
        order = [item["name"] for item in container(pod).get("env", [])]
        assert component != "node" or order.index("POD_NAME") < order.index("HOLDFAST_TLS__CERT")


def test_without_tls_there_are_no_files() -> None:
    objects = render({"tls": {"mode": "off"}})
    assert tomllib.loads(objects.config)["tls"] == {"mode": "off"}
    for component in ROLES:
        pod = objects.pods()[component]
        assert "tls" not in [item["name"] for item in pod["spec"]["volumes"]]
        assert not [item for item in container(pod).get("env", []) if item["name"].startswith("HOLDFAST_TLS")]
    assert not objects.of("Certificate")


@pytest.mark.parametrize("name", WITH_TLS)
def test_cert_manager_makes_what_the_pods_want(name: str) -> None:
    values = ci_values(name)
    objects = render(values)
    made = {item["spec"]["secretName"]: item for item in objects.of("Certificate")}
    if values["tls"]["mode"] != "certManager":
        assert not made
        return
    wanted = {secret for component in ROLES for secret in tls_files(objects.pods()[component]).values()}
    assert set(made) == wanted
    seeds = tomllib.loads(objects.config)["cluster"]["seeds"]
    uris = {uri for item in made.values() for uri in item["spec"]["uris"]}
    others = {"holdfast-router://router", "holdfast-operator://init"}
    assert uris == {f"holdfast-node://{seed}" for seed in seeds} | others
    for item in made.values():
        (uri,) = item["spec"]["uris"]
        is_node = uri.startswith("holdfast-node://")
        assert ("server auth" in item["spec"]["usages"]) == is_node
        assert "client auth" in item["spec"]["usages"]
        host = uri.removeprefix("holdfast-node://").rpartition(":")[0]
        assert item["spec"].get("dnsNames") == ([host] if is_node else None)


@pytest.mark.parametrize("name", WITH_TLS)
def test_the_program_takes_such_certificates(name: str, holdfast: Run, tmp_path: Path) -> None:
    """Made by `ctl certs` under the names that the chart gives, and put where the pods look."""
    objects = render(ci_values(name))
    config = tmp_path / "holdfast.toml"
    config.write_text(objects.config, encoding="utf-8")
    certs = tmp_path / "certs"
    made = holdfast("ctl", "certs", "--out", str(certs), "--config", str(config))
    assert made.returncode == 0, made.stderr
    seeds = tomllib.loads(objects.config)["cluster"]["seeds"]
    for component, role in ROLES.items():
        pod = objects.pods()[component]
        for number, pod_name in enumerate(pod_names(objects, component)):
            variables = environment(pod, pod_name)
            name_of = f"node-{seeds[number].replace(':', '-')}" if component == "node" else f"{role}-1"
            for part, file in (("CA", "ca.pem"), ("CERT", f"{name_of}.pem"), ("KEY", f"{name_of}.key")):
                path = tmp_path / variables[f"HOLDFAST_TLS__{part}"].lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes((certs / file).read_bytes())
                variables[f"HOLDFAST_TLS__{part}"] = str(path)
            done = holdfast("config", "check", "--config", str(config), "--role", role, environment=variables)
            assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr


def test_turning_tls_on_restarts_those_who_read_it() -> None:
    def checksums(values: Manifest) -> list[str]:
        pods = render(values).pods()
        return [pods[component]["metadata"]["annotations"]["checksum/config"] for component in ("node", "router")]

    off, on = checksums({}), checksums({"tls": {"mode": "secrets"}})
    assert off[0] != on[0] and off[1] != on[1]
