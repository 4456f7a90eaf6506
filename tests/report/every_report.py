"""Hand-made reports that together have every field of a report: every format must render them."""

from ligerdiag.ending import Ending
from ligerdiag.model.findings import (
    Attribution,
    CallPlace,
    DeviceRun,
    Replay,
    ReplayState,
    SourceLine,
    Suppression,
    SuppressionKind,
    Verdict,
)
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.report import Coverage, Noun, Status, UnusedSuppression
from ligerdiag.model.tuning import Tuning
from ligerdiag.report.agreement import compute_disagreements
from tests.report.samples import (
    IN_PLACE,
    LAUNCH,
    make_case,
    make_copy,
    make_device,
    make_finding,
    make_memory,
    make_numbers,
    make_refused,
    make_replay,
    make_report,
    make_tuned,
    make_tuning,
)

NOT_FINITE = make_replay(
    {"w": make_numbers(Attribution.UNDECIDED, error=float("nan"), stale_error=float("inf"), distance=float("-inf"))},
    reference={"w": float("inf")},
    launches=(LAUNCH,),
)

REPORTS = {
    "nothing": make_report(),
    "every status": make_report(*(make_case(f"c[{status}]", status) for status in Status)),
    "every expectation": make_report(
        *(make_case(f"c[{n}]", expected=e) for n, e in enumerate((None, "fresh", "hazard", {"*": "stale|latent"})))
    ),
    "every verdict": make_report(make_case(outputs={v.value: v for v in Verdict})),
    "findings": make_report(
        make_case(findings=(make_finding(), make_finding(source=None, operand=None, evidence=(), kernel="")))
    ),
    "findings that follow from another": make_report(
        make_case(
            findings=(
                make_finding(rule="LD007", outputs=(), lost_writes=(0,)),
                make_finding(call=CallPlace(line=SourceLine(file="train.py", line=41))),
            )
        )
    ),
    "a line that is not known": make_report(
        make_case(findings=(make_finding(source=SourceLine(file="a.py", line=0)),))
    ),
    "an error": make_report(
        make_case(status=Status.ERROR, error="aborted", error_exit_code=3, log_tail="F0000\n\x1b[31m", outputs={})
    ),
    "every attribution": make_report(
        make_case(replay=make_replay({a.value: make_numbers(a, rows=4, rows_fresh=3) for a in Attribution}))
    ),
    "every state of a replay": make_report(
        *(make_case(f"c[{state}]", replay=make_refused(state, "because")) for state in ReplayState)
    ),
    "numbers that are not finite": make_report(make_case(replay=NOT_FINITE)),
    "a device": make_report(make_case(device=make_device(), replay=make_replay())),
    "a device that did not run": make_report(
        make_case(device=make_device(outputs={}, verdicts={}, error="no GPU", milliseconds=None))
    ),
    "disagreements": make_report(
        make_case(
            status=Status.DISAGREEMENT,
            disagreements=compute_disagreements(
                {"w": Verdict.STALE}, (make_finding(outputs=("w",)),), make_replay({"w": make_numbers()}), None
            ),
        )
    ),
    "suppressions": make_report(
        make_case(
            status=Status.ALLOWED,
            findings=tuple(
                make_finding(suppressed=Suppression(kind=kind, reason="r", where="a.py:1")) for kind in SuppressionKind
            ),
        ),
        unused_suppressions=tuple(
            UnusedSuppression(kind=kind, rule="LD003", reason="", where="a.py:1", message="needs a reason")
            for kind in SuppressionKind
        ),
    ),
    "hostile names": make_report(make_case("[red]\x1b]0;x\x07\udcff\u202e", outputs={"\x00": Verdict.FRESH})),
    "unknown outputs": make_report(
        make_case(
            status=Status.INCONCLUSIVE,
            expected=None,
            outputs={"a": Verdict.UNKNOWN, "b": Verdict.FRESH},
            coverage=Coverage(not_covered=("a kernel that could not be followed",)),
        )
    ),
    "a verdict that no finding explains": make_report(
        make_case(status=Status.FINDINGS, expected=None, outputs={"a": Verdict.STALE})
    ),
    "a replay that died": make_report(make_case(replay=make_replay(state=ReplayState.FAILED, reason="aborted"))),
    "a run that was cut short": make_report(make_case(), interrupted=True, notes=("a note",)),
    "a run that its time limit ended": make_report(
        make_case("whole"),
        make_case("without numbers", replay=Replay(state=ReplayState.NOT_DONE, reason="the run was ended")),
        make_case("without a device", device=DeviceRun(device="", count=0, runs=0, error="the run was ended")),
        make_case("unseen", Status.NOT_CHECKED, outputs={}, coverage=Coverage(), error="the run was ended"),
        interrupted=True,
        ended_by=Ending.TIME_LIMIT,
    ),
    "several targets": make_report(
        *(make_case(target=target, findings=(make_finding(),)) for target in ("a100", "h100")),
        targets=("a100", "h100"),
    ),
    "memory": make_report(
        make_case("copies", memory=make_memory()),
        make_case("in place", memory=IN_PLACE),
        make_case("nothing", Status.NOTHING, memory=MemoryUse(arguments=0, outputs=0, aliased=0, temporaries=0)),
        make_case("unknown trips", memory=make_memory(copies=(make_copy(trips=None, in_branch=True),), bandwidth=0.0)),
    ),
    "tuning": make_report(
        make_case("of a file", tuning=make_tuning()),
        make_case("unknown", tuning=make_tuning(counted=False, recorded=(), open=())),
        make_case("without a file", tuning=Tuning(open=(make_tuned("gemm_fusion_dot"),))),
        make_case("without a product", tuning=Tuning()),
    ),
    "modules": make_report(
        make_case(status=Status.FINDINGS, expected=None, findings=(make_finding(source=None),), artifact="/dump/m.pb"),
        noun=Noun.MODULE,
    ),
}
