"""Closing a pool while its template imports ends the template, and a waiting job does not start another one. Imports that
fail are no fault of the case file.
"""

import subprocess
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ligerdiag.errors import CompileError, LigerdiagError, WorkerImportError, describe_error
from ligerdiag.model.jobs import Job, Source
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers import templates
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.templates import VARIABLE

MODULE = "tests.compile.programs.never_ready"
BROKEN = "tests.compile.programs.broken_imports"
ROOT = Path(__file__).parents[2]


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
    pool = Pool(jobs=2, module=MODULE, environment={"PYTHONPATH": str(ROOT)})
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


def test_a_worker_whose_own_imports_fail_is_not_blamed_on_the_case_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    job = replace(make_job("`mine.py`"), imports_only=True)
    with (
        Pool(jobs=1, module=BROKEN, environment={"PYTHONPATH": str(ROOT)}) as pool,
        pytest.raises(CompileError) as caught,
    ):
        pool.submit(job).result(timeout=600)
    own = current_toolchain()
    assert describe_error(caught.value) == (
        f"no worker starts with toolchain `{own.name}`: `{own.python}` ended with exit code 1 during the worker's own"
        " imports: AttributeError: module `jax` lacks what the worker needs; `ligerdiag toolchains doctor default` says more"
    )


def test_imports_that_fail_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    started: list[object] = []
    start = templates.start_process

    def count(*words: Any) -> Any:
        started.append(words)
        return start(*words)

    monkeypatch.setattr(templates, "start_process", count)
    with Pool(jobs=2, module=BROKEN, environment={"PYTHONPATH": str(ROOT)}) as pool:
        for future in [pool.submit(make_job(name)) for name in ("first", "second", "third")]:
            with pytest.raises(WorkerImportError):
                future.result(timeout=600)
    assert len(started) == 1
