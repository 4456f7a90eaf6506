"""Numbers the values of the program: two operations with one number have the same value, as XLA's common subexpression
elimination sees it.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

- `find_same_elements` finds operations that return their operand's elements unchanged, in the same number. XLA may make
  operand and result one value, so that a kernel that overwrites one overwrites the other. They are copy, reshape,
  transpose, bitcast; convert to the same element type; x * 1, 1 * x, x / 1, x + 0, 0 + x, x - 0 with a constant,
  broadcast or not; and operations that take, update, join or add up exactly the elements of one array, such as a stack
  with one row: slice, dynamic-slice, broadcast, concatenate, dynamic-update-slice, reduce from 0.
- `number_values` finds *twins*: operations with the same value. One pass in dependency order gives two operations one
  number if opcode, shape, attributes and the numbers of their operands are equal, in either order for commutative ones.
  Called computations are not compared: two reductions that differ only in the computation that they apply count as
  twins. An arithmetic operation that returns its operand's elements, and a barrier that only the program as written
  has, have their operand's number.
- `number_inlined` does this for a computation and all its callees, as XLA sees them after inlining every `call` and every
  loop that runs once. Any operation that returns its operand's elements has its operand's number. `find_twins` has the
  result by tags.
- Alternatives meet in a conditional, whose result is that of one branch or another, and in a loop whose body returns an
  element of its state in another element's place. If these alternatives are twins, the result is one value to XLA
  whichever of them it is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from ligerdiag.hlo.counters import runs_once
from ligerdiag.hlo.dataflow import look_through
from ligerdiag.hlo.fixed_values import sort_branches
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath, is_added_barrier
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import count_elements, is_tuple
from ligerdiag.hlo.xla_pb2 import LiteralProto

_FORMS = having(Trait.SAME_ELEMENTS)
_NEUTRAL = {"multiply": 1.0, "divide": 1.0, "add": 0.0, "subtract": 0.0}
ARITHMETIC = frozenset(_NEUTRAL)
_OF_WHOLE = {"slice": 0, "dynamic-slice": 0, "broadcast": 0, "concatenate": 0, "dynamic-update-slice": 1, "reduce": 0}
"""Maps an opcode to the number of the operand whose elements the result holds, if it holds exactly these."""
_ONE_SIDED = frozenset({"divide", "subtract"})
_PASSED = having(Trait.KEEPS_SCALAR) - {"bitcast"}
"""Opcodes that keep the number that a scalar constant holds. A bitcast is left out, because it may reinterpret the bits
as another element type.
"""
_PRODUCTS = having(Trait.LIBRARY_CALL)
_NUMBERS = ("f32s", "f64s", "s32s", "s64s", "u32s", "u64s")
_BYTES = {"f16s": (b"\x00\x3c", b"\x00\x00"), "bf16s": (b"\x80\x3f", b"\x00\x00")}
"""Maps a field of a literal to the bytes of the number one and the bytes of the number zero in this format."""


def find_same_elements(instruction: HloInstruction) -> HloInstruction | None:
    """Returns the operand whose elements the instruction returns unchanged; None if it computes new ones."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in _FORMS and len(operands) == 1:
        return operands[0]
    if opcode == "convert" and operands[0].shape.element_type == instruction.shape.element_type:
        return operands[0]
    if opcode in _OF_WHOLE:
        return _find_whole(instruction)
    neutral = _NEUTRAL.get(opcode)
    if neutral is None or len(operands) != 2:
        return None
    if _is_constant(operands[1], neutral):
        return operands[0]
    return operands[1] if opcode not in _ONE_SIDED and _is_constant(operands[0], neutral) else None


def _find_whole(instruction: HloInstruction) -> HloInstruction | None:
    """Returns the operand if the result holds exactly its elements, all of them and no others; otherwise None."""
    operands, taken = instruction.operands, instruction.operands[_OF_WHOLE[instruction.opcode]]
    if is_tuple(instruction.shape) or (instruction.opcode == "concatenate" and len(operands) > 1):
        return None
    if instruction.opcode == "reduce" and (len(operands) != 2 or not _is_constant(operands[1], 0.0)):
        return None
    same_type = taken.shape.element_type == instruction.shape.element_type
    return taken if same_type and count_elements(taken.shape) == count_elements(instruction.shape) else None


def _is_constant(value: HloInstruction, number: float) -> bool:
    value = look_through(value, _PASSED)
    return value.opcode == "constant" and _holds_only(value.proto.literal, number)


def _holds_only(literal: LiteralProto, number: float) -> bool:
    for name in _NUMBERS:
        if values := getattr(literal, name, None):
            return all(value == number for value in values)
    for name, (one, zero) in _BYTES.items():
        if data := getattr(literal, name, None):
            wanted = one if number else zero
            return data == wanted * (len(data) // len(wanted))
    return False


_SNAPSHOT = "ligerdiag_snapshot"
"""Last part of the name of a snapshot: a copy that ligerdiag adds to the program as written and that the program given
to XLA lacks.
"""
_IGNORED = (
    "name",
    "id",
    "metadata",
    "operand_ids",
    "control_predecessor_ids",
    "called_computation_ids",
    "original_value",
)


type CallPath = tuple[int, ...]
"""Ids of `call` instructions, and of loops that run once, outermost first."""
type Alternatives = tuple[tuple[int, ...], ...]
"""For each element of a result, the numbers of the values that the element may be. Values that XLA takes for one have
the same number.
"""
type _Known = dict[tuple[bytes, tuple[int, ...]], int]


@lru_cache(maxsize=32)
def number_values(computation: HloComputation) -> Mapping[int, int]:
    """Returns the value number of each instruction by its id. XLA's common subexpression elimination takes
    instructions with the same number, and no others, for one value.
    """
    known: _Known = {}
    numbers: dict[int, int] = {}
    for instruction in computation.instructions:
        numbers[instruction.id] = _number(instruction, numbers, known)
    return numbers


def _number(instruction: HloInstruction, numbers: Mapping[int, int], known: _Known) -> int:
    same = find_equal_operand(instruction)
    if same is not None:
        return numbers[same.id]
    operands = tuple([numbers[operand.id] for operand in instruction.operands])
    if instruction.opcode in _COMMUTATIVE:
        operands = tuple(sorted(operands))
    return known.setdefault((_attributes(instruction), operands), len(known))


_COMMUTATIVE = having(Trait.COMMUTES)


def is_inlined_by_xla(module: HloModule, caller: HloInstruction) -> bool:
    """Returns whether XLA inlines the computation that the instruction calls. It inlines a `call`, and the body of a loop
    that runs once.
    """
    return caller.opcode == "call" or runs_once(module, caller)


@dataclass(slots=True, eq=False)
class _Numbering:
    """Numbers the values of a computation and of everything inlined into it, and records the alternatives of each loop
    and conditional: the values of which one becomes its result.
    """

    module: HloModule
    found: dict[CallPath, tuple[HloComputation, Mapping[int, int]]] = field(
        default_factory=dict[CallPath, tuple[HloComputation, Mapping[int, int]]]
    )
    """Maps each call path to (the computation that it leads to, the value number of each instruction there by id)."""
    confluences: dict[CallPath, Alternatives] = field(default_factory=dict[CallPath, Alternatives])
    """Maps the call path of a loop or conditional, its own id last, to the value numbers that each element of its
    result may have.
    """
    _known: _Known = field(default_factory=dict[tuple[bytes, tuple[int, ...]], int])
    sees_barriers: bool = True
    """Whether a barrier of the author's or of JAX's, such as `jax.checkpoint` makes, gives its operand another number."""

    def number(
        self,
        computation: HloComputation,
        arguments: tuple[int, ...] = (),
        elements: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
        path: CallPath = (),
        *,
        is_inlined: bool = True,
    ) -> tuple[int, tuple[int, ...]]:
        """Numbers the values of a computation. Returns the number of its result, and the numbers of the elements if the
        result is a tuple (() if they are unknown).

        arguments: value numbers of the computation's arguments. elements: maps the number of a parameter to the value
        numbers of its tuple elements; has only parameters for which they are known. is_inlined: whether XLA inlines the
        computation; False in a branch, whose numbers are not recorded in `found`.
        """
        numbers: dict[int, int] = {}
        parts: dict[int, tuple[int, ...]] = {}
        for one in computation.instructions:
            if one.opcode == "parameter" and arguments:
                numbers[one.id] = arguments[one.proto.parameter_number]
                if one.proto.parameter_number in elements:
                    parts[one.id] = elements[one.proto.parameter_number]
            elif one.opcode == "get-tuple-element" and one.operands[0].id in parts:
                numbers[one.id] = parts[one.operands[0].id][one.proto.tuple_index]
            elif one.opcode == "opt-barrier" and not self.sees_barriers:
                numbers[one.id] = numbers[one.operands[0].id]
                if passed := _find_elements(one.operands[0], numbers, parts):
                    parts[one.id] = passed
            else:
                numbers[one.id] = _number(one, numbers, self._known)
            if is_inlined_by_xla(self.module, one):
                callee, inner = self.module.computations[one.called_computations[0]], (*path, one.id)
                result, returned = self._enter(callee, one.operands, numbers, parts, inner, is_inlined=is_inlined)
                if returned:
                    parts[one.id] = returned
                else:
                    numbers[one.id] = result
            elif one.opcode == "conditional":
                self._meet_branches(one, numbers, parts, path)
            elif one.opcode == "while":
                self._meet_iterations(one, _find_elements(one.operands[0], numbers, parts), path)
        if is_inlined:
            self.found[path] = computation, numbers
        return numbers[computation.root.id], _find_elements(computation.root, numbers, parts)

    def _enter(
        self,
        callee: HloComputation,
        operands: Sequence[HloInstruction],
        numbers: Mapping[int, int],
        parts: Mapping[int, tuple[int, ...]],
        path: CallPath,
        *,
        is_inlined: bool,
    ) -> tuple[int, tuple[int, ...]]:
        given = tuple([numbers[operand.id] for operand in operands])
        known_parts = dict(enumerate(_find_elements(operand, numbers, parts) for operand in operands))
        handed = {number: found_parts for number, found_parts in known_parts.items() if found_parts}
        return self.number(callee, given, handed, path, is_inlined=is_inlined)

    def _meet_branches(
        self,
        conditional: HloInstruction,
        numbers: Mapping[int, int],
        parts: Mapping[int, tuple[int, ...]],
        path: CallPath,
    ) -> None:
        inner = (*path, conditional.id)
        branches = [self.module.computations[number] for number in conditional.called_computations]
        alternatives: list[tuple[int, ...]] = []
        for branch, operand in zip(branches, conditional.operands[1:], strict=True):
            result, returned = self._enter(branch, (operand,), numbers, parts, inner, is_inlined=False)
            alternatives.append(returned if is_tuple(conditional.shape) else (result,))
        alternatives = [alternatives[number] for number in sort_branches(conditional)]
        if len({len(results) for results in alternatives}) == 1:
            self.confluences[inner] = tuple(zip(*alternatives, strict=True))

    def _meet_iterations(self, loop: HloInstruction, initial: tuple[int, ...], path: CallPath) -> None:
        chains = self.module.computations[loop.called_computations[0]].rotated_elements
        if initial and chains:
            alternatives = [tuple([initial[element] for element in chain]) for chain in chains]
            self.confluences[*path, loop.id] = tuple(alternatives)


@lru_cache(maxsize=32)
def _number_all(module: HloModule, computation: HloComputation, *, sees_barriers: bool = True) -> _Numbering:
    numbering = _Numbering(module, sees_barriers=sees_barriers)
    numbering.number(computation)
    return numbering


def number_inlined(
    module: HloModule, computation: HloComputation, *, sees_barriers: bool = True
) -> Mapping[CallPath, tuple[HloComputation, Mapping[int, int]]]:
    """Returns the value numbers of a computation and of all computations that XLA inlines into it. Maps each path of inlined
    calls to (the computation at its end, a mapping from instruction id to value number).

    sees_barriers: whether the result of a barrier has a number of its own, because XLA does not merge values across the
    barrier. If False, two values have one number if the program computes the same.
    """
    return _number_all(module, computation, sees_barriers=sees_barriers).found


def _find_elements(
    value: HloInstruction, numbers: Mapping[int, int], parts: Mapping[int, tuple[int, ...]]
) -> tuple[int, ...]:
    if value.opcode == "tuple":
        return tuple([numbers[operand.id] for operand in value.operands])
    return parts.get(value.id, ())


def find_equal_operand(instruction: HloInstruction) -> HloInstruction | None:
    """Returns the operand that XLA takes for the same value as an instruction, such as `x` for `x * 1`. Returns None if
    there is none.
    """
    if instruction.opcode == "opt-barrier":
        name = instruction.op_name.partition("#ld")[0].rpartition("/")[2]
        return instruction.operands[0] if is_added_barrier(instruction) or name == _SNAPSHOT else None
    if instruction.opcode in ARITHMETIC:
        return find_same_elements(instruction)
    return None


@dataclass(frozen=True, slots=True)
class Twins:
    """The value numbers of the program's operations. Two operations with the same number are *twins*: XLA takes them for one
    value.

    Tag paths begin at the computation into which XLA inlines the calls, such as a loop's body.
    """

    numbers: Mapping[TagPath, tuple[int, int]]
    """Maps the tag path of an operation to (id of the computation where the path begins, value number of the
    operation).
    """
    groups: Mapping[tuple[int, int], tuple[TagPath, ...]]
    """The inverse of `numbers`: the tag paths of all operations with the same value."""
    operands: Mapping[TagPath, tuple[int, ...]]
    """Maps the tag path of an operation that has two operands of the same value to the value numbers of all its
    operands.
    """
    confluences: Mapping[TagPath, Alternatives]
    """Maps the tag path of a loop or conditional to its alternatives: for each element of its result, the value numbers
    that the element may have.
    """
    products: Mapping[TagPath, tuple[tuple[int, int], ...]]
    """Maps the tag path of a matrix product to a pair for each operand, as in `numbers`: (computation id, value
    number).
    """

    def _find_start(self, path: TagPath) -> int | None:
        return next((start for start in range(len(path)) if path[start:] in self.numbers), None)

    def list_others(self, path: TagPath) -> tuple[TagPath, ...]:
        """Returns the tag paths of an operation's twins, without the operation itself."""
        start = self._find_start(path)
        if start is None:
            return ()
        outer, inner = path[:start], path[start:]
        return tuple([outer + other for other in self.groups[self.numbers[inner]] if other != inner])

    def are_twins(self, one: TagPath, other: TagPath) -> bool:
        """Returns whether XLA takes two operations for one value. one, other: their tag paths."""
        if one == other:
            return True
        start, second = self._find_start(one), self._find_start(other)
        if start is None or second is None or one[:start] != other[:second]:
            return False
        return self.numbers[one[start:]] == self.numbers[other[second:]]

    def list_with_twins(self, paths: Iterable[TagPath]) -> Iterator[TagPath]:
        """Yields the tag paths of `paths` whose operation has two operands that XLA takes for one value."""
        if self.operands:
            yield from (path for path in paths if self.list_operands(path))

    def list_operands(self, path: TagPath) -> tuple[int, ...]:
        """Returns the value numbers of an operation's operands. Returns () if no two operands have the same number."""
        start = self._find_start(path)
        return () if start is None else self.operands.get(path[start:], ())

    def list_alternatives(self, path: TagPath) -> Alternatives:
        """Returns the value numbers that each element of a loop's or conditional's result may have. path: its tag path.

        An element has one number for each branch, or one for its initial value and one for its value from the loop's body.
        Returns () if the numbers are unknown.
        """
        alternatives = (self.confluences.get(path[start:]) for start in range(len(path)))
        return next((found for found in alternatives if found), ())


@lru_cache(maxsize=8)
def find_twins(program: HloModule) -> Twins:
    """Returns the value numbers of all tagged operations of the program."""
    found: dict[TagPath, tuple[int, int]] = {}
    operands: dict[TagPath, tuple[int, ...]] = {}
    confluences: dict[TagPath, Alternatives] = {}
    products: dict[TagPath, tuple[tuple[int, int], ...]] = {}
    tags = program.tags
    calls = {one.id: tags.get(one.id, ()) for one in program.instructions if one.opcode == "call"}
    for root in _list_roots(program):
        for path, (computation, numbers) in number_inlined(program, root).items():
            outer = tuple([tag for call in path for tag in calls.get(call, ())])
            for one in computation.instructions:
                own = tags.get(one.id)
                if not own:
                    continue
                found[outer + own] = (root.id, numbers[_find_base(one).id])
                given = tuple([numbers[operand.id] for operand in one.operands])
                if len(set(given)) < len(given) and not _is_chosen_by_constant(one):
                    operands[outer + own] = given
                if one.opcode in _PRODUCTS:
                    products[outer + own] = tuple([(root.id, number) for number in given])
        for path, alternatives in _number_all(program, root).confluences.items():
            if path[-1] in tags:
                confluences[(*[tag for call in path[:-1] for tag in calls.get(call, ())], *tags[path[-1]])] = (
                    alternatives
                )
    groups: defaultdict[tuple[int, int], list[TagPath]] = defaultdict(list)
    for path, number in found.items():
        groups[number].append(path)
    return Twins(found, {number: tuple(paths) for number, paths in groups.items()}, operands, confluences, products)


def _list_roots(program: HloModule) -> Iterator[HloComputation]:
    """Yields the computations that XLA does not inline into another one, such as the entry and the bodies of loops and
    branches.
    """
    for computation in program.computations.values():
        callers = program.callers.get(computation.id, ())
        if computation is program.entry or not all(is_inlined_by_xla(program, caller) for caller in callers):
            yield computation


def _is_chosen_by_constant(instruction: HloInstruction) -> bool:
    """Returns whether the instruction is a select whose predicate is a constant."""
    return instruction.opcode == "select" and look_through(instruction.operands[0], _PASSED).opcode == "constant"


def _find_base(instruction: HloInstruction) -> HloInstruction:
    """Returns the value whose elements the instruction holds unchanged, looking through reshapes, through operations
    such as `x * 1`, and through the barriers that ligerdiag adds.
    """
    while True:
        base = find_equal_operand(instruction) or find_same_elements(instruction)
        if base is None:
            return instruction
        instruction = base


def _attributes(instruction: HloInstruction) -> bytes:
    stripped = type(instruction.proto)()
    stripped.CopyFrom(instruction.proto)
    for ignored in _IGNORED:
        stripped.ClearField(ignored)
    return stripped.SerializeToString(deterministic=True)
