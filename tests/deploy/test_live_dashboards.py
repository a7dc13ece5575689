"""Every query of every dashboard and every alert against a cluster under load, scraped by Prometheus."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest
from grafana_files import GRAFANA, RULES, RUNBOOKS, tool
from live_cluster import Background, Cluster, cluster, dev, http, prometheus, until
from test_grafana import runbook_queries

LOAD_SECONDS = 12
# Conditions that depend on how fast this machine is, not on whether the cluster is well.
MACHINE_ALERTS = {"HoldfastRecallSlow", "HoldfastSlowLogSync"}


def has_model() -> bool:
    """Without the model routers embed nothing, and its panels are empty for a good reason."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("HOLDFAST_MODEL_DIR") or cache / "holdfast" / "models")
    return folder.is_dir() and any(folder.iterdir())


@pytest.fixture(autouse=True)
def model():
    if has_model():
        return
    if os.environ.get("HOLDFAST_REQUIRE_MODEL"):
        pytest.fail("the embedding model is missing: run scripts/fetch-model.sh")
    pytest.skip("the embedding model is missing; scripts/fetch-model.sh fetches it")


def use_everything(url: str, key: str, number: int) -> None:
    """What clients do, right and wrong, once."""
    user = f"{url}/v1/users/user-{number % 7}"

    def ask(method: str, path: str, body: object, expected: int) -> dict:
        status, answer = http(method, user + path, key, body)
        assert status == expected, f"{method} {path}: {status} {answer}"
        return answer if isinstance(answer, dict) else {}

    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    memories = [
        {"content": f"我对花生过敏，第{number}次", "kind": "semantic"},
        {"content": "We met in Lisbon 🙂", "kind": "episodic"},
        {"content": f"To deploy, run the pipeline {number} times.", "kind": "procedural"},
        {"content": f"gone soon {number}", "expires_at": soon},
    ]
    added = ask("POST", "/memories", {"memories": memories}, 201)
    ids = [result["id"] for result in added["results"]]
    ask("POST", "/recall", {"query": "Lisbon 花生"}, 200)
    ask("POST", "/context", {"query": "Lisbon 花生", "budget_tokens": 2000}, 200)
    turn = {"role": "user", "content": f"I am allergic to peanuts, and I said so {number} times."}
    ask("POST", f"/sessions/s{number}/turns", {"turns": [turn]}, 201)
    outcomes = zip(ids, ("adopted", "useless", "harmful"), strict=False)
    ask("POST", "/feedback", {"items": [{"id": id, "outcome": outcome} for id, outcome in outcomes]}, 200)
    ask("PATCH", f"/memories/{ids[0]}", {"importance": 0.9}, 200)
    ask("GET", "/memories", None, 200)
    ask("GET", f"/memories/{ids[0]}/history", None, 200)
    ask("DELETE", f"/memories/{ids[2]}", None, 200)
    # Wrong on purpose: each has its own code.
    ask("GET", "/memories/no-such-id", None, 404)
    ask("POST", "/recall", b"{not json", 400)
    assert http("GET", f"{user}/memories", "hf_wrong_" + "0" * 64)[0] == 401


def put_under_load(binary: Path, at: Cluster, folder: Path) -> None:
    lines = [json.dumps({"content": f"imported fact {n}", "kind": "semantic"}) for n in range(200)]
    (folder / "facts.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    server = ["--url", at.urls[0], "--key", at.key]
    run = {"capture_output": True, "text": True, "check": False, "timeout": 120}
    done = subprocess.run([str(binary), "import", str(folder / "facts.jsonl"), "--user", "reader", *server], **run)
    assert done.returncode == 0, done.stdout[-800:] + done.stderr[-800:]

    def everywhere(number: int) -> None:
        for url in at.urls:
            use_everything(url, at.key, number)

    # Few clients: what is looked for is that numbers move, not how far.
    amounts = {"users": 10, "memories-per-user": 10, "clients": 4, "warm-up-seconds": 1, "seconds": LOAD_SECONDS}
    options = [text for name, value in amounts.items() for text in (f"--{name}", str(value))]
    with Background(everywhere) as background:
        command = [str(binary), "bench", "load", "--mode", "mixed", *options, *server]
        done = subprocess.run(command, **run)
    assert done.returncode == 0, done.stdout[-800:] + done.stderr[-800:]
    assert background.rounds >= 3


def check_dashboards(url: str) -> None:
    command = [sys.executable, str(GRAFANA / "check_dashboards.py"), "--prometheus", url]
    command += ["--seconds", "30", "--rate-interval", "10s"]
    environment = os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    passed, _, total = lines[-1].split()[:3]
    assert passed == total and int(total) > 70, lines[-1]


def alerts(url: str) -> dict[str, str]:
    """State by alert; an alert that cannot be evaluated is a failure."""
    status, answer = http("GET", f"{url}/api/v1/rules?type=alert")
    assert status == 200, answer
    found = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
    unwell = [(rule["name"], rule["lastError"]) for rule in found if rule["health"] == "err"]
    assert not unwell, unwell
    return {rule["name"]: rule["state"] for rule in found}


def check_alerts_are_quiet(url: str) -> None:
    """None fires, and none would if the state lasted longer."""

    def quiet() -> bool:
        states = alerts(url)
        assert len(states) > 10
        assert "firing" not in states.values(), states
        return {name for name, state in states.items() if state != "inactive"} <= MACHINE_ALERTS

    try:
        # The minutes before an alert fires are longer than this; a pending one is a false condition.
        until("no alert is pending", quiet, 15)
    except AssertionError:
        pytest.fail(f"alerts in a healthy cluster: {alerts(url)}")


def check_runbook_queries(url: str) -> None:
    queries = {query for page in RUNBOOKS.glob("*.md") for query in runbook_queries(page)}
    assert len(queries) > 40
    for query in sorted(queries):
        status, answer = http("GET", f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        assert status == 200, f"{query}: {answer}"


@pytest.mark.parametrize("shape", [dev, cluster])
def test_every_query_has_an_answer_and_no_alert_is_false(shape, holdfast_bin: Path, tmp_path: Path):
    with (
        shape(holdfast_bin, tmp_path) as at,
        prometheus(tool("prometheus"), tmp_path, at.targets, RULES) as url,
    ):
        put_under_load(holdfast_bin, at, tmp_path)
        check_dashboards(url)
        check_alerts_are_quiet(url)
        check_runbook_queries(url)
        if shape is cluster:
            lose_the_majority(at, url)


def lose_the_majority(at: Cluster, url: str) -> None:
    """Two of three nodes are killed: what an operator must hear of is noticed."""
    for name in ("node-1", "node-2"):
        at.processes[name].stop(signal.SIGKILL)

    def noticed() -> bool:
        pending = {name for name, state in alerts(url).items() if state != "inactive"}
        leaderless = {"HoldfastGroupWithoutLeader", "HoldfastLeaderWithoutQuorum"} & pending
        return bool(leaderless) and {"HoldfastTargetDown", "HoldfastRouterSeesNoLeader"} <= pending

    try:
        until("the loss of the majority is noticed", noticed, 30)
    except AssertionError:
        pytest.fail(f"two of three nodes are gone: {alerts(url)}")
