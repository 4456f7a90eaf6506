"""The real comparison worker on results that tests made: replayed schedules, unchanged or deliberately corrupted."""

from math import isnan
from typing import Any

import numpy as np
import pytest

from ligerdiag.device.device_jobs import DEVICE_TOLERANCE, ComparisonAnswer
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.findings import FAR, Attribution, ReplayState
from ligerdiag.replay.runs.attribution import compute_error
from tests.device.conftest import DRAWS, Bench
from tests.device.replayed import Arrays

FRESH, STALE, LOSSY, NEITHER = Attribution.FRESH, Attribution.STALE, Attribution.LOSSY, Attribution.NEITHER
OUTPUTS = {"missed": STALE, "largest": NEITHER, "seen": FRESH, "sign": FRESH, "total": FRESH}
"""The outputs of programs/readers.py."""


def run(bench: Bench, case_id: str = "readers") -> list[Arrays]:
    """Returns the results of a device that follows its schedule; copies that tests may modify."""
    _, draws = bench.replay(case_id)
    return [{name: array.copy() for name, array in draw["actual"].items()} for draw in draws]


def get_attributions(answer: ComparisonAnswer) -> dict[str, Attribution]:
    return {name: output.attribution for name, output in answer.outputs.items()}


def add_noise(array: Any, size: float) -> Any:
    """Returns the array with noise of this relative norm."""
    noise = np.random.default_rng(0).standard_normal(array.shape).astype(array.dtype)
    return array + noise * np.float32(size * np.linalg.norm(array) / np.linalg.norm(noise))


@pytest.fixture(scope="module")
def unchanged(bench: Bench) -> ComparisonAnswer:
    return bench.compare("readers", run(bench))


@pytest.mark.parametrize("case_id", ["readers", "referenced"])
def test_a_device_that_follows_its_schedule_gets_the_attributions_of_the_replay(case_id: str, bench: Bench) -> None:
    record, _ = bench.replay(case_id)
    assert record.state is ReplayState.DONE
    answer = bench.compare(case_id, run(bench, case_id))
    assert (
        get_attributions(answer) == {name: numbers.attribution for name, numbers in record.outputs.items()} == OUTPUTS
    )
    assert answer.not_covered == ""


def test_such_a_device_equals_its_replay_and_has_an_error_for_every_draw(
    bench: Bench, unchanged: ComparisonAnswer
) -> None:
    _, draws = bench.replay("readers")
    for name, output in unchanged.outputs.items():
        assert output.replay_error == 0
        assert output.errors == tuple(compute_error(draw["actual"][name], draw["intended"][name]) for draw in draws)
        assert len(output.errors) == DRAWS


def test_the_draws_differ(bench: Bench) -> None:
    _, draws = bench.replay("readers")
    assert len({draw["actual"]["seen"].tobytes() for draw in draws}) == DRAWS


def test_the_distance_is_that_of_the_least_decisive_draw(bench: Bench, unchanged: ComparisonAnswer) -> None:
    _, draws = bench.replay("readers")
    for name, output in unchanged.outputs.items():
        assert output.distance == min(compute_error(draw["stale"][name], draw["intended"][name]) for draw in draws)
    assert unchanged.outputs["total"].distance == 0
    # without the kernel it is half of the intended value
    assert unchanged.outputs["seen"].distance == pytest.approx(0.5)


def test_an_output_that_missed_the_kernel_is_stale_and_no_other(bench: Bench) -> None:
    _, draws = bench.replay("readers")
    results = run(bench)
    for result, draw in zip(results, draws, strict=True):
        result["seen"] = draw["stale"]["seen"]
    answer = bench.compare("readers", results)
    assert get_attributions(answer) == {**OUTPUTS, "seen": STALE}
    assert answer.outputs["seen"].errors == pytest.approx([0.5] * DRAWS)
    assert answer.outputs["seen"].replay_error == pytest.approx(1.0), "relative to what the device has, the half of it"


@pytest.mark.parametrize("draw", range(DRAWS))
def test_one_draw_that_is_stale_is_enough(draw: int, bench: Bench) -> None:
    _, draws = bench.replay("readers")
    results = run(bench)
    results[draw]["sign"] = draws[draw]["stale"]["sign"]
    output = bench.compare("readers", results).outputs["sign"]
    assert output.attribution is STALE
    assert [number for number, error in enumerate(output.errors) if error] == [draw]


@pytest.mark.parametrize(("name", "worst"), [("seen", NEITHER), ("total", NEITHER), ("missed", STALE)])
def test_a_nan_in_one_draw_is_neither_unless_another_draw_is_worse(name: str, worst: Attribution, bench: Bench) -> None:
    results = run(bench)
    results[1][name].flat[-1:] = np.nan
    answer = bench.compare("readers", results)
    assert get_attributions(answer) == {**OUTPUTS, name: worst}
    output = answer.outputs[name]
    assert [isnan(error) for error in output.errors] == [False, True, False]
    assert output.replay_error is not None
    assert isnan(output.replay_error), "worse than any number"


def test_another_kind_of_rounding_is_still_fresh(bench: Bench) -> None:
    results = run(bench)
    for result in results:
        result["seen"] = add_noise(result["seen"], 1e-4)
        result["missed"] = add_noise(result["missed"], 1e-4)
    answer = bench.compare("readers", results)
    assert get_attributions(answer) == OUTPUTS
    assert answer.outputs["seen"].errors == pytest.approx([1e-4] * DRAWS, rel=1e-2)
    assert answer.outputs["seen"].replay_error == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize(("case_id", "name"), [("readers", "seen"), ("constant[hidden]", "logits")])
@pytest.mark.parametrize(("size", "attribution"), [(0.9, FRESH), (1.1, LOSSY)])
def test_the_tolerance_is_that_of_a_device(
    case_id: str, name: str, size: float, attribution: Attribution, bench: Bench
) -> None:
    results = run(bench, case_id)
    results[0][name] = add_noise(results[0][name], size * DEVICE_TOLERANCE)
    output = bench.compare(case_id, results).outputs[name]
    assert (output.attribution, output.tolerance) == (attribution, DEVICE_TOLERANCE)


def test_an_integer_that_is_off_by_one_is_not_rounding(bench: Bench) -> None:
    results = run(bench)
    results[0]["sign"].flat[0] += 2
    output = bench.compare("readers", results).outputs["sign"]
    assert output.attribution is not FRESH
    assert output.errors[0] == 1 / results[0]["sign"].size


def test_roundings_to_tf32_that_the_function_amplifies_decide_nothing(bench: Bench) -> None:
    results = run(bench, "amplifying")
    for result in results:
        x = (result["argument"].view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)  # cut, where ligerdiag rounds
        result["sines"] = np.sin(np.float32(200) * (x @ x))
    output = bench.compare("amplifying", results).outputs["sines"]
    assert output.attribution is Attribution.UNDECIDED
    assert max(output.errors) > FAR


def test_another_result_of_a_product_that_amplifies_nothing_is_neither(bench: Bench) -> None:
    results = run(bench, "amplifying")
    for result in results:
        result["argument"] = -result["argument"]
    assert get_attributions(bench.compare("amplifying", results))["argument"] is NEITHER


def test_where_the_buffer_assignment_contradicts_itself_program_order_alone_is_compared(bench: Bench) -> None:
    right, mixed = (1, 1, 1, 2, 3, 4), (1, 1, 1, 2, 4, 4)  # XLA puts two donated numbers into one buffer
    for results, fourth in ((right, FRESH), (mixed, NEITHER)):
        device = {str(place): np.array(number, np.float32) for place, number in enumerate(results)}
        outputs = bench.compare("donated", [device]).outputs
        assert outputs["4"].attribution is fourth
        assert outputs["5"].attribution is FRESH
        assert outputs["4"].replay_error is None, "the schedule was not replayed"


def test_precision_is_judged_by_the_reference_and_only_if_the_output_is_fresh(bench: Bench) -> None:
    answer = bench.compare("another", run(bench, "another"))
    # `total` is another number: no precision was lost there
    assert get_attributions(answer) == {**OUTPUTS, "seen": LOSSY}
    assert answer.outputs["seen"].errors == (0.0,) * DRAWS, "the errors are those against program order"


@pytest.mark.parametrize(("nearer", "attribution"), [(1, LOSSY), (DRAWS, FRESH)])
def test_each_draw_has_its_own_reference(nearer: int, attribution: Attribution, bench: Bench) -> None:
    results = run(bench, "another")
    for result in results[:nearer]:
        result["seen"] *= np.float32(1.015)  # within the tolerance of program order and of the reference
    assert bench.compare("another", results).outputs["seen"].attribution is attribution


def test_a_kernel_that_overwrites_a_constant_ends_the_comparison_with_the_first_draw(bench: Bench) -> None:
    results = run(bench, "constant[hidden]")
    for later in results[1:]:
        for array in later.values():
            array[...] = np.nan
    answer = bench.compare("constant[hidden]", results)
    assert get_attributions(answer) == {"loss": FRESH, "logits": FRESH}
    assert {len(output.errors) for output in answer.outputs.values()} == {1}


def test_a_program_that_replay_does_not_compute_is_not_compared(bench: Bench) -> None:
    answer = bench.compare("transform", [{"output": np.zeros((8, 16), np.float32)}])
    assert answer.outputs == {}
    assert "fft" in answer.not_covered


def test_unreadable_results_fail_only_their_case(bench: Bench) -> None:
    with pytest.raises(LigerdiagError, match="the device's results for set 1 of the random arguments cannot be read"):
        bench.compare("readers", run(bench)[:1], draws=2)
    cut = [{**result, "missed": result["missed"][:1]} for result in run(bench)]
    with pytest.raises(LigerdiagError, match="the device's results for set 0 of the random arguments cannot be read"):
        bench.compare("readers", cut)
    assert get_attributions(bench.compare("readers", run(bench)[:1])) == OUTPUTS


def test_a_missing_case_is_named(bench: Bench) -> None:
    with pytest.raises(InputError, match="has no case `gone` any more"):
        bench.compare("readers", [], case_id="gone")
