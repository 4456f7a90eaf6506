"""Rows of an array that a kernel overwrites in place: which pieces of it change, and which slice takes them."""

from collections.abc import Sequence

import pytest

from ligerdiag.analysis.evaluation.pieces import ArrayRegion, Pieces, find_region
from ligerdiag.hlo.parse import parse_hlo
from tests.hlo.building import Builder, array

WHOLE = array(8, 4)


def test_pieces_in_the_region_change_and_the_others_stay() -> None:
    region = ArrayRegion((8, 4), 0, 2, 6)
    assert region.replace(1, 1, 2) == Pieces((8, 4), 0, (2, 6, 8), (1, 2, 1))
    assert region.replace(Pieces((8, 4), 0, (4, 8), (1, 4)), 1, 2) == Pieces((8, 4), 0, (2, 4, 6, 8), (1, 2, 6, 4))
    # for pieces along columns, or of another shape on the same bytes, the pieces of each row are unknown
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
def test_a_slice_along_one_dimension_is_a_region(
    bounds: Sequence[tuple[int, int, int]], expected: ArrayRegion | None
) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    taken = builder.add(entry, "slice", [builder.add(entry, "parameter", shape=WHOLE)])
    for start, limit, stride in bounds:
        taken.slice_dimensions.add(start=start, limit=limit, stride=stride)
    assert find_region(parse_hlo(builder.bytes())[0].entry.root) == expected
