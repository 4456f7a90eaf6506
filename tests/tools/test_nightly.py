"""Each pattern of tests/nightly.py and tests/rotation.py matches a test, and each turn of a rotation has its share."""

import re
from pathlib import Path

import pytest

from tests import rotation
from tests.case_levels import list_due
from tests.nightly import PATTERNS, is_nightly

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("pattern", [*PATTERNS, *rotation.PATTERNS])
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


def test_each_set_of_parameters_has_one_turn_and_each_turn_a_quarter() -> None:
    names = [f"tests/replay/opcodes/test_dot.py::test_a_product[{number}]" for number in range(300)]
    ready = [
        [name for number, name in enumerate(names) if not rotation.waits(name, number, turn)]
        for turn in range(rotation.TURNS)
    ]
    assert sorted(name for turn in ready for name in turn) == sorted(names)
    assert [len(turn) for turn in ready] == [75] * rotation.TURNS
    assert not any(rotation.waits(name, number, None) for number, name in enumerate(names))
    others = ("tests/hazards/test_examples.py::test_a_bad_example[LD001-0]", "tests/security/test_page.py::test_a[b]")
    assert not any(rotation.waits(name, 0, turn) for name in others for turn in range(rotation.TURNS))


def test_each_turn_has_at_least_one_of_the_things_of_a_test() -> None:
    assert [rotation.take_turns("abc", turn) for turn in range(rotation.TURNS)] == [("a",), ("b",), ("c",), ("a",)]
    assert [rotation.take_turns("abcdef", turn) for turn in (0, 3, None)] == [("a", "e"), ("d",), tuple("abcdef")]


def test_each_daily_case_has_one_turn_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rotation.VARIABLE, rotation.ALL)
    daily = list_due()
    shares: list[set[str]] = []
    for turn in range(rotation.TURNS):
        monkeypatch.setenv(rotation.VARIABLE, str(turn))
        shares.append(set(list_due()))
    assert set.union(*shares) == set(daily)
    always = set.intersection(*shares)
    waiting = [share - always for share in shares]
    assert len(always) > 60
    assert sum(map(len, waiting)) + len(always) == len(daily)
    assert min(map(len, waiting)) > 3


def test_the_commit_decides_whose_turn_it_is_unless_the_environment_says_so(tmp_path: Path) -> None:
    first, again = (rotation.choose_turn({}, ROOT) for _ in range(2))
    assert first == again
    assert rotation.choose_turn({rotation.VARIABLE: "2"}, ROOT) == 2
    assert rotation.choose_turn({}, tmp_path) == 0
