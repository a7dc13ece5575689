"""What the tests of the image, the chart and the dashboards share.

Run them with: "$(scripts/python-env.sh)" -m pytest tests/deploy -m "not long"
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def holdfast_bin() -> Path:
    """The program under test: $HOLDFAST_BIN, else what `make build` leaves."""
    path = Path(os.environ.get("HOLDFAST_BIN") or ROOT / "target" / "debug" / "holdfast")
    if not path.is_file():
        pytest.fail(f"{path} is not there: run `make build`, or name the program in HOLDFAST_BIN")
    return path.resolve()


@pytest.fixture(scope="session")
def holdfast(holdfast_bin: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program with the given arguments; of HOLDFAST_ variables it sees only those given."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}

    def run(
        *arguments: str, environment: dict[str, str] | None = None, timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(holdfast_bin), *arguments],
            env={**own, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run
