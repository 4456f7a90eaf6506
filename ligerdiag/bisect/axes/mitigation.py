"""The price of each mitigation: one program with each measure against its hidden write, from none to another algorithm.

1. The rungs are the case's siblings in its own table (see `mitigation_variants`); a case without
   siblings has two: as it is, and with all its readers tied.
2. Memory is that of one device, by XLA's buffer assignment: arguments, outputs and temporaries, shared bytes counted
   once. Memory and instructions are given relative to the rung that has the least.
3. The cheapest right rung has every output fresh and no known loss of precision. Of several it is the fastest on the
   device; without times, or within the noise of the clock, the one with the least memory, then with the fewest
   instructions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ligerdiag.bisect.axes.mitigation_variants import (
    USUAL_WORDS,
    Rung,
    find_cheapest,
    find_mitigation,
    find_siblings,
    find_worst,
    make_rungs,
    name_rung,
)
from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.rows import (
    describe_wrong,
    make_row,
    replay_outcomes,
    require_device,
    run_on_device,
    try_in_batches,
)
from ligerdiag.bisect.search.trial import BisectOptions, Draft, Outcome, Trial
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.judgement.agreement import render_figure
from ligerdiag.judgement.answers import Axis, Bisection, BisectionRow
from ligerdiag.model.findings import DeviceRun, Replay
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.text import count_of, join_words
from ligerdiag.toolchains.gpu_targets import Target

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
