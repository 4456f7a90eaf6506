"""A small part of `tools.claims`: no mutation of a real pair of modules makes a verdict better than its claim allows."""

from pathlib import Path

from tools.claims.pairs import load_pair
from tools.claims.tally import run

COUNT = 250


def test_no_mutation_makes_a_verdict_better_than_it_may(dumps: Path, cache: Path) -> None:
    pairs = [load_pair(dumps / name) for name in ("losses", "losses-untagged", "loop", "loop-untagged")]
    tally = run(pairs, 0, COUNT, cache / "effects")
    assert not tally.contradictions, tally.render()
    assert not tally.tracebacks, tally.render()
    assert tally.done == COUNT
    assert {"refused", "other"} <= set(tally.outcomes)
