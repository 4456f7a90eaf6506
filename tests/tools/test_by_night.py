"""Each pattern of tests/by_night.py still means a test."""

import re
from pathlib import Path

import pytest

from tests.by_night import PATTERNS, is_by_night

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_a_function_that_is_there(pattern: str) -> None:
    files, _, name = pattern.partition("::")
    found = list(ROOT.glob(files.partition("[[]")[0]))
    assert found
    beginning = re.split(r"[*\[]", name)[0]
    assert any(f"def {beginning}" in path.read_text(encoding="utf-8") for path in found if path.suffix == ".py")


def test_a_bracket_is_a_bracket() -> None:
    assert is_by_night("tests/docs/test_commands.py::test_a_page_prints_what_it_shows_and_ends_as_it_says[tutorial.md]")
    assert not is_by_night(
        "tests/docs/test_commands.py::test_a_page_prints_what_it_shows_and_ends_as_it_says[README.md]"
    )
