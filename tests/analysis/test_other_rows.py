"""`programs/other_rows.py`: a value computed from rows that a kernel does not write is right in any order."""

from pathlib import Path

from ligerdiag import api
from ligerdiag.analysis.evaluation.pieces import ArrayRegion, find_rows
from ligerdiag.effects.access import OperandUse, WriteCoverage, join_uses
from ligerdiag.hlo.xla_pb2 import LayoutProto, ShapeProto

PROGRAMS = Path(__file__).parent / "programs" / "other_rows.py"
F32 = 11


def make_shape(*sizes: int, layout: tuple[int, ...] = ()) -> ShapeProto:
    return ShapeProto(element_type=F32, dimensions=sizes, layout=LayoutProto(minor_to_major=layout))


def test_reads_of_other_rows_are_fresh_and_reads_of_overwritten_rows_are_judged(shared_cache: Path) -> None:
    report = api.check(api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache))
    assert {case.id: case.mismatch or case.error for case in report.cases if case.mismatch or case.error} == {}
    assert [case.id for case in report.cases if case.disagreements] == []


def test_a_read_of_other_rows_only_has_no_finding(shared_cache: Path) -> None:
    selectors = (f"{PROGRAMS}::other_rows[elements-rows]", f"{PROGRAMS}::other_rows[elements-rows_in]")
    apart, touched = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache)).cases
    assert [finding.rule for finding in apart.findings] == ["LD006"]
    assert [finding.outputs for finding in touched.findings if "LD006" not in finding.rule] == [("read",)]


def test_right_numbers_of_a_row_that_the_kernel_may_not_write_are_no_contradiction(shared_cache: Path) -> None:
    """The kernel loads the number of its row, so that a read of another row counts as stale. That was a disagreement."""
    report = api.check(api.CheckOptions(selectors=(f"{PROGRAMS}::ring[*]",), cache_directory=shared_cache))
    found = {case.id: [one for one in case.findings if "read" in one.outputs] for case in report.cases}
    assert {name: [one.decided for one in some] for name, some in found.items()} == {
        "ring[before]": [("read",)],
        "ring[same_in]": [("read",)],
        "ring[all_in]": [()],
    }
    assert "writes is unknown" in str(found["ring[before]"][0].evidence)
    assert [case.id for case in report.cases if case.disagreements] == []


def test_bytes_are_rounded_to_whole_rows() -> None:
    assert find_rows(make_shape(16, 4), (32, 65)) == ArrayRegion((16, 4), 0, 2, 5)
    assert find_rows(make_shape(1, 16, 4), (16, 32)) == ArrayRegion((1, 16, 4), 1, 1, 2)


def test_rows_follow_the_layout_in_memory() -> None:
    assert find_rows(make_shape(16, 4, layout=(0, 1)), (0, 64)) == ArrayRegion((16, 4), 1, 0, 1)


def test_all_bytes_of_an_array_are_not_a_region_of_it() -> None:
    assert find_rows(make_shape(16, 4), (8, 250)) is None
    assert find_rows(make_shape(16, 4), (0, 300)) is None
    assert find_rows(make_shape(), (0, 4)) is None


def test_several_configurations_overwrite_what_any_of_them_overwrites() -> None:
    one = OperandUse(coverage=WriteCoverage.PARTIAL, span=(0, 8))
    other = OperandUse(coverage=WriteCoverage.PARTIAL, span=(16, 24))
    assert join_uses((one, other)).span == (0, 24)
    assert join_uses((one, OperandUse(coverage=WriteCoverage.UNKNOWN))).span is None
    assert join_uses((one, OperandUse(coverage=WriteCoverage.NONE))).span == (0, 8)
