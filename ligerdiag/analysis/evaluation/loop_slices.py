"""Slices of an array that a loop takes one after another, so that no iteration touches the bytes of another one.

XLA lets a kernel work on a slice of a larger array in place, by a fusion of the call with `dynamic-slice`. The slices of a
loop are apart where
  (1) the start in one dimension is a counter of the loop plus a constant, and all others are constants;
  (2) a slice is no longer there than the counter's step;
  (3) the last one ends within the array, so that none is moved to fit.
A counter is an element of the loop's state of which the loop's own operations say that (the backend_config may say anything)
  (4) the first value, in the loop's operand, is a constant;
  (5) the step, which the body's result adds to it, is a positive constant;
  (6) the last value is the largest for which the condition still holds, which compares it with a constant.
Each may stand in fusions, behind copies and in sums with constants; anything else is no counter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.evaluation.memory import ActualWrite
from ligerdiag.analysis.writes import Frames, HiddenWrite
from ligerdiag.hlo.dataflow import look_through
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import LiteralProto

_NAMES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_SAME = having(Trait.SAME_ELEMENTS)
_INTEGERS = ("s32s", "s64s", "u32s", "u64s")
_MOST_SUMS = 6
_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


@dataclass(frozen=True, slots=True)
class CounterOffset:
    """An element of the loop's state plus a constant, or the constant alone."""

    element: int | None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """The values of one element of the state in the loop's body: first, first + step, …, last."""

    first: int
    step: int
    last: int


def find_counter(module: HloModule, loop: HloInstruction, element: int) -> Counter | None:
    """Returns the element of the loop's state as a counter, (4) to (6); None if it is not known to be one."""
    body, condition = (module.computations[number] for number in loop.called_computations)
    begin = find_linear(module, loop.operands[0], (), (element,))
    after = find_linear(module, body.root, (), (element,))
    bound = _find_bound(module, condition.root, element)
    if begin is None or begin.element is not None or after is None or bound is None:
        return None
    if after.element != element or after.offset <= 0 or bound < begin.offset:
        return None
    count = (bound - begin.offset) // after.offset
    return Counter(first=begin.offset, step=after.offset, last=begin.offset + count * after.offset)


def find_linear(
    module: HloModule,
    value: HloInstruction,
    fusions: tuple[HloInstruction, ...],
    path: tuple[int, ...] = (),
    sums: int = _MOST_SUMS,
) -> CounterOffset | None:
    """Returns a value of a loop's body, inside of these fusions, as an element of the state plus a constant.

    path: which element of a tuple is asked for. sums: how many may follow each other.
    """
    while True:
        match value.opcode:
            case opcode if opcode in _SAME and not path:
                value = value.operands[0]
            case "copy":
                value = value.operands[0]
            case "get-tuple-element":
                value, path = value.operands[0], (value.proto.tuple_index, *path)
            case "tuple" if path:
                value, path = value.operands[path[0]], path[1:]
            case "fusion":
                fusions = (*fusions, value)
                value = module.computations[value.called_computations[0]].root
            case "parameter" if fusions:
                value, fusions = fusions[-1].operands[value.proto.parameter_number], fusions[:-1]
            case "parameter":
                return CounterOffset(path[0], 0) if len(path) == 1 else None
            case "constant" if not path:
                return _read_integer(value.proto.literal)
            case "add" if sums:
                return _add(*[find_linear(module, operand, fusions, (), sums - 1) for operand in value.operands])
            case _:
                return None


def _find_bound(module: HloModule, predicate: HloInstruction, element: int) -> int | None:
    """Returns the largest value of the element with which the loop goes on."""
    fusions: tuple[HloInstruction, ...] = ()
    while predicate.opcode == "fusion" or predicate.opcode in _SAME:
        if predicate.opcode == "fusion":
            fusions = (*fusions, predicate)
            predicate = module.computations[predicate.called_computations[0]].root
        else:
            predicate = predicate.operands[0]
    if predicate.opcode != "compare":
        return None
    direction = predicate.proto.comparison_direction
    one, other = (find_linear(module, operand, fusions) for operand in predicate.operands)
    if one is None or other is None:
        return None
    if one.element is None:
        one, other, direction = other, one, _MIRRORED.get(direction, "")
    if one.element != element or other.element is not None or direction not in ("LT", "LE"):
        return None
    return other.offset - one.offset - (direction == "LT")


def _add(one: CounterOffset | None, other: CounterOffset | None) -> CounterOffset | None:
    if one is None or other is None or (one.element is not None and other.element is not None):
        return None
    return CounterOffset(other.element if one.element is None else one.element, one.offset + other.offset)


def _read_integer(literal: LiteralProto) -> CounterOffset | None:
    for name in _INTEGERS:
        values = getattr(literal, name, ())
        if len(values) == 1:
            return CounterOffset(None, int(values[0]))
    return None


def takes_slices_apart(module: HloModule, frames: Frames, operand: int) -> bool:
    """Whether the call gets another part of an array in each iteration of the loop around it, (1) to (3)."""
    if len(frames) < 3 or frames[-2].instruction.opcode != "fusion" or frames[-3].instruction.opcode != "while":
        return False
    call, fusion, loop = (frame.instruction for frame in (frames[-1], frames[-2], frames[-3]))
    if frames[-2].computation.id != loop.called_computations[0]:
        return False  # the loop's condition runs once more than its body
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
    first, last = counter.first + given.offset, counter.last + given.offset
    return 0 < size <= counter.step and first >= 0 and last + size <= length


def forget_other_slices(
    operands: Sequence[Labels], writes: Sequence[HiddenWrite], actual: Sequence[ActualWrite], space: LabelSpace
) -> list[Labels]:
    """Returns a call's operand sets without what it wrote to parts of them that this iteration does not read.

    writes: the call's own; actual: where these stand.
    """
    found = list(operands)
    by_index = {write.index: write for write in writes}
    for one in actual:
        write = by_index[one.write]
        if one.apart and write.loop_depth:
            found[write.operand] &= ~(space.fresh(write.index) << write.loop_depth)
    return found
