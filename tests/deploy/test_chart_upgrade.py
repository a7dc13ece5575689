"""What the chart makes once must stay what it is: the first key, and the set of nodes."""

import base64
import re
from collections.abc import Callable
from subprocess import CompletedProcess

import helm_python as helm
import pytest

import kubernetes_api
from chart import CHART, NAMESPACE, RELEASE, Manifest, Objects, ci_values, decided, parse, render

KEY = re.compile(r"hf_[A-Za-z0-9]{1,32}_[0-9a-f]{64}")


def upgrade(values: Manifest, *there: Manifest) -> Objects:
    """Renders as `helm upgrade` does on a cluster that has these objects."""
    with (
        kubernetes_api.serve(*there) as url,
        helm.Config(kube_apiserver=url, kubeconfig_content=kubeconfig(url), namespace=NAMESPACE) as config,
        helm.Chart.load(CHART) as chart,
    ):
        return Objects(parse(config.render(chart, decided(values), name=RELEASE, namespace=NAMESPACE, is_upgrade=True)))


def kubeconfig(url: str) -> str:
    return f"""
apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "{url}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
users: [{{name: test, user: {{}}}}]
"""


def key_of(objects: Objects, field: str = "key") -> str:
    return base64.b64decode(objects.one("Secret")["data"][field]).decode()


def test_a_new_key_is_random_and_well_formed() -> None:
    with helm.Chart.load(CHART) as chart:
        renderings = [Objects(parse(chart.render(decided({}), name=RELEASE, namespace=NAMESPACE))) for _ in range(3)]
    keys = {key_of(objects) for objects in renderings}
    for key in keys:
        assert KEY.fullmatch(key), key
    # Both parts: the secret one must not hide behind a random id.
    for part in (1, 2):
        assert len({key.split("_")[part] for key in keys}) == 3


def test_the_program_makes_keys_of_the_same_form(holdfast: Callable[..., CompletedProcess[str]]) -> None:
    made = holdfast("ctl", "new-key")
    assert made.returncode == 0, made.stderr
    assert KEY.fullmatch(made.stdout.strip())


def test_an_upgrade_keeps_the_key() -> None:
    first = render()
    again = upgrade({}, first.one("Secret"), first.one("ConfigMap"))
    assert key_of(again) == key_of(first)


def test_an_upgrade_changes_nothing_without_a_cause() -> None:
    first = render(ci_values("everything"))
    there = [first.one("Secret"), first.one("ConfigMap", "-config")]
    assert upgrade(ci_values("everything"), *there).all == first.all


def test_another_name_of_the_key_gets_a_key() -> None:
    first = render()
    again = upgrade({"firstKey": {"secretKey": "other"}}, first.one("Secret"))
    assert KEY.fullmatch(key_of(again, "other"))


def test_a_given_secret_is_left_alone() -> None:
    objects = render({"firstKey": {"existingSecret": "mine"}})
    assert not objects.of("Secret")


@pytest.mark.parametrize(("founded", "wanted"), [(3, 5), (5, 3), (3, 1)])
def test_the_number_of_nodes_cannot_change(founded: int, wanted: int) -> None:
    first = render({"node": {"replicas": founded}})
    with pytest.raises(helm.HelmError, match=f"was founded with {founded} nodes") as refused:
        upgrade({"node": {"replicas": wanted}}, first.one("ConfigMap"))
    assert f"Set node.replicas back to {founded}" in str(refused.value)


def test_other_changes_pass() -> None:
    first = render({"node": {"replicas": 5}})
    upgraded = upgrade({"node": {"replicas": 5}, "router": {"replicas": 4}}, first.one("ConfigMap"))
    assert upgraded.routers["spec"]["replicas"] == 4
