"""Do verdicts and findings match what the case expects, apart from what is suppressed?

The effect of suppressions: verdicts do not count if everything that explains them is allowed.

1. An allowed finding stays in the report and has no weight.
2. A stale, clobbered or latent output is allowed when at least one finding of a rule that explains this verdict reaches
   it, and all of these are allowed. A verdict that no finding explains cannot be allowed.
3. On a device, whose own artifact has verdicts and no findings, an output is allowed if it has the verdict that is
   allowed on the described GPU.
4. Unknown stays unknown: an unknown output is never allowed, and a finding that explains an unknown verdict keeps the
   case inconclusive.

Compares the rules that have findings with those that a case expects.

1. The expectation is None (nothing is compared) or exactly the rules that fire: one more is as wrong as one less.
2. A rule that is not settled, because it needs a replay or a device and there was none, is not compared either way; nor
   is one with a question mark after its id, which fires in some runs.

From verdicts to one word for a case: whether they match the case's expectation.

1. An expectation is None, `fresh`, `hazard`, or a mapping from output name to one verdict or several (`stale|latent`).
2. In a mapping `*` stands for the outputs that are not named; without `*` these must be fresh. A name that the
   program does not have is a mismatch.
3. It is strict both ways: a program that is unexpectedly right is unexpected.
4. An output whose verdict is unknown is inconclusive, unless the mapping allows `unknown` for it. The decided outputs
   are still compared, and a contradiction there wins. A part of the program that the analysis does not cover makes a
   case inconclusive that would otherwise be as expected; a hazard that was expected and found stays found.
5. Without an expectation, a finding of error severity or a stale or clobbered output outweighs unknown outputs, and
   these outweigh the rest. "Not covered" counts as unknown here. Allowed findings (`allowed`) have no weight here; an
   expectation is compared with everything, allowed or not.
6. Beside the verdicts a case can expect rules, see `expected_rules`. A rule that fires and is not expected contradicts, and
   so does one that is expected and does not fire, unless the case is inconclusive anyway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from ligerdiag.errors import InputError
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.model.report import Coverage, Status
from ligerdiag.report.undefined import find_undefined
from ligerdiag.rules.registry import RULES, get_rule
from ligerdiag.text import suggest

_EXPLAINS: Mapping[str, Verdict] = {rule.id: rule.explains for rule in RULES if rule.explains is not None}
_NEVER = frozenset({Verdict.FRESH, Verdict.UNKNOWN})


def list_counted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Returns the findings that are not allowed."""
    return tuple(finding for finding in findings if finding.suppressed is None)


def list_allowed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.suppressed is not None)


def compute_allowed_outputs(outputs: Mapping[str, Verdict], findings: Sequence[Finding]) -> Mapping[str, Verdict]:
    """Output name to verdict, of the outputs whose verdict is allowed: see 2."""
    if not list_allowed(findings):
        return {}
    return {name: verdict for name, verdict in outputs.items() if _is_allowed(name, verdict, findings)}


def hides_unknown(findings: Sequence[Finding]) -> bool:
    """Returns whether an allowed finding says that something is unknown: see 4."""
    return any(_EXPLAINS.get(finding.rule) is Verdict.UNKNOWN for finding in list_allowed(findings))


def _is_allowed(name: str, verdict: Verdict, findings: Sequence[Finding]) -> bool:
    reasons = [f for f in findings if name in f.outputs and _EXPLAINS.get(f.rule) is verdict]
    return verdict not in _NEVER and bool(reasons) and all(f.suppressed is not None for f in reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContradictions:
    """One line for each kind of contradiction; empty lines where there is none."""

    extra: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRules:
    """Ids of rules."""

    wanted: frozenset[str]
    """Those that fire."""
    possible: frozenset[str] = frozenset()
    """Those that may fire, and may not."""


def parse_expected_rules(expected_rules: Sequence[str] | None, *, beside: object) -> ExpectedRules | None:
    """Returns the rules, or None. `beside` is what is expected of the verdicts.

    Raises InputError for an id that no rule has, and for rules without an expectation of the verdicts.
    """
    if expected_rules is None:
        return None
    if beside is None:
        raise InputError("expected `expected` beside `expected_rules`, which says nothing of the verdicts")
    for name in (rule.removesuffix("?") for rule in expected_rules):
        if get_rule(name).id != name:
            raise InputError(f"expected the rule's id {get_rule(name).id} in `expected_rules` but got `{name}`")
    return ExpectedRules(
        wanted=frozenset(rule for rule in expected_rules if not rule.endswith("?")),
        possible=frozenset(rule.removesuffix("?") for rule in expected_rules if rule.endswith("?")),
    )


def compare_rules(
    findings: Sequence[Finding], expected: ExpectedRules | None, unsettled: frozenset[str]
) -> RuleContradictions:
    """Returns the rules that fire and are not expected, and those that are expected and do not fire."""
    if expected is None:
        return RuleContradictions()
    wanted, ignored = expected.wanted, unsettled | expected.possible
    found = {finding.rule for finding in findings}
    extra = [rule.id for rule in RULES if rule.id in found - wanted - ignored]
    missing = [rule.id for rule in RULES if rule.id in wanted - found - ignored]
    return RuleContradictions(
        extra=f"expected no finding of {', '.join(extra)}" if extra else "",
        missing=f"expected a finding of {', '.join(missing)}" if missing else "",
    )


type Expectation = str | Mapping[str, str] | None

HAZARDOUS = frozenset(one for one in Verdict if one.is_wrong or one is Verdict.LATENT)
"""Verdicts that satisfy `hazard`."""

_ALL = "*"
_FRESH = frozenset({Verdict.FRESH})


def parse_expectation(expected: Expectation) -> str | dict[str, frozenset[Verdict]] | None:
    """Returns None, `fresh`, `hazard`, or output name to the verdicts that are allowed.

    Raises InputError for a word that is none of these.
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
    unsettled: frozenset[str] = frozenset(),
    allowed: Mapping[str, Verdict] | None = None,
) -> tuple[Status, str]:
    """Returns the status of a case that could be analysed, and one line on how it contradicts its expectation.

    The line is empty unless the status is `unexpected`. unsettled: ids of rules that are not compared. allowed: the
    outputs whose verdict is allowed, by default those that the findings say. Raises InputError for an expectation that
    cannot be read.
    """
    if allowed is None:
        allowed = compute_allowed_outputs(outputs, findings)
    status, mismatch = _compute_status_of_verdicts(outputs, findings, expected, coverage, allowed)
    rules = compare_rules(findings, parse_expected_rules(expected_rules, beside=expected), unsettled)
    if rules.extra or (rules.missing and status is not Status.INCONCLUSIVE):
        return Status.UNEXPECTED, "; ".join(line for line in (mismatch, rules.missing, rules.extra) if line)
    return status, mismatch


def _compute_status_of_verdicts(
    outputs: Mapping[str, Verdict],
    findings: Sequence[Finding],
    expected: Expectation,
    coverage: Coverage,
    allowed: Mapping[str, Verdict],
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
    if contradictions:
        return Status.UNEXPECTED, "; ".join(contradictions)
    rest = named.get(_ALL, _FRESH)
    unsettled = bool(coverage.not_covered) or any(
        v is Verdict.UNKNOWN and v not in named.get(name, rest) for name, v in outputs.items()
    )
    return (Status.INCONCLUSIVE if unsettled else Status.EXPECTED), ""


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
        there = ", ".join(f"`{name}`" for name in outputs) or "none"
        lines.append(f"expected an output {', '.join(missing)} but the outputs are {there}")
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
    if counted or Verdict.LATENT in verdicts:
        return Status.FINDINGS
    if findings:
        return Status.ALLOWED
    return Status.CLEAN if coverage.hidden_writes else Status.NOTHING
