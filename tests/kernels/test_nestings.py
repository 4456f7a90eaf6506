"""`call_in_place` in random nestings of JAX's transformations is equal to plain jnp, and fresh, with every jax-triton."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.documents import ROOT
from tools.nestings.checking import Outcome, has_refs, iterate_outcomes
from tools.nestings.drawing import draw_line
from tools.nestings.forms import Plain, Real

BY_DAY = range(12)
BY_NIGHT = (1000, 500)
ONCE_ACCUSED = (17, 1004, 1151, 1184, 1220, 1370)
"""JAX moves no Ref of theirs; what it saves for a derivative, and what it computes again, is other than as written."""
CALLS = Path(__file__).with_name("test_calls_in_place.py")


def list_forms(seed: int) -> set[str]:
    return set(re.findall(r"\bt\.(\w+)\(", draw_line(seed, refs=False)))


def test_the_programs_of_the_day_have_every_form_in_them() -> None:
    forms = {name for name in vars(Real) if not name.startswith("_")}
    assert set().union(*map(list_forms, BY_DAY)) == forms
    assert forms <= vars(Plain).keys()


def test_a_seed_always_draws_the_same_and_few_draw_what_another_drew() -> None:
    lines = [draw_line(seed, refs=True) for seed in range(300)]
    assert lines == [draw_line(seed, refs=True) for seed in range(300)]
    assert len({line.partition(", ")[2] for line in lines}) > 290


def test_a_nesting_is_equal_to_plain_jnp_and_fresh(tmp_path: Path) -> None:
    outcomes = list(iterate_outcomes(BY_DAY, tmp_path, refs=has_refs()))
    assert len(outcomes) == len(BY_DAY)
    assert [one for one in outcomes if one != Outcome(name=one.name, fault="", error=one.error)] == []


@pytest.mark.parametrize("seeds", [ONCE_ACCUSED[3:4], pytest.param(ONCE_ACCUSED, marks=pytest.mark.nightly)])
def test_what_jax_did_not_move_is_not_accused(seeds: Sequence[int], tmp_path: Path) -> None:
    outcomes = list(iterate_outcomes(seeds, tmp_path, refs=False))
    assert len(outcomes) == len(seeds)
    assert [one for one in outcomes if one != Outcome(name=one.name, fault="", error=one.error)] == []


def test_so_it_is_with_the_newest_jax_triton(plain_python: Path, tmp_path: Path) -> None:
    assert run_nestings(plain_python, tmp_path, BY_DAY.start, len(BY_DAY)).endswith(f"{len(BY_DAY)} right")


@pytest.mark.nightly
@pytest.mark.parametrize("newest", [False, True])
def test_so_it_is_in_500(newest: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    python = request.getfixturevalue("plain_python") if newest else Path(sys.executable)
    assert run_nestings(python, tmp_path, *BY_NIGHT).endswith("0 fresh and wrong, 500 right")


def run_nestings(python: Path, folder: Path, first: int, count: int) -> str:
    """Returns the line of figures without what depends on the machine; nothing is printed before it, if all are right."""
    words = (str(python), "-m", "tools.nestings", str(first), str(count), str(folder))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    return line.partition(";")[0]


def test_a_call_means_the_same_with_the_newest_jax_triton(plain_python: Path, tmp_path: Path) -> None:
    shutil.copy(CALLS, tmp_path)
    words = (str(plain_python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), CALLS.name)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_file_needs_nothing_else_of_this_package() -> None:
    text = (ROOT / "ligerdiag" / "in_place.py").read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    assert imported == {"collections", "importlib", "inspect", "jax", "numpy", "typing", "warnings"}
