"""`programs/accumulated.py`: a kernel's result that depends on no overwritten array is right in any order of the calls.

It used to be stale or clobbered as soon as an earlier or later call on the array was not where the author means it.
"""

from pathlib import Path

from ligerdiag import api

PROGRAMS = Path(__file__).parent / "programs" / "accumulated.py"


def test_only_results_that_depend_on_the_array_are_wrong(shared_cache: Path) -> None:
    report = api.check(api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache))
    assert len(report.cases) == 2
    assert {case.id: case.mismatch or case.error for case in report.cases if case.mismatch or case.error} == {}
    assert [case.id for case in report.cases if case.disagreements] == []
