"""The image: how it is written, and, where scripts/test-image.sh has built it, what it is."""

import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from chart import container, render
from test_chart_runs import play


@pytest.fixture(scope="module")
def dockerfile(root: Path) -> str:
    return (root / "Dockerfile").read_text(encoding="utf-8")


def instructions(dockerfile: str, name: str) -> list[str]:
    """The arguments of every such instruction, on one line each."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE))
    return re.findall(rf"^{name}\s+(.*)$", joined, flags=re.MULTILINE)


def test_hadolint_finds_nothing(root: Path) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [str(hadolint), "--no-color", "--failure-threshold", "style", str(root / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_every_base_has_a_tag_and_room_for_a_digest(dockerfile: str) -> None:
    defaults = dict(argument.split("=", 1) for argument in instructions(dockerfile, "ARG"))
    for base in instructions(dockerfile, "FROM"):
        name = re.fullmatch(r"docker\.io/library/(\w+):\$\{(\w+_TAG)\}\$\{(\w+_DIGEST)\}(?: AS \w+)?", base)
        assert name, base
        assert re.search("[0-9]|bookworm", defaults[name[2]]) and "latest" not in defaults[name[2]]
        assert defaults[name[3]] == ""


def test_builds_follow_the_lock(dockerfile: str) -> None:
    builds = re.findall(r"cargo build [^\n]*", dockerfile)
    assert len(builds) == 2 and all("--locked" in build for build in builds)
    # The second builds what the first has prepared.
    assert len({build.rstrip(" \\") for build in builds}) == 1


def test_nothing_of_a_registry_is_written_down(root: Path, dockerfile: str) -> None:
    """Where packages come from is the business of the machine that builds."""
    for text in (dockerfile, (root / "scripts/test-image.sh").read_text(encoding="utf-8")):
        assert not re.search(r"https?://(?!127\.0\.0\.1)|index-url|extra-index|--mirror", text)


def test_the_context_has_what_is_copied_and_nothing_private(root: Path, dockerfile: str) -> None:
    allowed = [
        line[1:]
        for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    for copy in instructions(dockerfile, "COPY"):
        if copy.startswith("--from"):
            continue
        for source in copy.split()[:-1]:
            assert source == "." or any(source == path or source.startswith(f"{path}/") for path in allowed), source
    members = re.search(r"^members = \[(.*)\]", (root / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert members
    for member in re.findall('"([^"]+)"', members[1]):
        assert member in allowed, f"{member} is a member of the workspace and not in the context"
    assert not {"data", "target", ".git"} & set(allowed)


def test_the_context_has_what_the_code_includes(root: Path) -> None:
    ignored = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept_out = [line.removeprefix("**/") for line in ignored if line.startswith("**/")]
    allowed = [root / line[1:] for line in ignored if line.startswith("!")]
    found = 0
    for folder in allowed:
        for file in folder.rglob("*.rs"):
            for name in re.findall(r'include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?"([^"]+)"', file.read_text(encoding="utf-8")):
                path = (file.parent / name).resolve()
                found += 1
                assert any(path.is_relative_to(place) for place in allowed), f"{file} includes {name}"
                assert not any(fnmatch(path.name, pattern) for pattern in kept_out), f"{file} includes {name}"
    assert found


def test_the_image_and_the_chart_agree(dockerfile: str) -> None:
    pods = render().pods()
    uid = str(pods["node"]["spec"]["securityContext"]["runAsUser"])
    assert instructions(dockerfile, "USER") == [f"{uid}:{uid}"]
    (entry,) = instructions(dockerfile, "ENTRYPOINT")
    hook = container(pods["node"])["lifecycle"]["preStop"]["exec"]["command"]
    assert json.loads(entry) == [hook[0]]
    mounts = [mount["mountPath"] for mount in container(pods["node"])["volumeMounts"]]
    (volume,) = instructions(dockerfile, "VOLUME")
    assert set(json.loads(volume)) <= set(mounts)
    (exposed,) = instructions(dockerfile, "EXPOSE")
    ports = {str(port["containerPort"]) for name in ("node", "router") for port in container(pods[name])["ports"]}
    assert set(exposed.split()) == ports


def built(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        pytest.fail("there is no image: run scripts/test-image.sh")
    return value


@pytest.fixture(scope="module")
def image() -> dict[str, object]:
    shown = subprocess.run(
        ["buildah", "inspect", "--type", "image", built("HOLDFAST_IMAGE")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(shown.stdout)["OCIv1"]["config"]


@pytest.mark.long
def test_it_is_configured_to_run_without_rights(image: dict[str, object]) -> None:
    assert image["User"] == "10001:10001"
    assert image["Entrypoint"] == ["/usr/local/bin/holdfast"]
    assert "/data" in image["Volumes"]
    assert "HOLDFAST_MODEL_DIR=/usr/share/holdfast/models" in image["Env"]
    labels = image["Labels"]
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert re.fullmatch("[0-9a-f]{40}|unknown", labels["org.opencontainers.image.revision"])


@pytest.mark.long
def test_it_holds_the_program_and_the_model_and_no_secret() -> None:
    tree = Path(built("HOLDFAST_IMAGE_TREE"))
    program = tree / "usr/local/bin/holdfast"
    assert program.stat().st_mode & 0o777 == 0o755
    models = list((tree / "usr/share/holdfast/models").iterdir())
    assert [model.name for model in models] == ["use-multilingual-v3.hfmodel"]
    assert models[0].stat().st_size > 1 << 20
    data = (tree / "data").stat()
    assert (data.st_uid, data.st_gid) == (10001, 10001)
    for left in ("src", "weights", "usr/local/bin/holdfast-model", "usr/bin/gcc", "etc/pip.conf"):
        assert not (tree / left).exists(), left
    # The folder itself is where the script mounted this machine's crates during the build.
    assert not [path for path in (tree / "usr/local/cargo").rglob("*") if not path.is_dir()]


@pytest.mark.long
def test_the_pods_run_from_it(tmp_path: Path) -> None:
    play(tmp_path, "--tree", built("HOLDFAST_IMAGE_TREE"), seconds=600)
