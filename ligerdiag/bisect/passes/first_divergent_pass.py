"""Finds where two compiles of one program diverge: the first pass of XLA after which their modules are no longer alike.

1. A compile with snapshots has one after each pass that changed something, and one at the start of each pipeline. Its
   *states* are the modules of these snapshots, in order, where a module differs from the one before.
2. Modules are alike when their structure is (`hlo.fingerprint`); the contents of a kernel's payload are not compared,
   for it holds code for one GPU.
3. The compiles diverge at the first state that is not alike. The pass that made it is the one of that state's first
   snapshot; at the start of a pipeline it is a step that XLA did before it and takes no snapshots of, such as
   scheduling.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import render_shape
from ligerdiag.hlo.text import StructureLine, fingerprint_lines

_NAME = re.compile(
    r"module_(?P<module>\d+)\..+?\.(?P<number>\d{4,})\.(?P<pipeline>.+?)\.after_(?P<done>.+?)(?:\.before_.+)?\.hlo\.pb"
)
_START = "pipeline-start"
_NOT_EXECUTED = having(Trait.LAUNCHES_NOTHING)
"""Opcodes that run nothing: where one of these stands in a schedule means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStep:
    pipeline: str
    done: str
    """The pass after which it was taken; `pipeline-start` before the first one."""
    path: Path

    @property
    def text(self) -> str:
        """Returns the name of the pass that it shows, such as `fusion` of pipeline `fusion`."""
        if self.done == _START:
            return f"what runs before pipeline `{self.pipeline}`"
        return f"`{self.done}` (pipeline `{self.pipeline}`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleState:
    """A module that a compile went through."""

    step: SnapshotStep
    """Its first snapshot."""
    lines: tuple[StructureLine, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The structure, without names."""
        return tuple(line.text for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The point where two compiles diverge."""

    before: SnapshotStep | None
    """The last snapshot that both have alike; None when they differ from the first one on."""
    one: ModuleState | None
    """The first state of the one that the other does not have; None when it has no more states."""
    other: ModuleState | None
    old: ModuleState | None
    """The state in which both are alike."""

    @property
    def is_same_pass(self) -> bool:
        """Returns whether one pass turned the same module into two different ones."""
        if self.one is None or self.other is None:
            return False
        mine, theirs = self.one.step, self.other.step
        return (mine.pipeline, mine.done) == (theirs.pipeline, theirs.done)

    def find_difference(self) -> tuple[HloInstruction | None, HloInstruction | None]:
        """Returns the first instruction of each compile that is not alike.

        Where one pass made both, they are compared with each other; else the pass that only one has is: its module with
        the one before it, which the other still has.
        """
        one, other = self.one or self.old, self.other or self.old
        if not self.is_same_pass and self.one is not None:
            other = self.old
        mine, theirs = one.lines if one else (), other.lines if other else ()
        return (
            _find_first(_keep_executed(mine), _keep_executed(theirs), by_kind=True)
            or _find_first(mine, theirs, by_kind=False)
            or (None, None)
        )


def _keep_executed(lines: Sequence[StructureLine]) -> list[StructureLine]:
    return [line for line in lines if line.instruction.opcode not in _NOT_EXECUTED]


def _find_first(
    one: Sequence[StructureLine], other: Sequence[StructureLine], *, by_kind: bool
) -> tuple[HloInstruction | None, HloInstruction | None] | None:
    """Returns the first place where the lines differ; by kind, for where one takes another place, all numbers after it
    differ."""
    for mine, theirs in zip_longest(one, other):
        same = mine and theirs and (mine.kind == theirs.kind if by_kind else mine.text == theirs.text)
        if not same:
            return mine and mine.instruction, theirs and theirs.instruction
    return None


def list_steps(passes: Sequence[Path]) -> tuple[SnapshotStep, ...]:
    """Returns the snapshots of the program itself, in order: of the last module that was compiled, as for the
    artifact."""
    found = [(match, path) for path in passes if (match := _NAME.fullmatch(path.name))]
    module = max((int(match["module"]) for match, _ in found), default=0)
    steps = {
        int(match["number"]): SnapshotStep(pipeline=match["pipeline"], done=match["done"], path=path)
        for match, path in found
        if int(match["module"]) == module
    }
    return tuple(steps[number] for number in sorted(steps))


def load_states(passes: Sequence[Path]) -> tuple[ModuleState, ...]:
    """Returns the modules that a compile went through; raises ArtifactError where a snapshot cannot be read."""
    states: list[ModuleState] = []
    for step in list_steps(passes):
        module, _ = load_hlo(step.path)
        state = ModuleState(step=step, lines=fingerprint_lines(module, payloads=False))
        if not states or states[-1].texts != state.texts:
            states.append(state)
    return tuple(states)


def find_parting(one: Sequence[ModuleState], other: Sequence[ModuleState]) -> Parting | None:
    """Returns the point where the two diverge; None when they went through the same states."""
    old: ModuleState | None = None
    for mine, theirs in zip_longest(one, other):
        if mine is None or theirs is None or mine.texts != theirs.texts:
            return Parting(before=old and old.step, one=mine, other=theirs, old=old)
        old = mine
    return None


def describe_instruction(instruction: HloInstruction | None) -> str:
    """Such as `%add.3 = f32[8] add(%a, %b)`."""
    if instruction is None:
        return "nothing"
    operands = ", ".join(f"%{operand.name}" for operand in instruction.operands)
    return f"`%{instruction.name} = {render_shape(instruction.shape)} {instruction.opcode}({operands})`"
