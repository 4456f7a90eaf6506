"""Opcodes that two packages once treated differently: a case for each difference that was a bug."""

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
from ligerdiag.analysis.reaching_definitions import find_origins
from ligerdiag.analysis.writes import find_hidden_writes
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import LiteralProto
from ligerdiag.provenance.value_numbers import find_same_elements
from ligerdiag.replay.ops.scope import Cell
from ligerdiag.replay.runs.loop_cuts import find_trip_count
from ligerdiag.replay.runs.program import NanWatch
from ligerdiag.rules.schedules.ld002_stale_copy import _is_gather  # pyright: ignore[reportPrivateUsage]
from tests.analysis.by_hand import Program, effects_of
from tests.analysis.pair_files import judge_pair, load_pairs, read_pair
from tests.hlo.building import Builder, array, tuple_of

BARRIERS = ["opt-barrier", "domain", "add-dependency"]
NAMED = load_pairs("another_name")


@pytest.mark.parametrize("label", NAMED)
def test_an_instruction_that_only_renames_a_value_is_not_a_reader(label: str) -> None:
    (neighbourhood,) = compute_neighbourhoods(judge_pair("another_name", label))
    assert [reader.opcode for reader in neighbourhood.readers] == ["abs"]


@pytest.mark.parametrize("label", [label for label in NAMED if label.startswith("the name first")])
def test_an_instruction_that_only_renames_a_value_accesses_no_memory(label: str) -> None:
    optimized, buffers = parse_hlo(read_pair(NAMED[label])[1])
    assert buffers is not None
    context = compute_context_without_program(
        optimized=optimized, buffers=buffers, effects_of=effects_of, output_names=("sums", "y")
    )
    (accesses,) = context.accesses.values()
    assert [one.opcode for one in (*accesses.before, *accesses.after)] == ["abs"]


@pytest.mark.parametrize("opcode", BARRIERS)
def test_the_origin_of_a_value_is_found_through_a_barrier(opcode: str) -> None:
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    program.kernel(entry, program.op(entry, opcode, h, tag=2), tag=3)
    (write,) = find_hidden_writes(parse_hlo(program.bytes())[0], effects_of)
    assert [frames[-1].instruction.opcode for frames in find_origins(write)] == ["negate"]


def read_root(builder: Builder) -> HloInstruction:
    return parse_hlo(builder.bytes())[0].entry.root


@pytest.mark.parametrize(
    "opcode", ["acos", "atan2", "cosh", "is-finite", "real", "shift-right-logical", "stochastic-convert"]
)
def test_every_elementwise_operation_keeps_the_pieces_of_a_concatenation(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    root_operands = [builder.add(entry, "parameter")]
    builder.add(entry, opcode, root_operands)
    parts = Pieces((4,), 0, (2, 4), (1, 2))
    assert follow_pieces(read_root(builder), [parts]) == parts


def write_filled(steps: Sequence[str]) -> Builder:
    """Returns x * one, where the one goes through these opcodes."""
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
def test_multiplication_by_one_is_recognized_however_the_one_is_passed_on(opcode: str) -> None:
    root = read_root(write_filled(["broadcast", opcode]))
    assert find_same_elements(root) is root.operands[0]


def test_multiplication_by_a_one_of_another_element_type_is_not_skipped() -> None:
    assert find_same_elements(read_root(write_filled(["broadcast", "bitcast"]))) is None


@pytest.mark.parametrize("opcode", ["copy", "domain", "add-dependency", "opt-barrier"])
def test_a_rounding_is_found_however_its_term_is_passed_on(opcode: str) -> None:
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    term = program.kernel(entry, h, tag=2)
    sums = program.op(entry, "add", h, program.op(entry, opcode, term), tag=3)
    program.op(entry, "subtract", sums, term, tag=4)
    module = parse_hlo(program.bytes())[0]
    writes = find_hidden_writes(module, effects_of)
    run = cast(Any, SimpleNamespace(find_dependents=lambda paths: (frozenset(paths),)))
    (found,) = Evaluator.find_roundings(run, writes, ("y",))
    assert (found.subtraction.opcode, found.outputs) == ("subtract", ("y",))


@pytest.mark.parametrize("opcode", ["reverse", "dynamic-slice"])
def test_an_operation_that_moves_a_constant_of_nans_does_not_make_the_first_nan(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, opcode, [builder.add(entry, "constant")])
    watch = NanWatch()
    watch.before([Cell(np.full(4, np.nan, np.float32))])
    watch.after(read_root(builder), [Cell(np.full(4, np.nan, np.float32))])
    assert watch.first is None


@pytest.mark.parametrize("opcode", ["domain", "add-dependency", "opt-barrier"])
def test_the_trips_of_a_loop_are_counted_however_its_limit_is_passed_on(opcode: str) -> None:
    assert find_trip_count(*write_loop(opcode)) == 7


def write_loop(opcode: str) -> tuple[HloModule, HloInstruction]:
    builder = Builder()
    scalar, state = array(), tuple_of(array(4), array(4))
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


def test_a_collective_broadcast_only_moves_data() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, "collective-broadcast", [builder.add(entry, "parameter")])
    module = parse_hlo(builder.bytes())[0]
    assert find_moves(module, module.entry.root) == ("collective-broadcast",)


@pytest.mark.parametrize("opcode", ["collective-permute", "collective-permute-start", "collective-permute-done"])
def test_each_phase_of_a_collective_permute_counts_as_a_gather(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, opcode, [builder.add(entry, "parameter")])
    assert _is_gather(cast(Context, None), read_root(builder))
