"""The band: the contents of the bytes, their readers, and labels that do not overlap."""

from dataclasses import replace
from itertools import pairwise

import pytest

from ligerdiag.model.schedule_view import AccessKind, BufferAccess, Place, ReadKind, ScheduleView
from ligerdiag.report.html.band import CODE_WIDTH, TEXT_WIDTH, WIDTH, compute_band, compute_narrow_band
from ligerdiag.report.html.band_columns import MAX_COLUMNS, Contents, compute_columns, count_hidden
from tests.report.html.view_samples import make_accesses, make_buffer, make_step, make_view


def make_long(reads: int, kind: ReadKind) -> ScheduleView:
    """A write, and many reads of one kind after it."""
    steps = (make_step(7), *(make_step(100 + n) for n in range(reads)))
    accesses = (
        *make_accesses((7,)),
        *(
            BufferAccess(buffer=0, step=100 + n, kind=AccessKind.READ, read=kind, outputs=(f"out{n}",))
            for n in range(reads)
        ),
    )
    return make_view(steps=steps, accesses=accesses)


def test_contents_change_where_the_kernel_writes() -> None:
    band = compute_band(compute_columns(make_view(), 0), "ce_kernel")
    contents = [segment.contents for segment in band.segments]
    assert contents == [Contents.NOTHING, Contents.OLD, Contents.NEW, Contents.OTHER]
    write = next(mark for mark in band.marks if mark.column.sign.name == "write")
    assert band.segments[2].start == write.x


def test_a_buffer_that_nothing_computes_has_old_contents_from_the_start() -> None:
    columns = compute_columns(make_view(accesses=make_accesses((6, 7))), 0)
    assert [column.before for column in columns] == [Contents.OLD, Contents.OLD]


@pytest.mark.parametrize("numbers", [(3, 7, 9), (3, 4, 6, 7, 8, 9, 10, 11, 12, 14), (7,)])
def test_labels_stay_in_their_columns(numbers: tuple[int, ...]) -> None:
    band = compute_band(compute_columns(make_view(accesses=make_accesses(numbers)), 0), "ce_kernel")
    width = {"heading": TEXT_WIDTH, "outputs": TEXT_WIDTH, "when": TEXT_WIDTH, "name": CODE_WIDTH}

    def extent(number: int) -> tuple[float, float]:
        mark = band.marks[number]
        half = max(len(line.text) * width[line.style] for line in mark.lines) / 2
        return mark.x - half, mark.x + half

    extents = [extent(number) for number in range(len(band.marks))]
    assert extents[0][0] >= 0
    assert extents[-1][1] <= band.width
    assert all(one[1] <= other[0] for one, other in pairwise(extents))


def test_reads_of_other_bytes_are_below_the_band() -> None:
    band = compute_band(compute_columns(make_view(), 0), "ce_kernel")
    lanes = {lane.place: lane for lane in band.lanes}
    assert set(lanes) == {Place.COPY, Place.RECOMPUTED}
    for mark in band.marks:
        if mark.column.place is not Place.SAME_BYTES:
            assert mark.y == lanes[mark.column.place].y
            assert mark.lines[0].y > max(lane.y for lane in band.lanes)
        else:
            assert mark.lines[-1].y < band.y


def test_a_copy_that_is_read_before_the_value_is_computed_has_its_line_too() -> None:
    early = (
        BufferAccess(buffer=0, step=2, kind=AccessKind.READ, read=ReadKind.STALE, place=Place.COPY),
        *make_accesses((3, 7)),
    )
    band = compute_band(compute_columns(make_view(accesses=early), 0), "ce_kernel")
    (lane,) = band.lanes
    assert lane.start < lane.end
    assert lane.joint is None


def test_many_right_reads_are_one_mark_with_their_number() -> None:
    columns = compute_columns(make_long(40, ReadKind.FRESH), 0)
    assert [column.heading for column in columns] == ["overwritten", "40 fresh reads"]
    assert count_hidden(columns) == 40
    assert columns[1].outputs == "out0, out1 and 38 more"


def test_wrong_reads_never_share_a_column() -> None:
    view = make_long(40, ReadKind.STALE)
    columns = compute_columns(view, 0)
    assert len(columns) == 41 > MAX_COLUMNS
    assert compute_band(columns, "k").width > 1120


def test_a_read_of_no_kind_is_as_doubtful_as_an_unknown_one() -> None:
    view = make_long(1, ReadKind.NONE)
    assert compute_columns(view, 0)[1].sign.name == "unknown"


def test_a_possible_write_is_never_drawn_as_a_write() -> None:
    view = make_view(buffers=(make_buffer(unknown=True),), accesses=make_accesses((3, 7, 12)))
    columns = compute_columns(view, 0)
    assert [column.after for column in columns] == [Contents.OLD, Contents.UNSURE, Contents.UNSURE]
    assert columns[1].heading == "perhaps overwritten"


def test_an_instruction_that_writes_where_it_reads_reads_first() -> None:
    accesses = (
        *make_accesses((3, 7)),
        BufferAccess(buffer=0, step=14, kind=AccessKind.REUSE),
        BufferAccess(buffer=0, step=14, kind=AccessKind.READ, read=ReadKind.FRESH),
    )
    columns = compute_columns(make_view(accesses=accesses), 0)
    assert [column.sign.name for column in columns] == ["define", "write", "fresh", "reuse"]
    assert columns[2].before is Contents.NEW


def test_values_that_had_the_bytes_before_are_left_out() -> None:
    before = BufferAccess(buffer=0, step=2, kind=AccessKind.REUSE)
    view = make_view(accesses=(before, *make_accesses((3, 7))))
    assert [column.sign.name for column in compute_columns(view, 0)] == ["define", "write"]


def test_an_access_of_a_step_that_is_not_shown_is_left_out() -> None:
    view = make_view(accesses=(replace(make_accesses((7,))[0], step=999),))
    assert compute_columns(view, 0) == ()
    assert compute_band((), "k").marks == ()


def test_the_narrow_band_has_rows_that_do_not_overlap() -> None:
    band = compute_narrow_band(compute_columns(make_view(), 0))
    assert [row.column.step for row in band.rows] == [3, 4, 6, 7, 8, 9, 10, 11, 12, 14]
    for one, other in pairwise(band.rows):
        assert one.lines[-1].y < other.lines[0].y - 11
    for row in band.rows:
        for line in row.lines:
            assert band.label_x + len(line.text) * CODE_WIDTH <= WIDTH + 1


def test_both_bands_have_the_same_content() -> None:
    columns = compute_columns(make_view(), 0)
    assert [m.column for m in compute_band(columns, "k").marks] == [r.column for r in compute_narrow_band(columns).rows]
