"""On which GPUs the verdict differs, and the first pass of XLA at which the compiles for two of them part.

1. The case is compiled and judged for every target. Targets with equal verdicts are a group; the first target is in the
   first one.
2. The first target of each other group is compared with the first target: both are compiled once more with a snapshot after
   every pass, see `first_divergent_pass`.
"""

from collections.abc import Sequence

from ligerdiag.bisect.passes.first_divergent_pass import (
    ModuleState,
    Parting,
    describe_instruction,
    find_parting,
    load_states,
)
from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.rows import compare_outputs, make_row, replay_outcomes, try_in_batches
from ligerdiag.bisect.search.trial import BisectOptions, Draft, Outcome, Trial
from ligerdiag.errors import ArtifactError, InputError, describe_error
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.text import compute_fingerprint
from ligerdiag.judgement.answers import Axis, Bisection
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.text import join_words
from ligerdiag.toolchains.gpu_targets import Target, list_targets, load_target

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
