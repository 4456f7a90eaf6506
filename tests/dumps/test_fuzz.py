"""A small part of tools/fuzz_inspect.py: hostile input ends in a report or in one line.

`python tools/fuzz_inspect.py SEED COUNT JOBS FOLDER...` does many more.
"""

from pathlib import Path

from tools.fuzz_inspect import SECONDS, run_batches

COUNT = 300


def test_hostile_input_ends_cleanly(dumps: Path, cache: Path, tmp_path: Path) -> None:
    """In processes of their own: what this one has of memory by now would count against the limit."""
    folders = [dumps / name for name in ("flce", "losses-untagged", "loop-untagged")]
    tally = run_batches(folders, 0, COUNT, 2, tmp_path, cache=cache)
    assert not tally.failures, "\n".join(where for _, _, where in tally.failures)
    assert sum(tally.outcomes.values()) == COUNT
    assert tally.slowest < SECONDS
    assert {"could not analyse", "findings"} <= set(tally.outcomes)
