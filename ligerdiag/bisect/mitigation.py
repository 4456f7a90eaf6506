"""MITIGATION"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan

from ligerdiag.bisect.edges import find_knobs
from ligerdiag.bisect.trials import (
    Draft,
    Laboratory,
    Outcome,
    Trial,
    describe_wrong,
    make_row,
    replay_outcomes,
    require_device,
    run_on_device,
    try_in_batches,
)
from ligerdiag.errors import CaseError
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.judgement.agreement import compute_worst, render_figure
from ligerdiag.judgement.answers import Axis, Bisection, BisectionRow
from ligerdiag.model.findings import Attribution, DeviceRun, Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import count_of, join_words
from ligerdiag.toolchains.catalogue import Target

CLOCK_NOISE, CLOCK_NOISE_MS = 0.02, 0.1
"""Share of a time, and milliseconds, by which medians of the same program were seen to differ (docs/measurements)."""

_LOSSY_WORKAROUND = "LD012"
"""Id of the rule whose finding says that a value is read through an addition and a subtraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One case of a ladder."""

    name: str
    """Its mitigation."""
    outcome: Outcome
    replay: Replay | None = None
    device: DeviceRun | None = None
    instructions: int | None = None
    """Of the optimized module, fused ones included; None when there is none."""
    peak_bytes: int | None = None
    """Bytes on one device that XLA reserves, see `Memory.peak`; None when there is no module."""

    @property
    def milliseconds(self) -> float | None:
        """Median time of one execution; None when it was not run."""
        return None if self.device is None else self.device.milliseconds

    @property
    def errors(self) -> Mapping[str, float]:
        """Returns output name to relative error by replay: against program order, or of program order against the
        case's own reference, whichever is larger. Empty without numbers."""
        if self.replay is None or self.replay.state is not ReplayState.DONE:
            return {}
        return {
            name: compute_worst((numbers.error, self.replay.reference.get(name, 0.0)))
            for name, numbers in self.replay.outputs.items()
        }

    @property
    def device_errors(self) -> Mapping[str, float]:
        """Output name to relative error on the device, the worst over the draws; empty without a run."""
        return {} if self.device is None else {n: compute_worst(o.errors) for n, o in self.device.outputs.items()}

    @property
    def lossy(self) -> Mapping[str, float]:
        """Output name to relative error where numbers say that precision is lost."""
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
        """A value is read through an addition and a subtraction, and no numbers say what that costs."""
        is_whole = self.replay is not None and not self.replay.cut
        measured = (is_whole and bool(self.errors)) or bool(self.device_errors)
        return not measured and any(finding.rule == _LOSSY_WORKAROUND for finding in self.outcome.findings)

    @property
    def is_wrong_on_device(self) -> bool:
        """Returns whether the device computed other values, whatever the schedule for the described target says."""
        wrong = (Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER)
        return self.device is not None and any(one.attribution in wrong for one in self.device.outputs.values())

    @property
    def is_right(self) -> bool:
        """Every output is fresh, and where it was run the device agrees; precision is another matter."""
        return self.outcome.is_right and not self.is_wrong_on_device

    @property
    def is_exact(self) -> bool:
        """Right, and nothing says that precision is lost."""
        return self.is_right and not self.lossy and not self.may_be_lossy


def find_cheapest(rungs: Sequence[Rung]) -> Rung | None:
    """Returns the fastest on the device; of those that are as fast within `CLOCK_NOISE`, or were not timed, the one
    with the least memory, then with the fewest instructions, then the first. An unknown value costs most. None without
    rungs."""
    fastest = min((_known(rung.milliseconds) for rung in rungs), default=inf)
    limit = max(fastest * (1 + CLOCK_NOISE), fastest + CLOCK_NOISE_MS)
    fast = [rung for rung in rungs if _known(rung.milliseconds) <= limit]
    return min(fast, key=lambda rung: (_known(rung.peak_bytes), _known(rung.instructions)), default=None)


def find_worst(errors: Mapping[str, float]) -> tuple[str, float] | None:
    """Returns the output with the largest error; one that is not a number is larger than all."""
    return max(errors.items(), key=lambda one: (isnan(one[1]), one[1]), default=None)


def _known(value: float | None) -> float:
    return inf if value is None else value


USUAL_WORDS = ("hidden", "trivial", "barrier", "aliased", "out_of_place", "shard_map")
"""The order of the rungs, from no declaration to the most explicit one."""


def find_mitigation(case: CaseSpec) -> str:
    """Returns the case's measure against a hidden write; empty when it names none."""
    if case.mitigation:
        return case.mitigation
    words = [param for param in case.params if param in USUAL_WORDS]
    return words[0] if len(words) == 1 else ""


def find_siblings(case: CaseSpec, table: Sequence[CaseSpec]) -> tuple[CaseSpec, ...]:
    """Returns the case and its siblings in the table, usual words first and in their order; empty when it has no
    mitigation.

    Where two of them have the same mitigation, the first one stands.
    """
    own = find_mitigation(case)
    rungs = {own: case} if own else {}
    for other in table if own else ():
        word = find_mitigation(other)
        if word and _is_sibling(case, other):
            rungs.setdefault(word, other)
    order = [*USUAL_WORDS, *(word for word in rungs if word not in USUAL_WORDS)]
    return tuple(rungs[word] for word in order if word in rungs)


def _is_sibling(one: CaseSpec, other: CaseSpec) -> bool:
    if (one.source, one.name, len(one.params)) != (other.source, other.name, len(other.params)):
        return False
    return sum(mine != theirs for mine, theirs in zip(one.params, other.params, strict=True)) == 1


AS_WRITTEN, TRIVIAL = "as written", "trivial"


def make_rungs(
    laboratory: Laboratory, draft: Draft, case: CaseSpec, target: Target, toolchain: str
) -> tuple[Trial, ...]:
    """Returns the trials, that as written first, alone where nothing can be tied. Raises CaseError where it does not
    trace."""
    written = Trial(case=case, target=target, toolchain=toolchain)
    draft.notes.append(_describe_siblings(case))
    base = laboratory.try_one(written)
    if base.exit_code == CaseError.exit_code:
        raise CaseError(base.error)
    if base.artifact is None or base.error:
        return (written,)
    if not base.written:
        draft.notes.append("no kernel overwrites an operand behind XLA's back: there is nothing to tie")
        return (written,)
    knobs = find_knobs(draft, base, base.artifact.readers, base.artifact.readers_trouble)
    if not knobs:
        draft.notes.append(
            f"there is no `{TRIVIAL}` beside it: nothing that can be tied reads what a kernel overwrites"
        )
        return (written,)
    ties = tuple(knob.id for knob in knobs)
    return written, Trial(case=case, target=target, toolchain=toolchain, variation=Variation(ties=ties))


def name_rung(trial: Trial) -> str:
    """Returns the mitigation of its case, or which of the automatic rungs it is."""
    return TRIVIAL if trial.variation.ties else find_mitigation(trial.case) or AS_WRITTEN


def _describe_siblings(case: CaseSpec) -> str:
    """Returns the text to copy for more rungs."""
    name = case.name if not case.params else case.id
    return (
        "other cures are programs of your own: for more rungs write the case once for each, such as `CASES ="
        f' tuple(Case(name="{name}", params=(word,), function=functools.partial(program, mode=word), args=ARGS)'
        ' for word in ("hidden", "barrier", "aliased"))`'
    )


ERROR, BYTES, INSTRUCTIONS = "worst error", "memory", "instructions"
DEVICE_ERROR, MILLISECONDS = "on the GPU", "ms"
_NO_RUNS: Mapping[str, DeviceRun] = {}
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def bisect_mitigation(laboratory: Laboratory, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Returns verdicts, errors, memory, instructions and, with a device, times of each rung, and the cheapest that is
    right.

    Raises InputError when a device is requested and there is none, CaseError when a case without siblings does not
    trace.
    """
    require_device(options)
    cases = find_siblings(case, laboratory.discover([str(case.source)])) if find_mitigation(case) else ()
    is_automatic = len(cases) < 2
    columns = (ERROR, BYTES, INSTRUCTIONS, *((DEVICE_ERROR, MILLISECONDS) if options.device else ()))
    draft = laboratory.open_draft(case, target.name, Axis.MITIGATION, toolchain=options.toolchain, columns=columns)
    missing = [f"`{word}`" for word in USUAL_WORDS[:-1] if word not in {find_mitigation(one) for one in cases}]
    if missing and not is_automatic:
        draft.notes.append(f"the table of `{case.name}` has no {join_words(missing)} beside this case")
    trials: Sequence[Trial] = [Trial(case=one, target=target, toolchain=options.toolchain) for one in cases]
    if is_automatic:
        cases = (case,)
        trials = make_rungs(laboratory, draft, case, target, options.toolchain)
    outcomes: tuple[Outcome, ...] = ()
    for outcomes in try_in_batches(laboratory, trials):
        _write_rows(draft, _make_rungs(outcomes, (None,) * len(outcomes), _NO_RUNS))
    replays = replay_outcomes(laboratory, draft, outcomes, options)
    _write_rows(draft, _make_rungs(outcomes, replays, _NO_RUNS))
    rungs = _make_rungs(outcomes, replays, run_on_device(laboratory, cases, options) if options.device else _NO_RUNS)
    _write_rows(draft, rungs)
    _note(draft, rungs)
    draft.answers += _answer(rungs)
    return laboratory.finish(draft)


def _make_rungs(
    outcomes: Sequence[Outcome], replays: Sequence[Replay | None], runs: Mapping[str, DeviceRun]
) -> tuple[Rung, ...]:
    return tuple(_make_rung(outcome, replay, runs) for outcome, replay in zip(outcomes, replays, strict=True))


def _make_rung(outcome: Outcome, replay: Replay | None, runs: Mapping[str, DeviceRun]) -> Rung:
    trial = outcome.trial
    rung = Rung(
        name=name_rung(trial),
        outcome=outcome,
        replay=replay,
        device=None if trial.variation.ties else runs.get(trial.case.id),
    )
    if outcome.artifact is None or outcome.error:
        return rung
    module, buffers = load_hlo(outcome.artifact.optimized)
    peak = None if buffers is None or buffers.memory is None else buffers.memory.peak
    return replace(rung, instructions=module.instruction_count, peak_bytes=peak)


def _write_rows(draft: Draft, rungs: Sequence[Rung]) -> None:
    best = _choose(rungs)
    draft.rows[:] = [_make_row(rung, rungs, is_answer=rung is best) for rung in rungs]


def _make_row(rung: Rung, rungs: Sequence[Rung], *, is_answer: bool) -> BisectionRow:
    cells = {
        ERROR: _describe_worst(rung.errors),
        BYTES: _render_more(rung.peak_bytes, _find_least([one.peak_bytes for one in rungs]), render_bytes),
        INSTRUCTIONS: _render_more(rung.instructions, _find_least([one.instructions for one in rungs]), str),
        DEVICE_ERROR: _describe_device(rung),
        MILLISECONDS: "" if rung.milliseconds is None else f"{rung.milliseconds:.3g}",
    }
    cells |= {f"error of {name}": render_figure(error) for name, error in rung.errors.items()}
    cells |= {f"error of {name} on the GPU": render_figure(error) for name, error in rung.device_errors.items()}
    if rung.peak_bytes is not None:
        cells["bytes"] = str(rung.peak_bytes)
    return make_row(rung.outcome, rung.name, replay=rung.replay, cells=cells, is_answer=is_answer)


def _describe_worst(errors: Mapping[str, float]) -> str:
    worst = find_worst(errors)
    return "" if worst is None else f"{render_figure(worst[1])} {worst[0]}"


def _describe_device(rung: Rung) -> str:
    if rung.device is None:
        return ""
    return "not run" if rung.device.error and not rung.device.outputs else _describe_worst(rung.device_errors)


def _find_least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _render_more(value: int | None, least: int | None, render: Callable[[int], str]) -> str:
    """Returns the least amount itself, and for the others the amount above it."""
    if value is None or least is None:
        return ""
    return render(value) if value == least else f"+{render(value - least)}"


def render_bytes(size: int) -> str:
    """Such as `201 MiB` or `96 bytes`."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def _note(draft: Draft, rungs: Sequence[Rung]) -> None:
    broken = [f"`{rung.name}`" for rung in rungs if rung.outcome.error]
    if broken:
        draft.is_unsettled = True
        draft.notes.append(f"could not be analysed: {join_words(broken)}, see the table")
    for rung in rungs:
        if rung.device is not None and rung.device.error:
            draft.notes.append(f"`{rung.name}` on the GPU: {rung.device.error}")
            draft.is_unsettled = draft.is_unsettled or rung.device.died
    timed = {
        rung.device.timed_runs for rung in rungs if rung.device is not None and rung.device.milliseconds is not None
    }
    if timed:
        runs = f"{min(timed)}" if len(timed) == 1 else f"{min(timed)} to {max(timed)}"
        device = next(rung.device.device for rung in rungs if rung.device is not None and rung.device.device)
        draft.notes.append(f"{MILLISECONDS}: median of {runs} executions on {device}, with the host's part of the call")
    draft.notes.append(
        f"{BYTES}: arguments, outputs and temporaries on one device by XLA's own analysis; where it says +, and for"
        f" {INSTRUCTIONS}, against the rung that has the least"
    )


def _answer(rungs: Sequence[Rung]) -> list[str]:
    """Returns the answer: the right rungs, the cheapest of them, and the price of each."""
    answers: list[str] = []
    best = _choose(rungs)
    exact = [rung for rung in rungs if rung.is_exact]
    if not any(rung.is_right for rung in rungs):
        answers.append("no rung is right")
    elif best is None or not best.is_exact:
        answers.append("no rung is right without losing precision")
    else:
        words = join_words([f"`{rung.name}`" for rung in exact])
        cheapest = f"; `{best.name}` is the cheapest" if len(exact) > 1 else ""
        answers.append(f"right: {words}{cheapest}")
    answers += [_describe_rung(rung, rungs) for rung in rungs]
    return answers


def _choose(rungs: Sequence[Rung]) -> Rung | None:
    """Returns the cheapest right rung; one that loses precision only where there is no other."""
    right = [rung for rung in rungs if rung.is_exact] or [rung for rung in rungs if rung.is_right]
    return find_cheapest(right)


def _describe_rung(rung: Rung, rungs: Sequence[Rung]) -> str:
    return f"`{rung.name}` {', '.join((_describe_rightness(rung), *_list_costs(rung, rungs)))}"


def _describe_rightness(rung: Rung) -> str:
    if rung.outcome.error:
        return "is not known"
    if rung.is_right and rung.lossy:
        return f"is right and loses precision ({_describe_worst(rung.lossy)})"
    if rung.is_right and rung.may_be_lossy:
        return "is right and may lose precision, which no numbers were asked for or had"
    if rung.is_right:
        return "is right" + ("" if rung.errors or rung.device_errors else " by its schedule, without numbers")
    if rung.outcome.is_right:
        return "is right by its schedule and wrong on the GPU"
    return f"is {rung.outcome.word}: {describe_wrong(rung.outcome.outputs)}"


def _list_costs(rung: Rung, rungs: Sequence[Rung]) -> list[str]:
    costs: list[str] = []
    least = _find_least([one.peak_bytes for one in rungs])
    if rung.peak_bytes is not None and least is not None:
        more = rung.peak_bytes - least
        costs.append(f"{render_bytes(more)} more" if more else f"the least memory ({render_bytes(least)})")
    fewest = _find_least([one.instructions for one in rungs])
    if rung.instructions is not None and fewest is not None and rung.instructions > fewest:
        costs.append(count_of(rung.instructions - fewest, "more instruction"))
    if rung.milliseconds is not None:
        costs.append(f"{rung.milliseconds:.3g} ms")
    return costs
