"""Random programs that differentiate through an in-place kernel: the intent is Python's, and the verdicts agree with
it.

`python -m tests.property.judge_differentiated FIRST COUNT` judges many more.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.property.judge_differentiated import judge
from tests.property.random_differentiated import BEFORE, LAYERS, READS, STEPS, VIEWS, draw_recipe
from tests.rotation import current_turn, take_turns
from tests.witness.process import open_interpreting_process

FIRST, COUNT = 0, 3
ONCE_WRONG = (
    31214,  # a product of the new and the old contents, both of which were read from the overwritten bytes
    31118,  # a kernel call in each of two pullbacks on equal cotangents, which XLA merges
    33317,  # the kernel on x and on a copy of x, which XLA merges
    31033,  # a softmax whose sum is broadcast again in the backward pass, across the boundary of a jit
)
SEEDS = (*range(FIRST, FIRST + COUNT), *take_turns(ONCE_WRONG, current_turn()))

type Rows = dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def rows(shared_cache: Path) -> Rows:
    with open_interpreting_process() as witness:
        return {row["seed"]: row for row in judge(SEEDS, witness, cache_directory=shared_cache)}


def test_every_program_is_compiled_and_compared(rows: Rows) -> None:
    assert rows.keys() == set(SEEDS)
    assert all(row["static"] and not row["not_covered"] for row in rows.values()), rows


def test_some_outputs_are_wrong_and_some_are_right(rows: Rows) -> None:
    found = [one for row in rows.values() for one in row["attributions"].values()]
    assert found.count("fresh") > COUNT / 2
    assert found.count("stale") > COUNT / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_all_judges_agree(seed: int, rows: Rows) -> None:
    assert rows[seed]["wrong"] == []


def test_recipes_vary() -> None:
    """A thousand seeds use every entry of every list."""
    recipes = [draw_recipe(seed) for seed in range(1000)]
    for name, entries in {
        "layers": LAYERS, "before": BEFORE, "view": VIEWS, "reads": READS, "step": STEPS,
    }.items():  # fmt: skip
        assert {getattr(recipe, name) for recipe in recipes} == set(entries)
    assert len(set(recipes)) > 950
