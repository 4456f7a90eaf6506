"""Every read of an overwritten value is judged once, from the verdicts of the outputs."""

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.explain import schedule_view_builder as view_accesses
from ligerdiag.analysis.explain.schedule_view_builder import compute_schedule_view
from ligerdiag.analysis.verdict.verdicts import ReadCause, ReadVerdict
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place, ReadKind
from tests.analysis.by_hand import Program, judge, verdicts
from tests.analysis.test_schedules_by_hand import write_program, write_schedule
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))


def read_of(context: Context, opcode: str) -> ReadVerdict:
    (read,) = [one for one in context.reads if context.followed.flow.instructions[one.step].opcode == opcode]
    return read


def judge_merged() -> Context:
    """The program calls the kernel twice on one value; XLA runs the two calls as one."""
    program, schedule = Program(), Program()
    for builder in (program, schedule):
        entry = builder.computation("entry")
        x = builder.op(entry, "parameter")
        h = builder.op(entry, "negate", x, tag=1)
        first = builder.kernel(entry, h, tag=2)
        second = builder.kernel(entry, h, tag=3) if builder is program else first
        builder.place(x, h, first)
        builder.op(entry, "tuple", first, second, shape=PAIR)
    return judge(program, schedule, "first", "second")


@pytest.mark.parametrize(
    ("order", "control", "kind", "cause"),
    [
        ("yk", False, ReadKind.STALE, ReadCause.BLAMED),
        ("ky", False, ReadKind.LATENT, ReadCause.BLAMED),
        ("ky", True, ReadKind.FRESH, ReadCause.OPERATION),
    ],
)
def test_a_read_is_what_it_makes_its_output_and_has_the_evidence(
    order: str, control: bool, kind: ReadKind, cause: ReadCause
) -> None:
    context = judge(write_program(), write_schedule(order, control=control), "sums", "y")
    read = read_of(context, "abs")
    assert (read.write, read.kind, read.cause, read.place, read.outputs) == (0, kind, cause, Place.SAME_BYTES, ("y",))
    blamed = (*context.verdicts.stale, *context.verdicts.latent)
    assert (read.evidence,) == (blamed or (None,))


def test_a_read_is_unknown_where_the_kernel_could_not_be_followed() -> None:
    context = judge(write_program("opaque"), write_schedule("ky", "opaque", control=True), "sums", "y")
    read = read_of(context, "abs")
    assert (read.kind, read.cause, read.evidence) == (ReadKind.UNKNOWN, ReadCause.UNDECIDED, None)


def test_a_read_is_unknown_where_its_output_is() -> None:
    schedule = write_schedule("ky", control=True)
    for instruction in schedule.proto.hlo_module.computations[0].instructions:
        if instruction.opcode == "negate":
            instruction.metadata.op_name, instruction.name = "", "negate.1"
    context = judge(write_program(), schedule, "sums", "y", canonicalized=True)
    assert verdicts(context) == ["fresh", "unknown"]
    read = read_of(context, "abs")
    assert (read.kind, read.cause) == (ReadKind.UNKNOWN, ReadCause.UNKNOWN_OUTPUT)


def test_what_the_compiler_made_is_what_uses_it() -> None:
    schedule = write_schedule("ky", control=True)
    for instruction in schedule.proto.hlo_module.computations[0].instructions:
        if instruction.opcode == "abs":
            instruction.metadata.op_name, instruction.name = "", "abs.1"
    context = judge(write_program(), schedule, "sums", "y")
    assert verdicts(context) == ["fresh", "fresh"]
    read = read_of(context, "abs")
    assert (read.kind, read.cause) == (ReadKind.FRESH, ReadCause.USERS)


def test_of_a_merged_call_no_read_explains_the_output() -> None:
    context = judge_merged()
    assert verdicts(context) == ["fresh", "stale"]
    assert context.verdicts.stale == ()
    assert context.verdicts.list_unexplained(0, Verdict.STALE) == ("second",)
    assert context.verdicts.list_unexplained(0, Verdict.CLOBBERED) == ()
    assert context.verdicts.misses_merged_call("second")
    assert not context.verdicts.misses_merged_call("first")
    assert not context.verdicts.misses_only_gone_calls("second")


def test_a_call_that_is_gone_is_all_that_the_output_misses() -> None:
    program, schedule = write_program(), Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    y = schedule.op(entry, "abs", h, tag=3)
    schedule.place(x, h, y)
    schedule.op(entry, "tuple", h, y, shape=PAIR)
    context = judge(program, schedule, "sums", "y")
    assert context.verdicts.outputs["y"].verdict is Verdict.STALE
    assert context.verdicts.misses_only_gone_calls("y")
    assert not context.verdicts.misses_merged_call("y")


def test_the_worst_of_what_one_instruction_reads_is_never_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_accesses, "MOST_READS", 1)
    program, schedule = Program(), Program()
    for builder in (program, schedule):
        entry = builder.computation("entry")
        x = builder.op(entry, "parameter")
        h = builder.op(entry, "copy", x, tag=1)
        sums = builder.kernel(entry, h, tag=2)
        both = builder.op(entry, "add", x, h, tag=3)  # x, which `h` is a copy of, and what the kernel left in `h`
        both.control_predecessor_ids.append(sums.id)
        builder.place(x, h, sums, both)
        builder.op(entry, "tuple", sums, both, shape=PAIR)
    context = judge(program, schedule, "sums", "both")
    assert verdicts(context) == ["fresh", "fresh"]
    (shown,) = [one for one in compute_schedule_view(context).accesses if one.read is not ReadKind.NONE]
    assert (shown.read, shown.place) == (ReadKind.FRESH, Place.SAME_BYTES)
