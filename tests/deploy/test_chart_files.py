"""Dashboards and alert rules reach the cluster as they are in grafana/."""

import json
import subprocess
from pathlib import Path

import yaml

from chart import ci_values, render


def test_the_copies_in_the_chart_are_current(root: Path) -> None:
    done = subprocess.run(
        [str(root / "scripts/sync-chart-files.sh"), "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_dashboards_arrive_whole(root: Path) -> None:
    found = render(ci_values("production-3")).one("ConfigMap", "-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    sources = {path.name: path for path in (root / "grafana/dashboards").glob("*.json")}
    assert sources and set(found["data"]) == set(sources)
    for name, path in sources.items():
        assert json.loads(found["data"][name]) == json.loads(path.read_text(encoding="utf-8"))
    # A ConfigMap holds at most 1 MiB.
    assert sum(len(text.encode()) for text in found["data"].values()) < 1 << 20


def rules(root: Path) -> list[object]:
    paths = sorted((root / "grafana/alerts").glob("*.yaml"))
    return [group for path in paths for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]


def test_the_alert_rules_arrive_whole(root: Path) -> None:
    found = render(ci_values("production-3")).one("PrometheusRule")
    # With the templates of Prometheus in them, which Helm must not read as its own.
    assert "{{ $labels." in json.dumps(found)
    assert found["spec"]["groups"] == rules(root)


def test_runbooks_may_be_elsewhere(root: Path) -> None:
    found = render(ci_values("everything")).one("PrometheusRule")
    urls = [rule["annotations"]["runbook_url"] for group in found["spec"]["groups"] for rule in group["rules"]]
    assert urls
    for url in urls:
        assert url.startswith("https://runbooks.example/holdfast/Holdfast"), url
