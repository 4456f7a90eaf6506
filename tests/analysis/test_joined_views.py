"""One view for several programs: a read on which they disagree is unknown."""

from ligerdiag.analysis.explain.view_builder import compute_schedule_view
from ligerdiag.inspection.coverage import join_views
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import AccessKind, ReadKind, ScheduleView
from tests.analysis.pair_files import judge_pair


def kinds_of(view: ScheduleView) -> list[ReadKind]:
    return [one.read for one in view.accesses if one.kind is AccessKind.READ]


def test_a_read_on_which_two_programs_disagree_is_unknown() -> None:
    """The schedule is the same. One program reads after the kernel, the other before it."""
    stale = compute_schedule_view(judge_pair("reader_and_kernel", "the reader first"))
    other = compute_schedule_view(judge_pair("program_reads_before_the_kernel", "y first"))
    assert kinds_of(stale) == [ReadKind.STALE]
    assert kinds_of(other) == [ReadKind.LATENT]
    joined = join_views([stale, other], {"sums": Verdict.FRESH, "y": Verdict.UNKNOWN})
    assert joined is not None
    assert kinds_of(joined) == [ReadKind.UNKNOWN]
    (y,) = [one for one in joined.outputs if one.name == "y"]
    assert (y.verdict, y.missing) == (Verdict.UNKNOWN, ())
    assert "could not be decided" in y.sentence
    assert joined.notes != stale.notes
    assert joined.outputs[0] == stale.outputs[0]


def test_joining_views_that_agree_returns_the_first() -> None:
    one, same = (compute_schedule_view(judge_pair("reader_and_kernel", "the reader first")) for _ in range(2))
    verdicts = {output.name: output.verdict for output in one.outputs}
    assert join_views([one, same], verdicts) is one
    assert join_views([], verdicts) is None
