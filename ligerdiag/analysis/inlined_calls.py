"""A module with its calls inlined, as XLA's call inliner will do it, so that a snapshot from before that pass can be judged.

Every call gets instructions of its own, loops and branches inside included, and an operation's tag path begins with that of
the calls that lead to it. What is only applied (a reduction's `to_apply`, a fusion's computation) stays shared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.tags import TagPath

_RUNS = having(Trait.RUNS_SCHEDULED)
"""Opcodes whose called computations run where the caller stands."""
_MOST = 1_000_000
"""Instructions of an inlined module: calls of calls multiply."""


def inline_calls(module: HloModule) -> HloModule:
    """The module without `call`s, unscheduled; itself where it has none. Raises ArtifactError where calls multiply."""
    reached = list(_iterate_reached(module))
    if not any(instruction.opcode == "call" for computation in reached for instruction in computation.instructions):
        return module
    inliner = _Inliner(module)
    entry, _ = inliner.copy(module.entry, (), {})
    return replace(module, entry=entry, computations=inliner.computations | {entry.id: entry}, tags=inliner.tags)


def _iterate_reached(module: HloModule) -> Iterator[HloComputation]:
    """Computations that run, each once."""
    pending, seen = [module.entry], {module.entry.id}
    while pending:
        computation = pending.pop()
        yield computation
        for instruction in computation.instructions:
            for callee in instruction.called_computations if instruction.opcode in _RUNS else ():
                if callee not in seen:
                    seen.add(callee)
                    pending.append(module.computations[callee])


@dataclass(slots=True, eq=False)
class _Inliner:
    """Copies what runs, once for each way that leads to it."""

    module: HloModule
    computations: dict[int, HloComputation] = field(init=False)
    """By id, callees before callers: what is applied, and all copies."""
    tags: dict[int, TagPath] = field(init=False)
    """Of what these hold."""
    _next_instruction: int = field(init=False)
    _next_computation: int = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        running = {computation.id for computation in _iterate_reached(self.module)}
        self.computations = {number: one for number, one in self.module.computations.items() if number not in running}
        applied = [one.id for computation in self.computations.values() for one in computation.instructions]
        self.tags = {number: self.module.tags[number] for number in applied if number in self.module.tags}
        self._next_instruction = 1 + max(i.id for c in self.module.computations.values() for i in c.instructions)
        self._next_computation = 1 + max(self.module.computations)

    def copy(
        self, computation: HloComputation, path: TagPath, given: dict[int, HloInstruction]
    ) -> tuple[HloComputation, tuple[HloInstruction, ...]]:
        """The copy of a computation that the calls of this tag path lead to, and what it holds.

        given: parameter number to what stands for it, where the computation is inlined into another one.
        """
        copies: dict[int, HloInstruction] = {}
        listed: list[HloInstruction] = []
        numbers = {instruction.id: self._take_number() for instruction in computation.instructions}
        last: dict[int, int] = {}
        for instruction in computation.instructions:
            if instruction.opcode == "parameter" and given:
                copies[instruction.id] = given[instruction.proto.parameter_number]
                continue
            operands = tuple([copies[operand.id] for operand in instruction.operands])
            if instruction.opcode == "call":
                callee = self.module.computations[instruction.called_computations[0]]
                inner, inlined = self.copy(
                    callee, (*path, *self.module.find_tag_path(instruction)), dict(enumerate(operands))
                )
                copies[instruction.id] = inner.root
                last[instruction.id] = inner.root.id
                listed += inlined
                continue
            called = instruction.called_computations
            if instruction.opcode in _RUNS:
                called = tuple([self._keep(self.copy(self.module.computations[c], path, {})[0]) for c in called])
            tags = self.module.find_tag_path(instruction)
            if tags:
                self.tags[numbers[instruction.id]] = (*path, *tags)
            copy = replace(
                instruction,
                id=numbers[instruction.id],
                operands=operands,
                control_predecessors=tuple(
                    [last.get(n, numbers[n]) for n in instruction.control_predecessors if n in numbers]
                ),
                called_computations=called,
            )
            copies[instruction.id] = copy
            listed.append(copy)
        self._next_computation += 1
        made = replace(
            computation,
            id=self._next_computation - 1,
            instructions=tuple(listed),
            root=copies[computation.root.id],
            sequence=(),
        )
        return made, made.instructions

    def _keep(self, computation: HloComputation) -> int:
        self.computations[computation.id] = computation
        return computation.id

    def _take_number(self) -> int:
        self._count += 1
        if self._count > _MOST:
            raise ArtifactError(f"`{self.module.name}` calls functions in more ways than can be followed")
        self._next_instruction += 1
        return self._next_instruction - 1
