"""Finds declared writes whose new contents the program never uses although it reads the old contents after the call.

A declared write returns the new contents as an output of the call, and the operand keeps its old value for every other
reader. A program that drops that output and continues with the operand is right by definition; its author may have meant
the new contents. A write to scratch memory does not count: its operand is not read again, or the old contents are a
constant.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.analysis.writes import CALLERS, Frames, iterate_kernel_calls, writes_aliased
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.call import carries_kernel
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position, is_shard_edge, search
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.reach import find_reach
from ligerdiag.hlo.shape import ShapeIndex

_NAMES = PassThrough(bitcasts=True, barriers=True, tuples=True, arguments=True, shards=True)
_RENAMES = having(Trait.FORWARDS, Trait.BARRIER)
_CONSTANT = having(Trait.FROM_NOTHING)
_KEEPS_SCALAR = having(Trait.KEEPS_SCALAR)
_TAKES_OPERANDS = having(Trait.CALLEE_TAKES_OPERANDS)
_HAS_EFFECTS = {
    "custom-call",
    *having(Trait.CONTROL_FLOW, Trait.CALLEE_TAKES_OPERANDS, Trait.HAS_EFFECTS, Trait.PEER_TO_PEER),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnusedContents:
    """A declared write whose new contents are never used, although operations read the old contents after the call."""

    call: HloInstruction
    effects: CallEffects
    operand: int
    """Number of the operand of the custom call."""
    readers: tuple[HloInstruction, ...]
    """The operations that read the old contents after the call, in program order if they are in one computation; at least
    one.
    """


def find_unused_contents(module: HloModule, effects_by_call: Mapping[int, CallEffects]) -> Iterator[UnusedContents]:
    """Yields the declared writes of the program whose old contents are read later, and whose new contents never are.
    Leaves out calls of libraries: JAX makes them, and may rightly ignore their aliased outputs.

    effects_by_call: maps the id of a custom call to its effects.
    """
    flow = Dataflow(module, _NAMES)
    done: set[int] = set()
    for frames, call in iterate_kernel_calls(module):
        effects = effects_by_call.get(call.id)
        if call.id in done or effects is None or not carries_kernel(call.proto.custom_call_target):
            continue
        done.add(call.id)
        for number, leaf in sorted(call.operand_output_aliases.items()):
            if not writes_aliased(effects, call, number, leaf) or find_reach(module, [(call, leaf)]).is_used:
                continue
            definition = flow.find_definition(call.operands[number])
            if _is_constant(definition[0]):
                continue
            users = _list_users(module, definition)
            readers = tuple([one for one in users if one is not call and _comes_after(module, one, frames)])
            if readers:
                yield UnusedContents(call=call, effects=effects, operand=number, readers=readers)


def _is_constant(value: HloInstruction) -> bool:
    """Returns whether every element of the value is in the program's text, as for an array of zeros."""
    while value.opcode in _KEEPS_SCALAR and len(value.operands) == 1:
        value = value.operands[0]
    return value.opcode in _CONSTANT


def _list_users(module: HloModule, start: Position) -> tuple[HloInstruction, ...]:
    """Returns the operations that use the value at a position, under any name and in any computation; the root of the
    entry computation counts as one if the value is an output.

    A loop that changes the value, and a conditional whose result may be another value, are users themselves; what they
    return is not followed.
    """
    found: dict[int, HloInstruction] = {}
    seen = {(start[0].id, start[1])}
    pending = [start]
    while pending:
        value, index = pending.pop()
        passed, users = _follow(module, value, index)
        found |= {user.id: user for user in users}
        for position in passed:
            key = position[0].id, position[1]
            if key not in seen:
                seen.add(key)
                pending.append(position)
    return tuple([one for one in module.instructions if one.id in found])


def _follow(module: HloModule, value: HloInstruction, index: ShapeIndex) -> tuple[list[Position], list[HloInstruction]]:
    """Returns the positions that are other names of this one, and the operations that use its value (see
    `_list_users`).
    """
    home = module.homes[value.id]
    passed: list[Position] = []
    users: list[HloInstruction] = []
    for user in home.users[value.id]:
        match user.opcode:
            case "get-tuple-element":
                if not index or user.proto.tuple_index == index[0]:
                    passed.append((user, index[1:]))
            case "tuple":
                passed += [(user, (number, *index)) for number, one in enumerate(user.operands) if one is value]
            case opcode if opcode in _RENAMES:
                passed.append((user, index))
            case "custom-call" if is_shard_edge(user):
                numbers = [number for number, one in enumerate(user.operands) if one is value]
                passed += [(user, (number, *index) if len(user.operands) > 1 else index) for number in numbers]
            case opcode if opcode in CALLERS:
                is_name = opcode != "while" or _keeps(module, user, index)
                entered = list(_enter(module, user, value, index)) if is_name else []
                passed += entered
                if not entered:
                    users.append(user)
            case _ if _matters(module, home, user):
                users.append(user)
            case _:
                pass
    if value is home.root:
        if home is module.entry:
            users.append(value)
        for caller in module.callers.get(home.id, ()):
            is_name = caller.opcode == "call" or _keeps(module, caller, index)
            returned = list(_return(module, caller, home, index)) if is_name else []
            passed += returned
            if not returned:
                users.append(caller)
    return passed, users


def _enter(module: HloModule, caller: HloInstruction, value: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
    """Yields the parameters that hold the value in the computations of a caller."""
    for number, operand in enumerate(caller.operands):
        if operand is not value:
            continue
        if caller.opcode == "while":
            yield caller, index
            for callee in caller.called_computations:
                yield module.computations[callee].parameters[0], index
        elif caller.opcode == "conditional":
            if number:
                yield module.computations[caller.called_computations[number - 1]].parameters[0], index
        elif caller.opcode in _TAKES_OPERANDS:
            for callee in caller.called_computations:
                yield module.computations[callee].parameters[number], index


def _return(module: HloModule, caller: HloInstruction, home: HloComputation, index: ShapeIndex) -> Iterator[Position]:
    """Yields the positions outside of a computation that hold a part of the computation's result."""
    if caller.opcode == "while":
        if caller.called_computations[0] == home.id and index:
            yield caller, index
            for callee in caller.called_computations:
                yield module.computations[callee].parameters[0], index
    elif caller.opcode in CALLERS:
        yield caller, index


def _keeps(module: HloModule, caller: HloInstruction, index: ShapeIndex) -> bool:
    """Returns whether the caller is a loop that hands this element of its state on unchanged."""
    if caller.opcode != "while" or not index:
        return False
    return index[0] in module.computations[caller.called_computations[0]].kept_elements


def _matters(module: HloModule, home: HloComputation, user: HloInstruction) -> bool:
    """Returns whether an operation reaches its computation's result or an operation with effects of its own."""
    reached = search([user], lambda one: home.users[one.id])
    return any(one is home.root or one.opcode in _HAS_EFFECTS for one in reached)


def _comes_after(module: HloModule, reader: HloInstruction, frames: Frames) -> bool:
    """Returns whether the program runs an operation after the call at the end of `frames`, by the order of the innermost
    computation that contains both; an output counts as read after every call.
    """
    around: dict[int, HloInstruction] = {}
    one: HloInstruction | None = reader
    while one is not None:
        home = module.homes[one.id]
        around.setdefault(home.id, one)
        one = next(iter(module.callers.get(home.id, ())), None)
    if reader is module.entry.root:
        return True
    for frame in reversed(frames):
        other = around.get(frame.computation.id)
        if other is not None:
            order = {each.id: place for place, each in enumerate(module.sort_in_program_order(frame.computation))}
            return order[other.id] > order[frame.instruction.id]
    return False
