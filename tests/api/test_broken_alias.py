"""A declared write that XLA's dynamic-slice fusion breaks: in a case, in a dump, and in an incomplete dump.

An H200 returns zeros for `contents` (docs/measurements/2026-11-24-h200.md).
"""

import shutil
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from tests.api import row_by_row

CASES = Path(__file__).parents[2] / "cases" / "fused_alias.py"
OPTIMIZED, UNOPTIMIZED = "sm_9.0_gpu_after_optimizations.hlo.pb", "before_optimizations.hlo.pb"


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    report = api.check(api.CheckOptions(selectors=(str(CASES),), cache_directory=shared_cache, replay=False))
    return {case.id: case for case in report.cases}


def inspect(case: CaseReport, folder: Path, cache: Path, *, whole: bool) -> CaseReport:
    artifact = Path(case.artifact)
    shutil.copy(artifact / "optimized.hlo.pb", folder / f"module_0001.jit_f.{OPTIMIZED}")
    if whole:
        shutil.copy(artifact / "unoptimized.hlo.pb", folder / f"module_0001.jit_f.{UNOPTIMIZED}")
    options = api.InspectOptions(paths=(folder,), cache_directory=cache, replay=False)
    (found,) = api.inspect(options).cases
    return found


def test_the_cause_is_the_only_finding(cases: dict[str, CaseReport]) -> None:
    (finding,) = cases["fused_alias[stacked]"].findings
    assert (finding.rule, finding.outputs, finding.operand) == ("LD022", ("contents",), 0)
    assert "%dynamic_slice_fusion" in dict(finding.evidence)["alias"]
    assert "optimization_barrier" in finding.help


def test_a_dump_has_the_case_s_verdicts(cases: dict[str, CaseReport], tmp_path: Path, shared_cache: Path) -> None:
    found = inspect(cases["fused_alias[stacked]"], tmp_path, shared_cache, whole=True)
    assert list(found.outputs.values()) == [Verdict.STALE, Verdict.FRESH]
    assert [finding.rule for finding in found.findings] == ["LD022"]


def test_without_the_program_the_broken_alias_is_found_and_its_readers_are_unknown(
    cases: dict[str, CaseReport], tmp_path: Path, shared_cache: Path
) -> None:
    found = inspect(cases["fused_alias[stacked]"], tmp_path, shared_cache, whole=False)
    assert set(found.outputs.values()) == {Verdict.UNKNOWN}
    (finding,) = found.findings
    assert finding.rule == "LD022"
    assert "may miss" in finding.message


def test_a_dump_of_the_fixed_program_has_no_findings(
    cases: dict[str, CaseReport], tmp_path: Path, shared_cache: Path
) -> None:
    found = inspect(cases["fused_alias[held]"], tmp_path, shared_cache, whole=True)
    assert set(found.outputs.values()) == {Verdict.FRESH}
    assert not found.findings


def test_a_row_that_is_read_again_after_the_kernel_has_its_new_value(shared_cache: Path) -> None:
    """The kernel gets the address of the row itself. A hidden write doubles the row in place, as intended. A declared
    output lies elsewhere, and its contents are stored into the row. An H200 agrees for the same programs of
    jax-triton 0.4.
    """
    options = api.CheckOptions(selectors=(row_by_row.__file__,), cache_directory=shared_cache, replay=False)
    found = {case.id: case for case in api.check(options).cases}
    hidden, declared = found["row_by_row[hidden]"], found["row_by_row[aliased]"]
    assert set(hidden.outputs.values()) == {Verdict.FRESH}
    assert [finding.rule for finding in hidden.findings] == ["LD006"]
    assert declared.outputs["rows"] is Verdict.STALE
    assert [finding.rule for finding in declared.findings] == ["LD022"]
