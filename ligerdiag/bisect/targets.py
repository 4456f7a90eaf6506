"""Finds the GPUs on which the verdict differs, and the pass of XLA after which the compiles for two of them diverge.

The case is compiled and judged for every target. Targets with equal verdicts form a group, and the first target of each
additional group is compared with the first target of all. The *states* of a compile are the modules of its snapshots, in
order; a module that equals the previous one is left out. Modules are equal if their structure is (`hlo.module_text`); the
contents of kernels' payloads do not count, because they hold code for one GPU. The compiles diverge at the first state that
differs. The pass after which XLA wrote the state's first snapshot made it. If that snapshot is the start of a pipeline, a
step without snapshots made it, such as scheduling.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ligerdiag.bisect.snapshots import Snapshot, list_snapshots
from ligerdiag.bisect.trials import (
    Draft,
    Outcome,
    Trial,
    TrialRunner,
    compare_outputs,
    make_row,
    replay_outcomes,
    try_in_batches,
)
from ligerdiag.errors import ArtifactError, InputError, describe_error
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.module_text import StructureLine, compute_fingerprint, fingerprint_lines
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import render_shape
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.gpu_targets import Target, list_compared_targets, load_targets

_NOT_EXECUTED = having(Trait.LAUNCHES_NOTHING)
"""Opcodes of instructions that run nothing, so that their places in a schedule mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleState:
    """A module that XLA had at some time during a compile, as the snapshots show it."""

    snapshot: Snapshot
    """The first snapshot that shows the module."""
    lines: tuple[StructureLine, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns the lines of the module's structure as text. They have numbers in place of names, so two compiles that
        only differ in names have equal texts.
        """
        return tuple(line.text for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The point at which the compiles for two targets begin to differ."""

    before: Snapshot | None
    """The last snapshot that both compiles have; None if their first snapshots differ already."""
    one: ModuleState | None
    """The first state of the module that the first target's compile has and the second target's compile lacks; None if the
    first target's compile has no further states.
    """
    other: ModuleState | None
    """The first state of the module that the second target's compile has and the first target's compile lacks; None if the
    second target's compile has no further states.
    """
    old: ModuleState | None
    """The last state of the module that both compiles have; None if their first states differ already."""

    @property
    def is_same_pass(self) -> bool:
        """Returns whether one pass made both modules, `one` and `other`. It got equal modules in the two compiles, and
        returned different ones.
        """
        if self.one is None or self.other is None:
            return False
        mine, theirs = self.one.snapshot, self.other.snapshot
        return (mine.pipeline, mine.after) == (theirs.pipeline, theirs.after)

    def find_difference(self) -> tuple[HloInstruction | None, HloInstruction | None]:
        """Returns the first instructions in which two compiles differ, as (instruction of the first, instruction of the
        second). One of them is None if its module has no more instructions. Both are None if no difference was found.

        If one pass made both modules, these modules are compared. Otherwise a pass changed the module in one compile
        only, and the module after this pass is compared with the module before it.
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
    """Returns the instructions of the first pair of lines, one from each sequence at the same position, that differ; one
    of them is None if its sequence is shorter. Returns None if all lines are equal.

    by_kind: whether to compare the kinds of lines and not their texts: one moved line changes the numbers in the texts of
    all lines after it.
    """
    for mine, theirs in zip_longest(one, other):
        same = mine and theirs and (mine.kind == theirs.kind if by_kind else mine.text == theirs.text)
        if not same:
            return mine and mine.instruction, theirs and theirs.instruction
    return None


def load_states(passes: Sequence[Path]) -> tuple[ModuleState, ...]:
    """Returns the modules in the snapshots of a compile, in order (its states). A module that equals the one before is left
    out.

    passes: the files that XLA dumped after its passes. Raises ArtifactError for a snapshot that cannot be read.
    """
    states: list[ModuleState] = []
    for snapshot in list_snapshots(passes):
        module, _ = load_hlo(snapshot.path)
        state = ModuleState(snapshot=snapshot, lines=fingerprint_lines(module, payloads=False))
        if not states or states[-1].texts != state.texts:
            states.append(state)
    return tuple(states)


def find_divergence(one: Sequence[ModuleState], other: Sequence[ModuleState]) -> Divergence | None:
    """Returns the point at which two compiles begin to differ. Returns None if XLA wrote the same modules between their
    passes.
    """
    old: ModuleState | None = None
    for mine, theirs in zip_longest(one, other):
        if mine is None or theirs is None or mine.texts != theirs.texts:
            return Divergence(before=old and old.snapshot, one=mine, other=theirs, old=old)
        old = mine
    return None


def describe_instruction(instruction: HloInstruction | None) -> str:
    """Returns an instruction as text with backticks, such as "`%add.3 = f32[8] add(%a, %b)`". Returns "nothing" for None."""
    if instruction is None:
        return "nothing"
    operands = ", ".join(f"%{operand.name}" for operand in instruction.operands)
    return f"`%{instruction.name} = {render_shape(instruction.shape)} {instruction.opcode}({operands})`"


CAPABILITY, PROGRAM = "capability", "program"
COLUMNS = (CAPABILITY, PROGRAM)
SNAPSHOTS = Variation(flags={"xla_dump_hlo_pass_re": ".*"})

type VerdictsByTarget = tuple[tuple[str, Verdict], ...]


def bisect_targets(runner: TrialRunner, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Compiles a case for several targets. Returns the verdicts for each, and the pass after which two compiles begin to
    differ.

    The targets are those that the options name. If they name one, it is compared with those of `list_compared_targets`; if
    they name none, `target` is so compared. Raises InputError if a target is unknown, or if there are fewer than two
    different ones.
    """
    targets = _choose(target, options)
    names = ", ".join(one.name for one in targets)
    draft = runner.open_draft(case, names, Axis.TARGETS, toolchain=options.toolchain, columns=COLUMNS)
    trials = [Trial(case=case, target=one, toolchain=options.toolchain) for one in targets]
    outcomes: tuple[Outcome, ...] = ()
    for outcomes in try_in_batches(runner, trials):
        _write_rows(draft, runner, outcomes, None)
    _write_rows(draft, runner, outcomes, options)
    answered = [outcome for outcome in outcomes if not outcome.error]
    groups: dict[VerdictsByTarget, list[Outcome]] = {}
    for outcome in answered:
        groups.setdefault(tuple(outcome.outputs.items()), []).append(outcome)
    if len(answered) < len(outcomes):
        draft.is_unsettled = True
        undecided = [f"`{outcome.trial.target.name}`" for outcome in outcomes if outcome.error]
        draft.notes.append(f"could not be analysed for {join_words(undecided)}, see the table")
    if len(groups) == 1:
        words = join_words([f"`{outcome.trial.target.name}`" for outcome in answered])
        draft.answers.append(f"the verdicts are the same on {words}")
    for members in list(groups.values())[1:]:
        draft.answers.append(_describe_change(answered[0], members))
        draft.answers.append(_explain(draft, runner, answered[0], members[0]))
    return runner.finish(draft)


def _choose(target: Target, options: BisectOptions) -> tuple[Target, ...]:
    named = load_targets(options.targets)
    targets = named if len(options.targets) > 1 else (*(named or (target,)), *list_compared_targets())
    by_sha = {one.sha256: one for one in reversed(targets)}
    chosen = tuple(one for one in targets if by_sha.get(one.sha256) is one)
    if len(chosen) < 2:
        raise InputError(f"expected at least two targets but got only `{targets[0].name}`: name more with `--target`")
    return chosen


def _write_rows(draft: Draft, runner: TrialRunner, outcomes: Sequence[Outcome], options: BisectOptions | None) -> None:
    programs = _name_programs(outcomes)
    draft.rows[:] = [
        make_row(
            outcome,
            outcome.trial.target.name,
            replay=numbers,
            cells={CAPABILITY: outcome.trial.target.generation, PROGRAM: program},
        )
        for outcome, numbers, program in zip(
            outcomes, replay_outcomes(runner, draft, outcomes, options), programs, strict=True
        )
    ]


def _name_programs(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns a word for each outcome's compiled program: `its own` if it differs from those of all earlier targets in
    its instructions or their order, otherwise a text such as `as a100`; an empty word for a trial without a program.
    """
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


def _explain(draft: Draft, runner: TrialRunner, one: Outcome, other: Outcome) -> str:
    """Compiles for both targets once more with a snapshot after every pass; returns a sentence on where the compiles
    diverge.
    """
    names = one.trial.target.name, other.trial.target.name
    where = f"where `{names[0]}` and `{names[1]}` diverge"
    trials = [
        Trial(
            case=outcome.trial.case, target=outcome.trial.target, toolchain=outcome.trial.toolchain, variation=SNAPSHOTS
        )
        for outcome in (one, other)
    ]
    sides: list[tuple[ModuleState, ...]] = []
    for outcome in runner.try_all(trials):
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
    divergence = find_divergence(*sides)
    if divergence is None:
        draft.is_unsettled = True
        return f"{where} is not known: their modules are alike after every pass that XLA takes a snapshot of"
    return f"{describe_divergence(divergence, *names)}"


def describe_divergence(divergence: Divergence, one: str, other: str) -> str:
    """Returns a sentence on where two compiles begin to differ: the pass, and the first instruction. one, other: names
    of the two targets.
    """
    mine, theirs = (describe_instruction(instruction) for instruction in divergence.find_difference())
    names = f"`{one}` and `{other}`"
    if divergence.one is not None and divergence.other is not None and not divergence.is_same_pass:
        after = f"after {divergence.before.text}" if divergence.before else "from the first snapshot on"
        place = (
            f"{names} diverge {after}: the next change is by {divergence.one.snapshot.text} for `{one}` and by"
            f" {divergence.other.snapshot.text} for `{other}`"
        )
    elif divergence.one is not None and divergence.other is not None:
        place = f"{names} diverge at {divergence.one.snapshot.text}, which makes another module for each"
    elif divergence.one is not None:
        place = f"{names} diverge at {divergence.one.snapshot.text}, which changes the module for `{one}` alone"
    elif divergence.other is not None:
        place = f"{names} diverge at {divergence.other.snapshot.text}, which changes the module for `{other}` alone"
    else:
        return f"{names} do not diverge"
    return f"{place}; the first instruction that differs is {mine} for `{one}` and {theirs} for `{other}`"
