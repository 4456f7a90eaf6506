"""Finds numbers that a module computes from constants alone, whatever its arguments are, to recognize constant predicates of
conditionals and loops.

A scalar is fixed if the module computes it from constants alone. The constants may pass through copies, bitcasts, tuples,
barriers, fusions, calls and the state of a loop that keeps them, and be converted, compared and computed with. Any other
value is not fixed; callers then conclude nothing about what runs.

A conditional with a predicate takes its first branch for true. One with an index takes the last branch where the index
is out of range, as in XLA. A loop never runs when its condition is false for its initial state, and surely runs when
the condition is true for that state. XLA's backend_config is ignored.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ligerdiag.hlo.counters import find_trips
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import DTYPE_NAMES, ShapeIndex, count_elements, is_counted, is_predicate, is_tuple
from ligerdiag.hlo.xla_pb2 import LiteralProto, ShapeProto

PRED = 1
_MOST_STEPS = 60
"""Most nested operations that are followed; a predicate of a real program has a few."""
_HANDED_ON = having(Trait.BARRIER, Trait.UPDATE) | {"copy", "bitcast"}
_SAME_SCALAR = having(Trait.SAME_ELEMENTS, Trait.KEEPS_SCALAR) - {"convert"}
_NUMBERS = ("s32s", "s64s", "u32s", "u64s", "preds", "f32s", "f64s")
_TAKES_OPERANDS = having(Trait.CALLEE_TAKES_OPERANDS)

type Number = int | float

_COMPARED: Mapping[str, Callable[[Number, Number], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def find_branch(module: HloModule, conditional: HloInstruction) -> int | None:
    """Returns the number of the branch that a conditional always takes; None if it may take different branches."""
    branches = len(conditional.called_computations)
    if branches == 1:
        return 0
    selector = conditional.operands[0]
    value = _Search.of(module).find(selector, ())
    if value is None:
        return None
    if selector.shape.element_type == PRED:
        return 0 if value else 1
    return int(value) if 0 <= value < branches else branches - 1


def sort_branches(conditional: HloInstruction) -> Sequence[int]:
    """Returns the numbers of a conditional's branches in the order of the index that chooses them.

    Branches of two modules correspond in this order, although XLA may replace an index by a predicate and then exchanges the
    two branches. A predicate chooses the first branch for true, which is index 1, so this branch comes second.
    """
    numbers = range(len(conditional.called_computations))
    return numbers[::-1] if is_predicate(conditional.operands[0].shape) and len(numbers) == 2 else numbers


def never_runs(module: HloModule, loop: HloInstruction) -> bool:
    """Returns whether the body of the loop never runs."""
    return _find_first(module, loop) == 0


def surely_runs(module: HloModule, loop: HloInstruction) -> bool:
    """Returns whether the body of the loop runs at least once."""
    return loop.id in find_trips(module) or _find_first(module, loop) not in (0, None)


def _find_first(module: HloModule, loop: HloInstruction) -> Number | None:
    """Returns the value of the loop's predicate when it is evaluated for the first time; None if that is not fixed."""
    condition = module.computations[loop.called_computations[1]]
    return _Search(module, loop).find(condition.root, ())


@dataclass(slots=True, eq=False)
class _Search:
    """Finds the numbers that one module fixes, whatever its arguments are."""

    module: HloModule
    starting: HloInstruction | None = None
    """A loop: the search finds the numbers that are fixed when the loop's condition is evaluated for the first time, on the
    loop's initial state. None to find the numbers that are fixed in every evaluation.
    """
    _known: dict[tuple[int, ShapeIndex], Number | None] = field(
        default_factory=dict[tuple[int, ShapeIndex], "Number | None"]
    )

    @staticmethod
    @lru_cache(maxsize=8)
    def of(module: HloModule) -> "_Search":
        """Returns the search for fixed numbers in a module, always the same object for one module."""
        return _Search(module)

    def find(self, value: HloInstruction, path: ShapeIndex, steps: int = _MOST_STEPS) -> Number | None:
        """Returns the fixed number at a position of the module. Returns None if the value there is not fixed, or not a
        single number.

        path: index into the shape of `value`. steps: how many nested operations are followed at most; a number that needs
        more counts as not fixed.
        """
        key = value.id, path
        if key not in self._known and steps:
            self._known[key] = None  # a path that leads back to this value fixes nothing
            self._known[key] = self._follow(value, path, steps - 1)
        return self._known.get(key)

    def _follow(self, value: HloInstruction, path: ShapeIndex, steps: int) -> Number | None:
        opcode, operands = value.opcode, value.operands
        match opcode:
            case "constant":
                return _read(value.proto.literal, value.shape, path)
            case "get-tuple-element":
                return self.find(operands[0], (value.proto.tuple_index, *path), steps)
            case "tuple":
                is_there = bool(path) and path[0] < len(operands)
                return self.find(operands[path[0]], path[1:], steps) if is_there else None
            case "parameter":
                return self._leave(value, path, steps)
            case "fusion" | "call":
                return self.find(self._get_callee(value, 0).root, path, steps)
            case "conditional":
                branch = find_branch(self.module, value)
                return None if branch is None else self.find(self._get_callee(value, branch).root, path, steps)
            case "while":
                kept = path and path[0] in self._get_callee(value, 0).kept_elements
                return self.find(operands[0], path, steps) if kept else None
            case "copy-done":
                start = operands[0]
                return self.find(start.operands[0], path, steps) if start.opcode == "copy-start" else None
            case _ if opcode in _HANDED_ON and operands[0].shape.element_type == value.shape.element_type:
                return self.find(operands[0], path, steps)
            case _ if path or is_tuple(value.shape) or count_elements(value.shape) != 1 or not operands:
                return None
            case _ if opcode in _SAME_SCALAR:
                return self.find(operands[0], (), steps)
            case _:
                return self._compute(value, steps)

    def _get_callee(self, caller: HloInstruction, number: int) -> HloComputation:
        return self.module.computations[caller.called_computations[number]]

    def _leave(self, parameter: HloInstruction, path: ShapeIndex, steps: int) -> Number | None:
        """Returns the fixed number at `path` of a computation's parameter; None if it is not fixed. If the computation has a
        single caller, it is the number at `path` of the caller's operand. steps: as in `find`.
        """
        home, number = self.module.homes[parameter.id].id, parameter.proto.parameter_number
        callers = self.module.callers.get(home, ())
        if len(callers) != 1 or callers[0].called_computations.count(home) != 1:
            return None
        caller = callers[0]
        if caller.opcode == "while":
            is_start = caller is self.starting and caller.called_computations[1] == home
            kept = path and path[0] in self._get_callee(caller, 0).kept_elements
            return self.find(caller.operands[0], path, steps) if is_start or kept else None
        if caller.opcode == "conditional":
            number = 1 + caller.called_computations.index(home)
        elif caller.opcode not in _TAKES_OPERANDS:
            return None
        return self.find(caller.operands[number], path, steps) if number < len(caller.operands) else None

    def _compute(self, value: HloInstruction, steps: int) -> Number | None:
        """Returns the fixed result of an operation on scalars; None if it is not fixed. steps: as in `find`."""
        opcode, operands = value.opcode, value.operands
        known = [self.find(operand, (), steps) for operand in operands]
        match opcode, known:
            case "convert", [one] if one is not None:
                return _convert(one, value.shape)
            case "compare", [_, _]:
                return self._compare(value, known)
            case "select", [chooser, one, other] if chooser is not None:
                return one if chooser else other
            case _ if not is_counted(value.shape):
                return None
            case "not", [int(one)]:
                return 1 - one if value.shape.element_type == PRED else _wrap(~one, value.shape)
            case "negate", [int(one)]:
                return _wrap(-one, value.shape)
            case "clamp", [int(low), int(one), int(high)]:
                return min(max(low, one), high)
            case "clamp", [int(low), None, int(high)] if low >= high:
                return high
            case "and" | "multiply", [0, _] | [_, 0]:
                return 0
            case "or", [1, _] | [_, 1] if value.shape.element_type == PRED:
                return 1
            case "xor" | "subtract", _ if len(operands) == 2 and operands[0] is operands[1]:
                return 0
            case "add", [int(one), int(other)] if value.shape.element_type == PRED:
                return one | other
            case _, [int(one), int(other)]:
                found = _combine(opcode, one, other)
                return None if found is None else _wrap(found, value.shape)
            case _:
                return None

    @staticmethod
    def _compare(value: HloInstruction, known: list[Number | None]) -> Number | None:
        direction, (left, right) = value.proto.comparison_direction, known
        if value.operands[0] is value.operands[1] and is_counted(value.operands[0].shape):
            left = right = 0  # both operands are one number, whatever it is
        compare = _COMPARED.get(direction)
        return None if left is None or right is None or compare is None else int(compare(left, right))


def _combine(opcode: str, one: int, other: int) -> int | None:
    """Returns the result of an operation on two numbers; None for an operation that is not modelled."""
    match opcode:
        case "add":
            return one + other
        case "subtract":
            return one - other
        case "multiply":
            return one * other
        case "maximum":
            return max(one, other)
        case "minimum":
            return min(one, other)
        case "and":
            return one & other
        case "or":
            return one | other
        case "xor":
            return one ^ other
        case _:
            return None


def _read(literal: LiteralProto, shape: ShapeProto, path: ShapeIndex) -> Number | None:
    for number in path:
        if not 0 <= number < len(literal.tuple_literals) or number >= len(shape.tuple_shapes):
            return None
        literal, shape = literal.tuple_literals[number], shape.tuple_shapes[number]
    if is_tuple(shape) or count_elements(shape) != 1:
        return None
    for name in _NUMBERS:
        values = getattr(literal, name)
        if len(values) == 1:
            value = values[0]
            return value if isinstance(value, float) else int(value)
    dtype = DTYPE_NAMES.get(shape.element_type, "")
    if dtype in ("s8", "u8", "s16", "u16"):
        data: bytes = getattr(literal, f"{dtype}s")
        return int.from_bytes(data, "little", signed=dtype.startswith("s")) if data else None
    return None


def _convert(one: Number, shape: ShapeProto) -> Number | None:
    if shape.element_type == PRED:
        return int(one != 0)
    if not is_counted(shape):
        return float(one) if abs(one) < 1 << 11 and one == int(one) else None  # exact in each floating point dtype
    if isinstance(one, float) and not abs(one) < 1 << 7:
        return None
    return _wrap(int(one), shape)


def _wrap(number: int, shape: ShapeProto) -> int:
    """Returns the number as its integer dtype holds it, wrapped around if too large."""
    dtype = DTYPE_NAMES[shape.element_type]
    if dtype == "pred":
        return number & 1
    bits = int(dtype[1:])
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype.startswith("s") and number >> (bits - 1) else number
