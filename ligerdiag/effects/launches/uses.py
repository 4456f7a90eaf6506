"""Determines how one launch uses the buffers of a kernel's arguments. Also determines whether its programs would conflict if
two of the buffers were the same bytes.

For a pair of buffers with the same bytes, a read counts as sure if `trace` says so, if it is not part of an atomic
operation, and if the program itself has not written the bytes before. Otherwise the program would read its own write. A
kernel in which one program may wait for another (an atomic operation with a used result, a loop around loads whose end
depends on memory) may order its accesses to shared bytes, so no pair of its buffers counts as SHARED. Buffers of different
or unknown sizes are not paired; a buffer that the launcher zeroes is paired only with itself.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

from ligerdiag.effects.access import (
    UNUSED,
    Access,
    Neighbours,
    OperandUse,
    ReadsBeforeWrite,
    WriteCoverage,
    compute_plain_use,
)
from ligerdiag.effects.launches.byte_runs import (
    ByteRuns,
    concatenate,
    contains,
    covers,
    is_disjoint,
    merge,
    reaches_others,
    subtract,
)
from ligerdiag.effects.launches.evaluation import Evaluation, NotFollowedError
from ligerdiag.effects.launches.index_values import (
    UNKNOWN,
    Budget,
    IndexValue,
    Linear,
    MaskBox,
    Pointer,
    TooLargeError,
    Unknown,
    make_scalar,
)
from ligerdiag.effects.launches.operation_results import LaunchSite
from ligerdiag.effects.launches.trace import BufferTrace, Trace
from ligerdiag.effects.libtriton import parse_bits
from ligerdiag.effects.pointer_edges import FIRST_OPERAND_ACCESS
from ligerdiag.effects.pointer_flow import ELSEWHERE_BIT, compute_roots, compute_summaries
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule
from ligerdiag.model.findings import SourceLine

ELEMENTS, OPERATIONS, ARRAY = 2**28, 120_000, 2**24
"""The budget for following one launch (see `Budget`); it takes a few seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """The value that a launch passes to one argument of a kernel, as far as it is known."""

    is_buffer: bool
    size: int | None = None
    """Bytes of the buffer; None if unknown or if the argument is a scalar."""
    zeroed: int = 0
    """How many bytes, from the start of the buffer, the launcher sets to zero before the kernel runs."""
    value: int | None = None
    """Value of an integer or boolean; None if unknown."""
    is_descriptor: bool = False
    """Whether the argument is a tensor descriptor that the launcher makes; its shape is unknown."""
    is_output: bool = False
    """Whether the buffer is an output of the call that, as far as the launch shows, shares no operand's bytes."""

    def compute_plain_use(self, access: Access, reason: str) -> OperandUse:
        """Returns the use of the argument's buffer if only the access to it is known. reason: why nothing more is known."""
        is_uninitialised = self.is_output and not self.zeroed
        return compute_plain_use(access, reason, zeroed=bool(self.zeroed), is_uninitialised=is_uninitialised)


def compute_launch_uses(
    module: TtirModule,
    entry: str,
    *,
    arguments: Sequence[Argument],
    accesses: Sequence[Access],
    grid: tuple[int, int, int],
) -> tuple[OperandUse, ...]:
    """Returns how one launch uses the buffer of each argument of the kernel `entry`; UNUSED for a scalar.

    accesses: the access through each argument, from `pointer_flow`.
    """
    function = module.functions[entry]
    buffers = {
        number: BufferTrace(
            size=argument.size,
            zeroed=argument.zeroed,
            watches_old=argument.is_output and not argument.zeroed and accesses[number].reads,
        )
        for number, argument in enumerate(arguments)
        if argument.is_buffer
    }
    followed = {number for number in buffers if accesses[number] is not Access.UNKNOWN}
    if not followed:
        return _explain(arguments, accesses, "how the kernel accesses the buffer is unknown")
    if min(grid) < 0:
        return _explain(arguments, accesses, "the size of the grid is unknown")
    if min(grid) == 0 and not any(argument.zeroed for argument in arguments):  # no program runs
        return tuple([UNUSED] * len(arguments))
    if not module.has_lines:
        return _explain(arguments, accesses, "the printed IR of the kernel does not match its operations")
    budget = Budget(elements=ELEMENTS, operations=OPERATIONS, array=ARRAY)
    written = frozenset(number for number in followed if accesses[number].writes)
    trace = Trace({number: buffers[number] for number in followed}, written, budget)
    uses: list[OperandUse] = []
    try:
        values = [
            make_value(number, argument, function.types.get(value, ""))
            for number, (argument, value) in enumerate(zip(arguments, function.arguments, strict=True))
        ]
        reaches = make_filter(module, entry, written)
        Evaluation(module, LaunchSite(grid, budget), trace, budget, reaches).run(entry, values)
        _find_sure_reads(module, entry, values, buffers, written, grid)
        for number in range(len(arguments)):
            if number in followed:
                use = _judge(buffers[number], accesses[number], prod(grid), budget)
                old_read = trace.find_old_read(buffers[number]) if buffers[number].watches_old else None
                may_read = buffers[number].watches_old and use.reads_before_write is not ReadsBeforeWrite.NO
                uses.append(replace(use, old_read=old_read, may_read_old=may_read and old_read is None))
            else:
                reason = "how the kernel accesses the buffer is unknown"
                uses.append(OperandUse(reason=reason) if number in buffers else UNUSED)
    except TooLargeError:
        return _explain(arguments, accesses, "the launch is too large to follow")
    except NotFollowedError as error:
        return _explain(arguments, accesses, str(error))
    return tuple(uses)


def make_filter(module: TtirModule, entry: str, buffers: frozenset[int]) -> Callable[[Function, Operation], bool]:
    """Returns a function that tells whether a memory operation may access one of several buffers. It takes the function that
    contains the operation, and the operation.

    The answer is always True for operations of a function that the kernel calls. buffers: numbers of the kernel's arguments.
    """
    function = module.functions[entry]
    roots = compute_roots(function, compute_summaries(module, entry))
    bits = ELSEWHERE_BIT | sum(1 << (number + 1) for number in buffers)

    def reaches(owner: Function, op: Operation) -> bool:
        return owner is not function or not op.operands or bool(roots.get(op.operands[0], bits) & bits)

    return reaches


def _find_sure_reads(  # noqa: PLR0917
    module: TtirModule,
    entry: str,
    values: Sequence[IndexValue],
    buffers: dict[int, BufferTrace],
    written: frozenset[int],
    grid: tuple[int, int, int],
) -> None:
    """Sets `reads_old` of the buffers that are only read, if the first or the last program of the grid surely reads
    them.
    """
    pending = {
        number: BufferTrace(size=buffer.size)
        for number, buffer in buffers.items()
        if number not in written and buffer.may_read_old and not buffer.reads_old and not buffer.zeroed
    }
    if not pending:
        return
    budget = Budget(elements=ELEMENTS, operations=OPERATIONS // 4, array=ARRAY)
    trace = Trace(pending, frozenset(), budget)
    # Reads that were found before one of these errors remain valid.
    with suppress(TooLargeError, NotFollowedError):
        Evaluation(module, LaunchSite(grid, budget, ends_only=True), trace, budget, None).run(entry, values)
    for number, buffer in pending.items():
        buffers[number].reads_old = buffer.reads_old


def _explain(arguments: Sequence[Argument], accesses: Sequence[Access], reason: str) -> tuple[OperandUse, ...]:
    """Returns the uses as far as they follow from the accesses alone; the rest is UNKNOWN for the given reason."""
    return tuple(
        argument.compute_plain_use(access, reason) if argument.is_buffer else UNUSED
        for argument, access in zip(arguments, accesses, strict=True)
    )


def make_value(number: int, argument: Argument, type_text: str) -> IndexValue:
    """Returns the value of a kernel argument at the beginning of the evaluation.

    number: number of the argument. type_text: its type, as MLIR prints it.
    """
    if argument.is_buffer:
        if argument.is_descriptor or not type_text.startswith("!tt.ptr<"):
            return Unknown(roots=frozenset((number,)))
        return Pointer(root=number, offset=make_scalar(0))
    bits = parse_bits(type_text)
    if bits is None or argument.value is None:
        return UNKNOWN
    if bits == 1:
        return MaskBox(gate=make_scalar(argument.value).base != 0)
    half = 1 << (bits - 1)
    value = (argument.value + half) % (2 * half) - half
    return Linear(base=make_scalar(value).base)


def _judge(buffer: BufferTrace, access: Access, programs: int, budget: Budget) -> OperandUse:
    reads = _judge_reads(buffer)
    coverage, why = _judge_coverage(buffer, budget)
    alone = programs == 1 or not access.writes
    neighbours = Neighbours.DISJOINT if alone else _judge_neighbours(buffer, budget)
    reasons = {
        why: coverage is WriteCoverage.UNKNOWN,
        "the elements that the kernel reads depend on data": reads is ReadsBeforeWrite.UNKNOWN,
        "the elements that each program of the grid accesses depend on data": neighbours is Neighbours.UNKNOWN,
    }
    return OperandUse(
        reads_before_write=reads,
        coverage=coverage,
        neighbours=neighbours,
        reason=next((reason for reason, applies in reasons.items() if applies), ""),
        outside=tuple(buffer.outside.values()),
        span=_find_span(buffer),
    )


def _find_span(buffer: BufferTrace) -> tuple[int, int] | None:
    written = concatenate([*buffer.may_write, *_make_zeroed(buffer)])
    if buffer.writes_anywhere or buffer.outside or buffer.size is None or not len(written):
        return None
    return int(written.start.min()), int(written.stop.max())


def _judge_reads(buffer: BufferTrace) -> ReadsBeforeWrite:
    if buffer.reads_old:
        return ReadsBeforeWrite.YES
    return ReadsBeforeWrite.UNKNOWN if buffer.may_read_old else ReadsBeforeWrite.NO


def _judge_coverage(buffer: BufferTrace, budget: Budget) -> tuple[WriteCoverage, str]:
    if not buffer.may_write and not buffer.writes_anywhere and not buffer.zeroed:
        if buffer.writes_beyond:
            return WriteCoverage.UNKNOWN, "the kernel writes outside of the buffer"
        return WriteCoverage.NONE, ""
    size = buffer.size
    if size is None:
        return WriteCoverage.UNKNOWN, "the size of the buffer is unknown"
    sure = merge(concatenate([*buffer.sure_write, *_make_zeroed(buffer)]), budget, by_program=False)
    if covers(sure, size):
        return WriteCoverage.COMPLETE, ""
    if not buffer.writes_anywhere and len(sure):
        may = merge(concatenate([*buffer.may_write, *_make_zeroed(buffer)]), budget, by_program=False)
        if not covers(may, size):
            return WriteCoverage.PARTIAL, ""
    return WriteCoverage.UNKNOWN, "the elements that the kernel writes depend on data"


def _make_zeroed(buffer: BufferTrace) -> list[ByteRuns]:
    if not buffer.zeroed:
        return []
    ends = (make_scalar(number).base for number in (0, 0, min(buffer.zeroed, buffer.size or buffer.zeroed)))
    program, start, stop = ends
    return [ByteRuns(program=program, start=start, stop=stop)]


def _judge_neighbours(buffer: BufferTrace, budget: Budget) -> Neighbours:
    if not buffer.may_write and not buffer.writes_anywhere:
        return Neighbours.DISJOINT
    if not is_disjoint(concatenate(buffer.sure_write), concatenate(buffer.sure_read), budget):
        return Neighbours.SHARED
    if buffer.writes_anywhere or buffer.reads_anywhere:
        return Neighbours.UNKNOWN
    if is_disjoint(concatenate(buffer.may_write), concatenate(buffer.may_read), budget):
        return Neighbours.DISJOINT
    return Neighbours.UNKNOWN


type Pair = tuple[int, int]
"""Numbers of the argument through which the kernel reads and of the argument through which it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMeeting:
    """Says whether programs of a grid would conflict if two buffers were the same bytes. They conflict if one writes
    bytes that another one reads.
    """

    neighbours: Neighbours
    is_update: bool = False
    line: SourceLine | None = None


def compute_in_place(
    module: TtirModule,
    entry: str,
    *,
    arguments: Sequence[Argument],
    accesses: Sequence[Access],
    grid: tuple[int, int, int],
) -> dict[Pair, PairMeeting]:
    """Finds out whether programs of the grid would conflict if two buffers of one size were the same bytes. They
    conflict if a program writes bytes that a different program reads.

    A key of the result is (argument that is read, argument that is written). Pairs with an unknown answer are left out.
    """
    pairs = _find_pairs(arguments, accesses)
    if not pairs or min(grid) <= 0:
        return {}
    if prod(grid) == 1:
        return dict.fromkeys(pairs, PairMeeting(neighbours=Neighbours.DISJOINT))
    if not module.has_lines:
        return {}
    budget = Budget(elements=ELEMENTS, operations=OPERATIONS, array=ARRAY)
    kept = frozenset(number for pair in pairs for number in pair)
    # Reads of old content do not matter here and cost time to find: `reads_old` is set from the start.
    trace = Trace({number: BufferTrace(size=arguments[number].size, reads_old=True) for number in kept}, kept, budget)
    values = [
        make_value(number, argument, module.functions[entry].types.get(value, ""))
        for number, (argument, value) in enumerate(zip(arguments, module.functions[entry].arguments, strict=True))
    ]
    found: dict[Pair, PairMeeting] = {}
    try:
        Evaluation(module, LaunchSite(grid, budget), trace, budget, make_filter(module, entry, kept)).run(entry, values)
        waits = any(_may_wait(function) for function in module.functions.values())
        for pair in pairs:
            meeting = _judge_pair(trace.buffers[pair[0]], trace.buffers[pair[1]], waits, budget)
            if meeting.neighbours is not Neighbours.UNKNOWN:
                found[pair] = meeting
    except (TooLargeError, NotFollowedError):
        pass  # pairs that were judged before the error keep their result
    return found


def _find_pairs(arguments: Sequence[Argument], accesses: Sequence[Access]) -> list[Pair]:
    """Returns the pairs (argument that is read, argument that is written) whose buffers could be the same bytes, including
    each argument with itself if the kernel both reads and writes it.
    """
    buffers = [
        number
        for number, argument in enumerate(arguments)
        if argument.is_buffer and argument.size and accesses[number] is not Access.UNKNOWN
    ]
    return [
        (reader, writer)
        for reader in buffers
        for writer in buffers
        if accesses[reader].reads
        and accesses[writer].writes
        and arguments[reader].size == arguments[writer].size
        and (reader == writer or not (arguments[reader].zeroed or arguments[writer].zeroed))
    ]


def _may_wait(function: Function) -> bool:
    """Returns whether one program that runs this function may wait for another one."""
    used = {operand for op in function.operations for operand in op.operands}
    inside: set[int] = set()
    for op in reversed(function.operations):  # an operation comes before the one that contains it
        if op.name == "scf.while" or op.parent in inside:
            inside.add(op.index)
            if op.name == "tt.call" or (op.name in FIRST_OPERAND_ACCESS and FIRST_OPERAND_ACCESS[op.name].reads):
                return True
        if op.name == "tt.atomic_cas" or (op.name == "tt.atomic_rmw" and not used.isdisjoint(op.results)):
            return True
    return False


def _judge_pair(reader: BufferTrace, writer: BufferTrace, waits: bool, budget: Budget) -> PairMeeting:
    anywhere = writer.writes_anywhere or (reader.reads_anywhere and bool(writer.may_write))
    if not anywhere and not reaches_others(concatenate(reader.may_read), concatenate(writer.may_write), budget):
        return PairMeeting(neighbours=Neighbours.DISJOINT)
    if waits:
        return PairMeeting(neighbours=Neighbours.UNKNOWN)
    written = concatenate(writer.sure_write)
    early = _find_early_reads(reader, writer, budget)
    if not reaches_others(concatenate([runs for runs, _ in early]), written, budget):
        return PairMeeting(neighbours=Neighbours.UNKNOWN)
    met = [(runs, line) for runs, line in early if reaches_others(runs, written, budget)]
    own = merge(written, budget)
    return PairMeeting(
        neighbours=Neighbours.SHARED,
        is_update=reader is writer and all(contains(own, runs) for runs, _ in met),
        line=next((line for _, line in met if line is not None), None),
    )


def _find_early_reads(
    reader: BufferTrace, writer: BufferTrace, budget: Budget
) -> list[tuple[ByteRuns, SourceLine | None]]:
    """Returns the sure reads of bytes that the same program has not written before, each with its source line.

    After its first possible write, a program counts as having written all the bytes that it may ever write.
    """
    firsts = [buffer.first_write for buffer in (reader, writer) if buffer.first_write is not None]
    early = [(runs, line) for time, runs, line in reader.plain_read if not firsts or time < min(firsts)]
    late = [(runs, line) for time, runs, line in reader.plain_read if firsts and time >= min(firsts)]
    if not late or reader.writes_anywhere or writer.writes_anywhere:
        return early
    written = merge(concatenate([*reader.may_write, *writer.may_write]), budget)
    return early + [(subtract(merge(runs, budget), written, budget), line) for runs, line in late]
