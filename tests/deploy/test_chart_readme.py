"""The table in the chart's README lists its values as they are."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from chart import CHART


def table() -> dict[str, Any]:
    """Key and default of each row."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \| .*\|$", text, flags=re.MULTILINE)
    return {key: json.loads(default) for key, default in rows}


def flat(values: dict[str, Any], rows: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The values by path, as deep as the table goes."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{path}{key}"
        if isinstance(value, dict) and name not in rows:
            found |= flat(value, rows, f"{name}.")
        else:
            found[name] = value
    return found


def test_the_table_is_complete_and_current() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert flat(values, table()) == table()


def test_every_value_with_a_default_is_in_the_schema() -> None:
    """And the other way round: an optional value would be known to nobody."""

    def keys(schema: dict[str, Any], path: str = "") -> set[str]:
        if "$ref" in schema:
            schema = whole["definitions"][schema["$ref"].rpartition("/")[2]]
        found: set[str] = set()
        for key, inner in schema.get("properties", {}).items():
            found |= {f"{path}{key}"} | keys(inner, f"{path}{key}.")
        return found

    whole = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    def present(inner: dict[str, Any], path: str = "") -> set[str]:
        found: set[str] = set()
        for key, value in inner.items():
            found |= {f"{path}{key}"} | (present(value, f"{path}{key}.") if isinstance(value, dict) else set())
        return found

    # Settings have their defaults in the program; the parts of Kubernetes' own objects in Kubernetes.
    optional = re.compile(r"global|config\.\w+\.\w+|.*\.(resources|affinity)\..*")
    assert {key for key in keys(whole) - present(values) if not optional.fullmatch(key)} == set()
    free = re.compile(r".*\.resources\..*|metrics\.dashboards\.labels\..*")
    assert {key for key in present(values) - keys(whole) if not free.fullmatch(key)} == set()


def test_the_guide_names_files_that_exist(root: Path) -> None:
    for page in (root / "docs/kubernetes.md", CHART / "README.md"):
        for name in re.findall(r"helm/holdfast(?:/[\w.-]+)+|ci/[\w.-]+yaml|scripts/[\w.-]+", page.read_text(encoding="utf-8")):
            assert (root / name).exists() or (CHART / name).exists(), f"{page.name}: {name}"
