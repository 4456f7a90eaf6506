"""What is in flight around a kernel, and what a command buffer leaves unordered, on bytes of our choice."""

import pytest

from ligerdiag.analysis.context import compute_context, compute_context_without_program
from ligerdiag.analysis.races import RaceKind, find_command_buffers, find_spans, find_unordered
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.thunks import CommandOrder, parse_thunks
from tests.analysis.by_hand import Program, effects_of, judge, verdicts
from tests.analysis.test_schedules_by_hand import PAIR, write_program
from tests.hlo.building import array, tuple_of

ASYNC = tuple_of(tuple_of(array(4)), array(4))


def write_span(order: str, *, reads: str = "h", sync: bool = False) -> Program:
    """h = -x; y is |h|, or of another value, by an async operation, in this order: s(tart), perhaps a t(uple) that
    holds it, d(one), and the k(ernel).
    """
    schedule = Program()
    callee = schedule.computation("callee")
    inner = schedule.op(callee, "parameter")
    schedule.define(schedule.op(callee, "abs", inner, tag=2))
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    made = {"x": x, "h": h}
    for letter in order:
        match letter:
            case "s":
                made["s"] = schedule.op(entry, "async-start", made[reads], shape=ASYNC, calls=[callee])
                made["s"].backend_config = b'{"collective_backend_config":{"is_sync":true}}' if sync else b""
            case "t":
                held = schedule.op(entry, "tuple", h, made["s"], shape=tuple_of(array(4), ASYNC))
                made["s"] = schedule.op(entry, "get-tuple-element", held, shape=ASYNC, tuple_index=1)
            case "d":
                made["d"] = schedule.op(entry, "async-done", made["s"])
            case _:
                made["k"] = schedule.kernel(entry, h, tag=3)
    schedule.place(x, h, made["k"])
    schedule.op(entry, "tuple", made["k"], made.get("d", made["k"]), shape=PAIR)
    return schedule


def write_original() -> Program:
    """The program that wants the original: y = |h| stands before the kernel."""
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    y = program.op(entry, "abs", h, tag=2)
    program.op(entry, "tuple", program.kernel(entry, h, tag=3), y, shape=PAIR)
    return program


@pytest.mark.parametrize(
    ("order", "races", "expected"),
    [
        ("skd", 1, "unknown"),
        ("sktd", 1, "unknown"),
        ("stkd", 1, "unknown"),
        ("sdk", 0, "latent"),
        ("ksd", 0, "clobbered"),
    ],
)
def test_a_reader_races_only_while_it_is_in_flight(order: str, races: int, expected: str) -> None:
    context = judge(write_original(), write_span(order), "sums", "y")
    assert len(context.concurrency.races) == races
    assert verdicts(context) == ["fresh", expected]


def test_a_race_says_what_is_in_flight_and_marks_the_output() -> None:
    context = judge(write_original(), write_span("skd"), "sums", "y")
    (race,) = context.concurrency.races
    assert race.kind is RaceKind.READER_IN_FLIGHT
    assert (race.kernel.opcode, race.reader.opcode) == ("custom-call", "async-start")
    assert race.start is race.reader
    assert race.done is not None
    assert race.done.opcode == "async-done"
    assert [cause.raced for cause in context.verdicts.outputs["y"].causes] == [(race.key,)]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("pair", ["async", "copy"])
def test_a_done_that_has_bytes_of_its_own_passes_the_race_on(pair: str, *, traced: bool) -> None:
    """traced: the value that is overwritten is known to be the program's; else nothing stands in what the start reads."""
    schedule = write_span("skd")
    if not traced:
        schedule.proto.hlo_module.computations[-1].instructions[1].metadata.op_name = ""
    done = schedule.proto.hlo_module.computations[-1].instructions[-2]
    if pair == "copy":
        start = next(i for i in schedule.proto.hlo_module.computations[-1].instructions if i.opcode == "async-start")
        start.opcode, done.opcode = "copy-start", "copy-done"
        start.metadata.op_name = "f/abs#ld2"
        del start.called_computation_ids[:]
        schedule.define(start, 1)
    schedule.define(done)
    context = judge(write_original(), schedule, "sums", "y")
    assert verdicts(context)[1] == "unknown"
    assert [cause.raced for cause in context.verdicts.outputs["y"].causes] == [(context.concurrency.races[0].key,)]


def test_without_a_program_a_race_is_known_all_the_same() -> None:
    schedule = write_span("skd")
    for computation in schedule.proto.hlo_module.computations:
        schedule.schedule(computation)
    optimized, buffers = parse_hlo(schedule.bytes())
    assert buffers is not None
    context = compute_context_without_program(
        optimized=optimized, buffers=buffers, effects_of=effects_of, output_names=("sums", "y")
    )
    (race,) = context.concurrency.races
    assert [cause.raced for cause in context.verdicts.outputs["y"].causes] == [(race.key,)]


def test_other_bytes_do_not_race() -> None:
    context = judge(write_original(), write_span("skd", reads="x"), "sums", "y")
    assert context.concurrency.races == ()


def test_what_xla_has_made_synchronous_is_not_in_flight() -> None:
    assert judge(write_original(), write_span("skd", sync=True), "sums", "y").concurrency.races == ()


def test_a_start_without_a_done_is_in_flight_to_the_end_of_its_computation() -> None:
    schedule = write_span("sk")
    context = judge(write_original(), schedule, "sums", "y")
    (race,) = context.concurrency.races
    assert race.done is None


def test_a_kernel_that_is_in_flight_races_with_who_stands_between() -> None:
    schedule = Program()
    callee = schedule.computation("callee")
    kernel = schedule.kernel(callee, schedule.op(callee, "parameter"), tag=2)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    start = schedule.op(entry, "async-start", h, shape=ASYNC, calls=[callee])
    y = schedule.op(entry, "abs", h, tag=3)
    z = schedule.op(entry, "sine", x, tag=9)
    done = schedule.op(entry, "async-done", start)
    schedule.place(x, h, kernel, y, z)
    schedule.op(entry, "tuple", done, y, shape=PAIR)
    context = judge(write_program(), schedule, "sums", "y")
    (race,) = context.concurrency.races
    assert race.kind is RaceKind.KERNEL_IN_FLIGHT
    assert race.reader.opcode == "abs"
    assert verdicts(context) == ["fresh", "unknown"]


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
    """h = -x; the kernel on h; y = |h|; z = sin(y), in the bytes of x: what declares no conflict has no order."""
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
def test_a_command_buffer_races_only_where_it_keeps_the_declared_order_alone(
    order: CommandOrder, expected: str
) -> None:
    optimized, buffers = parse_hlo(write_commands().bytes())
    assert buffers is not None
    context = compute_context(
        program=parse_hlo(write_program().bytes())[0],
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
        (None, "there is no thunk sequence: command buffers are not seen"),
        ("001: kCopy [source | sink] kCopy", "which instructions are the thunks of `entry` could not be told"),
    ],
)
def test_command_buffers_that_are_not_understood_are_said(text: str | None, note: str) -> None:
    schedule = write_span("sdk")
    for computation in schedule.proto.hlo_module.computations:
        schedule.schedule(computation)
    optimized, buffers = parse_hlo(schedule.bytes())
    assert buffers is not None
    context = compute_context(
        program=parse_hlo(write_original().bytes())[0],
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=("sums", "y"),
        traced_calls=(),
        thunks=parse_thunks(text) if text is not None else None,
        command_order=CommandOrder.DECLARED,
    )
    assert context.concurrency.notes == (note,)
