"""The memory on the page of a case: the curve over the schedule, and its tables."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.memory import CurvePoint, MemoryUse
from ligerdiag.report.html import render_case_html
from ligerdiag.report.html.band import NARROW_WIDTH, TEXT_WIDTH, WIDTH
from ligerdiag.report.html.memory_section import HEIGHT, Curve, compute_curve, compute_memory_section
from tests.report.html.pages import compute_text
from tests.report.html.view_samples import make_view
from tests.report.samples import IN_PLACE, MIB, make_case, make_copy, make_memory, make_report


def show(memory: MemoryUse | None, **changes: object) -> str:
    """Returns the text of the section; the whole page's text without one."""
    case = make_case(memory=memory, **changes)
    text = compute_text(render_case_html(case, make_report(case)))
    return text.partition("Memory, copies and donations")[2].partition("Coverage and provenance")[0] or text


def draw(memory: MemoryUse, width: float = WIDTH) -> Curve:
    curve = compute_curve(memory, width, HEIGHT)
    assert curve is not None
    return curve


def make_points(*sizes: int) -> tuple[CurvePoint, ...]:
    """Returns a point for each size in MiB."""
    return tuple(CurvePoint(instruction=f"fusion.{n}", bytes=size * MIB) for n, size in enumerate(sizes))


def test_the_section_says_what_the_terminal_says() -> None:
    text = show(make_memory())
    assert "peak 33.0 MiB (arguments 24.0, new outputs 8.0, temporaries 1.5); copies 16.0 MiB a call" in text
    assert "JAX warns: Some donated buffers were not usable" in text
    assert "not all in place: 1 of 2 requests: 1 donated argument, 1 update" in text
    assert "all in place: 3 requests: 2 donated arguments, 1 update" in show(IN_PLACE)


def test_tables_show_values_copies_donations_and_requests() -> None:
    text = show(make_memory())
    assert "16.0 MiB argument cache f32[2048,2048]" in text
    assert "768.0 KiB temporary %fusion.7 f32[131072] temporary %fusion.8 f32[65536] train.py:52" in text
    assert "256.0 KiB smaller values" in text
    assert "argument cache → temporary memory not donated, not needed %copy.3 : cache is not donated, and" in text
    assert "1.0 MiB × 8 temporary memory → output state read later, needed %copy.5" in text
    assert "4.0 MiB ids void: dtype the output of its shape is f32[1048576], not s32[1048576] train.py:52" in text
    assert "8.0 MiB w output w" in text
    assert "8.0 MiB update of a part %fusion.2 train.py:41" in text
    assert "all-reduce a call 2.0 MiB" in text


def test_a_page_without_memory_has_no_section() -> None:
    assert "Peak and copies" not in show(None)
    assert "All sizes" not in show(None)


def test_the_curve_rises_to_its_peak_and_every_moment_has_a_title() -> None:
    curve = draw(make_memory(curve=make_points(10, 30, 20), peak=30 * MIB, peak_at="fusion.1"))
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)H", curve.outline)]
    assert heights[1] == curve.peak.y == min(heights)
    assert heights[0] > heights[2] > heights[1]
    assert [moment.title for moment in curve.moments] == [
        "10.0 MiB: %fusion.0",
        "30.0 MiB: %fusion.1",
        "20.0 MiB: %fusion.2",
    ]
    assert curve.moments[0].x == curve.left
    assert curve.moments[2].x + curve.moments[2].width == pytest.approx(curve.right, abs=0.1)


def test_a_title_has_the_instruction_and_its_line() -> None:
    assert draw(make_memory()).moments[1].title == "32.0 MiB: %copy.3 (train.py:41)"
    assert draw(make_memory()).peak.text == "peak 33.0 MiB: %fusion.7 (train.py:52)"


def test_of_equal_points_the_named_one_is_the_peak() -> None:
    curve = draw(make_memory(curve=make_points(30, 30, 30), peak_at="%fusion.2"))
    assert curve.peak.text.startswith("peak 30.0 MiB: %fusion.2")


def test_copies_are_marked_below_the_curve() -> None:
    copies = (make_copy(instruction="fusion.0"), make_copy(instruction="%fusion.2", is_needed=True))
    curve = draw(make_memory(curve=make_points(1, 2, 3), copies=copies))
    assert [mark.is_needed for mark in curve.marks] == [False, True]
    assert curve.marks[0].title == "copy of 8.0 MiB, not needed: argument `cache` → temporary memory"


@pytest.mark.parametrize("width", [WIDTH, NARROW_WIDTH])
@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("name", ["f", "f" * 300])
def test_the_label_of_the_peak_stays_in_the_picture(width: float, place: int, name: str) -> None:
    points = [CurvePoint(instruction=name, bytes=MIB)] * 100
    points[place] = replace(points[place], bytes=2 * MIB)
    peak = draw(make_memory(curve=tuple(points), peak_line=None), width).peak
    room = len(peak.text) * TEXT_WIDTH
    start = {"start": peak.text_x, "middle": peak.text_x - room / 2, "end": peak.text_x - room}[peak.anchor]
    assert start >= 0
    assert start + room <= width


def test_the_axis_has_few_round_sizes() -> None:
    assert [text for _, text in draw(make_memory()).ticks] == ["0 bytes", "16.0 MiB", "32.0 MiB"]


@pytest.mark.parametrize("curve", [(), make_points(0)])
def test_without_bytes_over_time_there_is_no_picture(curve: tuple[CurvePoint, ...]) -> None:
    memory = MemoryUse(arguments=0, outputs=0, aliased=0, temporaries=0, curve=curve)
    section = compute_memory_section(make_case(memory=memory), {})
    assert section is not None
    assert (section.wide, section.narrow) == (None, None)
    assert "peak 0 bytes" in show(memory)


def test_a_page_quotes_the_users_line_if_the_file_is_here(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("x\ncache = cache.at[i].set(x)\n", encoding="utf-8")
    memory = make_memory(copies=(make_copy(line=SourceLine(file=str(file), line=2)),))
    assert "cache = cache.at[i].set(x)" in show(memory, source_roots=(str(tmp_path),))
    assert "cache = cache.at[i].set(x)" not in show(memory)


def test_names_of_instructions_of_the_page_are_links() -> None:
    case = make_case(memory=make_memory(copies=(make_copy(instruction="copy_fusion"),)), view=make_view())
    page = render_case_html(case, make_report(case))
    assert '<a class="code" href="#i11">%copy_fusion</a>: <code>cache</code> is not donated' in page


def test_long_tables_say_how_much_they_leave_out() -> None:
    assert "13 more, see JSON" in show(make_memory(copies=(make_copy(),) * 33))


def test_only_a_program_with_requests_is_green_for_being_in_place() -> None:
    def is_green(memory: MemoryUse) -> bool:
        case = make_case(memory=memory)
        return 'class="verdict c-fresh"' in render_case_html(case, make_report(case))

    assert is_green(IN_PLACE)
    assert not is_green(make_memory())
    assert not is_green(replace(IN_PLACE, requests=()))
    assert "nothing asks to work in place" in show(replace(IN_PLACE, requests=()))


def test_each_moment_of_the_wide_curve_has_a_title_to_hover_over() -> None:
    case = make_case(memory=make_memory())
    page = render_case_html(case, make_report(case))
    assert page.count('<g class="moment">') == len(make_memory().curve)
    assert '<g class="moment"><title>32.0 MiB: %copy.3 (train.py:41)</title>' in page
