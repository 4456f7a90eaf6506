"""Finds the operation inside of a fusion that reads a value.

A fusion has the name and the source line of its root, the last operation in it. If a report is about a read of an old value,
the root's line is of little use. The user has to change the operation that reads, which may be another operation than the
root.
"""

from collections.abc import Sequence

from ligerdiag.hlo.dataflow import Position, search
from ligerdiag.hlo.module import HloInstruction, find_user_line
from ligerdiag.memory.copy_sources import CopySources
from ligerdiag.memory.value_uses import UPDATES, ValueUses


def find_fused_reader(
    uses: ValueUses,
    sources: CopySources,
    reader: HloInstruction,
    origin: Position,
    writers: Sequence[HloInstruction] = (),
) -> HloInstruction:
    """Returns the operation inside of a fusion that reads a value or a copy of it. If several do, returns the first with a
    source line.

    reader: the fusion. origin: the value. Returns `reader` itself if it is no fusion, if an operation inside of it
    updates an array in place, or if no operation that reads the value has a source line.

    writers: if given, only operations that also depend on the result of one of these instructions count.
    """
    if reader.opcode != "fusion":
        return reader
    fused = uses.module.computations[reader.called_computations[0]]
    if any(one.opcode in UPDATES for one in fused.instructions):
        return reader
    source = sources.find_source(*origin)
    old: list[HloInstruction] = []
    new: list[HloInstruction] = []
    for parameter, operand in zip(fused.parameters, reader.operands, strict=False):
        if sources.find_source(operand, ()) == source:
            old.append(parameter)
        elif any(operand is writer or uses.depends_on(operand, writer) for writer in writers):
            new.append(parameter)
    read = search(old, lambda one: fused.users[one.id])
    mixed = search(new, lambda one: fused.users[one.id]) if writers else read
    found = (one for one in fused.instructions if one in read and one in mixed and one.opcode != "parameter")
    return next((one for one in found if find_user_line(uses.module, one) is not None), reader)
