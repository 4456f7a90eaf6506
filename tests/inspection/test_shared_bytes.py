"""Values that share bytes in foreign files; modules without a kernel are checked as well."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag.api.inspecting import DumpSelection, InspectedModules
from ligerdiag.cli.exit_codes import ExitCode, FailOn, compute_exit_code
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector, ModuleOutcome
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport, Inspection, Status
from ligerdiag.report.status import conclude
from tests.hlo.placing import place, read_text
from tests.hlo.test_shared_bytes import SCHEDULES

CLEAN = "they touch and do not overlap"
WITHOUT_A_KERNEL = (
    "a fusion with two results",
    "a dynamic-update-slice",
    "a branch writes over a value of the caller's",
)

type InspectContent = Callable[[bytes, str], ModuleOutcome]


@pytest.fixture
def inspect_content(tmp_path: Path) -> InspectContent:
    """Returns a function that inspects the content of one file."""

    def translate(text: bytes, name: str) -> bytes:
        del name
        return read_text(text.decode()).hlo_module.SerializeToString()

    def inspect(content: bytes, name: str) -> ModuleOutcome:
        path = tmp_path / name
        path.write_bytes(content)
        files = ModuleFiles(id="m", target="", optimized=(path,))
        inspector = ModuleInspector(
            request=InspectionRequest(), translate=translate, effects_cache=tmp_path / "effects"
        )
        return inspector.inspect_module(files)

    return inspect


def find(name: str) -> tuple[str, dict[str, int], str]:
    schedule = SCHEDULES[name]
    return schedule.text, schedule.offsets, schedule.expected


def judge(outcome: ModuleOutcome) -> Inspection:
    assert outcome.judged is not None
    assert isinstance(outcome.judged.result, Inspection)
    return outcome.judged.result


def list_wrong(inspection: Inspection, verdict: Verdict) -> list[int]:
    return [number for number, found in enumerate(inspection.outputs.values()) if found is verdict]


def name_outputs(expected: str) -> list[int]:
    return [int(number) for number in expected.rpartition(":")[2].split()]


@pytest.mark.parametrize("name", WITHOUT_A_KERNEL)
def test_a_module_without_a_kernel_has_a_finding_if_values_share_bytes(
    name: str, inspect_content: InspectContent
) -> None:
    text, offsets, expected = find(name)
    outcome = inspect_content(place(text, offsets), "x.hlo.pb")
    inspection = judge(outcome)
    assert list_wrong(inspection, Verdict.CLOBBERED) == name_outputs(expected)
    assert {finding.rule for finding in inspection.findings} == {"LD024"}
    assert outcome.judged is not None
    case = conclude(outcome.judged)
    assert case.status is Status.FINDINGS
    report = CheckReport(cases=(case,), targets=(), toolchain="")
    assert compute_exit_code(report, fail_on=FailOn.ERROR, strict=False) is ExitCode.FINDINGS


def test_a_module_in_which_no_values_share_bytes_has_nothing_to_check(inspect_content: InspectContent) -> None:
    text, offsets, _ = find(CLEAN)
    outcome = inspect_content(place(text, offsets), "x.hlo.pb")
    assert outcome.is_idle
    assert not outcome.lacks_buffers
    assert outcome.judged is None


@pytest.mark.parametrize("name", [CLEAN, *WITHOUT_A_KERNEL])
def test_text_without_a_kernel_lacks_a_buffer_assignment(name: str, inspect_content: InspectContent) -> None:
    text, _, _ = find(name)
    outcome = inspect_content(text.encode(), "x.hlo")
    assert outcome.is_idle
    assert outcome.lacks_buffers
    inspected = InspectedModules(DumpSelection(modules=(), artifacts=(), notes=()), idle=1, unassigned=1)
    assert inspected.list_notes()[-1].startswith("1 module without a buffer assignment")


def test_a_protobuf_can_lack_a_buffer_assignment(inspect_content: InspectContent) -> None:
    text, _, _ = find(CLEAN)
    assert inspect_content(read_text(text).SerializeToString(), "x.hlo.pb").lacks_buffers


def test_an_inconsistent_assignment_is_noted(inspect_content: InspectContent) -> None:
    text, offsets, _ = find(CLEAN)
    data = place(text, offsets)
    proto = read_text(text)
    proto.ParseFromString(data)
    del proto.buffer_assignment.buffer_allocations[0].assigned[:]
    outcome = inspect_content(proto.SerializeToString(), "x.hlo.pb")
    assert outcome.lacks_buffers
    assert "the buffer assignment is inconsistent" in outcome.notes[0]


@pytest.mark.parametrize(
    "name", ["a call writes over a value that is read later", "two operands declared to be one output"]
)
def test_values_that_must_share_bytes_are_unknown_without_an_assignment(
    name: str, inspect_content: InspectContent
) -> None:
    text, _, expected = find(name)
    inspection = judge(inspect_content(text.encode(), "x.hlo"))
    assert list_wrong(inspection, Verdict.UNKNOWN) == name_outputs(expected)
    assert "LD024" not in {finding.rule for finding in inspection.findings}
    assert any("without a buffer assignment it is unknown" in line for line in inspection.coverage.not_covered)


@pytest.mark.parametrize(
    "name", ["a call writes over a value that is read later", "two operands declared to be one output"]
)
def test_values_that_must_share_bytes_are_clobbered_with_an_assignment(
    name: str, inspect_content: InspectContent
) -> None:
    text, offsets, expected = find(name)
    inspection = judge(inspect_content(place(text, offsets), "x.hlo.pb"))
    assert list_wrong(inspection, Verdict.CLOBBERED) == name_outputs(expected)


def test_a_declaration_that_names_a_buffer_twice_is_not_reported_as_refused(inspect_content: InspectContent) -> None:
    text, offsets, _ = find("two operands declared to be one output")
    found = [f for f in judge(inspect_content(place(text, offsets), "x.hlo.pb")).findings if f.rule == "LD018"]
    assert len(found) == 2
    assert all("refuse" not in finding.help and "does not hold" not in finding.message for finding in found)


def test_a_loop_that_loses_a_part_of_its_state_is_not_an_error_without_a_kernel(
    inspect_content: InspectContent,
) -> None:
    text, offsets, _ = find("the start of a loop is read after it")
    proto = read_text(text)
    proto.ParseFromString(place(text, offsets))
    body = next(one for one in proto.hlo_module.computations if one.name == "body")
    root = next(one for one in body.instructions if one.id == body.root_id)
    del root.operand_ids[1:]
    del root.shape.tuple_shapes[1:]
    outcome = inspect_content(proto.SerializeToString(), "x.hlo.pb")
    assert outcome.is_idle
    assert outcome.lacks_buffers
    assert "it is unknown whether values share bytes" in outcome.notes[0]
