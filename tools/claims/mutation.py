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
    """The schedule really writes less: what saw too much of a write may be right now, and what missed it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One kind of change."""

    name: str
    claim: Claim
    weight: int
    """How often it is drawn, relative to the others."""
    apply: Callable[[Pair, Random], bool]
    """Changes the pair in place; False where there is nothing of its kind to change."""


MUTATIONS: dict[str, Mutation] = {}
"""By name, in the order of the files."""


def mutation(claim: Claim, weight: int = 1) -> Callable[[Callable[[Pair, Random], bool]], Mutation]:
    """Decorator: registers the function under its name."""

    def register(function: Callable[[Pair, Random], bool]) -> Mutation:
        made = Mutation(name=function.__name__, claim=claim, weight=weight, apply=function)
        assert made.name not in MUTATIONS
        MUTATIONS[made.name] = made
        return made

    return register
