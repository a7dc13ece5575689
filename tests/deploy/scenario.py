"""The chart's life, played with real processes; started by test_chart_runs.py and test_image.py.

    unshare --mount --net --pid --fork python scenario.py --work DIR (--program FILE --models DIR | --tree DIR)

WORK is to be removed by the caller, after the namespaces have ended: while they live, folders of
this machine are mounted in it. Prints a line for each thing that was seen to hold, and ends with 1 at the first that does not.
"""

import argparse
import base64
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from chart import ci_values, render
from pods import PROGRAM, Cluster, Pod, tree_of_host, wait_for


def holds(what: str, seen: bool, detail: object = "") -> None:
    if not seen:
        raise AssertionError(f"{what}: {detail}")
    print(f"ok {what}", flush=True)


def before_the_founding(cluster: Cluster) -> None:
    """Helm waits for nodes to be ready, and they wait for the Job: nothing may fail meanwhile."""
    nodes = cluster.component("node")
    for pod in nodes + cluster.component("router"):
        pod.start()
    for node in nodes:
        wait_for(f"{node.name} starts", lambda node=node: node.probe("startup") == 200, of=node)
    seen = [(node.probe("liveness"), node.probe("readiness")) for node in nodes]
    holds("a node that waits for the founding is alive and not ready", seen == [(200, 503)] * len(nodes), seen)


def founding(cluster: Cluster) -> None:
    init = cluster.pods["init"]
    holds("the init Job founds the cluster", init.run() == 0, init.log())
    wait_until_ready(cluster)
    holds("nodes and router become ready", True)
    holds("founding it again does nothing", init.run() == 0, init.log())


def wait_until_ready(cluster: Cluster) -> None:
    for pod in cluster.component("node") + cluster.component("router"):
        wait_for(f"{pod.name} is ready", lambda pod=pod: pod.probe("readiness") == 200, of=pod)


def helm_test(cluster: Cluster) -> None:
    test = cluster.pods["test"]
    holds("helm test writes and recalls", test.run() == 0 and "recalled mark" in test.log(), test.log())
    (name,) = [item["metadata"]["name"] for item in cluster.objects.of("Secret")]
    right = cluster.secrets[name]
    cluster.secrets[name] = {"key": base64.b64encode(b"hf_wrong_" + b"0" * 64).decode()}
    code = test.run()
    cluster.secrets[name] = right
    holds("with another key it fails", code != 0, test.log())


def metrics(cluster: Cluster) -> None:
    for pod in cluster.component("node") + cluster.component("router"):
        status, text = pod.get("/metrics")
        holds(f"{pod.component} {pod.name} shows metrics", status == 200 and f"holdfast_{pod.component}_" in text, status)


def lost_nodes(cluster: Cluster) -> None:
    """Kills nodes one by one: with a majority all goes on, without it nobody is restarted."""
    first, second, third = cluster.component("node")
    first.stop(signal.SIGKILL)
    first.wait(10)
    test = cluster.pods["test"]
    wait_for("the rest elects leaders", lambda: second.probe("readiness") == third.probe("readiness") == 200)
    holds("two of three nodes serve", test.run() == 0, test.log())
    second.stop(signal.SIGKILL)
    second.wait(10)
    wait_for("the last node misses its leaders", lambda: third.probe("readiness") == 503)
    holds("without a majority a node is not ready but alive", third.probe("liveness") == 200, third.readiness())
    for node in (first, second):
        node.start()
    wait_until_ready(cluster)
    holds("with their volumes they come back", test.run() == 0, test.log())


def rolling_update(cluster: Cluster) -> None:
    """Each node is drained, stopped and started again, as a new version would be."""
    for node in cluster.component("node"):
        stop_node(node)
        node.start()
        wait_until_ready(cluster)
    (router,) = cluster.component("router")
    key = cluster.pods["test"].environment()["HOLDFAST_API_KEY"]
    ask = [PROGRAM, "recall", "--user=helm-test", f"--key={key}", "--json", "Which mark was the chart tested with?"]
    answer = router.execute(ask, 30)
    # What the first test stored, before nodes were lost and replaced.
    first = re.search(r"recalled (mark\d+)", cluster.pods["test"].log())
    holds("every node was replaced, and the memories are there", bool(first) and first[1] in answer.stdout, answer)


def stop_node(node: Pod) -> None:
    grace = node.manifest["spec"]["terminationGracePeriodSeconds"]
    began = time.monotonic()
    hook = node.execute(node.container["lifecycle"]["preStop"]["exec"]["command"], grace)
    holds(f"{node.name} drains", hook.returncode == 0, hook.stderr)
    seen = (node.probe("readiness"), node.probe("liveness"))
    holds("a drained node is not ready but alive", seen == (503, 200), seen)
    node.stop(signal.SIGTERM)
    code = node.wait(grace - (time.monotonic() - began))
    holds("it stops within its time with 0", code == 0, (code, node.log()))


def stop_router(cluster: Cluster) -> None:
    (router,) = cluster.component("router")
    router.stop(signal.SIGTERM)
    wait_for("the router says that it drains", lambda: router.probe("readiness") == 503, 5)
    holds("a draining router still serves", router.get("/healthz", "http")[0] == 200)
    code = router.wait(router.manifest["spec"]["terminationGracePeriodSeconds"])
    holds("it stops within its time with 0", code == 0, (code, router.log()))


def play(cluster: Cluster) -> None:
    before_the_founding(cluster)
    founding(cluster)
    helm_test(cluster)
    metrics(cluster)
    lost_nodes(cluster)
    rolling_update(cluster)
    stop_router(cluster)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--tree", type=Path)
    arguments = parser.parse_args()
    values = ci_values("default-dev")
    values["tls"] = {"mode": "secrets"}
    # Long enough to be seen.
    values["router"]["drainDelaySeconds"] = 2
    work = arguments.work
    work.chmod(0o755)
    tree = arguments.tree or tree_of_host(work, arguments.program, arguments.models)
    cluster = Cluster(render(values), tree, work)
    try:
        play(cluster)
        return 0
    except (AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"FAILED {error}", flush=True)
        for pod in cluster.pods.values():
            if (pod.folder / "log").exists():
                print(f"--- {pod.name}, the end of its log\n{pod.log()}", flush=True)
        return 1
    finally:
        for pod in cluster.pods.values():
            if pod.running():
                pod.stop(signal.SIGKILL)
                pod.wait(10)


if __name__ == "__main__":
    sys.exit(main())
