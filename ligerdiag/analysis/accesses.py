"""Who reads the memory that a kernel overwrites, and the values that it was copied from: what a person needs to judge."""

from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.dataflow import look_through
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.shape import is_tuple

_PLACES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_SILENT = having(Trait.LAUNCHES_NOTHING, Trait.FORWARDS, Trait.CONTROL_FLOW)
"""Opcodes that read nothing themselves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accesses:
    """Scheduled instructions around one hidden write, each in schedule order."""

    before: tuple[HloInstruction, ...]
    """Read the overwritten memory and run before the kernel."""
    after: tuple[HloInstruction, ...]
    sources: tuple[tuple[HloInstruction, HloInstruction], ...]
    """(reader, value): reads another value that the overwritten one was copied, cast or gathered from."""


def find_accesses(
    module: HloModule,
    positions: Positions,
    writes: tuple[HiddenWrite, ...],
    actual: tuple[ActualWrite, ...],
    times: Mapping[int, int],
) -> Mapping[int, Accesses]:
    """HiddenWrite index to who reads what. times: instruction id to LogicalTime."""
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
    """Values that the overwritten one is made from in steps of one array operand each, the nearest first."""
    if kernel is not write.call:
        return []  # inside of a fusion, the kernel gets an address in what the fusion is given
    value = look_through(kernel.operands[write.operand], _PLACES)
    found: list[HloInstruction] = []
    while len(value.operands) == 1 and not is_tuple(value.operands[0].shape):
        value = look_through(value.operands[0], _PLACES)
        found.append(value)
    return found[:-1] if found and found[-1].opcode == "parameter" else found
