"""Processes that read kernels end with the process that started them, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.replay.processes import find_descendants, is_running

ROOT = Path(__file__).parents[2]
SCRIPT = """
from ligerdiag.effects.isolated import compute_effects_isolated
from tests.effects.test_isolated import make_slow
compute_effects_isolated([make_slow()], cache_directory=None, timeout=600)
"""
SECONDS = 600.0


@pytest.mark.usefixtures("own_templates")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left(number: signal.Signals, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment) as parent:
        deadline = time.monotonic() + SECONDS
        while not (below := find_descendants(parent.pid)) and parent.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        parent.send_signal(number)
    assert below
    deadline = time.monotonic() + SECONDS
    while any(map(is_running, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [process for process in below if is_running(process)] == []
