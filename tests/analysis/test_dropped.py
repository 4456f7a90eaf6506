"""`programs/dropped.py`: a kernel whose results lead nowhere is still meant to overwrite.

`jax.grad` without the value drops the loss and its kernel; gradients of raw logits were called fresh.
"""

from pathlib import Path

from ligerdiag import api
from ligerdiag.model.findings import Verdict

PROGRAMS = Path(__file__).parent / "programs" / "dropped.py"


def test_what_a_dropped_kernel_should_have_overwritten_is_stale(shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    reports = api.check(options).cases
    assert len(reports) == 4
    for report in reports:
        assert set(report.outputs.values()) == {Verdict.STALE}, report.id
        rules = {found.rule for found in report.findings}
        assert "LD007" in rules, report.id
        assert "LD016" not in rules, report.id
        assert report.disagreements == (), report.id


def test_what_a_kernel_writes_that_is_in_no_program_makes_no_output_fresh(shared_cache: Path) -> None:
    path = str(PROGRAMS.with_name("dropped_in_scan.py"))
    dropped, replaced = api.check(api.CheckOptions(selectors=(path,), cache_directory=shared_cache)).cases
    assert set(dropped.outputs.values()) == {Verdict.UNKNOWN}
    (finding,) = dropped.findings
    assert (finding.rule, set(finding.outputs)) == ("LD007", {"loss", "gradient"})
    assert set(replaced.outputs.values()) == {Verdict.FRESH}
    assert replaced.findings == ()
