"""The dashboards: current, well formed, and about metrics that exist."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from grafana_files import GRAFANA, ROOT, RULES, RUNBOOKS, dashboards, documented_metrics, panels, tool

GENERATOR = GRAFANA / "generate.py"
# Identifiers of Grafana's units that we use.
UNITS = {"none", "short", "s", "bytes", "Bps", "percentunit", "reqps", "ops"}
KINDS = {"timeseries", "stat", "bargauge", "heatmap"}
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}

sys.dont_write_bytecode = True
import check_dashboards  # noqa: E402
from definitions import limits, overview, recall, variables  # noqa: E402


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GENERATOR), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def expressions() -> list[tuple[str, str]]:
    """Every PromQL expression that we publish, and where it stands."""
    found = [
        (f"{name}: {panel['title']}", target["expr"])
        for name, dashboard in dashboards().items()
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    found += [(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]
    for page in sorted(RUNBOOKS.glob("*.md")):
        found += [(page.name, query) for query in runbook_queries(page)]
    return found


def runbook_queries(page: Path) -> list[str]:
    """The queries of a runbook, one on each line of its promql blocks."""
    blocks = re.findall(r"^```promql\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_files_are_current():
    done = generate("--check")
    assert done.returncode == 0, done.stderr


def test_a_changed_file_is_noticed(tmp_path: Path):
    assert generate("--output", str(tmp_path)).returncode == 0
    assert generate("--output", str(tmp_path), "--check").returncode == 0
    changed = tmp_path / "grafana" / "dashboards" / "holdfast-recall.json"
    changed.write_text(changed.read_text("utf-8").replace("P99", "P98", 1), "utf-8")
    done = generate("--output", str(tmp_path), "--check")
    assert done.returncode == 1
    assert "holdfast-recall.json is not current" in done.stderr


def test_addresses_are_stable():
    found = {name: dashboard["uid"] for name, dashboard in dashboards().items()}
    assert found == {"holdfast-overview.json": "holdfast-overview", "holdfast-recall.json": "holdfast-recall"}


@pytest.mark.parametrize("name", dashboards())
def test_dashboard_is_well_formed(name: str):
    dashboard = dashboards()[name]
    assert dashboard["schemaVersion"] >= 39
    assert dashboard["title"].startswith("Holdfast / ") and dashboard["description"]
    assert dashboard["id"] is None, "an id would overwrite another dashboard"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    choices = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert choices == ["datasource", "namespace", "job", "node", "group"]
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert set(choices) - {"datasource"} <= used | {"group"}
    assert used <= {*choices, "__rate_interval"}
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles), "two panels have one title"


@pytest.mark.parametrize("name", dashboards())
def test_panels_fill_the_grid_without_overlap(name: str):
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboards()[name]["panels"]:
        place = panel["gridPos"]
        assert place["w"] > 0 and place["h"] > 0 and place["x"] >= 0 and place["y"] >= 0
        assert place["x"] + place["w"] <= 24, f"{panel['title']} is beyond the right edge"
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                assert other == panel["title"], f"{other} and {panel['title']} overlap at {x}, {y}"
    lines = {y for _, y in taken}
    assert lines == set(range(max(lines) + 1)), "there is a gap between panels"


@pytest.mark.parametrize("name", dashboards())
def test_every_panel_explains_itself_and_can_ask(name: str):
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels(dashboards()[name]):
        title = panel["title"]
        assert panel["type"] in KINDS, title
        shows, bad = panel["description"].split("\n\n**When it looks bad:** ")
        assert len(shows.split()) >= 5 and len(bad.split()) >= 2, f"{title} does not explain itself"
        for named in re.findall(r"Holdfast[A-Z]\w+", panel["description"]):
            assert (RUNBOOKS / f"{named}.md").is_file(), f"{title} names the runbook {named}, which is not there"
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS, f"{title}: {defaults['unit']}"
        steps = defaults["thresholds"]["steps"]
        values = [step["value"] for step in steps[1:]]
        assert steps[0]["value"] is None and values == sorted(values), title
        assert panel["datasource"] == source, title
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs), title
        for target in panel["targets"]:
            assert target["datasource"] == source, title
            assert target["expr"].count("(") == target["expr"].count(")"), target["expr"]
            assert target["legendFormat"] or panel["type"] == "stat", f"{title} has no legend"
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label in target["expr"] or label == "instance", f"{title}: {label} is not in the result"


def test_the_metric_of_every_expression_exists_with_its_labels():
    documented = documented_metrics()
    assert len(documented) > 40
    series = {
        name + suffix: labels | ({"le"} if suffix == "_bucket" else set())
        for name, (kind, labels) in documented.items()
        for suffix in SUFFIXES[kind]
    }
    # Of the scrape, not of the metric.
    anywhere = {"namespace", "job", "instance"}
    found = set()
    for where, expr in expressions():
        bare = re.sub(r'"[^"]*"', '""', expr)
        for metric, selector in re.findall(r"\b(holdfast_\w+)(?:\{([^}]*)\})?", bare):
            assert metric in series, f"{where}: {metric} is not in docs/metrics.md"
            labels = {part.strip() for part in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)}
            assert labels <= series[metric] | anywhere, f"{where}: {metric} has no label {labels - series[metric]}"
            found.add(metric)
        metrics = set(re.findall(r"\bholdfast_\w+", bare))
        allowed = set().union(anywhere, *(series[metric] for metric in metrics))
        for group in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", bare):
            labels = {label.strip() for label in group.split(",")} - {""}
            assert not metrics or labels <= allowed, f"{where}: {labels - allowed}"
        foreign = set(re.findall(r"\b(?:up|ALERTS|kubelet_\w+|node_\w+_bytes|container_\w+)\b(?=[{\s])", bare))
        assert foreign <= set(limits.FOREIGN_METRICS), where
    names = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in found} | found
    assert set(documented) - names == set(), "metrics that no dashboard, alert or runbook shows"


def test_prometheus_understands_every_expression(tmp_path: Path):
    values = {"namespace": ".*", "job": "(a|b)", "node": ".*", "group": ".*", "__rate_interval": "1m"}
    rules = [
        {"record": f"checked:{at}", "expr": check_dashboards.substitute(expr, values)}
        for at, (_, expr) in enumerate(expressions())
    ]
    assert len(rules) > 120
    file = tmp_path / "all.rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), "utf-8")
    command = [tool("promtool"), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_what_may_be_empty_is_a_short_list_with_reasons():
    for dashboard in (overview.DASHBOARD, recall.DASHBOARD):
        declared = dashboard.may_be_empty()
        assert len(declared) <= 5
        assert all(len(reason.split()) >= 4 for reason in declared.values())
    assert set(variables.MAY_BE_EMPTY) == {"namespace"}


def test_no_address_of_a_machine_is_in_the_files():
    for path in [*GRAFANA.rglob("*.json"), *GRAFANA.rglob("*.yaml"), *GRAFANA.rglob("*.py")]:
        text = path.read_text("utf-8")
        assert str(ROOT) not in text, path.name
        assert not re.search(r"/(home|root)/", text), path.name
