"""A small part of tools/fuzz_inspect.py: hostile input ends in a report or in one line.

`python tools/fuzz_inspect.py SEED COUNT JOBS FOLDER...` runs many more.
"""

from pathlib import Path

import pytest

from tools.fuzz_inspect import SECONDS, run_batches


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.nightly)])
def test_hostile_input_ends_cleanly(count: int, dumps: Path, cache: Path, tmp_path: Path) -> None:
    """Runs in separate processes: the memory of this one would count against the limit."""
    folders = [dumps / name for name in ("flce", "losses-untagged", "loop-untagged")]
    tally = run_batches(folders, 0, count, 2, tmp_path, cache=cache)
    assert not tally.failures, "\n".join(where for _, _, where in tally.failures)
    assert sum(tally.outcomes.values()) == count
    assert tally.slowest < SECONDS
    assert {"could not analyse", "findings"} <= set(tally.outcomes)
