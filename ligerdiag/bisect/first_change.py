"""Between which members of an ordered list an answer changes. What the members are, and what is asked, is the caller's.

1. Where the ends differ, binary search finds one change. There may be others: `is_whole` says whether all were looked for.
2. Where the ends are equal, or when asked to, every member is asked and every change is found.
3. A member without an answer is passed over: the change then lies somewhere between its neighbours that have one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

type Ask[V] = Callable[[Sequence[int]], Sequence[V | None]]
"""The answers at these positions; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Two positions with different answers, and none between them that has an answer."""

    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes[V]:
    """The result of a search."""

    changes: tuple[Change, ...]
    """In the order of the list."""
    answers: dict[int, V | None]
    """Position to answer, of those that were asked, in the order of the list."""
    is_whole: bool
    """Every member was asked: there are no other changes."""


def find_changes[V](count: int, ask: Ask[V], *, verify: bool = False) -> Changes[V]:
    """The changes among `count` members; `verify` asks every member. One that is asked is not asked again."""
    answers: dict[int, V | None] = {}

    def look(positions: Sequence[int]) -> None:
        missing = [position for position in positions if position not in answers]
        answers.update(zip(missing, ask(missing), strict=True) if missing else ())

    look(sorted({0, count - 1}) if count else ())
    first = _find_told(range(count), answers, look)
    last = _find_told(range(count - 1, -1, -1), answers, look)
    if verify or first is None or last is None or answers[first] == answers[last]:
        look(range(count))
        told = [position for position in range(count) if answers[position] is not None]
        changes = [Change(before=a, after=b) for a, b in pairwise(told) if answers[a] != answers[b]]
    else:
        changes = [_halve(first, last, answers, look)]
    ordered = {position: answers[position] for position in sorted(answers)}
    return Changes(changes=tuple(changes), answers=ordered, is_whole=len(ordered) == count)


def _halve[V](low: int, high: int, answers: dict[int, V | None], look: Callable[[Sequence[int]], None]) -> Change:
    """Narrows down the change between low and high, whose answers differ."""
    while True:
        middle = (low + high) // 2
        between = sorted(range(low + 1, high), key=lambda position: (abs(position - middle), position))
        told = _find_told(between, answers, look)
        if told is None:
            return Change(before=low, after=high)
        if answers[told] == answers[low]:
            low = told
        else:
            high = told


def _find_told[V](
    positions: Sequence[int], answers: dict[int, V | None], look: Callable[[Sequence[int]], None]
) -> int | None:
    """Returns the first of the positions that has an answer; asks one after the other."""
    for position in positions:
        look([position])
        if answers[position] is not None:
            return position
    return None
