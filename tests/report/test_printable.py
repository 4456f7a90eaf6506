"""No text from a file moves the cursor, colours the screen or breaks a line."""

import pytest

from ligerdiag.text import compute_cells, compute_printable, compute_without_commands


@pytest.mark.parametrize(
    ("text", "printable"),
    [
        ("plain [red]text[/red]", "plain [red]text[/red]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;file:///etc\x1b\\link", "link"),
        ("a\x1bcb", "ab"),
        ("end\x1b", "end"),
        ("two\nlines\tand\rmore", "two lines and more"),
        ("\u202eright to left", "right to left"),
        ("nul\x00bell\x07del\x7fc1\x9b", "nulbelldelc1"),
        ("lone \udcff surrogate", "lone  surrogate"),
        ("größe 表", "größe 表"),
    ],
)
def test_control_characters_are_removed_and_text_is_kept(text: str, printable: str) -> None:
    assert compute_printable(text) == printable


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    assert compute_cells("ab") == 2
    assert compute_cells("表") == 2
    assert compute_cells("e\u0301") == 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("::set-output name=x::y", ": :set-output name=x::y"),
        ("  ::error file=a::b", "  : :error file=a::b"),
        ("::", ": :"),
        ("note: ##[add-mask]x", "note: ## [add-mask]x"),
        ("##vso[task.setvariable variable=x]y", "## vso[task.setvariable variable=x]y"),
        ("case a::b[1] # note", "case a::b[1] # note"),
        ("## heading", "## heading"),
    ],
)
def test_no_line_is_a_command_of_a_workflow(line: str, text: str) -> None:
    assert compute_without_commands(line) == text
