"""A kernel that XLA hands rows of an array in place: what stands in these rows is new, and in the others it is not.

With jax-triton 0.4 XLA makes a fusion of such a call and the slice that it gets, and takes the slice once more behind
it.
"""

from collections.abc import Sequence

import pytest

from ligerdiag.analysis.evaluation.pieces import ArrayRegion, Pieces, find_region
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import Builder, array, tuple_of

WHOLE, ROWS = array(8, 4), array(4, 4)
OUTPUTS = tuple_of(array(4), ROWS, ROWS, WHOLE)


def take(
    program: Program, home: HloComputationProto, whole: HloInstructionProto, start: int, tag: int = 0
) -> HloInstructionProto:
    """Four rows of eight."""
    rows = program.op(home, "slice", whole, shape=ROWS, tag=tag or "")
    for first, limit in ((start, start + 4), (0, 4)):
        rows.slice_dimensions.add(start=first, limit=limit, stride=1)
    return rows


def write_program() -> Program:
    """h = -x; the kernel on its first rows. Returns (what the kernel returns, these rows, the others, h)."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter", shape=WHOLE)
    h = program.op(entry, "negate", x, tag=1, shape=WHOLE)
    first = take(program, entry, h, 0, tag=2)
    sums = program.kernel(entry, first, tag=3)
    others = take(program, entry, h, 4, tag=4)
    whole = program.op(entry, "abs", h, tag=5, shape=WHOLE)
    program.op(entry, "tuple", sums, first, others, whole, shape=OUTPUTS)
    return program


def write_schedule(order: Sequence[str], *, start: int = 0) -> Program:
    """The same with a kernel in place, where the rows are taken once more, in this order; start: of the kernel's rows."""
    schedule = Program()
    fused = schedule.computation("fused")
    fused.is_fusion_computation = True
    part = take(schedule, fused, schedule.op(fused, "parameter", shape=WHOLE), start, tag=2)
    schedule.kernel(fused, part, tag=3)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter", shape=WHOLE)
    h = schedule.op(entry, "negate", x, tag=1, shape=WHOLE)
    made: dict[str, HloInstructionProto] = {}
    for name in order:
        match name:
            case "kernel":
                made[name] = schedule.op(entry, "fusion", h, calls=[fused])
            case "first":
                made[name] = take(schedule, entry, h, 0, tag=2)
            case "others":
                made[name] = take(schedule, entry, h, 4, tag=4)
            case _:
                made[name] = schedule.op(entry, "abs", h, tag=5, shape=WHOLE)
    for instruction in (x, h, *made.values()):
        schedule.define(instruction, size=128)
    outputs = [made[name] for name in ("kernel", "first", "others", "whole")]
    schedule.op(entry, "tuple", *outputs, shape=OUTPUTS)
    return schedule


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (("whole", "kernel", "first", "others"), ["latent", "fresh", "fresh"]),
        (("kernel", "first", "others", "whole"), ["latent", "fresh", "clobbered"]),
        (("whole", "first", "kernel", "others"), ["stale", "fresh", "fresh"]),
    ],
)
def test_rows_are_new_where_they_are_taken_behind_the_kernel(order: Sequence[str], expected: list[str]) -> None:
    context = judge(write_program(), write_schedule(order), "sums", "first", "others", "whole")
    found = verdicts(context)
    assert found[:2] == ["fresh", expected[0]]
    # nothing forces that a reader of the whole comes before the kernel, nor that one of other rows need not wait
    assert [{"latent": "fresh"}.get(one, one) for one in found[2:]] == expected[1:]


def test_rows_that_the_kernel_did_not_get_are_not_new() -> None:
    schedule = write_schedule(("whole", "kernel", "first", "others"), start=4)
    found = verdicts(judge(write_program(), schedule, "sums", "first", "others", "whole"))
    assert found[1:3] == ["stale", "clobbered"]


def test_pieces_in_the_region_change_and_the_others_stay() -> None:
    region = ArrayRegion((8, 4), 0, 2, 6)
    assert region.replace(1, 1, 2) == Pieces((8, 4), 0, (2, 6, 8), (1, 2, 1))
    assert region.replace(Pieces((8, 4), 0, (4, 8), (1, 4)), 1, 2) == Pieces((8, 4), 0, (2, 4, 6, 8), (1, 2, 6, 4))
    # of columns, and of another shape on the same bytes, it is not known which pieces the rows are
    assert region.replace(Pieces((8, 4), 1, (2, 4), (1, 4)), 1, 2) == Pieces((8, 4), 0, (2, 6, 8), (5, 6, 5))
    assert region.replace(Pieces((4, 8), 0, (2, 4), (1, 4)), 1, 2) == Pieces((8, 4), 0, (2, 6, 8), (5, 6, 5))


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (((2, 6, 1), (0, 4, 1)), ArrayRegion((8, 4), 0, 2, 6)),
        (((0, 8, 1), (1, 4, 1)), ArrayRegion((8, 4), 1, 1, 4)),
        (((2, 6, 2), (0, 4, 1)), None),
        (((2, 6, 1), (1, 4, 1)), None),
        (((0, 8, 1), (0, 4, 1)), None),
        (((2, 9, 1), (0, 4, 1)), None),
        (((6, 2, 1), (0, 4, 1)), None),
        (((2, 6, 1),), None),
    ],
)
def test_a_slice_along_one_dimension_takes_a_region(
    bounds: Sequence[tuple[int, int, int]], expected: ArrayRegion | None
) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    taken = builder.add(entry, "slice", [builder.add(entry, "parameter", shape=WHOLE)])
    for start, limit, stride in bounds:
        taken.slice_dimensions.add(start=start, limit=limit, stride=stride)
    assert find_region(parse_hlo(builder.bytes())[0].entry.root) == expected
