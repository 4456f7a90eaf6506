"""A mutation: a change of a pair of modules with a claim about the verdicts afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

from tools.claims.pairs import Pair


class Claim(Enum):
    """A claim about every output afterwards; a refusal to judge the pair satisfies any claim."""

    NOT_BETTER = "not better"
    """The program means what it meant: an output is what it was, worse, or unknown."""
    NOT_FRESH = "not fresh"
    """A write, a tag, a buffer or an alias is lost: an output that was wrong, unknown or right by luck is not fresh."""
    STALE_STAYS = "stale stays"
    """The kernel really overwrites something else: what saw too much of it is right now, and to say so is no mistake. What
    missed the write, or of which that was not known, misses it still."""
    MISSED = "missed"
    """A call is gone from the schedule: as above, and if its write is the program's only one, then no output that is
    meant to see it is fresh, whatever it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One kind of change."""

    name: str
    claim: Claim
    weight: int
    """How often it is drawn."""
    is_last: bool
    """No other one follows: on both sides it would make another program, of which nothing is claimed."""
    apply: Callable[[Pair, Random], bool]
    """Changes the pair in place; False where there is nothing of its kind to change."""


MUTATIONS: dict[str, Mutation] = {}
"""By name, in the order of the files."""


def mutation(
    claim: Claim, weight: int = 1, *, is_last: bool = False
) -> Callable[[Callable[[Pair, Random], bool]], Mutation]:
    """Decorator: registers the function under its name."""

    def register(function: Callable[[Pair, Random], bool]) -> Mutation:
        made = Mutation(name=function.__name__, claim=claim, weight=weight, is_last=is_last, apply=function)
        assert made.name not in MUTATIONS
        MUTATIONS[made.name] = made
        return made

    return register
