"""The chart, rendered: what the tests of it look at."""

import copy
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

CHART = Path(__file__).resolve().parents[2] / "helm" / "holdfast"
CI_VALUES = {path.stem.removesuffix("-values"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
RELEASE, NAMESPACE = "demo", "prod"

Manifest = dict[str, Any]


def ci_values(name: str) -> Manifest:
    return yaml.safe_load(CI_VALUES[name].read_text(encoding="utf-8"))


def parse(rendered: dict[str, str]) -> list[Manifest]:
    """The objects in what Helm rendered; NOTES.txt is text and left out."""
    texts = (text for path, text in rendered.items() if not path.endswith("NOTES.txt"))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for text in texts for document in yaml.load_all(text, loader) if document]


@functools.lru_cache(maxsize=256)
def _rendered(values: str) -> list[Manifest]:
    with helm.Chart.load(CHART) as chart:
        return parse(chart.render(json.loads(values), name=RELEASE, namespace=NAMESPACE))


def decided(values: Manifest | None) -> Manifest:
    """The values with what has no default: without TLS, unless they say what else."""
    return {"tls": {"mode": "off"}, **(values or {})}


def render(values: Manifest | None = None) -> "Objects":
    """Renders without a cluster: `lookup` finds nothing. The result is the caller's own."""
    return Objects(copy.deepcopy(_rendered(json.dumps(decided(values), sort_keys=True))))


def refusal(values: Manifest) -> str:
    """Why the values are refused; fails if they are not."""
    try:
        render(values)
    except helm.HelmError as error:
        return str(error)
    raise AssertionError(f"accepted: {values}")


@dataclass
class Objects:
    """The objects of one release."""

    all: list[Manifest]

    def of(self, kind: str) -> list[Manifest]:
        return [found for found in self.all if found["kind"] == kind]

    def one(self, kind: str, suffix: str = "") -> Manifest:
        """The one object of the kind whose name ends so."""
        found = [item for item in self.of(kind) if item["metadata"]["name"].endswith(suffix)]
        assert len(found) == 1, f"{kind} …{suffix}: {[item['metadata']['name'] for item in found]}"
        return found[0]

    @property
    def nodes(self) -> Manifest:
        return self.one("StatefulSet")

    @property
    def routers(self) -> Manifest:
        return self.one("Deployment")

    @property
    def init(self) -> Manifest:
        return self.one("Job")

    @property
    def config(self) -> str:
        """The text of the configuration file."""
        return self.one("ConfigMap", "-config")["data"]["holdfast.toml"]

    def pods(self) -> dict[str, Manifest]:
        """Every pod that the release makes, as {metadata, spec}, by component."""
        templates = [self.nodes, self.routers, self.init]
        pods = [item["spec"]["template"] for item in templates] + self.of("Pod")
        return {pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod for pod in pods}


def container(pod: Manifest) -> Manifest:
    """The one container of a pod."""
    (only,) = pod["spec"]["containers"]
    return only


def selects(selector: Manifest, labels: Manifest) -> bool:
    """Whether matchLabels take these labels."""
    return all(labels.get(key) == value for key, value in selector.items())
