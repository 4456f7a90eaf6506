"""Finds the loops around each computation of a module, to tell whether an instruction of the schedule runs in the same
iterations as an operation of the program.

XLA unrolls loops, takes iterations and invariant operations out of them, and inlines those that run once. The metadata
and the lineage of an operation then stand at instructions that have its value in one iteration of several.
"""

from collections.abc import Mapping

from ligerdiag.hlo.counters import find_trips
from ligerdiag.hlo.module import HloModule

type Nest = tuple[int, ...]
"""The trip counts of the loops around a computation, outermost first; 0 where the count is unknown. Loops that run once
do not count.
"""


def find_nests(module: HloModule) -> Mapping[int, Nest | None]:
    """Maps the id of each computation to the loops around it; None if it has callers in different loops."""
    trips = find_trips(module)
    found: dict[int, Nest | None] = {}
    for computation in reversed(list(module.computations.values())):  # callers before callees
        nests: set[Nest | None] = set()
        for caller in module.callers.get(computation.id, ()):
            outer, count = found[module.homes[caller.id].id], trips.get(caller.id, 0)
            is_loop = caller.opcode == "while" and count != 1
            nests.add((*outer, count) if outer is not None and is_loop else outer)
        found[computation.id] = () if computation is module.entry else nests.pop() if len(nests) == 1 else None
    return found


def are_same_iterations(one: Nest | None, other: Nest | None) -> bool:
    """Returns whether two computations run in the same iterations of loops, as far as the trip counts are known."""
    if one is None or other is None or len(one) != len(other):
        return False
    return all(mine == theirs or not (mine and theirs) for mine, theirs in zip(one, other, strict=True))
