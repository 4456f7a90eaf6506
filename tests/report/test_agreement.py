"""The numbers that agree with a verdict, do not decide about it, or contradict it."""

import math
from dataclasses import replace

import pytest

from ligerdiag.model.findings import (
    Attribution,
    CallPlace,
    CutLoop,
    DeviceOutput,
    Finding,
    OutputNumbers,
    Replay,
    ReplayState,
    Verdict,
)
from ligerdiag.report.agreement import (
    Agreement,
    compute_agreement,
    compute_device_agreements,
    compute_disagreements,
    compute_replay_agreements,
    explain_unknown_order,
    find_partly_missed,
)
from tests.report.samples import OUTPUTS, make_device, make_finding, make_numbers, make_refused, make_replay

A, S, D = Agreement.AGREES, Agreement.SILENT, Agreement.DISAGREES
TABLE = {
    #                    fresh latent unknown clobbered stale
    Attribution.FRESH: (A, A, S, D, D),
    Attribution.LOSSY: (A, A, S, S, S),
    Attribution.UNDECIDED: (S, S, S, S, S),
    Attribution.STALE: (D, D, S, A, A),
    Attribution.PARTLY_STALE: (D, D, S, A, A),
    Attribution.NEITHER: (D, D, S, A, A),
}
VERDICTS = (Verdict.FRESH, Verdict.LATENT, Verdict.UNKNOWN, Verdict.CLOBBERED, Verdict.STALE)


@pytest.mark.parametrize("attribution", Attribution)
def test_the_truth_table_holds(attribution: Attribution) -> None:
    assert tuple(compute_agreement(verdict, attribution) for verdict in VERDICTS) == TABLE[attribution]


@pytest.mark.parametrize("verdict", [Verdict.STALE, Verdict.CLOBBERED])
def test_fresh_numbers_that_cannot_distinguish_do_not_contradict_a_bad_verdict(verdict: Verdict) -> None:
    assert compute_agreement(verdict, Attribution.FRESH, can_tell=False) is S


@pytest.mark.parametrize(("error", "said"), [(1e-6, A), (1e-5, A), (0.01, S)])
@pytest.mark.parametrize("verdict", [Verdict.FRESH, Verdict.LATENT])
def test_numbers_that_are_lossy_in_program_order_already_confirm_a_verdict_and_others_do_not(
    verdict: Verdict, error: float, said: Agreement
) -> None:
    """A sum with one stale term among many reads as lossy against program order."""
    replay = make_replay({"w": make_numbers(attribution=Attribution.LOSSY, error=error)})
    assert compute_replay_agreements({"w": verdict}, replay) == {"w": said}


@pytest.mark.parametrize(("distance", "said"), [(1e-6, S), (1e-5, S), (1.1e-5, D), (math.nan, S), (math.inf, D)])
def test_the_distance_to_the_stale_prediction_decides_whether_fresh_numbers_can_distinguish(
    distance: float, said: Agreement
) -> None:
    replay = make_replay({"w": make_numbers(distance=distance)})
    assert compute_replay_agreements({"w": Verdict.STALE}, replay) == {"w": said}
    assert len(compute_disagreements({"w": Verdict.STALE}, (), replay, None)) == (said is D)


@pytest.mark.parametrize(("error", "said"), [(0.0, D), (2.5e-6, D), (2.6e-6, S), (9e-6, S)])
def test_fresh_numbers_further_away_than_roundings_do_not_contradict_a_stale_term(
    error: float, said: Agreement
) -> None:
    replay = make_replay({"w": make_numbers(error=error)})
    assert compute_replay_agreements({"w": Verdict.STALE}, replay) == {"w": said}
    assert compute_replay_agreements({"w": Verdict.FRESH}, replay) == {"w": A}


def test_fresh_numbers_of_an_output_that_misses_one_of_two_writes_decide_nothing() -> None:
    """Adam's first step keeps the sign of a gradient: the stale prediction, in which no write is seen, has another
    sign.
    """
    missed = make_finding(outputs=("w",))
    writes = [
        make_finding(rule="LD006", outputs=(), operand=operand, instructions=("triton_kernel_call.2",))
        for operand in (0, 1)
    ]
    replay = make_replay({"w": make_numbers()})
    for findings, said in (((missed, writes[0]), D), ((missed, *writes), S)):
        assert compute_replay_agreements({"w": Verdict.STALE}, replay, findings) == {"w": said}
        assert len(compute_disagreements({"w": Verdict.STALE}, findings, replay, None)) == (said is D)


CALL = CallPlace(line=None, number=1)
WRITES = tuple(
    make_finding(rule="LD006", outputs=(), operand=operand, instructions=("triton_kernel_call.2",))
    for operand in (0, 1)
)


@pytest.mark.parametrize(
    ("numbers", "partial", "said"),
    [
        (make_numbers(error=0.0), make_numbers(error=0.0, distance=0.5), D),
        (
            make_numbers(error=0.0),
            make_numbers(error=0.0, distance=1e-6),
            S,
        ),  # as with a sign
        (make_numbers(error=2e-6), make_numbers(error=2e-6, distance=0.5), S),  # one of several readers may be stale
        (make_numbers(Attribution.LOSSY), make_numbers(Attribution.STALE), A),
        (make_numbers(Attribution.LOSSY), make_numbers(Attribution.NEITHER), S),
        (make_numbers(Attribution.NEITHER), make_numbers(Attribution.NEITHER), A),
    ],
)
def test_a_prediction_that_misses_the_named_write_alone_decides_about_an_output_that_sees_the_other_one(
    numbers: OutputNumbers, partial: OutputNumbers, said: Agreement
) -> None:
    findings = (make_finding(outputs=("w",), call=CALL), *WRITES)
    replay = make_replay({"w": numbers}, partial={"w": partial})
    assert compute_replay_agreements({"w": Verdict.STALE}, replay, findings) == {"w": said}
    assert compute_replay_agreements({"w": Verdict.UNKNOWN}, replay, findings) == {"w": S}
    for one in compute_disagreements({"w": Verdict.STALE}, findings, replay, None):
        assert dict(one.evidence)["partial"].endswith("if it missed those hidden writes that its findings name")


def test_that_prediction_is_made_only_where_it_can_decide() -> None:
    stale = make_finding(outputs=("w",), call=CALL)
    replay = make_replay({"w": make_numbers(error=0.0)})

    def find(findings: tuple[Finding, ...], replay: Replay | None = replay, verdict: Verdict = Verdict.STALE) -> object:
        return find_partly_missed({"w": verdict}, findings, replay)

    assert find((stale, *WRITES)) == {"w": (1,)}
    lossy = make_replay({"w": make_numbers(Attribution.LOSSY, error=0.1)})
    assert find((stale, *WRITES), lossy) == {"w": (1,)}
    assert find((stale, WRITES[0])) == {}  # it misses every write
    late = make_finding(rule="LD004", outputs=("w",), call=CALL)
    assert find((late, *WRITES), verdict=Verdict.CLOBBERED) == {"w": (1,)}
    assert find((stale, late, replace(WRITES[0], operand=2), *WRITES)) == {"w": (1,)}
    assert find((make_finding(outputs=("w",)), *WRITES)) == {}  # nobody knows which write
    assert find((stale, *WRITES), verdict=Verdict.UNKNOWN) == {}
    for other in (
        None,
        replace(replay, unreached=("input_reduce_fusion",)),
        replace(replay, cut=(CutLoop(instruction="while.1", line=None, ran=2, iterations=32),)),
        make_replay({"w": make_numbers(error=1e-5)}),
        make_replay({"w": make_numbers(error=0.0, distance=1e-6)}),
        make_replay({"w": make_numbers(Attribution.NEITHER)}),
    ):
        assert find((stale, *WRITES), other) == {}


def test_an_artifact_without_a_replay_contradicts_nothing() -> None:
    for replay in (None, make_refused(ReplayState.TOO_LARGE, "42 s"), make_refused(ReplayState.FAILED, "died")):
        assert compute_replay_agreements(OUTPUTS, replay) == {}
        assert compute_disagreements(OUTPUTS, (), replay, None) == ()


def test_agreeing_verdicts_and_numbers_are_not_a_disagreement() -> None:
    assert compute_disagreements(OUTPUTS, (), make_replay(), make_device()) == ()


def test_a_disagreement_has_the_evidence_of_both() -> None:
    replay = make_replay({"bias": make_numbers(), "loss": make_numbers()})
    outputs = {"bias": Verdict.STALE, "loss": Verdict.FRESH}
    (one,) = compute_disagreements(
        outputs, (make_finding(outputs=("other",), rule="LD001"), make_finding()), replay, None
    )
    assert (one.output, one.static, one.numbers) == ("bias", Verdict.STALE, Attribution.FRESH)
    assert one.message == "`bias` is stale according to its schedule, but fresh when it is replayed"
    evidence = dict(one.evidence)
    assert evidence["static"] == "stale"
    assert evidence["finding"].startswith("LD002: gradient of `bias` reads a copy")
    assert evidence["write"].startswith("%triton_kernel_call.2 overwrites operand 0")
    assert evidence["replay"] == ("fresh: relative error 3e-07, tolerance 1e-05, the stale prediction 1.2e+04 away")


def test_right_numbers_decide_nothing_if_the_arguments_do_not_reach_the_wrong_read() -> None:
    finding = make_finding(outputs=("bias",), instructions=("call.1", "fusion.3"))
    replay = replace(make_replay({"bias": make_numbers()}), unreached=("fusion.3",))
    assert compute_replay_agreements({"bias": Verdict.STALE}, replay, (finding,)) == {"bias": S}
    reached = replace(finding, instructions=("call.1", "fusion.4"))
    for findings in ((), (reached,), (finding, reached)):
        assert compute_replay_agreements({"bias": Verdict.STALE}, replay, findings) == {"bias": D}
    wrong = replace(replay, outputs={"bias": make_numbers(Attribution.STALE)})
    assert compute_replay_agreements({"bias": Verdict.FRESH}, wrong, (finding,)) == {"bias": D}


def test_numbers_of_the_first_iterations_contradict_a_later_one_only_if_they_are_wrong() -> None:
    cut = (CutLoop(instruction="while.1", line=None, ran=2, iterations=32),)
    right, wrong = (make_replay({"bias": make_numbers(one)}, cut=cut) for one in (Attribution.FRESH, Attribution.STALE))
    assert compute_replay_agreements({"bias": Verdict.STALE}, right) == {"bias": S}
    assert compute_replay_agreements({"bias": Verdict.STALE}, replace(right, cut=())) == {"bias": D}
    assert compute_replay_agreements({"bias": Verdict.FRESH}, right) == {"bias": A}
    assert compute_replay_agreements({"bias": Verdict.STALE}, wrong) == {"bias": A}
    assert compute_replay_agreements({"bias": Verdict.FRESH}, wrong) == {"bias": D}


def test_a_fresh_verdict_and_wrong_numbers_disagree_without_a_finding() -> None:
    (one,) = compute_disagreements({"w": Verdict.FRESH}, (), make_replay({"w": make_numbers(Attribution.STALE)}), None)
    said = dict(one.evidence)
    assert said["static"] == "fresh"
    assert said["replay"] == "stale: relative error 1.2e+04, equal to the stale prediction"
    assert list(said) == ["static", "replay", "JAX", "XLA", "kernel", "ligerdiag"]


def test_a_device_is_compared_with_the_verdict_on_its_own_artifact() -> None:
    device = make_device(verdicts={"loss": "fresh", "input": "latent"})
    assert compute_device_agreements(device) == {"loss": A, "input": D}
    (one,) = compute_disagreements({"input": Verdict.STALE}, (), None, device)
    assert (
        one.message
        == "`input` is latent according to the schedule for NVIDIA H200, but stale in the run on that device"
    )
    assert dict(one.evidence)["device"] == "stale: relative error 1.3e+04"


def test_another_verdict_on_the_device_s_artifact_is_not_by_itself_a_disagreement() -> None:
    replay = make_replay({"input": make_numbers()})
    assert compute_disagreements({"input": Verdict.LATENT}, (), replay, make_device()) == ()


def with_input(**changes: object) -> DeviceOutput:
    return replace(make_device().outputs["input"], **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (with_input(replay_error=2e-4), 1),
        (with_input(replay_error=1e-4), 0),
        (with_input(replay_error=None), 0),
        (with_input(replay_error=math.nan), 0),
        (with_input(replay_error=2e-4, unsteady=1e-3), 0),
        (with_input(replay_error=2e-4, attribution=Attribution.NEITHER), 1),
    ],
)
def test_a_device_is_compared_with_the_replay_of_its_own_artifact(output: DeviceOutput, found: int) -> None:
    device = make_device(outputs={"input": output})
    disagreements = compute_disagreements({}, (), None, device)
    assert [one.message for one in disagreements] == [
        "the replay of `input` differs from what NVIDIA H200 computed"
    ] * found


@pytest.mark.parametrize(("distance", "said"), [(12345.0, D), (1e-5, S), (0.0, S)])
def test_fresh_numbers_of_a_device_contradict_a_stale_verdict_if_they_can_distinguish(
    distance: float, said: Agreement
) -> None:
    output = DeviceOutput(errors=(1e-7,), attribution=Attribution.FRESH, tolerance=1e-4, distance=distance)
    assert compute_device_agreements(make_device(outputs={"input": output})) == {"input": said}


def test_a_reference_alone_neither_contradicts_nor_confirms_a_fresh_verdict() -> None:
    """The program may differ from its reference; no replay shows it."""
    device = make_device(
        verdicts={"loss": "fresh", "input": "latent"}, intended_from="reference (replay was not asked for)"
    )
    assert compute_device_agreements(device) == {"loss": A, "input": S}
    assert compute_disagreements({"input": Verdict.LATENT}, (), None, device) == ()
    (said,) = explain_unknown_order(device)
    assert said.startswith("`input` differs from the reference on NVIDIA H200: ")
    assert explain_unknown_order(replace(device, intended_from="program order")) == ()
    assert explain_unknown_order(replace(device, verdicts={"loss": "fresh", "input": "stale"})) == ()


def test_a_device_on_which_nothing_ran_decides_nothing() -> None:
    assert compute_disagreements(OUTPUTS, (), None, make_device(error="no GPU", outputs={})) == ()


def test_a_device_contradicts_nothing_about_an_output_that_races() -> None:
    output = with_input(attribution=Attribution.FRESH, errors=(1e-7,), distance=12345.0, replay_error=2e-4)
    device = make_device(outputs={"input": output})
    assert len(compute_disagreements({"input": Verdict.STALE}, (), None, device)) == 2
    races = make_finding(rule="LD005", outputs=("input",))
    assert compute_disagreements({"input": Verdict.STALE}, (races,), None, device) == ()
    elsewhere = make_finding(rule="LD005", outputs=("bias",))
    assert len(compute_disagreements({"input": Verdict.STALE}, (elsewhere,), None, device)) == 2


def test_a_device_contradicts_nothing_if_a_kernel_is_tried_in_place() -> None:
    output = with_input(attribution=Attribution.NEITHER, errors=(math.nan,), replay_error=2e-4)
    device = make_device(outputs={"input": output}, verdicts={"input": "fresh"})
    assert len(compute_disagreements({"input": Verdict.FRESH}, (), None, device)) == 2
    assert compute_disagreements({"input": Verdict.FRESH}, (make_finding(rule="LD010"),), None, device) == ()
