"""Whose value is hit: what the buffer assignment has in the bytes that a kernel accesses outside of its buffers.

(1) The place is that of the buffer, and as many bytes further as the access is.
(2) Of the values that stand there at some time the call's own outputs count first, then the last one that is defined
    before it: in its own computation, else before the loop, branch or call around that. It may be dead by then.
(3) Parameters of the program stand there from the start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import LaunchNumbers, OutsideAccess


def find_hit(
    access: OutsideAccess, call: HloInstruction, module: HloModule, buffers: BufferAssignment, positions: Positions
) -> str | None:
    """The name of an instruction; empty where there is none, None where the place is not known."""
    place = _find_place(access, call, buffers, positions)
    if place is None:
        return None
    hit = {number for number, slice_ in enumerate(buffers.slices) if slice_.overlaps(place)}
    for instruction in _walk_back(call, module):
        if any(number in hit for _, number in buffers.definitions.get(instruction.id, ())):
            return instruction.name
    return ""


def _find_place(
    access: OutsideAccess, call: HloInstruction, buffers: BufferAssignment, positions: Positions
) -> Slice | None:
    """See 1 above."""
    if access.buffer is None:
        return None
    count = len(call.operands)
    if access.buffer < count:
        number = positions.find(call.operands[access.buffer], ())
    else:
        number = positions.find(call, list(iterate_leaves(call.shape))[access.buffer - count])
    if number is None:
        return None
    slice_ = buffers.slices[number]
    return Slice(slice_.allocation, slice_.offset + access.first_byte, access.width)


def _walk_back(call: HloInstruction, module: HloModule) -> Iterator[HloInstruction]:
    """See 2 and 3 above."""
    seen: set[int] = set()
    pending = [call]
    while pending:
        instruction = pending.pop()
        home = module.homes[instruction.id]
        if home.id in seen:
            continue
        seen.add(home.id)
        names = [one.id for one in home.sequence]
        if instruction.id not in names:
            continue
        yield from reversed(home.sequence[: names.index(instruction.id) + (instruction is call)])
        pending += module.callers.get(home.id, ())
    yield from module.entry.parameters


def name_hits(
    launches: Sequence[LaunchNumbers], module: HloModule, buffers: BufferAssignment
) -> tuple[LaunchNumbers, ...]:
    """Returns the observations, with the values in the bytes outside of their buffers named."""
    if not any(one.outside for one in launches):
        return tuple(launches)
    positions = Positions(module, buffers)
    calls = {i.name: i for c in module.computations.values() for i in c.sequence}
    named: list[LaunchNumbers] = []
    for launch in launches:
        call = calls.get(launch.instruction)
        if call is None:
            named.append(launch)
            continue
        outside = tuple(replace(one, hit=find_hit(one, call, module, buffers, positions)) for one in launch.outside)
        named.append(replace(launch, outside=outside))
    return tuple(named)
