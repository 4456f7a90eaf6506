"""Finds the outputs of a program that depend on a value: forward, leaf by leaf, through every operation.

Tuples, get-tuple-elements, barriers and the edges of a shard_map pass on a single leaf, and so do loops, branches, calls and
fusions, into their computations and out again. A value that decides a trip count or a branch reaches everything that comes
out. For a custom call, `list_dependents` lists the leaves of the result that depend on an operand, and the operands that the
call overwrites with values that depend on it. Other users of an overwritten operand then count as dependents too. Without
`list_dependents`, the whole result depends on every operand. Any other operation passes an operand on to every leaf of its
result; a collective of several operands only to the operand's own leaf.

The result is an upper bound: it ignores which elements are read, and when.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ligerdiag.hlo.dataflow import Dataflow, PassThrough, is_custom_partitioning, is_operandwise, is_shard_edge, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves

type Dependents = Callable[[HloInstruction, int], tuple[Iterable[ShapeIndex], Iterable[int]]]
"""Returns, for a custom call and the number of an operand, the leaves of the call's result that depend on that operand,
and the numbers of the operands that the call overwrites with values that depend on it.
"""

type _Node = tuple[int, ShapeIndex]

_BARRIERS = having(Trait.BARRIER) | having(Trait.FORWARDS)
_GIVE_ROOT = (having(Trait.CALLEE_TAKES_OPERANDS) - having(Trait.START)) | {"conditional"}
_ACTS = having(Trait.HAS_EFFECTS, Trait.PEER_TO_PEER)
_TAKE_OPERANDS = having(Trait.CALLEE_TAKES_OPERANDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The outputs and effects of a program that depend on a value."""

    outputs: frozenset[int]
    """Numbers of the leaves of the program's result that depend on the value."""
    acts: bool
    """Whether an operation with effects of its own, such as an outfeed or a custom call with side effects, depends on the
    value."""

    @property
    def is_used(self) -> bool:
        """Returns whether any output or effect of the program depends on the value."""
        return bool(self.outputs) or self.acts


def find_reach(
    module: HloModule, starts: Iterable[tuple[HloInstruction, ShapeIndex]], list_dependents: Dependents | None = None
) -> Reach:
    """Returns the outputs and effects of a program that depend on any of some leaves. starts: these leaves, each as
    (instruction, index).

    list_dependents: returns the leaves of a custom call's result that depend on an operand. None means that the whole result
    depends on every operand.
    """
    found = search([(one.id, index) for one, index in starts], _Steps(module, list_dependents).list_next)
    root = module.entry.root
    outputs = frozenset(n for n, leaf in enumerate(iterate_leaves(root.shape)) if (root.id, leaf) in found)
    instructions = {one.id: one for one in module.instructions}
    reached = {number for number, _ in found}
    acts = any(
        user.proto.custom_call_has_side_effect if user.opcode == "custom-call" else user.opcode in _ACTS
        for number in reached
        for user in module.homes[number].users[instructions[number].id]
    )
    return Reach(outputs=outputs, acts=acts)


class _Steps:
    def __init__(self, module: HloModule, list_dependents: Dependents | None) -> None:
        self._module, self._list_dependents = module, list_dependents
        self._instructions = {one.id: one for one in module.instructions}
        self._flow = Dataflow(module, PassThrough(bitcasts=True, barriers=True, tuples=True))

    def list_next(self, node: _Node) -> Iterator[_Node]:
        number, leaf = node
        home = self._module.homes[number]
        one = self._instructions[number]
        if one is home.root:
            yield from self._leave(home.id, leaf)
        for user in home.users[number]:
            for place, operand in enumerate(user.operands):
                if operand is one:
                    yield from self._enter(user, place, leaf)

    def _leave(self, computation: int, leaf: ShapeIndex) -> Iterator[_Node]:
        """Yields the leaves of the callers that depend on this leaf of a computation's result."""
        for caller in self._module.callers.get(computation, ()):
            match caller.opcode:
                case "while" if caller.called_computations[0] == computation:
                    yield from self._carry(caller, leaf)
                case "while":
                    yield from self._carry_all(caller)
                case opcode if opcode in _GIVE_ROOT:
                    yield caller.id, leaf
                case _:
                    yield from _list_all(caller)

    def _enter(self, user: HloInstruction, place: int, leaf: ShapeIndex) -> Iterator[_Node]:
        """Yields the leaves that depend on this leaf of the user's operand number `place`: leaves of the user's result,
        or of a parameter of the computation that the user calls.
        """
        match user.opcode:
            case "tuple":
                yield user.id, (place, *leaf)
            case "get-tuple-element":
                if leaf[:1] == (user.proto.tuple_index,):
                    yield user.id, leaf[1:]
            case "while":
                yield from self._carry(user, leaf)
            case "conditional":
                if place:
                    yield from self._pass_parameter(user.called_computations[place - 1], 0, leaf)
                else:
                    yield from _list_all(user)
            case opcode if opcode in _TAKE_OPERANDS and user.called_computations:
                yield from self._pass_parameter(user.called_computations[0], place, leaf)
            case "custom-call":
                yield from self._enter_call(user, place, leaf)
            case opcode if opcode in _BARRIERS and not place:
                yield user.id, leaf
            case _ if is_operandwise(user):
                yield from ((user.id, one) for one in iterate_leaves(user.shape) if one[-1:] == (place,))
            case _:
                yield from _list_all(user)

    def _enter_call(self, call: HloInstruction, place: int, leaf: ShapeIndex) -> Iterator[_Node]:
        if is_shard_edge(call):
            yield call.id, (place, *leaf) if is_tuple(call.shape) else leaf
            return
        if is_custom_partitioning(call) and call.called_computations:
            yield from self._pass_parameter(call.called_computations[0], place, leaf)
            yield from _list_all(call)
            return
        if self._list_dependents is None:
            yield from _list_all(call)
            return
        leaves, overwritten = self._list_dependents(call, place)
        yield from ((call.id, one) for one in leaves)
        for operand in overwritten:
            source, index = self._flow.find_definition(call.operands[operand])
            yield source.id, index

    def _carry(self, loop: HloInstruction, leaf: ShapeIndex) -> Iterator[_Node]:
        yield loop.id, leaf
        for computation in loop.called_computations:
            yield from self._pass_parameter(computation, 0, leaf)

    def _carry_all(self, loop: HloInstruction) -> Iterator[_Node]:
        for leaf in iterate_leaves(loop.shape):
            yield from self._carry(loop, leaf)

    def _pass_parameter(self, computation: int, number: int, leaf: ShapeIndex) -> Iterator[_Node]:
        parameters = self._module.computations[computation].parameters
        if number < len(parameters):
            yield parameters[number].id, leaf


def _list_all(instruction: HloInstruction) -> Iterator[_Node]:
    return ((instruction.id, leaf) for leaf in iterate_leaves(instruction.shape))
