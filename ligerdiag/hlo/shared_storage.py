"""Finds the positions of a module that share bytes because they are different names of one value. They share bytes in
whatever order XLA runs the module.

XLA chooses an order along operands and control edges and assigns storage for it. It knows every value that an
instruction defines and keeps it as long as somebody reads it, in its own storage or in a copy. It does not know what a
kernel overwrites. So a kernel that overwrites a value also overwrites

- every other name of it: bitcasts, tuples and their elements, barriers, arguments and results of calls and branches, a
  start's operands after the start, and a start's result after the done;
- an element of a loop's state that the body returns unchanged in the same position: its initial value, the state inside
  and the loop's result are one value;
- the result of a conditional whose branches all return one and the same value from outside;
- every entry parameter for which the caller passes the same array, if that is known;

and nothing else. A copy is another value. So is the result of an in-place update (dynamic-update-slice, a declared
alias, all-reduce-start): XLA gives it the bytes of its operand if nobody reads the operand afterwards, and copies
otherwise. So is an element of a loop's state that the body defines: if its initial value is read elsewhere, XLA copies
it. Such copies belong to one order. In another order XLA would make other copies, and the values would still be
different values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ligerdiag.hlo.dataflow import PASSED_ON, Dataflow, Definition, Position
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex

_FLOW = PASSED_ON
_MOST = 100_000


@dataclass(slots=True, eq=False)
class SharedStorage:
    """Finds the positions of one module that always share bytes, because they hold one value. A position is an
    instruction and a leaf of its result.
    """

    module: Final[HloModule]
    same_arrays: Mapping[int, HloInstruction] = field(default_factory=dict[int, HloInstruction])
    """Maps the id of an entry parameter to an earlier one that is the same array (see `buffers.map_same_arrays`)."""
    _flow: Dataflow = field(init=False)
    _carried: dict[Definition, bool] = field(default_factory=dict[Definition, bool])
    _definitions: dict[Definition, frozenset[Definition]] = field(
        default_factory=dict[Definition, frozenset[Definition]]
    )

    def __post_init__(self) -> None:
        self._flow = Dataflow(self.module, _FLOW)

    def find(self, instruction: HloInstruction, index: ShapeIndex = ()) -> frozenset[Definition]:
        """Returns the positions that define the value at a position, each as (instruction id, ShapeIndex). There are several
        if the computation has several callers.
        """
        key = instruction.id, index
        found = self._definitions.get(key)
        if found is None:
            found = self._definitions[key] = self._walk((instruction, index), None)
        return found

    def list_named(self, instruction: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        """Yields the positions whose value and storage a position has under a new name. For a bitcast, this is its operand.
        Yields nothing if the position defines a value of its own.
        """
        opcode = instruction.opcode
        if opcode == "while":
            if self.is_loop_invariant(instruction, index):
                yield instruction.operands[0], index
        elif opcode == "conditional":
            yield from self._list_branches(instruction, index)
        elif opcode == "parameter" and (loops := self._list_loops(instruction)):
            for loop in loops:
                if self.is_loop_invariant(loop, index):
                    yield loop.operands[0], index
        elif instruction.id in self.same_arrays:
            yield self.same_arrays[instruction.id], index
        elif opcode != "all-reduce-start":
            yield from self._flow.list_sources(instruction, index)

    def is_loop_invariant(self, loop: HloInstruction, index: ShapeIndex) -> bool:
        """Returns whether a loop's body returns a leaf of the loop's state unchanged, at the same index. index: the leaf."""
        key = loop.id, index
        if key not in self._carried:
            self._carried[key] = False  # the answer until the search below has ended
            body = self.module.computations[loop.called_computations[0]]
            (parameter,) = body.parameters
            self._carried[key] = self._walk((body.root, index), body) == frozenset({(parameter.id, index)})
        return self._carried[key]

    def _list_loops(self, parameter: HloInstruction) -> list[HloInstruction]:
        home = self.module.homes[parameter.id].id
        return [caller for caller in self.module.callers.get(home, ()) if caller.opcode == "while"]

    def _list_branches(self, conditional: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        """Yields the result of each branch of a conditional, if all branches return one value from outside of it."""
        branches = [self.module.computations[number] for number in conditional.called_computations]
        given = {self.find(branch.root, index) for branch in branches}
        inside = {branch.id for branch in branches}
        if len(given) == 1 and all(self.module.homes[number].id not in inside for number, _ in next(iter(given))):
            yield branches[0].root, index

    def _walk(self, start: Position, body: HloComputation | None) -> frozenset[Definition]:
        """Follows names of a value to its definitions. body: a loop's body, at whose parameter the walk ends."""
        found: set[Definition] = set()
        seen: set[Definition] = set()
        pending = [start]
        while pending:
            instruction, index = pending.pop()
            key = instruction.id, index
            if key in seen or len(seen) > _MOST:
                continue
            seen.add(key)
            ends = body is not None and instruction.opcode == "parameter" and self._is_in(instruction, body)
            named = [] if ends else list(self.list_named(instruction, index))
            if named:
                pending += named
            else:
                found.add(key)
        return frozenset(found)

    def _is_in(self, instruction: HloInstruction, computation: HloComputation) -> bool:
        return self.module.homes[instruction.id] is computation
