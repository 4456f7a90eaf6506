"""Predictions in which single hidden writes are missed, on `product_after_a_loop.py`.

By hand: `h` in the loop is 1.43 / 4 * d.T @ d with d = 2 x, which the first kernel leaves. Readers that missed this write
would have d = x, and so a quarter of `h`. Nobody reads what the second kernel leaves in `h`. XLA takes the signs of `g`
before the third kernel doubles it, which keeps them.
"""

from pathlib import Path

import numpy as np
import pytest

from ligerdiag import api
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.replay.dump_replay import draw_parameters
from ligerdiag.replay.ops.products import multiply
from ligerdiag.replay.runs.case_run import load_programs
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.partial_run import compare_partly

PROGRAM = Path(__file__).parents[1] / "analysis" / "programs" / "product_after_a_loop.py"


@pytest.fixture(scope="module")
def case(shared_cache: Path) -> CaseReport:
    (found,) = api.check(api.CheckOptions(selectors=(str(PROGRAM),), cache_directory=shared_cache)).cases
    return found


def test_a_prediction_misses_the_named_writes_and_no_other(case: CaseReport, shared_cache: Path) -> None:
    artifact = load_artifact(Path(case.artifact))
    first, second, _ = inspect_artifact(artifact, effects_cache=shared_cache / "effects").write_places.values()
    programs = load_programs(artifact)
    arguments = draw_parameters(programs.program, 1)
    x = np.asarray(arguments[programs.signature.inputs.index("x")], np.float64)
    in_loop, before = 1.43 * (x.T @ x).sum(), x.sum()
    for missed, total in (({first}, in_loop / 4 + before), ({second}, in_loop + before)):
        lost = {"total": frozenset(missed)}
        numbers = compare_partly(programs, arguments, KernelRunner(), lost, multiply)["total"]
        assert numbers.attribution is Attribution.FRESH
        away = abs(total - in_loop - before) / abs(in_loop + before)
        assert numbers.distance == pytest.approx(away, rel=1e-3, abs=1e-6)


def test_right_numbers_do_not_contradict_a_stale_verdict_if_the_missed_write_does_not_show(case: CaseReport) -> None:
    assert case.outputs["signs"] is Verdict.STALE
    assert case.replay is not None
    numbers, partial = case.replay.outputs["signs"], case.replay.partial["signs"]
    assert (numbers.attribution, partial.distance) == (Attribution.FRESH, 0.0)
    assert numbers.distance > numbers.tolerance  # if no write were seen, `doubled` would be x
    assert not case.disagreements


def test_a_sum_of_an_argument_and_a_value_that_xla_simplified_is_right(case: CaseReport) -> None:
    """XLA computes the mean over one iteration without a division; `w` is no term of it."""
    assert case.outputs["product"] is Verdict.FRESH
