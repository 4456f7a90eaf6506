"""The schedule in rows: lanes, spans and loops that fold."""

from ligerdiag.model.schedule_view import Lane
from ligerdiag.report.html.band_columns import Contents
from ligerdiag.report.html.figures import MAX_SLOTS, TimelineRow, compute_timeline
from tests.report.html.view_samples import make_step, make_view


def list_states(rows: tuple[TimelineRow, ...], lane: Lane) -> list[tuple[str, ...]]:
    return [tuple(cell.state for cell in row.cells if cell.lane is lane) for row in rows]


def test_the_body_of_a_loop_is_below_its_row() -> None:
    timeline = compute_timeline(make_view(), (0,))
    assert [row.step.name for row in timeline.rows] == ["%while.3", "%gemm_fusion_dot.5", "%tuple.9"]
    assert [row.step.id for row in timeline.rows[0].body] == list(range(3, 15))


def test_a_loop_that_touches_the_buffer_is_open() -> None:
    quiet = (make_step(200, opcode="while", loops=()), make_step(201, loops=(200,)))
    timeline = compute_timeline(make_view(steps=(*make_view().steps, *quiet)), (0,))
    assert [row.is_open for row in timeline.rows if row.body] == [True, False]


def test_loops_in_loops_are_rows_in_rows() -> None:
    steps = (
        make_step(1, opcode="while", loops=()),
        make_step(2, opcode="while", loops=(1,)),
        make_step(3, loops=(1, 2)),
    )
    (outer,) = compute_timeline(make_view(steps=steps, accesses=()), ()).rows
    assert outer.body[0].body[0].step.id == 3


def test_a_step_of_a_loop_that_is_not_shown_is_not_lost() -> None:
    timeline = compute_timeline(make_view(steps=(make_step(3, loops=(999,)),)), (0,))
    assert [row.step.id for row in timeline.rows] == [3]


def test_an_asynchronous_operation_is_a_bar_until_it_is_done() -> None:
    steps = (
        make_step(21, start=1, end=3, lane=Lane.COLLECTIVE, loops=()),
        make_step(22, start=2, end=2, loops=()),
        make_step(23, start=3, end=3, loops=()),
        make_step(24, start=4, end=4, loops=()),
    )
    timeline = compute_timeline(make_view(steps=steps, accesses=()), ())
    assert list_states(timeline.rows, Lane.COLLECTIVE) == [("start",), ("through",), ("end",), ("",)]
    assert list_states(timeline.rows, Lane.COMPUTE) == [("",), ("dot",), ("dot",), ("dot",)]


def test_operations_in_flight_together_are_side_by_side() -> None:
    steps = tuple(make_step(20 + n, start=n, end=20, lane=Lane.COPY, loops=()) for n in range(1, 7))
    timeline = compute_timeline(make_view(steps=steps, accesses=()), ())
    assert dict(timeline.slots) == {Lane.COPY: MAX_SLOTS}
    assert list_states(timeline.rows, Lane.COPY)[1] == ("through", "start", "")
    assert list_states(timeline.rows, Lane.COPY)[4] == ("through", "through", "start")


def test_a_strip_shows_the_contents_of_the_bytes() -> None:
    timeline = compute_timeline(make_view(), (0,))
    strips = {row.step.id: row.strips[0] for row in timeline.rows[0].body}
    assert strips[6] is Contents.OLD
    assert strips[7] is Contents.NEW
    assert strips[14] is Contents.OTHER
