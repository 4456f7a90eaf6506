"""Each pattern of tests/nightly.py matches a test."""

import re
from pathlib import Path

import pytest

from tests.nightly import PATTERNS, is_nightly

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_matches_an_existing_test(pattern: str) -> None:
    files, _, name = pattern.partition("::")
    found = list(ROOT.glob(files.partition("[[]")[0]))
    assert found
    beginning = re.split(r"[*\[]", name)[0]
    assert any(f"def {beginning}" in path.read_text(encoding="utf-8") for path in found if path.suffix == ".py")


def test_brackets_in_ids_match_literally() -> None:
    assert is_nightly(
        "tests/docs/test_commands.py::test_a_page_has_the_output_and_the_exit_code_that_it_shows[tutorial.md]"
    )
    assert not is_nightly(
        "tests/docs/test_commands.py::test_a_page_has_the_output_and_the_exit_code_that_it_shows[README.md]"
    )
