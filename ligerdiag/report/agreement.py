"""Decides whether the verdict on an output agrees with the numbers that a replay and a device computed.

Each row of the table is a verdict: fresh, latent (right only by luck, because nothing forces the order), stale (misses a
hidden write), clobbered (sees a hidden write although it needs the original value) or unknown. Its cells list the
attributions (what the numbers say about the output) that agree with the verdict, say nothing about it, or contradict it.
Fresh numbers are the intended ones, and stale numbers are those of a run in which no read sees a hidden write, both up to
rounding. Lossy numbers are nearer to the intended ones than to the stale ones, but further from them than rounding explains.
`Attribution` defines them all. Fresh numbers "cannot tell" in the situations listed below.

| verdict | the numbers agree | they say nothing | they disagree |
|---|---|---|---|
| fresh, latent | fresh; lossy compared with the reference alone | undecided, lossy | stale, partly stale, neither |
| stale, clobbered | stale, partly stale, neither | undecided, lossy; fresh where they cannot tell | fresh |
| unknown | | all | |

Below, program order means the result of running the program's operations in the order in which they are written, and
the reference is the case's own `Case.reference`. A clobbered read sees the wrong bytes, so its numbers may be wrong in
any way. Numbers that are lossy compared with program order neither confirm nor contradict a verdict:
`replay.runs.rounding.is_overwritten` recognises a sum with one small stale term where that term is larger than the
roundings. Numbers that equal program order and are lossy only compared with the reference come from a right schedule.

Right numbers do not contradict a wrong verdict

- if the intended and the stale numbers are equal up to rounding;
- if the numbers are right only within the tolerance, and further from the intended ones than roundings explain: a small
  term of a sum may be stale;
- if an output misses some of the hidden writes and sees others: the stale numbers, for which no read sees any hidden
  write, are not what the schedule computes, and a sign or a maximum may hide the difference. Such an output is compared
  with another prediction, in which exactly those writes are missed that its findings name (`Replay.partial`). Right
  numbers contradict the verdict only if this prediction differs from them too; lossy numbers that equal it confirm the
  verdict;
- if everything that makes the output wrong lies in branches or loops that the drawn arguments do not enter, is a
  maximum that a softmax subtracts again, or only decides something, such as a predicate or the bound of a loop;
- if the replay cut loops short: a later iteration may be the wrong one;
- if XLA keeps two values in the same bytes: the one that is left may be the right one.

The numbers of a replay with opaque functions (`Replay.opaque`) compare with the verdict by the same table and the same
exceptions. They are evidence of their own: they replace no numbers of the replay, and no number of either makes a
verdict better.

The numbers of a device are compared with the verdict on the artifact that the device ran, and with the replay of that
artifact. They contradict no verdict on an output that races or whose value the program leaves undefined, and no verdict at
all if a kernel's launcher runs the kernel on trial, to tune it, on bytes that nobody restores. Where nothing was replayed,
the numbers of the device are compared with the reference alone. Wrong numbers then do not contradict "fresh", because
program order may already differ from the reference. The second set of random inputs may differ from it too, after the
program has overwritten a constant. The line that `explain_unknown_order` returns says so.

A fresh output has the same numbers in each legal order of its schedule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from math import isfinite
from typing import assert_never

from ligerdiag.model.findings import (
    PROGRAM_ORDER,
    Attribution,
    DeviceOutput,
    DeviceRun,
    Finding,
    OpaqueReplay,
    OrderChange,
    OutputNumbers,
    Replay,
    ReplayState,
    Severity,
    Verdict,
)
from ligerdiag.model.report import Disagreement
from ligerdiag.report.disagreement_causes import PossibleCause, explain_difference, find_shown, list_possible_causes
from ligerdiag.report.relative_errors import render_device_numbers, render_figure, render_numbers
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.rules.undefined_outputs import find_undefined
from ligerdiag.text import describe_names

_RACES = list_ids(RuleKind.RACE)
_TRIED_IN_PLACE = list_ids(RuleKind.TRIED_IN_PLACE)
_SHARED_BYTES = list_ids(RuleKind.SHARED_BYTES)
_HIDDEN_WRITES = list_ids(RuleKind.HIDDEN_WRITE)
_WRONG_READS = list_ids(RuleKind.EARLY_READ, RuleKind.COPY_READ, RuleKind.LATE_READ)


_ROUNDING = 0.25
"""Share of a tolerance: an error from rounding stays below this share, unless all roundings go in one direction."""
_PARTLY_ROUNDING = 0.01
"""The same for an output that sees some of its hidden writes: one stale term of a norm caused an error of 0.09."""


class Agreement(StrEnum):
    """Whether the numbers of an output, from a replay or a device, confirm or contradict the verdict on the output."""

    AGREES = "agrees"
    SILENT = "says nothing"
    DISAGREES = "disagrees"


def compute_agreement(
    verdict: Verdict, attribution: Attribution, *, can_tell: bool = True, in_program_order: bool = True
) -> Agreement:
    """Returns how an attribution compares with a verdict, by the table at the top of this module.

    can_tell: whether right numbers prove that the output is right. They do if the intended and the stale numbers differ
    by more than rounding, and if the run on the drawn arguments executes the read that makes the stale numbers stale.
    in_program_order: whether the numbers equal those of running the program in the order in which it is written; if
    they do, a lossy output differs only from the case's reference.
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
    """Returns, for each output name, how the replayed numbers compare with the verdict; empty if no replay has
    finished.

    An output whose numbers contradict its verdict gets SILENT (the numbers say nothing about the verdict) instead of
    DISAGREES if a finding explains the contradiction.
    """
    return _explain_agreements(outputs, replay, findings)


def compute_opaque_agreements(
    outputs: Mapping[str, Verdict], replay: Replay | None, findings: Sequence[Finding] = ()
) -> dict[str, Agreement]:
    """Returns the same as `compute_replay_agreements` for the replay with opaque functions, stand-ins for the custom calls;
    empty if no such replay has finished.
    """
    opaque = None if replay is None else replay.opaque
    return _explain_agreements(outputs, opaque, findings)


def _explain_agreements(
    outputs: Mapping[str, Verdict], replay: Replay | OpaqueReplay | None, findings: Sequence[Finding]
) -> dict[str, Agreement]:
    if replay is None or replay.state is not ReplayState.DONE:
        return {}
    return {
        name: Agreement.SILENT
        if agreement is Agreement.DISAGREES and find_shown(list_possible_causes(name, findings))
        else agreement
        for name, agreement in _compare_with_replay(outputs, replay, findings).items()
    }


def _compare_with_replay(
    outputs: Mapping[str, Verdict], replay: Replay | OpaqueReplay, findings: Sequence[Finding]
) -> dict[str, Agreement]:
    unreached, mixed = find_unreached(findings, replay), find_mixed(findings)
    partial: Mapping[str, OutputNumbers] = replay.partial if isinstance(replay, Replay) else {}
    return {
        name: compute_agreement(
            outputs[name],
            Attribution.STALE if _is_partly_stale(n, partial.get(name)) else n.attribution,
            can_tell=_can_tell(n)
            and name not in unreached
            and not replay.cut
            and (name not in mixed or _can_tell_partly(n, partial.get(name))),
            in_program_order=n.error <= n.tolerance,
        )
        for name, n in replay.outputs.items()
        if name in outputs
    }


def _can_tell(numbers: OutputNumbers) -> bool:
    """Returns whether numbers, if they are fresh, differ from the stale prediction, and from the intended ones by no more
    than roundings.
    """
    return numbers.distance > numbers.tolerance and numbers.error <= _ROUNDING * numbers.tolerance


def _can_tell_partly(numbers: OutputNumbers, partial: OutputNumbers | None) -> bool:
    """Returns the same as `_can_tell` for an output that sees some hidden writes. The prediction misses exactly those that
    the findings name, in all reads, while only one of several reads may be wrong; so the error has to be much smaller.
    """
    return partial is not None and _can_tell(partial) and numbers.error <= _PARTLY_ROUNDING * numbers.tolerance


def _is_partly_stale(numbers: OutputNumbers, partial: OutputNumbers | None) -> bool:
    """Returns whether numbers that look lossy miss exactly the hidden writes that the findings name."""
    return numbers.attribution is Attribution.LOSSY and partial is not None and partial.attribution is Attribution.STALE


def find_partly_missed(
    outputs: Mapping[str, Verdict], findings: Sequence[Finding], replay: Replay | None
) -> dict[str, tuple[int, ...]]:
    """Returns the outputs with a wrong verdict about which a replay with `Replay.partial` could say more: they treat some
    hidden writes as intended, and their numbers are right or look lossy. Maps the name of each to the numbers
    (`CallPlace.number`) of the other hidden writes.
    """
    if replay is None or replay.state is not ReplayState.DONE or replay.cut:
        return {}
    reads = [one for one in findings if one.rule in _WRONG_READS]
    left: dict[str, tuple[int, ...]] = {}
    for name in find_mixed(findings) - find_unreached(findings, replay):
        numbers, own = replay.outputs.get(name), [one for one in reads if name in one.outputs]
        is_wrong = outputs.get(name) in (Verdict.STALE, Verdict.CLOBBERED)
        if not is_wrong or numbers is None or not numbers.distance > numbers.tolerance:
            continue
        is_right = numbers.attribution is Attribution.FRESH and numbers.error <= _PARTLY_ROUNDING * numbers.tolerance
        calls = [one.call for one in own if one.call is not None]
        if len(calls) == len(own) and (is_right or numbers.attribution is Attribution.LOSSY):
            left[name] = tuple(sorted({call.number for call in calls}))
    return left


def find_unreached(findings: Sequence[Finding], replay: Replay | OpaqueReplay | None) -> frozenset[str]:
    """Returns the names of the outputs whose replayed numbers may be right although the schedule makes the outputs
    wrong.

    There are three kinds. For the first kind, each finding about the output names an instruction that the replayed
    numbers do not test (`Replay.unreached`): the drawn arguments do not enter its branch or loop, or it only computes a
    maximum that a softmax subtracts again. Outputs of the second kind are wrong only because of a wrong decision, such
    as a predicate. Outputs of the third kind depend on bytes in which XLA keeps two values.
    """
    decided = frozenset(name for finding in findings for name in finding.decided) | _find_shared(findings)
    if replay is None or not replay.unreached:
        return decided
    unreached = frozenset(replay.unreached)
    reached: dict[str, bool] = {}
    for finding in findings:
        is_reached = unreached.isdisjoint(finding.instructions)
        for name in finding.outputs:
            reached[name] = reached.get(name, False) or is_reached
    return decided | {name for name, is_reached in reached.items() if not is_reached}


def raise_shown(findings: Sequence[Finding], replay: Replay | None) -> tuple[Finding, ...]:
    """Returns the findings with their severities: each warning that the replay confirms has become an error.

    A finding about a wrong read is a warning if the value that is read only decides something, such as a predicate. It
    becomes an error if an output that depends on the decision has wrong numbers in the replay.
    """
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


_SHOWN = "the replayed numbers are wrong, so the kernel does create or remove such a special value"


def _find_shared(findings: Sequence[Finding]) -> frozenset[str]:
    """Returns the names of the outputs that depend on bytes in which XLA keeps two values."""
    return frozenset(name for finding in findings if finding.rule in _SHARED_BYTES for name in finding.outputs)


def find_unsteady(findings: Sequence[Finding], device: DeviceRun) -> frozenset[str]:
    """Returns the names of the outputs for which a device may compute more than one value.

    These are the outputs that race and the outputs that the program leaves undefined. If the launcher of a kernel runs
    the kernel on trial, on bytes that the launcher does not restore, these are all outputs.
    """
    if any(finding.rule in _TRIED_IN_PLACE for finding in findings):
        return frozenset(device.outputs)
    racing = frozenset(name for finding in findings if finding.rule in _RACES for name in finding.outputs)
    return racing | find_undefined(findings).keys()


def find_undecidable(outputs: Mapping[str, Verdict], findings: Sequence[Finding]) -> Mapping[str, Finding]:
    """Returns the outputs that no replay can decide, because the program leaves their values undefined. Maps the name of
    each to the finding that reports this.
    """
    return {name: one for name, one in find_undefined(findings).items() if outputs.get(name) is Verdict.UNKNOWN}


def is_undecidable(outputs: Mapping[str, Verdict], findings: Sequence[Finding]) -> bool:
    """Returns whether no replay can decide about any of the outputs, because the program leaves all of them undefined."""
    return bool(outputs) and outputs.keys() <= find_undecidable(outputs, findings).keys()


def find_mixed(findings: Sequence[Finding]) -> frozenset[str]:
    """Returns the names of the outputs that, according to the findings, miss or wrongly see some hidden writes and treat
    other hidden writes as intended.
    """
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
    """Returns, for each output name, how the device's numbers compare with the verdict on the artifact that the device
    ran; empty if nothing ran on a device.

    unsteady: outputs that `find_unsteady` returns. unreached: outputs that `find_unreached` returns.
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
        name: Agreement.SILENT if agreement is Agreement.DISAGREES and name in silent else agreement
        for name, agreement in found.items()
    }


def _find_other_than_reference(device: DeviceRun) -> frozenset[str]:
    """Returns the names of the outputs whose verdict is right although their values on the device differ from the
    case's reference; empty if the device was compared with a replay of the program instead.
    """
    if device.intended_from == PROGRAM_ORDER:
        return frozenset()
    return frozenset(
        name
        for name, output in device.outputs.items()
        if output.attribution.is_wrong and name in device.verdicts and Verdict(device.verdicts[name]).is_right
    )


def explain_unknown_order(device: DeviceRun | None) -> tuple[str, ...]:
    """Returns one line about the outputs whose verdict is right although their values on the device differ from the
    reference. Only a replay could tell whether the schedule or the program is wrong. Empty if there are no such outputs.
    """
    names = sorted(_find_other_than_reference(device)) if device is not None else []
    if device is None or not names:
        return ()
    differ = "differs" if len(names) == 1 else "differ"
    return (
        f"{describe_names(names, tuple(device.outputs))} {differ} from the reference on {device.device}: only a replay can"
        " show whether the schedule or the program itself is wrong",
    )


def compute_disagreements(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    replay: Replay | None,
    device: DeviceRun | None,
    failed: Iterable[str] = (),
) -> tuple[Disagreement, ...]:
    """Returns the contradictions about an output, between the verdict, the replay and the device run, that no finding
    explains. Each contradiction lists its possible causes as evidence.

    failed: ids of the rules that raised an exception, so that the mistakes they look for remain possible causes.
    """
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
    """Returns the contradictions about an output, between the verdict, the replay and the device run, that findings
    explain. Each comes with the ids of the rules of these findings.
    """
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
        agreements = _compare_with_replay(outputs, replay, findings)
        for name in [name for name, agreement in agreements.items() if agreement is Agreement.DISAGREES]:
            evidence = _find_evidence(name, findings)
            if (partial := replay.partial.get(name)) is not None:
                away = f"{render_figure(partial.distance)} away if it missed those hidden writes that its findings name"
                evidence = (*evidence, ("partial", f"`{name}` would be {away}"))
            found.append(_between_verdict_and_replay(name, outputs[name], replay.outputs[name], evidence))
    opaque = None if replay is None else replay.opaque
    if opaque is not None and opaque.state is ReplayState.DONE:
        agreements = _compare_with_replay(outputs, opaque, findings)
        for name in [name for name, agreement in agreements.items() if agreement is Agreement.DISAGREES]:
            evidence = _find_evidence(name, findings)
            found.append(
                _between_verdict_and_replay(name, outputs[name], opaque.outputs[name], evidence, is_opaque=True)
            )
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
    """Returns the fresh outputs whose value changes if the schedule runs in another legal order (one that its dependences
    allow). Maps the name of each to its change.
    """
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
            message=f"`{name}` is fresh according to its schedule, but has another value if the instructions run in another"
            " legal order",
            evidence=(
                ("static", "fresh"),
                ("orders", f"relative difference {render_figure(one.error)} with the order {one.order}"),
            ),
        )
        for name, one in changes.items()
        if replay is not None and name in replay.outputs
    ]


def contradicts_replay(output: DeviceOutput) -> bool:
    """Returns whether the device computed other values for the output than a replay of the same artifact.

    Returns False if two runs of the device differ from each other, or if the output is lossy or undecided: the replay
    rounds differently there.
    """
    if output.replay_error is None or not isfinite(output.replay_error) or output.unsteady > output.tolerance:
        return False
    if output.attribution in (Attribution.LOSSY, Attribution.UNDECIDED):
        return False
    return output.replay_error > output.tolerance


def _between_verdict_and_replay(
    name: str,
    verdict: Verdict,
    numbers: OutputNumbers,
    evidence: tuple[tuple[str, str], ...],
    *,
    is_opaque: bool = False,
) -> Disagreement:
    """Returns the disagreement. is_opaque: whether opaque functions took the place of the kernels in this replay."""
    how = " with opaque functions in place of its kernels" if is_opaque else ""
    return Disagreement(
        output=name,
        static=verdict,
        numbers=numbers.attribution,
        message=(
            f"`{name}` is {verdict.value} according to its schedule, but {numbers.attribution.value} when it is replayed"
            f"{how}"
        ),
        evidence=(("static", verdict.value), *evidence, ("opaque" if is_opaque else "replay", render_numbers(numbers))),
    )


def _between_verdict_and_device(name: str, device: DeviceRun) -> Disagreement:
    output, verdict = device.outputs[name], Verdict(device.verdicts[name])
    found = f"{output.attribution.value} in the run on that device"
    return Disagreement(
        output=name,
        static=verdict,
        numbers=output.attribution,
        message=f"`{name}` is {verdict.value} according to the schedule for {device.device}, but {found}",
        evidence=(("static", f"{verdict.value}, {device.artifact}"), ("device", render_device_numbers(output))),
    )


def _between_replay_and_device(name: str, device: DeviceRun) -> Disagreement:
    output = device.outputs[name]
    assert output.replay_error is not None
    difference = (
        f"relative difference {render_figure(output.replay_error)}, tolerance {render_figure(output.tolerance)}"
    )
    return Disagreement(
        output=name,
        static=Verdict(device.verdicts[name]) if name in device.verdicts else Verdict.UNKNOWN,
        numbers=output.attribution,
        message=f"the replay of `{name}` differs from what {device.device} computed",
        evidence=(("device", render_device_numbers(output)), ("replay", difference)),
    )


def _find_evidence(name: str, findings: Sequence[Finding]) -> tuple[tuple[str, str], ...]:
    """Returns the message and the evidence of the first finding that names the output among its `outputs`, as (label,
    sentence) pairs, the message first with the label `finding`; empty if no finding names the output.
    """
    return next(((("finding", f"{f.rule}: {f.message}"), *f.evidence) for f in findings if name in f.outputs), ())
