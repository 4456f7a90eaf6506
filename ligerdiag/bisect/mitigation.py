"""Measures the cost of each mitigation of a hidden write (a kernel's write to an operand that XLA does not know of), by
compiling the program once with each of them. A mitigation is a change to the program that makes XLA order the readers
correctly.

The mitigations come from the case file: the siblings of a case have its name, and params that differ in one place. A
case without siblings is compared as written and with the mitigations that `bisect.automatic_cures` can apply to it.

Memory is counted for one device, by XLA's buffer assignment: arguments, outputs and temporaries, shared bytes counted once.
A mitigation is right if every output is fresh. The cheapest one is chosen among the right mitigations without a known loss
of precision.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan

from ligerdiag.bisect.automatic_cures import make_automatic_trials, name_variation
from ligerdiag.bisect.trials import (
    Draft,
    Outcome,
    Trial,
    TrialRunner,
    describe_wrong,
    make_row,
    replay_outcomes,
    require_device,
    run_on_device,
    try_in_batches,
)
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.findings import FAR, Attribution, DeviceRun, Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.report.relative_errors import compute_worst, render_figure
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import count_of, join_words, render_bytes
from ligerdiag.toolchains.gpu_targets import Target

CLOCK_NOISE, CLOCK_NOISE_MS = 0.02, 0.1
"""Two median times count as equal if they differ by at most this share of the time, or by at most this many milliseconds.
Repeated measurements of one program differ by as much as that (docs/measurements).
"""

_ROUNDING = list_ids(RuleKind.ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mitigation:
    """One way to protect the program from a hidden write, such as an optimization barrier: its verdicts and its costs."""

    name: str
    """The word for the mitigation, such as `barrier`."""
    outcome: Outcome
    replay: Replay | None = None
    device: DeviceRun | None = None
    instructions: int | None = None
    """Number of instructions of the optimized module, including fused ones; None without a module."""
    peak_bytes: int | None = None
    """Bytes that XLA reserves on one device, see `Memory.peak`; None without a module."""

    @property
    def milliseconds(self) -> float | None:
        """Returns the median time of one execution; None without a run on a device."""
        return None if self.device is None else self.device.milliseconds

    @property
    def errors(self) -> Mapping[str, float]:
        """Returns the relative error of each output in the replay, by the output's name. Empty if nothing was replayed.

        It is the larger of two errors: of the schedule against program order, and of program order against the case's
        reference.
        """
        if self.replay is None or self.replay.state is not ReplayState.DONE:
            return {}
        return {
            name: compute_worst((numbers.error, self.replay.reference.get(name, 0.0)))
            for name, numbers in self.replay.outputs.items()
        }

    @property
    def device_errors(self) -> Mapping[str, float]:
        """Returns the largest relative error of each output on the device, by the output's name. Looks at all sets of random
        inputs. Empty if nothing ran on a device.
        """
        return {} if self.device is None else {n: compute_worst(o.errors) for n, o in self.device.outputs.items()}

    @property
    def lossy(self) -> Mapping[str, float]:
        """Returns the outputs whose numbers show a loss of precision, each with its relative error: `{'gradient': 0.01}`."""
        found: dict[str, float] = {}
        if self.replay is not None:
            found |= {
                name: self.errors[name]
                for name, numbers in self.replay.outputs.items()
                if numbers.attribution is Attribution.LOSSY and name in self.errors
            }
        if self.device is not None:
            found |= {
                name: max(found.get(name, 0.0), self.device_errors[name])
                for name, output in self.device.outputs.items()
                if output.attribution is Attribution.LOSSY
            }
        return found

    @property
    def may_be_lossy(self) -> bool:
        """Returns whether an unknown amount of precision may be lost. A finding then says that a value is read through an
        addition and a subtraction, and neither a device nor a complete replay has computed numbers.
        """
        is_whole = self.replay is not None and not self.replay.cut
        measured = (is_whole and bool(self.errors)) or bool(self.device_errors)
        return not measured and any(finding.rule in _ROUNDING for finding in self.outcome.findings)

    @property
    def is_wrong_on_device(self) -> bool:
        """Returns whether the device computed wrong values. The verdicts may be right nevertheless, because they are
        about the schedule for the described target.
        """
        return self.device is not None and any(one.attribution.is_wrong for one in self.device.outputs.values())

    @property
    def is_right(self) -> bool:
        """Returns whether every output is fresh, and no reference and no run on a device contradicts that. A loss of
        precision does not matter.
        """
        return self.outcome.is_right and not self.is_wrong_on_device and not self._differs_from_reference

    @property
    def _differs_from_reference(self) -> bool:
        """Whether an output differs from the reference by more than a loss of precision. A change of the program can
        make it mean something else, which verdicts on its schedule do not show.
        """
        replay = self.replay
        return replay is not None and any(
            not error <= max(replay.reference_tolerance.get(name, 0.0), FAR) for name, error in replay.reference.items()
        )

    @property
    def is_exact(self) -> bool:
        """Returns whether the mitigation is right and nothing indicates a loss of precision."""
        return self.is_right and not self.lossy and not self.may_be_lossy


def find_cheapest(mitigations: Sequence[Mitigation]) -> Mitigation | None:
    """Returns the mitigation that is fastest on the device; None if there are no mitigations.

    Mitigations whose times differ by less than `CLOCK_NOISE` count as equally fast. Among them, memory decides, then the
    number of instructions, then the order in `mitigations`. An unknown value counts as the highest.
    """
    fastest = min((_known(mitigation.milliseconds) for mitigation in mitigations), default=inf)
    limit = max(fastest * (1 + CLOCK_NOISE), fastest + CLOCK_NOISE_MS)
    fast = [mitigation for mitigation in mitigations if _known(mitigation.milliseconds) <= limit]
    return min(
        fast, key=lambda mitigation: (_known(mitigation.peak_bytes), _known(mitigation.instructions)), default=None
    )


def find_worst(errors: Mapping[str, float]) -> tuple[str, float] | None:
    """Returns (name, error) of the output with the largest error. NaN counts as the largest. Returns None without
    outputs.
    """
    return max(errors.items(), key=lambda one: (isnan(one[1]), one[1]), default=None)


def _known(value: float | None) -> float:
    return inf if value is None else value


USUAL_WORDS = ("hidden", "trivial", "barrier", "aliased", "out_of_place", "shard_map")
"""Usual names of mitigations, in the order of the rows of the answer's table: each declares the write more explicitly
than the one before. If a case does not name its mitigation, the name is looked for among its params.
"""


def find_mitigation(case: CaseSpec) -> str:
    """Returns the name of the mitigation that a case applies. If the case does not give it, the name is the only
    parameter of the case that is one of USUAL_WORDS, such as `barrier`. Returns '' if none or several of the parameters
    are.
    """
    if case.mitigation:
        return case.mitigation
    words = [param for param in case.params if param in USUAL_WORDS]
    return words[0] if len(words) == 1 else ""


def find_siblings(case: CaseSpec, table: Sequence[CaseSpec]) -> tuple[CaseSpec, ...]:
    """Returns a case and its siblings among the cases of `table`; () if the case has no mitigation.

    Siblings have the source and the name of the case, and params that differ in one place. They come in the order of
    USUAL_WORDS; those whose mitigation has an unusual name come last. Of several siblings with one mitigation, only the
    first is returned.
    """
    own = find_mitigation(case)
    mitigations = {own: case} if own else {}
    for other in table if own else ():
        word = find_mitigation(other)
        if word and _is_sibling(case, other):
            mitigations.setdefault(word, other)
    order = [*USUAL_WORDS, *(word for word in mitigations if word not in USUAL_WORDS)]
    return tuple(mitigations[word] for word in order if word in mitigations)


def _is_sibling(one: CaseSpec, other: CaseSpec) -> bool:
    if (one.source, one.name, len(one.params)) != (other.source, other.name, len(other.params)):
        return False
    return sum(mine != theirs for mine, theirs in zip(one.params, other.params, strict=True)) == 1


AS_WRITTEN = "as written"


def name_mitigation(trial: Trial) -> str:
    """Returns the name of a trial's mitigation. If the trial changes the lowered program, this is the name of the change.
    Otherwise it is the mitigation of the case, or `as written` if the case has none.
    """
    return name_variation(trial.variation) or find_mitigation(trial.case) or AS_WRITTEN


ERROR, BYTES, INSTRUCTIONS = "worst error", "memory", "instructions"
DEVICE_ERROR, MILLISECONDS = "on the GPU", "ms"
_NO_RUNS: Mapping[str, DeviceRun] = {}


def bisect_mitigation(runner: TrialRunner, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Compares the mitigations of a hidden write by verdicts, errors, memory and instructions. With a device, also compares
    their times. Returns the figures, and the cheapest right mitigation.

    Raises InputError if `--device` is given and there is no device, CaseError if JAX cannot trace a case without siblings.
    """
    require_device(options)
    cases = find_siblings(case, runner.discover([str(case.source)])) if find_mitigation(case) else ()
    is_automatic = len(cases) < 2
    columns = (ERROR, BYTES, INSTRUCTIONS, *((DEVICE_ERROR, MILLISECONDS) if options.device else ()))
    draft = runner.open_draft(case, target.name, Axis.MITIGATION, toolchain=options.toolchain, columns=columns)
    missing = [f"`{word}`" for word in USUAL_WORDS[:-1] if word not in {find_mitigation(one) for one in cases}]
    if missing and not is_automatic:
        draft.notes.append(f"`{case.name}` has no case for {join_words(missing)}, so their costs are not compared")
    trials: Sequence[Trial] = [Trial(case=one, target=target, toolchain=options.toolchain) for one in cases]
    if is_automatic:
        cases = (case,)
        trials = make_automatic_trials(runner, draft, case, target, options.toolchain)
    outcomes: tuple[Outcome, ...] = ()
    for outcomes in try_in_batches(runner, trials):
        _write_rows(draft, _make_mitigations(outcomes, (None,) * len(outcomes), _NO_RUNS))
    replays = replay_outcomes(runner, draft, outcomes, options)
    _write_rows(draft, _make_mitigations(outcomes, replays, _NO_RUNS))
    mitigations = _make_mitigations(
        outcomes, replays, run_on_device(runner, cases, options) if options.device else _NO_RUNS
    )
    _write_rows(draft, mitigations)
    _note(draft, mitigations)
    draft.answers += _answer(mitigations)
    return runner.finish(draft)


def _make_mitigations(
    outcomes: Sequence[Outcome], replays: Sequence[Replay | None], runs: Mapping[str, DeviceRun]
) -> tuple[Mitigation, ...]:
    return tuple(_make_mitigation(outcome, replay, runs) for outcome, replay in zip(outcomes, replays, strict=True))


def _make_mitigation(outcome: Outcome, replay: Replay | None, runs: Mapping[str, DeviceRun]) -> Mitigation:
    trial = outcome.trial
    mitigation = Mitigation(
        name=name_mitigation(trial),
        outcome=outcome,
        replay=replay,
        device=None if name_variation(trial.variation) else runs.get(trial.case.id),
    )
    if outcome.artifact is None or outcome.error:
        return mitigation
    module, buffers = load_hlo(outcome.artifact.optimized)
    peak = None if buffers is None or buffers.memory is None else buffers.memory.peak
    return replace(mitigation, instructions=module.instruction_count, peak_bytes=peak)


def _write_rows(draft: Draft, mitigations: Sequence[Mitigation]) -> None:
    best = _choose(mitigations)
    draft.rows[:] = [_make_row(mitigation, mitigations, is_answer=mitigation is best) for mitigation in mitigations]


def _make_row(mitigation: Mitigation, mitigations: Sequence[Mitigation], *, is_answer: bool) -> BisectionRow:
    cells = {
        ERROR: _describe_worst(mitigation.errors),
        BYTES: _render_more(mitigation.peak_bytes, _find_least([one.peak_bytes for one in mitigations]), render_bytes),
        INSTRUCTIONS: _render_more(
            mitigation.instructions, _find_least([one.instructions for one in mitigations]), str
        ),
        DEVICE_ERROR: _describe_device(mitigation),
        MILLISECONDS: "" if mitigation.milliseconds is None else f"{mitigation.milliseconds:.3g}",
    }
    cells |= {f"error of {name}": render_figure(error) for name, error in mitigation.errors.items()}
    cells |= {f"error of {name} on the GPU": render_figure(error) for name, error in mitigation.device_errors.items()}
    if mitigation.peak_bytes is not None:
        cells["bytes"] = str(mitigation.peak_bytes)
    return make_row(mitigation.outcome, mitigation.name, replay=mitigation.replay, cells=cells, is_answer=is_answer)


def _describe_worst(errors: Mapping[str, float]) -> str:
    worst = find_worst(errors)
    return "" if worst is None else f"{render_figure(worst[1])} {worst[0]}"


def _describe_device(mitigation: Mitigation) -> str:
    if mitigation.device is None:
        return ""
    return (
        "not run"
        if mitigation.device.error and not mitigation.device.outputs
        else _describe_worst(mitigation.device_errors)
    )


def _find_least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _render_more(value: int | None, least: int | None, render: Callable[[int], str]) -> str:
    """Returns `value` as text if it equals `least`, the least amount of all mitigations; otherwise the difference, such
    as "+3 KiB". Returns "" if either is None (unknown).
    """
    if value is None or least is None:
        return ""
    return render(value) if value == least else f"+{render(value - least)}"


def _note(draft: Draft, mitigations: Sequence[Mitigation]) -> None:
    broken = [f"`{mitigation.name}`" for mitigation in mitigations if mitigation.outcome.error]
    if broken:
        draft.is_unsettled = True
        draft.notes.append(f"could not be analysed: {join_words(broken)}, see the table")
    for mitigation in mitigations:
        if mitigation.device is not None and mitigation.device.error:
            draft.notes.append(f"`{mitigation.name}` on the GPU: {mitigation.device.error}")
            draft.is_unsettled = draft.is_unsettled or mitigation.device.died
    timed = {
        mitigation.device.timed_runs
        for mitigation in mitigations
        if mitigation.device is not None and mitigation.device.milliseconds is not None
    }
    if timed:
        runs = f"{min(timed)}" if len(timed) == 1 else f"{min(timed)} to {max(timed)}"
        device = next(
            mitigation.device.device
            for mitigation in mitigations
            if mitigation.device is not None and mitigation.device.device
        )
        draft.notes.append(f"{MILLISECONDS}: median of {runs} executions on {device}, with the host's part of the call")
    draft.notes.append(
        f"{BYTES}: arguments, outputs and temporaries on one device by XLA's own analysis; under"
        f" {BYTES} and {INSTRUCTIONS}, a figure with + is the difference from the smallest figure of the column"
    )


def _answer(mitigations: Sequence[Mitigation]) -> list[str]:
    """Returns a sentence that names the right mitigations and the cheapest of them, and one sentence for each
    mitigation, with its costs.
    """
    answers: list[str] = []
    best = _choose(mitigations)
    exact = [mitigation for mitigation in mitigations if mitigation.is_exact]
    if not any(mitigation.is_right for mitigation in mitigations):
        answers.append("no mitigation is right")
    elif best is None or not best.is_exact:
        answers.append("no mitigation is right without losing precision")
    else:
        words = join_words([f"`{mitigation.name}`" for mitigation in exact])
        cheapest = f"; `{best.name}` is the cheapest" if len(exact) > 1 else ""
        answers.append(f"right: {words}{cheapest}")
    answers += [_describe_mitigation(mitigation, mitigations) for mitigation in mitigations]
    return answers


def _choose(mitigations: Sequence[Mitigation]) -> Mitigation | None:
    """Returns the cheapest right mitigation, preferably one that loses no precision; None if none is right."""
    right = [mitigation for mitigation in mitigations if mitigation.is_exact] or [
        mitigation for mitigation in mitigations if mitigation.is_right
    ]
    return find_cheapest(right)


def _describe_mitigation(mitigation: Mitigation, mitigations: Sequence[Mitigation]) -> str:
    return f"`{mitigation.name}` {', '.join((_describe_rightness(mitigation), *_list_costs(mitigation, mitigations)))}"


def _describe_rightness(mitigation: Mitigation) -> str:
    if mitigation.outcome.error:
        return "could not be analysed"
    if mitigation.is_right and mitigation.lossy:
        return f"is right and loses precision ({_describe_worst(mitigation.lossy)})"
    if mitigation.is_right and mitigation.may_be_lossy:
        return "is right and may lose precision: no numbers say how much"
    if mitigation.is_right:
        return "is right" + (
            ""
            if mitigation.errors or mitigation.device_errors
            else " according to its schedule, which no numbers confirm"
        )
    if mitigation.outcome.is_right:
        return "is right according to its schedule, but wrong on the GPU"
    return f"is {mitigation.outcome.word}: {describe_wrong(mitigation.outcome.outputs)}"


def _list_costs(mitigation: Mitigation, mitigations: Sequence[Mitigation]) -> list[str]:
    costs: list[str] = []
    least = _find_least([one.peak_bytes for one in mitigations])
    if mitigation.peak_bytes is not None and least is not None:
        more = mitigation.peak_bytes - least
        costs.append(f"{render_bytes(more)} more" if more else f"the least memory ({render_bytes(least)})")
    fewest = _find_least([one.instructions for one in mitigations])
    if mitigation.instructions is not None and fewest is not None and mitigation.instructions > fewest:
        costs.append(count_of(mitigation.instructions - fewest, "more instruction"))
    if mitigation.milliseconds is not None:
        costs.append(f"{mitigation.milliseconds:.3g} ms")
    return costs
