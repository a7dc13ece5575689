"""The chart's pods, run by this machine's program: what the manifests say is what the program does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]


def play(work: Path, *arguments: str, seconds: float) -> None:
    """Plays the scenario in namespaces of its own, which take all that it started with them."""
    if os.geteuid() != 0:
        pytest.skip("only root may make the namespaces that pods run in")
    script = Path(__file__).with_name("scenario.py")
    done = subprocess.run(
        [*NAMESPACES, sys.executable, str(script), "--work", str(work), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "ok it stops within its time with 0" in done.stdout


def model_folder() -> Path:
    named = os.environ.get("HOLDFAST_MODEL_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(named) if named else Path(cache) / "holdfast" / "models"


def test_the_pods_found_a_cluster_and_outlive_their_nodes(holdfast_bin: Path, tmp_path: Path) -> None:
    models = model_folder()
    if not models.is_dir():
        pytest.fail(f"no model in {models}: run scripts/fetch-model.sh")
    play(tmp_path, "--program", str(holdfast_bin), "--models", str(models), seconds=400)
