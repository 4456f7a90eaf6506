"""One line says why a case does not pass; it begins with the rule and the outputs."""

from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.terminal.concise import rank_reason, render_reason
from tests.report.samples import make_case, make_finding


def make_wrong(outputs: dict[str, Verdict], *findings: object, **changes: object) -> CaseReport:
    fields = {"expected": None, "outputs": outputs, "findings": findings, **changes}
    return make_case("step", Status.FINDINGS, **fields)


def test_the_line_names_rule_outputs_verdict_kernel_and_operand() -> None:
    finding = make_finding(outputs=("loss",))
    assert render_reason(make_wrong({"loss": Verdict.STALE}, finding)) == (
        "LD002: output `loss` is stale (kernel `ce_kernel`, operand 0)"
    )


def test_the_worst_finding_and_its_worst_outputs_come_first() -> None:
    outputs = {"a": Verdict.CLOBBERED, "b": Verdict.CLOBBERED, "c": Verdict.LATENT}
    mild = make_finding(rule="LD006", severity=Severity.WARNING, outputs=(), message="`k` writes operand 0", kernel="k")
    worst = make_finding(rule="LD004", outputs=("a", "b", "c"), operand=None)
    assert render_reason(make_wrong(outputs, mild, worst)) == (
        "LD004: outputs `a` and `b` are clobbered (kernel `ce_kernel`), and 1 more finding"
    )
    assert render_reason(make_wrong(outputs, mild)) == "LD006: `k` writes operand 0"


def test_many_outputs_are_counted() -> None:
    outputs = {f"o{number}": Verdict.STALE for number in range(30)}
    finding = make_finding(outputs=tuple(outputs)[:28])
    assert render_reason(make_wrong(outputs, finding)).startswith("LD002: 28 of 30 outputs are stale (kernel")


def test_a_finding_about_a_fresh_output_says_its_message() -> None:
    finding = make_finding(rule="LD013", outputs=("loss",), message="`loss` loses bits")
    assert render_reason(make_wrong({"loss": Verdict.FRESH}, finding)) == "LD013: `loss` loses bits"


def test_without_findings_the_trouble_is_the_reason() -> None:
    failed = make_case("step", Status.ERROR, outputs={}, error="it\nbroke", error_exit_code=3)
    assert render_reason(failed) == "it broke"
    unknown = make_case("step", Status.INCONCLUSIVE, expected=None, outputs={"loss": Verdict.UNKNOWN})
    assert "`loss`" in render_reason(unknown)
    assert render_reason(make_case("step", Status.CLEAN, expected=None, outputs={"a": Verdict.FRESH})) == ""


def test_a_reason_ranks_by_severity_and_then_by_verdict() -> None:
    warning = make_finding(rule="LD003", severity=Severity.WARNING, outputs=("a",))
    cases = [
        make_case("step", Status.CLEAN, expected=None, outputs={"a": Verdict.FRESH}),
        make_wrong({"a": Verdict.FRESH}, make_finding(rule="LD012", severity=Severity.WARNING, outputs=("a",))),
        make_wrong({"a": Verdict.LATENT}, warning),
        make_case("step", Status.ERROR, error="it broke", outputs={}),
        make_wrong({"a": Verdict.CLOBBERED, "b": Verdict.LATENT}, warning, make_finding(rule="LD004", outputs=("a",))),
        make_wrong({"a": Verdict.STALE}, make_finding(rule="LD001", outputs=("a",))),
    ]
    ranks = [rank_reason(case) for case in cases]
    assert ranks == sorted(set(ranks))
