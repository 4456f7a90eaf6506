"""Closing a pool while its template imports ends the template, and a waiting job does not start another one."""

import subprocess
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ligerdiag.errors import LigerdiagError
from ligerdiag.model.jobs import Job, Source
from ligerdiag.workers import templates
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.templates import VARIABLE

MODULE = "tests.compile.programs.never_ready"


def make_job(name: str) -> Job[str]:
    return Job(source=Source(module=name, root="/"), name=name, render=lambda log: f"{log}\n", parse=str)


def test_a_job_that_waits_for_the_imports_starts_no_worker_after_the_pool_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    began, waits = Event(), Event()
    started: list[subprocess.Popen[bytes]] = []
    start = templates.start_process

    def count(*words: Any) -> Any:
        process, channel = start(*words)
        started.append(process)  # type: ignore[arg-type]
        began.set()
        return process, channel

    monkeypatch.setattr(templates, "start_process", count)
    root = Path(__file__).parents[2]
    pool = Pool(jobs=2, module=MODULE, environment={"PYTHONPATH": str(root)})
    first = pool.submit(make_job("first"))
    assert began.wait(600)
    second = pool.submit(make_job("second"), waits.set)
    assert waits.wait(600)
    pool.close()
    for future in (first, second):
        with pytest.raises(LigerdiagError):
            future.result(timeout=600)
    assert len(started) == 1
    assert started[0].poll() is not None
