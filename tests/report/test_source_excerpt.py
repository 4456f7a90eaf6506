"""Excerpts of the user's source: the lines, the mark under the expression, and the files that have none."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import SourceLine, SourceSpan
from ligerdiag.source_excerpt import Excerpt, load_excerpt
from ligerdiag.source_text import MAX_LINE_CHARACTERS

CODE = """\
def step(x, w):

    losses = jt.triton_call(
        x,
        out_shape=o,
    )
    \u00fc = losses.sum() + (x * w).mean()
    return \u00fc
"""


def find(
    folder: Path, line: int, span: SourceSpan | None = None, *, code: str = CODE, around: int = 1
) -> Excerpt | None:
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    return load_excerpt(SourceLine(file=str(file), line=line, span=span), [str(folder)], around=around)


def mark(excerpt: Excerpt | None) -> str:
    assert excerpt is not None
    return excerpt.line[excerpt.start : excerpt.end]


def test_a_line_is_shown_between_its_neighbours_without_their_indentation(tmp_path: Path) -> None:
    excerpt = find(tmp_path, 7)
    assert excerpt is not None
    assert (excerpt.first, excerpt.marked) == (6, 1)
    assert excerpt.lines == (")", "\u00fc = losses.sum() + (x * w).mean()", "return \u00fc")


def test_blank_lines_at_the_edges_are_left_out(tmp_path: Path) -> None:
    excerpt = find(tmp_path, 3)
    assert excerpt is not None
    assert (excerpt.first, excerpt.marked) == (3, 0)
    assert excerpt.lines == ("losses = jt.triton_call(", "    x,")


def test_without_columns_the_largest_expression_that_starts_on_the_line_is_marked(tmp_path: Path) -> None:
    assert mark(find(tmp_path, 7)) == "losses.sum() + (x * w).mean()"
    assert mark(find(tmp_path, 3)) == "jt.triton_call("
    assert mark(find(tmp_path, 5)) == "o"


def test_columns_count_bytes_and_choose_one_expression_of_the_line(tmp_path: Path) -> None:
    before = len("    \u00fc = losses.sum() + (".encode())
    assert mark(find(tmp_path, 7, SourceSpan(column=before, end_line=7, end_column=before + 5))) == "x * w"
    assert mark(find(tmp_path, 3, SourceSpan(column=13, end_line=6, end_column=5))) == "jt.triton_call("


@pytest.mark.parametrize(
    ("line", "span"),
    [
        (7, SourceSpan(column=5, end_line=7, end_column=9)),  # no expression of this file
        (3, SourceSpan(column=13, end_line=9, end_column=5)),
        (3, SourceSpan(column=1 << 40, end_line=6, end_column=5)),
        (2, None),
        (99, None),
        (0, None),
    ],
)
def test_a_file_that_has_changed_has_no_excerpt(tmp_path: Path, line: int, span: SourceSpan | None) -> None:
    assert find(tmp_path, line, span) is None


def test_a_method_on_a_line_of_its_own_is_found(tmp_path: Path) -> None:
    """Python gives the line of `.sum` as the start of the call, and the syntax tree that of `x`."""
    code = "y = (\n    x\n    .sum()\n)\n"
    assert mark(find(tmp_path, 3, SourceSpan(column=5, end_line=3, end_column=10), code=code)) == "sum()"


def test_a_decorator_is_found(tmp_path: Path) -> None:
    assert mark(find(tmp_path, 1, code="@jax.jit(x)\ndef f():\n    pass\n")) == "jax.jit(x)"


def test_tabs_and_escapes_do_not_move_the_mark(tmp_path: Path) -> None:
    code = "if x:\n\ty\t=\tf(1)\n\tz = '\x1b[31m' + g(2)\n"
    assert mark(find(tmp_path, 2, code=code)) == "f(1)"
    assert mark(find(tmp_path, 3, code=code)) == "'' + g(2)"


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    code = f"y = f({', '.join('abc' for _ in range(99))})\n"
    excerpt = find(tmp_path, 1, code=code)
    assert excerpt is not None
    assert len(excerpt.line) == MAX_LINE_CHARACTERS
    assert excerpt.line.endswith("…")
    assert mark(excerpt).startswith("f(abc")


def test_an_expression_beyond_the_end_of_a_cut_line_has_no_excerpt(tmp_path: Path) -> None:
    code = f"y = [{'1, ' * 99}f(0)]\n"
    start = code.index("f(0)")
    assert find(tmp_path, 1, SourceSpan(column=start, end_line=1, end_column=start + 4), code=code) is None


@pytest.mark.parametrize("code", ["not a Python file\n", "x = (" * 500, "def f(:\n"])
def test_a_file_that_is_not_python_has_no_mark(tmp_path: Path, code: str) -> None:
    excerpt = find(tmp_path, 1, code=code)
    assert mark(excerpt) == ""
    assert find(tmp_path, 1, SourceSpan(column=0, end_line=1, end_column=4), code=code) is None


def test_a_line_on_which_no_expression_starts_has_no_mark(tmp_path: Path) -> None:
    assert mark(find(tmp_path, 6)) == ""


def test_no_file_outside_of_the_roots_is_read(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("y = f(1)\n", encoding="utf-8")
    place = SourceLine(file=str(tmp_path / "other.py"), line=1)
    assert load_excerpt(place, []) is None
    assert load_excerpt(place, [str(tmp_path / "mine")]) is None
    assert load_excerpt(SourceLine(file=str(tmp_path / "gone.py"), line=1), [str(tmp_path)]) is None
