#!/usr/bin/env python3
"""Runs every query of every dashboard against a Prometheus and fails on those that show nothing.

check_dashboards.py --prometheus http://127.0.0.1:9090 [--seconds 60] [--rate-interval 15s] [FILE...]

The choices at the top of a dashboard are read from Prometheus, as Grafana does, and all of them are
taken. A query fails if Prometheus refuses it, if it returns nothing, or if it returns only NaN,
unless the definitions say why it may be empty. Exit 1 if any failed.
"""

import argparse
import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from definitions import overview, recall, variables  # noqa: E402

FOLDER = Path(__file__).resolve().parent / "dashboards"
MAY_BE_EMPTY = {d.uid: d.may_be_empty() for d in (overview.DASHBOARD, recall.DASHBOARD)}
TIMEOUT_SECONDS = 20
POINTS = 60


class QueryError(Exception):
    """Prometheus refused a request, or cannot be reached."""


class Prometheus:
    """The few calls of its HTTP API that are needed."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def get(self, path, **parameters):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            # A refused query has its reason in the body; a proxy in between may answer anything.
            text = error.read()
            try:
                body = json.loads(text)
            except ValueError:
                raise QueryError(f"HTTP {error.code}") from error
        except (OSError, ValueError) as error:
            raise QueryError(f"no answer from {self.url}: {error}") from error
        if body.get("status") != "success":
            raise QueryError(body.get("error", "the request failed"))
        return body["data"]

    def label_values(self, selector, label, since):
        return self.get(f"label/{label}/values", **{"match[]": selector, "start": since, "end": time.time()})

    def points(self, expr, instant, seconds):
        """All values that a panel would draw."""
        now = time.time()
        if instant:
            return [float(series["value"][1]) for series in self.get("query", query=expr, time=now)["result"]]
        step = max(1, seconds // POINTS)
        result = self.get("query_range", query=expr, start=now - seconds, end=now, step=step)["result"]
        return [float(value) for series in result for _, value in series["values"]]


def substitute(text, values):
    """Puts the choices in, for `$name` and `${name}`."""

    def one(match):
        name = match.group(1) or match.group(2)
        if name not in values:
            raise QueryError(f"the dashboard has no variable ${name}")
        return values[name]

    return re.sub(r"\$\{(\w+)\}|\$(\w+)", one, text)


def choose_all(dashboard, prometheus, seconds, rate_interval):
    """Every variable's value when All is chosen, and what is wrong with the variables."""
    values = {"__rate_interval": rate_interval, "__range": f"{seconds}s", "__interval": "1s"}
    problems = []
    for variable in dashboard["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "datasource":
            values[name] = "prometheus"
            continue
        # The metric may be absent, and its selector holds no bracket: the last comma divides.
        query = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        try:
            if variable["type"] != "query" or not query:
                raise QueryError(f"this check does not know variables like this: {variable['query']}")
            selector = substitute(query.group(1), values)
            found = prometheus.label_values(selector, query.group(2), time.time() - seconds)
            if not found and name not in variables.MAY_BE_EMPTY:
                raise QueryError(f"no values from {selector}")
        except QueryError as error:
            problems.append(f"variable ${name}: {error}")
            found = []
        # Twice escaped: as a regular expression, and in a string of PromQL.
        listed = "|".join(re.escape(value).replace("\\", "\\\\") for value in found)
        values[name] = variable.get("allValue") or f"({listed})"
    return values, problems


def check(dashboard, prometheus, seconds, rate_interval):
    """Rows of (panel, ref, verdict, what was found); the verdict is ok, empty or FAIL."""
    values, problems = choose_all(dashboard, prometheus, seconds, rate_interval)
    rows = [("", "", "FAIL", problem) for problem in problems]
    declared = MAY_BE_EMPTY.get(dashboard["uid"], {})
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            reason = declared.get((panel["title"], target["refId"]))
            rows.append((panel["title"], target["refId"], *_run(target, values, prometheus, seconds, reason)))
    return rows


def _run(target, values, prometheus, seconds, reason):
    try:
        expr = substitute(target["expr"], values)
        points = prometheus.points(expr, target.get("instant", False), seconds)
    except QueryError as error:
        return "FAIL", f"{error}: {target['expr']}"
    numbers = [point for point in points if not math.isnan(point)]
    if numbers:
        return "ok", f"{len(numbers)} points, {min(numbers):.6g} to {max(numbers):.6g}, last {numbers[-1]:.6g}"
    if reason:
        return "empty", reason
    return "FAIL", f"{'only NaN' if points else 'nothing'}: {expr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", required=True, metavar="URL", help="address of the Prometheus")
    parser.add_argument("--seconds", type=int, default=300, help="how far back to look")
    parser.add_argument("--rate-interval", default="1m", help="value of $__rate_interval: four scrape intervals")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="dashboards; by default all of them")
    args = parser.parse_args()
    if args.seconds < 1:
        parser.error("--seconds must be at least 1")
    files = args.files or sorted(FOLDER.glob("*.json"))
    if not files:
        parser.error(f"there are no dashboards in {FOLDER}")
    failed = total = 0
    for file in files:
        try:
            dashboard = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            parser.error(f"{file} is no dashboard: {error}")
        rows = check(dashboard, Prometheus(args.prometheus), args.seconds, args.rate_interval)
        print(f"{dashboard['title']} ({file.name})")
        for title, ref, verdict, found in rows:
            print(f"  {verdict:5} {title[:44]:44} {ref:1}  {found}")
        failed += sum(row[2] == "FAIL" for row in rows)
        total += len(rows)
    print(f"{total - failed} of {total} queries pass")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
