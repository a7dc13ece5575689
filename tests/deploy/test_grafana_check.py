"""`check_dashboards.py` itself, against a Prometheus that scrapes itself: it must be able to fail."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from grafana_files import GRAFANA, tool
from live_cluster import free_ports, http, prometheus, until

VARIABLES = [
    {"name": "datasource", "type": "datasource", "query": "prometheus"},
    {"name": "job", "type": "query", "query": {"query": "label_values(up, job)"}},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("prometheus")
    rules = folder / "none.yaml"
    rules.write_text("groups: []\n", "utf-8")
    (dead,) = free_ports(1)
    # A name that must be escaped to be matched as it is.
    with prometheus(tool("prometheus"), folder, {"a.b+c": [f"127.0.0.1:{dead}"]}, rules) as url:
        query = f"{url}/api/v1/query?query=up"
        until("Prometheus has scraped", lambda: http("GET", query)[1]["data"]["result"], 20)
        yield url


def check(url: str, folder: Path, exprs: list[str], variables: list[dict] = VARIABLES) -> tuple[int, list[str]]:
    """Exit code, and the verdict of each query."""
    targets = [{"refId": chr(65 + at), "expr": expr} for at, expr in enumerate(exprs)]
    dashboard = {
        "uid": "test",
        "title": "Test",
        "templating": {"list": variables},
        "panels": [{"type": "row", "title": "row"}, {"title": "Panel", "type": "timeseries", "targets": targets}],
    }
    file = folder / "test.json"
    file.write_text(json.dumps(dashboard), "utf-8")
    command = [sys.executable, str(GRAFANA / "check_dashboards.py"), "--prometheus", url, "--seconds", "10", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [f"{line.split()[0]} {line[53:]}" for line in done.stdout.splitlines()[1:-1]]


def test_queries_with_answers_pass(url: str, tmp_path: Path):
    code, lines = check(url, tmp_path, ['up{job=~"$job"}', "vector(1)", 'up{job=~"${job}"} == 0'])
    assert (code, [line.split()[0] for line in lines]) == (0, ["ok", "ok", "ok"]), lines


@pytest.mark.parametrize(
    ("expr", "why"),
    [
        ("nothing_has_this_name", "nothing: nothing_has_this_name"),
        ("vector(0) / vector(0)", "only NaN"),
        ("up{", "parse error"),
        ('up{job=~"$unknown"}', "no variable $unknown"),
    ],
)
def test_queries_without_fail(url: str, tmp_path: Path, expr: str, why: str):
    code, lines = check(url, tmp_path, ["up", expr])
    assert code == 1
    assert [line.split()[0] for line in lines] == ["ok", "FAIL"]
    assert why in lines[1]


def test_a_choice_without_values_fails(url: str, tmp_path: Path):
    empty = {"name": "node", "type": "query", "query": {"query": "label_values(no_such_metric, node)"}}
    code, lines = check(url, tmp_path, ["up"], [*VARIABLES, empty])
    assert code == 1 and "variable $node: no values" in lines[0]


def test_a_prometheus_that_is_not_there_fails(tmp_path: Path):
    (port,) = free_ports(1)
    code, lines = check(f"http://127.0.0.1:{port}", tmp_path, ["up"])
    assert code == 1 and all(line.startswith("FAIL") for line in lines)
