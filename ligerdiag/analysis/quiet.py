"""Where an evaluation of the schedule has nothing to follow: most of a large module has nothing to do with any kernel.

An instruction is *quiet* where nothing stands in what it reads, and nothing starts at it or in what it calls. Its result
depends on nothing, and what it computes inside need not be followed. What is looked out for is seen all the same.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.tags import TagPath

_FOLLOWED = having(Trait.RUNS_SCHEDULED, Trait.UPDATE) | {"custom-call", "async-done"}
"""Opcodes that are never quiet: they run others, or change memory in ways of their own."""
_NOT_SIGHTED = having(Trait.NO_OPERATION) - having(Trait.FROM_NOTHING)
"""Opcodes of fused instructions that compute nothing."""


@dataclass(slots=True, eq=False)
class Nesting:
    """Which computation of a module holds what."""

    module: HloModule
    homes: dict[int, int] = field(default_factory=dict[int, int])
    """Instruction id to the id of the computation that holds it."""
    _callers: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict[int, set[int]](set))
    """Computation id to the ids of those that call it."""
    _calling: set[int] = field(default_factory=set[int])
    """Ids of the computations that hold a custom-call."""

    def __post_init__(self) -> None:
        for number, computation in self.module.computations.items():
            instructions = computation.instructions
            self.homes.update(dict.fromkeys([one.id for one in instructions], number))
            if "custom-call" in [one.opcode for one in instructions]:
                self._calling.add(number)
            for called in [one.called_computations for one in instructions if one.called_computations]:
                for callee in called:
                    self._callers[callee].add(number)

    def find_around(self, inner: Iterable[int]) -> set[int]:
        """Ids of these computations, of those that hold a custom-call, and of all that call one of them, however deep."""
        found: set[int] = set()
        pending = [*self._calling, *inner]
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += self._callers.get(number, ())
        return found

    def list_fused_callers(self, number: int) -> list[int]:
        """Ids of the computations without a schedule that call this one."""
        computations = self.module.computations
        return [caller for caller in self._callers.get(number, ()) if not computations[caller].sequence]


@dataclass(slots=True, eq=False)
class QuietOnes:
    """The instructions that are quiet in one evaluation if nothing stands in what they read."""

    nesting: Nesting
    started: frozenset[int]
    """Ids of the instructions, scheduled or fused, where something starts."""
    wanted: frozenset[TagPath]
    """Operations to look out for."""
    _loud: set[int] = field(init=False)
    """Ids of the computations in which something starts, or is looked out for further in."""
    _sought: defaultdict[int, list[HloInstruction]] = field(
        default_factory=lambda: defaultdict[int, list[HloInstruction]](list)
    )
    """Computation id to the operations in it that are looked out for, in their order."""

    def __post_init__(self) -> None:
        nesting, wanted, tags = self.nesting, self.wanted, self.nesting.module.tags
        sought = [number for number, path in tags.items() if path in wanted] if wanted else []
        for home in dict.fromkeys([nesting.homes[number] for number in sought if number in nesting.homes]):
            for one in nesting.module.computations[home].instructions:
                if one.opcode not in _NOT_SIGHTED and tags.get(one.id) in wanted:
                    self._sought[home].append(one)
        deep = [caller for number in self._sought for caller in nesting.list_fused_callers(number)]
        starting = [nesting.homes[number] for number in self.started if number in nesting.homes]
        self._loud = nesting.find_around([*starting, *deep])

    def may_be(self, instruction: HloInstruction) -> bool:
        """Whether this scheduled instruction is quiet if nothing stands in what it reads."""
        if instruction.opcode == "fusion" and instruction.called_computations[0] in self._loud:
            return False
        return instruction.id not in self.started and instruction.opcode not in _FOLLOWED

    def list_sought(self, instruction: HloInstruction) -> list[HloInstruction]:
        """The operations to look out for that a quiet instruction runs."""
        if instruction.opcode == "fusion":
            return self._sought.get(instruction.called_computations[0], [])
        return [instruction] if self.nesting.module.tags.get(instruction.id) in self.wanted else []
