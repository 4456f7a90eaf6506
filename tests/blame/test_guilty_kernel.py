"""A finding names the kernel whose bytes are read wrongly, and no other kernel of the step."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Finding
from ligerdiag.model.report import CaseReport
from ligerdiag.report.causes import list_causes
from ligerdiag.report.html.headline import compute_headline

WRONG = ("LD001", "LD002", "LD004", "LD005", "LD008")

GUILTY = {
    "optimizer_too_early": {("momentum_kernel", 0, "late")},
    "weight_too_old": {("momentum_kernel", 0, "early")},
    "moment_too_old": {("momentum_kernel", 1, "early")},
    "keys_too_new": {("append_kernel", 0, "late")},
    "values_too_new": {("append_kernel", 1, "late")},
    "norm_then_loss": {("loss_kernel", 0, "second")},
    "two_losses": {("loss_kernel", 0, "second")},
    "chain_too_early": {("gate_kernel", 0, "early")},
    "chain_too_late": {("gate_kernel", 0, "late")},
    "chain_broken": {("norm_kernel", 0, "last")},
    "scanned": {("momentum_kernel", 0, "late")},
    "looped": {("append_kernel", 0, "late")},
    "branched": {("gate_kernel", 0, "late")},
    "sharded": {("gate_kernel", 0, "late")},
    "each_its_own": {("momentum_kernel", 0, "weights"), ("residual_kernel", 0, "early")},
    "in_one_output": {("momentum_kernel", 0, "both"), ("gate_kernel", 0, "both")},
    "differentiated": {("gate_kernel", 0, "gradient")},
}
"""Case to kernel, the operand it overwrites, and the output that is wrong because of it; derived by hand from the
program.
"""


DAILY = ("optimizer_too_early", "weight_too_old", "values_too_new", "chain_too_early", "looped", "each_its_own")
EACH = [pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly) for name in GUILTY]


@pytest.fixture(scope="module")
def reports(shared_cache: Path, request: pytest.FixtureRequest) -> dict[str, CaseReport]:
    file = Path(__file__).with_name("steps.py")
    names = DAILY if request.config.option.markexpr == "not nightly" else tuple(GUILTY)
    selectors = tuple(f"{file}::{name}" for name in names)
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache, replay=False, view=True))
    return {case.id: case for case in report.cases}


def find_accused(findings: tuple[Finding, ...]) -> set[tuple[str, int | None, str]]:
    return {(one.kernel, one.operand, name) for one in findings if one.rule in WRONG for name in one.outputs}


@pytest.mark.parametrize("name", EACH)
def test_only_the_guilty_kernel_is_named(reports: dict[str, CaseReport], name: str) -> None:
    case = reports[name]
    assert find_accused(case.findings) == GUILTY[name]
    guilty = {kernel for kernel, _, _ in GUILTY[name]}
    innocent = {one.kernel for one in case.findings} - guilty
    shared = {"two_losses"}  # LD008 concerns two kernels on the same memory, and names both
    for cause in list_causes(case):
        if cause.rule in WRONG and not (cause.rule == "LD008" and name in shared):
            said = [cause.message, *(text for label, text in cause.evidence if label in ("write", "read"))]
            assert not [text for text in said for kernel in innocent if f"`{kernel}`" in text]
    headline = compute_headline(case)
    said = " ".join((headline.count, headline.plain, headline.detail))
    assert not [kernel for kernel in innocent if kernel in said]
    assert any(kernel in said for kernel in guilty)
