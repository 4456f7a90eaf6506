"""Defines a mutation: a change of a pair of modules with a claim about the verdicts afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

from tools.claims.pairs import Pair


class Claim(Enum):
    """A claim about every output afterwards; a refusal to judge the pair satisfies any claim."""

    NOT_BETTER = "not better"
    """The program keeps its meaning: an output is as it was, worse, or unknown."""
    NOT_FRESH = "not fresh"
    """A write, a tag, a buffer or an alias is lost: an output that was wrong, unknown or right by luck is not fresh."""
    STALE_STAYS = "stale stays"
    """The kernel now overwrites something else: an output that saw too much of its write is right now, and may be
    called so. An output that missed the write, or may have missed it, still does.
    """
    MISSED = "missed"
    """A call is gone from the schedule: as above, and if its write is the program's only one, no output that the author
    means to see it is fresh, whatever it was.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One kind of change."""

    name: str
    claim: Claim
    weight: int
    """Relative frequency."""
    is_last: bool
    """No other mutation follows: on both sides it would make another program, about which there is no claim."""
    apply: Callable[[Pair, Random], bool]
    """Changes the pair in place; returns False if it has nothing to change."""


MUTATIONS: dict[str, Mutation] = {}
"""By name, in the order of the files."""


def mutation(
    claim: Claim, weight: int = 1, *, is_last: bool = False
) -> Callable[[Callable[[Pair, Random], bool]], Mutation]:
    """Registers the decorated function under its name."""

    def register(function: Callable[[Pair, Random], bool]) -> Mutation:
        made = Mutation(name=function.__name__, claim=claim, weight=weight, is_last=is_last, apply=function)
        assert made.name not in MUTATIONS
        MUTATIONS[made.name] = made
        return made

    return register
