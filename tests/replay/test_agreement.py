"""Static verdicts and replay agree on real programs, each compiled for an H100 that this machine does not have."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import CheckReport

TESTS = Path(__file__).parents[1]
ROUNDING = 1e-6
"""The error of sums of about ten f32 terms."""


@pytest.fixture(scope="module")
def check(shared_cache: Path) -> Callable[[Path], CheckReport]:
    def run(file: Path) -> CheckReport:
        return api.check(api.CheckOptions(selectors=(str(file),), cache_directory=shared_cache))

    return run


@pytest.mark.parametrize("file", ["straight", "loops", "calls", "meshes"])
def test_schedule_and_numbers_agree_on_every_output(file: str, check: Callable[[Path], CheckReport]) -> None:
    report = check(TESTS / "analysis" / "programs" / f"{file}.py")
    assert report.cases
    assert [(case.id, case.disagreements) for case in report.cases if case.disagreements] == []
    states = {case.id: case.replay.state if case.replay else None for case in report.cases}
    assert states == dict.fromkeys(states, ReplayState.DONE)


def test_programs_over_a_mesh_are_replayed_as_written_and_as_scheduled(check: Callable[[Path], CheckReport]) -> None:
    report = check(TESTS / "replay" / "programs" / "sharded.py")
    assert len(report.cases) == 2
    for case in report.cases:
        assert case.replay is not None
        assert (case.replay.state, case.replay.reason) == (ReplayState.DONE, "")
        assert all(error <= ROUNDING for error in case.replay.reference.values()), case.replay.reference
        assert all(numbers.error <= ROUNDING for numbers in case.replay.outputs.values()), case.replay.outputs
