"""One view for several programs: what they do not agree in is unknown."""

from ligerdiag.analysis.explain.schedule_view_builder import compute_schedule_view
from ligerdiag.inspection.coverage import join_views
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import AccessKind, ReadKind, ScheduleView
from tests.analysis.by_hand import Program, judge
from tests.analysis.test_schedules_by_hand import write_program, write_schedule


def retag(program: Program) -> Program:
    """The kernel is the last one in program order."""
    for instruction in program.proto.hlo_module.computations[0].instructions:
        instruction.metadata.op_name = instruction.metadata.op_name.replace("#ld2", "#ld4")
    return program


def view_early() -> ScheduleView:
    """The reader comes before the kernel, and is to come after it."""
    return compute_schedule_view(judge(write_program(), write_schedule("yk"), "sums", "y"))


def view_early_as_meant() -> ScheduleView:
    """The same schedule; the reader is to come before the kernel."""
    return compute_schedule_view(judge(retag(write_program()), retag(write_schedule("yk")), "sums", "y"))


def kinds_of(view: ScheduleView) -> list[ReadKind]:
    return [one.read for one in view.accesses if one.kind is AccessKind.READ]


def test_a_read_of_which_two_programs_say_different_things_is_unknown() -> None:
    stale, other = view_early(), view_early_as_meant()
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


def test_views_that_agree_are_the_first_one() -> None:
    one, same = view_early(), view_early()
    verdicts = {output.name: output.verdict for output in one.outputs}
    assert join_views([one, same], verdicts) is one
    assert join_views([], verdicts) is None
