"""`call_in_place` in random nestings of JAX's transformations equals plain jnp and is fresh with every jax-triton."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rotation import current_turn, take_turns
from tools.documents import ROOT
from tools.nestings.checking import Outcome, has_refs, iterate_outcomes
from tools.nestings.drawing import draw_line
from tools.nestings.forms import Plain, Real

DAILY = range(12)
NIGHTLY = (1000, 500)
ONCE_ACCUSED = (17, 1004, 1151, 1184, 1220, 1370)
"""JAX moves none of their Refs, although the values it saves for a derivative, and those it recomputes, are not in the
written order.
"""
CALLS = Path(__file__).with_name("test_calls_in_place.py")


def list_forms(seed: int) -> set[str]:
    return set(re.findall(r"\bt\.(\w+)\(", draw_line(seed, refs=False)))


def test_the_daily_programs_contain_every_form() -> None:
    forms = {name for name in vars(Real) if not name.startswith("_")}
    assert set().union(*map(list_forms, DAILY)) == forms
    assert forms <= vars(Plain).keys()


def test_a_seed_always_draws_the_same_program_and_few_seeds_repeat_one() -> None:
    lines = [draw_line(seed, refs=True) for seed in range(300)]
    assert lines == [draw_line(seed, refs=True) for seed in range(300)]
    assert len({line.partition(", ")[2] for line in lines}) > 290


def test_a_nesting_is_equal_to_plain_jnp_and_fresh(tmp_path: Path) -> None:
    seeds = take_turns(DAILY, current_turn())
    outcomes = list(iterate_outcomes(seeds, tmp_path, refs=has_refs()))
    assert len(outcomes) == len(seeds)
    assert [one for one in outcomes if one != Outcome(name=one.name, fault="", error=one.error)] == []


@pytest.mark.parametrize("seeds", [ONCE_ACCUSED[3:4], pytest.param(ONCE_ACCUSED, marks=pytest.mark.nightly)])
def test_a_ref_that_jax_did_not_move_is_not_blamed(seeds: Sequence[int], tmp_path: Path) -> None:
    outcomes = list(iterate_outcomes(seeds, tmp_path, refs=False))
    assert len(outcomes) == len(seeds)
    assert [one for one in outcomes if one != Outcome(name=one.name, fault="", error=one.error)] == []


def test_the_newest_jax_triton_agrees(plain_python: Path, tmp_path: Path) -> None:
    count = len(DAILY) // 2  # the nightly run has 500
    assert run_nestings(plain_python, tmp_path, DAILY.start, count).endswith(f"{count} right")


@pytest.mark.nightly
@pytest.mark.parametrize("newest", [False, True])
def test_500_nestings_are_equal_and_fresh(newest: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    python = request.getfixturevalue("plain_python") if newest else Path(sys.executable)
    assert run_nestings(python, tmp_path, *NIGHTLY).endswith("0 fresh and wrong, 500 right")


def run_nestings(python: Path, folder: Path, first: int, count: int) -> str:
    """Returns the summary line without its machine-dependent part; the tool prints nothing else if all are right."""
    words = (str(python), "-m", "tools.nestings", str(first), str(count), str(folder))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    return line.partition(";")[0]


def test_the_tests_of_calls_pass_with_the_newest_jax_triton(plain_python: Path, tmp_path: Path) -> None:
    shutil.copy(CALLS, tmp_path)
    words = (str(plain_python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), CALLS.name)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def test_in_place_imports_nothing_else_from_this_package() -> None:
    text = (ROOT / "ligerdiag" / "in_place.py").read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    assert imported == {"collections", "importlib", "inspect", "jax", "numpy", "typing", "warnings"}
