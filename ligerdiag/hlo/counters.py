"""Finds loop counters: elements of a loop's state that grow by a constant step, and the loop's trip count.

Counters are recognized by the loop's own operations, not by its backend_config, which is only a hint and may be wrong.
The loop's operand gives a constant first value, the body adds a positive constant, and the condition compares the
element with a constant, which gives the last value. Each of these may be inside of fusions, behind copies and barriers,
and in sums and differences with constants. An element that is computed in another way does not count as a counter.

Callers need the trip count for two reasons. XLA inlines the body of a loop that runs once. And a value that the body
computes anew in each iteration does not depend on the state before the loop, if the loop surely runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import LiteralProto

_SAME = having(Trait.SAME_ELEMENTS)
_BARRIERS = having(Trait.BARRIER)
_INTEGERS = ("s32s", "s64s", "u32s", "u64s")
_MOST_SUMS = 6
_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


@dataclass(frozen=True, slots=True)
class CounterOffset:
    """A number in a loop's body: a constant, or an element of the loop's state plus a constant, or a constant minus the
    element.
    """

    element: int | None
    offset: int
    is_less: bool = False
    """Whether the element is subtracted from the constant: the loop counts down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """The values that a loop's counter has in the loop's body: `first`, `first + step` and so on up to `last`."""

    first: int
    step: int
    last: int


def find_counter(module: HloModule, loop: HloInstruction, element: int) -> Counter | None:
    """Returns the values of a loop's counter, element number `element` of its state. Returns None if the element is not
    known to be a counter.
    """
    body, condition = (module.computations[number] for number in loop.called_computations)
    begin = find_linear(module, loop.operands[0], (), (element,))
    after = find_linear(module, body.root, (), (element,))
    bound = _find_bound(module, condition.root, element)
    if begin is None or begin.element is not None or after is None or bound is None:
        return None
    if after.element != element or after.is_less or after.offset <= 0 or bound < begin.offset:
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
    """Returns a value of a loop's body as an element of the loop's state plus a constant (see `CounterOffset`). Returns None
    if the value is not of this form.

    fusions: the fusions around the value, outermost first. path: index of an element of `value`, if `value` is a tuple.
    sums: how many nested sums and differences are followed; `(i + 1) + 2` has 2.
    """
    while True:
        match value.opcode:
            case opcode if opcode in _SAME and not path:
                value = value.operands[0]
            case opcode if opcode == "copy" or opcode in _BARRIERS:
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
            case "subtract" if sums:
                one, other = [find_linear(module, operand, fusions, (), sums - 1) for operand in value.operands]
                return _add(one, _turn(other))
            case _:
                return None


def _find_bound(module: HloModule, predicate: HloInstruction, element: int) -> int | None:
    """Returns the largest value of the element for which the loop's condition lets the loop continue; None if that is
    not known.
    """
    fusions: tuple[HloInstruction, ...] = ()
    while predicate.opcode == "fusion" or predicate.opcode in _SAME | _BARRIERS:
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
    if one.element != element or one.is_less or other.element is not None or direction not in ("LT", "LE"):
        return None
    return other.offset - one.offset - (direction == "LT")


def _add(one: CounterOffset | None, other: CounterOffset | None) -> CounterOffset | None:
    if one is None or other is None or (one.element is not None and other.element is not None):
        return None
    varying = other if one.element is None else one
    return CounterOffset(varying.element, one.offset + other.offset, varying.is_less)


def _turn(one: CounterOffset | None) -> CounterOffset | None:
    """Returns the number multiplied by -1; None for None."""
    return one and CounterOffset(one.element, -one.offset, one.element is not None and not one.is_less)


def _read_integer(literal: LiteralProto) -> CounterOffset | None:
    for name in _INTEGERS:
        values = getattr(literal, name, ())
        if len(values) == 1:
            return CounterOffset(None, int(values[0]))
    return None


@lru_cache(maxsize=32)
def find_trips(module: HloModule) -> Mapping[int, int]:
    """Returns the trip counts (numbers of iterations) of the loops that have a constant one, by the loop's id. The counts
    are at least 1.
    """
    found = {one.id: _count_trips(module, one) for one in module.instructions if one.opcode == "while"}
    return {number: trips for number, trips in found.items() if trips}


def runs_once(module: HloModule, loop: HloInstruction) -> bool:
    return find_trips(module).get(loop.id) == 1


def _count_trips(module: HloModule, loop: HloInstruction) -> int:
    elements = loop.shape.tuple_shapes
    integers = [number for number, shape in enumerate(elements) if not shape.dimensions and not shape.tuple_shapes]
    for number in integers:
        counter = find_counter(module, loop, number)
        if counter is not None:
            return 1 + (counter.last - counter.first) // counter.step
    return 0
