"""Numbers of opaque functions are evidence of their own: they may contradict a verdict, and never make one better."""

import pytest

from ligerdiag.model.findings import Attribution, OpaqueReplay, OutputNumbers, Replay, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.agreement import Agreement, compute_opaque_agreements, compute_replay_agreements
from ligerdiag.report.status import conclude
from ligerdiag.report.terminal.diagnostics import render_replay_word
from ligerdiag.report.terminal.spans import compute_text
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
