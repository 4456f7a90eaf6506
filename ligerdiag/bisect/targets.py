"""TARGETS"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ligerdiag.bisect.trials import (
    Draft,
    Laboratory,
    Outcome,
    Trial,
    compare_outputs,
    make_row,
    replay_outcomes,
    try_in_batches,
)
from ligerdiag.errors import ArtifactError, InputError, describe_error
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import render_shape
from ligerdiag.hlo.text import StructureLine, compute_fingerprint, fingerprint_lines
from ligerdiag.judgement.answers import Axis, Bisection
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.catalogue import Target, list_targets, load_target

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


CAPABILITY, PROGRAM = "capability", "program"
COLUMNS = (CAPABILITY, PROGRAM)
SNAPSHOTS = Variation(flags={"xla_dump_hlo_pass_re": ".*"})

type VerdictsByTarget = tuple[tuple[str, Verdict], ...]


def bisect_targets(laboratory: Laboratory, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Returns the verdicts on each of the options' targets, by default on all that come with ligerdiag, `target` first.

    Raises InputError for a target that there is not, or fewer than two.
    """
    targets = _choose(target, options)
    names = ", ".join(one.name for one in targets)
    draft = laboratory.open_draft(case, names, Axis.TARGETS, toolchain=options.toolchain, columns=COLUMNS)
    trials = [Trial(case=case, target=one, toolchain=options.toolchain) for one in targets]
    outcomes: tuple[Outcome, ...] = ()
    for outcomes in try_in_batches(laboratory, trials):
        _write_rows(draft, laboratory, outcomes, None)
    _write_rows(draft, laboratory, outcomes, options)
    told = [outcome for outcome in outcomes if not outcome.error]
    groups: dict[VerdictsByTarget, list[Outcome]] = {}
    for outcome in told:
        groups.setdefault(tuple(outcome.outputs.items()), []).append(outcome)
    if len(told) < len(outcomes):
        draft.is_unsettled = True
        untold = [f"`{outcome.trial.target.name}`" for outcome in outcomes if outcome.error]
        draft.notes.append(f"could not be analysed for {join_words(untold)}, see the table")
    if len(groups) == 1:
        words = join_words([f"`{outcome.trial.target.name}`" for outcome in told])
        draft.answers.append(f"the verdicts are the same on {words}")
    for members in list(groups.values())[1:]:
        draft.answers.append(_describe_change(told[0], members))
        draft.answers.append(_explain(draft, laboratory, told[0], members[0]))
    return laboratory.finish(draft)


def _choose(target: Target, options: BisectOptions) -> tuple[Target, ...]:
    named = tuple(load_target(name) for name in dict.fromkeys(options.targets))
    targets = named if len(named) > 1 else (*(named or (target,)), *list_targets())
    by_sha = {one.sha256: one for one in reversed(targets)}
    chosen = tuple(one for one in targets if by_sha.get(one.sha256) is one)
    if len(chosen) < 2:
        raise InputError(
            f"expected two targets at least but got `{targets[0].name}` alone: name others with `--target`"
        )
    return chosen


def _write_rows(
    draft: Draft, laboratory: Laboratory, outcomes: Sequence[Outcome], options: BisectOptions | None
) -> None:
    programs = _name_programs(outcomes)
    draft.rows[:] = [
        make_row(
            outcome,
            outcome.trial.target.name,
            replay=numbers,
            cells={CAPABILITY: f"{outcome.trial.target.compute_capability / 10:.1f}", PROGRAM: program},
        )
        for outcome, numbers, program in zip(
            outcomes, replay_outcomes(laboratory, draft, outcomes, options), programs, strict=True
        )
    ]


def _name_programs(outcomes: Sequence[Outcome]) -> list[str]:
    """For each the first target that runs the same instructions in the same order, such as `as h100`, or its own."""
    first: dict[str, str] = {}
    words: list[str] = []
    for outcome in outcomes:
        if outcome.artifact is None or outcome.error:
            words.append("")
            continue
        module, _ = load_hlo(outcome.artifact.optimized)
        name = outcome.trial.target.name
        same = first.setdefault(compute_fingerprint(module, payloads=False), name)
        words.append("its own" if same == name else f"as {same}")
    return words


def _describe_change(one: Outcome, others: Sequence[Outcome]) -> str:
    changed = compare_outputs(one.outputs, others[0].outputs)
    names = join_words([f"`{other.trial.target.name}`" for other in others])
    return f"from `{one.trial.target.name}` to {names}: {', '.join(changed) or 'other outputs'}"


def _explain(draft: Draft, laboratory: Laboratory, one: Outcome, other: Outcome) -> str:
    """Returns a sentence that says where the two compiles diverge."""
    names = one.trial.target.name, other.trial.target.name
    where = f"where `{names[0]}` and `{names[1]}` part"
    trials = [
        Trial(
            case=outcome.trial.case, target=outcome.trial.target, toolchain=outcome.trial.toolchain, variation=SNAPSHOTS
        )
        for outcome in (one, other)
    ]
    sides: list[tuple[ModuleState, ...]] = []
    for outcome in laboratory.try_all(trials):
        states: tuple[ModuleState, ...] = ()
        trouble = outcome.error
        if outcome.artifact is not None:
            try:
                states = load_states(outcome.artifact.passes)
            except ArtifactError as error:
                trouble = describe_error(error)
        if not states:
            draft.is_unsettled = True
            reason = trouble or "XLA left no snapshots"
            return f"{where} is not known: for `{outcome.trial.target.name}`, {reason}"
        sides.append(states)
    parting = find_parting(*sides)
    if parting is None:
        draft.is_unsettled = True
        return f"{where} is not known: their modules are alike after every pass that XLA takes a snapshot of"
    return f"{describe_parting(parting, *names)}"


def describe_parting(parting: Parting, one: str, other: str) -> str:
    """Returns a sentence: the pass, and the first instruction of each compile that is not alike."""
    mine, theirs = (describe_instruction(instruction) for instruction in parting.find_difference())
    names = f"`{one}` and `{other}`"
    if parting.one is not None and parting.other is not None and not parting.is_same_pass:
        after = f"after {parting.before.text}" if parting.before else "from the first snapshot on"
        place = (
            f"{names} part {after}: the next change is by {parting.one.step.text} for `{one}` and by"
            f" {parting.other.step.text} for `{other}`"
        )
    elif parting.one is not None and parting.other is not None:
        place = f"{names} part at {parting.one.step.text}, which makes another module for each"
    elif parting.one is not None:
        place = f"{names} part at {parting.one.step.text}, which changes the module for `{one}` alone"
    elif parting.other is not None:
        place = f"{names} part at {parting.other.step.text}, which changes the module for `{other}` alone"
    else:
        return f"{names} do not part"
    return f"{place}; the first instruction that differs is {mine} for `{one}` and {theirs} for `{other}`"
