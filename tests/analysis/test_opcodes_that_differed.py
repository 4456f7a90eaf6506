"""Opcodes that one room took for what another did not: a case for each difference that was a bug."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ligerdiag.analysis.context import Context, compute_context_without_program
from ligerdiag.analysis.def_use import find_moves
from ligerdiag.analysis.evaluated_pair import Evaluator
from ligerdiag.analysis.evaluation.pieces import Pieces, follow_pieces
from ligerdiag.analysis.explain.neighbours import compute_neighbourhoods
from ligerdiag.analysis.reaching_definitions import find_origins, find_same_elements
from ligerdiag.analysis.writes import find_hidden_writes
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import LiteralProto
from ligerdiag.replay.ops.scope import Cell
from ligerdiag.replay.runs.loop_cuts import find_trip_count
from ligerdiag.replay.runs.program import NanWatch
from ligerdiag.rules.schedules.ld002_stale_copy import _is_gather  # pyright: ignore[reportPrivateUsage]
from tests.analysis.by_hand import Program, effects_of, judge, verdicts
from tests.analysis.test_races_by_hand import ASYNC
from tests.analysis.test_schedules_by_hand import PAIR, write_program
from tests.hlo.building import Builder, array

BARRIERS = ["opt-barrier", "domain", "add-dependency"]
NAMES = ["bitcast", "opt-barrier", "domain", "add-dependency"]
"""Give what stands there another name."""


def write_named(opcode: str, order: str) -> Program:
    """`write_program` with h read by another name: n(ame), k(ernel) and y, in this order."""
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    made = {"n": h}
    for letter in order:
        match letter:
            case "n":
                made["n"] = schedule.op(entry, opcode, h)
            case "k":
                made["k"] = schedule.kernel(entry, h, tag=2)
            case _:
                made["y"] = schedule.op(entry, "abs", made["n"], tag=3)
    schedule.place(x, h, made["k"], made["y"])
    schedule.op(entry, "tuple", made["k"], made["y"], shape=PAIR)
    return schedule


@pytest.mark.parametrize("opcode", NAMES)
@pytest.mark.parametrize(("order", "expected"), [("nky", "latent"), ("kny", "latent"), ("nyk", "stale")])
def test_a_name_changes_no_verdict_and_reads_nothing(opcode: str, order: str, expected: str) -> None:
    context = judge(write_program(), write_named(opcode, order), "sums", "y")
    assert verdicts(context) == ["fresh", expected]
    (neighbourhood,) = compute_neighbourhoods(context)
    assert opcode not in [reader.opcode for reader in neighbourhood.readers]


@pytest.mark.parametrize("opcode", NAMES)
def test_a_name_is_nobody_who_reads_the_memory(opcode: str) -> None:
    schedule = write_named(opcode, "nky")
    for computation in schedule.proto.hlo_module.computations:
        schedule.schedule(computation)
    optimized, buffers = parse_hlo(schedule.bytes())
    assert buffers is not None
    context = compute_context_without_program(
        optimized=optimized, buffers=buffers, effects_of=effects_of, output_names=("sums", "y")
    )
    (accesses,) = context.accesses.values()
    assert [one.opcode for one in (*accesses.before, *accesses.after)] == ["abs"]


def write_barred(opcode: str) -> Program:
    """The kernel on h, and y = |x| where x and what the kernel leaves in h have gone through one barrier."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h = program.op(entry, "negate", x, tag=1)
    sums = program.kernel(entry, h, tag=2)
    pair = program.op(entry, opcode, program.op(entry, "tuple", h, x, shape=PAIR), shape=PAIR, tag=3)
    y = program.op(entry, "abs", program.op(entry, "get-tuple-element", pair, tuple_index=1), tag=4)
    program.op(entry, "tuple", sums, y, shape=PAIR)
    return program


@pytest.mark.parametrize("opcode", BARRIERS)
def test_what_a_barrier_of_the_program_hands_on_depends_on_itself_alone(opcode: str) -> None:
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    y = schedule.op(entry, "abs", x, tag=4)
    sums = schedule.kernel(entry, h, tag=2)
    schedule.place(x, h, y, sums)
    schedule.op(entry, "tuple", sums, y, shape=PAIR)
    assert verdicts(judge(write_barred(opcode), schedule, "sums", "y")) == ["fresh", "fresh"]


@pytest.mark.parametrize("opcode", BARRIERS)
def test_the_origin_of_what_a_barrier_hands_on_is_behind_it(opcode: str) -> None:
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    program.kernel(entry, program.op(entry, opcode, h, tag=2), tag=3)
    (write,) = find_hidden_writes(parse_hlo(program.bytes())[0], effects_of)
    assert [frames[-1].instruction.opcode for frames in find_origins(write)] == ["negate"]


def write_kernel_in_flight(between: str, *, passes: str = "") -> Program:
    """The kernel runs asynchronously; `between` its start and its done stands this opcode, on h or on the start.

    passes: what hands the start on to its done.
    """
    schedule = Program()
    callee = schedule.computation("callee")
    kernel = schedule.kernel(callee, schedule.op(callee, "parameter"), tag=2)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    start = schedule.op(entry, "async-start", h, shape=ASYNC, calls=[callee])
    if between == "async-update":
        start = schedule.op(entry, between, start, shape=ASYNC)
    elif between:
        schedule.op(entry, between, h)
    if passes:
        start = schedule.op(entry, passes, start, shape=ASYNC)
    done = schedule.op(entry, "async-done", start)
    y = schedule.op(entry, "abs", h, tag=3)
    schedule.place(x, h, kernel, y)
    schedule.op(entry, "tuple", done, y, shape=PAIR)
    return schedule


@pytest.mark.parametrize("opcode", [*NAMES, "async-update"])
def test_what_reads_nothing_does_not_race(opcode: str) -> None:
    assert judge(write_program(), write_kernel_in_flight(opcode), "sums", "y").concurrency.races == ()


@pytest.mark.parametrize("opcode", NAMES)
def test_a_start_that_is_renamed_ends_with_its_done(opcode: str) -> None:
    assert judge(write_program(), write_kernel_in_flight("", passes=opcode), "sums", "y").concurrency.races == ()


def read_root(builder: Builder) -> HloInstruction:
    return parse_hlo(builder.bytes())[0].entry.root


@pytest.mark.parametrize(
    "opcode", ["acos", "atan2", "cosh", "is-finite", "real", "shift-right-logical", "stochastic-convert"]
)
def test_pieces_of_a_concatenation_are_told_apart_behind_every_elementwise_operation(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    root_operands = [builder.add(entry, "parameter")]
    builder.add(entry, opcode, root_operands)
    parts = Pieces((4,), 0, (2, 4), (1, 2))
    assert follow_pieces(read_root(builder), [parts]) == parts


def write_filled(steps: Sequence[str]) -> Builder:
    """x * one, with a one that goes through these opcodes."""
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    one = builder.add(entry, "constant", shape=array())
    one.literal.CopyFrom(LiteralProto(f32s=[1.0]))
    for opcode in steps:
        one = builder.add(entry, opcode, [one])
    builder.add(entry, "multiply", [x, one])
    return builder


@pytest.mark.parametrize("opcode", ["copy", "domain", "add-dependency", "opt-barrier"])
def test_times_one_is_nothing_however_the_one_is_handed_on(opcode: str) -> None:
    root = read_root(write_filled(["broadcast", opcode]))
    assert find_same_elements(root) is root.operands[0]


def test_times_a_one_of_another_element_type_is_something() -> None:
    assert find_same_elements(read_root(write_filled(["broadcast", "bitcast"]))) is None


@pytest.mark.parametrize("opcode", ["copy", "domain", "add-dependency", "opt-barrier"])
def test_a_rounding_is_found_behind_every_form_of_its_term(opcode: str) -> None:
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    term = program.kernel(entry, h, tag=2)
    sums = program.op(entry, "add", h, program.op(entry, opcode, term), tag=3)
    program.op(entry, "subtract", sums, term, tag=4)
    module = parse_hlo(program.bytes())[0]
    writes = find_hidden_writes(module, effects_of)
    intended = SimpleNamespace(outputs=[1])
    run = cast(Any, SimpleNamespace(space=SimpleNamespace(mark=lambda _: 1), run_intended=lambda _: intended))
    (found,) = Evaluator.find_roundings(run, writes, ("y",))
    assert (found.subtraction.opcode, found.outputs) == ("subtract", ("y",))


@pytest.mark.parametrize("opcode", ["reverse", "dynamic-slice"])
def test_what_moves_a_constant_of_nans_does_not_make_the_first_nan(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, opcode, [builder.add(entry, "constant")])
    watch = NanWatch()
    watch.before([Cell(np.full(4, np.nan, np.float32))])
    watch.after(read_root(builder), [Cell(np.full(4, np.nan, np.float32))])
    assert watch.first is None


@pytest.mark.parametrize("opcode", ["domain", "add-dependency", "opt-barrier"])
def test_a_loop_is_counted_through_what_hands_its_limit_on(opcode: str) -> None:
    assert find_trip_count(*write_loop(opcode)) == 7


def write_loop(opcode: str) -> tuple[HloModule, HloInstruction]:
    builder = Builder()
    scalar, state = array(), cast(Any, PAIR)
    body = builder.computation("body")
    builder.add(body, "parameter", shape=state)
    condition = builder.computation("condition")
    counter = builder.add(condition, "get-tuple-element", [builder.add(condition, "parameter", shape=state)], scalar)
    limit = builder.add(condition, "constant", shape=scalar)
    limit.literal.CopyFrom(LiteralProto(s32s=[7]))
    compare = builder.add(condition, "compare", [counter, builder.add(condition, opcode, [limit], scalar)], scalar)
    compare.comparison_direction = "LT"
    entry = builder.computation("entry")
    first = builder.add(entry, "constant", shape=scalar)
    first.literal.CopyFrom(LiteralProto(s32s=[0]))
    start = builder.add(entry, "tuple", [first, builder.add(entry, "parameter")], state)
    builder.add(entry, "while", [start], state, [body, condition])
    module = parse_hlo(builder.bytes())[0]
    return module, module.entry.root


def test_a_collective_broadcast_only_moves() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, "collective-broadcast", [builder.add(entry, "parameter")])
    module = parse_hlo(builder.bytes())[0]
    assert find_moves(module, module.entry.root) == ("collective-broadcast",)


@pytest.mark.parametrize("opcode", ["collective-permute", "collective-permute-start", "collective-permute-done"])
def test_a_permute_is_gathered_from_elsewhere_in_each_of_its_phases(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, opcode, [builder.add(entry, "parameter")])
    assert _is_gather(cast(Context, None), read_root(builder))
