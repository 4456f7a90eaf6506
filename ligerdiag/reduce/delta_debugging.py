"""Searches for the smallest program that still shows the symptom: the finding or verdict that the reduction must keep.

The search tries large steps first and small ones last: sizes of the arguments, outputs, loops, equations by delta
debugging, arguments, iterations, sizes again. It is deterministic: it asks about the same candidates in the same order,
whatever the time. Its result is minimal in the sense of delta debugging: no single step that it knows makes the program
smaller.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ligerdiag.reduce.edits import (
    count_iterations,
    keep_outputs,
    list_names,
    merge_arguments,
    peel_output,
    remove_equations,
    resize,
    run_once,
    shorten_loop,
)
from ligerdiag.reduce.reduced_program import Kind, Program, Size, compute_size, iterate_equations

_LEAST_SIZE = 2

type FindFirst = Callable[[Sequence[Program]], Program | None]
type Retrace = Callable[[Sequence[tuple[tuple[int, int], ...]]], Sequence[Program | None]]
"""Returns the user's program traced anew with other sizes of its arguments; None where that fails."""


@dataclass(slots=True, kw_only=True)
class Reduction:
    """A search for the smallest program. `best` is the smallest program that was found so far."""

    best: Program
    find_first: FindFirst
    retrace: Retrace
    report: Callable[[Program, str], None]
    """Called with the smallest program so far and the name of the step."""
    steps: list[tuple[str, Size]] = field(default_factory=list[tuple[str, Size]])
    """The size after each step that made the program smaller."""

    def run(self) -> None:
        """Makes `best` smaller until no step of the search makes it smaller any more."""
        self._shrink_arguments()
        while True:
            before = self.best
            self._drop_outputs()
            self._peel_outputs()
            self._run_loops_once()
            self._remove_equations()
            self._remove_single_equations()
            self._merge_arguments()
            if self.best == before:
                break
        self._shorten_loops()
        self._shrink_sizes()

    def _try(self, step: str, candidates: Sequence[Program | None], *, may_equal: bool = False) -> bool:
        """Makes the first candidate that shows the symptom the best one; returns whether there was one."""
        size = compute_size(self.best)
        smaller = [
            one
            for one in candidates
            if one is not None and one != self.best and (compute_size(one) < size or may_equal)
        ]
        found = self.find_first(smaller) if smaller else None
        if found is None:
            return False
        self.best = found
        self.steps.append((step, compute_size(found)))
        self.report(found, step)
        return True

    def _shrink_arguments(self) -> None:
        """Traces the user's function with smaller arguments, one size after the other."""
        chosen: dict[int, int] = {}
        sizes = sorted({size for one in self.best.inputs for size in one.shape if size > _LEAST_SIZE}, reverse=True)
        for size in sizes:
            for new in _list_smaller(size):
                (program,) = self.retrace([tuple(sorted({**chosen, size: new}.items()))])
                if program is not None and self._try("smaller arguments", [program], may_equal=True):
                    chosen[size] = new
                    break

    def _drop_outputs(self) -> None:
        """Keeps one output if that suffices; else removes outputs one by one."""
        count = len(self.best.body.results)
        if count > 1 and not self._try("one output", [keep_outputs(self.best, {number}) for number in range(count)]):
            number = 0
            while number < len(self.best.body.results) > 1:
                others = [one for one in range(len(self.best.body.results)) if one != number]
                number += not self._try("fewer outputs", [keep_outputs(self.best, others)])

    def _peel_outputs(self) -> None:
        """Returns an operand in place of the last operation before an output."""
        number = 0
        while number < len(self.best.body.results):
            number += not self._try("an earlier value", list(peel_output(self.best, number)))

    def _run_loops_once(self) -> None:
        kinds = (Kind.SCAN, Kind.WHILE, Kind.SWITCH)
        refused: set[str] = set()
        while True:
            loops = [one for one in iterate_equations(self.best.body) if one.kind in kinds and one.results]
            left = [one.results[0].name for one in loops if one.results[0].name not in refused]
            if not left:
                return
            if not self._try("a loop without repetition", [run_once(self.best, left[0])], may_equal=True):
                refused.add(left[0])

    def _remove_equations(self) -> None:
        """Delta debugging: removes halves, quarters, ... of the equations as long as that works."""
        parts = 2
        while True:
            names = list_names(self.best)
            if len(names) < 2 or parts > len(names):
                return
            chunks = list(split_parts(names, parts))
            candidates = [
                remove_equations(self.best, chunk, by_operand=by_operand)
                for chunk in chunks
                for by_operand in (True, False)
            ]
            if self._try("fewer operations", candidates):
                parts = max(2, parts - 1)
            else:
                parts *= 2

    def _remove_single_equations(self) -> None:
        """Removes one equation at a time, the last one first, until none can go."""
        while True:
            before = self.best
            for name in reversed(list_names(self.best)):
                if name in list_names(self.best):
                    candidates = [remove_equations(self.best, {name}, by_operand=by) for by in (True, False)]
                    self._try("one operation less", candidates)
            if self.best == before:
                return

    def _merge_arguments(self) -> None:
        """Replaces an argument by another one of the same type."""
        names = [one.name for one in self.best.body.parameters]
        for number, dropped in enumerate(names):
            for kept in names[:number]:
                present = {one.name for one in self.best.body.parameters}
                if {kept, dropped} <= present:
                    self._try("one argument less", [merge_arguments(self.best, kept, dropped)])

    def _shorten_loops(self) -> None:
        """Lets loops run less often, if only a number in the program says how often they do."""
        loops = [(one.label, count_iterations(one)) for one in iterate_equations(self.best.body)]
        for name, iterations in loops:
            for new in _list_smaller(iterations):
                if self._try("fewer iterations", [shorten_loop(self.best, name, new)], may_equal=True):
                    break

    def _shrink_sizes(self) -> None:
        """Makes sizes smaller in the reduced program itself."""
        parameters = self.best.body.parameters
        sizes = sorted({size for one in parameters for size in one.type.shape if size > _LEAST_SIZE}, reverse=True)
        for size in sizes:
            for new in _list_smaller(size):
                if self._try("smaller sizes", [resize(self.best, size, new)]):
                    break


def _list_smaller(size: int) -> Iterator[int]:
    """Yields smaller sizes to try, the smallest power of two first."""
    new = _LEAST_SIZE
    while new < size:
        yield new
        new *= 2


def split_parts[A](items: Sequence[A], parts: int) -> Iterator[tuple[A, ...]]:
    """Splits `items` into `parts` parts of about the same length.

    Yields the last part first, because the last items of a program are often superfluous.
    """
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    for number in reversed(range(parts)):
        if bounds[number] < bounds[number + 1]:
            yield tuple(items[bounds[number] : bounds[number + 1]])
