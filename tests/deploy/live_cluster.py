"""Real processes on loopback: nodes, routers, Prometheus. All of them end with their `with` block."""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

# How long a start may take on a busy machine.
START_SECONDS = 60
STOP_SECONDS = 20
# Loopback never goes through a proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_ports(number: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def http(method: str, url: str, key: str | None = None, body: object = None) -> tuple[int, object]:
    """Status and JSON body of one request; errors of the server are answers too."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    # What is bytes already is sent as it is: it may be wrong on purpose.
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with _OPENER.open(request, timeout=20) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode(errors="replace")


def until(what: str, ask, seconds: float = START_SECONDS):
    """Asks until the answer is true, and gives it back."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.2)


class Process:
    """A child process whose output goes to a file, of which the end is shown when something fails."""

    def __init__(self, name: str, command: list[str], folder: Path):
        self.name, self.log = name, folder / f"{name}.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_") or k == "HOLDFAST_MODEL_DIR"}
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        def look():
            found = re.search(pattern, self.said(), re.MULTILINE)
            # It may have said it and ended since; then what follows fails.
            assert found or self.child.poll() is None, f"{self.name} ended: {self.said()[-1500:]}"
            return found

        return until(f"{self.name} says {pattern}", look)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        if self.child.poll() is None:
            self.child.send_signal(by)
        try:
            return self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait(STOP_SECONDS)


@dataclass
class Cluster:
    """Where a running cluster can be reached."""

    key: str
    # Base URLs of the routers.
    urls: list[str]
    # Admin addresses by job, for Prometheus.
    targets: dict[str, list[str]]
    processes: dict[str, Process] = field(default_factory=dict)


@contextlib.contextmanager
def running(stack_of: dict[str, Process]):
    """Ends all processes of the dictionary, whatever happens; all at once, for they end slowly alone."""
    try:
        yield
    finally:
        for process in stack_of.values():
            if process.child.poll() is None:
                process.child.terminate()
        for process in stack_of.values():
            process.stop()


@contextlib.contextmanager
def dev(binary: Path, folder: Path):
    """`holdfast dev`: everything in one process, with one address for Prometheus."""
    client, admin = free_ports(2)
    key = f"hf_test_{secrets.token_hex(32)}"
    processes: dict[str, Process] = {}
    with running(processes):
        command = [str(binary), "dev", "--ephemeral", "--http", f"127.0.0.1:{client}", "--admin", f"127.0.0.1:{admin}"]
        processes["dev"] = Process("dev", [*command, "--key", key], folder)
        processes["dev"].wait_for(r"^ready http://")
        yield Cluster(key, [f"http://127.0.0.1:{client}"], {"holdfast-dev": [f"127.0.0.1:{admin}"]}, processes)


@contextlib.contextmanager
def cluster(binary: Path, folder: Path, nodes: int = 3, routers: int = 2, shards: int = 8):
    """Processes as in production: nodes, founded once, and routers."""
    ports = free_ports(2 * nodes + 2 * routers)
    listen, admin = ports[:nodes], ports[nodes : 2 * nodes]
    client, router_admin = ports[2 * nodes : 2 * nodes + routers], ports[2 * nodes + routers :]
    config = folder / "holdfast.toml"
    seeds = ", ".join(f'"127.0.0.1:{port}"' for port in listen)
    config.write_text(f"[cluster]\nseeds = [{seeds}]\nshards = {shards}\n", "utf-8")
    certs = folder / "certs"
    made = [str(binary), "ctl", "certs", "--out", str(certs), "--config", str(config)]
    subprocess.run(made, capture_output=True, timeout=START_SECONDS, check=True)
    processes: dict[str, Process] = {}

    def tls(name: str) -> list[str]:
        files = {"ca": certs / "ca.pem", "cert": certs / f"{name}.pem", "key": certs / f"{name}.key"}
        return [flag for key, path in files.items() for flag in ("--set", f"tls.{key}={path}")]

    def start(name: str, role: str, **settings: str):
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{role}.{key}={value}")]
        flags += tls(f"node-{settings['advertise'].replace(':', '-')}" if role == "node" else f"{role}-1")
        processes[name] = Process(name, [str(binary), role, "--config", str(config), *flags], folder)

    with running(processes):
        for at in range(nodes):
            address = f"127.0.0.1:{listen[at]}"
            start(
                f"node-{at}", "node", data=str(folder / f"node-{at}"), listen=address, advertise=address,
                admin=f"127.0.0.1:{admin[at]}",
            )  # fmt: skip
        for at in range(nodes):
            processes[f"node-{at}"].wait_for(r"^waiting for the founding")
        key_file = folder / "key"
        command = [str(binary), "ctl", "init", "--config", str(config), "--key-file", str(key_file), *tls("operator-1")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        for at in range(nodes):
            processes[f"node-{at}"].wait_for(r"^ready node=")
        for at in range(routers):
            start(f"router-{at}", "router", http=f"127.0.0.1:{client[at]}", admin=f"127.0.0.1:{router_admin[at]}")
        for at in range(routers):
            processes[f"router-{at}"].wait_for(r"^ready http://")
        targets = {
            "holdfast-node": [f"127.0.0.1:{port}" for port in admin],
            "holdfast-router": [f"127.0.0.1:{port}" for port in router_admin],
        }
        urls = [f"http://127.0.0.1:{port}" for port in client]
        yield Cluster(key_file.read_text("utf-8").strip(), urls, targets, processes)


@contextlib.contextmanager
def prometheus(binary: str, folder: Path, targets: dict[str, list[str]], rules: Path):
    """A Prometheus that scrapes every second; gives its address."""
    (port,) = free_ports(1)
    jobs = [
        {"job_name": job, "static_configs": [{"targets": addresses}]} for job, addresses in sorted(targets.items())
    ]
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": jobs,
    }
    # JSON is YAML.
    config = folder / "prometheus.yml"
    config.write_text(json.dumps(settings), "utf-8")
    url = f"http://127.0.0.1:{port}"
    command = [
        binary, f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    processes = {"prometheus": Process("prometheus", command, folder)}
    with running(processes):

        def ready():
            assert processes["prometheus"].child.poll() is None, processes["prometheus"].said()[-1500:]
            with contextlib.suppress(OSError):
                return http("GET", f"{url}/-/ready")[0] == 200

        until("Prometheus is ready", ready)
        yield url


class Background:
    """Repeats a function in a thread until the block ends, and reports how it ended."""

    def __init__(self, work):
        self.work, self.rounds, self.error = work, 0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            while not self.stopping.is_set():
                self.work(self.rounds)
                self.rounds += 1
                self.stopping.wait(0.2)
        except Exception as error:  # noqa: BLE001 - it is raised again where the block ends
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stopping.set()
        self.thread.join(30)
        if kind is None and self.error:
            raise self.error
