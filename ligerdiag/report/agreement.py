"""Compares what the schedule and the numbers say about an output. If they differ, somebody is wrong (see `difference`).

| the schedule says | the numbers agree | they say nothing | they disagree |
|---|---|---|---|
| fresh, latent | fresh, lossy in program order already | undecided, lossy | stale, partly stale, neither |
| stale, clobbered | stale, partly stale, neither | undecided, lossy; fresh where they cannot tell | fresh |
| unknown | | all | |

A clobbered read saw the wrong bytes: its numbers may be wrong in any way. Numbers that are lossy against program order
contradict no verdict and confirm none: a sum with one small stale term is told from that, where it is larger than the
roundings (`replay.runs.rounding.is_overwritten`). Those that
equal program order and are lossy only against the case's reference are what the schedule should give. Numbers cannot
decide if intended and stale are equal, nor if an output misses some of the hidden writes and not all: the schedule then
does not compute the stale prediction, in which no read sees any of them, and a sign or a maximum may hide what it does
compute. Nor do they decide where they are fresh only within the tolerance, and further away than roundings take them: a
small term of a sum may be stale. A device is compared with the verdict on its own artifact, and with the replay of
that. If a finding says that an output races (LD005), the device may compute either value: it contradicts nothing there;
nor does it anywhere if a kernel is tried out on bytes that nobody restores (LD010). Nor do right numbers contradict anything
where XLA has two values in the same bytes (LD024): one of the two is left there.
A device that is held against the case's reference alone, because nothing was replayed, contradicts no verdict "fresh":
the program may be something else than its reference in program order already, or on its second draw, once it has
overwritten a constant. `explain_unknown_order` says so, and nobody concludes. If everything that makes an output wrong
lies in branches or loops that the drawn arguments do not enter, or is a maximum, which a softmax subtracts so that no
number shows it, or only decides something, such as a predicate or a bound, right numbers contradict nothing. Nor do
those of a program whose loops were cut short: what is wrong may come later.
Where the schedule was replayed in other legal orders, too, an output that is called fresh has the same numbers in each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from math import isfinite, isnan
from typing import assert_never

from ligerdiag.model.findings import (
    PROGRAM_ORDER,
    Attribution,
    DeviceOutput,
    DeviceRun,
    Finding,
    OrderChange,
    OutputNumbers,
    Replay,
    ReplayState,
    Severity,
    Verdict,
)
from ligerdiag.model.report import Disagreement
from ligerdiag.report.disagreement_causes import PossibleCause, explain_difference, find_shown, list_possible_causes
from ligerdiag.report.undefined import find_undefined
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.text import count_of, describe_names


def render_figure(value: float) -> str:
    """Returns a relative error in two digits, such as `0.25`, `1.2e+04` or `0`."""
    if isnan(value):
        return "not a number"
    return f"{value:.2g}" if isfinite(value) else "infinite"


def render_numbers(numbers: OutputNumbers) -> str:
    """Such as `stale: relative error 1.2e+04, equal to the stale prediction`."""
    return f"{numbers.attribution.value}: {render_error(numbers)}"


def render_error(numbers: OutputNumbers) -> str:
    """Such as `relative error 1.2e+04, equal to the stale prediction`."""
    error = f"relative error {render_figure(numbers.error)}"
    rows = f" ({numbers.rows_fresh} of {numbers.rows} rows as intended, {numbers.rows_stale} stale)"
    match numbers.attribution:
        case Attribution.STALE:
            words = f"{error}, equal to the stale prediction"
        case Attribution.PARTLY_STALE:
            words = f"{error}, some rows as intended and the others stale"
        case Attribution.FRESH | Attribution.LOSSY:
            distance = render_figure(numbers.distance)
            words = f"{error}, tolerance {render_figure(numbers.tolerance)}, the stale prediction {distance} away"
        case Attribution.NEITHER:
            words = f"{error}, and {render_figure(numbers.stale_error)} from the stale prediction"
        case Attribution.UNDECIDED:
            words = f"{error}, the stale prediction {render_figure(numbers.distance)} away from the intended"
    return words + rows if numbers.rows else words


def summarise_numbers(outputs: Mapping[str, OutputNumbers]) -> str:
    """Such as `105 outputs stale, relative error 0.3 to 1.2e+04; 1 undecided`, the commonest first."""
    found: dict[str, list[float]] = {}
    for numbers in outputs.values():
        cannot_tell = numbers.attribution is Attribution.FRESH and numbers.distance <= numbers.tolerance
        word = "the same right or stale" if cannot_tell else numbers.attribution.value
        found.setdefault(word, []).append(numbers.error)
    phrases: list[str] = []
    for word, errors in sorted(found.items(), key=lambda item: -len(item[1])):
        finite = [error for error in errors if isfinite(error)]
        low, high = (render_figure(min(finite)), render_figure(max(finite))) if finite else ("", "")
        span = f", relative error {low if low == high else f'{low} to {high}'}" if finite else ""
        noun = count_of(len(errors), "output") if not phrases else str(len(errors))
        phrases.append(f"{noun} {word}{span}")
    return "; ".join(phrases)


def render_device_numbers(output: DeviceOutput) -> str:
    """Such as `stale: relative error 1.2e+04`, the worst over the draws."""
    text = f"{output.attribution.value}: relative error {render_figure(compute_worst(output.errors))}"
    return f"{text}, {render_figure(output.unsteady)} between two runs" if output.unsteady else text


def compute_worst(errors: tuple[float, ...]) -> float:
    """Returns the largest, NaN when one is; 0 when there is none."""
    return max(errors, key=lambda error: (isnan(error), error), default=0.0)


_RACES = list_ids(RuleKind.RACE)
_TRIED_IN_PLACE = list_ids(RuleKind.TRIED_IN_PLACE)
_SHARED_BYTES = list_ids(RuleKind.SHARED_BYTES)
_HIDDEN_WRITES = list_ids(RuleKind.HIDDEN_WRITE)
_WRONG_READS = list_ids(RuleKind.EARLY_READ, RuleKind.COPY_READ, RuleKind.LATE_READ)


_ROUNDING = 0.25
"""Of a tolerance: what roundings that do not all go one way stay below."""


class Agreement(StrEnum):
    """How numbers compare with a verdict."""

    AGREES = "agrees"
    SILENT = "says nothing"
    DISAGREES = "disagrees"


def compute_agreement(
    verdict: Verdict, attribution: Attribution, *, can_tell: bool = True, in_program_order: bool = True
) -> Agreement:
    """Returns the agreement by the table above.

    can_tell: whether the intended and the stale numbers are further apart than rounding, and the arguments reach what
    would make them differ. in_program_order: whether the
    numbers equal those of program order, so that lossy ones are so against the reference only.
    """
    match verdict:
        case Verdict.UNKNOWN:
            return Agreement.SILENT
        case Verdict.FRESH | Verdict.LATENT:
            if attribution.is_wrong:
                return Agreement.DISAGREES
            silent = attribution is Attribution.UNDECIDED or (attribution is Attribution.LOSSY and not in_program_order)
            return Agreement.SILENT if silent else Agreement.AGREES
        case Verdict.STALE | Verdict.CLOBBERED:
            if attribution.is_wrong:
                return Agreement.AGREES
            wrong = attribution is Attribution.FRESH and can_tell
            return Agreement.DISAGREES if wrong else Agreement.SILENT
        case _:
            assert_never(verdict)


def compute_replay_agreements(
    outputs: Mapping[str, Verdict], replay: Replay | None, findings: Sequence[Finding] = ()
) -> dict[str, Agreement]:
    """Output name to what its replay says to its verdict; empty when nothing was replayed.

    It says nothing where a finding explains why the two differ.
    """
    if replay is None or replay.state is not ReplayState.DONE:
        return {}
    return {
        name: Agreement.SILENT
        if said is Agreement.DISAGREES and find_shown(list_possible_causes(name, findings))
        else said
        for name, said in _compare_with_replay(outputs, replay, findings).items()
    }


def _compare_with_replay(
    outputs: Mapping[str, Verdict], replay: Replay, findings: Sequence[Finding]
) -> dict[str, Agreement]:
    silent = find_unreached(findings, replay) | find_mixed(findings)
    return {
        name: compute_agreement(
            outputs[name],
            n.attribution,
            can_tell=n.distance > n.tolerance
            and n.error <= _ROUNDING * n.tolerance
            and name not in silent
            and not replay.cut,
            in_program_order=n.error <= n.tolerance,
        )
        for name, n in replay.outputs.items()
        if name in outputs
    }


def find_unreached(findings: Sequence[Finding], replay: Replay | None) -> frozenset[str]:
    """Returns the names of the outputs of which every finding has an instruction that the replay's arguments do not
    reach, or that no number shows, of those that only decisions make wrong, and of those that get one of two values."""
    decided = frozenset(name for finding in findings for name in finding.decided) | _find_shared(findings)
    if replay is None or not replay.unreached:
        return decided
    unreached = frozenset(replay.unreached)
    told: dict[str, bool] = {}
    for finding in findings:
        is_reached = unreached.isdisjoint(finding.instructions)
        for name in finding.outputs:
            told[name] = told.get(name, False) or is_reached
    return decided | {name for name, is_reached in told.items() if not is_reached}


def raise_shown(findings: Sequence[Finding], replay: Replay | None) -> tuple[Finding, ...]:
    """Makes errors of the warnings about reads that only decide something, where numbers show that they decide wrongly."""
    if replay is None or replay.state is not ReplayState.DONE:
        return tuple(findings)
    wrong = {name for name, numbers in replay.outputs.items() if numbers.attribution.is_wrong}
    return tuple(
        [
            replace(one, severity=Severity.ERROR, evidence=(*one.evidence, ("note", _SHOWN)))
            if one.rule in _WRONG_READS and one.severity is Severity.WARNING and wrong.intersection(one.decided)
            else one
            for one in findings
        ]
    )


_SHOWN = "the numbers show that it does"


def _find_shared(findings: Sequence[Finding]) -> frozenset[str]:
    """Returns the names of the outputs that depend on bytes in which XLA has two values: the one that is left there may be
    the right one."""
    return frozenset(name for finding in findings if finding.rule in _SHARED_BYTES for name in finding.outputs)


def find_unsteady(findings: Sequence[Finding], device: DeviceRun) -> frozenset[str]:
    """Returns the names of the outputs that the device may compute in more than one way: they race, no program defines them
    (`undefined`), or a kernel of the program is tried out in place."""
    if any(finding.rule in _TRIED_IN_PLACE for finding in findings):
        return frozenset(device.outputs)
    racing = frozenset(name for finding in findings if finding.rule in _RACES for name in finding.outputs)
    return racing | find_undefined(findings).keys()


def find_mixed(findings: Sequence[Finding]) -> frozenset[str]:
    """Returns the names of the outputs that some of the hidden writes reach wrongly, and not all."""
    written = {(finding.instructions[:1], finding.operand) for finding in findings if finding.rule in _HIDDEN_WRITES}
    missed: dict[str, set[tuple[tuple[str, ...], int | None]]] = {}
    for finding in findings:
        if finding.rule in _WRONG_READS:
            for name in finding.outputs:
                missed.setdefault(name, set()).add((finding.instructions[:1], finding.operand))
    return frozenset(name for name, writes in missed.items() if len(writes) < len(written))


def compute_device_agreements(
    device: DeviceRun | None, unsteady: frozenset[str] = frozenset(), unreached: frozenset[str] = frozenset()
) -> dict[str, Agreement]:
    """Output name to what the device says to the verdict on its own artifact; empty when nothing was run.

    unsteady: as of `find_unsteady`. unreached: as of `find_unreached`.
    """
    if device is None:
        return {}
    silent = unsteady | _find_other_than_reference(device)
    verdicts = {name: Verdict(word) for name, word in device.verdicts.items()}
    found = {
        name: compute_agreement(
            verdicts[name],
            output.attribution,
            can_tell=output.distance > output.tolerance
            and max(output.errors, default=0.0) <= _ROUNDING * output.tolerance
            and name not in unreached,
            in_program_order=all(error <= output.tolerance for error in output.errors),
        )
        for name, output in device.outputs.items()
        if name in verdicts
    }
    return {
        name: Agreement.SILENT if said is Agreement.DISAGREES and name in silent else said
        for name, said in found.items()
    }


def _find_other_than_reference(device: DeviceRun) -> frozenset[str]:
    """Returns the outputs that are right by their schedule and, on a device, not what the reference says, where nobody
    knows what program order gives."""
    if device.intended_from == PROGRAM_ORDER:
        return frozenset()
    return frozenset(
        name
        for name, output in device.outputs.items()
        if output.attribution.is_wrong and name in device.verdicts and Verdict(device.verdicts[name]).is_right
    )


def explain_unknown_order(device: DeviceRun | None) -> tuple[str, ...]:
    """Returns one line for all outputs on which a verdict and a device can only be held against each other by a replay."""
    names = sorted(_find_other_than_reference(device)) if device is not None else []
    if device is None or not names:
        return ()
    differ = "differs" if len(names) == 1 else "differ"
    return (
        f"{describe_names(names, tuple(device.outputs))} {differ} from the reference on {device.device}: only a replay tells"
        " whether the schedule or the program itself does",
    )


def compute_disagreements(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    replay: Replay | None,
    device: DeviceRun | None,
    failed: Iterable[str] = (),
) -> tuple[Disagreement, ...]:
    """Returns every output about which two of verdict, replay and device say what cannot both be true, and no finding
    explains it. failed: ids of the rules that failed."""
    return tuple(
        [
            explain_difference(one, causes)
            for one, causes in _list_differences(outputs, findings, replay, device, tuple(failed))
            if not find_shown(causes)
        ]
    )


def list_explained(
    outputs: Mapping[str, Verdict], findings: Sequence[Finding], replay: Replay | None, device: DeviceRun | None
) -> tuple[tuple[Disagreement, tuple[str, ...]], ...]:
    """Returns every difference between two of them that findings explain, and the ids of their rules."""
    every = _list_differences(outputs, findings, replay, device, ())
    return tuple([(one, shown) for one, causes in every if (shown := find_shown(causes))])


def _list_differences(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    replay: Replay | None,
    device: DeviceRun | None,
    failed: tuple[str, ...],
) -> list[tuple[Disagreement, tuple[PossibleCause, ...]]]:
    found = _find_differences(outputs, findings, replay, device)
    return [(one, list_possible_causes(one.output, findings, failed)) for one in found]


def _find_differences(
    outputs: Mapping[str, Verdict], findings: Sequence[Finding], replay: Replay | None, device: DeviceRun | None
) -> list[Disagreement]:
    found: list[Disagreement] = []
    if replay is not None and replay.state is ReplayState.DONE:
        said = _compare_with_replay(outputs, replay, findings)
        for name in [name for name, agreement in said.items() if agreement is Agreement.DISAGREES]:
            evidence = _find_evidence(name, findings)
            found.append(_between_verdict_and_replay(name, outputs[name], replay.outputs[name], evidence))
    found += _list_order_disagreements(outputs, replay)
    if device is not None:
        unsteady = find_unsteady(findings, device)
        for name, agreement in compute_device_agreements(device, unsteady, find_unreached(findings, replay)).items():
            if agreement is Agreement.DISAGREES:
                found.append(_between_verdict_and_device(name, device))
        for name, output in device.outputs.items():
            if name not in unsteady and contradicts_replay(output):
                found.append(_between_replay_and_device(name, device))
    return found


def find_order_changes(outputs: Mapping[str, Verdict], replay: Replay | None) -> Mapping[str, OrderChange]:
    """Returns the outputs that are called fresh, and that some legal order of the schedule changes, with the change."""
    orders = replay.orders if replay is not None else None
    if orders is None:
        return {}
    return {name: one for name, one in orders.changed.items() if outputs.get(name) is Verdict.FRESH}


def _list_order_disagreements(outputs: Mapping[str, Verdict], replay: Replay | None) -> list[Disagreement]:
    changes = find_order_changes(outputs, replay)
    return [
        Disagreement(
            output=name,
            static=Verdict.FRESH,
            numbers=replay.outputs[name].attribution,
            message=f"`{name}` is fresh by its schedule and another one in another legal order of it",
            evidence=(("static", "fresh"), ("orders", f"{render_figure(one.error)} from itself with {one.order}")),
        )
        for name, one in changes.items()
        if replay is not None and name in replay.outputs
    ]


def contradicts_replay(output: DeviceOutput) -> bool:
    """Returns whether the replay of the device's own artifact differs from the device's results.

    False if the device itself is not steady, or if precision was lost: there replay rounds differently.
    """
    if output.replay_error is None or not isfinite(output.replay_error) or output.unsteady > output.tolerance:
        return False
    if output.attribution in (Attribution.LOSSY, Attribution.UNDECIDED):
        return False
    return output.replay_error > output.tolerance


def _between_verdict_and_replay(
    name: str, verdict: Verdict, numbers: OutputNumbers, evidence: tuple[tuple[str, str], ...]
) -> Disagreement:
    return Disagreement(
        output=name,
        static=verdict,
        numbers=numbers.attribution,
        message=f"`{name}` is {verdict.value} by its schedule and {numbers.attribution.value} when it is replayed",
        evidence=(("static", verdict.value), *evidence, ("replay", render_numbers(numbers))),
    )


def _between_verdict_and_device(name: str, device: DeviceRun) -> Disagreement:
    output, verdict = device.outputs[name], Verdict(device.verdicts[name])
    return Disagreement(
        output=name,
        static=verdict,
        numbers=output.attribution,
        message=f"`{name}` is {verdict.value} by the schedule of {device.device} and {output.attribution.value} on it",
        evidence=(("static", f"{verdict.value}, {device.artifact}"), ("device", render_device_numbers(output))),
    )


def _between_replay_and_device(name: str, device: DeviceRun) -> Disagreement:
    output = device.outputs[name]
    assert output.replay_error is not None
    difference = f"{render_figure(output.replay_error)} from it, tolerance {render_figure(output.tolerance)}"
    return Disagreement(
        output=name,
        static=Verdict(device.verdicts[name]) if name in device.verdicts else Verdict.UNKNOWN,
        numbers=output.attribution,
        message=f"the replay of `{name}` is not what {device.device} computed",
        evidence=(("device", render_device_numbers(output)), ("replay", difference)),
    )


def _find_evidence(name: str, findings: Sequence[Finding]) -> tuple[tuple[str, str], ...]:
    """Returns the evidence of the first finding which reaches the output."""
    return next(((("finding", f"{f.rule}: {f.message}"), *f.evidence) for f in findings if name in f.outputs), ())
