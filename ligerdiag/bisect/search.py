"""Two generic searches, which know nothing of programs: `find_changes` finds where an answer changes along a list, and
`MinimalSetSearch` finds the minimal sets for which a predicate holds.

`find_changes` asks for the answer of every member if the first and the last answer agree or `verify` is set. Otherwise
a binary search finds one change, and there may be others (`Changes.is_whole`). Members without an answer are skipped.

`MinimalSetSearch` finds the sets of knobs for which a predicate holds, but for no proper subset of the set. A knob is one
change that a trial can make, named by a number. The search tries every set if there are few knobs. If there are many, it
assumes that the predicate is monotone, that is, that one more knob does no harm. Delta debugging shrinks a set for which the
predicate is true until no knob can be left out. The complements of the minimal hitting sets of the sets found so far show
whether there are others. `Completeness` says whether the answer relies on this assumption, and `is_monotone` whether no
trial refuted it. A set for which the predicate has no answer counts as one for which it does not hold, and
`MinimalSets.undecided` lists it. The search is deterministic.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, pairwise

type Ask[V] = Callable[[Sequence[int]], Sequence[V | None]]
"""Returns the answers at these positions of the list; None at a position without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChange:
    """Two positions in a list whose answers differ. No position between them has an answer."""

    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes[V]:
    """The result of `find_changes`: where the answers change along a list."""

    changes: tuple[AnswerChange, ...]
    """The changes found, in the order of the list."""
    answers: dict[int, V | None]
    """Maps each position of the list for which an answer was requested to that answer, in the order of the list."""
    is_whole: bool
    """Whether an answer was requested for every member of the list, so that there are no other changes."""


def find_changes[V](count: int, ask: Ask[V], *, verify: bool = False) -> Changes[V]:
    """Returns the changes of the answer along a list of `count` members.

    ask: takes positions in the list, and returns their answers in this order; None for a member without an answer. verify:
    whether to ask for every member. No member is asked for twice.
    """
    answers: dict[int, V | None] = {}

    def look(positions: Sequence[int]) -> None:
        missing = [position for position in positions if position not in answers]
        answers.update(zip(missing, ask(missing), strict=True) if missing else ())

    look(sorted({0, count - 1}) if count else ())
    first = _find_answered(range(count), answers, look)
    last = _find_answered(range(count - 1, -1, -1), answers, look)
    if verify or first is None or last is None or answers[first] == answers[last]:
        look(range(count))
        answered = [position for position in range(count) if answers[position] is not None]
        changes = [AnswerChange(before=a, after=b) for a, b in pairwise(answered) if answers[a] != answers[b]]
    else:
        changes = [_halve(first, last, answers, look)]
    ordered = {position: answers[position] for position in sorted(answers)}
    return Changes(changes=tuple(changes), answers=ordered, is_whole=len(ordered) == count)


def _halve[V](low: int, high: int, answers: dict[int, V | None], look: Callable[[Sequence[int]], None]) -> AnswerChange:
    """Returns a change between the positions low and high, whose answers differ, by binary search. look: asks for the
    answers at positions, and adds them to `answers`.
    """
    while True:
        middle = (low + high) // 2
        between = sorted(range(low + 1, high), key=lambda position: (abs(position - middle), position))
        answered = _find_answered(between, answers, look)
        if answered is None:
            return AnswerChange(before=low, after=high)
        if answers[answered] == answers[low]:
            low = answered
        else:
            high = answered


def _find_answered[V](
    positions: Sequence[int], answers: dict[int, V | None], look: Callable[[Sequence[int]], None]
) -> int | None:
    """Returns the first of the positions that has an answer, asking one after the other; None if none has. look: asks
    for the answers at positions, and adds them to `answers`.
    """
    for position in positions:
        look([position])
        if answers[position] is not None:
            return position
    return None


type Knobs = frozenset[int]
"""Numbers of the knobs that are turned; a knob is one change that a trial can make."""
type Predicate = Callable[[Sequence[Knobs]], Sequence[bool | None]]
"""Returns, for each set of knobs, whether the predicate holds; None if that could not be determined."""

EXHAUSTIVE = 6
"""Largest number of knobs for which every set is tried."""


class Completeness(StrEnum):
    """Whether the search may have missed minimal sets."""

    CERTAIN = "certain"
    """There are no other minimal sets."""
    IF_MONOTONE = "if monotone"
    """There are no other minimal sets, provided that one more knob never does harm."""
    LIMITED = "limited"
    """There may be other minimal sets: the limit on trials was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalSets:
    """The result of a search for minimal sets of knobs (changes that a trial can make)."""

    sets: tuple[Knobs, ...]
    """The minimal sets found, smallest first. For each of them, every set with one knob less was tried as well."""
    completeness: Completeness
    is_monotone: bool
    """Whether the trials agree with the assumption that one more knob never does harm."""
    undecided: tuple[Knobs, ...]
    """The sets of which it is unknown whether the predicate holds."""


class _LimitError(Exception):
    """Raised when no more trials are allowed."""


@dataclass(slots=True, kw_only=True)
class MinimalSetSearch:
    """Searches for the minimal sets of knobs for which a predicate holds. A knob is one change that a trial can make. Stores
    the judgement on every set that was tried.
    """

    count: int
    """Number of knobs; they are numbered from 0 to count - 1."""
    judge: Predicate
    limit: int
    """Largest number of sets that may be judged, including those in `tried` at the start."""
    width: int = 1
    """Number of sets that the search judges in parallel in a step that ends with the first set for which the predicate is
    true.
    """
    tried: dict[Knobs, bool | None] = field(default_factory=dict["Knobs", bool | None])
    """Every set that was judged, in that order, with the judgement; it may start with the sets of an earlier search
    over the same knobs.
    """
    on_best: Callable[[Knobs], None] | None = None
    """Called with each set for which the predicate holds, if the set is smaller than all such sets before."""

    @property
    def best(self) -> Knobs | None:
        """Returns the smallest set so far for which the predicate holds. Of several sets of this size, returns the one
        that was tried first.
        """
        return min((knobs for knobs, holds in self.tried.items() if holds), key=len, default=None)

    def run(self) -> MinimalSets:
        """Searches until no set is left to try, or until as many sets as `limit` were judged. Raises KeyboardInterrupt,
        and the errors that the predicate raises.
        """
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
            undecided=tuple(knobs for knobs, holds in self.tried.items() if holds is None),
        )

    def list_confirmed(self) -> tuple[Knobs, ...]:
        """Returns the confirmed minimal sets, smallest first. The predicate holds for such a set. Every set with one knob
        less was tried, and the predicate does not hold for it.
        """
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
        """Finds all minimal sets, provided that one more knob never does harm, as the module's docstring describes. Single
        knobs are always tried, since the user wants to know if one is enough. every: the set of all knobs, which is in
        `tried` already.
        """
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
        """Shrinks a set that holds by delta debugging, until no single knob can be left out."""
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
        """Returns the first candidate for which the predicate holds, None if there is none. Candidates after the first may
        not have been tried.
        """
        for start in range(0, len(candidates), self.width):
            some = candidates[start : start + self.width]
            for knobs, holds in zip(some, self._ask(some), strict=True):
                if holds:
                    return knobs
        return None

    def _ask(self, asked: Sequence[Knobs]) -> list[bool | None]:
        """Returns the judgement of each set, from `tried` if it is there. If the limit does not allow all the trials that
        are missing, makes those that it allows and raises _LimitError.
        """
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
    """Returns all minimal sets that have a member in common with each set in `sets` (Berge's multiplication). Returns ()
    if one of `sets` is empty.
    """
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
    """Yields (member, the set without this member) for each member of a set."""
    for knob in sorted(knobs):
        yield knob, knobs - {knob}


def _by_size(knobs: Knobs) -> tuple[int, list[int]]:
    return len(knobs), sorted(knobs)


def _split(knobs: Sequence[int], pieces: int) -> list[Sequence[int]]:
    """Returns consecutive parts of the sequence, as equal in length as possible."""
    edges = [len(knobs) * number // pieces for number in range(pieces + 1)]
    return [knobs[start:end] for start, end in pairwise(edges)]


def _is_monotone(tried: Mapping[Knobs, bool | None]) -> bool:
    held = [knobs for knobs, holds in tried.items() if holds]
    return not any(small < large for large, holds in tried.items() if holds is False for small in held)
