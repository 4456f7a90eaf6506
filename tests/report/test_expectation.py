"""Status and mismatch, both ways, for every form of an expectation."""

import pytest

from ligerdiag.errors import InputError
from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.model.report import Coverage, Status
from ligerdiag.report.status import Expectation, compute_status
from tests.report.samples import make_finding

FRESH, LATENT, UNKNOWN, CLOBBERED, STALE = Verdict
WRITES = Coverage(instructions=10, kernels=1, hidden_writes=1)


@pytest.mark.parametrize(
    ("verdicts", "expected", "status"),
    [
        ([FRESH, FRESH], "fresh", Status.EXPECTED),
        ([FRESH, STALE], "fresh", Status.UNEXPECTED),
        ([FRESH, LATENT], "fresh", Status.UNEXPECTED),
        ([FRESH, CLOBBERED], "fresh", Status.UNEXPECTED),
        ([FRESH, UNKNOWN], "fresh", Status.INCONCLUSIVE),
        ([STALE, UNKNOWN], "fresh", Status.UNEXPECTED),
        ([FRESH, STALE], "hazard", Status.EXPECTED),
        ([FRESH, LATENT], "hazard", Status.EXPECTED),
        ([FRESH, CLOBBERED], "hazard", Status.EXPECTED),
        ([FRESH, FRESH], "hazard", Status.UNEXPECTED),
        ([FRESH, UNKNOWN], "hazard", Status.INCONCLUSIVE),
        ([STALE, UNKNOWN], "hazard", Status.INCONCLUSIVE),
        ([FRESH, STALE], {"b": "stale"}, Status.EXPECTED),
        ([FRESH, FRESH], {"b": "stale"}, Status.UNEXPECTED),
        ([STALE, STALE], {"b": "stale"}, Status.UNEXPECTED),
        ([FRESH, LATENT], {"b": "stale|latent"}, Status.EXPECTED),
        ([FRESH, LATENT], {"b": "stale | latent"}, Status.EXPECTED),
        ([FRESH, CLOBBERED], {"b": "stale|latent"}, Status.UNEXPECTED),
        ([FRESH, STALE], {"a": "fresh", "*": "stale"}, Status.EXPECTED),
        ([FRESH, FRESH], {"a": "fresh", "*": "stale"}, Status.UNEXPECTED),
        ([STALE, STALE], {"*": "stale"}, Status.EXPECTED),
        ([FRESH, UNKNOWN], {"b": "unknown"}, Status.EXPECTED),
        ([FRESH, FRESH], {"b": "unknown"}, Status.UNEXPECTED),
        ([UNKNOWN, UNKNOWN], {"b": "unknown"}, Status.INCONCLUSIVE),
        ([UNKNOWN, UNKNOWN], {"*": "unknown|stale"}, Status.EXPECTED),
        ([FRESH, STALE], {"b": "stale", "c": "stale"}, Status.UNEXPECTED),
        ([FRESH, FRESH], None, Status.CLEAN),
        ([FRESH, STALE], None, Status.FINDINGS),
        ([FRESH, LATENT], None, Status.FINDINGS),
        ([FRESH, UNKNOWN], None, Status.INCONCLUSIVE),
        ([LATENT, UNKNOWN], None, Status.INCONCLUSIVE),
        ([STALE, UNKNOWN], None, Status.FINDINGS),
    ],
)
def test_verdicts_are_compared_with_the_expectation(
    verdicts: list[Verdict], expected: Expectation, status: Status
) -> None:
    outputs = dict(zip("ab", verdicts, strict=True))
    found, mismatch = compute_status(outputs, (), expected, WRITES)
    assert found is status
    assert bool(mismatch) == (status is Status.UNEXPECTED)


def test_a_mismatch_names_the_output_and_both_verdicts() -> None:
    _, mismatch = compute_status({"w": STALE, "b": FRESH}, (), {"b": "stale|latent"}, WRITES)
    assert mismatch == "expected `w` fresh but it is stale; expected `b` latent or stale but it is fresh"


def test_a_mapping_with_an_unknown_output_lists_the_outputs() -> None:
    _, mismatch = compute_status({"loss": FRESH}, (), {"lose": "fresh"}, WRITES)
    assert mismatch == "expected an output `lose` but the outputs are `loss`"


def test_no_hidden_write_and_nothing_unknown_is_nothing_to_check() -> None:
    assert compute_status({"a": FRESH}, (), None, Coverage(kernels=1))[0] is Status.NOTHING
    assert compute_status({"a": FRESH}, (), None, Coverage(kernels=1, declared_writes=1))[0] is Status.CLEAN


def test_an_expectation_is_compared_even_without_a_hidden_write() -> None:
    assert compute_status({"a": FRESH}, (), "fresh", Coverage(kernels=1))[0] is Status.EXPECTED
    assert compute_status({"a": FRESH}, (), "hazard", Coverage(kernels=1))[0] is Status.UNEXPECTED


def test_a_case_with_incomplete_coverage_is_never_clean() -> None:
    coverage = Coverage(kernels=1, hidden_writes=1, not_covered=("opcode `domain`",))
    assert compute_status({"a": FRESH}, (), None, coverage)[0] is Status.INCONCLUSIVE


@pytest.mark.parametrize("expected", ["fresh", {"a": "fresh"}])
def test_an_expected_fresh_output_is_not_confirmed_while_coverage_is_incomplete(expected: Expectation) -> None:
    coverage = Coverage(kernels=1, hidden_writes=1, not_covered=("the loop around `k` was unrolled",))
    assert compute_status({"a": FRESH}, (), expected, coverage)[0] is Status.INCONCLUSIVE
    assert compute_status({"a": Verdict.STALE}, (), expected, coverage)[0] is Status.UNEXPECTED
    assert compute_status({"a": Verdict.STALE}, (), "hazard", coverage)[0] is Status.EXPECTED


@pytest.mark.parametrize("severity", list(Severity))
def test_a_finding_without_a_bad_output_is_a_finding(severity: Severity) -> None:
    assert compute_status({"a": FRESH}, (make_finding(severity=severity),), None, Coverage())[0] is Status.FINDINGS


@pytest.mark.parametrize("expected", ["frehs", "stale", {"a": "stael"}, {"a": ""}])
def test_an_unreadable_expectation_is_an_input_error(expected: Expectation) -> None:
    with pytest.raises(InputError, match="expected"):
        compute_status({"a": FRESH}, (), expected, WRITES)


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        ("fresh", Status.UNEXPECTED),
        ({"b": "latent"}, Status.UNEXPECTED),
        ({"a": "fresh|latent", "b": "latent"}, Status.UNEXPECTED),
        ({"a": "fresh|stale", "b": "latent"}, Status.EXPECTED),
        ("hazard", Status.EXPECTED),
    ],
)
def test_an_error_about_an_output_that_should_be_fresh_is_unexpected(expected: Expectation, status: Status) -> None:
    outputs = {"a": FRESH, "b": LATENT if expected != "fresh" else FRESH}
    error = make_finding(rule="LD016", severity=Severity.ERROR, outputs=("a",), message="`a` is wrong")
    found, mismatch = compute_status(outputs, [error], expected, WRITES)
    assert found is status
    assert mismatch == ("" if status is Status.EXPECTED else "expected no error, but LD016: `a` is wrong")


def test_an_error_about_a_wrong_and_a_right_output_is_unexpected_for_the_right_one() -> None:
    error = make_finding(rule="LD016", severity=Severity.ERROR, outputs=("a", "b"), message="`a` and `b` are wrong")
    found, mismatch = compute_status({"a": FRESH, "b": STALE}, [error], {"b": "stale"}, WRITES)
    assert (found, mismatch) == (Status.UNEXPECTED, "expected no error, but LD016: `a` and `b` are wrong")


def test_an_error_that_names_no_output_concerns_all_unless_it_is_about_an_argument() -> None:
    outside = make_finding(rule="LD020", severity=Severity.ERROR, outputs=(), message="reads outside")
    argument = make_finding(rule="LD009", severity=Severity.ERROR, outputs=(), message="`x` is overwritten")
    drift = make_finding(rule="LD015", severity=Severity.ERROR, outputs=("a",), message="a reader moved")
    assert compute_status({"a": FRESH}, [outside], "fresh", WRITES)[0] is Status.UNEXPECTED
    assert compute_status({"a": FRESH}, [argument], "fresh", WRITES)[0] is Status.EXPECTED
    assert compute_status({"a": FRESH}, [drift], "fresh", WRITES)[0] is Status.EXPECTED
    assert compute_status({"a": FRESH, "b": STALE}, [outside], {"b": "stale"}, WRITES)[0] is Status.EXPECTED
    assert compute_status({"a": UNKNOWN}, [outside], {"a": "unknown"}, WRITES)[1] == ""


def test_expected_rules_and_suppressions_excuse_an_error() -> None:
    error = make_finding(rule="LD016", severity=Severity.ERROR, outputs=("a",))
    assert compute_status({"a": FRESH}, [error], "fresh", WRITES, expected_rules=("LD016",))[0] is Status.EXPECTED
    warning = make_finding(rule="LD006", severity=Severity.WARNING, outputs=("a",))
    assert compute_status({"a": FRESH}, [warning], "fresh", WRITES)[0] is Status.EXPECTED
