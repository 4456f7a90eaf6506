"""Who reads the bytes that a kernel overwrites, in schedules that XLA made."""

import pytest

from ligerdiag import api
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import Fate, Neighbourhood
from ligerdiag.rules.rule import ALIASED, KERNEL
from ligerdiag.rules.schedules.ld002_stale_copy import FOLDED_CONVERT
from ligerdiag.rules.schedules.ld015_schedule_drift import REMOVED_BARRIER

SHARED = (
    KERNEL
    + """\
def step(x):
    sums = sum_and_double(x)
    return {"sums": sums, "x": x}


CASE = Case(name="argument", function=step, args=(Arg(shape=(8, 32)),))
"""
)

PROGRAMS = {
    "released": REMOVED_BARRIER.code,
    "folded": FOLDED_CONVERT.code,
    "declared": ALIASED.code,
    "argument": SHARED,
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseReport]:
    """Returns the reports for an H100 by case name."""
    folder = tmp_path_factory.mktemp("programs")
    for name, code in PROGRAMS.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    options = api.CheckOptions(
        selectors=(str(folder),), cache_directory=tmp_path_factory.mktemp("cache"), replay=False, record=True
    )
    return {report.id: report for report in api.check(options).cases}


def describe(one: Neighbourhood) -> list[tuple[str, str, str]]:
    return [(reader.primitive, reader.side.value, reader.origin.value) for reader in one.readers]


def test_a_reader_has_the_operation_and_the_line_of_the_program(reports: dict[str, CaseReport]) -> None:
    (one,) = reports["released"].neighbourhoods
    assert (one.kernel, one.operand, one.number, one.fate) == ("double_kernel", 0, 1, Fate.PERFORMED)
    assert (one.shape, one.size, one.copied_by) == ("f32[8,32]", 1024, ())
    assert describe(one)[0] == ("dot_general", "before", "value")
    source = one.readers[0].source
    assert source is not None
    assert "h @ w.T" in PROGRAMS["released"].splitlines()[source.line - 1]
    assert one.source is not None
    assert "triton_call" in PROGRAMS["released"].splitlines()[one.source.line - 1]


def test_a_reader_has_no_tag_and_no_instruction_name(reports: dict[str, CaseReport]) -> None:
    for report in reports.values():
        for one in report.neighbourhoods:
            for reader in one.readers:
                assert "#ld" not in reader.op_name
                assert "." not in reader.opcode


def test_a_reader_of_the_value_before_a_cast_reads_the_source(reports: dict[str, CaseReport]) -> None:
    (one,) = reports["folded"].neighbourhoods
    assert one.copied_by == ("convert",)
    assert ("dot_general", "source") in {(primitive, origin) for primitive, _, origin in describe(one)}
    assert "value" not in {origin for _, _, origin in describe(one)}


def test_a_declared_write_has_no_neighbourhood(reports: dict[str, CaseReport]) -> None:
    assert reports["declared"].neighbourhoods == ()
    assert reports["declared"].coverage.kernels


def test_an_overwritten_argument_is_listed_among_the_values_in_its_bytes(reports: dict[str, CaseReport]) -> None:
    (one,) = reports["argument"].neighbourhoods
    assert "an argument of the program" in one.shares
