"""The files of grafana/ and the list of metrics, as the tests want them."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "grafana"
RULES = GRAFANA / "alerts" / "holdfast.rules.yaml"
RULE_TESTS = sorted((GRAFANA / "alerts" / "tests").glob("*.test.yaml"))
RUNBOOKS = ROOT / "docs" / "runbooks"

if str(GRAFANA) not in sys.path:
    sys.path.insert(0, str(GRAFANA))


def dashboards() -> dict[str, dict]:
    """The dashboards by file name."""
    return {path.name: json.loads(path.read_text("utf-8")) for path in sorted((GRAFANA / "dashboards").glob("*.json"))}


def panels(dashboard: dict) -> list[dict]:
    """The panels that show something: all but the headlines of rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def documented_metrics() -> dict[str, tuple[str, set[str]]]:
    """Type and labels by name, from docs/metrics.md."""
    metrics: dict[str, tuple[str, set[str]]] = {}
    of_nodes = False
    for line in (ROOT / "docs" / "metrics.md").read_text("utf-8").splitlines():
        of_nodes |= line == "## Nodes"
        if not line.startswith("| `holdfast_"):
            continue
        name, kind, labels, _ = re.split(r"\s*\|\s*", line.strip("| "), maxsplit=3)
        found = set(re.findall(r"`(\w+)`", labels))
        metrics[name.strip("`")] = (kind, found | ({"node"} if of_nodes else set()))
    return metrics


def tool(name: str) -> str:
    """Path of promtool or prometheus; skips where it is missing, unless it is required."""
    on_path = shutil.which(name)
    if on_path:
        return on_path
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("HOLDFAST_TOOLS_DIR") or cache / "holdfast" / "tools")
    path = folder / name
    if path.is_file():
        return str(path)
    if os.environ.get("HOLDFAST_REQUIRE_PROMTOOL"):
        pytest.fail(f"{name} is missing: run scripts/fetch-prometheus.sh")
    pytest.skip(f"{name} is not installed; scripts/fetch-prometheus.sh fetches it")
