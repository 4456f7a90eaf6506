"""Random programs as cases, in a file for `ligerdiag check`."""

from functools import partial
from typing import Any

from ligerdiag.model.case import Arg, Case

SEEDS = (
    10_000,
    12_058,
    14_039,
    11_035,
    12_003,
    14_061,
    16_029,
    17_017,
    18_064,
    19_038,
    20_079,
    24_003,
)
"""Programs with branches, unrolled loops, merged calls and merged values; several once broke or misled the analysis."""


def compute(seed: int, x: Any, y: Any) -> dict[str, Any]:
    from tests.property.random_programs import make_program

    return make_program(seed, hidden=True)(x, y)


CASES = tuple(
    Case(
        name="random", function=partial(compute, seed), args=(Arg(shape=(16, 16)), Arg(shape=(16, 16))), params=(seed,)
    )
    for seed in SEEDS
)
