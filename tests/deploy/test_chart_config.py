"""The configuration that the chart writes is what the program reads."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tomllib

from chart import CHART, CI_VALUES, Objects, ci_values, container, render

Run = Callable[..., subprocess.CompletedProcess[str]]

# What the chart decides by itself, and so has no value under `config`.
OURS = {
    "cluster": {"seeds", "shards", "moved"},
    "tls": {"mode", "ca", "cert", "key"},
    "node": {"data", "listen", "advertise", "admin"},
    "router": {"http", "admin", "drain_delay_ms", "shutdown_grace_ms"},
}


def write(objects: Objects, folder: Path) -> Path:
    path = folder / "holdfast.toml"
    path.write_text(objects.config, encoding="utf-8")
    return path


def advertised(objects: Objects, number: int) -> str:
    env = {item["name"]: item.get("value") for item in container(objects.pods()["node"])["env"]}
    pod = f"{objects.nodes['metadata']['name']}-{number}"
    return str(env["HOLDFAST_NODE__ADVERTISE"]).replace("$(POD_NAME)", pod)


@pytest.mark.parametrize("name", CI_VALUES)
def test_the_program_accepts_it(name: str, holdfast: Run, tmp_path: Path) -> None:
    # With TLS the files must be there: test_chart_tls.py.
    objects = render(ci_values(name) | {"tls": {"mode": "off"}})
    path = write(objects, tmp_path)
    checks = [("router", {})]
    for number in range(objects.nodes["spec"]["replicas"]):
        checks.append(("node", {"HOLDFAST_NODE__ADVERTISE": advertised(objects, number)}))
    for role, environment in checks:
        done = holdfast("config", "check", "--config", str(path), "--role", role, environment=environment)
        assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr


def test_the_check_notices_a_pod_that_is_no_seed(holdfast: Run, tmp_path: Path) -> None:
    objects = render()
    path = write(objects, tmp_path)
    environment = {"HOLDFAST_NODE__ADVERTISE": advertised(objects, 3)}
    done = holdfast("config", "check", "--config", str(path), "--role", "node", environment=environment)
    assert done.returncode == 2 and "HOLDFAST_NODE__ADVERTISE" in done.stderr


def test_every_setting_of_the_program_can_be_set(holdfast: Run, tmp_path: Path) -> None:
    """The schema of the values knows the settings that the program has, and no others."""
    path = write(render(), tmp_path)
    environment = {"HOLDFAST_NODE__ADVERTISE": advertised(render(), 0)}
    done = holdfast("node", "--config", str(path), "--print-config", environment=environment)
    assert done.returncode == 0, done.stderr
    settings = {section: set(keys) for section, keys in tomllib.loads(done.stdout).items()}
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    sections = schema["properties"]["config"]["properties"]
    known = {section: set(found["properties"]) for section, found in sections.items()}
    for section in settings | known:
        ours = OURS.get(section, set())
        assert settings[section] == known.get(section, set()) | ours, section


def test_values_arrive_as_they_were_given() -> None:
    values = ci_values("everything")
    # What TOML must quote, and numbers that Helm would write as 1.099511627776e+12.
    values["config"]["embedder"]["model_dir"] = "/it's \"quoted\", \\ and 模型"
    config = tomllib.loads(render(values).config)
    for section, settings in values["config"].items():
        for key, value in settings.items():
            assert config[section][key] == value and type(config[section][key]) is type(value), key
    assert config["cluster"]["shards"] == 256
    assert config["router"]["drain_delay_ms"] == 15_000
    assert config["router"]["shutdown_grace_ms"] == 30_000
