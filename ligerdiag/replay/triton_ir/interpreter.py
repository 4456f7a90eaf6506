"""Evaluates a launch of a kernel's Triton IR in NumPy.

Programs run in batches, in the order of the grid (x changes fastest) or its reverse. A batch has as many programs as
make the kernel's largest block fill `batch_bytes`. After each batch, the bytes that its programs accessed are compared.
If programs *meet*, that is, one writes bytes that another one accesses (see `meetings`), the batch is undone and its
programs run one by one, in order. So the outcome is always one that programs give when they run one after the other.
Only arguments that the kernel may write, and those that share memory with them, are examined for meetings. Meetings
across batches are only reported, because batches run one after the other anyway. If programs have to run concurrently
(`GridOptions.together`), no batch is undone; a program that then waits for another one is not covered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ligerdiag.effects.access import Access as Effect
from ligerdiag.effects.pointer_flow import ArgumentEffects, compute_argument_effects
from ligerdiag.effects.ttir_module import Function, TtirModule
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.access_windows import make_address
from ligerdiag.replay.triton_ir.code import Library
from ligerdiag.replay.triton_ir.control import KernelEvaluator, WaitingError
from ligerdiag.replay.triton_ir.launch_memory import Buffer, Journal, Memory, WrittenBytes, make_buffer
from ligerdiag.replay.triton_ir.meetings import (
    MOST_RUNS,
    Overlap,
    Sites,
    Traffic,
    add_traffic,
    describe_meeting,
    find_meetings,
    find_meetings_by_place,
    find_ordered_atomics,
    make_traffic,
)
from ligerdiag.replay.triton_ir.memory_operations import find_atomic_order
from ligerdiag.replay.triton_ir.outcome import Argument, Descriptor, GridOptions, GridOutcome, Meeting, OutOfBounds
from ligerdiag.replay.triton_ir.values import BlockPointer, Value, ValueType, parse_type

DEFAULT = GridOptions()
MOST_PROGRAMS = 1 << 26
MOST_IN_BATCH = 1 << 14
MOST_MEETINGS = 64


def run_grid(
    module: TtirModule,
    entry: str,
    arguments: Sequence[Argument],
    grid: tuple[int, int, int],
    *,
    options: GridOptions = DEFAULT,
) -> GridOutcome:
    """Runs the kernel `entry` for the programs of a grid. Overwrites the arrays in `arguments` and returns
    observations.

    arguments: in the function's order, a C-contiguous array for a pointer, a number for a scalar. Arrays may share
    memory. Raises NotCoveredError if the kernel cannot be evaluated; the arrays' contents are then undefined.
    """
    return _Launch(module, entry, arguments, grid, options).run()


def find_accesses(module: TtirModule, entry: str) -> Sequence[Effect]:
    """Returns how the kernel `entry` accesses memory through each of its arguments."""
    return _get_state(module).find_effects(module, entry).accesses


class _ModuleState:
    """Facts about a module that are computed once for all of its launches: the prepared functions, the size of the largest
    block, the atomic operations whose order matters, and the effects of each kernel.
    """

    def __init__(self, module: TtirModule) -> None:
        self.library = Library(module.functions, has_lines=module.has_lines)
        self.largest = _find_largest(module.functions.values())
        self.order = find_atomic_order(module)
        self._effects: dict[str, ArgumentEffects] = {}

    def find_effects(self, module: TtirModule, entry: str) -> ArgumentEffects:
        """Returns how the kernel `entry` accesses memory through each of its arguments. The result is stored for
        further calls.
        """
        if entry not in self._effects:
            self._effects[entry] = compute_argument_effects(module, entry)
        return self._effects[entry]


_MODULE_STATES: WeakKeyDictionary[TtirModule, _ModuleState] = WeakKeyDictionary()


def _get_state(module: TtirModule) -> _ModuleState:
    if module not in _MODULE_STATES:
        _MODULE_STATES[module] = _ModuleState(module)
    return _MODULE_STATES[module]


@dataclass(slots=True, eq=False)
class _Observations:
    """The observations of a launch so far, over all batches that have run."""

    sites: Sites = field(default_factory=Sites)
    traffic: list[Traffic] = field(default_factory=list[Traffic])
    runs: int = 0
    known: bool = True
    meetings: list[Meeting] = field(default_factory=list[Meeting])
    outside: dict[tuple[int, str, int | None], OutOfBounds] = field(
        default_factory=dict[tuple[int, str, int | None], OutOfBounds]
    )
    used_atomics: bool = False
    waited: bool = False
    sequential: int = 0


class _Launch:
    def __init__(
        self,
        module: TtirModule,
        entry: str,
        arguments: Sequence[Argument],
        grid: tuple[int, int, int],
        options: GridOptions,
    ) -> None:
        function = module.functions.get(entry)
        if function is None or not function.blocks:
            raise NotCoveredError(f"a kernel `{entry}` that is missing in the module of its call")
        if len(arguments) != len(function.arguments):
            raise NotCoveredError(
                f"kernel `{entry}`: it takes {len(function.arguments)} arguments, but its launch passes "
                f"{len(arguments)}"
            )
        if min(grid) < 0 or prod(grid) > MOST_PROGRAMS:
            size = " x ".join(map(str, grid))
            raise NotCoveredError(f"a grid of {size} programs; only grids of 0 to {MOST_PROGRAMS} programs are covered")
        self._entry, self._grid, self._options = entry, grid, options
        self._buffers = [_find_buffer(argument) for argument in arguments]
        self._values = [
            _make_argument(number, argument, parse_type(function.types[value]))
            for number, (argument, value) in enumerate(zip(arguments, function.arguments, strict=True))
        ]
        watched = _find_watched(module, entry, self._buffers) if options.records_meetings else frozenset[int]()
        kept = _get_state(module)
        sizes = {n: b.data.size for n, b in enumerate(self._buffers) if n in options.tracked and b is not None}
        self._written = WrittenBytes(sizes, kept.order.updates) if sizes else None
        self._memory = Memory(self._buffers, watched, self._written)
        self._ordered = kept.order.ordered
        self._evaluator = KernelEvaluator(kept.library, self._memory, grid, options.most_rounds)
        self._batch = max(2 if options.together else 1, min(MOST_IN_BATCH, options.batch_bytes // kept.largest))
        self._observed = _Observations()

    def run(self) -> GridOutcome:
        numbers = np.arange(prod(self._grid), dtype=np.int64)
        if self._options.programs is not None:
            numbers = np.asarray(self._options.programs, np.int64).reshape(-1)
            if numbers.size and (numbers.min() < 0 or numbers.max() >= prod(self._grid)):
                raise ValueError(
                    "Expected the numbers of programs of the grid, but at least one number is outside of the grid"
                )
        if self._options.order == "reverse":
            numbers = numbers[::-1]
        with np.errstate(all="ignore"):
            for first in range(0, numbers.size, self._batch):
                self._run_batch(numbers[first : first + self._batch])
            return self._conclude()

    def _run_batch(self, numbers: Array) -> None:
        """Runs a batch of programs; if one writes bytes that another one accesses, undoes the batch and runs them one
        by one.

        numbers: the programs' linear numbers in the grid.
        """
        memory = self._memory
        is_alone = numbers.size == 1
        memory.numbers, memory.journal = numbers, Journal()
        memory.keeps_overwritten = not is_alone and not self._options.together
        memory.first_stays = self._options.first_stays
        try:
            self._evaluator.run(self._entry, self._values)
        except WaitingError:
            meets = self._observed.waited = True
            if is_alone or self._options.together:
                raise NotCoveredError("a program of the grid that waits for another program") from None
            traffic = None
        else:
            traffic = make_traffic(memory.journal.accesses, self._observed.sites, self._buffers, numbers)
            meets = not is_alone and not self._options.together and bool(find_meetings(traffic))
        if meets:
            memory.journal.undo()
            if self._written is not None:
                self._written.undo()
            self._observed.sequential += numbers.size
            for number in range(numbers.size):
                self._run_batch(numbers[number : number + 1])
            return
        self._commit(memory.journal, traffic)

    def _commit(self, journal: Journal, traffic: Traffic | None) -> None:
        seen = self._observed
        if self._written is not None:
            self._written.commit()
        seen.used_atomics |= journal.used_atomics
        for one in journal.outside:
            key = (one.place.line if one.place is not None else 0, one.kind, one.argument)
            old = seen.outside.get(key)
            seen.outside[key] = one if old is None else _join_outside(old, one)
        if traffic is None or not seen.known:
            return
        seen.traffic.append(traffic)
        seen.runs += len(traffic.reads) + len(traffic.writes) + len(traffic.atomics)
        if seen.runs > MOST_RUNS:
            seen.known = False
            seen.traffic.clear()

    def _conclude(self) -> GridOutcome:
        seen = self._observed
        meetings: list[Meeting] = []
        if seen.traffic:
            found = find_meetings_by_place(add_traffic(seen.traffic), self._buffers)
            meetings = [describe_meeting(meeting, seen.sites, self._buffers) for meeting in found[:MOST_MEETINGS]]
        ordered_atomics = list[Overlap]()
        if seen.traffic and self._ordered:
            ordered_atomics = find_ordered_atomics(add_traffic(seen.traffic), seen.sites, self._ordered)
        return GridOutcome(
            used_atomics=seen.used_atomics,
            meeting=tuple(meetings) or None,
            ordered_atomics=tuple([describe_meeting(one, seen.sites, self._buffers) for one in ordered_atomics]),
            waited=seen.waited,
            unwritten_reads=self._written.list_unwritten_reads() if self._written is not None else (),
            meetings_known=seen.known and self._options.records_meetings,
            out_of_bounds=tuple(seen.outside.values()),
            sequential_programs=seen.sequential,
        )


def _join_outside(old: OutOfBounds, new: OutOfBounds) -> OutOfBounds:
    first = min(old, new, key=lambda one: one.program)
    return OutOfBounds(
        argument=first.argument,
        kind=first.kind,
        first_byte=first.first_byte,
        width=first.width,
        count=old.count + new.count,
        program=first.program,
        place=first.place,
    )


def _find_buffer(argument: Argument) -> Buffer | None:
    if isinstance(argument, Descriptor):
        return make_buffer(argument.array)
    return make_buffer(argument) if isinstance(argument, np.ndarray) else None


def _make_argument(number: int, argument: Argument, kind: ValueType) -> Value:
    """Returns the value of a kernel's argument as the evaluator holds it; all programs have the same."""
    if isinstance(argument, Descriptor):
        sizes = [tuple(np.array([size], np.int64) for size in sizes) for sizes in (argument.shape, argument.strides)]
        return BlockPointer(
            base=np.array([make_address(number)], np.int64),
            shape=sizes[0],
            strides=sizes[1],
            offsets=(np.zeros(1, np.int32),) * len(argument.shape),
        )
    if kind.pointee:
        if not kind.is_pointer or kind.shape:
            raise NotCoveredError(f"a kernel whose parameter of type {kind.text[:80]} gets no descriptor")
        if argument is not None and not isinstance(argument, np.ndarray):
            raise NotCoveredError("a kernel whose pointer parameter gets a number")
        return np.array([make_address(number) if argument is not None else 0], np.int64)
    if argument is None or isinstance(argument, np.ndarray):
        raise NotCoveredError(f"a kernel whose parameter of type {kind.text[:80]} gets a buffer")
    dtype = kind.get_dtype()
    if dtype.kind == "i":
        bits = 8 * dtype.itemsize
        wrapped: Any = np.array([int(argument) & ((1 << bits) - 1)], f"u{dtype.itemsize}")
        return wrapped.view(dtype)
    return np.array([argument]).astype(dtype)


def _find_watched(module: TtirModule, entry: str, buffers: Sequence[Buffer | None]) -> frozenset[int]:
    """Returns the numbers of the arguments through which programs may touch each other's bytes: those that the kernel
    may write, and those that share memory with one of these.
    """
    effects = _get_state(module).find_effects(module, entry)
    written = [
        buffer
        for buffer, access in zip(buffers, effects.accesses, strict=True)
        if buffer is not None and access not in (Effect.NONE, Effect.READ)
    ]
    return frozenset(
        number
        for number, buffer in enumerate(buffers)
        if buffer is not None
        and any(
            buffer.address < other.address + other.data.size and other.address < buffer.address + buffer.data.size
            for other in written
        )
    )


def _find_largest(functions: Iterable[Function]) -> int:
    """Returns the size in bytes of the largest block that these functions use, for one program of the grid."""
    sizes = [8]
    for function in functions:
        for text in function.types.values():
            kind = parse_type(text)
            if kind.shape:
                sizes.append(prod(kind.shape) * (kind.dtype.itemsize if kind.dtype is not None else 8))
    return max(sizes)
