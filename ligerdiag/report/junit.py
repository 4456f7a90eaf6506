"""Renders the report as JUnit XML in pytest's default form (xunit2): one suite for each target, one test for each case.

| status | result |
|---|---|
| as expected, allowed, clean, findings that do not fail the run | passes, with the findings in `system-out` |
| unexpected, findings that fail the run | failure |
| could not analyse, disagreement, a replay or device run that died | error |
| inconclusive | failure if the run is strict, else skipped with the reasons: never a pass |
| nothing to check | skipped |
| not run, because the run was ended earlier | skipped; the test of the run itself is an error |

Unused suppressions and an early end of the run are tests of a suite `ligerdiag`. A run whose file has no failures and
no errors ends with exit code 0, or with 5 if everything is skipped.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import cast
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.case_places import Repository
from ligerdiag.report.causes import FindingGroup, compute_causes, list_causes
from ligerdiag.report.terminal.diagnostics import Trouble, TroubleKind, list_troubles
from ligerdiag.report.terminal.finding_text import render_group, render_trouble_plain
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.report.terminal.summary import describe_cut
from ligerdiag.text import compute_printable

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'
SUITE = "ligerdiag"
_ERRORS = frozenset({TroubleKind.NOT_ANALYSED, TroubleKind.DISAGREEMENT, TroubleKind.NO_NUMBERS})


def render_junit(
    report: CheckReport, *, repository: Repository, fails: Callable[[CaseReport], bool], strict: bool = False
) -> str:
    """Returns the report as JUnit XML.

    fails: returns whether the findings, the verdicts or the expectation of a case fail the run. strict: whether an
    inconclusive case counts as a failure.
    """
    tree = JUnitXml(SUITE)
    for target in dict.fromkeys((*report.targets, *(case.target for case in report.cases))):
        suite = TestSuite(compute_printable(f"{SUITE} {target}"))
        suite.add_property("toolchain", compute_printable(report.toolchain))
        if report.selected:
            suite.add_property("selected", compute_printable(report.selected))
        for name, version in report.versions.items():
            suite.add_property(compute_printable(name), compute_printable(version))
        suite.add_testcases(
            [
                _render_case(case, repository, is_failure=fails(case), strict=strict)
                for case in report.cases
                if case.target == target
            ]
        )
        tree.add_testsuite(suite)
    about_run = list(_list_run_tests(report, strict=strict))
    if about_run:
        suite = TestSuite(SUITE)
        suite.add_testcases(about_run)
        tree.add_testsuite(suite)
    tree.update_statistics()
    return _render_tree(tree)


def _render_tree(tree: JUnitXml) -> str:
    """Returns the XML as text, without the attribute `skipped` of the root, which pytest's JUnit schema does not allow."""
    root = ElementTree.fromstring(cast(bytes, tree.tostring()))
    root.attrib.pop("skipped", None)
    ElementTree.indent(root)
    return f"{DECLARATION}\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _render_case(case: CaseReport, repository: Repository, *, is_failure: bool, strict: bool) -> TestCase:
    seconds = case.seconds + (case.replay.seconds if case.replay is not None and not case.replay.cached else 0.0)
    test = TestCase(compute_printable(case.id), _compute_class_name(case, repository), round(seconds, 3))
    text = _render_text(case)
    result = _compute_result(case, is_failure=is_failure, strict=strict)
    if result is not None:
        if text:
            result.text = text
        test.result = [result]
    elif text:
        test.system_out = text
    return test


def _compute_class_name(case: CaseReport, repository: Repository) -> str:
    """Returns the class name of a case: the path of its file with dots for slashes, as pytest writes it, or the name of
    the case if no file is known.
    """
    file = repository.find(case.source)
    name = file.removesuffix(".py").replace("/", ".") if file else case.id.partition("[")[0]
    return compute_printable(name)


def _compute_result(case: CaseReport, *, is_failure: bool, strict: bool) -> FinalResult | None:
    """Returns the result of a case for its JUnit test; None for a test that passes."""
    troubles = list_troubles(case)
    errors = [trouble for trouble in troubles if trouble.kind in _ERRORS]
    if errors:
        return Error(_join(trouble.message for trouble in errors), errors[0].kind.value)
    if is_failure:
        kind, messages = _list_reasons(case, troubles)
        return Failure(_join(messages), kind)
    undecided = [_describe_undecided(trouble) for trouble in troubles if trouble.kind is TroubleKind.INCONCLUSIVE]
    if case.status is Status.INCONCLUSIVE:
        kind = TroubleKind.INCONCLUSIVE.value
        return Failure(_join(undecided), kind) if strict else Skipped(_join(undecided), kind)
    if case.status is Status.NOT_CHECKED:
        return Skipped(compute_printable(case.error), Status.NOT_CHECKED.value)
    if case.status is Status.NOTHING:
        return Skipped("no kernel of the program writes an operand behind XLA's back", Status.NOTHING.value)
    return None


def _list_reasons(case: CaseReport, troubles: Sequence[Trouble]) -> tuple[str, list[str]]:
    """Returns the kind of failure (`unexpected` or `findings`), and one line for each reason why the case fails: its
    contradictions of the expectation, else its findings, else `troubles`, else its status.
    """
    contradictions = [trouble for trouble in troubles if trouble.kind is TroubleKind.UNEXPECTED]
    if contradictions:
        return TroubleKind.UNEXPECTED.value, [trouble.message for trouble in contradictions]
    findings = [f"{cause.rule} {cause.message}" for cause in list_causes(case)]
    return "findings", findings or [trouble.message for trouble in troubles] or [case.status.value]


def _describe_undecided(trouble: Trouble) -> str:
    return "; ".join((trouble.message, *(f"{label}: {text}" for label, text in trouble.evidence)))


def _render_text(case: CaseReport) -> str:
    """Returns the findings and troubles of the case as the terminal shows them, without colours."""
    lines = [
        line
        for finding in compute_causes(case.findings, tuple(case.outputs), case.source_roots)
        for line in render_group(
            FindingGroup(finding=finding, cases=(case,)), width=None, several_targets=True, verbose=True
        )
    ]
    texts = ["\n".join(compute_text(line) for line in lines).rstrip()] if lines else []
    texts += ["\n".join(render_trouble_plain(trouble, ())) for trouble in list_troubles(case)]
    return "\n\n".join(texts)


def _list_run_tests(report: CheckReport, *, strict: bool) -> Iterable[TestCase]:
    for one in report.unused_suppressions:
        message = compute_printable(f"`{f'allow {one.rule}'.rstrip()}` {one.message}")
        test = TestCase(compute_printable(f"suppression {one.where} {one.rule}".rstrip()), SUITE, 0.0)
        kind = "unused-suppression"
        test.result = [Failure(message, kind) if strict else Skipped(message, kind)]
        yield test
    if report.interrupted:
        test = TestCase("interrupted", SUITE, 0.0)
        test.result = [Error(describe_cut(report), "interrupted")]
        yield test


def _join(messages: Iterable[str]) -> str:
    return compute_printable("; ".join(messages))
