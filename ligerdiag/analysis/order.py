"""What forces an order: data and control edges inside a computation, and the nesting of computations.

Being earlier in the schedule forces nothing: the next compiler, flag or GPU may choose otherwise.
"""

from collections import defaultdict

from ligerdiag.analysis.writes import CALLERS, Frames
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule


class Order:
    """Reachability along operands and control predecessors, computed on demand and kept."""

    def __init__(self) -> None:
        self._after: dict[int, frozenset[int]] = {}
        self._before: dict[int, frozenset[int]] = {}
        self._control_successors: dict[int, dict[int, list[int]]] = {}

    def is_forced(self, first: Frames, second: Frames, *, from_second: bool = False) -> bool:
        """Whether `second` cannot be run before `first` has, by edges of the program, in one iteration of every loop.

        from_second: search from `second` backward; cheaper where one `second` is asked about often.
        """
        for a, b in zip(first, second, strict=False):
            if a.computation is not b.computation:
                return True  # body and condition of one loop, or two branches of which only one runs
            if a.instruction is not b.instruction:
                if from_second:
                    return a.instruction.id in self.predecessors(b.computation, b.instruction)
                return b.instruction.id in self.successors(a.computation, a.instruction.id)
        return True  # one runs inside the other

    def predecessors(self, computation: HloComputation, instruction: HloInstruction) -> frozenset[int]:
        """Ids of all instructions of the computation that must come before this one; itself excluded."""
        found = self._before.get(instruction.id)
        if found is None:
            by_id = {i.id: i for i in computation.instructions}
            seen: set[int] = set()
            pending = [instruction]
            while pending:
                current = pending.pop()
                for earlier in (*[o.id for o in current.operands], *current.control_predecessors):
                    if earlier not in seen and earlier in by_id:
                        seen.add(earlier)
                        pending.append(by_id[earlier])
            found = self._before[instruction.id] = frozenset(seen)
        return found

    def successors(self, computation: HloComputation, instruction_id: int) -> frozenset[int]:
        """Ids of all instructions of the computation that must come after this one; itself excluded."""
        found = self._after.get(instruction_id)
        if found is None:
            control = self._controls(computation)
            users = computation.users
            seen: set[int] = set()
            pending = [instruction_id]
            while pending:
                current = pending.pop()
                for following in (*[u.id for u in users[current]], *control.get(current, ())):
                    if following not in seen:
                        seen.add(following)
                        pending.append(following)
            found = self._after[instruction_id] = frozenset(seen)
        return found

    def _controls(self, computation: HloComputation) -> dict[int, list[int]]:
        found = self._control_successors.get(computation.id)
        if found is None:
            successors: defaultdict[int, list[int]] = defaultdict(list)
            for instruction in computation.instructions:
                for predecessor in instruction.control_predecessors:
                    successors[predecessor].append(instruction.id)
            found = self._control_successors[computation.id] = dict(successors)
        return found


def compute_logical_times(module: HloModule) -> dict[int, int]:
    """Instruction id to LogicalTime, XLA's flattened position: called computations first, then the caller.

    Follows HloLiveRange's flattening of the schedule (xla/hlo/utils/hlo_live_range.h).
    """
    times: dict[int, int] = {}
    flattened: set[int] = set()

    def flatten(computation: HloComputation) -> None:
        if computation.id in flattened:
            return
        flattened.add(computation.id)
        for instruction in computation.sequence or computation.instructions:
            if instruction.opcode in CALLERS and instruction.opcode != "fusion":
                for callee in reversed(instruction.called_computations):  # while: the condition, then the body
                    flatten(module.computations[callee])
            times.setdefault(instruction.id, len(times))

    flatten(module.entry)
    return times
