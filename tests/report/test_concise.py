"""One line for each finding that counts and for each case in trouble: no output means that nothing is wrong or unknown."""

from dataclasses import replace

import pytest

from ligerdiag.model.findings import Severity, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import Status
from ligerdiag.report.terminal.concise import render_concise, render_statistics
from tests.report.samples import make_case, make_finding, make_report

ALLOWED = Suppression(kind=SuppressionKind.CONFIG, reason="only logged", where="pyproject.toml")


def found(**changes: object):
    outputs = {"bias": Verdict.STALE, "loss": Verdict.FRESH}
    return make_case("step", Status.FINDINGS, expected=None, outputs=outputs, findings=(make_finding(**changes),))


def test_a_finding_is_a_line_that_editors_read() -> None:
    assert render_concise(make_report(found(message="`bias` is stale"))) == (
        "train.py:41: error LD002 stale-copy: `bias` is stale [step]\n"
    )


def test_a_finding_that_is_allowed_or_expected_has_no_line() -> None:
    allowed = replace(found(suppressed=ALLOWED), status=Status.ALLOWED)
    report = make_report(allowed, make_case("b", Status.EXPECTED, findings=(make_finding(),)))
    assert render_concise(report) == ""
    assert render_statistics(report) == "no finding\n"


def test_several_targets_are_named() -> None:
    assert "[step on h100]\n" in render_concise(make_report(found(), targets=("h100", "a100")))


@pytest.mark.parametrize(
    ("status", "changes", "line"),
    [
        (Status.ERROR, {"error": "aborted", "outputs": {}}, "-: error not-analysed: aborted [a]\n"),
        (
            Status.NOT_CHECKED,
            {"error": "ended by Ctrl-C", "outputs": {}},
            "-: warning not-checked: ended by Ctrl-C [a]\n",
        ),
        (Status.UNEXPECTED, {"mismatch": "it is fresh"}, "-: error unexpected-verdict: it is fresh [a]\n"),
        (Status.INCONCLUSIVE, {"outputs": {"y": Verdict.UNKNOWN}}, "-: warning inconclusive: "),
        (Status.FINDINGS, {"outputs": {"y": Verdict.STALE}, "expected": None}, "-: error unexplained-verdict: "),
    ],
)
def test_trouble_has_a_line_without_any_finding(status: Status, changes: dict[str, object], line: str) -> None:
    text = render_concise(make_report(make_case("a", status, **changes)))
    assert text.startswith(line)
    assert text.endswith(" [a]\n")


def test_hostile_names_stay_on_their_line() -> None:
    assert render_concise(make_report(found(message="a\nb\x1b[2J"))).count("\n") == 1


def test_statistics_count_by_rule_the_most_frequent_first() -> None:
    report = make_report(
        found(), found(rule="LD003", severity=Severity.WARNING), found(rule="LD003", severity=Severity.WARNING)
    )
    assert render_statistics(report) == "2  LD003  latent-order  warning\n1  LD002  stale-copy  error\n"
