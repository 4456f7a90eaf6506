"""Unusual programs are judged like any other: no thunks, launches of no block, library calls."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Status
from tests.compile.programs import edges


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    options = api.CheckOptions(
        selectors=(edges.__file__,), targets=("h100",), cache_directory=shared_cache, replay=False
    )
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.parametrize("name", ["constant", "identity", "donated", "aliased_and_read", "libraries"])
def test_a_program_without_hidden_writes_is_clean_or_has_nothing_to_check(
    name: str, cases: dict[str, CaseReport]
) -> None:
    case = cases[name]
    asks = name in ("donated", "aliased_and_read", "libraries")  # for work in place, by a donation or an alias
    status = Status.CLEAN if asks else Status.NOTHING
    assert (case.error, case.status, case.findings) == ("", status, ())
    assert set(case.outputs.values()) == {Verdict.FRESH}


@pytest.mark.parametrize("grid", edges.GRIDS)
def test_elements_that_no_program_of_the_grid_stores_are_reported(grid: int, cases: dict[str, CaseReport]) -> None:
    case = cases[f"grid[{grid}]"]
    assert case.error == ""
    findings = [finding.rule for finding in case.findings]
    assert findings == (["LD013"] if grid * edges.BLOCK < edges.SIZE else [])


def test_an_empty_grid_is_reported(cases: dict[str, CaseReport]) -> None:
    (finding,) = cases["grid[0]"].findings
    assert ("kernel", "the grid is 0 x 1 x 1: no program runs, and CUDA refuses the launch") in finding.evidence


@pytest.mark.parametrize("name", edges.NAMES)
def test_a_kernel_declared_clean_still_has_the_writes_of_its_code(name: str, cases: dict[str, CaseReport]) -> None:
    case = cases[f"declared_clean[{name}]"]
    assert (case.error, case.coverage.hidden_writes) == ("", 1)
    assert Verdict.STALE in case.outputs.values()
    contradicted = [finding.rule for finding in case.findings if finding.rule == "LD018"]
    assert contradicted == ([] if name == "stable" else ["LD018"])
