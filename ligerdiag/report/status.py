"""Concludes a case: joins its verdicts, findings and numbers into one `CaseReport` with one status.

A case may say what it expects of its verdicts (`fresh` for all outputs, `hazard` for at least one output that is stale,
clobbered or latent, or a mapping from output name to verdicts) and which rules it expects to have findings. Expectations
are strict both ways: a program that is right although a hazard was expected is unexpected, and so is an additional or a
missing rule. An unknown output leaves the case inconclusive unless the mapping allows `unknown`; the decided outputs are
still compared, and if one of them contradicts the expectation, the case is unexpected. Where the analysis does not cover a
part of the program, a case that would be as expected is inconclusive; a hazard that was expected and found still counts as
found. Rules that need a replay or a device are not compared where there was none.

In a case without an expectation, an error or a wrong output outweighs an unknown output or incomplete coverage, and
these outweigh everything else.

An allowed finding stays in the report and has no weight. The verdict of an output has no weight either if at least one
finding of a rule that explains this verdict reaches the output and all such findings are allowed. Nothing allows an
unknown output, and an allowed finding that explains an unknown verdict leaves the case inconclusive. The artifact that
a device ran, compiled for the GPU at hand, has verdicts and no findings: its outputs are allowed where they have the
verdict that is allowed for the case's target, the GPU that is described to XLA.

An output whose value the program leaves undefined (`Rule.leaves_undefined`) becomes unknown if it would count as right,
and stays wrong otherwise. The finding of that rule is the reason, so such an output alone does not make a case
inconclusive. Without a replay, an output that may hold bytes that nobody has written becomes unknown as well, and leaves
the case inconclusive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, assert_never

from ligerdiag.errors import InputError
from ligerdiag.model.findings import DeviceRun, Finding, Replay, ReplayState, Severity, Verdict
from ligerdiag.model.memory_limits import MemoryBudgets, compute_figures
from ligerdiag.model.report import CaseReport, Coverage, Inspection, Judged, Refusal, Status
from ligerdiag.model.schedule_view import ScheduleFacts, ScheduleView
from ligerdiag.report.agreement import (
    compute_disagreements,
    explain_unknown_order,
    list_explained,
    raise_shown,
)
from ligerdiag.report.allowed.suppressions import Suppressions
from ligerdiag.report.disagreement_causes import note_differences
from ligerdiag.rules.registry import RULES, check_measured, find_undecided_rules, get_rule, list_ids
from ligerdiag.rules.rule import BEYOND_EXPECTATION, Measured, RuleKind
from ligerdiag.rules.undefined_outputs import find_undefined, mark_undefined
from ligerdiag.text import suggest

_EXPLAINS: Mapping[str, Verdict] = {rule.id: rule.explains for rule in RULES if rule.explains is not None}
_NEVER = frozenset({Verdict.FRESH, Verdict.UNKNOWN})


def list_counted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Returns the findings that count: those that no suppression allows."""
    return tuple(finding for finding in findings if finding.suppressed is None)


def list_allowed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.suppressed is not None)


def compute_allowed_outputs(outputs: Mapping[str, Verdict], findings: Sequence[Finding]) -> Mapping[str, Verdict]:
    """Returns the outputs whose verdict is allowed, as a dict from output name to verdict.

    A verdict is allowed if suppressions allow all findings that explain it.
    """
    if not list_allowed(findings):
        return {}
    return {name: verdict for name, verdict in outputs.items() if _is_allowed(name, verdict, findings)}


def hides_unknown(findings: Sequence[Finding]) -> bool:
    """Returns whether a suppression allows a finding that explains an unknown verdict.

    The suppression would then hide that something is unknown.
    """
    return any(_EXPLAINS.get(finding.rule) is Verdict.UNKNOWN for finding in list_allowed(findings))


def _is_allowed(name: str, verdict: Verdict, findings: Sequence[Finding]) -> bool:
    reasons = [f for f in findings if name in f.outputs and _EXPLAINS.get(f.rule) is verdict]
    return verdict not in _NEVER and bool(reasons) and all(f.suppressed is not None for f in reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContradictions:
    """How the rules that have findings differ from the rules that the case expects to have findings.

    One line names the additional rules and one the missing rules. A line is empty if there are none.
    """

    extra: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRules:
    """The ids of the rules that a case expects to have findings, or allows to have some."""

    wanted: frozenset[str]
    """Ids of the rules that must have a finding."""
    possible: frozenset[str] = frozenset()
    """Ids of the rules that may, but need not, have a finding: the case has such a finding in some runs only."""


def parse_expected_rules(expected_rules: Sequence[str] | None, *, beside: object) -> ExpectedRules | None:
    """Returns the rules that a case expects to have findings, or None if `expected_rules` is None.

    A rule whose id ends with `?` may have a finding or none. beside: the case's expectation about its verdicts. Raises
    InputError for an id that no rule has, and if `beside` is None.
    """
    if expected_rules is None:
        return None
    if beside is None:
        raise InputError(
            "`expected_rules` needs `expected` as well: rules alone do not say which verdicts are expected"
        )
    for name in (rule.removesuffix("?") for rule in expected_rules):
        if get_rule(name).id != name:
            raise InputError(f"expected the rule's id {get_rule(name).id} in `expected_rules` but got `{name}`")
    return ExpectedRules(
        wanted=frozenset(rule for rule in expected_rules if not rule.endswith("?")),
        possible=frozenset(rule.removesuffix("?") for rule in expected_rules if rule.endswith("?")),
    )


def compare_rules(
    findings: Sequence[Finding], expected: ExpectedRules | None, undecided_rules: frozenset[str]
) -> RuleContradictions:
    """Returns how the rules that have findings differ from the expected ones.

    undecided_rules: ids of rules that are not compared, because this run cannot tell whether they have findings.
    """
    if expected is None:
        return RuleContradictions()
    wanted, ignored = expected.wanted, undecided_rules | expected.possible
    found = {finding.rule for finding in findings}
    questions = set(list_ids(RuleKind.QUESTION))
    extra = [rule.id for rule in RULES if rule.id in found - wanted - ignored - questions]
    missing = [rule.id for rule in RULES if rule.id in wanted - found - ignored]
    return RuleContradictions(
        extra=f"expected no finding of {', '.join(extra)}" if extra else "",
        missing=f"expected a finding of {', '.join(missing)}" if missing else "",
    )


type Expectation = str | Mapping[str, str] | None

HAZARDOUS = frozenset(one for one in Verdict if one.is_wrong or one is Verdict.LATENT)
"""A case that expects `hazard` needs at least one output with one of these verdicts."""

_ALL = "*"
_FRESH = frozenset({Verdict.FRESH})


def parse_expectation(expected: Expectation) -> str | dict[str, frozenset[Verdict]] | None:
    """Returns an expectation in parsed form.

    It is None, `fresh`, `hazard`, or a dict from output name to the verdicts that the output may have. The name `*` means
    all outputs that have no entry. Raises InputError for anything else.
    """
    match expected:
        case None | "fresh" | "hazard":
            return expected
        case str():
            hint = suggest(expected, ("fresh", "hazard"))
            raise InputError(f"expected `fresh`, `hazard` or a mapping as expectation but got `{expected}`{hint}")
        case Mapping():
            return {name: _parse_alternatives(name, text) for name, text in expected.items()}
        case _:
            assert_never(expected)


def compute_status(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    expected: Expectation,
    coverage: Coverage,
    *,
    expected_rules: Sequence[str] | None = None,
    undecided_rules: frozenset[str] = frozenset(),
    allowed: Mapping[str, Verdict] | None = None,
) -> tuple[Status, str]:
    """Returns the status of an analysed case, and a line that says how the case contradicts its expectation.

    The line is empty unless the status is `unexpected`. undecided_rules: ids of rules that are not compared with
    `expected_rules`. allowed: the outputs whose verdict is allowed, by default from `compute_allowed_outputs`. Raises
    InputError for a malformed expectation.
    """
    if allowed is None:
        allowed = compute_allowed_outputs(outputs, findings)
    has_rules = expected_rules is not None
    status, mismatch = _compute_status_of_verdicts(outputs, findings, expected, coverage, allowed, has_rules=has_rules)
    rules = compare_rules(findings, parse_expected_rules(expected_rules, beside=expected), undecided_rules)
    if rules.extra or (rules.missing and status is not Status.INCONCLUSIVE):
        return Status.UNEXPECTED, "; ".join(line for line in (mismatch, rules.missing, rules.extra) if line)
    return status, mismatch


def _compute_status_of_verdicts(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    expected: Expectation,
    coverage: Coverage,
    allowed: Mapping[str, Verdict],
    *,
    has_rules: bool,
) -> tuple[Status, str]:
    wanted = parse_expectation(expected)
    if wanted is None:
        return _status_without_expectation(outputs, findings, coverage, allowed), ""
    undecided = any(verdict is Verdict.UNKNOWN for verdict in outputs.values())
    if wanted == "hazard":
        if any(verdict in HAZARDOUS for verdict in outputs.values()):
            return (Status.INCONCLUSIVE if undecided else Status.EXPECTED), ""
        if undecided:
            return Status.INCONCLUSIVE, ""
        return Status.UNEXPECTED, "expected a stale, clobbered or latent output but every output is fresh"
    named = {_ALL: _FRESH} if isinstance(wanted, str) else wanted
    contradictions = _compute_contradictions(outputs, named)
    if not has_rules:
        contradictions += _find_unexpected_errors(outputs, findings, named)
    if contradictions:
        return Status.UNEXPECTED, "; ".join(contradictions)
    rest = named.get(_ALL, _FRESH)
    is_undecided = bool(coverage.not_covered) or any(
        v is Verdict.UNKNOWN and v not in named.get(name, rest) for name, v in outputs.items()
    )
    return (Status.INCONCLUSIVE if is_undecided else Status.EXPECTED), ""


def _parse_alternatives(name: str, text: str) -> frozenset[Verdict]:
    verdicts: set[Verdict] = set()
    for word in text.split("|"):
        try:
            verdicts.add(Verdict(word.strip()))
        except ValueError:
            known = ", ".join(verdict.value for verdict in Verdict)
            hint = suggest(word, Verdict)
            raise InputError(f"expected one of {known} for output `{name}` but got `{word.strip()}`{hint}") from None
    return frozenset(verdicts)


def _compute_contradictions(outputs: Mapping[str, Verdict], allowed: Mapping[str, frozenset[Verdict]]) -> list[str]:
    rest = allowed.get(_ALL, _FRESH)
    lines: list[str] = []
    for name, verdict in outputs.items():
        wanted = allowed.get(name, rest)
        if verdict not in wanted and verdict is not Verdict.UNKNOWN:
            alternatives = " or ".join(v.value for v in Verdict if v in wanted)
            lines.append(f"expected `{name}` {alternatives} but it is {verdict.value}")
    missing = [f"`{name}`" for name in allowed if name != _ALL and name not in outputs]
    if missing:
        known = ", ".join(f"`{name}`" for name in outputs) or "none"
        lines.append(f"expected an output {', '.join(missing)} but the outputs are {known}")
    return lines


def _find_unexpected_errors(
    outputs: Mapping[str, Verdict], findings: Sequence[Finding], wanted: Mapping[str, frozenset[Verdict]]
) -> list[str]:
    """Returns a line for each finding of severity error that contradicts the expectation of the case.

    Verdicts are about the schedule only. An output can be fresh and still be wrong, such as one that differs from the
    case's reference (LD016), so a case that expects it to be right contradicts an error about it. An error that names
    no output, such as an access outside of an array (LD020), may be why any output is wrong, so it contradicts only a
    case that expects all of them to be right. Three kinds of findings contradict
    no expectation: a write to an argument of the caller (LD009), which leaves the outputs right; drifts and exceeded
    budgets, which count in any case, see `compute_excuse`.
    """
    rest, others = wanted.get(_ALL, _FRESH), list_ids(*BEYOND_EXPECTATION, RuleKind.CALLER_WRITE)
    lines: list[str] = []
    for finding in list_counted(findings):
        named = [name for name in finding.outputs if name in outputs]
        is_right = [
            outputs[name] is not Verdict.UNKNOWN and not any(verdict.is_wrong for verdict in wanted.get(name, rest))
            for name in named or outputs
        ]
        should_be_right = any(is_right) if named else all(is_right)
        if finding.severity is Severity.ERROR and finding.rule not in others and should_be_right:
            lines.append(f"expected no error, but {finding.rule}: {finding.message}")
    return lines


def _status_without_expectation(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    coverage: Coverage,
    allowed: Mapping[str, Verdict],
) -> Status:
    counted = list_counted(findings)
    undefined = find_undefined(findings)
    verdicts = {
        verdict
        for name, verdict in outputs.items()
        if name not in allowed and not (verdict is Verdict.UNKNOWN and name in undefined)
    }
    if any(verdict.is_wrong for verdict in verdicts) or any(f.severity is Severity.ERROR for f in counted):
        return Status.FINDINGS
    if Verdict.UNKNOWN in verdicts or coverage.not_covered or hides_unknown(findings):
        return Status.INCONCLUSIVE
    questions = list_ids(RuleKind.QUESTION)
    if any(one.rule not in questions for one in counted) or Verdict.LATENT in verdicts:
        return Status.FINDINGS
    if any(one.rule not in questions for one in findings):
        return Status.ALLOWED
    is_in_place = coverage.hidden_writes or coverage.declared_writes or coverage.requests
    return Status.CLEAN if is_in_place else Status.NOTHING


def compute_excuse(case: CaseReport, finding: Finding) -> str:
    """Returns a phrase that says why the finding does not count: it is allowed, or the case expects it.

    Empty if the finding counts. A drift from a baseline or an exceeded budget counts even in a case that is as expected.
    """
    if finding.suppressed is not None:
        return finding.suppressed.reason
    if case.status is Status.EXPECTED and finding.rule not in list_ids(*BEYOND_EXPECTATION):
        return f"the case expects it: {describe_expectation(case)}"
    return ""


def list_unexcused(case: CaseReport) -> tuple[Finding, ...]:
    """Returns the findings of the case that count: those that are neither allowed nor expected."""
    return tuple(finding for finding in case.findings if not compute_excuse(case, finding))


def describe_expectation(case: CaseReport) -> str:
    """Returns the case's expectation as text, such as `hazard`, or `bias stale, * fresh; rules LD001, LD006`."""
    expected = case.expected
    if isinstance(expected, Mapping):
        words = ", ".join(f"{name} {verdicts}" for name, verdicts in expected.items())
    else:
        words = expected or "nothing"
    if case.expected_rules is None:
        return words
    return f"{words}; rules {', '.join(case.expected_rules) or 'none'}"


_WITHOUT_DOUBT = (Status.CLEAN, Status.EXPECTED, Status.ALLOWED, Status.NOTHING)


def conclude(
    judged: Judged,
    suppressions: Suppressions | None = None,
    *,
    replay: Replay | None = None,
    device: DeviceRun | None = None,
    recorded: ScheduleFacts | None = None,
    budgets: MemoryBudgets | None = None,
    source_roots: tuple[str, ...] = (),
) -> CaseReport:
    """Returns the report of a case with its status.

    The report has the verdicts, the findings that numbers confirm or add, the contradictions and the suppressions.

    judged: the case with the analysis of its schedule. If it has instead the reason why there is no analysis, only
    `source_roots` counts. suppressions: None allows no finding. recorded: the entry of the case in the baseline; None
    compares with none. budgets: None allows any memory. source_roots: as in `CaseReport`.
    """
    match judged.result:
        case Refusal() as refusal:
            return _describe_refusal(judged, refusal, source_roots)
        case Inspection() as inspection:
            memory = inspection.memory
            facts = ScheduleFacts(
                outputs=inspection.outputs,
                neighbourhoods=inspection.neighbourhoods,
                kernel_calls=inspection.kernel_calls,
                memory=None if memory is None else compute_figures(memory),
            )
            measured = Measured(
                outputs=inspection.outputs,
                findings=inspection.findings,
                replay=replay,
                device=device,
                facts=facts,
                recorded=recorded,
                memory=memory,
                output_lines=inspection.output_lines,
                budgets=budgets or MemoryBudgets(),
            )
            return _conclude(judged, inspection, measured, suppressions, source_roots)


def _describe_refusal(judged: Judged, refusal: Refusal, source_roots: tuple[str, ...]) -> CaseReport:
    return CaseReport(
        **_identify(judged),
        status=Status.NOT_CHECKED if refusal.is_undone else Status.ERROR,
        source_roots=source_roots,
        error=refusal.error,
        error_exit_code=refusal.exit_code,
        log_tail=refusal.log_tail,
    )


_UNMEASURED = "the budgets of memory and copies were not checked: the memory of the program is unknown"


def _conclude(
    judged: Judged,
    inspection: Inspection,
    measured: Measured,
    suppressions: Suppressions | None,
    source_roots: tuple[str, ...],
) -> CaseReport:
    identity, replay, device = judged.identity, measured.replay, measured.device
    answers = check_measured(measured)
    findings, failures = raise_shown(answers.findings, replay), (*inspection.failures, *answers.failures)
    added = (failure.message for failure in answers.failures)
    open_questions = explain_unknown_order(device)
    was_replayed = replay is not None and replay.state is ReplayState.DONE
    unlooked = dict[str, str]() if was_replayed else inspection.unlooked
    unmeasured = [_UNMEASURED] if measured.budgets.are_set and measured.memory is None else []
    unread = dict.fromkeys(unlooked.values())
    notes = (*added, *open_questions, *unread, *unmeasured, *inspection.coverage.not_covered)
    coverage = replace(inspection.coverage, not_covered=notes)
    if suppressions is not None:
        findings = suppressions.apply(identity.id, identity.target, findings, source_roots)
    outputs = mark_undefined(inspection.outputs, findings, unlooked)
    allowed = compute_allowed_outputs(outputs, findings)
    failed = [failure.rule for failure in failures]
    disagreements = compute_disagreements(outputs, findings, replay, device, failed)
    explained = list_explained(outputs, findings, replay, device)
    findings = note_differences(findings, explained)
    undecided_rules = frozenset(failure.rule for failure in failures) | find_undecided_rules(
        replayed=was_replayed, ran=device is not None and not device.error
    )

    def judge(outputs: Mapping[str, Verdict]) -> tuple[Status, str]:
        return compute_status(
            outputs,
            findings,
            identity.expected,
            coverage,
            expected_rules=identity.expected_rules,
            undecided_rules=undecided_rules,
            allowed={name: verdict for name, verdict in allowed.items() if outputs.get(name) is verdict},
        )

    status, mismatch = judge(outputs)
    if device is not None and device.verdicts and status is not Status.UNEXPECTED:
        device_status, why = judge({name: Verdict(word) for name, word in device.verdicts.items()})
        if device_status in (Status.UNEXPECTED, Status.FINDINGS):
            status, mismatch = device_status, f"on {device.device}: {why}" if why else ""
    surprising = [one for one, rules in explained if set(rules).isdisjoint(identity.expected_rules or ())]
    if surprising and status in _WITHOUT_DOUBT:
        status, mismatch = Status.UNEXPECTED, "; ".join(one.message for one in surprising)
    if (failures or (replay is not None and replay.deaths)) and status in _WITHOUT_DOUBT:
        status = Status.INCONCLUSIVE
    return CaseReport(
        **_identify(judged),
        status=Status.DISAGREEMENT if disagreements else status,
        source_roots=source_roots,
        outputs=outputs,
        findings=findings,
        failures=failures,
        coverage=coverage,
        replay=replay,
        device=device,
        disagreements=disagreements,
        mismatch=mismatch,
        neighbourhoods=inspection.neighbourhoods,
        kernel_calls=inspection.kernel_calls,
        view=mark_undefined_in_view(inspection.view, findings, unlooked),
        memory=inspection.memory,
        tuning=inspection.tuning,
    )


def _identify(judged: Judged) -> dict[str, Any]:
    """Returns those fields of the report that identify the case, the seconds and cache use of its compile, and what it
    printed.
    """
    identity = {field.name: getattr(judged.identity, field.name) for field in fields(judged.identity)}
    taken = {name: getattr(judged, name) for name in ("seconds", "compile_seconds", "cached", "printed")}
    return {**identity, **taken}


def mark_undefined_in_view(
    view: ScheduleView | None, findings: Sequence[Finding], unlooked: Mapping[str, str]
) -> ScheduleView | None:
    """Returns the view with the verdicts that `mark_undefined` computes.

    If this changes the verdict of an output, the view's sentence about the output gives the reason.
    unlooked: maps the name of each output that is undecided to the reason.
    """
    undefined = {name: f"could not be decided: {reason}" for name, reason in unlooked.items()}
    undefined |= {name: f"is not defined: {finding.message}" for name, finding in find_undefined(findings).items()}
    if view is None or not undefined:
        return view
    outputs = tuple(
        replace(one, verdict=Verdict.UNKNOWN, sentence=f"`{one.name}` {undefined[one.name]}")
        if one.name in undefined and one.verdict.is_right
        else one
        for one in view.outputs
    )
    return replace(view, outputs=outputs)
