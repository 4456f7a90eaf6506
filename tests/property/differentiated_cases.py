"""Random differentiated programs as cases: `tests.property.differentiated_cases:SEEDS_100_25` are 25 from 100 on."""

from typing import Any

from ligerdiag.case import Case
from tests.property.random_differentiated import make_case


def __getattr__(name: str) -> Any:
    kind, _, numbers = name.partition("_")
    first, _, count = numbers.partition("_")
    if kind != "SEEDS" or not (first.isdigit() and count.isdigit()):
        raise AttributeError(name)
    return make_cases(int(first), int(count))


def make_cases(first: int, count: int) -> tuple[Case, ...]:
    """The cases of so many seeds, from the first on."""
    return tuple(make_case(seed) for seed in range(first, first + count))
