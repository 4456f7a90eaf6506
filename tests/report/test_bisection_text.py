"""A bisection on a terminal."""

import pytest

from ligerdiag.report.comparisons import BisectionRow
from ligerdiag.report.terminal.full_report import render_bisections
from ligerdiag.text import compute_cells
from tests.report.bisection_samples import make_bisection


def test_a_row_has_its_verdict_its_cells_its_numbers_and_its_outputs_and_answers_are_marked() -> None:
    lines = render_bisections([make_bisection()]).splitlines()
    assert lines[0] == "edges of flce[hidden] on h100, jax-0.11.2"
    assert lines[2].split() == ["edges", "verdict", "bytes", "replay", "outputs"]
    assert lines[3] == "   no tie       WRONG            DISAGREES  loss fresh · bias STALE"
    assert lines[4] == "*  ties 1, 2    right    +4 MiB  agrees     loss fresh · bias fresh"
    assert lines[6] == "     without 2  unknown                     the worker died"


def test_evidence_answers_notes_and_totals_follow_the_table() -> None:
    text = render_bisections([make_bisection()])
    assert text.endswith(
        "\nties 1, 2\n"
        "   tie 1: `reduce` at train.py:3\n"
        "   tie 2: `dot` at train.py:4\n"
        "\n"
        "answer: exactly 1 minimal set\n"
        "note: not tried: the rest\n"
        "4 ways to compile it, 1 of them not in the cache, in 2.5 s\n"
    )


def test_empty_columns_are_not_shown() -> None:
    bisection = make_bisection(columns=(), rows=(BisectionRow(label="a", word="right"),), toolchain="")
    lines = render_bisections([bisection]).splitlines()
    assert lines[0] == "edges of flce[hidden] on h100"
    assert lines[2:4] == ["edges  verdict  outputs", "a      right    "]


def test_eighty_columns_are_kept_with_the_outputs_on_separate_lines() -> None:
    wide = make_bisection(answers=("a word " * 40,), columns=("bytes", "instructions", "milliseconds"))
    text = render_bisections([wide], width=60)
    assert max(compute_cells(line) for line in text.splitlines()) <= 60
    assert "      loss fresh · bias STALE\n" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interrupted": True}, "; interrupted, the rest was not tried"),
        ({"is_unsettled": True}, "; a compile on which an answer depends could not be analysed"),
    ],
)
def test_the_last_line_names_missing_outputs(changes: dict[str, object], words: str) -> None:
    assert words in render_bisections([make_bisection(**changes)]).splitlines()[-1]


def test_verbose_shows_artifacts() -> None:
    assert "artifact" not in render_bisections([make_bisection()])
    assert "artifact: /a" in render_bisections([make_bisection()], verbose=True)


def test_names_cannot_colour_the_terminal() -> None:
    text = render_bisections([make_bisection(answers=("\x1b[2J",), case_id="\x1b]0;x\x07")], colour=False)
    assert "\x1b" not in text


def test_several_bisections_have_blank_lines_between_them() -> None:
    text = render_bisections([make_bisection(), make_bisection(target="a100")])
    assert "in 2.5 s\n\n\nedges of flce[hidden] on a100, jax-0.11.2\n" in text
