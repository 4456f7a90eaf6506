"""Follows a launch to find what would happen if two of the kernel's buffers were the same bytes.

1. A read counts as sure if `launch_trace` says so, if it is no part of an atomic operation, and if the program itself
    has not written the bytes before: then it would read back its own.
2. A kernel that may make one program wait for another (an atomic whose result is used, a loop round loads that ends
    when memory says so) may order its accesses to shared bytes: for such a kernel nothing is surely shared.
3. Buffers of different sizes, and of unknown sizes, are not paired; nor are buffers that the launcher zeroes.
"""

from collections.abc import Sequence
from math import prod

from ligerdiag.effects.access import Access
from ligerdiag.effects.byte_runs import Runs, concatenate, merge, reaches_others, subtract
from ligerdiag.effects.index_values import Budget, TooLargeError
from ligerdiag.effects.launch_evaluation import Evaluation, NotFollowedError
from ligerdiag.effects.launch_operations import Place
from ligerdiag.effects.launch_trace import BufferTrace, Trace
from ligerdiag.effects.launch_uses import ARRAY, ELEMENTS, OPERATIONS, Argument, make_filter, make_value
from ligerdiag.effects.operand_use import Neighbours
from ligerdiag.effects.operation_effects import FIRST_OPERAND_ACCESS
from ligerdiag.effects.ttir_module import Function, TtirModule

type Pair = tuple[int, int]
"""Numbers of the arguments that are read and written through."""


def compute_in_place(
    module: TtirModule,
    entry: str,
    *,
    arguments: Sequence[Argument],
    accesses: Sequence[Access],
    grid: tuple[int, int, int],
) -> dict[Pair, Neighbours]:
    """For pairs of buffers of one size whether programs would meet in them; what is UNKNOWN is left out."""
    pairs = _find_pairs(arguments, accesses)
    if not pairs or min(grid) <= 0:
        return {}
    if prod(grid) == 1:
        return dict.fromkeys(pairs, Neighbours.DISJOINT)
    if not module.has_lines:
        return {}
    budget = Budget(elements=ELEMENTS, operations=OPERATIONS, array=ARRAY)
    kept = frozenset(number for pair in pairs for number in pair)
    # Whether old content is read does not matter here, and computing it costs time: it counts as known.
    trace = Trace({number: BufferTrace(size=arguments[number].size, reads_old=True) for number in kept}, kept, budget)
    values = [
        make_value(number, argument, module.functions[entry].types.get(value, ""))
        for number, (argument, value) in enumerate(zip(arguments, module.functions[entry].arguments, strict=True))
    ]
    found: dict[Pair, Neighbours] = {}
    try:
        Evaluation(module, Place(grid, budget), trace, budget, make_filter(module, entry, kept)).run(entry, values)
        waits = any(_may_wait(function) for function in module.functions.values())
        for pair in pairs:
            neighbours = _judge(trace.buffers[pair[0]], trace.buffers[pair[1]], waits, budget)
            if neighbours is not Neighbours.UNKNOWN:
                found[pair] = neighbours
    except (TooLargeError, NotFollowedError):
        pass  # Pairs that were judged before that keep their result.
    return found


def _find_pairs(arguments: Sequence[Argument], accesses: Sequence[Access]) -> list[Pair]:
    """See 3 above."""
    buffers = [
        number
        for number, argument in enumerate(arguments)
        if argument.is_buffer and argument.size and not argument.zeroed and accesses[number] is not Access.UNKNOWN
    ]
    return [
        (reader, writer)
        for reader in buffers
        for writer in buffers
        if accesses[reader].reads and accesses[writer].writes and arguments[reader].size == arguments[writer].size
    ]


def _may_wait(function: Function) -> bool:
    """See 2 above."""
    used = {operand for op in function.operations for operand in op.operands}
    inside: set[int] = set()
    for op in reversed(function.operations):  # what holds an operation comes after it
        if op.name == "scf.while" or op.parent in inside:
            inside.add(op.index)
            if op.name == "tt.call" or (op.name in FIRST_OPERAND_ACCESS and FIRST_OPERAND_ACCESS[op.name].reads):
                return True
        if op.name == "tt.atomic_cas" or (op.name == "tt.atomic_rmw" and not used.isdisjoint(op.results)):
            return True
    return False


def _judge(reader: BufferTrace, writer: BufferTrace, waits: bool, budget: Budget) -> Neighbours:
    anywhere = writer.writes_anywhere or (reader.reads_anywhere and bool(writer.may_write))
    if not anywhere and not reaches_others(concatenate(reader.may_read), concatenate(writer.may_write), budget):
        return Neighbours.DISJOINT
    if not waits and reaches_others(_find_sure_reads(reader, writer, budget), concatenate(writer.sure_write), budget):
        return Neighbours.SHARED
    return Neighbours.UNKNOWN


def _find_sure_reads(reader: BufferTrace, writer: BufferTrace, budget: Budget) -> Runs:
    """See 1 above. Where a program may have written at all, all that it ever may write counts as written before."""
    firsts = [buffer.first_write for buffer in (reader, writer) if buffer.first_write is not None]
    early = [runs for time, runs in reader.plain_read if not firsts or time < min(firsts)]
    late = [runs for time, runs in reader.plain_read if firsts and time >= min(firsts)]
    if not late or reader.writes_anywhere or writer.writes_anywhere:
        return concatenate(early)
    written = merge(concatenate([*reader.may_write, *writer.may_write]), budget)
    return concatenate([*early, subtract(merge(concatenate(late), budget), written, budget)])
