"""Follows a kernel's Triton IR for all programs of a launch at once, as far as its numbers do not come from memory.

Values have the forms that `index_values` defines; `active` says which programs execute an operation. Control flow that
depends on known numbers splits the programs; where it depends on data, both ways are followed (see `trace`). A loop
with a known trip count runs iteration by iteration, for each program as often as the program needs. The body of any
other loop is followed with Unknown for the values that it carries from one iteration to the next, again until the roots
of carried pointers stop growing. Every path through a function's basic blocks that some program may take is followed
from the entry to a return, so a block on several paths is followed several times. A load with an unused result does not
count. The result of an unknown operation is Unknown, and `pointer_flow` covers its possible effects on memory. The same
holds for an operation that `trace.Demand` does not want, and for one with too many elements.

`Evaluation.run` raises TooLargeError when the budget is spent, NotFollowedError for any other kind of control flow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.effects.launches.byte_runs import make_runs
from ligerdiag.effects.launches.index_values import (
    ELSEWHERE,
    UNKNOWN,
    Budget,
    IndexValue,
    Linear,
    Mask,
    MaskBox,
    TooManyElementsError,
    Unknown,
    choose,
    forget,
    get_roots,
    make_scalar,
)
from ligerdiag.effects.launches.operation_results import LaunchSite, compute_results, make_unknown
from ligerdiag.effects.launches.trace import MIXERS, Demand, Trace
from ligerdiag.effects.libtriton import parse_successors, parse_word
from ligerdiag.effects.pointer_edges import FIRST_OPERAND_ACCESS, find_dead_loads
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule

DEPTH = 64
"""Largest depth of nested calls, and largest number of blocks on one path through a function, that are followed."""


class NotFollowedError(Exception):
    """Raised if a kernel has control flow that the evaluation cannot follow. The message is one line."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Frame:
    """One activation of a function: the values that it has computed, and those that it has returned."""

    function: Function
    values: dict[int, IndexValue]
    depth: int
    returned: list[tuple[Mask, tuple[IndexValue, ...]]] = field(
        default_factory=list[tuple[Mask, tuple[IndexValue, ...]]]
    )

    def get(self, number: int) -> IndexValue:
        return self.values.get(number, UNKNOWN)

    def take(self, numbers: Sequence[int]) -> tuple[IndexValue, ...]:
        return tuple(self.get(number) for number in numbers)

    def put(self, numbers: Sequence[int], values: Sequence[IndexValue]) -> None:
        self.values.update(zip(numbers, values, strict=False))


class Evaluation:
    """Follows a kernel's code for all programs of one launch and records the kernel's accesses to memory in a `Trace`."""

    def __init__(
        self,
        module: TtirModule,
        place: LaunchSite,
        trace: Trace,
        budget: Budget,
        reaches: Callable[[Function, Operation], bool] | None,
    ) -> None:
        """Prepares to follow a launch of a kernel in `module`.

        place: the grid of the launch, and those programs of the grid that are followed. trace: records their accesses to
        memory. reaches: returns whether the caller needs the addresses of a memory operation in a function. Values are
        followed only if such an address or the control flow depends on them. If `reaches` is None, all values are followed.
        """
        self._module, self._place, self._trace, self._budget = module, place, trace, budget
        self._demand = Demand(module, reaches)
        self._used: dict[str, frozenset[int]] = {}
        self._dead: dict[str, frozenset[int]] = {}

    def run(self, entry: str, arguments: Sequence[IndexValue]) -> None:
        """Follows the kernel's function `entry` for all programs of the launch. arguments: the values of its parameters."""
        self._demand.entry = entry
        self._call(self._module.functions[entry], arguments, np.ones(self._place.programs, bool), 0)

    def _call(
        self, function: Function, arguments: Sequence[IndexValue], active: Mask, depth: int
    ) -> tuple[IndexValue, ...]:
        if depth > DEPTH:
            raise NotFollowedError(f"calls of `{function.name}` are nested too deeply to be followed")
        if not function.blocks:
            return ()
        frame = _Frame(function=function, values={}, depth=depth)
        frame.put(function.arguments, arguments)
        self._run_from(frame, 0, active, 0)
        results: tuple[IndexValue, ...] | None = None
        for taken, values in frame.returned:
            if results is None:
                results = values
            else:
                results = tuple(self._join(taken, new, old) for new, old in zip(values, results, strict=True))
        return results or ()

    def _join(self, taken: Mask, new: IndexValue, old: IndexValue) -> IndexValue:
        return choose(taken, new, old, self._budget)

    def _run_from(self, frame: _Frame, block: int, active: Mask, length: int) -> None:
        """Follows a function from the given block to each return. A block that several paths reach is followed once for
        each path. length: number of blocks on the path so far.
        """
        if length > DEPTH:
            raise NotFollowedError(
                f"`{frame.function.name}` was not followed: a path through it has more than {DEPTH} basic blocks"
            )
        for op in frame.function.get_operations(-1, 0, block):
            match op.name:
                case "tt.return":
                    self._return(frame, active, frame.take(op.operands))
                    return
                case "cf.br" | "cf.cond_br":
                    self._branch(frame, op, active, length)
                    return
                case _:
                    self._step(frame, op, active)
        raise NotFollowedError(f"a block of `{frame.function.name}` does not end with a known branch or return")

    def _return(self, frame: _Frame, active: Mask, values: tuple[IndexValue, ...]) -> None:
        seen = [taken for taken, _ in frame.returned if (taken & active).any()]
        if seen:  # the same programs also return on another path: a branch depends on data
            values = tuple(
                forget(value, *(others[number] for _, others in frame.returned)) for number, value in enumerate(values)
            )
        frame.returned.append((active, values))

    def _branch(self, frame: _Frame, op: Operation, active: Mask, length: int) -> None:
        blocks = parse_successors(op.text)
        names = frame.function.blocks
        expected = 1 if op.name == "cf.br" else 2
        if len(blocks) != expected or any(not 0 < block < len(names) for block in blocks):
            raise NotFollowedError(f"the targets of a branch of `{frame.function.name}` are unknown")
        passed = op.operands[expected - 1 :]
        if len(passed) != sum(len(names[block].arguments) for block in blocks):
            raise NotFollowedError(f"the targets of a branch of `{frame.function.name}` are unknown")
        if expected == 1:
            frame.put(names[blocks[0]].arguments, frame.take(passed))
            self._run_from(frame, blocks[0], active, length + 1)
            return
        size = len(names[blocks[0]].arguments)
        passed_on = frame.take(passed[:size]), frame.take(passed[size:])

        def follow(way: int, taken: Mask) -> None:
            frame.put(names[blocks[way]].arguments, passed_on[way])
            self._run_from(frame, blocks[way], taken, length + 1)

        self._split(frame.get(op.operands[0]), active, follow)

    def _split(self, condition: IndexValue, active: Mask, follow: Callable[[int, Mask], None]) -> Mask | None:
        """Follows way 0 of a branch with the programs for which the condition holds, and way 1 with the others.

        Returns the programs for which the condition holds, bool[programs]. If that is unknown, follows both ways with
        all active programs and returns None. follow: follows one way, given its number and the programs that take it;
        not called for a way that no program takes.
        """
        if isinstance(condition, MaskBox) and not condition.shape:
            gate = np.broadcast_to(condition.gate, active.shape)
            if (active & gate).any():
                follow(0, active & gate)
            if (active & ~gate).any():
                follow(1, active & ~gate)
            return gate
        with self._trace.maybe() as one:
            follow(0, active)
        with self._trace.maybe() as other:
            follow(1, active)
        self._trace.write_in_both(one, other)
        return None

    def _step(self, frame: _Frame, op: Operation, active: Mask) -> None:
        is_data = not op.regions and op.name not in FIRST_OPERAND_ACCESS
        if op.name == "tt.call":
            is_data = self._demand.is_silent(op.callee)
        if is_data and not self._demand.wants(frame.function, op):
            frame.put(op.results, [make_unknown(op, frame.take(op.operands), frame.function)] * len(op.results))
            return
        self._budget.spend(active.size)
        match op.name:
            case "scf.for":
                self._run_for(frame, op, active)
            case "scf.while":
                self._run_while(frame, op, active)
            case "scf.if":
                self._run_if(frame, op, active)
            case "tt.call":
                self._run_call(frame, op, active)
            case name if name in FIRST_OPERAND_ACCESS:
                self._access(frame, op, active)
                is_pointer = any(result in frame.function.pointers for result in op.results)
                loaded = Unknown(roots=frozenset((ELSEWHERE,))) if is_pointer else UNKNOWN
                frame.put(op.results, [loaded] * len(op.results))
            case name if name in MIXERS:
                self._mix(frame, op)
            case name if op.regions:
                raise NotFollowedError(f"`{name}` in `{frame.function.name}` has regions whose control flow is unknown")
            case _:
                values = frame.take(op.operands)
                self._place.active = active
                try:
                    results = compute_results(op, values, frame.function, self._place)
                except TooManyElementsError:
                    results = [make_unknown(op, values, frame.function)] * len(op.results)
                frame.put(op.results, results)

    def _run_block(self, frame: _Frame, op: Operation, region: int, active: Mask) -> tuple[IndexValue, ...]:
        """Runs the only block of region number `region` of `op` with the programs in `active`; returns the values that
        its terminator passes on, none if the region is empty. Raises NotFollowedError if the region has more blocks.
        """
        if region >= len(op.regions) or not op.regions[region]:
            return ()
        if len(op.regions[region]) > 1:
            raise NotFollowedError(
                f"a region of `{op.name}` in `{frame.function.name}` has several blocks, which is not supported"
            )
        for inner in frame.function.get_operations(op.index, region, 0):
            if inner.name in ("scf.yield", "scf.condition"):
                return frame.take(inner.operands)
            self._step(frame, inner, active)
        return ()

    def _run_if(self, frame: _Frame, op: Operation, active: Mask) -> None:
        ways: dict[int, tuple[IndexValue, ...]] = {}

        def follow(way: int, taken: Mask) -> None:
            ways[way] = self._run_block(frame, op, way, taken)

        gate = self._split(frame.get(op.operands[0]), active, follow)
        if len(ways) == 1:
            frame.put(op.results, next(iter(ways.values())))
        elif gate is None:
            joined = [a if a is b else forget(a, b) for a, b in zip(ways[0], ways[1], strict=True)]
            frame.put(op.results, joined)
        else:
            frame.put(op.results, [self._join(gate, a, b) for a, b in zip(ways[0], ways[1], strict=True)])

    def _run_for(self, frame: _Frame, op: Operation, active: Mask) -> None:
        lower, upper, step = frame.take(op.operands[:3])
        carried = frame.take(op.operands[3:])
        arguments = op.regions[0][0].arguments if op.regions and op.regions[0] else ()
        known = [value for value in (lower, upper, step) if isinstance(value, Linear) and not value.shape]
        if len(known) < 3 or (known[2].base <= 0).any() or "scf.for unsigned" in op.text:
            self._run_unknown_loop(frame, op, active, carried)
            return
        first, last, stride = (value.base for value in known)
        rounds = np.broadcast_to(np.maximum(0, -((first - last) // stride)), active.shape)
        for number in range(int(rounds[active].max(initial=0))):
            running = active & (rounds > number)
            frame.put(arguments, (make_scalar(first + number * stride), *carried))
            new = self._run_block(frame, op, 0, running)
            if (running == active).all():
                carried = new
            else:
                carried = tuple(self._join(running, a, b) for a, b in zip(new, carried, strict=True))
        frame.put(op.results, carried)

    def _run_while(self, frame: _Frame, op: Operation, active: Mask) -> None:
        before = op.regions[0][0].arguments if op.regions and op.regions[0] else ()
        after = op.regions[1][0].arguments if len(op.regions) > 1 and op.regions[1] else ()
        carried = frame.take(op.operands)
        running = active
        results: tuple[IndexValue, ...] = ()
        while running.any():
            frame.put(before, carried)
            condition, *passed_on = self._run_block(frame, op, 0, running) or (UNKNOWN,)
            if not isinstance(condition, MaskBox) or condition.shape:
                self._run_unknown_loop(frame, op, running, carried)
                return
            going = running & np.broadcast_to(condition.gate, active.shape)
            results = tuple(self._join(running, a, b) for a, b in zip(passed_on, results or passed_on, strict=True))
            if not going.any():
                break
            frame.put(after, passed_on)
            carried = self._run_block(frame, op, 1, going)
            running = going
        frame.put(op.results, results)

    def _run_unknown_loop(self, frame: _Frame, op: Operation, active: Mask, carried: Sequence[IndexValue]) -> None:
        """Follows a loop with an unknown trip count, with Unknown for the values that it carries from one iteration to
        the next, until the set of the kernel's arguments into which these values may point stops growing.

        carried: the initial values.
        """
        first, *rest = (region[0].arguments if region else () for region in op.regions)
        iterated = first[1:] if op.name == "scf.for" else first
        roots = [get_roots(value) for value in carried]
        passed_on: tuple[IndexValue, ...] = ()
        while True:
            frame.put(first, [UNKNOWN] * len(first))
            frame.put(iterated, [Unknown(roots=found) for found in roots])
            with self._trace.maybe():
                new = self._run_block(frame, op, 0, active)
                if rest:  # the first region ends with a condition and the values that it passes to the second
                    passed_on = tuple(forget(value) for value in new[1:])
                    frame.put(rest[0], passed_on)
                    new = self._run_block(frame, op, 1, active)
            grown = [old | get_roots(value) for old, value in zip(roots, new, strict=True)]
            if grown == roots:
                break
            roots = grown
        frame.put(op.results, passed_on if rest else [Unknown(roots=found) for found in roots])

    def _run_call(self, frame: _Frame, op: Operation, active: Mask) -> None:
        callee = self._module.functions.get(op.callee)
        values = frame.take(op.operands)
        results: tuple[IndexValue, ...] = ()
        if callee is not None:
            results = self._call(callee, values, active, frame.depth + 1)
        if len(results) != len(op.results):
            results = (Unknown(roots=frozenset((ELSEWHERE,))),) * len(op.results)
        frame.put(op.results, results)

    def _mix(self, frame: _Frame, op: Operation) -> None:
        """Makes the results of a reduction, scan or map Unknown; raises NotFollowedError if its regions may access
        memory.
        """
        if not self._demand.is_silent_inside(frame.function, op.index):
            raise NotFollowedError(
                f"the body of `{op.name}` in `{frame.function.name}` accesses memory, which is not supported"
            )
        found = forget(*frame.take(op.operands))
        frame.put(op.results, [found] * len(op.results))

    def _access(self, frame: _Frame, op: Operation, active: Mask) -> None:
        access = FIRST_OPERAND_ACCESS[op.name]
        if frame.function.name not in self._dead:
            self._dead[frame.function.name] = find_dead_loads(frame.function)
        if op.index in self._dead[frame.function.name]:
            return
        reads = access.reads and not self._only_exchanges(frame.function, op)
        is_update = reads and access.writes
        values = frame.take(op.operands)
        try:
            found = self._place.reach(op, values, frame.function, self._budget)
            runs = found and make_runs(found[0].offset, found[2], found[1], active, self._budget)
        except TooManyElementsError:
            found = runs = None
        if found is None or runs is None:
            roots = get_roots(values[0]) if values else frozenset((ELSEWHERE,))
            if ELSEWHERE in roots or not roots:
                roots = frozenset(self._trace.buffers)
            for root in roots:
                if reads:
                    self._trace.read(root, None, sure=False, plain=not access.writes, place=op.place)
                if access.writes:
                    self._trace.write(root, None, sure=False, is_update=is_update)
            return
        pointer, mask, _ = found
        sure = not isinstance(mask, Unknown)
        if sure:
            self._trace.note_outside(pointer.root, runs, found[2], frame.function, op)
        if reads:
            self._trace.read(pointer.root, runs, sure=sure, plain=not access.writes, place=op.place)
        if access.writes:
            self._trace.write(pointer.root, runs, sure=sure and op.name != "tt.atomic_cas", is_update=is_update)

    def _only_exchanges(self, function: Function, op: Operation) -> bool:
        """Returns whether an atomic operation stores contents that do not depend on the old ones, and its result is
        unused.
        """
        if op.name != "tt.atomic_rmw" or parse_word(op.text, op.name) != "exch":
            return False
        if function.name not in self._used:
            self._used[function.name] = frozenset(operand for one in function.operations for operand in one.operands)
        return self._used[function.name].isdisjoint(op.results)
