"""Follows values within the schedule: where a copied value comes from, who uses the copy, and who writes to the bytes of the
value meanwhile.

A walk stays within one computation and looks through everything that passes a value on without moving it: bitcasts,
barriers, tuples and their elements, and the `-done` of an asynchronous operation. A place, or Position, is an
instruction and a ShapeIndex, the index of an array (a leaf) in the instruction's tuple (see `hlo.dataflow`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from ligerdiag.hlo.aliasing import find_in_place
from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position, Positions, list_running, search
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves

_BARRIERS = having(Trait.BARRIER)
ASYNC_STARTS = having(Trait.STARTS_COMPUTATION)
"""Opcodes of asynchronous starts that run a computation of their own."""
_RUNS_SCHEDULED = having(Trait.RUNS_SCHEDULED)
_PASSES = having(Trait.FORWARDS, Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT, Trait.UPDATE) | {"copy-done", "async-done"}
UPDATES = having(Trait.IN_PLACE) - having(Trait.COLLECTIVE)
"""Opcodes of operations that write a part of an operand in place."""
SLICES = frozenset({"slice", "dynamic-slice"})
_MOST_USES = 10_000
_MOST_COPIES = 8


class UseRole(Enum):
    """The role in which an instruction uses a value, for example as an operand that it overwrites."""

    READ = "read"
    OVERWRITTEN = "overwritten"
    """The user writes its result into the bytes of the value, as XLA requires of an update or an aliased call."""
    STATE = "state"
    """The value is the initial value of an element of a loop's state, and the loop changes that element."""
    BRANCH = "branch"
    """The value is an operand of a branch."""
    RESULT = "result"
    """The value is a result of the computation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueUse:
    """One use of a value by an instruction, and the role in which the instruction uses it."""

    role: UseRole
    user: HloInstruction
    """The instruction that uses the value; for a result, the root of the computation."""
    index: ShapeIndex
    """The leaf of the user's operand, or, for the role RESULT, of the computation's result. For an element of a loop's
    state, this is the index of the element, also if the loop only reads the element. For any other read, and if the user
    starts an asynchronous operation, it is ().
    """

    @property
    def needs_bytes(self) -> bool:
        """Returns whether XLA must put the value into the bytes of the user's result, because the user works in place."""
        return self.role in (UseRole.OVERWRITTEN, UseRole.STATE, UseRole.BRANCH)


class ValueUses:
    """Finds the uses and the origins of values in one scheduled module."""

    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self.module = module
        self.buffers = buffers
        self.positions = Positions(module, buffers)
        self._flow = Dataflow(module, PassThrough(bitcasts=True, barriers=True, tuples=True, asynchronous=True))

    @cached_property
    def times(self) -> Mapping[int, int]:
        """Returns the number of each instruction in the schedule of its computation, by the instruction's id."""
        return {one.id: n for c in self.computations for n, one in enumerate(c.sequence or c.instructions)}

    @cached_property
    def computations(self) -> tuple[HloComputation, ...]:
        """Returns the computations that have a schedule, the entry first. Loops, branches, calls and asynchronous starts run
        such computations. The computation of a fusion or a reduction has no schedule.
        """
        return tuple(list_running(self.module))

    def find_caller(self, computation: HloComputation) -> HloInstruction | None:
        """Returns the loop, the conditional or the call that runs a computation; None for the entry."""
        return next((one for one in self.module.callers.get(computation.id, ()) if one.opcode in _RUNS_SCHEDULED), None)

    def find_slice(self, value: HloInstruction, index: ShapeIndex = ()) -> Slice | None:
        number = self.positions.find(value, index)
        return None if number is None else self.buffers.slices[number]

    def find_origin(self, value: HloInstruction, index: ShapeIndex = ()) -> Position:
        """Returns the instruction that computes a value, and the index of the value in its shape. Stays in one
        computation: if the value comes from outside, returns the place where it enters, such as a parameter.
        """
        home = self.module.homes[value.id]
        position = value, index
        while True:
            source = next(self._flow.list_sources(*position), None)
            if source is None or self.module.homes[source[0].id] is not home:
                return position
            position = source

    def list_uses(self, value: HloInstruction, index: ShapeIndex = ()) -> list[ValueUse]:
        """Returns the uses of a value. An instruction that uses it by several operands has one use for each operand."""
        return list(self._walk(value, index))

    def _walk(self, value: HloInstruction, index: ShapeIndex) -> Iterator[ValueUse]:
        computation = self.module.homes[value.id]
        pending, seen = [(value, index)], {(value.id, index)}
        for _ in range(_MOST_USES):
            if not pending:
                return
            one, leaf = pending.pop()
            if one is computation.root:
                yield ValueUse(role=UseRole.RESULT, user=one, index=leaf)
            for user in computation.users[one.id]:
                for following in self._pass_on(user, one, leaf):
                    if (following[0].id, following[1]) not in seen:
                        seen.add((following[0].id, following[1]))
                        pending.append(following)
                yield from self._describe(user, one, leaf)

    def _pass_on(self, user: HloInstruction, value: HloInstruction, leaf: ShapeIndex) -> Iterator[Position]:
        """Yields the places to which a user passes the value on without moving it."""
        if user.opcode == "bitcast" or (user.opcode in _BARRIERS and user.operands[0] is value):
            yield user, leaf
        elif user.opcode == "tuple":
            yield from ((user, (number, *leaf)) for number, operand in enumerate(user.operands) if operand is value)
        elif user.opcode == "get-tuple-element":
            if leaf[:1] == (user.proto.tuple_index,):
                yield user, leaf[1:]
        elif user.opcode == "copy-done" and leaf == (0,):
            yield user, ()
        elif user.opcode == "async-update":
            yield user, leaf
        elif user.opcode == "async-done" and leaf[:1] == (1,):
            yield user, leaf[1:]

    def _describe(self, user: HloInstruction, value: HloInstruction, leaf: ShapeIndex) -> Iterator[ValueUse]:
        if user.opcode == "while":
            is_kept = leaf[:1] and leaf[0] in self.module.computations[user.called_computations[0]].kept_elements
            yield ValueUse(role=UseRole.READ if is_kept else UseRole.STATE, user=user, index=leaf)
        elif user.opcode == "conditional":
            if any(operand is value for operand in user.operands[1:]):
                yield ValueUse(role=UseRole.BRANCH, user=user, index=leaf)
        elif user.opcode in _PASSES:
            return
        elif user.opcode in ASYNC_STARTS:
            yield from self._describe_started(user, value, leaf)
        elif self.is_overwritten(user, value, leaf):
            yield ValueUse(role=UseRole.OVERWRITTEN, user=user, index=leaf)
        else:
            yield ValueUse(role=UseRole.READ, user=user, index=())

    def _describe_started(self, start: HloInstruction, value: HloInstruction, leaf: ShapeIndex) -> Iterator[ValueUse]:
        """Yields the uses that the operation run by an asynchronous start makes of an operand; the `user` of these uses
        is the start.
        """
        called = self.module.computations[start.called_computations[0]]
        for number, operand in enumerate(start.operands):
            if operand is value and number < len(called.parameters):
                roles = {use.role for use in self._walk(called.parameters[number], leaf)} - {UseRole.RESULT}
                role = UseRole.OVERWRITTEN if UseRole.OVERWRITTEN in roles else UseRole.READ
                yield ValueUse(role=role, user=start, index=())

    def is_overwritten(self, user: HloInstruction, value: HloInstruction, leaf: ShapeIndex = ()) -> bool:
        """Returns whether XLA requires an instruction to write a result into the bytes of an operand. It does so for an
        update or an aliased call. user: the instruction. value: the operand. leaf: the leaf of the operand.
        """
        return any(given is value and inner == leaf for _, (given, inner) in find_updates(self.module, user))

    def reads_part(self, user: HloInstruction, position: Position) -> bool:
        """Returns whether an instruction reads only slices of a value. position: the value. The instruction may be a
        fusion or an asynchronous start.
        """
        if user.opcode in SLICES or user.opcode == "gather":
            return True
        if user.opcode not in ASYNC_STARTS | {"fusion"}:
            return False
        inner = self.module.computations[user.called_computations[0]]
        numbers = [n for n, operand in enumerate(user.operands) if self._is_copy_of(operand, position)]
        uses = [use for number in numbers for use in self._walk(inner.parameters[number], ())]
        return bool(uses) and all(self.reads_part(use.user, (inner.parameters[numbers[0]], ())) for use in uses)

    def _is_copy_of(self, operand: HloInstruction, position: Position) -> bool:
        """Returns whether an operand is the value at a position, or a copy of it."""
        origin = self.find_origin(operand)
        for _ in range(_MOST_COPIES):
            if origin == position or origin[0].opcode not in ("copy", "copy-start"):
                break
            origin = self.find_origin(origin[0].operands[0])
        return origin == position

    def find_started(self, one: HloInstruction) -> HloInstruction:
        """Returns the operation that an asynchronous start runs. Returns any other instruction unchanged."""
        return self.module.computations[one.called_computations[0]].root if one.opcode in ASYNC_STARTS else one

    def depends_on(self, later: HloInstruction, earlier: HloInstruction) -> bool:
        """Returns whether `later` needs the result of `earlier`, directly or indirectly. Both must be in one computation."""
        times = self.times
        start = times.get(earlier.id, 0)

        def list_operands(one: HloInstruction) -> list[HloInstruction]:
            return [operand for operand in one.operands if times.get(operand.id, start) >= start]

        return earlier in search([later], list_operands)


def find_updates(module: HloModule, instruction: HloInstruction) -> Iterator[tuple[ShapeIndex, Position]]:
    """Yields the updates in place of an instruction, each as (leaf of the result, position of the updated operand). To those
    of `find_in_place`, it adds updates inside of a fusion that update a bitcast of the fusion's operand.
    """
    found = list(find_in_place(module, instruction))
    yield from found
    if instruction.opcode != "fusion":
        return
    known = {index for index, _ in found}
    fused = module.computations[instruction.called_computations[0]]
    flow = Dataflow(module, PassThrough(bitcasts=True, tuples=True))
    for index in iterate_leaves(instruction.shape):
        value, rest = flow.find_definition(fused.root, index)
        if value.opcode in UPDATES and index not in known:
            updated, inner = flow.find_definition(value.operands[rest[0] if rest else 0])
            if updated.opcode == "parameter" and module.homes[updated.id] is fused:
                yield index, (instruction.operands[updated.proto.parameter_number], inner)


class OldValues:
    """Finds the instructions that write to the bytes of a value while a copy keeps the value for its readers.

    The buffer assignment decides which bytes a value has. A write is a definition of a value in overlapping bytes by any
    operation, also by one inside of a loop, a branch or an asynchronous operation.
    """

    def __init__(self, uses: ValueUses) -> None:
        self._uses = uses

    @cached_property
    def _ends(self) -> Mapping[int, int]:
        """Maps the id of the start of an asynchronous operation to the time of its done."""
        times, found = self._uses.times, dict[int, int]()
        for computation in self._uses.computations:
            for one in computation.instructions:
                if one.opcode == "async-done":
                    found[one.operands[0].id] = times.get(one.id, 0)
        return found

    def find_end(self, one: HloInstruction) -> int:
        """Returns the time at which an instruction has finished reading its operands, in the schedule of its computation.
        This is its own time. For an asynchronous start, it is the time of the matching done.
        """
        return self._ends.get(one.id, self._uses.times.get(one.id, 0))

    def find_last_use(self, value: HloInstruction, index: ShapeIndex = ()) -> int:
        """Returns the time of the last use of a value, in the schedule of its computation. A value that the computation
        returns is used at the end of the schedule.
        """
        home = self._uses.module.homes[value.id]
        found = self._uses.times.get(value.id, 0)
        for use in self._uses.list_uses(value, index):
            found = max(found, len(home.instructions) if use.role is UseRole.RESULT else self.find_end(use.user))
        return found

    def list_writers(
        self, computation: HloComputation, value: HloInstruction, index: ShapeIndex, *, after: int, until: int
    ) -> Iterator[HloInstruction]:
        """Yields the instructions of a computation that write to the bytes of a value. after, until: only instructions
        with an index in the computation's schedule above `after`, and not above `until`, count.
        """
        number = self._uses.positions.find(value, index)
        if number is None:
            return
        bytes_of_it = frozenset(self._uses.buffers.overlapping[number])
        steps = computation.sequence or computation.instructions
        yield from (one for one in steps[after + 1 : until + 1] if self._writes(one, bytes_of_it))

    def _writes(self, one: HloInstruction, numbers: frozenset[int]) -> bool:
        if one.opcode == "parameter":
            return False
        if any(number in numbers for _, number in self._uses.buffers.definitions.get(one.id, ())):
            return True
        if one.opcode not in _RUNS_SCHEDULED:
            return False
        called = [self._uses.module.computations[number] for number in one.called_computations]
        return any(self._writes(inner, numbers) for computation in called for inner in computation.instructions)
