"""`programs/donated.py`: `check` and `inspect` never call an output fresh if XLA mixes up its buffer on a GPU."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.analysis.verdict.schedule_alone import find_mixed_up_donations
from ligerdiag.artifacts.artifact import OPTIMIZED
from ligerdiag.hlo import xla_pb2
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.model.report import CaseReport, Status
from tests.analysis.programs import donated

PROGRAMS = Path(donated.__file__)


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    """Returns the reports by the parameters in the case's name."""
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache, replay=False)
    return {case.id.partition("[")[2].rstrip("]"): case for case in api.check(options).cases}


def test_no_output_that_was_wrong_on_a_gpu_is_called_fresh(cases: dict[str, CaseReport]) -> None:
    assert len(cases) == len(donated.CASES)
    for parts, outputs in donated.WRONG.items():
        case = cases["-".join(map(str, parts))]
        assert {case.outputs[name] for name in outputs} == {Verdict.UNKNOWN}, parts
        assert case.status is Status.FINDINGS
        assert [(found.rule, found.severity) for found in case.findings] == [("LD021", Severity.ERROR)]
        assert set(case.findings[0].outputs) >= set(outputs)


def test_every_form_that_was_right_on_a_gpu_is_fresh(cases: dict[str, CaseReport]) -> None:
    wrong = {"-".join(map(str, parts)) for parts in donated.WRONG}
    right = {name: case for name, case in cases.items() if name not in wrong}
    assert len(right) == len(donated.CASES) - len(wrong)
    assert {name for name, case in right.items() if set(case.outputs.values()) != {Verdict.FRESH}} == set()
    assert {name for name, case in right.items() if case.findings} == set()


def test_a_buffer_that_two_arguments_share_is_found_in_a_dump(cases: dict[str, CaseReport], tmp_path: Path) -> None:
    """On the H200, XLA put the value of the third argument into the allocation of the second."""
    made = xla_pb2.HloProto()
    made.ParseFromString((Path(cases["one_passed-3-0"].artifact) / OPTIMIZED).read_bytes())
    allocations = {
        one.parameter_number: one
        for one in made.buffer_assignment.buffer_allocations
        if one.is_entry_computation_parameter
    }
    second, third = allocations[1], allocations[2]
    second.assigned.extend(third.assigned)
    made.buffer_assignment.buffer_allocations.remove(third)
    path = tmp_path / OPTIMIZED
    path.write_bytes(made.SerializeToString())
    module, buffers = load_hlo(path)
    found = find_mixed_up_donations(module, buffers, is_described=False)
    assert found is not None
    assert (found.parameters, found.outputs, found.is_seen) == ({1, 2}, {1, 2}, True)


def test_arguments_with_separate_buffers_are_not_mixed_up(cases: dict[str, CaseReport]) -> None:
    for name in ("one_passed-3-0", "passed-3-0"):  # `passed` is only likely to be mixed up, on a machine with a GPU
        module, buffers = load_hlo(Path(cases[name].artifact) / OPTIMIZED)
        assert find_mixed_up_donations(module, buffers, is_described=False) is None
