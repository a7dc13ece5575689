#!/usr/bin/env python3
"""Writes the dashboards, the alert rules and the list of runbooks from grafana/definitions.

generate.py                       writes the files of this repository
generate.py --check               changes nothing; exit 1 if one of them is not what it would write
generate.py --output DIR --runbook-base URL
                                  writes elsewhere, with links to where you publish the runbooks
"""

import argparse
import json
import sys
from pathlib import Path

# The definitions lie beside this file, from wherever it is started; no bytecode in the checkout.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from definitions import alerts, overview, recall, yaml_text  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent
DASHBOARDS = (overview.DASHBOARD, recall.DASHBOARD)
RUNBOOK_BASE = "docs/runbooks"
HEADER = "# Written by grafana/generate.py from grafana/definitions/alerts.py. Do not edit.\n"


def files(runbook_base):
    """Text by path."""
    texts = {
        f"grafana/dashboards/{dashboard.uid}.json": json.dumps(dashboard.json(), indent=2, ensure_ascii=False) + "\n"
        for dashboard in DASHBOARDS
    }
    texts["grafana/alerts/holdfast.rules.yaml"] = HEADER + yaml_text.dump(alerts.rules(runbook_base))
    texts["docs/runbooks/README.md"] = alerts.index()
    return texts


def stale(root, texts):
    """Files that are missing or different below `root`."""
    return [
        path for path, text in texts.items() if not (root / path).is_file() or (root / path).read_text("utf-8") != text
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--output", type=Path, default=REPOSITORY, metavar="DIR", help="write below this folder")
    parser.add_argument(
        "--runbook-base",
        default=RUNBOOK_BASE,
        metavar="URL",
        help="where the runbooks are published; by default their path in the repository",
    )
    args = parser.parse_args()
    texts = files(args.runbook_base)
    if args.check:
        old = stale(args.output, texts)
        for path in old:
            print(f"{path} is not current: run grafana/generate.py", file=sys.stderr)
        return 1 if old else 0
    for path, text in texts.items():
        target = args.output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
