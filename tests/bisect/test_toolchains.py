"""The versions that changed a verdict: failing requests, and the seed's row under real toolchains."""

import os
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.toolchains import bisect_toolchains, list_usual
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.report.comparisons import Axis
from ligerdiag.toolchains.environments import has_environment, locate_environment
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.toolchains.toolchain_table import find_spec
from tests.bisect.conftest import Load, ignore, make_options
from tests.bisect.programs import TWO_READERS

CASES = Path(__file__).parents[2] / "cases"


def test_missing_environments_are_not_created_silently(runner: TrialRunner, load: Load, h100: Target) -> None:
    options = make_options(Axis.TOOLCHAINS, toolchains=("seed", "default", "0.6"))
    with pytest.raises(InputError) as caught:
        bisect_toolchains(runner, load(TWO_READERS), h100, options)
    assert str(caught.value) == (
        "toolchains `seed` and `0.6` must be made first, which takes some GB each:"
        " `ligerdiag toolchains create seed` and `ligerdiag toolchains create 0.6`, or `--create`"
    )
    assert not (runner.cache.root / "toolchains").exists()


def test_with_only_the_default_toolchain_there_is_nothing_to_compare(
    runner: TrialRunner, load: Load, h100: Target
) -> None:
    with pytest.raises(InputError, match="`ligerdiag toolchains create seed`"):
        bisect_toolchains(runner, load(TWO_READERS), h100, make_options(Axis.TOOLCHAINS))
    only_one = make_options(Axis.TOOLCHAINS, toolchains=("default", "default"))
    with pytest.raises(InputError, match="expected at least two toolchains but got `default`"):
        bisect_toolchains(runner, load(TWO_READERS), h100, only_one)


@pytest.mark.parametrize(
    ("installed", "before", "after"),
    [("0.11.0", "0.10", "0.11"), ("0.11.2", "0.11", "0.12"), ("0.12.dev1", "0.11", "0.12"), ("0.13.0", "0.12", "")],
)
def test_the_installed_versions_are_tried_in_their_place(installed: str, before: str, after: str, h100: Target) -> None:
    names = list_usual(h100, installed)
    place = names.index("default")
    assert (names[place - 1], "".join(names[place + 1 : place + 2])) == (before, after)


def test_an_unknown_toolchain_is_named(runner: TrialRunner, load: Load, h100: Target) -> None:
    options = make_options(Axis.TOOLCHAINS, toolchains=("default", "jaxx"))
    with pytest.raises(InputError, match=r"expected a toolchain of .* but got `jaxx`"):
        bisect_toolchains(runner, load(TWO_READERS), h100, options)


def test_the_step_at_which_the_seeds_row_changed_is_named(h100: Target) -> None:
    directory = locate_environment(find_spec("seed"), Cache())
    if not has_environment(directory) and os.environ.get("LIGERDIAG_TEST_TOOLCHAINS") != "create":
        pytest.skip(f"`{directory}` is not there; LIGERDIAG_TEST_TOOLCHAINS=create makes it")
    with TrialRunner(cache=Cache(), report_progress=ignore) as runner:
        (case,) = runner.discover([f"{CASES / 'seed_flce.py'}::seed_flce[False-float32-False-1-4-32-16]"])
        options = make_options(Axis.TOOLCHAINS, toolchains=("seed", "default"), create=True)
        bisection = bisect_toolchains(runner, case, h100, options)
    old, new = bisection.rows
    now = current_toolchain().versions
    assert (old.label, old.word, old.cells["jax"], old.cells["triton"]) == ("seed", "right", "0.4.34", "3.1.0")
    assert (new.label, new.word, new.cells["jax"], new.cells["triton"]) == (
        "default",
        "wrong",
        now["jax"],
        now["triton"],
    )
    assert new.outputs["input"] is Verdict.STALE
    assert (old.is_answer, new.is_answer) == (False, True)
    (answer,) = bisection.answers
    assert answer.startswith(
        "between `seed` and `default`: `input` fresh -> stale, `weight` fresh -> latent (jax 0.4.34 ->"
    )
    assert "triton 3.1.0 -> " in answer
