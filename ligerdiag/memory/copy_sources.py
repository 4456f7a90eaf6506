"""Finds the instructions that computed the copied values of one module, looking through other copies and into
conditionals, and names values for reports. A value is an instruction and a leaf (a ShapeIndex: the index of an array in
a tuple).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ligerdiag.hlo.buffers import Slice
from ligerdiag.hlo.dataflow import Position, search
from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line, strip_tags
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaf_shapes
from ligerdiag.memory.donated_outputs import DonatedOutputs
from ligerdiag.memory.moves import Move
from ligerdiag.memory.value_uses import UPDATES, UseRole, ValueUse, ValueUses, find_updates

_MOST_STEPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that a report gives to arguments and outputs."""

    arguments: Mapping[int, str]
    """Maps the parameter number of an argument to its name."""
    outputs: Sequence[str]
    """Names of the outputs, in the order of the leaves of the entry computation's result."""

    def name_argument(self, number: int) -> str:
        return f"`{self.arguments.get(number, number)}`"

    def name_output(self, number: int) -> str:
        """Returns an output's name in backticks, or its number if it has no name, as text to put after the word `output`."""
        name = self.outputs[number] if number < len(self.outputs) else ""
        return f"`{name}`" if name and name != f"output {number}" else str(number)


class CopySources:
    """The copies of one module, and the origins of the values that they copy."""

    def __init__(self, uses: ValueUses, moves: Sequence[Move], names: Names) -> None:
        self.moves = {(move.instruction.id, move.index): move for move in moves}
        self.donated = DonatedOutputs(uses)
        self._uses = uses
        self._module = uses.module
        self._names = names

    def find_copied(self, value: HloInstruction, index: ShapeIndex) -> Move | None:
        """Returns the copy that made a value; None if no copy made it. If the value is an operand of a branch, looks outside
        of the conditional.
        """
        origin = self.find_outer_origin(value, index)
        return self.moves.get((origin[0].id, origin[1]))

    def find_outer_origin(self, value: HloInstruction, index: ShapeIndex) -> Position:
        """Returns the instruction and leaf that compute a value. If the value is an operand of a branch, looks outside of
        the conditional.
        """
        position = self._uses.find_origin(value, index)
        for _ in range(_MOST_STEPS):
            home = self._module.homes[position[0].id]
            caller = self._uses.find_caller(home)
            if position[0].opcode != "parameter" or caller is None or caller.opcode != "conditional":
                break
            branch = list(caller.called_computations).index(home.id)
            position = self._uses.find_origin(caller.operands[1 + branch], position[1])
        return position

    def find_source(self, value: HloInstruction, index: ShapeIndex) -> Position:
        """Returns the instruction and leaf that compute a value, looking through copies. Stays in the value's
        computation.
        """
        position = self._uses.find_origin(value, index)
        for _ in range(_MOST_STEPS):
            move = self.moves.get((position[0].id, position[1]))
            if move is None or move.is_update:
                break
            position = self._uses.find_origin(*move.source)
        return position

    def find_outer_source(self, value: HloInstruction, index: ShapeIndex) -> Position:
        """Returns the instruction and leaf that compute a value, looking through copies. If the value is an operand of a
        branch, looks outside of the conditional.
        """
        position = self.find_outer_origin(value, index)
        for _ in range(_MOST_STEPS):
            move = self.moves.get((position[0].id, position[1]))
            if move is None or move.is_update:
                break
            position = self.find_outer_origin(*move.source)
        return position

    def get_argument(self, position: Position) -> int | None:
        """Returns the parameter number of a value that is an argument of the program; None for any other value."""
        value = position[0]
        if value.opcode == "parameter" and self._module.homes[value.id] is self._module.entry:
            return value.proto.parameter_number
        return None

    def is_donated(self, value: HloInstruction, index: ShapeIndex) -> bool:
        place = self._uses.find_slice(value, index)
        return place is not None and place.allocation in self.donated.by_allocation

    def describe_bytes(self, place: Slice) -> str:
        """Returns a phrase for the bytes of a slice: an argument, an output, a constant, or temporary memory."""
        parameter = self._uses.buffers.parameters.get(place.allocation)
        if parameter is not None:
            return f"argument {self._names.name_argument(parameter[0])}"
        if place.allocation in self._uses.buffers.constants:
            return "a constant"
        output = self._outputs.get(place.allocation)
        return "temporary memory" if output is None else f"output {self._names.name_output(output)}"

    @cached_property
    def _outputs(self) -> Mapping[int, int]:
        """Maps the index of an allocation to the number of the first output that it holds."""
        root, found = self._module.entry.root, dict[int, int]()
        for number, (index, _) in enumerate(iterate_leaf_shapes(root.shape)):
            place = self._uses.find_slice(root, index)
            if place is not None:
                found.setdefault(place.allocation, number)
        return found

    def describe_value(self, position: Position) -> str:
        argument = self.get_argument(position)
        if argument is not None:
            return f"argument {self._names.name_argument(argument)}"
        return "the loop's state" if position[0].opcode == "parameter" else f"`{self.name(position[0])}`"

    def describe_source(self, move: Move) -> str:
        """Returns a phrase for the bytes that a copy reads, such as `temporary memory` or `argument x`. The phrase is `the
        bytes of argument x` if the bytes hold a new value when the copy reads them.
        """
        text = self.describe_bytes(move.source_place)
        is_reused = text.startswith("argument") and self.get_argument(self.find_outer_source(*move.source)) is None
        return f"the bytes of {text}" if is_reused else text

    def name(self, one: HloInstruction) -> str:
        """Returns the name of the JAX operation that an instruction computes, or else the instruction's own name,
        `%fusion.3`. An asynchronous start has the name of the operation that it starts.
        """
        one = self._uses.find_started(one)
        if one.opcode == "fusion" and not one.op_name:
            fused = self._module.computations[one.called_computations[0]].instructions
            names = [describe_instruction(inner) for inner in reversed(fused)]
            return next((name for name in names if not name.startswith("%")), f"%{one.name}")
        return describe_instruction(one)

    def is_copy(self, one: HloInstruction) -> bool:
        return any((one.id, index) in self.moves for index in ((), (0,)))

    def list_copies(self, origin: Position) -> list[Move]:
        """Returns the copies that read a value directly. A copy of a copy is not among them."""
        users = [use.user for use in self._uses.list_uses(*origin) if use.role is UseRole.READ]
        return [move for one in users if (move := self.moves.get((one.id, ()))) is not None]

    def follow(self, uses: Sequence[ValueUse]) -> Iterator[ValueUse]:
        """Yields the uses of a value, looking through copies: in place of a copy, yields the uses of the copy's result. A
        copy that is part of an update (`Move.is_update`) counts as a use. uses: the direct uses of the value.
        """
        pending, seen = list(uses), set[int]()
        while pending:
            use = pending.pop(0)
            move = self.moves.get((use.user.id, ())) if use.role is UseRole.READ else None
            if move is None or move.is_update or use.user.id in seen:
                yield use
                continue
            seen.add(use.user.id)
            pending += self._uses.list_uses(move.instruction, move.index)

    def iterate_updated(self, source: Position) -> Iterator[Position]:
        """Yields a value and its earlier forms. An earlier form is the value from which an update in place, a copy or a
        transposition made it. Ends with a value that was made in any other way.
        """
        value, index = source
        for _ in range(_MOST_STEPS):
            yield value, index
            move = self.moves.get((value.id, index))
            if move is not None:
                value, index = self._uses.find_origin(*move.source)
            elif value.opcode == "while":
                value, index = self._uses.find_origin(value.operands[0], index)
            elif value.opcode in ("transpose", "copy") or permutes(self._module, value):
                value, index = self._uses.find_origin(value.operands[0])
            else:
                given = self._find_updated(value, index)
                if given is None:
                    return
                value, index = self._uses.find_origin(*given)

    def _find_updated(self, value: HloInstruction, index: ShapeIndex) -> Position | None:
        """Returns the operand, and its leaf, that an operation updates in place to compute this result; None if it
        updates none. The operation may be asynchronous.
        """
        if value.opcode == "async-done":
            value, index = value.operands[0], (1, *index)
        if value.opcode != "async-start":
            return next((given for result, given in find_updates(self._module, value) if result == index), None)
        called = self._module.computations[value.called_computations[0]]
        given = self._find_updated(*self._uses.find_origin(called.root, index[1:]))
        if given is None:
            return None
        parameter, leaf = self._uses.find_origin(*given)
        return (value.operands[parameter.proto.parameter_number], leaf) if parameter.opcode == "parameter" else None

    def find_fused_reader(
        self, reader: HloInstruction, origin: Position, writers: Sequence[HloInstruction] = ()
    ) -> HloInstruction:
        """Returns the operation inside of the fusion `reader` that reads the value at `origin` or a copy of that value. If
        several operations read it, returns the first of them that has a source line.

        A fusion has the name and the source line of its root. A user has to change the operation that reads, which may be
        another one. Returns `reader` itself if it is no fusion, if an operation inside of it updates an array in place, or
        if no operation that reads the value has a source line.

        writers: instructions that write; if there are any, only an operation that also depends on the result of a writer is
        returned.
        """
        if reader.opcode != "fusion":
            return reader
        fused = self._uses.module.computations[reader.called_computations[0]]
        if any(one.opcode in UPDATES for one in fused.instructions):
            return reader
        source = self.find_source(*origin)
        old: list[HloInstruction] = []
        new: list[HloInstruction] = []
        for parameter, operand in zip(fused.parameters, reader.operands, strict=False):
            if self.find_source(operand, ()) == source:
                old.append(parameter)
            elif any(operand is writer or self._uses.depends_on(operand, writer) for writer in writers):
                new.append(parameter)
        read = search(old, lambda one: fused.users[one.id])
        mixed = search(new, lambda one: fused.users[one.id]) if writers else read
        found = (one for one in fused.instructions if one in read and one in mixed and one.opcode != "parameter")
        return next((one for one in found if find_user_line(self._uses.module, one) is not None), reader)


def permutes(module: HloModule, value: HloInstruction) -> bool:
    """Returns whether an instruction is a fusion that first transposes its only operand. Bitcasts before the
    transposition do not count. Afterwards, the fusion may compute anything.
    """
    if value.opcode != "fusion" or len(value.operands) != 1:
        return False
    fused = module.computations[value.called_computations[0]]
    one = fused.parameters[0]
    while len(users := fused.users[one.id]) == 1 and users[0].opcode == "bitcast":
        one = users[0]
    return bool(users) and all(user.opcode == "transpose" for user in users)


def describe_instruction(one: HloInstruction) -> str:
    """Returns the name of the JAX operation that an instruction computes, such as `cumsum`. Without one, returns the
    instruction's own name, such as `%fusion.3`.
    """
    name = strip_tags(one.op_name).rpartition("/")[2].rstrip(":")
    if name.startswith("("):  # the name of several operations that XLA has combined
        name = name.strip("()").partition(":")[0]
    return name if name and not name.startswith("jit(") else f"%{one.name}"
