"""One small case on several GPUs, compiled for each."""

from pathlib import Path

import pytest

from ligerdiag.bisect.targets import bisect_targets
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.errors import InputError
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.toolchains.gpu_targets import COMPARED, Target
from tests.bisect.conftest import Load, make_options
from tests.bisect.programs import TWO_READERS, UNTRACEABLE

ROOT = Path(__file__).parents[2]
CASE = f"{ROOT}/cases/flce_modes.py::flce_modes[hidden-float32-True-1-4-32-16]"

pytestmark = pytest.mark.xdist_group("bisect")


@pytest.fixture(scope="module")
def gpus(runner: TrialRunner, h100: Target) -> Bisection:
    (case,) = runner.discover([CASE])
    return bisect_targets(runner, case, h100, make_options(Axis.TARGETS, targets=("h100", "h200", "a100")))


def test_each_gpu_has_a_row_that_says_whether_it_runs_another_s_program(gpus: Bisection) -> None:
    assert [row.label for row in gpus.rows] == ["h100", "h200", "a100"]
    assert [row.cells["capability"] for row in gpus.rows] == ["9.0", "9.0", "8.0"]
    assert [row.cells["program"] for row in gpus.rows] == ["its own", "as h100", "its own"]
    assert gpus.rows[0].outputs == gpus.rows[1].outputs != gpus.rows[2].outputs


def test_the_pass_and_the_instructions_at_which_two_compiles_diverge_are_named(gpus: Bisection) -> None:
    change, where = gpus.answers
    assert change.startswith("from `h100` to `a100`: ")
    assert "stale -> latent" in change
    assert where.startswith(
        "`h100` and `a100` diverge at `latency-hiding-scheduler` (pipeline `latency-hiding-scheduler`), which changes the"
        " module for `h100` alone; the first instruction that differs is `%"
    )
    assert not gpus.is_unsettled


def test_gpus_with_the_same_verdicts_share_an_answer_and_a_single_name_means_the_usual_four(
    runner: TrialRunner, load: Load, h100: Target
) -> None:
    found = bisect_targets(runner, load(TWO_READERS), h100, make_options(Axis.TARGETS))
    assert sorted(row.label for row in found.rows) == sorted(COMPARED)
    assert found.rows[0].label == "h100"
    assert len(found.answers) == 1
    assert found.answers[0].startswith("the verdicts are the same on `h100`, ")


def test_a_note_names_the_fields_of_a_description_that_xla_does_not_know(
    runner: TrialRunner, load: Load, h100: Target, tmp_path: Path
) -> None:
    misspelt = tmp_path / "misspelt.pbtxt"
    misspelt.write_text(h100.description.replace("  core_count:", "  core_cuont:"))
    options = make_options(Axis.TARGETS, targets=("h100", str(misspelt)))
    found = bisect_targets(runner, load(TWO_READERS), h100, options)
    (note,) = [note for note in found.notes if "does not know" in note]
    assert note.endswith("compiles for `misspelt` without fields that it does not know: `gpu_device_info.core_cuont`")


def test_a_target_that_cannot_be_analysed_is_named_and_the_answer_is_incomplete(
    runner: TrialRunner, load: Load, h100: Target
) -> None:
    options = make_options(Axis.TARGETS, targets=("h100", "a100"))
    found = bisect_targets(runner, load(UNTRACEABLE), h100, options)
    assert found.is_unsettled
    assert found.answers == ()
    assert found.notes == ("could not be analysed for `h100` and `a100`, see the table",)


def test_an_unknown_target_and_a_single_one_are_input_errors(runner: TrialRunner, load: Load, h100: Target) -> None:
    case = load(TWO_READERS)
    with pytest.raises(InputError, match="but got `h900`"):
        bisect_targets(runner, case, h100, make_options(Axis.TARGETS, targets=("h100", "h900")))
    same = (str(h100.path), "h100")
    with pytest.raises(InputError, match="expected at least two targets but got only `h100`"):
        bisect_targets(runner, case, h100, make_options(Axis.TARGETS, targets=same))
