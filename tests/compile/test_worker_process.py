"""A worker that neither reads nor answers is reported."""

import socket
import subprocess
import sys

import pytest

from ligerdiag.workers.process import WorkerProcess, WorkerTimeout

MUCH = "x" * (64 << 20) + "\n"
"""More than a socket buffers if nobody reads."""


@pytest.mark.parametrize("line", ["little\n", MUCH], ids=["that does not answer", "that does not read"])
def test_a_worker_that_does_not_read_times_out(line: str) -> None:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        with ours, theirs, pytest.raises(WorkerTimeout, match=r"did not answer within 0\.05 s"):
            WorkerProcess(process, ours).ask(line, timeout=0.05)
    finally:
        process.kill()
        process.communicate()
