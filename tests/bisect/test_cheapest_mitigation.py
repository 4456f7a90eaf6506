"""Which mitigations count as right, exact and cheap, from hand-written numbers including a device's."""

from dataclasses import replace
from math import inf, nan

import pytest

from ligerdiag.bisect.mitigation import Mitigation, find_cheapest, find_worst
from ligerdiag.bisect.trials import Outcome, Trial
from ligerdiag.model.findings import (
    Attribution,
    CutLoop,
    DeviceOutput,
    DeviceRun,
    Finding,
    OutputNumbers,
    Replay,
    ReplayState,
    Severity,
    Verdict,
)
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.toolchains.gpu_targets import load_target

CASE = CaseSpec(
    id="a", name="a", params=(), source=Source(root="/"), mesh={}, expected=None, about="", draws=""
)  # fmt: skip
FRESH = {"loss": Verdict.FRESH, "w": Verdict.FRESH}
LD012 = Finding(rule="LD012", severity=Severity.WARNING, message="rounded")


def make_mitigation(
    outputs: dict[str, Verdict] = FRESH,
    *,
    findings: tuple[Finding, ...] = (),
    replay: Replay | None = None,
    device: DeviceRun | None = None,
    instructions: int | None = None,
) -> Mitigation:
    outcome = Outcome(trial=Trial(case=CASE, target=load_target("h100")), outputs=outputs, findings=findings)
    return Mitigation(name="trivial", outcome=outcome, replay=replay, device=device, instructions=instructions)


def make_replay(attribution: Attribution, error: float, reference: float = 0.0) -> Replay:
    numbers = OutputNumbers(attribution=attribution, error=error, stale_error=1.0, distance=1.0, tolerance=1e-4)
    return Replay(state=ReplayState.DONE, outputs={"w": numbers}, reference={"w": reference})


def make_device(attribution: Attribution, *errors: float, milliseconds: float | None = None) -> DeviceRun:
    output = DeviceOutput(errors=errors, attribution=attribution, tolerance=1e-2)
    return DeviceRun(device="GPU", count=1, runs=3, outputs={"w": output}, milliseconds=milliseconds, timed_runs=20)


def test_an_error_is_the_larger_of_the_schedule_s_and_program_order_s() -> None:
    assert make_mitigation(replay=make_replay(Attribution.FRESH, 1e-7, 0.25)).errors == {"w": 0.25}
    assert make_mitigation(replay=make_replay(Attribution.STALE, 1e4, 0.25)).errors == {"w": 1e4}
    assert make_mitigation(replay=Replay(state=ReplayState.TOO_LARGE)).errors == {}
    assert make_mitigation(device=make_device(Attribution.LOSSY, 0.1, 0.3)).device_errors == {"w": 0.3}


def test_nan_is_the_worst_error() -> None:
    assert find_worst({"a": 0.1, "b": nan, "c": inf}) is not None
    assert (find_worst({"a": 0.1, "b": nan, "c": inf}) or ("",))[0] == "b"
    assert find_worst({"a": 0.1, "c": inf}) == ("c", inf)
    assert find_worst({}) is None


CUT = (CutLoop(instruction="while.1", line=None, ran=2, iterations=32),)


@pytest.mark.parametrize(
    "lossy",
    [
        make_mitigation(replay=make_replay(Attribution.LOSSY, 1e-7, 0.25)),
        make_mitigation(device=make_device(Attribution.LOSSY, 0.25)),
        make_mitigation(findings=(LD012,)),
        make_mitigation(findings=(LD012,), replay=Replay(state=ReplayState.TOO_LARGE)),
        make_mitigation(findings=(LD012,), replay=replace(make_replay(Attribution.FRESH, 1e-7), cut=CUT)),
    ],
    ids=["replay", "device", "rule alone", "rule and no numbers", "rule and the first iterations, without a reference"],
)
def test_a_mitigation_that_loses_precision_is_right_and_not_exact(lossy: Mitigation) -> None:
    assert lossy.is_right
    assert not lossy.is_exact


def test_exact_numbers_clear_the_rule_s_suspicion() -> None:
    assert make_mitigation(findings=(LD012,), replay=make_replay(Attribution.FRESH, 1e-7, 1e-7)).is_exact
    assert make_mitigation(findings=(LD012,), device=make_device(Attribution.FRESH, 1e-3)).is_exact


def test_a_latent_or_unknown_outcome_is_not_right() -> None:
    for verdict in set(Verdict) - {Verdict.FRESH}:
        assert not make_mitigation({**FRESH, "w": verdict}).is_right
    assert not make_mitigation({}).is_right


@pytest.mark.parametrize("attribution", Attribution)
def test_a_device_with_another_result_contradicts_a_fresh_schedule(attribution: Attribution) -> None:
    wrong = {Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER}
    mitigation = make_mitigation(device=make_device(attribution, 1.0))
    assert mitigation.is_right is (attribution not in wrong)
    assert mitigation.is_wrong_on_device is (attribution in wrong)


def test_time_outranks_instructions_and_an_unknown_value_costs_most() -> None:
    slow = make_mitigation(device=make_device(Attribution.FRESH, 0.0, milliseconds=2.0), instructions=1)
    fast = make_mitigation(device=make_device(Attribution.FRESH, 0.0, milliseconds=1.0), instructions=9)
    untimed = make_mitigation(instructions=1)
    assert find_cheapest([untimed, slow, fast]) is fast
    assert find_cheapest([untimed, slow]) is slow
    small = replace(slow, instructions=0)
    assert find_cheapest([slow, small]) is small
    assert find_cheapest([]) is None
    assert make_mitigation().peak_bytes is None, "without an artifact there is no analysis of memory"


def test_a_difference_within_the_clock_s_noise_does_not_count() -> None:
    slow, fast = (make_mitigation(device=make_device(Attribution.FRESH, 0.0, milliseconds=ms)) for ms in (18.9, 18.6))
    small = replace(slow, instructions=3)
    assert find_cheapest([replace(fast, instructions=4), small]) is small
    slower = replace(small, device=make_device(Attribution.FRESH, 0.0, milliseconds=19.1))
    fast = replace(fast, instructions=4)
    assert find_cheapest([fast, slower]) is fast
