"""A small part of tools/fuzz_inspect.py: hostile input ends in a report or in one line."""

from pathlib import Path

from ligerdiag.compile.cache import Cache
from tools.fuzz_inspect import SECONDS, load_seeds, run

COUNT = 300


def test_hostile_input_ends_cleanly(dumps: Path, cache: Path) -> None:
    seeds = load_seeds([dumps / name for name in ("flce", "losses-untagged", "loop-untagged")])
    tally = run(seeds, 0, COUNT, Cache(cache))
    assert not tally.failures, "\n".join(where for _, _, where in tally.failures)
    assert sum(tally.outcomes.values()) == COUNT
    assert tally.slowest < SECONDS
    assert {"could not analyse", "findings"} <= set(tally.outcomes)
