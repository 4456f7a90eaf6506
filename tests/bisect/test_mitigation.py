"""The mitigations of a small fused linear cross entropy, compiled and replayed."""

import re
from pathlib import Path

import pytest

from ligerdiag.bisect import mitigation
from ligerdiag.bisect.mitigation import bisect_mitigation
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.errors import CaseError, InputError
from ligerdiag.model.findings import Attribution, DeviceOutput, DeviceRun, Verdict
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.text import render_bytes
from ligerdiag.toolchains.gpu_targets import Target
from tests.bisect.conftest import Load, make_options
from tests.bisect.programs import TWO_READERS, make_file

ROOT = Path(__file__).parents[2]
CASE = f"{ROOT}/cases/flce_modes.py::flce_modes[hidden-float32-True-1-4-32-16]"
NO_KERNEL = make_file("no_kernel", 'return {"sum": x + y}')
RAISES = make_file("raises", 'return {"sum": {}["no such key"]}')
pytestmark = pytest.mark.xdist_group("bisect")

RUNGS = ["hidden", "trivial", "barrier", "aliased", "out_of_place"]


def climb(runner: TrialRunner, target: Target, selector: str = CASE, **options: object) -> Bisection:
    (case,) = runner.discover([selector])
    return bisect_mitigation(runner, case, target, make_options(Axis.MITIGATION, **options))


@pytest.fixture(scope="module")
def ladder(runner: TrialRunner, h100: Target) -> Bisection:
    return climb(runner, h100, replay=True)


def test_each_mitigation_has_verdicts_confirmed_by_numbers(ladder: Bisection) -> None:
    assert [row.label for row in ladder.rows] == RUNGS
    assert [row.word for row in ladder.rows] == ["wrong", *["right"] * 4]
    assert {row.replay for row in ladder.rows} == {"agrees"}
    assert Verdict.STALE in ladder.rows[0].outputs.values()
    assert not ladder.is_unsettled


def test_each_mitigation_has_its_cost(ladder: Bisection) -> None:
    counts = {row.label: row.cells["instructions"] for row in ladder.rows}
    sizes = {row.label: int(row.cells["bytes"]) for row in ladder.rows}
    assert min(sizes.values()) > 4 * 32 * 16, "the weight's gradient at least"
    least = [row.cells["memory"] for row in ladder.rows if int(row.cells["bytes"]) == min(sizes.values())]
    assert set(least) == {render_bytes(min(sizes.values()))}
    assert re.fullmatch(r"\+\d+", counts["trivial"]), "an addition and a subtraction more"
    assert sum(not count.startswith("+") for count in counts.values()) >= 1
    worst = float(ladder.rows[0].cells["worst error"].split()[0])
    assert worst > 1
    assert float(ladder.rows[3].cells["worst error"].split()[0]) < 1e-5
    assert float(ladder.rows[0].cells["error of loss"]) < 1e-5


def test_the_cheapest_right_mitigation_is_the_answer_and_each_is_described(ladder: Bisection) -> None:
    assert [row.label for row in ladder.rows if row.is_answer] == ["aliased"]
    assert ladder.answers[0] == "right: `trivial`, `barrier`, `aliased` and `out_of_place`; `aliased` is the cheapest"
    assert ladder.answers[1].startswith("`hidden` is wrong: ")
    assert [answer.split("`")[1] for answer in ladder.answers[1:]] == RUNGS


def test_without_numbers_a_mitigation_that_may_be_lossy_is_not_the_cheapest(runner: TrialRunner, h100: Target) -> None:
    found = climb(runner, h100)
    assert "`trivial` is right and may lose precision" in found.answers[2]
    assert found.answers[0].startswith("right: `barrier`, `aliased` and `out_of_place`")


def test_the_seed_has_two_mitigations_and_the_missing_ones_are_named(runner: TrialRunner, h100: Target) -> None:
    found = climb(runner, h100, f"{ROOT}/cases/seed_flce.py::seed_flce[True-float32-True-1-4-32-16]")
    assert [row.label for row in found.rows] == RUNGS[:2]
    assert any("has no case for `barrier`, `aliased` and `out_of_place`" in note for note in found.notes)
    assert found.answers[0] == "no mitigation is right without losing precision"


def test_times_on_a_device_choose_the_cheapest_exact_mitigation(
    runner: TrialRunner, h100: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine has no GPU: the device's runs are hand-written, everything else is real."""
    times = dict(zip(RUNGS, (0.5, 0.4, 0.7, 0.8, 0.6), strict=True))
    attributions = {"hidden": Attribution.STALE, "trivial": Attribution.LOSSY, "barrier": Attribution.STALE}

    def run(runner: TrialRunner, cases: object, options: object) -> dict[str, DeviceRun]:
        del runner, options
        return {case.id: make_run(case.params[0]) for case in cases}  # type: ignore[attr-defined]

    def make_run(name: str) -> DeviceRun:
        output = DeviceOutput(errors=(0.01,), attribution=attributions.get(name, Attribution.FRESH), tolerance=0.02)
        return DeviceRun(
            device="GPU", count=1, runs=3, outputs={"w": output}, milliseconds=times[name], timed_runs=7
        )  # fmt: skip

    monkeypatch.setattr(mitigation, "require_device", lambda options: None)
    monkeypatch.setattr(mitigation, "run_on_device", run)
    found = climb(runner, h100, device=True)
    assert found.columns[-2:] == ("on the GPU", "ms")
    assert [row.cells["ms"] for row in found.rows] == ["0.5", "0.4", "0.7", "0.8", "0.6"]
    assert [row.label for row in found.rows if row.is_answer] == ["out_of_place"]
    assert "`trivial` is right and loses precision (0.01 w)" in found.answers[2]
    assert "`barrier` is right according to its schedule, but wrong on the GPU" in found.answers[3]
    assert any("median of 7 executions on GPU" in note for note in found.notes)


def test_a_case_without_siblings_is_compared_with_what_bisect_can_do_to_it(
    runner: TrialRunner, h100: Target, load: Load
) -> None:
    found = bisect_mitigation(runner, load(TWO_READERS), h100, make_options(Axis.MITIGATION, replay=True))
    words = [(row.label, row.word) for row in found.rows]
    assert words == [("as written", "wrong"), ("trivial", "right"), ("barrier", "right"), ("aliased", "right")]
    assert "`barrier` and `aliased`" in found.answers[0]
    assert any('CASES = tuple(Case(name="two_readers", params=(word,)' in note for note in found.notes)
    assert not any("has no `barrier`" in note for note in found.notes)
    named = load(TWO_READERS.replace('name="two_readers"', 'name="two_readers", mitigation="hidden"'))
    again = bisect_mitigation(runner, named, h100, make_options(Axis.MITIGATION))
    assert [row.label for row in again.rows] == ["hidden", "trivial", "barrier", "aliased"]


def test_a_case_without_a_hidden_write_has_one_mitigation(runner: TrialRunner, h100: Target, load: Load) -> None:
    found = bisect_mitigation(runner, load(NO_KERNEL), h100, make_options(Axis.MITIGATION))
    assert [row.label for row in found.rows] == ["as written"]
    assert any("there is nothing to cure" in note for note in found.notes)


def test_a_case_that_does_not_trace_is_the_user_s_error(runner: TrialRunner, h100: Target, load: Load) -> None:
    with pytest.raises(CaseError, match="KeyError"):
        bisect_mitigation(runner, load(RAISES), h100, make_options(Axis.MITIGATION))


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_a_missing_device_is_an_input_error_before_anything_is_compiled(runner: TrialRunner, h100: Target) -> None:
    trials = runner.trials
    with pytest.raises(InputError, match="needs an NVIDIA GPU"):
        climb(runner, h100, device=True)
    with pytest.raises(InputError, match="not those of `seed`"):
        climb(runner, h100, device=True, toolchain="seed")
    assert runner.trials == trials
