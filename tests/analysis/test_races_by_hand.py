"""Instructions in flight beside a kernel, and commands that a command buffer leaves unordered, in schedules by hand."""

from dataclasses import replace

import pytest

from ligerdiag.analysis.context import compute_context, compute_context_without_program
from ligerdiag.analysis.races import RaceKind, find_command_buffers, find_spans, find_unordered
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.thunks import CommandOrder, parse_thunks
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.model.findings import Verdict
from tests.analysis.by_hand import Program, effects_of, judge_modules, verdicts
from tests.analysis.pair_files import judge_pair, load_pairs, read_pair
from tests.hlo.building import array, tuple_of

ASYNC = tuple_of(tuple_of(array(4)), array(4))
PAIR = tuple_of(array(4), array(4))
READER = load_pairs("reader_in_flight")["the kernel between them"]


def test_a_race_names_the_instruction_in_flight_and_marks_the_output() -> None:
    context = judge_pair("reader_in_flight", "the kernel between them")
    (race,) = context.concurrency.races
    assert race.kind is RaceKind.READER_IN_FLIGHT
    assert (race.kernel.opcode, race.reader.opcode) == ("custom-call", "async-start")
    assert race.start is race.reader
    assert race.done is not None
    assert race.done.opcode == "async-done"
    assert [cause.raced for cause in context.verdicts.outputs["y"].causes] == [(race.key,)]


@pytest.mark.parametrize("named", ["h_ld1", "h"])
def test_a_done_with_its_own_bytes_passes_the_race_on(named: str) -> None:
    """Without the tag, nothing says that the overwritten value is the program's."""
    program, proto = read_pair(replace(READER, schedule=READER.schedule.replace("h_ld1", named)))
    made = HloProto.FromString(proto)
    done = next(i.id for i in made.hlo_module.computations[-1].instructions if i.opcode == "async-done")
    number = len(made.buffer_assignment.logical_buffers) + 1
    allocation = made.buffer_assignment.buffer_allocations.add(index=number, size=16)
    allocation.assigned.add(logical_buffer_id=number, size=16)
    buffer = made.buffer_assignment.logical_buffers.add(id=number, size=16)
    buffer.defined_at.instruction_id = done
    context = judge_modules(program, made.SerializeToString(), "sums", "y")
    assert context.verdicts.outputs["y"].verdict is Verdict.UNKNOWN
    assert [cause.raced for cause in context.verdicts.outputs["y"].causes] == [(context.concurrency.races[0].key,)]


def test_a_race_is_found_without_the_program() -> None:
    optimized, buffers = parse_hlo(read_pair(READER)[1])
    assert buffers is not None
    context = compute_context_without_program(
        optimized=optimized, buffers=buffers, effects_of=effects_of, output_names=("sums", "y")
    )
    (race,) = context.concurrency.races
    assert [cause.raced for cause in context.verdicts.outputs["y"].causes] == [(race.key,)]


@pytest.mark.parametrize(
    "label",
    ["the reader first", "the kernel first", "a reader of other bytes", "a start that XLA made synchronous"],
)
def test_a_reader_that_is_not_in_flight_does_not_race(label: str) -> None:
    assert judge_pair("reader_in_flight", label).concurrency.races == ()


def test_a_start_without_a_done_is_in_flight_to_the_end_of_its_computation() -> None:
    (race,) = judge_pair("reader_that_misses_its_done").concurrency.races
    assert race.done is None


@pytest.mark.parametrize("label", load_pairs("kernel_in_flight"))
def test_a_kernel_in_flight_races_with_a_reader_and_not_with_another_name_of_the_value(label: str) -> None:
    races = judge_pair("kernel_in_flight", label).concurrency.races
    found = [(race.kind, race.reader.opcode) for race in races]
    assert found == ([(RaceKind.KERNEL_IN_FLIGHT, "abs")] if label == "a reader" else [])


def test_a_done_belongs_to_its_start_through_updates_and_tuples() -> None:
    schedule = Program()
    callee = schedule.computation("callee")
    schedule.op(callee, "abs", schedule.op(callee, "parameter"))
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    first = schedule.op(entry, "async-start", x, shape=ASYNC, calls=[callee])
    second = schedule.op(entry, "copy-start", x, shape=PAIR)
    update = schedule.op(entry, "async-update", first, shape=ASYNC)
    schedule.op(entry, "copy-done", second)
    schedule.op(entry, "async-done", update)
    schedule.schedule(entry)
    module, _ = parse_hlo(schedule.bytes())
    assert [(span.first, span.last) for span in find_spans(module.entry)] == [(1, 5), (2, 4)]


def write_commands(control: bool = False) -> Program:
    """Builds h = -x; the kernel on h; y = |h|; z = sin(y), in the bytes of x.

    Commands without a declared conflict have no order.
    """
    schedule = Program()
    entry = schedule.computation("command_buffer")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    kernel = schedule.kernel(entry, h, tag=2)
    y = schedule.op(entry, "abs", h, tag=3)
    z = schedule.op(entry, "sine", y, tag=9)
    if control:
        y.control_predecessor_ids.append(kernel.id)
    schedule.define(x, offset=0)
    schedule.place(h, kernel, y)
    schedule.define(z, offset=0)
    schedule.op(entry, "tuple", kernel, y, shape=PAIR)
    schedule.schedule(entry)
    return schedule


@pytest.mark.parametrize(("control", "unordered"), [(False, ["abs", "sine"]), (True, [])])
def test_commands_keep_the_order_that_buffers_and_control_edges_declare(control: bool, unordered: list[str]) -> None:
    module, buffers = parse_hlo(write_commands(control).bytes())
    assert buffers is not None
    (command_buffer,) = find_command_buffers(module, None).buffers
    kernel = next(i for i in module.entry.sequence if i.opcode == "custom-call")
    found = find_unordered(command_buffer, kernel, buffers, Positions(module, buffers))
    assert [command.opcode for command in found] == unordered


@pytest.mark.parametrize(("order", "expected"), [(CommandOrder.SCHEDULE, "latent"), (CommandOrder.DECLARED, "unknown")])
def test_a_command_buffer_races_only_if_it_keeps_no_more_than_the_declared_order(
    order: CommandOrder, expected: str
) -> None:
    optimized, buffers = parse_hlo(write_commands().bytes())
    assert buffers is not None
    context = compute_context(
        program=parse_hlo(read_pair(load_pairs("reader_and_kernel")["the kernel first"])[0])[0],
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=("sums", "y"),
        traced_calls=(),
        command_order=order,
    )
    assert verdicts(context) == ["fresh", expected]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (None, "there is no thunk sequence, so races in command buffers are not found"),
        (
            "001: kCopy [source | sink] kCopy",
            "the thunks of `entry` could not be matched with instructions, so races in its command buffers are not found",
        ),
    ],
)
def test_command_buffers_that_are_not_understood_are_noted(text: str | None, note: str) -> None:
    program, schedule = read_pair(load_pairs("reader_in_flight")["the reader first"])
    optimized, buffers = parse_hlo(schedule)
    assert buffers is not None
    context = compute_context(
        program=parse_hlo(program)[0],
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=("sums", "y"),
        traced_calls=(),
        thunks=parse_thunks(text) if text is not None else None,
        command_order=CommandOrder.DECLARED,
    )
    assert context.concurrency.notes == (note,)
