"""Random differentiated programs as cases: `tests.property.differentiated_cases:SEEDS_100_107` has those of two seeds."""

from typing import Any

from tests.property.random_differentiated import make_case


def __getattr__(name: str) -> Any:
    kind, _, numbers = name.partition("_")
    seeds = numbers.split("_")
    if kind != "SEEDS" or not all(seed.isdigit() for seed in seeds):
        raise AttributeError(name)
    return tuple(make_case(int(seed)) for seed in seeds)
