"""An environment made by a plain `pip install 'ligerdiag[jax-triton]'`, with newer versions than those pinned here."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.documents import ROOT

UV = os.environ.get("UV", "uv")
"""`uv run` sets it to its own path."""
OFFLINE = (
    "error sending request",
    "failed to lookup address",
    "Network connectivity is disabled",
    "Connection refused",
)


@pytest.fixture(scope="session")
def plain_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the Python of one environment that all tests and workers share; it holds the wheel, pytest and a
    newcomer's optax.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "plain"
    folder.mkdir(exist_ok=True)
    made = folder / "made"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make_environment(folder)
            made.touch()
    return folder / "venv" / "bin" / "python"


def _make_environment(folder: Path) -> None:
    _run_uv("build", "--wheel", "-q", "-o", str(folder), cwd=ROOT)
    (wheel,) = folder.glob("ligerdiag-*.whl")
    _run_uv("venv", "-q", "--no-config", "--python", sys.executable, "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    packages = (f"{wheel}[jax-triton]", "pytest", "optax")
    _run_uv("pip", "install", "-q", "--no-config", "--python", str(python), *packages, cwd=folder)


def _run_uv(*words: str, cwd: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_CONSTRAINT")}
    done = subprocess.run(
        [UV, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode and any(sign in done.stderr for sign in OFFLINE):
        pytest.skip(f"packages cannot be had: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
