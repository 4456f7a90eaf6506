"""LD015 from hand-written records: one finding for each write, with its text."""

from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.schedule_view import Fate, ReadTime, ScheduleFacts
from ligerdiag.rules.registry import check_measured
from ligerdiag.rules.rule import Measured
from tests.analysis.neighbourhoods_by_hand import make_facts, make_neighbourhood, make_reader


def drift(recorded: ScheduleFacts | None, facts: ScheduleFacts) -> tuple[Finding, ...]:
    measured = Measured(outputs={}, findings=(), replay=None, device=None, facts=facts, recorded=recorded)
    return check_measured(measured).findings


HERE = make_neighbourhood(make_reader())
MOVED = make_neighbourhood(make_reader(side=ReadTime.BEFORE))


def test_without_a_baseline_nothing_drifts() -> None:
    assert drift(None, make_facts(MOVED, a=Verdict.STALE)) == ()


def test_a_write_that_drifts_is_one_finding_on_the_readers_line() -> None:
    (finding,) = drift(make_facts(HERE, a=Verdict.FRESH), make_facts(MOVED, a=Verdict.FRESH))
    assert finding.message == (
        "the schedule around `ce_kernel` operand 0 drifted from the baseline:"
        " `dot_general` (train.py:41) moved from after to before the kernel"
    )
    assert finding.source == MOVED.readers[0].source
    assert (finding.kernel, finding.operand, finding.outputs) == ("ce_kernel", 0, ())


def test_verdicts_are_listed_with_the_first_write_that_drifts() -> None:
    second = make_neighbourhood(make_reader(side=ReadTime.BEFORE), number=2)
    recorded = make_facts(HERE, make_neighbourhood(make_reader(), number=2), a=Verdict.FRESH)
    first, other = drift(recorded, make_facts(MOVED, second, a=Verdict.STALE))
    assert (first.outputs, other.outputs) == (("a",), ())
    assert first.evidence[-1] == ("verdict", "`a` was fresh and is stale")
    assert "operand 0, call 2" in other.message


def test_verdicts_alone_are_a_finding_too() -> None:
    (finding,) = drift(make_facts(HERE, a=Verdict.FRESH), make_facts(HERE, a=Verdict.UNKNOWN))
    assert finding.message == "the verdicts drifted from the baseline: `a` was fresh and is unknown"
    assert finding.outputs == ("a",)


def test_a_missing_reader_is_reported_at_the_line_of_the_call() -> None:
    (finding,) = drift(make_facts(HERE), make_facts(make_neighbourhood()))
    assert finding.source == HERE.source
    assert finding.evidence[0][0] == "lost"


def test_a_missing_call_is_a_drift() -> None:
    gone = make_neighbourhood(fate=Fate.GONE)
    (finding,) = drift(make_facts(HERE), make_facts(gone))
    assert finding.message.endswith("the call was performed and is gone")


def test_minor_changes_are_not_a_drift() -> None:
    fused = make_neighbourhood(make_reader(within="fusion to `add`"))
    alone = make_neighbourhood(make_reader(within=""))
    assert drift(make_facts(alone), make_facts(fused, new=Verdict.FRESH)) == ()
