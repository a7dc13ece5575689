"""Each of the chart's example values lints, renders, and is what Kubernetes takes."""

import re

import helm_python as helm
import jsonschema
import kubernetes_validate
import pytest
import yaml

from chart import CHART, CI_VALUES, ci_values, container, render

# The oldest that Chart.yaml allows, one between, and the newest that the schemas know.
KUBERNETES = ["1.27", "1.31", kubernetes_validate.latest_version()]

# The parts of the Prometheus Operator's kinds that the chart uses; nothing else may appear.
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
META = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "namespace", "labels"],
    "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}, "labels": LABELS},
}


def strict(required: list[str], **properties: object) -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


TIME = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
OPERATOR = {
    "ServiceMonitor": strict(
        ["selector", "endpoints"],
        namespaceSelector=strict(["matchNames"], matchNames={"type": "array"}),
        selector=strict(["matchLabels"], matchLabels=LABELS),
        endpoints={
            "type": "array",
            "minItems": 1,
            "items": strict(
                ["port", "path", "interval", "scrapeTimeout"],
                port={"type": "string"},
                path={"type": "string"},
                interval=TIME,
                scrapeTimeout=TIME,
                relabelings={
                    "type": "array",
                    "items": strict(
                        ["action", "targetLabel", "replacement"],
                        action={"const": "replace"},
                        targetLabel={"type": "string"},
                        replacement={"type": "string"},
                    ),
                },
            ),
        },
    ),
    "PrometheusRule": strict(
        ["groups"],
        groups={
            "type": "array",
            "minItems": 1,
            "items": strict(
                ["name", "rules"],
                name={"type": "string"},
                interval=TIME,
                rules={
                    "type": "array",
                    "minItems": 1,
                    "items": strict(
                        ["alert", "expr", "labels", "annotations"],
                        alert={"type": "string"},
                        expr={"type": "string"},
                        keep_firing_for=TIME,
                        labels=LABELS,
                        annotations=LABELS,
                        **{"for": TIME},
                    ),
                },
            ),
        },
    ),
}

# The part of cert-manager's kind that the chart uses.
CERTIFICATE = strict(
    ["secretName", "duration", "renewBefore", "privateKey", "commonName", "uris", "usages", "issuerRef"],
    secretName={"type": "string"},
    duration=TIME,
    renewBefore=TIME,
    privateKey=strict(
        ["algorithm", "size", "rotationPolicy"],
        algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
        size={"type": "integer"},
        rotationPolicy={"enum": ["Always", "Never"]},
    ),
    commonName={"type": "string", "maxLength": 64},
    uris={"type": "array", "items": {"type": "string"}, "minItems": 1},
    dnsNames={"type": "array", "items": {"type": "string"}, "minItems": 1},
    usages={"type": "array", "items": {"enum": ["digital signature", "client auth", "server auth"]}},
    issuerRef=strict(
        ["name", "kind", "group"], name={"type": "string"}, kind={"type": "string"}, group={"type": "string"}
    ),
)


@pytest.mark.parametrize("name", CI_VALUES)
def test_lint_is_strict(name: str) -> None:
    report = helm.lint(CHART, ci_values(name), strict=True, kube_version="v1.27.0")
    found = [message for message in report["messages"] if message["severity"] >= 2]
    assert not found and not report["errors"]


@pytest.mark.parametrize("name", CI_VALUES)
def test_kubernetes_takes_every_object(name: str) -> None:
    for item in render(ci_values(name)).all:
        if item["apiVersion"] == "cert-manager.io/v1":
            jsonschema.validate(item["metadata"], META)
            jsonschema.validate(item["spec"], CERTIFICATE)
            continue
        if item["apiVersion"].startswith("monitoring.coreos.com/"):
            jsonschema.validate(item["metadata"], META)
            jsonschema.validate(item["spec"], OPERATOR[item["kind"]])
            continue
        for version in KUBERNETES:
            # Strict: a misspelt field raises, and so does a kind that this version does not have.
            kubernetes_validate.validate(item, version, strict=True)


def test_the_validation_sees_misspelt_fields() -> None:
    item = render().nodes
    item["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(item, "1.27", strict=True)


def test_the_values_without_any_of_ours_are_valid() -> None:
    assert len(render().all) >= 12


@pytest.mark.parametrize("name", CI_VALUES)
def test_names_are_unique_and_short(name: str) -> None:
    objects = render(ci_values(name))
    names = [(item["kind"], item["metadata"]["name"]) for item in objects.all]
    assert len(set(names)) == len(names)
    # A name of a Service, and of what becomes a label or a host name, has at most 63 characters.
    for kind, text in names:
        assert len(text) <= 63 and re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text), f"{kind} {text}"
    # StatefulSets put their name and 11 characters more into a label; Jobs theirs and 6 into pods' names.
    assert len(objects.nodes["metadata"]["name"]) + 11 <= 63
    assert len(objects.init["metadata"]["name"]) + 6 <= 63


@pytest.mark.parametrize("name", CI_VALUES)
def test_every_object_has_namespace_and_labels(name: str) -> None:
    for item in render(ci_values(name)).all:
        meta = item["metadata"]
        assert meta["namespace"] == "prod"
        assert meta["labels"]["app.kubernetes.io/instance"] == "demo"
        assert meta["labels"]["helm.sh/chart"] == "holdfast-0.1.0"


def test_common_and_own_labels_arrive() -> None:
    objects = render(ci_values("everything"))
    for item in objects.all:
        assert item["metadata"]["labels"]["team"] == "agents"
    pods = objects.pods()
    assert pods["node"]["metadata"]["labels"]["tier"] == "data"
    assert pods["router"]["metadata"]["labels"]["tier"] == "api"
    assert pods["node"]["metadata"]["annotations"]["note"] == "a: b"
    assert {"name": "RUST_BACKTRACE", "value": "1"} in container(pods["node"])["env"]
    assert {"name": "RUST_BACKTRACE", "value": "1"} in container(pods["router"])["env"]
    for component, key in {"node": "disk", "router": "pool", "init": "pool", "test": "pool"}.items():
        assert key in pods[component]["spec"]["nodeSelector"]
        assert pods[component]["spec"]["tolerations"]
    assert pods["node"]["spec"]["affinity"]["nodeAffinity"]
    assert pods["router"]["spec"]["priorityClassName"] == "web"


def test_everything_sets_every_value() -> None:
    """The example that sets everything leaves no path of a template untried."""

    def keys(values: object, path: str = "") -> set[str]:
        if not isinstance(values, dict):
            return set()
        return {f"{path}.{key}" for key in values} | {
            deeper for key, value in values.items() for deeper in keys(value, f"{path}.{key}")
        }

    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    missing = keys(defaults) - keys(ci_values("everything")) - {".metrics.dashboards.labels.grafana_dashboard"}
    assert not missing
