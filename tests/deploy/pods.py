"""Runs the chart's pods as a kubelet would, without a cluster or an image: each has its own network
address, its own file tree that is read-only but for its volumes, its own environment, and runs as
user 10001. Names are resolved by /etc/hosts, since there is no DNS.

To be used by root in namespaces of its own (`unshare --mount --net --pid --fork`): it makes mounts
and interfaces, which end with them.
"""

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from chart import NAMESPACE, Manifest, Objects, container

USER = 10001
PROGRAM = "/usr/local/bin/holdfast"
MODELS = "/usr/share/holdfast/models"
# What the image sets.
IMAGE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOLDFAST_MODEL_DIR": MODELS}


def sh(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()}")


def wait_for(what: str, condition: Callable[[], object], seconds: float = 90, of: "Pod | None" = None) -> None:
    """Waits until the condition holds; its last exception says why it did not. In vain if the pod
    that it is about has ended."""
    end = time.monotonic() + seconds
    while True:
        if of is not None and not of.running():
            raise AssertionError(f"{of.name} has ended before this was so: {what}")
        error: Exception | None = None
        try:
            if condition():
                return
        except (OSError, AssertionError) as caught:
            error = caught
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}" + (f" ({error})" if error else ""))
        time.sleep(0.1)


def bind(source: Path, target: Path, read_only: bool = True) -> None:
    sh("mount", "--bind", str(source), str(target))
    if read_only:
        sh("mount", "-o", "remount,bind,ro", str(target))


def tree_of_host(work: Path, program: Path, models: Path) -> Path:
    """A file tree like the image's, from this machine's libraries and the given program."""
    tree = work / "tree"
    for name in ("usr/bin", "usr/lib", "usr/lib64"):
        if (Path("/") / name).is_dir():
            (tree / name).mkdir(parents=True)
            bind(Path("/") / name, tree / name)
    for name in ("bin", "lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    for name in ("etc", "data", "usr/local/bin", MODELS[1:]):
        (tree / name).mkdir(parents=True)
    (tree / "etc/nsswitch.conf").write_text("hosts: files\n")
    shutil.copy(program, tree / PROGRAM[1:])
    # Writable: unlike the image, it has only the wheel at first, and the router converts it.
    (work / "models").mkdir()
    for model in models.iterdir():
        if model.suffix in (".hfmodel", ".whl"):
            shutil.copy(model, work / "models" / model.name)
            (work / "models" / model.name).chmod(0o644)
    os.chown(work / "models", USER, USER)
    bind(work / "models", tree / MODELS[1:], read_only=False)
    return tree


def certificates(objects: Objects, tree: Path) -> dict[str, dict[str, str]]:
    """The Secrets that `tls.mode: secrets` wants, made by the program as an operator would."""
    config = tomllib.loads(objects.config)
    if config["tls"]["mode"] == "off":
        return {}
    seeds = config["cluster"]["seeds"]
    out = Path("/tmp/certs")
    (tree / "tmp").mkdir(exist_ok=True)
    asked = [word for seed in seeds for word in ("--node", seed)] + ["--router", "1", "--operator", "1"]
    sh("chroot", str(tree), PROGRAM, "ctl", "certs", "--out", str(out), *asked)
    made = tree / out.relative_to("/")
    prefix = objects.nodes["metadata"]["name"].removesuffix("-node") + "-tls"
    files = {f"node-{number}": f"node-{seed.replace(':', '-')}" for number, seed in enumerate(seeds)}
    files |= {"router": "router-1", "operator": "operator-1"}
    secrets = {
        f"{prefix}-{who}": {
            "ca.crt": base64.b64encode((made / "ca.pem").read_bytes()).decode(),
            "tls.crt": base64.b64encode((made / f"{file}.pem").read_bytes()).decode(),
            "tls.key": base64.b64encode((made / f"{file}.key").read_bytes()).decode(),
        }
        for who, file in files.items()
    }
    shutil.rmtree(made)
    return secrets


class Cluster:
    """The pods of one rendered release."""

    def __init__(self, objects: Objects, tree: Path, work: Path) -> None:
        self.objects, self.tree, self.work = objects, tree, work
        self.pods: dict[str, Pod] = {}
        self.secrets = {item["metadata"]["name"]: item["data"] for item in objects.of("Secret")}
        self.secrets |= certificates(objects, tree)
        self.configs = {item["metadata"]["name"]: item["data"] for item in objects.of("ConfigMap")}
        # Kubernetes makes the places where it mounts.
        for name in ("etc/holdfast", "etc/holdfast-key", "etc/holdfast-tls", "proc", "dev"):
            (tree / name).mkdir(parents=True, exist_ok=True)
        for name in ("etc/hosts", "dev/null", "dev/urandom"):
            if not (tree / name).exists():
                (tree / name).touch()
        sh("mount", "-t", "tmpfs", "tmpfs", "/run")
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "pods", "type", "bridge")
        sh("ip", "address", "add", "10.244.0.1/24", "dev", "pods")
        sh("ip", "link", "set", "pods", "up")
        nodes = objects.nodes
        for number in range(nodes["spec"]["replicas"]):
            self.add(f"{nodes['metadata']['name']}-{number}", nodes["spec"]["template"])
        self.add(objects.routers["metadata"]["name"], objects.routers["spec"]["template"])
        self.add("init", objects.init["spec"]["template"])
        self.add("test", objects.one("Pod"))
        self.write_hosts()

    def add(self, name: str, manifest: Manifest) -> None:
        self.pods[name] = Pod(self, name, manifest, f"10.244.0.{len(self.pods) + 11}")

    def component(self, name: str) -> list["Pod"]:
        return [pod for pod in self.pods.values() if pod.component == name]

    def write_hosts(self) -> None:
        """What the DNS of Kubernetes would answer."""
        domain = f"{NAMESPACE}.svc.cluster.local"
        lines = ["127.0.0.1 localhost"]
        for node in self.component("node"):
            lines.append(f"{node.address} {node.name}.{self.objects.nodes['spec']['serviceName']}.{domain}")
        for router in self.component("router"):
            lines.append(f"{router.address} {router.name.removesuffix('-router')}.{domain}")
        (self.work / "hosts").write_text("\n".join(lines) + "\n")


class Pod:
    """One pod: its address and volumes stay, its process comes and goes."""

    def __init__(self, cluster: Cluster, name: str, manifest: Manifest, address: str) -> None:
        self.cluster, self.name, self.manifest, self.address = cluster, name, manifest, address
        self.component = manifest["metadata"]["labels"]["app.kubernetes.io/component"]
        self.process: subprocess.Popen[str] | None = None
        self.folder = cluster.work / name
        (self.folder / "root").mkdir(parents=True)
        # An interface's name has at most 15 characters.
        link = f"v{address.rpartition('.')[2]}"
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "link", "set", link, "master", "pods", "up")
        sh("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")

    # --- What the manifest says ---------------------------------------------------------------

    @property
    def container(self) -> Manifest:
        return container(self.manifest)

    def environment(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in self.container.get("env", []):
            if "value" in item:
                found[item["name"]] = re.sub(r"\$\((\w+)\)", lambda known: found[known[1]], item["value"])
            elif "fieldRef" in item["valueFrom"]:
                assert item["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
                found[item["name"]] = self.name
            else:
                asked = item["valueFrom"]["secretKeyRef"]
                found[item["name"]] = base64.b64decode(self.cluster.secrets[asked["name"]][asked["key"]]).decode()
        return {**IMAGE_ENV, **found}

    def volume(self, name: str) -> Path:
        """The folder of a volume: made once, for volumes of data; written anew, for others."""
        folder = self.folder / name
        if folder.exists():
            return folder
        folder.mkdir()
        volumes = {item["name"]: item for item in self.manifest["spec"].get("volumes", [])}
        if name not in volumes:
            # A claim: root's, and open to the pod's group.
            os.chown(folder, 0, USER)
            folder.chmod(0o2770)
            (folder / "lost+found").mkdir(mode=0o700)
            return folder
        volume = volumes[name]
        if "configMap" in volume:
            files = {key: text.encode() for key, text in self.cluster.configs[volume["configMap"]["name"]].items()}
        elif "projected" in volume:
            files = {}
            for source in volume["projected"]["sources"]:
                data = self.cluster.secrets[source["secret"]["name"]]
                files |= {item["path"]: base64.b64decode(data[item["key"]]) for item in source["secret"]["items"]}
        else:
            data = self.cluster.secrets[volume["secret"]["secretName"]]
            files = {item["path"]: base64.b64decode(data[item["key"]]) for item in volume["secret"]["items"]}
        for file, content in files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_bytes(content)
            os.chown(folder / file, 0, USER)
            (folder / file).chmod(0o440)
        return folder

    # --- Running ------------------------------------------------------------------------------

    def script(self) -> str:
        root = shlex.quote(str(self.folder / "root"))
        lines = [
            f"mount --rbind {shlex.quote(str(self.cluster.tree))} {root}",
            f"mount -o remount,bind,ro {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --bind {shlex.quote(str(self.cluster.work / 'hosts'))} {root}/etc/hosts",
        ]
        lines += [f"mount --bind /dev/{name} {root}/dev/{name}" for name in ("null", "urandom")]
        for mount in self.container.get("volumeMounts", []):
            target = f"{root}{mount['mountPath']}"
            lines.append(f"mount --bind {shlex.quote(str(self.volume(mount['name'])))} {target}")
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {target}")
        words = self.container.get("command", [PROGRAM]) + self.container.get("args", [])
        settings = [f"{key}={value}" for key, value in self.environment().items()]
        identity = f"--userspec={USER}:{USER} --groups={USER}"
        lines.append(f"exec chroot {identity} {root} /usr/bin/env -i -C /data {shlex.join(settings + words)}")
        return "\n".join(lines)

    def start(self) -> None:
        log = (self.folder / "log").open("a")
        command = ["ip", "netns", "exec", self.name, "unshare", "--mount", "bash", "-euc", self.script()]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, text=True)
        log.close()

    def run(self, seconds: float = 120) -> int:
        """Runs a pod that ends; gives its exit code."""
        self.start()
        return self.wait(seconds)

    def wait(self, seconds: float) -> int:
        assert self.process
        return self.process.wait(timeout=seconds)

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, signal: int) -> None:
        assert self.process
        self.process.send_signal(signal)

    def execute(self, command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Runs a command inside, as hooks do."""
        assert self.process
        inside = ["nsenter", "-t", str(self.process.pid), "-m", "-n", "-r", "-S", str(USER), "-G", str(USER)]
        return subprocess.run(inside + command, capture_output=True, text=True, timeout=seconds, check=False)

    def log(self) -> str:
        """The end of what it said."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    # --- Asking -------------------------------------------------------------------------------

    def get(self, path: str, port: str = "admin") -> tuple[int, str]:
        """Status and body of a GET on a port of the pod, by the port's name."""
        (number,) = [item["containerPort"] for item in self.container["ports"] if item["name"] == port]
        try:
            with urllib.request.urlopen(f"http://{self.address}:{number}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def probe(self, name: str) -> int:
        """What a probe of the manifest gets; 0 if nothing answers."""
        asked = self.container[f"{name}Probe"]["httpGet"]
        try:
            return self.get(asked["path"], asked["port"])[0]
        except OSError:
            return 0

    def readiness(self) -> dict[str, object]:
        return json.loads(self.get(self.container["readinessProbe"]["httpGet"]["path"])[1])
