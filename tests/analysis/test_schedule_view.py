"""Views of schedules by hand, as an HTML report draws them: reads, paths to the outputs, and sentences."""

import re
from dataclasses import replace

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.explain.view_builder import MOST_STEPS, compute_schedule_view
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, Lane, Place, ReadKind, ScheduleStep, ScheduleView
from tests.analysis.by_hand import Program, judge, judge_modules
from tests.analysis.pair_files import Pair, load_pairs, read_pair
from tests.analysis.view_violations import list_violations
from tests.hlo.building import array, tuple_of

ANY = "any { ROOT p = f32[] parameter(0) }\n"
"""A computation that nothing calls. XLA's parser numbers the first instruction 0, which is not a step (see `HloText`).
"""


def view_pair(name: str, label: str = "") -> ScheduleView:
    return view_texts(load_pairs(name)[label])


def view_texts(pair: Pair) -> ScheduleView:
    pair = replace(pair, schedule=pair.schedule.replace("\n", f"\n{ANY}", 1))
    return view_context(judge_modules(*read_pair(pair), *pair.expected))


def view_context(context: Context) -> ScheduleView:
    view = compute_schedule_view(context)
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
    ("label", "kind", "outputs", "path"),
    [
        ("the reader first", ReadKind.STALE, ("y",), ["abs"]),
        ("the kernel first", ReadKind.LATENT, ("y",), ["custom-call", "abs"]),
        ("the kernel first, by an edge", ReadKind.FRESH, ("y",), ["custom-call", "abs"]),
    ],
)
def test_a_reader_is_stale_latent_or_fresh_and_the_path_leads_through_it(
    label: str, kind: ReadKind, outputs: tuple[str, ...], path: list[str]
) -> None:
    view = view_pair("reader_and_kernel", label)
    read = read_of(view, "abs")
    assert (read.read, read.place, read.outputs) == (kind, Place.SAME_BYTES, outputs)
    assert path_of(view, "y") == path
    assert step_of(view, "abs").operands == (step_of(view, "negate").id,)
    assert path_of(view, "sums") == ["custom-call"]


def test_a_buffer_has_its_bytes_and_is_defined_overwritten_and_read() -> None:
    view = view_pair("reader_and_kernel", "the kernel first")
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
    view = view_pair("reader_and_kernel", "the reader first")
    edges = {one.name: one.missing for one in view.outputs}
    assert edges["sums"] == ()
    (edge,) = edges["y"]
    assert (edge.kernel, edge.reader) == (step_of(view, "custom-call").id, step_of(view, "abs").id)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("the reader first", "is wrong: `%y_ld3` reads `%h_ld1` 1 step before `double` overwrites it"),
        ("the kernel first", "is right in this schedule by luck: `%y_ld3` happens to read `%h_ld1` 1 step after"),
        ("the kernel first, by an edge", "is computed from what `double` wrote, and dependences force that order"),
    ],
)
def test_a_sentence_says_what_is_read_and_when(label: str, sentence: str) -> None:
    view = view_pair("reader_and_kernel", label)
    assert sentence_of(view, "y").startswith(f"`y` {sentence}")
    assert (
        sentence_of(view, "sums")
        == "`sums` is computed from what `double` returns, and from nothing that a kernel overwrites"
    )


def test_nothing_is_shown_as_right_if_the_effect_of_the_kernel_is_unknown() -> None:
    view = view_pair("opaque_kernel", "the kernel first, by an edge")
    assert read_of(view, "abs").read is ReadKind.UNKNOWN
    assert "could not be decided: it is unknown whether `opaque` overwrites operand 0" in sentence_of(view, "y")


def test_a_reader_that_needs_the_original_is_clobbered_only_after_the_kernel() -> None:
    late = view_pair("program_reads_before_the_kernel", "the kernel first")
    assert (read_of(late, "abs").read, read_of(late, "abs").place) == (ReadKind.CLOBBERED, Place.SAME_BYTES)
    assert path_of(late, "y") == ["custom-call", "abs"]
    assert "is wrong: it needs `%h_ld1` from before `double` overwrote it" in sentence_of(late, "y")
    early = view_pair("program_reads_before_the_kernel", "y first")
    assert read_of(early, "abs").read is not ReadKind.CLOBBERED
    assert read_of(early, "abs").read is not ReadKind.STALE


def test_a_reader_of_the_value_before_the_copy_reads_a_copy() -> None:
    view = view_pair("copied_operand")
    assert (read_of(view, "abs").read, read_of(view, "abs").place) == (ReadKind.STALE, Place.COPY)
    assert view.buffers[0].value == step_of(view, "copy").name
    assert AccessKind.READ not in {one.kind for one in view.accesses if one.step == step_of(view, "copy").id}
    assert "reads `%h_ld1`, but `double` overwrites `%copied`, which was made from `%h_ld1`" in sentence_of(view, "y")


def test_an_async_pair_is_one_step_in_its_lane_and_unknown_if_it_races() -> None:
    view = view_pair("collective_in_flight")
    step = step_of(view, "collective-permute-start")
    assert (step.start, step.end, step.lane) == (2, 4, Lane.COLLECTIVE)
    assert "collective-permute-done" not in {one.opcode for one in view.steps}
    assert step_of(view, "abs").operands == (step.id,)
    assert read_of(view, "collective-permute-start").read is ReadKind.UNKNOWN


def test_a_loop_is_a_step_around_its_body_and_on_the_path_out_of_it() -> None:
    view = view_pair("reader_in_a_loop", "the reader first")
    loop = step_of(view, "while")
    assert step_of(view, "cosine").start < loop.start < min(step.start for step in view.steps if step.loops) < loop.end
    assert {step.opcode for step in view.steps if step.loops == (loop.id,)} >= {"negate", "custom-call", "abs"}
    assert path_of(view, "s") == ["abs", "while"]
    assert read_of(view, "abs").read is ReadKind.STALE
    assert step_of(view, "abs").id in loop.operands
    assert loop.id in step_of(view, "negate").operands


def test_a_module_without_hidden_writes_has_its_text_and_no_steps() -> None:
    view = view_pair("kernel_that_only_reads")
    assert (view.buffers, view.steps, view.accesses, view.anchors) == ((), (), (), ())
    assert any("custom_call_target" in line for line in view.text)
    assert sentence_of(view, "y") == "`y` does not depend on what a kernel overwrites"


def test_of_many_readers_the_wrong_one_and_the_nearest_are_kept() -> None:
    pair = load_pairs("reader_and_kernel")["the reader first"]
    far = "".join(f"  far{n} = f32[4] sine(h_ld1)\n" for n in range(2 * MOST_STEPS))
    schedule = re.sub("(?=  sums_ld2)", far, pair.schedule)
    view = view_texts(replace(pair, schedule=schedule))
    assert read_of(view, "abs").read is ReadKind.STALE
    assert len(view.steps) <= MOST_STEPS
    assert view.omitted == 2 * MOST_STEPS + 3 - sum(step.opcode != "parameter" for step in view.steps)
    assert any("more readers" in note for note in view.notes)
    shown = [step.start for step in view.steps if step.opcode == "sine"]
    assert shown == list(range(max(shown) - len(shown) + 1, max(shown) + 1))


def test_of_many_kernels_those_that_make_outputs_wrong_are_shown_first() -> None:
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
    view = view_context(judge(program, schedule, *[f"output {n}" for n in range(40)]))
    assert len(view.steps) == MOST_STEPS
    (wrong,) = [output for output in view.outputs if output.verdict is Verdict.STALE]
    assert wrong.missing
    assert wrong.path
    assert any("the paths to" in note and "are not shown" in note for note in view.notes)
