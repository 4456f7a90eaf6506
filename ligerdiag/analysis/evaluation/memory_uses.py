"""Finds uses of the memory that a kernel overwrites: instructions that read the memory, and buffers of one call that
share bytes.

Two buffers of one kernel call share bytes if `output_to_operand_aliasing` declares that they do, or if the buffer
assignment gives them the same slice: an output in the bytes of a dead operand, or one value that is passed as two
operands. Buffers that overlap only partially are not considered. A call inside of a fusion is not considered either,
because its buffers have no slices of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.dataflow import Positions, look_through
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple, iterate_leaves

_PLACES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_SILENT = having(Trait.LAUNCHES_NOTHING, Trait.FORWARDS, Trait.CONTROL_FLOW)
"""Opcodes of instructions that read no bytes themselves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accesses:
    """The scheduled instructions that read the memory of one hidden write. Also those that read a value from which the
    overwritten value was copied, cast or gathered.
    """

    before: tuple[HloInstruction, ...]
    """Instructions that read the overwritten memory and run before the kernel."""
    after: tuple[HloInstruction, ...]
    sources: tuple[tuple[HloInstruction, HloInstruction], ...]
    """(reader, value) pairs: the reader reads `value`, from which the overwritten value was copied, cast or gathered.
    """


def find_accesses(
    module: HloModule,
    positions: Positions,
    writes: tuple[HiddenWrite, ...],
    actual: tuple[ActualWrite, ...],
    times: Mapping[int, int],
) -> Mapping[int, Accesses]:
    """Returns, by index of the hidden write, the instructions that read the memory that the write overwrites. times: maps
    the id of an instruction to its LogicalTime (position in the flattened schedule).
    """
    readers = [
        instruction
        for computation in module.computations.values()
        for instruction in computation.sequence
        if instruction.id in times and instruction.opcode not in _SILENT
    ]
    readers.sort(key=lambda reader: times[reader.id])
    found: dict[int, Accesses] = {}
    for write in actual:
        runs = [frame.instruction for frame in write.frames if frame.instruction.id in times]
        if not runs:
            continue
        slices, kernel = set(write.slices), runs[-1]
        reading = [
            reader
            for reader in readers
            if reader is not kernel and any(not slices.isdisjoint(positions.locate(o)) for o in reader.operands)
        ]
        sources = _find_sources(kernel, writes[write.write])
        found[write.write] = Accesses(
            before=tuple([reader for reader in reading if times[reader.id] < times[kernel.id]]),
            after=tuple([reader for reader in reading if times[reader.id] > times[kernel.id]]),
            sources=tuple(
                [
                    (reader, source)
                    for reader in readers
                    for source in dict.fromkeys(look_through(operand, _PLACES) for operand in reader.operands)
                    if source in sources and reader not in sources and reader is not kernel
                ]
            ),
        )
    return found


def _find_sources(kernel: HloInstruction, write: HiddenWrite) -> list[HloInstruction]:
    """Returns the values from which the overwritten value is made, step by step backward, the nearest first. Ends with
    the first value that does not have exactly one operand, or whose operand is a tuple, but leaves out a parameter at
    the end. Empty if the kernel is in a fusion.
    """
    if kernel is not write.call:
        return []  # inside of a fusion, the kernel gets an address in an operand of the fusion
    value = look_through(kernel.operands[write.operand], _PLACES)
    found: list[HloInstruction] = []
    while len(value.operands) == 1 and not is_tuple(value.operands[0].shape):
        value = look_through(value.operands[0], _PLACES)
        found.append(value)
    return found[:-1] if found and found[-1].opcode == "parameter" else found


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBuffers:
    """Two buffers of one kernel call that have exactly the same bytes. One is an operand, the other an operand or an
    output.
    """

    operand: int
    buffer: int
    """Number of the other buffer; the call's operands are numbered first, then its outputs."""
    declared: bool
    """True if the call declares the alias, False if only the buffer assignment makes it."""


def find_shared_buffers(call: HloInstruction, positions: Positions) -> Iterator[SharedBuffers]:
    """Yields the pairs of buffers of a call that share bytes, operand by operand. Of the pairs of one operand, a declared
    alias comes first.
    """
    count = len(call.operands)
    leaves = list(iterate_leaves(call.shape))
    aliases = call.operand_output_aliases
    slices = [_find_slice(value, positions) for value in call.operands]
    slices += [positions.find(call, leaf) for leaf in leaves]
    for operand in range(count):
        declared = count + leaves.index(aliases[operand]) if aliases.get(operand) in leaves else None
        if declared is not None:
            yield SharedBuffers(operand=operand, buffer=declared, declared=True)
        for buffer, number in enumerate(slices):
            if number is not None and number == slices[operand] and buffer not in (operand, declared):
                yield SharedBuffers(operand=operand, buffer=buffer, declared=False)


def _find_slice(value: HloInstruction, positions: Positions) -> int | None:
    leaves = list(iterate_leaves(value.shape))
    return positions.find(value, leaves[0]) if len(leaves) == 1 else None
