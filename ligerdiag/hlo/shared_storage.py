"""Values that stand in the same bytes however XLA orders a module: what names a value, and nothing that makes a new one.

XLA chooses an order along operands and control edges, and assigns storage for it. It knows every value that an instruction
defines, and keeps each one as long as somebody reads it: by storage of its own, or by a copy. What it does not know is what
a kernel overwrites behind its back. So a kernel that overwrites a value hits
  (1) all that only names it: bitcasts, tuples and their elements, barriers, what calls and branches are given and give
      back, a start's operands behind the start, and a start's result behind the done;
  (2) an element of a loop's state that the loop's body hands on in the same place: what the loop starts from, the state
      inside, and what the loop gives are one value then;
  (3) the result of a conditional, if each of its branches hands on one and the same value from outside.
And it hits nothing else. A copy is another value. So is what an update in place gives (dynamic-update-slice, a declared
alias, all-reduce-start): XLA lets it have the bytes of its operand where nobody reads the operand afterwards, and else
copies. So is an element of a loop's state that the body defines: where what the loop starts from is read elsewhere, XLA
copies it. These copies are those of one order; in another one XLA would make others, and the values stay apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ligerdiag.hlo.dataflow import PASSED_ON, Dataflow, Definition, Position
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex

_FLOW = PASSED_ON
_MOST = 100_000


@dataclass(slots=True, eq=False)
class SharedStorage:
    """Finds which values of one module are one, by (1) to (3)."""

    module: Final[HloModule]
    _flow: Dataflow = field(init=False)
    _carried: dict[Definition, bool] = field(default_factory=dict[Definition, bool])
    _definitions: dict[Definition, frozenset[Definition]] = field(
        default_factory=dict[Definition, frozenset[Definition]]
    )

    def __post_init__(self) -> None:
        self._flow = Dataflow(self.module, _FLOW)

    def find(self, instruction: HloInstruction, index: ShapeIndex = ()) -> frozenset[Definition]:
        """Returns the definitions of the value at this position: several where a computation has several callers."""
        key = instruction.id, index
        found = self._definitions.get(key)
        if found is None:
            found = self._definitions[key] = self._walk((instruction, index), None)
        return found

    def list_named(self, instruction: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        """Lists the positions whose value this one names; none where it defines a value of its own."""
        opcode = instruction.opcode
        if opcode == "while":
            if self.is_handed_on(instruction, index):
                yield instruction.operands[0], index
        elif opcode == "conditional":
            yield from self._list_branches(instruction, index)
        elif opcode == "parameter" and (loops := self._list_loops(instruction)):
            for loop in loops:
                if self.is_handed_on(loop, index):
                    yield loop.operands[0], index
        elif opcode != "all-reduce-start":
            yield from self._flow.list_sources(instruction, index)

    def is_handed_on(self, loop: HloInstruction, index: ShapeIndex) -> bool:
        """Returns whether the body of this loop hands on that leaf of the state as it came, in the same place, (2)."""
        key = loop.id, index
        if key not in self._carried:
            self._carried[key] = False  # while it is being asked about
            body = self.module.computations[loop.called_computations[0]]
            (parameter,) = body.parameters
            self._carried[key] = self._walk((body.root, index), body) == frozenset({(parameter.id, index)})
        return self._carried[key]

    def _list_loops(self, parameter: HloInstruction) -> list[HloInstruction]:
        home = self.module.homes[parameter.id].id
        return [caller for caller in self.module.callers.get(home, ()) if caller.opcode == "while"]

    def _list_branches(self, conditional: HloInstruction, index: ShapeIndex) -> Iterator[Position]:
        """Yields what each branch gives, if that is one value from outside, (3)."""
        branches = [self.module.computations[number] for number in conditional.called_computations]
        given = {self.find(branch.root, index) for branch in branches}
        inside = {branch.id for branch in branches}
        if len(given) == 1 and all(self.module.homes[number].id not in inside for number, _ in next(iter(given))):
            yield branches[0].root, index

    def _walk(self, start: Position, body: HloComputation | None) -> frozenset[Definition]:
        """Follows names to definitions. body: a loop's, at whose parameter the walk ends."""
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
