"""The processes of a test run share few worker templates, which import quickly."""

import gc
import json
import os
import subprocess
import sys

import pytest

from tests import scheduling
from tests.scheduling import MAX_PROCESSES, PROCESSES_PER_CORE, count_processes
from tests.shared_run import NO_BYTECODE, SET_BY_JAX

ADDED = """
import json, os
before = dict(os.environ)
import jax
print(json.dumps({name: value for name, value in os.environ.items() if before.get(name) != value}))
"""


def test_every_process_writes_bytecode() -> None:
    assert NO_BYTECODE not in os.environ
    assert not sys.dont_write_bytecode


def test_nobody_looks_for_garbage_among_the_tests() -> None:
    assert gc.isenabled()
    assert gc.get_threshold()[0] > 5000
    assert gc.get_freeze_count() > 50_000


def test_an_import_of_jax_adds_nothing_to_the_environment_of_a_run() -> None:
    """Workers with other variables start from another template, which imports everything again."""
    words = [sys.executable, "-c", ADDED]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout) == {}
    bare = {name: value for name, value in os.environ.items() if name not in SET_BY_JAX}
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600, env=bare)
    assert json.loads(done.stdout).items() <= SET_BY_JAX.items()


def test_each_core_runs_several_processes_up_to_a_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cores, processes in ((2, 2 * PROCESSES_PER_CORE), (96, MAX_PROCESSES)):
        monkeypatch.setattr(scheduling.os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert count_processes() == processes
