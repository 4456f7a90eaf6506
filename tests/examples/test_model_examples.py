"""The examples' own tests pass, with the pytest fixture, run as a user would."""

import os
import sys
from pathlib import Path

import pytest

from tools.running import run_process

ROOT = Path(__file__).parents[2]
WORDS = ("-m", "pytest", "-n", "0", "-p", "no:cacheprovider")


def run_examples(cache: Path, marked: str) -> None:
    environment = {**os.environ, "LIGERDIAG_CACHE_DIR": str(cache)}
    done = run_process([sys.executable, *WORDS, "-m", marked, "examples"], cwd=ROOT, environment=environment)
    assert done.code == 0, done.out + done.err
    assert "passed" in done.out


def test_a_step_of_each_model_passes_its_test(shared_cache: Path) -> None:
    run_examples(shared_cache, "not nightly")


@pytest.mark.nightly
def test_every_mode_passes_its_test(shared_cache: Path) -> None:
    run_examples(shared_cache, "nightly")
