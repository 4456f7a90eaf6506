"""Finds all minimal sets of knobs for which a predicate holds, and between which members of a list an answer changes.

1. Where the ends differ, binary search finds one change. There may be others: `is_whole` says whether all were looked for.
2. Where the ends are equal, or when asked to, every member is asked and every change is found.
3. A member without an answer is passed over: the change then lies somewhere between its neighbours that have one.

All minimal sets of knobs for which a predicate holds. The caller defines the knobs and the predicate.

1. A set is *minimal* when the predicate holds for it and for no proper subset of it. So no superset of a minimal set needs
   to be tried, whatever the predicate is.
2. With few knobs all sets are tried, smaller ones first, except those that 1 excludes. The answer is certain.
3. With many knobs the predicate is assumed to be monotone: one more knob does no harm. A set that holds is shrunk by
   delta debugging until no single knob can be left out. The complements of the minimal hitting sets of all that was
   found are the largest sets that contain none of it: when each of them fails, there are no further minimal sets.
   `Completeness` says that this rests on an assumption, and `is_monotone` whether a trial has shown it to be wrong.
4. A set that could not be judged counts as one that does not hold, and is listed.
5. The tried sets are a plain record, and the answer is read from it: a set that holds, of which all sets with one knob
   less were tried and do not hold. A search that is given the record of an earlier one asks nothing twice. Without one
   it takes the same steps each time, even if sets that are judged at the same time come back in another order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, pairwise

type Ask[V] = Callable[[Sequence[int]], Sequence[V | None]]
"""The answers at these positions; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChange:
    """Two positions with different answers, and none between them that has an answer."""

    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes[V]:
    """The result of a search."""

    changes: tuple[AnswerChange, ...]
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
        changes = [AnswerChange(before=a, after=b) for a, b in pairwise(told) if answers[a] != answers[b]]
    else:
        changes = [_halve(first, last, answers, look)]
    ordered = {position: answers[position] for position in sorted(answers)}
    return Changes(changes=tuple(changes), answers=ordered, is_whole=len(ordered) == count)


def _halve[V](low: int, high: int, answers: dict[int, V | None], look: Callable[[Sequence[int]], None]) -> AnswerChange:
    """Narrows down the change between low and high, whose answers differ."""
    while True:
        middle = (low + high) // 2
        between = sorted(range(low + 1, high), key=lambda position: (abs(position - middle), position))
        told = _find_told(between, answers, look)
        if told is None:
            return AnswerChange(before=low, after=high)
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


type Knobs = frozenset[int]
"""Numbers of the knobs that are turned."""
type Predicate = Callable[[Sequence[Knobs]], Sequence[bool | None]]
"""Returns for each set whether the predicate holds; None where that could not be determined."""

EXHAUSTIVE = 6
"""Up to this number of knobs every set is tried."""


class Completeness(StrEnum):
    """Whether there may be other minimal sets than those found."""

    CERTAIN = "certain"
    """There are none."""
    IF_MONOTONE = "if monotone"
    """There are none, if no knob does harm."""
    LIMITED = "limited"
    """There may be: the limit on trials came first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalSets:
    """The result of a search."""

    sets: tuple[Knobs, ...]
    """Smallest first; all sets with one knob less were tried."""
    completeness: Completeness
    is_monotone: bool
    """No trial has shown that a knob more does harm."""
    untold: tuple[Knobs, ...]
    """Sets that could not be judged."""


class _LimitError(Exception):
    """No more trials are allowed."""


@dataclass(slots=True, kw_only=True)
class MinimalSetSearch:
    """The search, and what it knows so far."""

    count: int
    """Knobs are numbered from 0 to count - 1."""
    judge: Predicate
    limit: int
    """Trials at most, those of the record included."""
    width: int = 1
    """How many sets are judged at a time if one that holds is enough."""
    tried: dict[Knobs, bool | None] = field(default_factory=dict["Knobs", bool | None])
    """Every set that was judged, in that order. Given: the record of an earlier search over the same knobs."""
    on_best: Callable[[Knobs], None] | None = None
    """Called with each set that holds and is smaller than all before."""

    @property
    def best(self) -> Knobs | None:
        """Returns the smallest set so far that holds; of equal ones the first that was tried."""
        return min((knobs for knobs, holds in self.tried.items() if holds), key=len, default=None)

    def run(self) -> MinimalSets:
        """Searches until nothing is left or the limit is reached. Ctrl-C, and what the judge raises, goes through."""
        every = frozenset(range(self.count))
        completeness = Completeness.CERTAIN
        try:
            if not self._ask([frozenset(), every])[0]:
                if self.count <= EXHAUSTIVE:
                    self._try_all()
                else:
                    completeness = Completeness.IF_MONOTONE
                    self._dualize(every)
        except _LimitError:
            completeness = Completeness.LIMITED
        return MinimalSets(
            sets=self.list_confirmed(),
            completeness=completeness,
            is_monotone=_is_monotone(self.tried),
            untold=tuple(knobs for knobs, holds in self.tried.items() if holds is None),
        )

    def list_confirmed(self) -> tuple[Knobs, ...]:
        """Returns the minimal sets that the record shows, smallest first; see 5."""
        held = [knobs for knobs, holds in self.tried.items() if holds]
        minimal = [
            knobs
            for knobs in held
            if all(less in self.tried for _, less in iterate_confirmations(knobs))
            and not any(other < knobs for other in held)
        ]
        return tuple(sorted(minimal, key=_by_size))

    def _try_all(self) -> None:
        found: list[Knobs] = []
        for size in range(1, self.count + 1):
            level = [frozenset(chosen) for chosen in combinations(range(self.count), size)]
            level = [knobs for knobs in level if not any(smaller <= knobs for smaller in found)]
            found += [knobs for knobs, holds in zip(level, self._ask(level), strict=True) if holds]

    def _dualize(self, every: Knobs) -> None:
        """See 3. Single knobs are always tried: the user wants to know if one is enough."""
        singles = [frozenset({knob}) for knob in sorted(every)]
        self._ask(singles)
        if not self.tried[every]:
            self._ask([every - knobs for knobs in singles])
        while True:
            confirmed = self.list_confirmed()
            open_ones = [
                knobs
                for knobs, holds in self.tried.items()
                if holds and not any(smaller <= knobs for smaller in confirmed)
            ]
            held = min(open_ones, key=len, default=None)
            if held is None:
                held = self._find_first([every - chosen for chosen in compute_hitting_sets(confirmed)])
            if held is None:
                return
            self._shrink(held)

    def _shrink(self, held: Knobs) -> None:
        """Delta debugging, down to a set that holds and of which no single knob can be left out."""
        pieces = 2
        while len(held) > 1:
            parts = [frozenset(part) for part in _split(sorted(held), min(pieces, len(held)))]
            part = self._find_first(parts)
            rest = None if part is not None else self._find_first([held - part for part in parts])
            if part is not None:
                held, pieces = part, 2
            elif rest is not None:
                held, pieces = rest, max(2, pieces - 1)
            elif pieces < len(held):
                pieces *= 2
            else:
                return

    def _find_first(self, candidates: Sequence[Knobs]) -> Knobs | None:
        """Returns the first that holds; the others may not have been tried."""
        for start in range(0, len(candidates), self.width):
            some = candidates[start : start + self.width]
            for knobs, holds in zip(some, self._ask(some), strict=True):
                if holds:
                    return knobs
        return None

    def _ask(self, asked: Sequence[Knobs]) -> list[bool | None]:
        """Returns the judgement of each set, from the record if it is there. Raises _LimitError after the last one
        allowed."""
        missing = list(dict.fromkeys(knobs for knobs in asked if knobs not in self.tried))
        allowed = missing[: max(0, self.limit - len(self.tried))]
        before = self.best
        if allowed:
            self.tried.update(zip(allowed, self.judge(allowed), strict=True))
        best = self.best
        if best is not None and best != before and self.on_best is not None:
            self.on_best(best)
        if len(allowed) < len(missing):
            raise _LimitError
        return [self.tried[knobs] for knobs in asked]


def compute_hitting_sets(sets: Sequence[Knobs]) -> tuple[Knobs, ...]:
    """Returns all minimal sets that have a member in common with each of these, by Berge's multiplication; none for an
    empty one."""
    hitting: list[Knobs] = [frozenset()]
    for one in sets:
        grown = dict.fromkeys(
            chosen if chosen & one else chosen | {knob}
            for chosen in hitting
            for knob in (sorted(one) if not chosen & one else [0])
        )
        hitting = [chosen for chosen in grown if not any(other < chosen for other in grown)]
    return tuple(sorted(hitting, key=_by_size))


def iterate_confirmations(knobs: Knobs) -> Iterator[tuple[int, Knobs]]:
    """Yields each member, and the set without it."""
    for knob in sorted(knobs):
        yield knob, knobs - {knob}


def _by_size(knobs: Knobs) -> tuple[int, list[int]]:
    return len(knobs), sorted(knobs)


def _split(knobs: Sequence[int], pieces: int) -> list[Sequence[int]]:
    """Consecutive parts, as equal as can be."""
    edges = [len(knobs) * number // pieces for number in range(pieces + 1)]
    return [knobs[start:end] for start, end in pairwise(edges)]


def _is_monotone(tried: Mapping[Knobs, bool | None]) -> bool:
    held = [knobs for knobs, holds in tried.items() if holds]
    return not any(small < large for large, holds in tried.items() if holds is False for small in held)
