"""A worker that neither reads nor answers is reported; one that answers is heard in a process with many open files."""

import os
import resource
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


def test_a_worker_answers_a_process_that_has_more_than_1024_open_files() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2048:
        pytest.skip("this system allows fewer than 2048 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    ours, theirs = socket.socketpair()
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] < 1024:
        opened.append(os.dup(opened[0]))
    process = subprocess.Popen(["cat"], stdin=theirs, stdout=theirs, start_new_session=True)
    try:
        with ours, theirs, socket.socket(fileno=os.dup(ours.fileno())) as channel:
            assert channel.fileno() > 1024
            assert WorkerProcess(process, channel).ask("hello\n", timeout=60) == "hello"
    finally:
        for one in opened:
            os.close(one)
        process.kill()
        process.wait()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
