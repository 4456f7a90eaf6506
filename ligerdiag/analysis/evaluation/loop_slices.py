"""Finds calls in a loop that get a different slice of an array in each iteration, so that no two iterations touch the
same bytes.

A *call path* leads from the entry computation to an instruction. It is a tuple of frames, each an instruction and the
computation that contains it; the last frame is the instruction itself. A *memory slice* is the bytes that the buffer
assignment gives to one array; it has a number. A dependence set says on which hidden writes a value depends (see
`evaluation.labels`).

XLA lets a kernel work on a slice of a larger array in place, by fusing the call with `dynamic-slice`. The slices of
different iterations are disjoint if all of this holds:

- the start index in one dimension is a loop counter plus a constant (or a constant minus the counter, if the loop
  counts down), and in all other dimensions constant;
- in that dimension, a slice is no longer than the counter's step;
- the last slice ends within the array, so that no start index is clamped.

`hlo.counters` defines loop counters.
"""

from collections.abc import Sequence

from ligerdiag.analysis.evaluation.label_memory import ActualWrite, Places
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.writes import Frames, HiddenWrite
from ligerdiag.hlo.counters import find_counter, find_linear
from ligerdiag.hlo.dataflow import look_through, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having

_NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)


def takes_distinct_slices(module: HloModule, frames: Frames, operand: int) -> bool:
    """Returns whether a call gets a different part of an array in each iteration of the loop around it. operand: number
    of the operand to look at. frames: the call path that ends at the call.
    """
    if len(frames) < 3 or frames[-2].instruction.opcode != "fusion" or frames[-3].instruction.opcode != "while":
        return False
    call, fusion, loop = (frame.instruction for frame in (frames[-1], frames[-2], frames[-3]))
    if frames[-2].computation.id != loop.called_computations[0]:
        return False  # in the loop's condition, which runs once more than the body
    value = look_through(call.operands[operand], _NAMES)
    if value.opcode != "dynamic-slice":
        return False
    starts = [(axis, start) for axis, start in enumerate(value.operands[1:]) if start.opcode != "constant"]
    if len(starts) != 1:
        return False
    axis, start = starts[0]
    given = find_linear(module, start, (fusion,))
    counter = find_counter(module, loop, given.element) if given is not None and given.element is not None else None
    if given is None or counter is None:
        return False
    size, length = value.proto.dynamic_slice_sizes[axis], value.operands[0].shape.dimensions[axis]
    ends = [given.offset + (-count if given.is_less else count) for count in (counter.first, counter.last)]
    return 0 < size <= counter.step and min(ends) >= 0 and max(ends) + size <= length


def is_made_outside(module: HloModule, places: Places, write: ActualWrite, number: int) -> bool:
    """Returns whether the values in memory slice `number` all come from outside of the loop around the write's call. Then
    writes of earlier iterations have changed only parts of the slice that this iteration does not take.
    """
    body = module.computations[write.frames[-3].instruction.called_computations[0]]

    def list_called(instruction: HloInstruction) -> list[HloInstruction]:
        return [one for called in instruction.called_computations for one in module.computations[called].instructions]

    return not any(number in places.list_defined(one) for one in search(body.instructions, list_called))


def forget_other_slices(
    operands: Sequence[Labels], writes: Sequence[HiddenWrite], actual: Sequence[ActualWrite], space: LabelSpace
) -> list[Labels]:
    """Returns the dependence sets of a call's operands without labels of the call's writes in earlier iterations. These
    writes changed parts of the array that the call does not read in this iteration.

    operands: the set of each operand. writes: the call's hidden writes. actual: these writes as the schedule performs them.
    """
    found = list(operands)
    by_index = {write.index: write for write in writes}
    for one in actual:
        write = by_index[one.write]
        if one.distinct_per_iteration and write.loop_depth:
            found[write.operand] &= ~(space.fresh(write.index) << write.loop_depth)
    return found
