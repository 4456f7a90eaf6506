"""What an HTML report draws of schedules made by hand: who gets what, by which way, and how that is told."""

import pytest

from ligerdiag.analysis.explain.schedule_view_builder import MOST_STEPS, compute_schedule_view
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, Lane, Place, ReadKind, ScheduleStep, ScheduleView
from tests.analysis.by_hand import Program, judge
from tests.analysis.test_schedules_by_hand import PAIR, write_program, write_schedule
from tests.analysis.view_violations import list_violations
from tests.hlo.building import array, tuple_of


def view_of(program: Program, schedule: Program, *outputs: str) -> ScheduleView:
    view = compute_schedule_view(judge(program, schedule, *outputs))
    assert list(list_violations(view)) == []
    return view


def step_of(view: ScheduleView, opcode: str) -> ScheduleStep:
    (step,) = [step for step in view.steps if step.opcode == opcode]
    return step


def read_of(view: ScheduleView, opcode: str) -> BufferAccess:
    step = step_of(view, opcode)
    (read,) = [one for one in view.accesses if one.step == step.id and one.kind is AccessKind.READ]
    return read


def path_of(view: ScheduleView, output: str) -> list[str]:
    opcodes = {step.id: step.opcode for step in view.steps}
    (found,) = [one for one in view.outputs if one.name == output]
    return [opcodes[number] for number in found.path]


def sentence_of(view: ScheduleView, output: str) -> str:
    return next(one.sentence for one in view.outputs if one.name == output)


@pytest.mark.parametrize(
    ("order", "control", "kind", "outputs", "path"),
    [
        ("yk", False, ReadKind.STALE, ("y",), ["abs"]),
        ("ky", False, ReadKind.LATENT, ("y",), ["custom-call", "abs"]),
        ("ky", True, ReadKind.FRESH, ("y",), ["custom-call", "abs"]),
    ],
)
def test_a_reader_is_stale_latent_or_fresh_and_the_way_leads_through_it(
    order: str, control: bool, kind: ReadKind, outputs: tuple[str, ...], path: list[str]
) -> None:
    view = view_of(write_program(), write_schedule(order, control=control), "sums", "y")
    read = read_of(view, "abs")
    assert (read.read, read.place, read.outputs) == (kind, Place.SAME_BYTES, outputs)
    assert path_of(view, "y") == path
    assert step_of(view, "abs").operands == (step_of(view, "negate").id,)
    assert path_of(view, "sums") == ["custom-call"]


def test_the_buffer_has_bytes_and_is_defined_overwritten_and_read() -> None:
    view = view_of(write_program(), write_schedule("ky", h_at=(32, 16)), "sums", "y")
    (buffer,) = view.buffers
    assert (buffer.kernel, buffer.operand, buffer.shape, buffer.size) == ("double", 0, "f32[4]", 16)
    assert (buffer.offset, buffer.is_performed, buffer.unknown) == (32, True, False)
    assert buffer.value == step_of(view, "negate").name
    opcodes = {step.id: step.opcode for step in view.steps}
    kinds = [(opcodes[one.step], one.kind) for one in view.accesses]
    assert kinds == [
        ("negate", AccessKind.DEFINE), ("custom-call", AccessKind.HIDDEN_WRITE), ("abs", AccessKind.READ),
    ]  # fmt: skip
    assert [step.is_kernel for step in view.steps] == [step.opcode == "custom-call" for step in view.steps]


def test_a_stale_output_has_the_edge_that_it_misses() -> None:
    view = view_of(write_program(), write_schedule("yk"), "sums", "y")
    edges = {one.name: one.missing for one in view.outputs}
    assert edges["sums"] == ()
    (edge,) = edges["y"]
    assert (edge.kernel, edge.reader) == (step_of(view, "custom-call").id, step_of(view, "abs").id)


@pytest.mark.parametrize(
    ("order", "control", "sentence"),
    [
        ("yk", False, "is wrong: `%abs_ld3.3` reads `%negate_ld1.2` 1 step before `double` overwrites it"),
        ("ky", False, "is right in this schedule by luck: `%abs_ld3.4` happens to read `%negate_ld1.2` 1 step after"),
        ("ky", True, "is computed from what `double` wrote, and dependences force that order"),
    ],
)
def test_a_sentence_says_what_is_read_and_when(order: str, control: bool, sentence: str) -> None:
    view = view_of(write_program(), write_schedule(order, control=control), "sums", "y")
    assert sentence_of(view, "y").startswith(f"`y` {sentence}")
    assert (
        sentence_of(view, "sums")
        == "`sums` is computed from what `double` returns, and from nothing that a kernel overwrites"
    )


def test_nothing_is_told_as_right_of_a_kernel_that_could_not_be_followed() -> None:
    view = view_of(write_program("opaque"), write_schedule("ky", "opaque", control=True), "sums", "y")
    assert read_of(view, "abs").read is ReadKind.UNKNOWN
    assert "could not be decided: whether `opaque` overwrites operand 0" in sentence_of(view, "y")


def test_who_wants_the_original_and_comes_first_reads_the_original() -> None:
    program = Program()  # y = |h| stands before the kernel, z = cos h behind it
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    y = program.op(entry, "abs", h, tag=2)
    sums = program.kernel(entry, h, tag=3)
    program.op(entry, "tuple", sums, y, shape=PAIR)

    def schedule(order: str) -> Program:
        made = Program()
        entry = made.computation("entry")
        x = made.op(entry, "parameter")
        h = made.op(entry, "negate", x, tag=1)
        y = made.op(entry, "abs", h, tag=2) if order == "yk" else None
        sums = made.kernel(entry, h, tag=3)
        y = y or made.op(entry, "abs", h, tag=2)
        made.place(x, h, sums, y)
        made.op(entry, "tuple", sums, y, shape=PAIR)
        return made

    late = view_of(program, schedule("ky"), "sums", "y")
    assert (read_of(late, "abs").read, read_of(late, "abs").place) == (ReadKind.CLOBBERED, Place.SAME_BYTES)
    assert path_of(late, "y") == ["custom-call", "abs"]
    assert "is wrong: it needs `%negate_ld1.2` as it was before `double` overwrote it" in sentence_of(late, "y")
    early = view_of(program, schedule("yk"), "sums", "y")
    assert read_of(early, "abs").read is not ReadKind.CLOBBERED
    assert read_of(early, "abs").read is not ReadKind.STALE


def test_a_reader_of_what_the_operand_was_copied_from_reads_a_copy() -> None:
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    copy = schedule.op(entry, "copy", h)
    sums = schedule.kernel(entry, copy, tag=2)
    y = schedule.op(entry, "abs", h, tag=3)
    schedule.place(x, h, copy, sums, y)
    schedule.op(entry, "tuple", sums, y, shape=PAIR)
    view = view_of(write_program(), schedule, "sums", "y")
    assert (read_of(view, "abs").read, read_of(view, "abs").place) == (ReadKind.STALE, Place.COPY)
    assert view.buffers[0].value == step_of(view, "copy").name
    assert AccessKind.READ not in {one.kind for one in view.accesses if one.step == step_of(view, "copy").id}
    assert "reads `%negate_ld1.2`, but `double` overwrites `%copy.3`, which was made from it" in sentence_of(view, "y")


def test_what_is_in_flight_is_one_step_in_its_lane_and_unknown_where_it_races() -> None:
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    start = schedule.op(entry, "all-reduce-start", h)
    sums = schedule.kernel(entry, h, tag=2)
    done = schedule.op(entry, "all-reduce-done", start)
    last = schedule.op(entry, "abs", done, tag=3)
    schedule.place(x, h, start, sums, last)
    schedule.op(entry, "tuple", sums, last, shape=PAIR)
    view = view_of(write_program(), schedule, "sums", "y")
    step = step_of(view, "all-reduce-start")
    assert (step.start, step.end, step.lane) == (2, 4, Lane.COLLECTIVE)
    assert "all-reduce-done" not in {one.opcode for one in view.steps}
    assert step_of(view, "abs").operands == (step.id,)
    assert read_of(view, "all-reduce-start").read is ReadKind.UNKNOWN


def write_loop(order: str) -> Program:
    """Carries (h, s): the kernel overwrites h, y = |h| becomes s; `order` as in `write_schedule`."""
    made = Program()
    carried = tuple_of(array(4), array(4))
    condition = made.computation("condition")
    made.op(condition, "parameter", shape=carried)
    made.place(made.op(condition, "constant"))
    body = made.computation("body")
    given = made.op(body, "parameter", shape=carried)
    for index in (0, 1):
        made.define(given, index, offset=16 * index)
    h = made.op(body, "get-tuple-element", given, tuple_index=0)
    fresh = made.op(body, "negate", h, tag=5)
    made.define(fresh, offset=0)
    results = {}
    for letter in order:
        results[letter] = made.kernel(body, fresh, tag=6) if letter == "k" else made.op(body, "abs", fresh, tag=7)
    made.define(results["k"])
    made.define(results["y"], offset=16)
    made.op(body, "tuple", fresh, results["y"], shape=carried)
    entry = made.computation("entry")
    x = made.op(entry, "parameter")
    s = made.op(entry, "cosine", x, tag=1)
    made.define(x, offset=0)
    made.define(s, offset=16)
    start = made.op(entry, "tuple", x, s, shape=carried)
    loop = made.op(entry, "while", start, tag=2, shape=carried, calls=[body, condition])
    for index in (0, 1):
        made.define(loop, index, offset=16 * index)
    made.op(entry, "get-tuple-element", loop, tuple_index=1)
    return made


def test_a_loop_is_a_step_around_its_body_and_on_the_way_out_of_it() -> None:
    view = view_of(write_loop("ky"), write_loop("yk"), "s")
    loop = step_of(view, "while")
    assert step_of(view, "cosine").start < loop.start < min(step.start for step in view.steps if step.loops) < loop.end
    assert {step.opcode for step in view.steps if step.loops == (loop.id,)} >= {"negate", "custom-call", "abs"}
    assert path_of(view, "s") == ["abs", "while"]
    assert read_of(view, "abs").read is ReadKind.STALE
    assert step_of(view, "abs").id in loop.operands
    assert loop.id in step_of(view, "negate").operands


def test_a_module_without_hidden_writes_has_its_text_and_no_steps() -> None:
    view = view_of(write_program("sum"), write_schedule("ky", "sum"), "sums", "y")
    assert (view.buffers, view.steps, view.accesses, view.anchors) == ((), (), (), ())
    assert any("custom_call_target" in line for line in view.text)
    assert sentence_of(view, "y") == "`y` does not depend on what a kernel overwrites"


def test_of_many_readers_the_wrong_one_and_the_nearest_are_kept() -> None:
    program, schedule = write_program(), Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    wrong = schedule.op(entry, "abs", h, tag=3)
    far = [schedule.op(entry, "sine", h) for _ in range(2 * MOST_STEPS)]
    sums = schedule.kernel(entry, h, tag=2)
    schedule.place(x, h, wrong, *far, sums)
    schedule.op(entry, "tuple", sums, wrong, shape=PAIR)
    view = view_of(program, schedule, "sums", "y")
    assert read_of(view, "abs").read is ReadKind.STALE
    assert len(view.steps) <= MOST_STEPS
    assert view.omitted == 2 * MOST_STEPS + 3 - sum(step.opcode != "parameter" for step in view.steps)
    assert any("more readers" in note for note in view.notes)
    shown = [step.start for step in view.steps if step.opcode == "sine"]
    assert shown == list(range(max(shown) - len(shown) + 1, max(shown) + 1))


def test_of_many_kernels_what_makes_outputs_wrong_is_shown_first() -> None:
    program, schedule = Program(), Program()
    for made in (program, schedule):
        entry = made.computation("entry")
        x = made.op(entry, "parameter")
        made.define(x)
        results = []
        for number in range(0, 60, 3):
            h = made.op(entry, "negate", x, tag=number + 1)
            is_wrong = made is schedule and number == 57
            y = made.op(entry, "abs", h, tag=number + 3) if is_wrong else None
            sums = made.kernel(entry, h, tag=number + 2)
            results += [sums, y or made.op(entry, "abs", h, tag=number + 3)]
            others = [made.op(entry, "sine", h) for _ in range(30)]
            made.place(h, sums, results[-1], *others)
        made.op(entry, "tuple", *results, shape=tuple_of(*[array(4)] * len(results)))
    view = view_of(program, schedule, *[f"output {n}" for n in range(40)])
    assert len(view.steps) == MOST_STEPS
    (wrong,) = [output for output in view.outputs if output.verdict is Verdict.STALE]
    assert wrong.missing
    assert wrong.path
    assert any("the ways to" in note and "are not shown" in note for note in view.notes)
