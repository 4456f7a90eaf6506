"""`programs/dropped.py`: the author intends the write of a kernel even if nothing uses the kernel's results.

`jax.grad` without the value drops the loss and its kernel; ligerdiag used to call the gradients of raw logits fresh.
"""

from pathlib import Path

from ligerdiag import api
from ligerdiag.model.findings import Verdict

PROGRAMS = Path(__file__).parent / "programs" / "dropped.py"


def test_values_that_a_dropped_kernel_should_have_overwritten_are_stale(shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    reports = api.check(options).cases
    assert len(reports) == 4
    for report in reports:
        assert set(report.outputs.values()) == {Verdict.STALE}, report.id
        rules = {found.rule for found in report.findings}
        assert "LD007" in rules, report.id
        assert "LD016" not in rules, report.id
        assert report.disagreements == (), report.id


def test_outputs_are_unknown_if_even_the_program_as_written_lacks_the_kernel(shared_cache: Path) -> None:
    path = str(PROGRAMS.with_name("dropped_in_scan.py"))
    dropped, replaced = api.check(api.CheckOptions(selectors=(path,), cache_directory=shared_cache)).cases
    assert set(dropped.outputs.values()) == {Verdict.UNKNOWN}
    (finding,) = dropped.findings
    assert (finding.rule, set(finding.outputs)) == ("LD007", {"loss", "gradient"})
    assert set(replaced.outputs.values()) == {Verdict.FRESH}
    assert replaced.findings == ()
