"""The alert rules: valid, current, tested in both directions, and each with a runbook."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from grafana_files import ROOT, RULE_TESTS, RULES, RUNBOOKS, tool

SECTIONS = ["What it means", "Impact", "Find out", "What to do", "When to escalate"]


def rules() -> dict[str, dict]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    by_name = {rule["alert"]: rule for rule in found}
    assert len(by_name) == len(found), "two alerts have one name"
    return by_name


def at_once() -> set[str]:
    """Alerts that wait for nothing: what they count does not come and go."""
    return {name for name, rule in rules().items() if rule.get("for", "0m") == "0m"}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [tool("promtool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def cases() -> list[dict]:
    return [case for path in RULE_TESTS for case in yaml.safe_load(path.read_text("utf-8"))["tests"]]


def test_promtool_finds_no_fault_in_the_rules():
    done = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_fire_when_they_should_and_only_then():
    done = promtool("test", "rules", *map(str, RULE_TESTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("mutate", "what"),
    [
        (lambda rule: rule.pop("for"), "fires at once"),
        (lambda rule: rule.update({"for": "10h"}), "never fires"),
        (lambda rule: rule.update({"expr": "absent(nothing)", "for": "0s"}), "always fires"),
    ],
)
def test_the_cases_notice_a_rule_that(tmp_path: Path, mutate, what: str):
    """Every alert is broken in the same way at once; the cases of each must complain."""
    broken = yaml.safe_load(RULES.read_text("utf-8"))
    for group in broken["groups"]:
        for rule in group["rules"]:
            mutate(rule)
    (tmp_path / RULES.name).write_text(yaml.safe_dump(broken), "utf-8")
    (tmp_path / "tests").mkdir()
    copies = []
    for path in RULE_TESTS:
        copy = tmp_path / "tests" / path.name
        copy.write_bytes(path.read_bytes())
        copies.append(str(copy))
    done = promtool("test", "rules", *copies)
    assert done.returncode != 0
    complained = set(re.findall(r"alertname: (\w+), time", done.stdout + done.stderr))
    # What fires at once by design is not changed by the loss of its waiting time.
    unchanged = at_once() if what == "fires at once" else set()
    assert set(rules()) - complained - unchanged == set(), f"no case notices that each of these {what}"


def test_every_alert_has_cases_of_both_sorts():
    fires: dict[str, int] = dict.fromkeys(rules(), 0)
    silent: dict[str, int] = dict.fromkeys(rules(), 0)
    for case in cases():
        tested = {test["alertname"] for test in case["alert_rule_test"]}
        assert len(tested) == 1 and case["name"].split()[0] in tested, case["name"]
        firing = any(test["exp_alerts"] for test in case["alert_rule_test"])
        (fires if firing else silent)[tested.pop()] += 1
    # Silent below the limit, and, where it waits, silent when it does not last.
    wanted = {name: 1 if name in at_once() else 2 for name in rules()}
    missing = {name for name in rules() if fires[name] < 1 or silent[name] < wanted[name]}
    assert {name: (fires[name], silent[name]) for name in missing} == {}


@pytest.mark.parametrize("name", sorted(rules()))
def test_alert_tells_what_is_needed(name: str):
    rule = rules()[name]
    assert re.fullmatch(r"Holdfast[A-Z]\w+", name)
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    # What is wrong must be told apart without opening Prometheus; nothing can be told of what is absent.
    if not rule["expr"].startswith("absent("):
        assert "$labels." in notes["summary"], notes["summary"]
        assert "$labels." in notes["description"] or "$value" in notes["description"]
    assert len(re.sub(r"\{\{.*?\}\}", "", notes["summary"])) < 80, "too long for a headline"
    assert (ROOT / notes["runbook_url"]).is_file()
    assert notes["runbook_url"] == f"docs/runbooks/{name}.md"


def test_every_runbook_has_an_alert():
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == set(rules())


@pytest.mark.parametrize("name", sorted(rules()))
def test_runbook_says_what_is_needed(name: str):
    text = (RUNBOOKS / f"{name}.md").read_text("utf-8")
    lines = text.splitlines()
    assert lines[0] == f"# {name}"
    assert [line[3:] for line in lines if line.startswith("## ")] == SECTIONS
    severity = rules()[name]["labels"]["severity"]
    assert f"**{severity}**" in lines[2].lower(), f"{lines[2]!r} does not tell the severity {severity}"
    parts = dict(zip(SECTIONS, re.split(r"^## .*$", text, flags=re.MULTILINE)[1:], strict=True))
    assert "```" in parts["Find out"], "no command or query to find out with"
    for section, part in parts.items():
        assert len(part.split()) >= 12, f"{section} says nothing"


def test_other_places_for_runbooks_can_be_named(tmp_path: Path):
    done = subprocess.run(
        ["python3", str(ROOT / "grafana" / "generate.py"), "--output", str(tmp_path), "--runbook-base", "https://x.test/r/"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "grafana" / "alerts" / RULES.name).read_text("utf-8")
    urls = re.findall(r'runbook_url: "(.*)"', text)
    assert urls == [f"https://x.test/r/{name}.md" for name in rules()]


def test_links_of_the_runbooks_lead_somewhere():
    for page in [*RUNBOOKS.glob("*.md"), ROOT / "grafana" / "README.md"]:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            path = target.split("#")[0]
            assert "://" in path or (page.parent / path).exists(), f"{page.name}: {target}"
