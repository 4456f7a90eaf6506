"""Follows a value through a module: where it comes from, who uses it, and which bytes hold it.

A position is an instruction and an index into its shape. One of the positions that hold a value defines it; all others
pass it on. `Dataflow.list_sources` steps from a position to its *sources*, the positions whose value it passes on, and every
walk consists of such steps. `PassThrough` selects the operations through which a walk continues to their sources:

- bitcasts: to the operand; barriers (opt-barrier, domain, add-dependency): to the first operand;
- tuples: to a tuple's element, and to the tuple of a get-tuple-element;
- calls and fusions: to the called computation's result; branches of a conditional: to the result of each branch;
- loop_entry: from a loop's result or its parameter to the value with which it starts; loop_back: to the body's result;
- arguments: from a parameter of a call, a fusion, an asynchronous computation or a branch to the operand of each
  caller;
- asynchronous operations, as in xla/hlo/analysis/hlo_dataflow_analysis.h: async-start has its operands at {0} and the
  callee's result at {1}, async-update and async-done have the operands and results of their start. Other -start and -done
  pairs have operands at {0} and results at {1}, unless the start has the shape of the done;
- shards: at the edges of a shard_map in a program as JAX writes it, result k is operand k, split or joined.

The parameter of a reducer or a comparator is an element of an operand, so no value is passed on there.

`Positions` finds the slice of a value in the buffer assignment. XLA lists definitions only; from any
other position, a walk leads to the first position that XLA lists. A listed phi of a loop is a definition, where the walk
ends.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import InvalidAlias, ShapeIndex, is_tuple, iterate_leaves

type Position = tuple[HloInstruction, ShapeIndex]

_BARRIERS = having(Trait.BARRIER)
_TAKES_OPERANDS = having(Trait.CALLEE_TAKES_OPERANDS)
_RESULT_FIRST = having(Trait.RESULT_FIRST)
_FINISHES = having(Trait.DONE, Trait.UPDATE)
_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)
_OPERANDWISE, _STARTS_WITH_OPERANDS = having(Trait.OPERANDWISE), having(Trait.STARTS_WITH_OPERANDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough:
    """Selects the kinds of operations through which a walk continues to their sources. An operation of any other kind
    defines its result, and the walk ends there.
    """

    bitcasts: bool = False
    barriers: bool = False
    tuples: bool = False
    calls: bool = False
    fusions: bool = False
    branches: bool = False
    loop_entry: bool = False
    loop_back: bool = False
    arguments: bool = False
    asynchronous: bool = False
    shards: bool = False


@dataclass(slots=True, eq=False)
class Dataflow:
    """Follows values through one module, through the kinds of operations that `through` selects."""

    module: Final[HloModule]
    through: Final[PassThrough]

    def list_sources(
        self, instruction: HloInstruction, index: ShapeIndex, callers: Iterable[HloInstruction] | None = None
    ) -> Iterator[Position]:
        """Yields the positions from which a position gets its value unchanged; none if the position defines the value.

        callers: the callers of the computation to consider if the instruction is a parameter. Their operands are its
        sources. None means all callers.
        """
        through, operands = self.through, instruction.operands
        match instruction.opcode:
            case "get-tuple-element" if through.tuples:
                yield operands[0], (instruction.proto.tuple_index, *index)
            case "tuple" if through.tuples:
                if index and index[0] < len(operands):
                    yield operands[index[0]], index[1:]
            case "bitcast" if through.bitcasts:
                yield operands[0], index
            case "custom-call" if through.shards and is_shard_edge(instruction):
                yield (operands[index[0]], index[1:]) if is_tuple(instruction.shape) else (operands[0], index)
            case "parameter":
                yield from self._leave(instruction, index, callers)
            case "while":
                yield from self._list_carried(instruction, index)
            case "call" if through.calls:
                yield self._find_root(instruction), index
            case "fusion" if through.fusions:
                yield self._find_root(instruction), index
            case "conditional" if through.branches:
                for number in range(len(instruction.called_computations)):
                    yield self._find_root(instruction, number), index
            case "async-update" if through.asynchronous:
                yield operands[0], index
            case opcode if opcode in _BARRIERS:
                if through.barriers:
                    yield operands[0], index
            case opcode if through.asynchronous and opcode.endswith("-start"):
                yield from self._list_started(instruction, index)
            case opcode if through.asynchronous and opcode.endswith("-done"):
                start = operands[0]
                if start.opcode == "all-reduce-start":
                    yield start, index
                else:
                    yield start, (0 if start.opcode in _RESULT_FIRST else 1, *index)
            case _:
                pass

    def find_definition(self, instruction: HloInstruction, index: ShapeIndex = ()) -> Position:
        """Returns the position that defines the value at a position. If the value has several sources, follows the first."""
        position = instruction, index
        while (source := next(self.list_sources(*position), None)) is not None:
            position = source
        return position

    def _leave(
        self, parameter: HloInstruction, index: ShapeIndex, callers: Iterable[HloInstruction] | None
    ) -> Iterator[Position]:
        """Yields the positions in the callers of a computation whose value a parameter of it passes on."""
        home, number = self.module.homes[parameter.id].id, parameter.proto.parameter_number
        for caller in self.module.callers.get(home, ()) if callers is None else callers:
            if caller.opcode == "while":
                yield from self._list_carried(caller, index)
            elif not self.through.arguments:
                continue
            elif caller.opcode == "conditional":
                for branch, callee in enumerate(caller.called_computations):
                    if callee == home:
                        yield caller.operands[1 + branch], index
            elif caller.opcode in _TAKES_OPERANDS and number < len(caller.operands):
                yield caller.operands[number], index

    def _list_carried(self, loop: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        """Yields the positions whose value a loop's result or parameter passes on: the initial value and the body's
        result.
        """
        if self.through.loop_entry:
            yield loop.operands[0], index
        if self.through.loop_back:
            yield self._find_root(loop), index

    def _list_started(self, start: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        """Yields the positions whose value the start of an asynchronous operation passes on."""
        head, rest, operands = index[:1], index[1:], start.operands
        if head == (1,) and start.called_computations:
            yield self._find_root(start), rest
        elif start.opcode == "copy-start":
            if head == (1,):
                yield operands[0], rest
        elif head == (0,):
            if len(operands) == 1 and start.opcode != "async-start":
                yield operands[0], rest
            elif rest and rest[0] < len(operands):
                yield operands[rest[0]], rest[1:]

    def _find_root(self, caller: HloInstruction, number: int = 0) -> HloInstruction:
        return self.module.computations[caller.called_computations[number]].root


def is_shard_edge(instruction: HloInstruction) -> bool:
    """Returns whether the instruction passes its operands into a shard_map, or out of one."""
    return is_call_with(instruction, CallTrait.SHARD_EDGE)


def look_through(value: HloInstruction, opcodes: frozenset[str]) -> HloInstruction:
    """Follows the first operand of each instruction, from `value` back, while the opcode is one of `opcodes`. Returns the
    instruction at which this ends.

    Indices of tuples are ignored: if `opcodes` has get-tuple-element, the walk may end at a whole tuple.
    """
    while value.opcode in opcodes and value.operands:
        value = value.operands[0]
    return value


def find_start(module: HloModule, done: HloInstruction) -> HloInstruction:
    """Returns the `-start` that belongs to a `-done` or `-update` instruction. If the result of the start comes out of a
    loop or a call, returns the loop or call.
    """
    flow = Dataflow(module, PassThrough(tuples=True, barriers=True))
    while done.opcode in _FINISHES:
        done, _ = flow.find_definition(done.operands[0])
    return done


def look_through_forward(
    value: HloInstruction, opcodes: frozenset[str], users: Mapping[int, tuple[HloInstruction, ...]]
) -> Iterator[HloInstruction]:
    """Yields the instructions that use a value. If the opcode of a user is one of `opcodes`, yields the users of its
    result in its place.
    """
    for user in users[value.id]:
        if user.opcode in opcodes:
            yield from look_through_forward(user, opcodes, users)
        else:
            yield user


def list_running(module: HloModule) -> list[HloComputation]:
    """Returns the entry computation, and all computations that loops, branches, calls and asynchronous starts run. Their
    values have storage. The entry comes first. A computation that is fused or applied does not count.
    """

    def list_called(number: int) -> list[int]:
        calling = [one for one in module.computations[number].instructions if one.opcode in _RUNS_SCHEDULED]
        return [callee for one in calling for callee in one.called_computations]

    return [module.computations[number] for number in search([module.entry.id], list_called)]


def list_operands(instruction: HloInstruction) -> tuple[HloInstruction, ...]:
    """Returns the operands of an instruction. With this function as `list_next`, `search` goes back in one computation."""
    return instruction.operands


def is_custom_partitioning(instruction: HloInstruction) -> bool:
    """Returns whether the instruction is the call of a `custom_partitioning`."""
    return is_call_with(instruction, CallTrait.CUSTOM_PARTITIONING)


def search[Node: Hashable](
    starts: Iterable[Node],
    list_next: Callable[[Node], Iterable[Node]],
    is_target: Callable[[Node], bool] | None = None,
    *,
    most: int | None = None,
) -> Mapping[Node, Node | None]:
    """Searches a graph breadth-first. Maps each node that was found, nearest first, to the node before it on a shortest
    path. A start maps to None.

    The search stops at the first target, which is then the last node of the map. It also stops when it has found more than
    `most` nodes.
    """
    before: dict[Node, Node | None] = {}
    for start in starts:
        before[start] = None
        if is_target is not None and is_target(start):
            return before
    pending = deque(before)
    while pending and (most is None or len(before) <= most):
        node = pending.popleft()
        for following in list_next(node):
            if following not in before:
                before[following] = node
                if is_target is not None and is_target(following):
                    return before
                pending.append(following)
    return before


def find_shortest_path[Node: Hashable](
    starts: Iterable[Node],
    list_next: Callable[[Node], Iterable[Node]],
    is_target: Callable[[Node], bool],
    *,
    most: int | None = None,
) -> tuple[Node, ...]:
    """Returns a shortest path from a start to a target, both included; () if there is none. most: the search ends when it
    has found more nodes.
    """
    before = search(starts, list_next, is_target, most=most)
    last = list(before)[-1:]
    return follow_back(before, last[0]) if last and is_target(last[0]) else ()


def follow_back[Node](before: Mapping[Node, Node | None], end: Node) -> tuple[Node, ...]:
    """Returns the shortest path from a start to the node `end`, both included. before: the result of `search`."""
    way = [end]
    while (earlier := before[way[-1]]) is not None:
        way.append(earlier)
    return tuple(reversed(way))


def unite(sets: Iterable[int]) -> int:
    """Returns the union of sets that are integers with one bit for each member."""
    union = 0
    for one in sets:
        union |= one
    return union


type Definition = tuple[int, ShapeIndex]
"""The id of the instruction that defines a value, and the ShapeIndex of the value in its result."""

PASSED_ON = PassThrough(
    bitcasts=True,
    barriers=True,
    tuples=True,
    calls=True,
    branches=True,
    loop_entry=True,
    arguments=True,
    asynchronous=True,
)
"""Lets a walk through every operation whose result shares storage with its source."""
ALL_SOURCES = PassThrough(
    bitcasts=True,
    barriers=True,
    tuples=True,
    calls=True,
    fusions=True,
    branches=True,
    loop_entry=True,
    loop_back=True,
    arguments=True,
    asynchronous=True,
    shards=True,
)
"""Lets a walk through every kind of operation, to all positions from which a value may come unchanged."""
_MAX_STEPS = 100_000


class Positions:
    """Finds the definition and the bytes of the value at a position (an instruction and an index into its shape). The bytes
    are a slice of the buffer assignment, given by number. Caches its answers.
    """

    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._flow = Dataflow(module, PASSED_ON)
        self._buffers = buffers
        self._definitions: dict[int, Mapping[ShapeIndex, int]] = {}
        self._resolved: dict[Definition, Definition] = {}
        self._leaves: dict[int, tuple[int | None, ...]] = {}

    def locate(self, instruction: HloInstruction) -> tuple[int | None, ...]:
        """Returns the number of the slice with the bytes of each leaf of an instruction's result, in order. A leaf without
        bytes has None.
        """
        found = self._leaves.get(instruction.id)
        if found is None:
            defined = self._buffers.definitions.get(instruction.id, ())
            if len(defined) == 1 and not defined[0][0] and not is_tuple(instruction.shape):
                found = (defined[0][1],)
            else:
                found = tuple([self.find(instruction, index) for index in iterate_leaves(instruction.shape)])
            self._leaves[instruction.id] = found
        return found

    def find(self, instruction: HloInstruction, index: ShapeIndex) -> int | None:
        """Returns the number of the slice with the bytes of the value at a position; None if the value has no bytes."""
        return self._find_slice(*self.resolve(instruction, index))

    def resolve(self, instruction: HloInstruction, index: ShapeIndex) -> Definition:
        """Returns the position that defines the value at a position, as (instruction id, ShapeIndex).

        Follows the value backwards to its source. The definition is the first position on the way that has a slice in the
        buffer assignment; if none has one, it is the source.
        """
        passed: list[Definition] = []
        position: Position | None = (instruction, index)
        found: Definition = (instruction.id, index)
        while position is not None and len(passed) < _MAX_STEPS:
            found = position[0].id, position[1]
            if (known := self._resolved.get(found)) is not None:
                found = known
                break
            passed.append(found)
            is_defined = self._find_slice(*found) is not None
            position = None if is_defined else next(self._flow.list_sources(*position), None)
        self._resolved.update(dict.fromkeys(passed, found))
        return found

    def _find_slice(self, instruction: int, index: ShapeIndex) -> int | None:
        defined = self._buffers.definitions.get(instruction)
        if not defined:
            return None
        by_index = self._definitions.get(instruction)
        if by_index is None:
            by_index = self._definitions[instruction] = dict(defined)
        return by_index.get(index)


def is_operandwise(instruction: HloInstruction) -> bool:
    """Returns whether each leaf of an instruction's result comes from one operand. The last number of the leaf's ShapeIndex
    is then the operand's number.

    This is true of the collectives of several operands that XLA's combiners make. It is false for a collective-permute that
    writes into an array: its operands are the data, the array, and the places in both.
    """
    if instruction.opcode not in _OPERANDWISE or len(instruction.operands) < 2:
        return False
    shapes = instruction.shape.tuple_shapes
    if instruction.opcode in _STARTS_WITH_OPERANDS and len(shapes) > 1:
        shapes = shapes[1].tuple_shapes
    return len(shapes) == len(instruction.operands)


def take_unplaced_aliases(module: HloModule, buffers: BufferAssignment) -> None:
    """Removes declared aliases of custom calls that the buffer assignment breaks: operand and output have different bytes.
    Moves them from their calls to `module.invalid_aliases`.
    """
    positions = Positions(module, buffers)
    for _, call in module.iterate_custom_calls():
        entries = call.proto.output_operand_aliasing
        for number in reversed(range(len(entries))):
            entry = entries[number]
            output = tuple(entry.output_shape_index)
            operand = positions.find(call.operands[entry.operand_index], tuple(entry.operand_shape_index))
            place = positions.find(call, output)
            if place is not None and operand is not None and place != operand:
                reason = "the buffer assignment puts the output and the operand into different bytes"
                module.invalid_aliases.append(
                    InvalidAlias(instruction=call.id, operand=entry.operand_index, output=output, reason=reason)
                )
                del entries[number]


_KEEPS_SCALAR = having(Trait.KEEPS_SCALAR)

type AreOne = Callable[[HloInstruction, HloInstruction], bool]
"""Returns whether two instructions of one computation surely have the same value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundingPair:
    """The addition and the subtraction in `(x + b) - b`, where `x` is an operand of a kernel's call. The result is `x`,
    rounded to the precision of `x + b`.

    This is a workaround for hidden writes: `b` depends on the kernel's result, so that readers wait for the kernel.
    """

    addition: HloInstruction
    subtraction: HloInstruction
    term: HloInstruction
    place: int
    """Operand number of x in the addition: 0 for x + b, 1 for b + x."""


def find_rounding_pairs(
    computation: HloComputation, call: HloInstruction, operand: int, are_one: AreOne
) -> Iterator[RoundingPair]:
    """Yields the rounding pairs `(x + b) - b` in which `x` is an operand of a call, and `b` depends on the call's result.
    Searches only the call's computation; looks through barriers, broadcasts, reshapes and converts.

    operand: number of the operand `x`. are_one: returns whether two instructions surely have the same value; used to compare
    the added term with the subtracted one.
    """
    users, value = computation.users, call.operands[operand]
    for addition in users[value.id]:
        if addition.opcode != "add" or len(addition.operands) != 2:
            continue
        place = 0 if addition.operands[0] is value else 1
        term = look_through(addition.operands[1 - place], _KEEPS_SCALAR)
        if call not in search([term], list_operands):
            continue
        for subtraction in look_through_forward(addition, _KEEPS_SCALAR, users):
            if subtraction.opcode != "subtract":
                continue
            less = look_through(subtraction.operands[1], _KEEPS_SCALAR)
            if are_one(less, term) and look_through(subtraction.operands[0], _KEEPS_SCALAR) is addition:
                yield RoundingPair(addition=addition, subtraction=subtraction, term=term, place=place)
