"""Colour, width and progress depend on the stream."""

import io

import pytest

from ligerdiag.model.report import Progress
from ligerdiag.report.terminal.full_report import ProgressDisplay, compute_colour, compute_stream_width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_terminals_get_colour_unless_the_user_overrides_it() -> None:
    assert compute_colour(Terminal(), {})
    assert not compute_colour(Terminal(), {"NO_COLOR": "1"})
    assert not compute_colour(Terminal(), {"TERM": "dumb"})
    assert not compute_colour(io.StringIO(), {})
    assert compute_colour(io.StringIO(), {"FORCE_COLOR": "1"})
    assert not compute_colour(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"})


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert compute_stream_width(Terminal()) == 100
    assert compute_stream_width(io.StringIO()) is None


def test_progress_through_a_pipe_is_at_most_a_line_a_second() -> None:
    stream, clock = io.StringIO(), iter(n / 10 for n in range(21))
    with ProgressDisplay(stream, now=lambda: next(clock)) as show:
        for n in range(21):
            show(Progress(phase="compile", event="started", done=n, total=21, case_id="a\x1b[31m[b]", target="h100"))
    assert stream.getvalue() == "0/21 compile a[b] h100\n10/21 compile a[b] h100\n20/21 compile a[b] h100\n"


def test_progress_on_a_terminal_is_a_bar_that_survives_hostile_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with ProgressDisplay(stream) as show:
        show(Progress(phase="compile", event="started", done=1, total=3, case_id="[/nonsense]\x07", target="h100"))
    assert "1/3" in stream.getvalue()
    assert "[/nonsense]" in stream.getvalue()
    assert "\x07" not in stream.getvalue()
