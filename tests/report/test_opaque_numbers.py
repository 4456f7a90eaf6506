"""Numbers of opaque functions are evidence of their own: they may contradict a verdict, and never make one better."""

from dataclasses import replace

import pytest

from ligerdiag.model.findings import (
    Attribution,
    Finding,
    OpaqueReplay,
    OutputNumbers,
    Replay,
    ReplayState,
    Severity,
    Verdict,
)
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.report.agreement import Agreement, compute_opaque_agreements, compute_replay_agreements
from ligerdiag.report.status import conclude
from ligerdiag.report.terminal.diagnostics import render_replay_word
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.report.terminal.summary import render_replays
from tests.report.samples import make_judged


def number(attribution: Attribution, distance: float = 1.0) -> OutputNumbers:
    error = 0.0 if attribution is Attribution.FRESH else 1.0
    return OutputNumbers(
        attribution=attribution, error=error, stale_error=1.0 - error, distance=distance, tolerance=1e-10
    )


def report(
    verdict: Verdict, opaque: Attribution, real: Attribution | None = None, state: ReplayState = ReplayState.DONE
) -> CaseReport:
    outputs = {} if real is None else {"y": number(real)}
    replay = Replay(
        state=ReplayState.NOT_COVERED if real is None else ReplayState.DONE,
        outputs=outputs,
        opaque=OpaqueReplay(state=state, outputs={"y": number(opaque)} if state is ReplayState.DONE else {}),
    )
    return conclude(make_judged("case", outputs={"y": verdict}), replay=replay)


@pytest.mark.parametrize("real", [None, Attribution.UNDECIDED])
@pytest.mark.parametrize(
    ("verdict", "opaque", "expected"),
    [
        (Verdict.FRESH, Attribution.FRESH, Agreement.AGREES),
        (Verdict.FRESH, Attribution.STALE, Agreement.DISAGREES),
        (Verdict.LATENT, Attribution.NEITHER, Agreement.DISAGREES),
        (Verdict.STALE, Attribution.STALE, Agreement.AGREES),
        (Verdict.STALE, Attribution.FRESH, Agreement.DISAGREES),
        (Verdict.UNKNOWN, Attribution.FRESH, Agreement.SILENT),
        (Verdict.FRESH, Attribution.UNDECIDED, Agreement.SILENT),
    ],
)
def test_opaque_numbers_compare_with_the_verdict_as_real_ones_do(
    verdict: Verdict, opaque: Attribution, expected: Agreement, real: Attribution | None
) -> None:
    case = report(verdict, opaque, real)
    assert compute_opaque_agreements(case.outputs, case.replay) == {"y": expected}
    assert compute_replay_agreements(case.outputs, case.replay) == ({} if real is None else {"y": Agreement.SILENT})
    assert [one.output for one in case.disagreements] == (["y"] if expected is Agreement.DISAGREES else [])
    assert case.outputs == {"y": verdict}


@pytest.mark.parametrize("verdict", [Verdict.STALE, Verdict.CLOBBERED])
@pytest.mark.parametrize(("distance", "expected"), [(1.0, "opaque DISAGREES"), (0.0, "opaque undecided")])
def test_right_opaque_numbers_contradict_a_wrong_verdict_or_cannot_tell(
    verdict: Verdict, distance: float, expected: str
) -> None:
    """They cannot if the stale prediction is the same, as in a branch that is not entered."""
    opaque = OpaqueReplay(state=ReplayState.DONE, outputs={"y": number(Attribution.FRESH, distance)})
    replay = Replay(state=ReplayState.NOT_COVERED, opaque=opaque)
    case = conclude(make_judged("case", outputs={"y": verdict}, expected=None), replay=replay)
    assert case.outputs == {"y": verdict}
    assert case.status in (Status.DISAGREEMENT, Status.FINDINGS)
    assert compute_text(render_replay_word(case)) == f"not covered, {expected}"


def test_a_disagreement_says_that_opaque_functions_found_it() -> None:
    case = report(Verdict.FRESH, Attribution.STALE, Attribution.FRESH)
    assert case.status is Status.DISAGREEMENT
    (one,) = case.disagreements
    assert one.message == (
        "`y` is fresh according to its schedule, but stale when it is replayed with opaque functions in place of its kernels"
    )
    assert dict(one.evidence).keys() >= {"static", "opaque"}


def test_an_unknown_output_stays_unknown_whatever_the_numbers_are() -> None:
    assert report(Verdict.UNKNOWN, Attribution.FRESH).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("verdict", "opaque", "real", "state", "expected"),
    [
        (Verdict.FRESH, Attribution.FRESH, None, ReplayState.DONE, "not covered, opaque agrees"),
        (Verdict.FRESH, Attribution.STALE, None, ReplayState.DONE, "not covered, opaque DISAGREES"),
        (Verdict.FRESH, Attribution.FRESH, None, ReplayState.NOT_COVERED, "not covered"),
        (Verdict.FRESH, Attribution.FRESH, Attribution.FRESH, ReplayState.DONE, "agrees"),
        (Verdict.FRESH, Attribution.STALE, Attribution.FRESH, ReplayState.DONE, "agrees, opaque DISAGREES"),
        (Verdict.FRESH, Attribution.UNDECIDED, Attribution.FRESH, ReplayState.DONE, "agrees, opaque undecided"),
    ],
)
def test_the_row_of_a_case_says_what_opaque_functions_add(
    verdict: Verdict, opaque: Attribution, real: Attribution | None, state: ReplayState, expected: str
) -> None:
    assert compute_text(render_replay_word(report(verdict, opaque, real, state))) == expected


@pytest.mark.parametrize(
    ("verdict", "real", "expected"),
    [
        (Verdict.FRESH, Attribution.UNDECIDED, True),
        (Verdict.STALE, Attribution.UNDECIDED, True),
        (Verdict.UNKNOWN, Attribution.UNDECIDED, False),
        (Verdict.FRESH, Attribution.FRESH, False),
        (Verdict.UNKNOWN, None, True),
    ],
)
def test_only_an_output_with_a_verdict_leaves_a_replay_open(
    verdict: Verdict, real: Attribution | None, expected: bool
) -> None:
    replay = report(verdict, Attribution.FRESH, real).replay
    assert replay is not None
    assert replay.is_open({"y": verdict}) is expected


UNWRITTEN = Finding(rule="LD013", severity=Severity.WARNING, message="`fill` leaves 2 elements unwritten")


def conclude_undefined(outputs: dict[str, Verdict], undefined: tuple[str, ...]) -> CaseReport:
    """Returns the report on a replay that has no numbers for the outputs that hold contents that nobody wrote."""
    numbers = {
        name: number(Attribution.UNDECIDED if name in undefined else Attribution.FRESH, distance=0.0)
        for name in outputs
    }
    replay = Replay(state=ReplayState.DONE, outputs=numbers, reason="the first NaN is in `%fill`")
    finding = replace(UNWRITTEN, outputs=undefined)
    return conclude(make_judged("case", outputs=outputs, findings=(finding,)), replay=replay)


def render_summary(case: CaseReport) -> list[str]:
    report = CheckReport(cases=(case,), targets=("h100",), toolchain="default", seconds=1.0)
    return [compute_text(line) for line in render_replays(report, width=None, verbose=False)]


def test_the_report_says_why_no_replay_can_decide_about_contents_that_nobody_wrote() -> None:
    case = conclude_undefined({"y": Verdict.FRESH}, ("y",))
    assert case.outputs == {"y": Verdict.UNKNOWN}
    assert compute_text(render_replay_word(case)) == "undefined"
    assert render_summary(case) == [
        "replayed: 1 of 1: 1 undefined",
        "no replay can decide: `y` has no defined value, as `fill` leaves 2 elements unwritten (LD013) (`case` on h100)",
    ]


def test_an_output_beside_it_is_compared_as_ever() -> None:
    case = conclude_undefined({"y": Verdict.FRESH, "z": Verdict.FRESH}, ("y",))
    assert compute_text(render_replay_word(case)) == "agrees, 1 unknown"
    counted, why = render_summary(case)
    assert counted == "replayed: 1 of 1: 1 agree"
    assert why.startswith("no replay can decide: `y` has no defined value")


def test_numbers_that_are_undecided_for_another_reason_keep_it() -> None:
    case = report(Verdict.FRESH, Attribution.UNDECIDED, Attribution.UNDECIDED)
    assert case.replay is not None
    case = replace(case, replay=replace(case.replay, opaque=None, reason="the first NaN is in an argument"))
    assert compute_text(render_replay_word(case)) == "undecided"
    assert render_summary(case) == [
        "replayed: 1 of 1: 1 undecided",
        "undecided by replay: the first NaN is in an argument (`case` on h100)",
    ]
